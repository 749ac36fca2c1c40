//! Recovery of synthetic factorizations from a start near the truth, for various values, noise and numbers of threads.

#![allow(clippy::unwrap_used)]

use tensornoodl::recovery::{Outcome, Recovery};
use tensornoodl::synthetic::{Plan, Planted, Values};
use tensornoodl::{Learner, Params, Passes, Rule, Samples, Solver};

/// Learns until the error of the dictionary is at most the tolerance, or for `steps` tensors.
fn recover(plan: Plan, params: Params, tolerance: f64, steps: u64) -> Outcome {
    let planted = Planted::new(plan).unwrap();
    let distance = planted.paper_distance();
    let mut recovery = Recovery::new(planted, distance, params).unwrap();
    for _ in 0..steps {
        if recovery.advance().unwrap().error_a <= tolerance {
            break;
        }
    }
    recovery.outcome().unwrap()
}

#[track_caller]
fn assert_exact(outcome: &Outcome, tolerance: f64) {
    assert!(outcome.error_a <= tolerance, "{outcome:?}");
    assert!(outcome.support, "{outcome:?}");
    assert!(outcome.error_x < 1e-11 && outcome.error_b < 1e-11 && outcome.error_c < 1e-11, "{outcome:?}");
}

#[test]
fn the_adaptive_step_reaches_machine_precision() {
    for seed in [42, 26, 91, 1, 2] {
        let outcome = recover(Plan { seed, ..Plan::default() }, Params::default(), 1e-15, 20);
        assert_exact(&outcome, 1e-15);
    }
}

#[test]
fn factors_with_other_values_than_plus_or_minus_one_are_recovered() {
    let (row_values, col_values) = (Values::SubGaussian { floor: 0.5 }, Values::SubGaussian { floor: 0.8 });
    let plan =
        Plan { row_values, col_values, alpha: 0.08, beta: 0.03, rows: 60, cols: 150, ..Plan::default() };
    let params = Params { code_floor: 0.4, ..Params::default() };
    assert_exact(&recover(plan.clone(), params.clone(), 1e-13, 40), 1e-13);
    let paper = Params { rule: Rule::Paper { eta_a: 30.0 }, solver: Solver::Iht, ..params };
    assert_exact(&recover(plan, paper, 1e-11, 300), 1e-11);
}

/// If the floor is far below the true codes, or if many codes are far above the floor, many small wrong codes pass the
/// threshold at first. A full step on one of them would destroy its pattern.
#[test]
fn small_wrong_codes_are_not_learned_from() {
    let small =
        Plan { features: 100, patterns: 30, rows: 40, cols: 50, alpha: 0.1, beta: 0.08, ..Plan::default() };
    let params = |code_floor| Params { code_floor, ..Params::default() };
    assert_exact(&recover(small, params(0.3), 1e-12, 20), 1e-12);
    let law = Values::SubGaussian { floor: 0.5 };
    let spread = Plan { row_values: law, col_values: law, alpha: 0.03, ..Plan::default() };
    assert_exact(&recover(spread, params(0.25), 1e-12, 20), 1e-12);
    let few = Plan { features: 20, patterns: 20, rows: 50, cols: 50, ..Plan::default() };
    assert_exact(&recover(few, params(1.0), 1e-12, 20), 1e-12);
}

#[test]
fn more_patterns_than_features_are_recovered() {
    let plan = Plan { features: 100, patterns: 180, rows: 60, cols: 60, ..Plan::default() };
    assert_exact(&recover(plan, Params::default(), 1e-13, 30), 1e-13);
}

#[test]
fn independent_fibers_alone_are_enough() {
    let plan = Plan { patterns: 50, rows: 200, cols: 300, alpha: 0.1, beta: 0.1, ..Plan::default() };
    let params = Params { samples: Samples::Independent, ..Params::default() };
    assert_exact(&recover(plan, params, 1e-12, 200), 1e-12);
}

#[test]
fn further_passes_save_tensors_and_do_not_overfit() {
    let plan = || Plan { patterns: 300, ..Plan::default() };
    let one = recover(plan(), Params::default(), 1e-10, 50);
    let auto = recover(plan(), Params { passes: Passes::Auto, ..Params::default() }, 1e-10, 50);
    assert!(auto.steps < one.steps, "{} against {}", auto.steps, one.steps);
    // With noise, further passes learn nothing more.
    let noisy = || Plan { noise: 0.1, patterns: 100, ..Plan::default() };
    let one = recover(noisy(), Params::default(), 0.0, 8);
    let many = recover(noisy(), Params { passes: Passes::Fixed(6), ..Params::default() }, 0.0, 8);
    assert!((many.error_a / one.error_a - 1.0).abs() < 0.03, "{} against {}", many.error_a, one.error_a);
}

#[test]
fn exhaustive_passes_learn_all_that_one_tensor_shows() {
    let learn = |noise: f64, passes: Passes| {
        let planted = Planted::new(Plan { patterns: 60, noise, ..Plan::default() }).unwrap();
        let mut learner =
            Learner::new(planted.start(0.35).unwrap(), Params { passes, ..Params::default() }).unwrap();
        let step = learner.learn(&planted.tensor(1).tensor).unwrap();
        let seen: Vec<usize> = (0..60).filter(|&i| step.activity[i] > 3).collect();
        assert!(seen.len() > 50);
        let truth = planted.true_dictionary();
        let far = |&i: &usize| {
            let pairs = learner.dictionary().pattern(i).iter().zip(truth.pattern(i));
            pairs.map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
        };
        (step.passes, seen.iter().map(far).fold(0.0, f64::max))
    };
    let (auto, whole) = (learn(0.0, Passes::Auto), learn(0.0, Passes::Exhaust));
    assert!(whole.0 > auto.0 && whole.1 < 1e-9, "{whole:?}, {auto:?}");
    // With noise, the learner makes no further passes.
    let (auto, whole) = (learn(0.3, Passes::Auto), learn(0.3, Passes::Exhaust));
    assert!(whole.0 <= auto.0 + 1 && (whole.1 / auto.1 - 1.0).abs() < 0.05, "{whole:?}, {auto:?}");
}

#[test]
fn noise_is_averaged_as_well_as_by_the_oracle() {
    for noise in [0.1, 0.5] {
        for seed in [42, 26, 91] {
            let outcome = recover(Plan { noise, seed, ..Plan::default() }, Params::default(), 0.0, 60);
            let ratio = outcome.error_a / outcome.oracle_error_a.unwrap();
            assert!(ratio < 1.02, "noise {noise}, seed {seed}: {ratio}");
            assert!(outcome.support);
        }
    }
}

#[test]
fn patterns_that_change_are_followed() {
    let plan = |seed| Plan { noise: 0.1, patterns: 60, seed, ..Plan::default() };
    let before = Planted::new(plan(1)).unwrap();
    let mut learner = Learner::new(before.start(0.3).unwrap(), Params::default()).unwrap();
    let error = |learner: &Learner, truth: &tensornoodl::Dictionary| {
        let matching = tensornoodl::metrics::Matching::new(learner.dictionary(), truth).unwrap();
        matching.error_a(learner.dictionary(), truth)
    };
    (1..=20).for_each(|t| drop(learner.learn(&before.tensor(t).tensor).unwrap()));
    let settled = error(&learner, before.true_dictionary());
    // All patterns move by a distance of 0.5 at once; the codes stay.
    let moved = before.start(0.5).unwrap();
    for t in 21..=26 {
        let made = before.tensor(t);
        let mut values = made.tensor.values().to_vec();
        for (f, y) in values.chunks_exact_mut(300).enumerate() {
            for &(i, x) in made.true_codes.matrix().column(f) {
                let (old, new) = (before.true_dictionary().pattern(i as usize), moved.pattern(i as usize));
                y.iter_mut().zip(old.iter().zip(new)).for_each(|(y, (old, new))| *y += x * (new - old));
            }
        }
        let tensor =
            tensornoodl::Tensor::from_fibers(made.tensor.shape(), values, made.tensor.places()).unwrap();
        learner.learn(&tensor).unwrap();
    }
    let after = error(&learner, &moved);
    assert!(after < 3.0 * settled, "{settled:e} before, {after:e} six tensors after the change");
}

#[test]
fn results_have_the_same_bits_for_any_number_of_threads() {
    for (rule, solver, passes) in [
        (Rule::Adaptive, Solver::Direct, Passes::Auto),
        (Rule::Paper { eta_a: 40.0 }, Solver::Iht, Passes::Fixed(1)),
    ] {
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                // More fibers than one wave of the encoder has.
                let plan = Plan { noise: 0.02, patterns: 200, rows: 180, cols: 180, ..Plan::default() };
                let params = Params { rule, solver, passes, ..Params::default() };
                let mut recovery = Recovery::new(Planted::new(plan).unwrap(), 0.35, params).unwrap();
                let steps: Vec<_> = (0..3).map(|_| recovery.advance().unwrap().step).collect();
                assert!(solver == Solver::Iht || 3 * steps[2].solver_counts.predicted > steps[2].fibers);
                let factors = steps[2].codes.untangle();
                let codes: Vec<_> = steps.into_iter().map(|step| (step.codes, step.solver_counts)).collect();
                (recovery.learner().dictionary().clone(), codes, factors)
            })
        };
        let one = run(1);
        assert!(one == run(2) && one == run(4), "{rule:?}");
    }
}

#[test]
fn the_coverage_step_is_the_first_by_which_every_pattern_was_in_a_fiber() {
    let plan = Plan { patterns: 40, rows: 30, cols: 30, ..Plan::default() };
    let mut recovery = Recovery::new(Planted::new(plan).unwrap(), 0.3, Params::default()).unwrap();
    let mut seen = [false; 40];
    for t in 1..=12 {
        let (before, made) = (recovery.outcome().unwrap(), recovery.planted().tensor(t));
        recovery.advance().unwrap();
        let complete = seen.iter().all(|seen| *seen);
        assert_eq!(before.coverage_step.is_some(), complete);
        for (i, seen) in seen.iter_mut().enumerate() {
            *seen |= !made.true_rows.column(i).is_empty() && !made.true_cols.column(i).is_empty();
        }
        if !complete && seen.iter().all(|seen| *seen) {
            assert!(t > 1, "one tensor must not show all patterns");
            assert_eq!(recovery.outcome().unwrap().coverage_step, Some(t));
        }
    }
    assert!(seen.iter().all(|seen| *seen));
}

#[test]
fn tensors_depend_only_on_seed_and_step() {
    let planted = Planted::new(Plan { noise: 0.1, ..Plan::default() }).unwrap();
    let (a, again, other) = (planted.tensor(5), planted.clone().tensor(5), planted.tensor(6));
    assert_eq!(a.tensor, again.tensor);
    assert_ne!(a.tensor.values().len(), other.tensor.values().len());
}

#[test]
fn synthetic_factors_have_the_requested_distributions() {
    let (alpha, beta) = (0.3, 0.1);
    let (row_values, col_values) = (Values::SubGaussian { floor: 0.5 }, Values::Rademacher);
    let plan = Plan { alpha, beta, row_values, col_values, rows: 200, cols: 300, ..Plan::default() };
    let planted = Planted::new(plan).unwrap();
    let made = planted.tensor(1);
    let density = |factor: &tensornoodl::Sparse| factor.nnz() as f64 / (factor.rows() * factor.cols()) as f64;
    assert!((density(&made.true_rows) - alpha).abs() < 0.01);
    assert!((density(&made.true_cols) - beta).abs() < 0.01);
    let values: Vec<f64> = made.true_rows.columns().flatten().map(|entry| entry.1).collect();
    let mean = |f: fn(f64) -> f64| values.iter().map(|&x| f(x)).sum::<f64>() / values.len() as f64;
    assert!(mean(|x| x).abs() < 0.04 && (mean(|x| x * x) - 1.0).abs() < 0.04);
    assert!(values.iter().all(|x| x.abs() >= 0.5) && values.iter().any(|x| x.abs() < 0.55));
    assert!(made.true_cols.columns().flatten().all(|entry| entry.1.abs() == 1.0));

    // Z = sum_i A_i o B_i o C_i, compared entry by entry.
    let dense = |factor: &tensornoodl::Sparse, at: u32, i: usize| {
        factor.column(i).iter().find(|entry| entry.0 == at).map_or(0.0, |entry| entry.1)
    };
    for f in [0, 1, 999] {
        let place = made.tensor.places()[f];
        for feature in [0, 299] {
            let z: f64 = (0..150)
                .map(|i| {
                    planted.true_dictionary().pattern(i)[feature]
                        * dense(&made.true_rows, place.row, i)
                        * dense(&made.true_cols, place.col, i)
                })
                .sum();
            assert!((made.tensor.fiber(f)[feature] - z).abs() < 1e-14);
        }
    }
}

#[test]
fn noise_and_start_have_the_requested_distances() {
    let plan = |noise| Plan { noise, ..Plan::default() };
    let (clean, noisy) = (Planted::new(plan(0.0)).unwrap(), Planted::new(plan(0.3)).unwrap());
    let (clean, noisy_tensor) = (clean.tensor(1).tensor, noisy.tensor(1).tensor);
    let square: f64 = clean.values().iter().zip(noisy_tensor.values()).map(|(a, b)| (a - b).powi(2)).sum();
    assert!(((square / clean.fibers() as f64).sqrt() - 0.3).abs() < 0.003);
    for distance in [0.0, 0.35, 1.2, 1.9] {
        let start = noisy.start(distance).unwrap();
        for i in 0..start.patterns() {
            let truth = noisy.true_dictionary().pattern(i);
            let found: f64 = start.pattern(i).iter().zip(truth).map(|(a, b)| (a - b).powi(2)).sum();
            assert!((found.sqrt() - distance).abs() < 1e-12);
        }
    }
    assert!((noisy.paper_distance() - 2.0 / 300.0_f64.ln()).abs() < 1e-15);
}
