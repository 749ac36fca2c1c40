//! Edge cases: values at the thresholds, empty tensors, and invalid input.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use tensornoodl::parallel::Solo;
use tensornoodl::synthetic::{Plan, Planted, Values};
use tensornoodl::{
    Codes, Dictionary, DiscoverParams, Error, Learner, Params, Passes, Place, Rule, Samples, Shape, Solver,
    Sparse, Stop, Tensor,
};

fn identity(n: usize) -> Dictionary {
    let mut values = vec![0.0; n * n];
    (0..n).for_each(|i| values[i * n + i] = 1.0);
    Dictionary::from_columns(n, values).unwrap()
}

fn shape(features: usize, rows: usize, cols: usize) -> Shape {
    Shape { features, rows, cols }
}

/// The code of one fiber with the identity as the dictionary.
fn code_of(y: &[f64], params: Params) -> Vec<(u32, f64)> {
    let learner = Learner::new(identity(y.len()), params).unwrap();
    let tensor = Tensor::from_fibers(shape(y.len(), 1, 1), y, vec![Place { row: 0, col: 0 }]).unwrap();
    learner.encode(&tensor).unwrap().matrix().column(0).to_vec()
}

#[test]
fn hard_thresholding_keeps_entries_equal_to_the_threshold() {
    let below = 0.5_f64.next_down();
    for solver in [Solver::Direct, Solver::Iht] {
        // A is the identity, so that A'y = y: the first threshold keeps entries of at least code_floor / 2.
        let params = Params { solver, code_floor: 1.0, tau: 0.1, eta_x: 0.2, ..Params::default() };
        assert_eq!(code_of(&[0.5, below, -0.5, -below], params), [(0, 0.5), (2, -0.5)]);
    }
    // An entry below the first threshold enters if eta_x |y_i| >= tau: 0.25 * 0.5 = 0.125.
    for solver in [Solver::Direct, Solver::Iht] {
        let params = Params { solver, code_floor: 4.0, tau: 0.125, eta_x: 0.25, ..Params::default() };
        let code = code_of(&[0.5, below, 3.0, -0.5], params);
        let support: Vec<u32> = code.iter().map(|entry| entry.0).collect();
        assert_eq!(support, [0, 2, 3]);
        assert!(code.iter().zip([0.5, 3.0, -0.5]).all(|(entry, y)| (entry.1 - y).abs() < 1e-12));
    }
}

#[test]
fn iht_stops_at_the_step_limit_or_the_tolerance() {
    // One entry enters with the value eta_x y. After r steps it is y (1 - (1 - eta_x)^r).
    let params = |iht_steps, code_tolerance| Params {
        solver: Solver::Iht,
        code_floor: 4.0,
        tau: 0.1,
        eta_x: 0.25,
        iht_steps,
        code_tolerance,
        ..Params::default()
    };
    for steps in 1..6 {
        let expected = 1.0 - 0.75_f64.powi(steps as i32);
        assert!((code_of(&[1.0], params(steps, 0.0))[0].1 - expected).abs() < 1e-15);
    }
    // A tolerance of 0.1 ends the iteration at the first change of at most a tenth of the iterate: step 6.
    let met = (1..).find(|&r| 0.75_f64.powi(r - 1) * 0.25 <= 0.1 * (1.0 - 0.75_f64.powi(r))).unwrap();
    let expected = 1.0 - 0.75_f64.powi(met);
    assert!((code_of(&[1.0], params(1000, 0.1))[0].1 - expected).abs() < 1e-15);
}

#[test]
fn codes_that_do_not_converge_are_counted_and_not_used() {
    // Twenty equal patterns: G = A'A has eigenvalue 20, and the iteration diverges because 20 eta_x > 2.
    let patterns = Dictionary::from_columns(4, [1.0, 1.0, 1.0, 1.0].repeat(20)).unwrap();
    for rule in [Rule::Adaptive, Rule::Paper { eta_a: 1.0 }] {
        let params = Params { eta_x: 0.9, rule, ..Params::default() };
        let mut learner = Learner::new(patterns.clone(), params).unwrap();
        let tensor = Tensor::from_triplets(shape(4, 1, 1), &[(0, 0, 0, 4.0), (1, 0, 0, 2.0)]).unwrap();
        let step = learner.learn(&tensor).unwrap();
        assert_eq!((step.solver_counts.unconverged, step.codes.matrix().nnz()), (1, 0));
        assert_eq!(learner.dictionary(), &patterns);
    }
}

#[test]
fn the_direct_solver_reports_a_fiber_whose_iteration_diverges() {
    // G has eigenvalue 2.13 along (0.67, 0.67, 0.33), and with eta_x = 0.95 the iteration diverges because 2.13 eta_x
    // > 2. The codes are almost parallel to another eigenvector, so that x(0) is near the solution and all other
    // conditions of the direct solver hold.
    let patterns = vec![1.0, 0.0, 0.0, 0.99, 0.0199_f64.sqrt(), 0.0, 0.283, 0.0200611, 0.9589090];
    let start = Dictionary::from_columns(3, patterns).unwrap();
    let code = [-2.36 + 0.07, -2.36 + 0.07, 9.43 + 0.03];
    let fiber: Vec<f64> = (0..3).map(|f| (0..3).map(|i| code[i] * start.pattern(i)[f]).sum()).collect();
    let tensor = Tensor::from_fibers(shape(3, 1, 1), fiber, vec![Place { row: 0, col: 0 }]).unwrap();
    let counts = |eta_x, solver| {
        let params = Params { eta_x, solver, ..Params::default() };
        Learner::new(start.clone(), params).unwrap().learn(&tensor).unwrap().solver_counts
    };
    assert_eq!(counts(0.8, Solver::Direct).direct, 1);
    assert_eq!(counts(0.95, Solver::Iht).unconverged, 1);
    assert_eq!(counts(0.95, Solver::Direct).unconverged, 1);
}

#[test]
fn an_entry_dropped_during_the_iteration_is_not_in_the_direct_code() {
    // Two patterns at 60 degrees, codes 1 and -0.15: the second entry starts at 0.35 and moves towards -0.15. Below
    // tau it is dropped and cannot come back. The first entry ends at A_1'y = 0.925.
    let start = Dictionary::from_columns(2, vec![1.0, 0.0, 0.5, 0.75_f64.sqrt()]).unwrap();
    let fiber = vec![1.0 - 0.15 * 0.5, -0.15 * 0.75_f64.sqrt()];
    let tensor = Tensor::from_fibers(shape(2, 1, 1), fiber, vec![Place { row: 0, col: 0 }]).unwrap();
    for solver in [Solver::Direct, Solver::Iht] {
        let learner =
            Learner::new(start.clone(), Params { solver, code_floor: 0.6, ..Params::default() }).unwrap();
        let codes = learner.encode(&tensor).unwrap();
        let code = codes.matrix().column(0);
        assert!(
            code.len() == 1 && code[0].0 == 0 && (code[0].1 - 0.925).abs() < 1e-12,
            "{solver:?}: {code:?}"
        );
    }
}

#[test]
fn every_fiber_is_counted_by_the_solver_that_coded_it() {
    // More fibers than one block of the encoder has.
    let fibers = 700;
    let places: Vec<Place> = (0..fibers).map(|row| Place { row, col: 0 }).collect();
    let values = [2.0, 0.0, 0.0].repeat(fibers as usize);
    let tensor = Tensor::from_fibers(shape(3, fibers as usize, 1), values, places).unwrap();
    let counts = |params| {
        let found = Learner::new(identity(3), params).unwrap().learn(&tensor).unwrap().solver_counts;
        (found.direct, found.iht, found.unconverged)
    };
    assert_eq!(counts(Params::default()), (700, 0, 0));
    assert_eq!(counts(Params { solver: Solver::Iht, ..Params::default() }), (0, 700, 0));
    // Entries enter in steps of eta_x, so that two steps are not enough to converge.
    let slow = Params { solver: Solver::Iht, code_floor: 8.0, iht_steps: 2, ..Params::default() };
    assert_eq!(counts(slow), (0, 0, 700));
}

#[test]
fn a_tensor_without_fibers_is_a_step_that_changes_nothing() {
    for rule in [Rule::Adaptive, Rule::Paper { eta_a: 20.0 }] {
        for passes in [Passes::Fixed(1), Passes::Fixed(3)] {
            let mut learner =
                Learner::new(identity(3), Params { rule, passes, ..Params::default() }).unwrap();
            let empty = Tensor::from_triplets(shape(3, 4, 5), &[]).unwrap();
            let zero =
                Tensor::from_fibers(shape(3, 4, 5), vec![0.0; 3], vec![Place { row: 1, col: 2 }]).unwrap();
            for tensor in [&empty, &zero] {
                let step = learner.learn(tensor).unwrap();
                assert_eq!((step.fibers, step.fit, step.change), (0, 0.0, 0.0));
                assert_eq!(step.mean_code_size, 0.0);
                assert_eq!(step.codes.untangle().rank_one, [0.0; 3]);
            }
            assert_eq!(learner.steps(), 2);
            assert_eq!(learner.dictionary(), &identity(3));
        }
    }
}

#[test]
fn zero_fibers_do_not_change_the_step() {
    // The paper's step divides by p, the number of non-zero fibers.
    let start = Dictionary::from_columns(3, vec![1.0, 0.2, 0.0, 0.0, 0.2, 1.0]).unwrap();
    let params = Params { rule: Rule::Paper { eta_a: 0.5 }, ..Params::default() };
    let (mut with, mut without) =
        (Learner::new(start.clone(), params.clone()).unwrap(), Learner::new(start, params).unwrap());
    let places: Vec<Place> = (0..3).map(|row| Place { row, col: 0 }).collect();
    let fibers = [1.0, 0.0, 0.1, 0.0, 0.0, 0.0, 0.0, 0.1, 2.0];
    with.learn(&Tensor::from_fibers(shape(3, 3, 1), &fibers[..], &places[..]).unwrap()).unwrap();
    let fibers = [&fibers[..3], &fibers[6..]].concat();
    let places = [places[0], places[2]];
    without.learn(&Tensor::from_fibers(shape(3, 3, 1), fibers, &places[..]).unwrap()).unwrap();
    assert_eq!(with.dictionary(), without.dictionary());
}

#[test]
fn a_pattern_in_no_fiber_keeps_its_bits() {
    let planted = Planted::new(Plan { patterns: 60, ..Plan::default() }).unwrap();
    let start = planted.start(0.3).unwrap();
    for rule in [Rule::Adaptive, Rule::Paper { eta_a: 5.0 }] {
        for samples in [Samples::All, Samples::Independent] {
            let mut learner =
                Learner::new(start.clone(), Params { rule, samples, ..Params::default() }).unwrap();
            // All fibers contain pattern 7 only.
            let truth = planted.true_dictionary().pattern(7);
            let entries: Vec<_> =
                (0..6).flat_map(|at| (0..300).map(move |i| (i, at, at, truth[i]))).collect();
            let step = learner.learn(&Tensor::from_triplets(shape(300, 9, 9), &entries).unwrap()).unwrap();
            assert_eq!(step.activity.iter().sum::<usize>(), 6);
            for i in (0..60).filter(|&i| i != 7) {
                assert_eq!(learner.dictionary().pattern(i), start.pattern(i));
            }
            assert_ne!(learner.dictionary().pattern(7), start.pattern(7));
        }
    }
}

#[test]
fn one_fiber_is_enough_to_learn_its_pattern() {
    let planted = Planted::new(Plan::default()).unwrap();
    let mut learner = Learner::new(planted.start(0.3).unwrap(), Params::default()).unwrap();
    let truth = planted.true_dictionary().pattern(3);
    let fiber: Vec<f64> = truth.iter().map(|a| -1.7 * a).collect();
    let tensor = Tensor::from_fibers(shape(300, 1, 1), fiber, vec![Place { row: 0, col: 0 }]).unwrap();
    let step = learner.learn(&tensor).unwrap();
    assert_eq!((step.fibers, step.fibers_used, step.mean_code_size), (1, 1, 1.0));
    let error =
        learner.dictionary().pattern(3).iter().zip(truth).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(error < 1e-10, "{error:e}");
}

#[test]
fn the_reported_change_is_relative_to_the_norm_of_the_dictionary() {
    // One of four unit patterns moves from unit(1, 0.1, 0, 0) to (1, 0, 0, 0); the norm of the dictionary is 2.
    let mut start = vec![0.0; 16];
    (0..4).for_each(|i| start[i * 4 + i] = 1.0);
    start[1] = 0.1;
    let start = Dictionary::from_columns(4, start).unwrap();
    let mut learner = Learner::new(start.clone(), Params::default()).unwrap();
    let tensor = Tensor::from_triplets(shape(4, 2, 1), &[(0, 0, 0, 2.0), (0, 1, 0, 2.0)]).unwrap();
    let step = learner.learn(&tensor).unwrap();
    let moved = distance(start.pattern(0), learner.dictionary().pattern(0));
    assert!(moved > 0.09 && (step.change - moved / 2.0).abs() < 1e-15, "{}", step.change);
    assert_eq!(step.mean_code_size, 1.0);
}

#[test]
fn a_fiber_with_as_many_patterns_as_features_does_not_move_them() {
    let mut learner = Learner::new(identity(2), Params::default()).unwrap();
    let tensor = Tensor::from_triplets(shape(2, 1, 1), &[(0, 0, 0, 3.0), (1, 0, 0, -2.0)]).unwrap();
    let step = learner.learn(&tensor).unwrap();
    assert_eq!(step.codes.matrix().column(0), [(0, 3.0), (1, -2.0)]);
    assert_eq!(learner.dictionary(), &identity(2));
}

#[test]
fn an_outlier_does_not_move_a_known_pattern() {
    for noise in [0.0, 0.1] {
        let planted = Planted::new(Plan { noise, patterns: 40, ..Plan::default() }).unwrap();
        let mut learner = Learner::new(planted.start(0.2).unwrap(), Params::default()).unwrap();
        (1..=10).for_each(|t| {
            learner.learn(&planted.tensor(t).tensor).unwrap();
        });
        let before = learner.dictionary().clone();
        // A fiber that is half pattern 5 and half a direction that occurs in no other fiber.
        let unknown = planted.start(1.4).unwrap();
        let fiber: Vec<f64> = before.pattern(5).iter().zip(unknown.pattern(9)).map(|(a, b)| a + b).collect();
        let tensor = Tensor::from_fibers(shape(300, 1, 1), fiber, vec![Place { row: 0, col: 0 }]).unwrap();
        assert_eq!(learner.learn(&tensor).unwrap().activity[5], 1);
        let moved = distance(before.pattern(5), learner.dictionary().pattern(5));
        assert!(moved < 0.1 * noise + 1e-6, "noise {noise}: {moved}");
    }
}

#[test]
fn patterns_that_always_occur_together_move_equally() {
    // The fibers determine the difference of patterns 1 and 4, but not their sum: both must move half of the way.
    let planted = Planted::new(Plan { patterns: 6, features: 50, ..Plan::default() }).unwrap();
    let (truth, start) = (planted.true_dictionary(), planted.start(0.3).unwrap());
    let fiber: Vec<f64> = truth.pattern(1).iter().zip(truth.pattern(4)).map(|(a, b)| a - b).collect();
    let places: Vec<Place> = (0..20).map(|row| Place { row, col: 0 }).collect();
    let tensor = Tensor::from_fibers(shape(50, 20, 1), fiber.repeat(20), places).unwrap();
    for passes in [Passes::Fixed(1), Passes::Fixed(6), Passes::Auto] {
        let mut learner = Learner::new(start.clone(), Params { passes, ..Params::default() }).unwrap();
        for _ in 0..3 {
            learner.learn(&tensor).unwrap();
        }
        for i in [1, 4] {
            let left = distance(learner.dictionary().pattern(i), truth.pattern(i));
            assert!(left < 0.25, "{passes:?}: {left}");
        }
        let fit = learner.learn(&tensor).unwrap().fit;
        assert!(fit < 1e-6, "{passes:?}: {fit}");
    }
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

#[test]
fn triplets_are_summed_sorted_and_zero_fibers_are_dropped() {
    let entries = [(1, 1, 0, 2.0), (0, 0, 1, 1.0), (1, 1, 0, 0.5), (0, 1, 1, 3.0), (0, 1, 1, -3.0)];
    let tensor = Tensor::from_triplets(shape(2, 2, 2), &entries).unwrap();
    // The entries at (1, 1) cancel, and a zero fiber is dropped. Places have the order of the columns of the unfolding.
    assert_eq!(tensor.places(), [Place { row: 1, col: 0 }, Place { row: 0, col: 1 }]);
    assert_eq!(tensor.values(), [0.0, 2.5, 1.0, 0.0]);
}

#[test]
fn given_fibers_are_not_copied() {
    let values = [1.0; 6];
    let places = [Place { row: 0, col: 1 }, Place { row: 0, col: 0 }];
    let tensor = Tensor::from_fibers(shape(3, 1, 2), &values[..], &places[..]).unwrap();
    assert!(std::ptr::eq(tensor.values(), &values[..]));
    assert!(std::ptr::eq(tensor.places(), &places[..]));
}

#[test]
fn bad_tensors_are_refused_with_the_position_of_the_error() {
    let say = |error: Error| error.to_string();
    let triplets = |s, entries: &[_]| say(Tensor::from_triplets(s, entries).unwrap_err());
    let fibers = |values: Vec<f64>, places: Vec<Place>| {
        say(Tensor::from_fibers(shape(2, 3, 4), values, places).unwrap_err())
    };
    let place = |row, col| Place { row, col };
    assert_eq!(
        triplets(shape(0, 3, 4), &[]),
        "the shape is 0 x 3 x 4: every axis must have 1 to 4294967295 entries"
    );
    assert_eq!(
        triplets(shape(2, 3, 4), &[(0, 0, 0, 1.0), (1, 3, 2, 1.0)]),
        "entry 1 is at feature 1, row 3, col 2, outside the shape 2 x 3 x 4"
    );
    let limit = "values must be finite, at most 1e100";
    assert_eq!(
        triplets(shape(2, 3, 4), &[(1, 2, 3, f64::NAN)]),
        format!("the value at feature 1 of the fiber at row 2, col 3 is NaN: {limit}")
    );
    assert_eq!(
        triplets(shape(2, 3, 4), &[(0, 0, 0, 9e99), (0, 0, 0, 9e99)]),
        format!("the value at feature 0 of the fiber at row 0, col 0 is {:?}: {limit}", 9e99 + 9e99)
    );
    assert_eq!(
        fibers(vec![1.0, f64::NEG_INFINITY], vec![place(0, 0)]),
        format!("the value at feature 1 of the fiber at row 0, col 0 is -inf: {limit}")
    );
    assert_eq!(fibers(vec![1.0; 3], vec![place(0, 0)]), "fibers: 3 values given, 2 needed");
    assert_eq!(
        fibers(vec![1.0; 2], vec![place(0, 4)]),
        "the fiber at row 0, col 4 is outside the shape 2 x 3 x 4"
    );
    assert_eq!(
        fibers(vec![1.0; 6], vec![place(1, 1), place(0, 0), place(1, 1)]),
        "the fiber at row 1, col 1 is given twice: a place has one fiber"
    );
}

#[test]
fn bad_dictionaries_are_refused() {
    let say =
        |features, values: Vec<f64>| Dictionary::from_columns(features, values).unwrap_err().to_string();
    assert_eq!(
        say(2, vec![1.0, 0.0, 0.0, 0.0]),
        "pattern 1 has norm 0: a pattern must be finite and not zero"
    );
    for at in 0..3 {
        let mut values = vec![1.0; 3];
        values[at] = f64::NAN;
        assert_eq!(say(3, values), "pattern 0 has norm NaN: a pattern must be finite and not zero");
    }
    assert_eq!(
        say(2, vec![f64::INFINITY, 1.0]),
        "pattern 0 has norm inf: a pattern must be finite and not zero"
    );
    assert_eq!(say(2, vec![1.0; 3]), "dictionary: 3 values given, 2 needed");
    assert_eq!(say(3, vec![]), "dictionary: 0 values given, 3 needed");
    // Columns with the sum 0, and tiny and huge columns, are valid patterns.
    let dictionary = Dictionary::from_columns(2, vec![1e-300, -1e-300, 1e300, 1e300]).unwrap();
    assert!(dictionary.values().iter().all(|a| (a.abs() - 0.5_f64.sqrt()).abs() < 1e-15));
}

#[test]
fn bad_parameters_are_refused_with_their_name() {
    let good = Params::default;
    let paper = |eta_a| Params { rule: Rule::Paper { eta_a }, ..good() };
    let cases = [
        (Params { eta_x: 1.5, ..good() }, "eta_x is 1.5, it must be above 0 and below 1"),
        (Params { eta_x: 0.0, ..good() }, "eta_x is 0, it must be above 0 and below 1"),
        (Params { tau: f64::NAN, ..good() }, "tau is NaN, it must be above 0 and finite"),
        (Params { tau: f64::INFINITY, ..good() }, "tau is inf, it must be above 0 and finite"),
        (
            Params { code_floor: -1.0, ..good() },
            "code_floor is -1, it must be at least 1e-100 and at most 1e100",
        ),
        (Params { iht_steps: 0, ..good() }, "iht_steps is 0, it must be at least 1 and finite"),
        (Params { code_tolerance: 1.0, ..good() }, "code_tolerance is 1, it must be at least 0 and below 1"),
        (paper(f64::NAN), "eta_a is NaN, it must be above 0 and finite"),
        (Params { passes: Passes::Fixed(0), ..good() }, "passes is 0, it must be at least 1 and finite"),
    ];
    for (params, message) in cases {
        assert_eq!(Learner::new(identity(2), params).unwrap_err().to_string(), message);
    }
    let auto = Params { passes: Passes::Auto, ..paper(20.0) };
    assert!(
        Learner::new(identity(2), auto)
            .unwrap_err()
            .to_string()
            .starts_with("passes is auto, it must be a number")
    );

    let plan = Plan::default;
    let law = |floor| Values::SubGaussian { floor };
    let cases = [
        (Plan { alpha: 1.5, ..plan() }, "alpha is 1.5, it must be above 0 and at most 1"),
        (Plan { beta: 0.0, ..plan() }, "beta is 0, it must be above 0 and at most 1"),
        (Plan { patterns: 0, ..plan() }, "patterns is 0, it must be at least 1 and at most 4294967295"),
        (Plan { features: 1, ..plan() }, "n is 1, it must be at least 2 and at most 4294967295"),
        (Plan { noise: -0.1, ..plan() }, "noise is -0.1, it must be at least 0 and finite"),
        (
            Plan { row_values: law(1.1), ..plan() },
            "the floor of the row values is 1.1, it must be above 0 and at most 1",
        ),
    ];
    for (plan, message) in cases {
        assert_eq!(Planted::new(plan).unwrap_err().to_string(), message);
    }
    let planted = Planted::new(plan()).unwrap();
    assert_eq!(
        planted.start(2.0).unwrap_err().to_string(),
        "start_distance is 2, it must be at least 0 and below 2"
    );
}

#[test]
fn a_learner_that_returned_an_error_is_unchanged() {
    let planted = Planted::new(Plan { patterns: 20, ..Plan::default() }).unwrap();
    let params = Params { rule: Rule::Paper { eta_a: 1e308 }, ..Params::default() };
    let mut learner = Learner::new(planted.start(0.3).unwrap(), params).unwrap();
    let before = learner.clone();
    let loud: Vec<f64> = planted.true_dictionary().pattern(0).iter().map(|a| 1e3 * a).collect();
    let tensor = Tensor::from_fibers(shape(300, 1, 1), loud, vec![Place { row: 0, col: 0 }]).unwrap();
    assert!(matches!(learner.learn(&tensor), Err(Error::Diverged { step: 1 })));
    let wrong = Tensor::from_triplets(shape(299, 1, 1), &[]).unwrap();
    assert_eq!(
        learner.learn(&wrong).unwrap_err().to_string(),
        "the tensor has 299 features, the dictionary has 300"
    );
    assert!(learner.encode(&wrong).is_err());
    assert_eq!(learner, before);
}

#[test]
fn values_from_1e_minus_300_to_1e98_do_not_panic() {
    let planted = Planted::new(Plan {
        patterns: 20,
        features: 30,
        rows: 6,
        cols: 6,
        alpha: 0.4,
        beta: 0.4,
        ..Plan::default()
    })
    .unwrap();
    let fibers = planted.tensor(1).tensor;
    for scale in [1e-300, 1e-12, 1e3, 1e20, 1e98] {
        for rule in [Rule::Adaptive, Rule::Paper { eta_a: 1.0 }] {
            let values: Vec<f64> = fibers.values().iter().map(|y| scale * y).collect();
            let scaled = Tensor::from_fibers(fibers.shape(), values, fibers.places()).unwrap();
            let mut learner =
                Learner::new(planted.start(0.3).unwrap(), Params { rule, ..Params::default() }).unwrap();
            match learner.learn(&scaled) {
                Ok(step) => assert!(step.fit.is_finite() && step.change.is_finite(), "{scale:e} {rule:?}"),
                Err(error) => assert!(matches!(error, Error::Diverged { .. }), "{error}"),
            }
            assert!(learner.dictionary().values().iter().all(|a| a.is_finite()));
        }
    }
}

#[test]
#[should_panic(expected = "rows of a column must increase")]
fn a_sparse_column_out_of_order_panics() {
    Sparse::new(3).push(&[(1, 1.0), (0, 1.0)]);
}

#[test]
#[should_panic(expected = "row out of bounds")]
fn a_sparse_column_out_of_bounds_panics() {
    Sparse::new(3).push(&[(3, 1.0)]);
}

fn one_fiber(y: &[f64]) -> Tensor<'_> {
    Tensor::from_fibers(shape(y.len(), 1, 1), y, vec![Place { row: 0, col: 0 }]).unwrap()
}

#[test]
fn fibers_with_many_patterns_or_huge_codes_are_solved_directly() {
    // One fiber with ten of sixteen patterns.
    let (n, m) = (4000, 16);
    let planted = Planted::new(Plan { features: n, patterns: m, ..Plan::default() }).unwrap();
    let a = planted.true_dictionary();
    let mut y = vec![0.0; n];
    for i in 0..10 {
        let x = if i % 3 == 0 { -2.0 } else { 2.0 };
        a.pattern(i).iter().zip(&mut y).for_each(|(a, y)| *y += x * a);
    }
    let few_steps = |iht_steps| Params { iht_steps, ..Params::default() };
    let step = Learner::new(a.clone(), few_steps(5)).unwrap().learn(&one_fiber(&y)).unwrap();
    assert_eq!((step.solver_counts.direct, step.codes.matrix().nnz()), (1, 10));
    assert!(step.codes.matrix().column(0).iter().all(|(_, x)| (x.abs() - 2.0).abs() < 1e-12));

    // Codes of ten million times the floor: single precision cannot represent both.
    let n = 40;
    let mut values = identity(n).values().to_vec();
    values[n] = 0.05;
    let a = Dictionary::from_columns(n, values).unwrap();
    let mut y = vec![0.0; n];
    a.pattern(0).iter().zip(&mut y).for_each(|(a, y)| *y += 1e7 * a);
    a.pattern(1).iter().zip(&mut y).for_each(|(a, y)| *y -= 2e7 * a);
    let step = Learner::new(a, few_steps(20)).unwrap().learn(&one_fiber(&y)).unwrap();
    assert_eq!(step.solver_counts.direct, 1);
    let code = step.codes.matrix().column(0);
    assert!((code[0].1 / 1e7 - 1.0).abs() < 1e-12 && (code[1].1 / -2e7 - 1.0).abs() < 1e-12, "{code:?}");
}

#[test]
fn three_passes_of_the_papers_step_equal_three_steps() {
    let planted =
        Planted::new(Plan { features: 30, patterns: 20, rows: 8, cols: 8, alpha: 0.1, ..Plan::default() });
    let planted = planted.unwrap();
    let tensor = planted.tensor(1).tensor;
    let learner = |passes| {
        let rule = Rule::Paper { eta_a: 4.0 };
        let params = Params { rule, passes: Passes::Fixed(passes), ..Params::default() };
        Learner::new(planted.start(0.5).unwrap(), params).unwrap()
    };
    let (mut one, mut three) = (learner(1), learner(3));
    (0..3).for_each(|_| drop(one.learn(&tensor).unwrap()));
    let step = three.learn(&tensor).unwrap();
    assert_eq!(one.dictionary(), three.dictionary());
    let start = planted.start(0.5).unwrap();
    let moved = start.values().iter().zip(three.dictionary().values()).map(|(a, b)| (a - b) * (a - b));
    assert!((step.change - (moved.sum::<f64>() / 20.0).sqrt()).abs() < 1e-12);
}

#[test]
fn clone_from_gives_the_same_learner_as_clone() {
    let learner = |m: usize, rule| {
        let plan =
            Plan { features: 20, patterns: m, rows: 6, cols: 6, alpha: 0.3, beta: 0.3, ..Plan::default() };
        let planted = Planted::new(plan).unwrap();
        let params = Params { rule, ..Params::default() };
        let mut learner = Learner::new(planted.start(0.2).unwrap(), params).unwrap();
        learner.learn(&planted.tensor(1).tensor).unwrap();
        (learner, planted.tensor(2).tensor)
    };
    let kinds = [
        learner(4, Rule::Adaptive),
        learner(8, Rule::Adaptive),
        learner(8, Rule::Paper { eta_a: 1.0 }),
        learner(3, Rule::Adaptive),
    ];
    let mut working = kinds[0].0.clone();
    for (fresh, tensor) in kinds {
        working.clone_from(&fresh);
        let mut copy = fresh.clone();
        working.learn(&tensor).unwrap();
        copy.learn(&tensor).unwrap();
        assert_eq!(working, copy);
    }
}

#[test]
fn a_small_code_beside_duplicate_patterns_is_not_used() {
    // Patterns 0 and 1 are equal, so that least squares is singular. The code of pattern 2 is small and is not used.
    let a = vec![1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.3, 0.91_f64.sqrt(), 0.0, 0.0];
    let start = Dictionary::from_columns(4, a).unwrap();
    let mut learner = Learner::new(start.clone(), Params::default()).unwrap();
    let step = learner.learn(&one_fiber(&[2.0, 0.2, 0.0, 0.0])).unwrap();
    assert_eq!(step.activity, [1, 1, 0]);
    // The duplicates move towards the residual that they leave.
    assert!(learner.dictionary().pattern(0)[1] > 0.01, "{:?}", learner.dictionary());
}

#[test]
fn an_empty_step_reports_a_change_of_plus_zero() {
    let mut learner = Learner::new(identity(3), Params::default()).unwrap();
    let step = learner.learn(&Tensor::from_triplets(shape(3, 2, 2), &[]).unwrap()).unwrap();
    assert_eq!(step.change.to_bits(), 0);
}

/// The patterns are windows of three neighboring features. Neighboring windows share two features, so that the
/// iteration takes hundreds of steps.
#[test]
fn direct_codes_of_coherent_patterns_are_the_limit_of_iht() {
    let (n, fibers) = (14, 200);
    let window = |first: usize| (0..n).map(move |i| f64::from(u8::from((first..first + 3).contains(&i))));
    let dictionary = Dictionary::from_columns(n, (0..12).flat_map(window).collect()).unwrap();
    let value = |at: usize| ((at as f64 * 0.754_877_666_246_692_8) % 1.0).powi(3);
    let places = (0..fibers as u32).map(|row| Place { row, col: 0 }).collect::<Vec<_>>();
    let values = (0..n * fibers).map(value).collect::<Vec<_>>();
    let tensor = Tensor::from_fibers(Shape { features: n, rows: fibers, cols: 1 }, values, places).unwrap();
    let params = Params { code_floor: 0.3, tau: 0.05, ..Params::default() };
    let encode = |params: Params| {
        let learner = Learner::new(dictionary.clone(), params).unwrap();
        learner.encode(&tensor).unwrap()
    };
    let direct = encode(Params { iht_steps: 1000, ..params.clone() });
    let plain = encode(Params { solver: Solver::Iht, iht_steps: 200_000, ..params.clone() });
    let short = encode(Params { solver: Solver::Iht, iht_steps: 60, ..params });
    let (mut same, mut early) = (0, 0);
    for ((a, b), c) in direct.matrix().columns().zip(plain.matrix().columns()).zip(short.matrix().columns()) {
        let near = |other: &[(u32, f64)], tolerance: f64| {
            a.len() == other.len()
                && a.iter().zip(other).all(|(a, b)| a.0 == b.0 && (a.1 - b.1).abs() <= tolerance)
        };
        same += usize::from(near(b, 1e-9));
        early += usize::from(near(c, 1e-9));
    }
    assert_eq!(same, fibers);
    // Sixty steps of IHT are not enough for most fibers.
    assert!(early < fibers / 2, "{early}");
}

#[test]
fn stopped_work_leaves_the_learner_unchanged() {
    let planted = Planted::new(Plan { patterns: 30, ..Plan::default() }).unwrap();
    let tensor = planted.tensor(1).tensor;
    let mut learner = Learner::new(planted.start(0.35).unwrap(), Params::default()).unwrap();
    learner.learn(&tensor).unwrap();
    let before = learner.clone();
    let stop = Stop::default();
    learner.set_stop(stop.clone());
    stop.set();
    assert_eq!(learner.learn(&planted.tensor(2).tensor).unwrap_err(), Error::Stopped);
    assert_eq!(learner.encode(&tensor).unwrap_err(), Error::Stopped);
    assert_eq!(learner, before);
    learner.set_stop(Stop::default());
    assert_eq!(learner.learn(&planted.tensor(2).tensor).unwrap().step, 2);

    // The search for patterns stops as well.
    let grow = DiscoverParams { stop: stop.clone(), ..DiscoverParams::default() };
    let features = tensor.shape().features;
    let mut nothing = Learner::from_nothing(features, Params::default(), grow.clone()).unwrap();
    assert_eq!(nothing.learn(&tensor).unwrap_err(), Error::Stopped);
    assert_eq!((nothing.steps(), nothing.dictionary().patterns()), (0, 0));
    assert_eq!(
        Learner::from_tensor(Arc::new(Solo), &tensor, Params::default(), grow, true).unwrap_err(),
        Error::Stopped
    );
}

#[test]
fn decode_reverses_encode() {
    let planted = Planted::new(Plan { patterns: 30, ..Plan::default() }).unwrap();
    let sample = planted.tensor(1);
    let learner = Learner::new(planted.true_dictionary().clone(), Params::default()).unwrap();
    let decoded = learner.decode(&sample.true_codes).unwrap();
    assert_eq!((decoded.shape(), decoded.places()), (sample.tensor.shape(), sample.tensor.places()));
    let far = decoded.values().iter().zip(sample.tensor.values()).map(|(a, b)| (a - b).abs());
    assert!(far.fold(0.0, f64::max) < 1e-14);
    let fewer = Codes::new(Sparse::new(29), &Tensor::from_triplets(sample.tensor.shape(), &[]).unwrap());
    assert_eq!(learner.decode(&fewer).unwrap_err(), Error::Patterns { codes: 29, dictionary: 30 });
}

#[test]
fn a_deserialized_learner_without_features_is_refused() {
    let start = Dictionary::from_columns(2, vec![1.0, 0.0]).unwrap();
    let learner = Learner::new(start, Params::default()).unwrap();
    let mut state = serde_json::to_value(&learner).unwrap();
    state["common"]["dictionary"]["features"] = 0.into();
    let damaged: Learner = serde_json::from_value(state).unwrap();
    assert_eq!(damaged.check(), Err(Error::State));
    assert_eq!(learner.check(), Ok(()));
}
