//! The equations of the counts model, compared with numbers from an independent NumPy script
//! (`tests/golden/counts.py`).
//!
//! `tests/golden.rs` does the same for the exact model, whose equations can be reached from outside of the crate.

use serde_json::Value;

use crate::data::dictionary::Dictionary;
use crate::discover::counts::hidden::{CountFibers, HiddenCells};
use crate::discover::counts::mixture::Mixture;
use crate::encode::counts::{CountCoder, FeatureRows, PlaceShares};
use crate::shape::Place;
use crate::surprise::chance::NegativeBinomial;
use crate::untangle::counts::poisson_pair;
use crate::update::counts::{CodedFiber, EventSums, Statistics};

fn golden() -> Value {
    serde_json::from_str(include_str!("../tests/golden/counts.json")).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    serde_json::from_value(value.clone()).unwrap()
}

fn columns(value: &Value) -> Vec<Vec<f64>> {
    serde_json::from_value(value.clone()).unwrap()
}

fn place(value: &Value) -> Place {
    let [row, col] = serde_json::from_value(value.clone()).unwrap();
    Place { row, col }
}

/// The entries of a column that are not zero.
fn entries(column: &[f64]) -> Vec<(u32, f64)> {
    (0..).zip(column.iter().copied()).filter(|entry| entry.1 != 0.0).collect()
}

fn fibers(golden: &Value) -> CountFibers {
    let columns = columns(&golden["fibers"]);
    let mut fibers = CountFibers::new(columns[0].len());
    columns.iter().for_each(|column| fibers.fibers.push(&entries(column)));
    fibers.places = golden["places"].as_array().unwrap().iter().map(place).collect();
    fibers
}

/// The coder that expects at a place what earlier fibers of its row and col had.
fn coder(golden: &Value) -> CountCoder {
    let patterns = columns(&golden["dictionary"]);
    let dictionary = Dictionary::with_unit_sums(patterns[0].len(), patterns.concat());
    let mut places = PlaceShares::default();
    for fiber in golden["past"].as_array().unwrap() {
        places.add(place(&fiber["place"]), &numbers(&fiber["code"]));
    }
    CountCoder::new(&dictionary, &numbers(&golden["shares"])).expecting(places)
}

fn coded<'a>(coder: &CountCoder, fibers: &'a CountFibers) -> Vec<CodedFiber<'a>> {
    let columns = fibers.fibers.columns().zip(&fibers.places);
    columns.map(|(fiber, place)| CodedFiber::new(coder, *place, fiber)).collect()
}

#[track_caller]
fn assert_near(found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    let largest = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(largest <= tolerance, "differs by {largest:e}\n found {found:?}\n expected {expected:?}");
}

#[test]
fn soft_codes_equal_the_golden_codes() {
    let golden = golden();
    let (coder, fibers) = (coder(&golden), fibers(&golden));
    let expected = columns(&golden["soft"]);
    for ((fiber, place), expected) in fibers.fibers.columns().zip(&fibers.places).zip(&expected) {
        assert_near(&coder.soft(*place, fiber)[..expected.len()], expected, 1e-9);
    }
}

#[test]
fn codes_on_supports_equal_the_golden_codes() {
    let golden = golden();
    let (coder, fibers) = (coder(&golden), fibers(&golden));
    for (coded, expected) in coded(&coder, &fibers).iter().zip(golden["codes"].as_array().unwrap()) {
        let expected = expected.as_array().unwrap();
        assert_eq!(coded.codes.len(), expected.len());
        for (own, expected) in coded.codes.iter().zip(expected) {
            let code = numbers(&expected["code"]);
            let mut dense = vec![0.0; code.len()];
            own.code.iter().for_each(|&(pattern, x)| dense[pattern as usize] = x);
            assert_near(&dense, &code, 1e-9);
            assert_near(&[own.probability], &[number(&expected["probability"])], 1e-10);
        }
    }
}

#[test]
fn poisson_factors_equal_the_golden_factors() {
    let golden = &golden()["factors"];
    let column = |(col, column): (u32, Vec<f64>)| {
        entries(&column).into_iter().map(move |(row, x)| (row, col, x)).collect::<Vec<_>>()
    };
    let cells: Vec<(u32, u32, f64)> = (0..).zip(columns(&golden["matrix"])).flat_map(column).collect();
    let pair = poisson_pair(&cells).unwrap();
    for (found, name) in [(&pair.row, "rows"), (&pair.col, "cols")] {
        let expected = numbers(&golden[name]);
        let mut dense = vec![0.0; expected.len()];
        found.iter().for_each(|&(index, value)| dense[index as usize] = value);
        assert_near(&dense, &expected, 1e-12);
    }
    assert_near(&[pair.rank_one], &[number(&golden["rank_one"])], 1e-12);
    assert!(pair.rank_one < 0.99, "the matrix must not have rank one");
}

#[test]
fn online_expectation_maximization_equals_the_golden_statistics() {
    let golden = golden();
    let (coder, fibers, update) = (coder(&golden), fibers(&golden), &golden["update"]);
    let (before, features) = (columns(&update["before"]).concat(), numbers(&update["before_features"]));
    let mut sums = EventSums::new(features.len(), coder.rows().patterns());
    sums.add(&coder, &coded(&coder, &fibers));
    let before = Statistics { patterns: before, features };
    let after = before.add(&sums, number(&update["forgetting"]));
    // Each of the 30 fibers rounds its share of a cell to a multiple of 2^-24 for each of at most 6 supports.
    let rounding = 30.0 * 6.0 / f64::from(1 << 25);
    assert_near(&after.patterns, &columns(&update["after"]).concat(), rounding);
    assert_near(&after.features, &numbers(&update["after_features"]), 1e-9);
    assert_near(after.dictionary().values(), &columns(&update["dictionary"]).concat(), rounding);
    assert_near(&[sums.fit(&after.mean())], &[number(&update["fit"])], 1e-9);
}

#[test]
fn fits_with_hidden_cells_equal_the_golden_fits() {
    let golden = golden();
    let (fibers, masked) = (fibers(&golden), &golden["masked"]);
    let whole = |value: &Value| value.as_u64().unwrap() as usize;
    let cells = HiddenCells::rotation(&fibers, masked["seed"].as_u64().unwrap(), whole(&masked["rotation"]));
    for (fiber, hidden) in columns(&masked["hidden"]).iter().enumerate() {
        let own = cells.feature_folds.iter().map(|&fold| f64::from(u8::from(fold == cells.fold(fiber))));
        assert_eq!(own.collect::<Vec<_>>(), *hidden);
    }
    let [start, past] = ["start", "past"]
        .map(|name| FeatureRows::from_columns(cells.features, &columns(&masked[name]).concat()));
    let mut fit = Mixture::with_past(&cells, start, past);
    fit.iterate(&cells, whole(&masked["iterations"]));
    assert_near(&fit.rows.columns(), &columns(&masked["dictionary"]).concat(), 1e-10);
    for (fiber, code) in columns(&masked["codes"]).iter().enumerate() {
        assert_near(&fit.code(fiber)[..code.len()], code, 1e-8);
    }
    assert_near(&fit.hidden_log_likelihoods(&cells), &numbers(&masked["scores"]), 1e-8);
    assert_near(&[fit.log_likelihood(&cells)], &[number(&masked["seen"])], 1e-7);
}

#[test]
fn negative_binomial_tails_equal_the_golden_tails() {
    for case in columns(&golden()["tails"]) {
        let [mean, size, count, ln_probability, below, above, p] = case[..] else { panic!("{case:?}") };
        let law = NegativeBinomial::new(mean, size);
        let tails = law.tails(count);
        let found = [law.ln_probability(count), tails.below, tails.above, tails.p_value()];
        assert_near(&found, &[ln_probability, below, above, p], 1e-10);
    }
}
