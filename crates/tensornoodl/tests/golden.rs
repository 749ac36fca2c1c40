//! Each equation of the paper, compared with numbers from an independent NumPy script (golden/make.py).
//!
//! The codes are not +-1 and the fibers are noisy, so that a sign instead of a value, a missing square root or a wrong
//! scale makes a test fail.

#![allow(clippy::unwrap_used)]

use serde_json::Value;
use tensornoodl::{
    Codes, Dictionary, Learner, Params, Passes, Place, Rule, Samples, Shape, Solver, Sparse, Tensor,
};

fn golden() -> Value {
    serde_json::from_str(include_str!("golden/golden.json")).unwrap()
}

fn columns(value: &Value) -> Vec<Vec<f64>> {
    serde_json::from_value(value.clone()).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn dictionary(value: &Value) -> Dictionary {
    let columns = columns(value);
    Dictionary::from_columns(columns[0].len(), columns.concat()).unwrap()
}

fn tensor(shape: &Value, of: &Value) -> Tensor<'static> {
    let [features, rows, cols]: [usize; 3] = serde_json::from_value(shape.clone()).unwrap();
    let places: Vec<[u32; 2]> = serde_json::from_value(of["places"].clone()).unwrap();
    let places: Vec<Place> = places.into_iter().map(|[row, col]| Place { row, col }).collect();
    Tensor::from_fibers(Shape { features, rows, cols }, columns(&of["fibers"]).concat(), places).unwrap()
}

fn params(golden: &Value, solver: Solver) -> Params {
    let steps = golden["iht_steps"].as_u64().unwrap() as usize;
    let (iht_steps, code_tolerance) = match solver {
        Solver::Iht => (steps, 0.0),
        Solver::Direct => (Params::default().iht_steps, Params::default().code_tolerance),
    };
    Params {
        solver,
        iht_steps,
        code_tolerance,
        eta_x: number(&golden["eta_x"]),
        tau: number(&golden["tau"]),
        code_floor: number(&golden["code_floor"]),
        ..Params::default()
    }
}

fn dense(matrix: &Sparse) -> Vec<Vec<f64>> {
    let column = |entries: &[(u32, f64)]| {
        let mut column = vec![0.0; matrix.rows()];
        entries.iter().for_each(|&(row, value)| column[row as usize] = value);
        column
    };
    matrix.columns().map(column).collect()
}

#[track_caller]
fn assert_near(found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    let largest = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(largest <= tolerance, "differs by {largest:e}\n found {found:?}\n expected {expected:?}");
}

#[test]
fn iht_codes_equal_the_golden_codes() {
    let golden = golden();
    let learner = Learner::new(dictionary(&golden["start"]), params(&golden, Solver::Iht)).unwrap();
    let codes = learner.encode(&tensor(&golden["shape"], &golden)).unwrap();
    assert_near(&dense(codes.matrix()).concat(), &columns(&golden["iht_codes"]).concat(), 1e-13);
}

#[test]
fn direct_codes_equal_the_golden_limit_of_iht() {
    let golden = golden();
    let mut learner = Learner::new(dictionary(&golden["start"]), params(&golden, Solver::Direct)).unwrap();
    let tensor = tensor(&golden["shape"], &golden);
    let codes = learner.encode(&tensor).unwrap();
    assert_near(&dense(codes.matrix()).concat(), &columns(&golden["direct_codes"]).concat(), 1e-12);
    let counts = learner.learn(&tensor).unwrap().solver_counts;
    assert!(
        counts.direct > 0 && counts.iht > 0 && counts.unconverged == 0,
        "both solvers are used: {counts:?}"
    );
}

#[test]
fn the_papers_step_equals_the_golden_dictionary() {
    let golden = golden();
    let tensor = tensor(&golden["shape"], &golden);
    for (samples, name) in [(Samples::All, "paper_step"), (Samples::Independent, "paper_step_independent")] {
        let rule = Rule::Paper { eta_a: number(&golden["eta_a"]) };
        let params = Params { rule, samples, ..params(&golden, Solver::Iht) };
        let mut learner = Learner::new(dictionary(&golden["start"]), params).unwrap();
        let step = learner.learn(&tensor).unwrap();
        assert_near(learner.dictionary().values(), &columns(&golden[name]).concat(), 1e-13);
        let diagonal = tensor.places().iter().filter(|place| place.row == place.col).count();
        assert_eq!(step.fibers_used, if samples == Samples::All { tensor.fibers() } else { diagonal });
    }
}

#[test]
fn untangled_factors_equal_the_golden_singular_vectors() {
    let golden = golden();
    let tensor = tensor(&golden["shape"], &golden);
    let mut matrix = Sparse::new(columns(&golden["iht_codes"])[0].len());
    for column in columns(&golden["iht_codes"]) {
        let entries: Vec<(u32, f64)> = (0..).zip(column).filter(|(_, x)| *x != 0.0).collect();
        matrix.push(&entries);
    }
    let factors = Codes::new(matrix, &tensor).untangle();
    assert_near(&dense(&factors.rows).concat(), &columns(&golden["row_factor"]).concat(), 1e-11);
    assert_near(&dense(&factors.cols).concat(), &columns(&golden["col_factor"]).concat(), 1e-11);
    let share: Vec<f64> = serde_json::from_value(golden["rank_one"].clone()).unwrap();
    assert_near(&factors.rank_one, &share, 1e-12);
    assert!(share.iter().any(|share| *share < 0.99), "at least one matrix must not have rank one");
}

#[test]
fn the_adaptive_step_equals_golden_recursive_least_squares() {
    let golden = golden();
    let params = Params { rule: Rule::Adaptive, passes: Passes::Fixed(1), ..params(&golden, Solver::Direct) };
    let mut learner = Learner::new(dictionary(&golden["start"]), params).unwrap();
    for of_step in golden["stream"].as_array().unwrap() {
        learner.learn(&tensor(&golden["shape"], of_step)).unwrap();
        let expected = columns(&of_step["dictionary"]).concat();
        assert_near(learner.dictionary().values(), &expected, 1e-10);
    }
}
