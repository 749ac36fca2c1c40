//! Real tables from the folder that NOODL_DATA names. Without it the tests are reported as ignored.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::env::var_os;
use std::path::{Path, PathBuf};

use libtest_mimic::{Arguments, Trial};
use tensornoodl::{DiscoverParams, Learner, Params, Passes};
use tensornoodl_data::{Model, Query, Recipe, table};

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

/// Normalized mutual information of two labellings: 1 if each determines the other, 0 if they are independent.
fn mutual_information(pairs: &[(usize, &str)]) -> f64 {
    let entropy = |keys: Vec<String>| {
        let mut counts: BTreeMap<String, f64> = BTreeMap::new();
        keys.into_iter().for_each(|key| *counts.entry(key).or_default() += 1.0 / pairs.len() as f64);
        -counts.values().map(|share| share * share.ln()).sum::<f64>()
    };
    let found = entropy(pairs.iter().map(|pair| pair.0.to_string()).collect());
    let known = entropy(pairs.iter().map(|pair| pair.1.to_string()).collect());
    let both = entropy(pairs.iter().map(|pair| format!("{} {}", pair.0, pair.1)).collect());
    2.0 * (found + known - both) / (found + known)
}

/// With the times of day as patterns, the groups of a primary school are its classes, and those who eat together.
fn the_groups_of_a_school_are_its_classes() {
    let classes = format!("{}(id,class)", data("school_people.csv").display());
    let query =
        Query { groups: Some(classes.parse().unwrap()), ..query("slot(time,20min)", "person", "other") };
    let events = table::read(&data("school_contacts.csv.gz"), query.clone()).unwrap();
    for seed in 0..5 {
        let discover = DiscoverParams { seed, ..DiscoverParams::default() };
        let params = Params { passes: Passes::Exhaust, ..Params::default() };
        let learner = Learner::for_counts(events.shape().features, params, discover).unwrap();
        let mut model = Model::new(learner, &events, Recipe::default(), "", query.clone(), "", seed);
        model.learn(&events.tensor(0).unwrap()).unwrap();
        // The group with the largest weight of each child, in any pattern.
        let mut main: BTreeMap<usize, (f64, usize)> = BTreeMap::new();
        for group in (0..model.learner.dictionary().patterns()).flat_map(|pattern| model.groups(pattern)) {
            for (child, weight) in group.rows {
                let most = main.entry(child).or_default();
                *most = if weight > most.0 { (weight, group.number) } else { *most };
            }
        }
        let is_child = |row: &usize| events.row_groups[*row] != "Teachers";
        let pairs: Vec<(usize, &str)> = (0..events.rows.names.len())
            .filter(is_child)
            .map(|row| (main[&row].1, events.row_groups[row].as_str()))
            .collect();
        let agreement = mutual_information(&pairs);
        assert!(pairs.len() == 232 && agreement >= 0.88, "seed {seed}: {agreement}");
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
        trial("the_groups_of_a_school_are_its_classes", the_groups_of_a_school_are_its_classes),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
