//! Real tables from the folder that NOODL_DATA names. Without it the tests are reported as ignored.

#![allow(clippy::unwrap_used)]

mod common;

use std::env::var_os;
use std::path::{Path, PathBuf};

use libtest_mimic::{Arguments, Trial};
use tensornoodl::{DiscoverParams, Learner, Params, Surprise, Tensor, significant};
use tensornoodl_data::{Query, table};

use common::query;

/// The path of a real table.
fn data(file: &str) -> PathBuf {
    Path::new(&var_os("NOODL_DATA").unwrap()).join(file)
}

fn enron_is_the_tensor_of_the_literature() {
    let path = data("enron_emails.csv");
    let filters = vec!["from!=@to".parse().unwrap()];
    let events = table::read(&path, Query { filters, ..query("month(time)", "from", "to") }).unwrap();
    assert_eq!(
        (events.features.names.len(), events.cells(), events.fibers(), events.sum()),
        (44, 9_838, 3_007, 34_427.0)
    );
    assert_eq!((events.tally.events, events.tally.filtered), (38_131, 3_704));
}

fn a_season_has_27_weeks() {
    let path = data("nba_2018-19_shots.csv.gz");
    let shots = Query {
        step: Some("week(date)".parse().unwrap()),
        average_over: Some("game".into()),
        keep_rows: Some(100),
        ..query("grid(loc_x,loc_y,12x10,-250:250,-52.5:417.5)", "player", "opponent")
    };
    let events = table::read(&path, shots).unwrap();
    assert_eq!((events.shape().to_string(), events.steps()), ("120 x 100 x 30".into(), 27));
    assert_eq!(events.tally.events, 219_458);
    assert!(events.tally.outside > 100 && events.tally.outside < 1000, "{}", events.tally.outside);
}

/// Deals the events of a table to as many steps at random: what is left is a stream in which nothing is unusual.
fn thinned(table: &str, query: Query, steps: usize) -> Vec<Tensor<'static>> {
    let events = table::read(&data(table), query).unwrap();
    let tensor = events.tensor(0).unwrap();
    let mut state = 1_u64;
    let mut draw = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 33) as usize % steps
    };
    let mut dealt = vec![Vec::new(); steps];
    for (at, place) in tensor.places().iter().enumerate() {
        for (feature, count) in tensor.entries(at) {
            for _ in 0..count as usize {
                dealt[draw()].push((feature as usize, place.row as usize, place.col as usize, 1.0));
            }
        }
    }
    dealt.iter().map(|entries| Tensor::from_triplets(tensor.shape(), entries).unwrap()).collect()
}

/// The Kolmogorov-Smirnov statistic of p-values.
fn distance_from_uniform(p: impl Iterator<Item = f64>) -> f64 {
    let mut p: Vec<f64> = p.collect();
    p.sort_unstable_by(f64::total_cmp);
    let count = p.len() as f64;
    assert!(count > 300.0, "{count}");
    p.iter().enumerate().fold(0.0, |most: f64, (at, p)| most.max((at as f64 + 0.5 - p * count).abs() / count))
}

fn p_values_of_thinned_tables_are_uniform() {
    let school = query("other", "person", "day(time)");
    let enron = Query { filters: vec!["from!=@to".parse().unwrap()], ..query("hour(time)", "from", "to") };
    for (table, query) in [("school_contacts.csv.gz", school), ("enron_emails.csv", enron)] {
        let steps = thinned(table, query, 20);
        let features = steps[0].shape().features;
        let mut learner =
            Learner::for_counts(features, Params::default(), DiscoverParams::default()).unwrap();
        let (mut all, mut listed): (Vec<Surprise>, usize) = (Vec::new(), 0);
        for (at, step) in steps.iter().enumerate() {
            if at >= 5 {
                let surprises = learner.surprises(step, |value| value).unwrap();
                listed += significant(&surprises).len();
                all.extend(surprises);
            }
            learner.learn(step).unwrap();
        }
        // The p-values of few events have large steps, which are no fault.
        let totals = all.iter().filter(|it| it.expected > 10.0).map(|it| it.p_total);
        let shapes = || all.iter().filter(|it| it.events > 5.0).map(|it| it.p_shape);
        let tail = shapes().filter(|p| *p < 0.01).count() as f64 / shapes().count() as f64;
        let (total, shape) = (distance_from_uniform(totals), distance_from_uniform(shapes()));
        assert!(total < 0.07 && shape < 0.07 && tail < 0.02, "{table}: {total} {shape} {tail}");
        assert!(listed <= 1, "{table}: {listed}");
    }
}

fn main() {
    let trial = |name: &str, test: fn()| {
        let trial = Trial::test(name, move || {
            test();
            Ok(())
        });
        if var_os("NOODL_DATA").is_some() {
            return trial;
        }
        trial.with_ignored_flag(true).with_kind("NOODL_DATA is not set")
    };
    let trials = vec![
        trial("enron_is_the_tensor_of_the_literature", enron_is_the_tensor_of_the_literature),
        trial("a_season_has_27_weeks", a_season_has_27_weeks),
        trial("p_values_of_thinned_tables_are_uniform", p_values_of_thinned_tables_are_uniform),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
