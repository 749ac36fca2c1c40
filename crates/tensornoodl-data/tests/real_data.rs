//! Real tables from the folder that NOODL_DATA names. Without it the tests are reported as ignored.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::env::var_os;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use libtest_mimic::{Arguments, Trial};
use tensornoodl::parallel::Solo;
use tensornoodl::{
    DiscoverParams, Learner, ModelKind, Params, Passes, Place, Shape, Surprise, Tensor, significant,
};
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
        assert!(total < 0.1 && shape < 0.1 && tail < 0.02, "{table}: {total} {shape} {tail}");
        assert!(listed <= 1, "{table}: {listed}");
    }
}

/// The amino acids: 5 samples x 201 emissions x 61 excitations. The first three samples are pure.
fn amino_acids() -> ([usize; 3], Vec<f64>) {
    let file = std::fs::File::open(data("aminoacids.npz")).unwrap();
    let mut bytes = Vec::new();
    zip::ZipArchive::new(file).unwrap().by_name("X.npy").unwrap().read_to_end(&mut bytes).unwrap();
    let start = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let values = bytes[start..].chunks_exact(8).map(|value| f64::from_le_bytes(value.try_into().unwrap()));
    ([5, 201, 61], values.collect())
}

/// A vector of unit length.
fn unit(mut vector: Vec<f64>) -> Vec<f64> {
    let length = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
    vector.iter_mut().for_each(|x| *x /= length);
    vector
}

/// The emission spectrum of a pure sample: its leading singular vector.
fn spectrum(sample: &[f64], excitations: usize) -> Vec<f64> {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut v = vec![1.0; excitations];
    for _ in 0..100 {
        let u: Vec<f64> = sample.chunks_exact(excitations).map(|row| dot(row, &v)).collect();
        let mut next = vec![0.0; excitations];
        for (row, u) in sample.chunks_exact(excitations).zip(&u) {
            next.iter_mut().zip(row).for_each(|(next, x)| *next += u * x);
        }
        v = unit(next);
    }
    unit(sample.chunks_exact(excitations).map(|row| dot(row, &v)).collect())
}

fn three_amino_acids_are_found_in_all_orientations_and_polished() {
    let (lengths, values) = amino_acids();
    let pure: Vec<Vec<f64>> =
        values.chunks_exact(201 * 61).take(3).map(|sample| spectrum(sample, 61)).collect();
    for (axes, kind) in [
        ([0, 1, 2], ModelKind::Exact),
        ([1, 0, 2], ModelKind::Exact),
        ([2, 0, 1], ModelKind::Exact),
        ([1, 0, 2], ModelKind::Counts),
    ] {
        let [features, rows, cols] = axes.map(|axis| lengths[axis]);
        let (mut fibers, mut places) = (Vec::new(), Vec::new());
        for (col, row) in (0..cols).flat_map(|col| (0..rows).map(move |row| (col, row))) {
            for feature in 0..features {
                let mut at = [0; 3];
                (at[axes[0]], at[axes[1]], at[axes[2]]) = (feature, row, col);
                let value = values[(at[0] * 201 + at[1]) * 61 + at[2]];
                fibers.push(if kind == ModelKind::Counts { value.max(0.0) } else { value });
            }
            places.push(Place { row: row as u32, col: col as u32 });
        }
        let tensor = Tensor::from_fibers(Shape { features, rows, cols }, fibers, places).unwrap();
        let params = Params { passes: Passes::Exhaust, ..Params::default() };
        let mut learner = match kind {
            ModelKind::Exact => {
                let auto = DiscoverParams::default();
                Learner::from_tensor(Arc::new(Solo), &tensor, params, auto, false).unwrap()
            }
            ModelKind::Counts => {
                let three =
                    DiscoverParams { min_patterns: 3, max_patterns: Some(3), ..DiscoverParams::default() };
                Learner::for_counts(features, params, three).unwrap()
            }
        };
        let step = learner.learn(&tensor).unwrap();
        assert_eq!(learner.dictionary().patterns(), 3, "{axes:?}");
        let polish = learner.polish(&tensor, &step.codes.untangle()).unwrap();
        assert_eq!(kind == ModelKind::Exact, (0.013..0.015).contains(&polish.negative));
        let column = |i: usize| -> Vec<f64> {
            let sparse = match axes.iter().position(|axis| *axis == 1) {
                Some(0) => return unit(learner.dictionary().pattern(i).to_vec()),
                Some(1) => &polish.factors.rows,
                _ => &polish.factors.cols,
            };
            let mut dense = vec![0.0; sparse.rows()];
            sparse.column(i).iter().for_each(|&(at, x)| dense[at as usize] = x);
            unit(dense)
        };
        for spectrum in &pure {
            let cosine = |i: usize| column(i).iter().zip(spectrum).map(|(a, b)| a * b).sum::<f64>().abs();
            let best = (0..3).map(cosine).fold(0.0, f64::max);
            assert!(best >= 0.999, "{axes:?} {kind:?}: {best}");
        }
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
        trial("p_values_of_thinned_tables_are_uniform", p_values_of_thinned_tables_are_uniform),
        trial(
            "three_amino_acids_are_found_in_all_orientations_and_polished",
            three_amino_acids_are_found_in_all_orientations_and_polished,
        ),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
