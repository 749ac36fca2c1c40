//! Streams with outliers: a robot at a random place has 1,000 times as much as usual in one feature, in the first step
//! and in others.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use tensornoodl::parallel::Solo;
use tensornoodl::synthetic::{Plan, Planted};
use tensornoodl::synthetic_counts::{CountPlan, PlantedCounts};
use tensornoodl::{Dictionary, DiscoverParams, Learner, Params, Place, Tensor};

/// Returns the tensor of a step with a robot, in the first step and in every sixth one after it on the average.
fn with_robot(tensor: &Tensor<'_>, step: u64, size: f64, seed: u64) -> Tensor<'static> {
    let shape = tensor.shape();
    let mut draw = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ step.wrapping_mul(0xd134_2543_de82_ef95);
    let mut below = |end: usize| {
        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (draw >> 33) as usize % end
    };
    below(2);
    let mut fibers: BTreeMap<(u32, u32), Vec<f64>> = BTreeMap::new();
    for (fiber, place) in tensor.places().iter().enumerate() {
        fibers.insert((place.row, place.col), tensor.fiber(fiber).to_vec());
    }
    if step == 1 || below(6) == 0 {
        let place = (below(shape.rows) as u32, below(shape.cols) as u32);
        fibers.entry(place).or_insert_with(|| vec![0.0; shape.features])[below(shape.features)] += size;
    }
    let places: Vec<Place> = fibers.keys().map(|&(row, col)| Place { row, col }).collect();
    Tensor::from_fibers(shape, fibers.into_values().flatten().collect::<Vec<f64>>(), places).unwrap()
}

/// Learns a clean stream, and the same stream with robots. Of the patterns of the clean stream that are true, returns
/// their number, and the smallest cosine between one of them and the nearest pattern of the stream with robots.
fn compare<'t>(
    truth: &Dictionary,
    tensor: impl Fn(u64) -> Tensor<'t>,
    steps: u64,
    size: f64,
    seed: u64,
    learner: impl Fn(&Tensor<'_>) -> Learner,
) -> (usize, f64) {
    let learn = |size: f64| -> Dictionary {
        let step = |t: u64| with_robot(&tensor(t), t, size, seed);
        let mut learner = learner(&step(1));
        (1..=steps).for_each(|t| drop(learner.learn(&step(t)).unwrap()));
        learner.dictionary().with_unit_lengths()
    };
    let (clean, dirty, truth) = (learn(0.0), learn(size), truth.with_unit_lengths());
    let nearest = |others: &Dictionary, pattern: &[f64]| {
        let cosine = |l: usize| others.pattern(l).iter().zip(pattern).map(|(a, b)| a * b).sum::<f64>().abs();
        (0..others.patterns()).map(cosine).fold(0.0, f64::max)
    };
    let patterns = (0..clean.patterns()).map(|i| clean.pattern(i));
    let found: Vec<&[f64]> = patterns.filter(|pattern| nearest(&truth, pattern) > 0.98).collect();
    (found.len(), found.iter().map(|pattern| nearest(&dirty, pattern)).fold(1.0, f64::min))
}

fn exact(first: &Tensor<'_>) -> Learner {
    let (params, discover) = (Params::default(), DiscoverParams::default());
    Learner::from_tensor(Arc::new(Solo), first, params, discover, true).unwrap()
}

fn counts(first: &Tensor<'_>) -> Learner {
    Learner::for_counts(first.shape().features, Params::default(), DiscoverParams::default()).unwrap()
}

#[test]
fn robots_do_not_change_the_patterns_of_the_exact_model() {
    for (features, seed) in [(30, 2), (40, 3), (60, 4)] {
        let plan = Plan { features, patterns: 6, rows: 20, cols: 20, noise: 0.1, seed, ..Plan::default() };
        let planted = Planted::new(Plan { alpha: 0.25, beta: 0.25, ..plan }).unwrap();
        let (found, worst) =
            compare(planted.true_dictionary(), |t| planted.tensor(t).tensor, 52, 1000.0, seed, exact);
        assert!(found == 6 && worst > 0.99, "{features} features, seed {seed}: {worst}, {found} found");
    }
}

#[test]
fn robots_do_not_change_the_patterns_of_events_in_the_exact_model() {
    for seed in 1..4 {
        let plan = CountPlan { features: 30, rows: 20, cols: 20, events: 20.0, seed, ..CountPlan::default() };
        let planted = PlantedCounts::new(plan).unwrap();
        let (found, worst) =
            compare(planted.true_dictionary(), |t| planted.tensor(t).tensor, 52, 3000.0, seed, exact);
        assert!(found == 5 && worst > 0.99, "seed {seed}: {worst}, {found} found");
    }
}

#[test]
fn robots_do_not_change_the_patterns_of_counts() {
    let plan = CountPlan {
        features: 12,
        patterns: 3,
        rows: 10,
        cols: 10,
        alpha: 0.4,
        beta: 0.4,
        ..CountPlan::default()
    };
    let planted = PlantedCounts::new(CountPlan { events: 20.0, seed: 5, ..plan }).unwrap();
    let (found, worst) =
        compare(planted.true_dictionary(), |t| planted.tensor(t).tensor, 52, 3000.0, 5, counts);
    assert!(found == 3 && worst > 0.99, "{worst}, {found} found");
}
