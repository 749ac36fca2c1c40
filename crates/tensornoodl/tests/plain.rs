//! The crate compared with the method in plain code: the same tensors run through both. Results of the exact model
//! (`plain/method.rs`) must agree to 1e-12, and those of the counts model (`plain/counts.rs`) up to the rounding of its
//! sums.

#![allow(clippy::unwrap_used)]

use tensornoodl::synthetic::{Plan, Planted, Values};
use tensornoodl::synthetic_counts::{CountPlan, PlantedCounts};
use tensornoodl::{Dictionary, DiscoverParams, Learner, Params, Passes, Rule, Solver, Sparse, Tensor};

include!("plain/method.rs");

mod counts {
    use super::{Matrix, apply, map, nonzero_fibers, transpose};

    include!("plain/counts.rs");
}

/// A stream with m > n, codes that are not +-1, noise, and a start that takes many steps.
fn stream() -> Planted {
    Planted::new(Plan {
        features: 40,
        patterns: 50,
        rows: 12,
        cols: 10,
        alpha: 0.12,
        beta: 0.2,
        row_values: Values::SubGaussian { floor: 0.6 },
        noise: 0.05,
        ..Plan::default()
    })
    .unwrap()
}

#[test]
fn the_learner_agrees_with_the_dense_method() {
    let planted = stream();
    let parameters = Parameters { eta_a: 8.0, eta_x: 0.2, tau: 0.1, c: 0.6, r: 40 };
    let start = planted.start(0.3).unwrap();
    let mut a = dense_dictionary(&start);
    let params = Params {
        solver: Solver::Iht,
        eta_x: parameters.eta_x,
        tau: parameters.tau,
        code_floor: parameters.c,
        iht_steps: parameters.r,
        code_tolerance: 0.0,
        rule: Rule::Paper { eta_a: parameters.eta_a },
        ..Params::default()
    };
    let mut learner = Learner::new(start, params).unwrap();
    for t in 1..=6 {
        let tensor = planted.tensor(t).tensor;
        let z = dense_tensor(&tensor);
        let (x, b, c, next_a) = step(&a, &z, &parameters);
        let learned = learner.learn(&tensor).unwrap();
        assert_near(&dense(learned.codes.matrix()), &x, "X");

        // The relative residual |Y - A X| / |Y|.
        let (y, _) = nonzero_fibers(&z);
        let residual = add(&y, -1.0, &product(&a, &x)).concat();
        assert!((learned.fit - norm(&residual) / norm(&y.concat())).abs() < 1e-12);

        let factors = learned.codes.untangle();
        let (rows, cols) = (dense(&factors.rows), dense(&factors.cols));
        let mut compared = 0;
        for i in 0..x.len() {
            // If the two largest singular values are almost equal, either pair is a leading pair.
            if factors.rank_one[i] > 0.6 {
                assert_near(&outer_product(&rows, &cols, i), &outer_product(&b, &c, i), "B_i C_i'");
                compared += 1;
            }
        }
        assert!(compared > x.len() / 2);

        a = next_a;
        assert_near(&dense_dictionary(learner.dictionary()), &a, "A");
    }
}

#[test]
fn direct_codes_are_the_limit_of_the_dense_iteration() {
    let planted = stream();
    for (t, distance) in [(1, 0.0), (2, 0.15), (3, 0.4)] {
        let start = planted.start(distance).unwrap();
        let params = Params { code_floor: 0.6, iht_steps: 1500, ..Params::default() };
        let (eta_x, tau) = (params.eta_x, params.tau);
        let parameters = Parameters { eta_a: 0.0, eta_x, tau, c: 0.6, r: 1500 };
        let tensor = planted.tensor(t).tensor;
        let (y, _) = nonzero_fibers(&dense_tensor(&tensor));
        let limit = estimate_codes(&dense_dictionary(&start), &y, &parameters);
        let mut learner = Learner::new(start, params).unwrap();
        let codes = learner.encode(&tensor).unwrap();
        assert_near(&dense(codes.matrix()), &limit, "X");
        let counts = learner.learn(&tensor).unwrap().solver_counts;
        assert!(counts.direct > 0 && counts.unconverged == 0, "{counts:?}");
    }
}

/// After the first steps, whose patterns a search finds, each step of a learner with a given number of patterns is one
/// of the plain code.
#[test]
fn the_learner_of_counts_agrees_with_the_dense_method() {
    let plan =
        CountPlan { features: 12, rows: 9, cols: 8, patterns: 4, events: 30.0, ..CountPlan::default() };
    let planted = PlantedCounts::new(plan).unwrap();
    let tensors: Vec<Tensor<'_>> = (1..=12).map(|t| planted.tensor(t).tensor).collect();
    let params = Params { passes: Passes::Fixed(1), forgetting: 0.1, ..Params::default() };
    let discover = DiscoverParams { min_patterns: 4, max_patterns: Some(4), ..DiscoverParams::default() };
    let mut learner = Learner::for_counts(12, params, discover).unwrap();
    let mut compared = 0;
    for tensor in &tensors {
        let state = serde_json::to_value(&learner).unwrap()["method"]["Counts"].clone();
        let learned = learner.learn(tensor).unwrap();
        let pool = &state["discovery"]["pool"];
        if pool["complete"].as_bool().unwrap() {
            continue;
        }
        let latest = pool["steps"].as_array().unwrap().iter().map(|step| step[0].as_u64().unwrap() as usize);
        let latest = latest
            .map(|step| dense_tensor(&tensors[step - 1]))
            .reduce(|sum, z| sum.iter().zip(&z).map(|(sum, z)| add(sum, 1.0, z)).collect());
        let (y, places) = nonzero_fibers(&latest.unwrap());
        let latest: Vec<_> = places.into_iter().zip(transpose(&y)).collect();
        let numbers =
            |value: &serde_json::Value| -> Vec<f64> { serde_json::from_value(value.clone()).unwrap() };
        let statistics = |state: &serde_json::Value| {
            transpose(&numbers(&state["statistics"]["patterns"]).chunks(12).map(<[f64]>::to_vec).collect())
        };
        let events = numbers(&state["statistics"]["features"]);
        let (x, b, c, s, events) =
            counts::step(&statistics(&state), &events, &latest, &dense_tensor(tensor), 0.1);
        assert_close(&dense(learned.codes.matrix()), &x, 1e-9, "X");
        let factors = learned.codes.untangle();
        assert_close(&dense(&factors.rows), &b, 1e-9, "B");
        assert_close(&dense(&factors.cols), &c, 1e-9, "C");
        let next = serde_json::to_value(&learner).unwrap()["method"]["Counts"].clone();
        assert_close(&statistics(&next), &s, 1e-4, "S");
        assert_close(&dense_dictionary(learner.dictionary()), &counts::dictionary(&s, &events), 1e-6, "A");
        compared += 1;
    }
    assert!(compared >= 4, "{compared}");
}

fn dense(matrix: &Sparse) -> Matrix {
    let mut rows = vec![vec![0.0; matrix.cols()]; matrix.rows()];
    for (column, entries) in matrix.columns().enumerate() {
        entries.iter().for_each(|&(row, x)| rows[row as usize][column] = x);
    }
    rows
}

fn dense_dictionary(dictionary: &Dictionary) -> Matrix {
    transpose(&(0..dictionary.patterns()).map(|i| dictionary.pattern(i).to_vec()).collect())
}

/// Z as n matrices J x K.
fn dense_tensor(tensor: &Tensor<'_>) -> Vec<Matrix> {
    let shape = tensor.shape();
    let mut z = vec![vec![vec![0.0; shape.cols]; shape.rows]; shape.features];
    for (fiber, place) in tensor.places().iter().enumerate() {
        for (slice, &y) in z.iter_mut().zip(tensor.fiber(fiber)) {
            slice[place.row as usize][place.col as usize] = y;
        }
    }
    z
}

/// B_i C_i' (J x K).
fn outer_product(b: &Matrix, c: &Matrix, i: usize) -> Matrix {
    b.iter().map(|b| c.iter().map(|c| b[i] * c[i]).collect()).collect()
}

#[track_caller]
fn assert_near(a: &Matrix, b: &Matrix, what: &str) {
    assert_close(a, b, 1e-12, what);
}

#[track_caller]
fn assert_close(a: &Matrix, b: &Matrix, tolerance: f64, what: &str) {
    assert_eq!((a.len(), a[0].len()), (b.len(), b[0].len()), "{what}");
    let largest = add(a, -1.0, b).concat().into_iter().fold(0.0, |m: f64, x| m.max(x.abs()));
    assert!(largest <= tolerance, "{what} differs by {largest:e}");
}
