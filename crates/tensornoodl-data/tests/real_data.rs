//! Real tables from the folder that NOODL_DATA names. Without it the tests are reported as ignored.

#![allow(clippy::unwrap_used)]

mod common;

use std::env::var_os;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use libtest_mimic::{Arguments, Trial};
use tensornoodl::parallel::Solo;
use tensornoodl::{DiscoverParams, Learner, ModelKind, Params, Passes, Place, Shape, Tensor};
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
        trial(
            "three_amino_acids_are_found_in_all_orientations_and_polished",
            three_amino_acids_are_found_in_all_orientations_and_polished,
        ),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
