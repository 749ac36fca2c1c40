//! The counts model: codes, patterns and their number, streams, and the same bits everywhere.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use tensornoodl::metrics::Matching;
use tensornoodl::parallel::run_ranks;
use tensornoodl::synthetic_counts::{CountPlan, PlantedCounts};
use tensornoodl::{
    Dictionary, DiscoverParams, Error, Learner, ModelKind, Params, Passes, Place, Shape, Sparse, Tensor,
};

fn learner(features: usize, patterns: Option<usize>, seed: u64) -> Learner {
    let discover = DiscoverParams {
        min_patterns: patterns.unwrap_or(0),
        max_patterns: patterns,
        seed,
        ..DiscoverParams::default()
    };
    Learner::for_counts(features, Params::default(), discover).unwrap()
}

/// The largest distance of a true pattern to the pattern that was found for it, both of unit length.
fn worst(found: &Dictionary, truth: &Dictionary) -> f64 {
    let (found, truth) = (found.with_unit_lengths(), truth.with_unit_lengths());
    let matching = Matching::new(&found, &truth).unwrap();
    matching.distances(&found, &truth).into_iter().fold(0.0, f64::max)
}

/// A stream with eight steps.
fn stream(plan: CountPlan) -> (PlantedCounts, Vec<Tensor<'static>>) {
    let planted = PlantedCounts::new(plan).unwrap();
    let tensors = (1..=8).map(|t| planted.tensor(t).tensor).collect();
    (planted, tensors)
}

#[test]
fn the_number_of_patterns_is_found_and_they_are_right() {
    for seed in 0..3 {
        let (planted, tensors) = stream(CountPlan { seed, ..CountPlan::default() });
        let mut learner = learner(40, None, seed);
        tensors.iter().for_each(|tensor| drop(learner.learn(tensor).unwrap()));
        assert_eq!(learner.kind(), ModelKind::Counts);
        assert_eq!(learner.dictionary().patterns(), 5, "seed {seed}");
        let error = worst(learner.dictionary(), planted.true_dictionary());
        assert!(error < 0.1, "seed {seed}: {error}");
    }
}

#[test]
fn events_without_structure_have_one_pattern() {
    for seed in 0..3 {
        let plan = CountPlan {
            patterns: 1,
            alpha: 1.0,
            beta: 1.0,
            events: 20.0,
            rows: 20,
            cols: 20,
            seed,
            ..CountPlan::default()
        };
        let (_, tensors) = stream(plan);
        let mut learner = learner(40, None, seed);
        tensors.iter().for_each(|tensor| drop(learner.learn(tensor).unwrap()));
        assert_eq!(learner.dictionary().patterns(), 1, "seed {seed}");
    }
}

#[test]
fn a_pattern_that_begins_is_found_and_one_that_ends_stays() {
    let plan = CountPlan {
        late: 1,
        late_step: 6,
        gone: 1,
        gone_step: 6,
        same_factors: true,
        ..CountPlan::default()
    };
    let planted = PlantedCounts::new(plan).unwrap();
    let mut learner = learner(40, None, 0);
    let mut counts = Vec::new();
    for t in 1..=12 {
        let step = learner.learn(&planted.tensor(t).tensor).unwrap();
        assert!(step.lost.is_empty());
        counts.push(learner.dictionary().patterns());
    }
    assert_eq!((counts[4], counts[11]), (4, 5), "{counts:?}");
    assert!(worst(learner.dictionary(), planted.true_dictionary()) < 0.15);
    let last_seen = learner.last_seen();
    assert_eq!(last_seen.iter().filter(|step| **step < 12).count(), 1, "{last_seen:?}");
}

#[test]
fn codes_add_up_to_the_events_and_every_place_has_one() {
    let (_, tensors) = stream(CountPlan { events: 4.0, ..CountPlan::default() });
    let mut learner = learner(40, Some(5), 1);
    learner.learn(&tensors[0]).unwrap();
    let codes = learner.encode(&tensors[1]).unwrap();
    assert_eq!(codes.places().len(), tensors[1].fibers());
    for (fiber, code) in codes.matrix().columns().enumerate() {
        let events: f64 = tensors[1].entries(fiber).map(|entry| entry.1).sum();
        let sum: f64 = code.iter().map(|entry| entry.1).sum();
        assert!(!code.is_empty() && code.iter().all(|entry| entry.1 > 0.0));
        assert!((sum - events).abs() < 1e-9 * events, "{sum} {events}");
    }
    // Decoded codes have as many events.
    let decoded = learner.decode(&codes).unwrap();
    let (all, events): (f64, f64) = (decoded.values().iter().sum(), tensors[1].values().iter().sum());
    assert!((all - events).abs() < 1e-6 * events);
}

#[test]
fn a_given_number_is_kept() {
    let (_, tensors) = stream(CountPlan::default());
    for count in [1, 3, 8, 60] {
        let mut learner = learner(40, Some(count), 0);
        tensors.iter().for_each(|tensor| drop(learner.learn(tensor).unwrap()));
        assert_eq!(learner.dictionary().patterns(), count.min(40));
    }
}

/// Learns a stream and returns the learner.
fn learned(tensors: &[Tensor<'_>]) -> Learner {
    let mut learner = learner(40, None, 3);
    tensors.iter().for_each(|tensor| drop(learner.learn(tensor).unwrap()));
    learner
}

#[test]
fn threads_resuming_and_storage_do_not_change_the_bits() {
    let (_, tensors) = stream(CountPlan { events: 10.0, ..CountPlan::default() });
    let expected = learned(&tensors);
    for threads in [1, 2, 4] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        assert!(pool.install(|| learned(&tensors)) == expected, "{threads} threads");
    }
    let first = learned(&tensors[..4]);
    let mut resumed: Learner = serde_json::from_str(&serde_json::to_string(&first).unwrap()).unwrap();
    assert_eq!(resumed.check(), Ok(()));
    tensors[4..].iter().for_each(|tensor| drop(resumed.learn(tensor).unwrap()));
    assert!(resumed == expected);
    let dense = |tensor: &Tensor<'_>| {
        Tensor::from_fibers(tensor.shape(), tensor.values().to_vec(), tensor.places().to_vec()).unwrap()
    };
    let dense: Vec<Tensor<'_>> = tensors.iter().map(dense).collect();
    assert!(dense == tensors && learned(&dense) == expected);
}

#[test]
fn ranks_and_parts_do_not_change_the_bits() {
    let (_, tensors) = stream(CountPlan { events: 10.0, ..CountPlan::default() });
    let expected = learned(&tensors);
    let part =
        |tensor: &Tensor<'_>, ranks: usize, rank: usize| tensor.filter(|place| place.owner(ranks) == rank);
    for ranks in [2, 3] {
        run_ranks(ranks, |team| {
            let rank = tensornoodl::Team::rank(team);
            let mut learner = learner(40, None, 3);
            learner.join(Arc::new(team.clone()));
            tensors.iter().for_each(|tensor| drop(learner.learn(&part(tensor, ranks, rank)).unwrap()));
            assert!(learner == expected, "rank {rank} of {ranks}");
        });
    }
    let mut in_parts = learned(&tensors[..1]);
    for tensor in &tensors[1..] {
        let parts = (0..3).map(|at| Ok::<_, Error>(part(tensor, 3, at)));
        in_parts.learn_parts(tensor.shape(), parts).unwrap();
    }
    assert!(in_parts == expected);
}

#[test]
fn values_that_are_no_counts_are_refused() {
    let shape = Shape { features: 2, rows: 1, cols: 1 };
    let tensor = |value: f64| {
        let mut fibers = Sparse::new(2);
        fibers.push(&[(1, value)]);
        Tensor::from_sparse(shape, fibers, vec![Place { row: 0, col: 0 }]).unwrap()
    };
    for value in [-1.0, 1e12] {
        let mut learner = learner(2, None, 0);
        let refused = learner.learn(&tensor(value));
        let place = Place { row: 0, col: 0 };
        assert_eq!(refused.unwrap_err(), Error::NotACount { feature: 1, place, value });
        assert_eq!((learner.steps(), learner.dictionary().patterns()), (0, 0));
    }
}

#[test]
fn small_and_odd_tensors_are_learned() {
    let shape = Shape { features: 3, rows: 2, cols: 2 };
    let empty = Tensor::from_triplets(shape, &[]).unwrap();
    let single = Tensor::from_triplets(shape, &[(2, 1, 1, 1.0)]).unwrap();
    let huge = Tensor::from_triplets(shape, &[(0, 0, 0, 1e9), (1, 0, 0, 1e9), (2, 1, 0, 0.5)]).unwrap();
    let mut learner = learner(3, None, 0);
    for tensor in [&empty, &single, &empty, &huge, &single] {
        let step = learner.learn(tensor).unwrap();
        assert_eq!(step.fibers, tensor.fibers());
        assert_eq!(learner.check(), Ok(()));
        assert!(learner.dictionary().values().iter().all(|share| share.is_finite()));
    }
    assert!(learner.dictionary().patterns() >= 1);
    let one = Shape { features: 1, rows: 2, cols: 1 };
    let mut single_feature = learner_of_one();
    let tensor = Tensor::from_triplets(one, &[(0, 0, 0, 3.0), (0, 1, 0, 2.0)]).unwrap();
    single_feature.learn(&tensor).unwrap();
    assert_eq!(single_feature.dictionary().values(), [1.0]);
}

/// A learner for tensors of one feature.
fn learner_of_one() -> Learner {
    learner(1, None, 0)
}

#[test]
fn passes_over_one_tensor_improve_the_fit() {
    let (planted, _) = stream(CountPlan::default());
    let tensor = planted.tensor(1).tensor;
    let params = Params { passes: Passes::Exhaust, ..Params::default() };
    let mut learner = Learner::for_counts(40, params, DiscoverParams::default()).unwrap();
    let step = learner.learn(&tensor).unwrap();
    assert!(step.passes >= 1 && step.fit < 0.6, "{} {}", step.passes, step.fit);
}
