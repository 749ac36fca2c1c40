//! The polish of one tensor, and the number of patterns of a dense tensor.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use tensornoodl::metrics::Matching;
use tensornoodl::parallel::{Solo, Team, run_ranks};
use tensornoodl::{
    Dictionary, DiscoverParams, Error, Learner, ModelKind, Params, Passes, Place, Polish, Shape, Tensor,
};

const LENGTHS: [usize; 3] = [40, 9, 25];

/// A small generator of uniform numbers.
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Three bells over an axis that overlap, so that their cosines are about .6.
fn bells(length: usize) -> Vec<Vec<f64>> {
    let bell = |middle: f64| {
        (0..length).map(move |at| (-((at as f64 / length as f64 - middle) / 0.15).powi(2)).exp())
    };
    [0.3, 0.5, 0.75].map(|middle| bell(middle).collect()).to_vec()
}

/// Mixtures of three bells, with noise that makes some values negative. `axes` says which axis is which of [`LENGTHS`].
/// Also returns the patterns.
fn mixtures(axes: [usize; 3], scale: f64, noise: f64, whole: bool) -> (Tensor<'static>, Dictionary) {
    let mut random = Random(7);
    let amounts: Vec<Vec<f64>> =
        (0..3).map(|_| (0..LENGTHS[1]).map(|_| random.uniform()).collect()).collect();
    let factors = [bells(LENGTHS[0]), amounts, bells(LENGTHS[2])];
    let [n, rows, cols] = axes.map(|axis| LENGTHS[axis]);
    let (mut values, mut places) = (Vec::new(), Vec::new());
    for (col, row) in (0..cols).flat_map(|col| (0..rows).map(move |row| (col, row))) {
        for feature in 0..n {
            let at = [feature, row, col];
            let product = |i: usize| (0..3).map(|q| factors[axes[q]][i][at[q]]).product::<f64>();
            let value = scale * ((0..3).map(product).sum::<f64>() + noise * (random.uniform() - 0.5));
            values.push(if whole { value.max(0.0).round() } else { value });
        }
        places.push(Place { row: row as u32, col: col as u32 });
    }
    let tensor = Tensor::from_fibers(Shape { features: n, rows, cols }, values, places).unwrap();
    (tensor, Dictionary::from_columns(n, factors[axes[0]].concat()).unwrap())
}

fn discover(patterns: Option<usize>) -> DiscoverParams {
    DiscoverParams {
        min_patterns: patterns.unwrap_or(0),
        max_patterns: patterns,
        ..DiscoverParams::default()
    }
}

fn learner(kind: ModelKind, tensor: &Tensor<'_>, patterns: Option<usize>) -> Learner {
    let params = Params { passes: Passes::Exhaust, ..Params::default() };
    match kind {
        ModelKind::Exact => {
            Learner::from_tensor(Arc::new(Solo), tensor, params, discover(patterns), false).unwrap()
        }
        ModelKind::Counts => {
            Learner::for_counts(tensor.shape().features, params, discover(patterns)).unwrap()
        }
    }
}

/// The smallest cosine of a true pattern with the pattern that was found for it.
fn smallest_cosine(found: &Dictionary, truth: &Dictionary) -> f64 {
    let found = found.with_unit_lengths();
    let distances = Matching::new(&found, truth).unwrap().distances(&found, truth);
    distances.into_iter().map(|distance| 1.0 - distance * distance / 2.0).fold(1.0, f64::min)
}

fn polish(learner: &mut Learner, tensor: &Tensor<'_>) -> Polish {
    let step = learner.learn(tensor).unwrap();
    learner.polish(tensor, &step.codes.untangle()).unwrap()
}

#[test]
fn a_polish_tells_similar_patterns_apart_with_both_models() {
    for (kind, scale, noise, whole) in
        [(ModelKind::Exact, 1.0, 0.02, false), (ModelKind::Counts, 1000.0, 0.0, true)]
    {
        let (tensor, truth) = mixtures([0, 1, 2], scale, noise, whole);
        let mut learner = learner(kind, &tensor, Some(3));
        let step = learner.learn(&tensor).unwrap();
        let before = smallest_cosine(learner.dictionary(), &truth);
        let polish = learner.polish(&tensor, &step.codes.untangle()).unwrap();
        let after = smallest_cosine(learner.dictionary(), &truth);
        assert!(before < after && after > 0.999, "{kind:?}: {before:.5}, then {after:.5}");
        assert!(polish.fit < 0.05 && polish.sweeps > 1, "{kind:?}: {} {}", polish.fit, polish.sweeps);
        assert_eq!(polish.negative > 0.0, noise > 0.0);
        for factor in [&polish.factors.rows, &polish.factors.cols] {
            assert!(factor.columns().flatten().all(|entry| entry.1 > 0.0));
        }
        learner.check().unwrap();
        assert_eq!(learner.dictionary().patterns(), 3);
    }
}

#[test]
fn factors_and_patterns_give_the_tensor_back() {
    let (tensor, _) = mixtures([0, 1, 2], 50.0, 0.0, false);
    let mut learner = learner(ModelKind::Exact, &tensor, Some(3));
    let polish = polish(&mut learner, &tensor);
    let (dictionary, factors) = (learner.dictionary(), &polish.factors);
    let (mut error, mut energy) = (0.0, 0.0);
    for (fiber, place) in tensor.places().iter().enumerate() {
        let entry = |column: &[(u32, f64)], at: u32| column.iter().find(|e| e.0 == at).map_or(0.0, |e| e.1);
        for (feature, value) in tensor.fiber(fiber).iter().enumerate() {
            let product = |i: usize| {
                let codes =
                    entry(factors.rows.column(i), place.row) * entry(factors.cols.column(i), place.col);
                dictionary.pattern(i)[feature] * codes
            };
            error += (value - (0..3).map(product).sum::<f64>()).powi(2);
            energy += value * value;
        }
    }
    assert!(((error / energy).sqrt() - polish.fit).abs() < 1e-6, "{error} {}", polish.fit);
}

#[test]
fn a_polish_refuses_streams_and_patterns_of_several_groups() {
    let (tensor, _) = mixtures([0, 1, 2], 1.0, 0.0, false);
    let mut learner = learner(ModelKind::Exact, &tensor, Some(3));
    let mut factors = learner.learn(&tensor).unwrap().codes.untangle();
    factors.rank_one[1] = 0.4;
    let before = learner.clone();
    let refused = learner.polish(&tensor, &factors).unwrap_err();
    assert_eq!(refused, Error::SeveralGroups { pattern: 1, share: 0.4 });
    assert!(refused.to_string().contains("pattern 2"), "{refused}");
    factors.rank_one.pop();
    assert_eq!(learner.polish(&tensor, &factors).unwrap_err(), Error::Patterns { codes: 2, dictionary: 3 });
    assert_eq!(learner, before);
    let step = learner.learn(&tensor).unwrap();
    let refused = learner.polish(&tensor, &step.codes.untangle()).unwrap_err().to_string();
    assert!(refused.contains("polish") && refused.contains("stream"), "{refused}");
}

#[test]
fn the_bits_of_a_polish_do_not_depend_on_ranks() {
    let (tensor, _) = mixtures([0, 1, 2], 1.0, 0.02, false);
    let run = |ranks: usize| -> Vec<(Dictionary, Polish)> {
        run_ranks(ranks, |team| {
            let own = tensor.filter(|place| (place.row + place.col) as usize % ranks == team.rank());
            let (team, params): (Arc<dyn Team>, _) = (Arc::new(team.clone()), Params::default());
            let mut learner =
                Learner::from_tensor(Arc::clone(&team), &own, params, discover(None), false).unwrap();
            let step = learner.learn(&own).unwrap();
            let polish = learner.polish(&own, &step.codes.untangle_blocks(&*team, 1)[0]).unwrap();
            (learner.dictionary().clone(), polish)
        })
    };
    let alone = run(1).remove(0);
    assert_eq!(alone.0.patterns(), 3);
    for ranks in [2, 3] {
        assert!(run(ranks).iter().all(|rank| *rank == alone), "{ranks} ranks");
    }
}

#[test]
fn the_number_of_patterns_of_a_dense_tensor_is_the_same_for_all_orientations() {
    for axes in [[0, 1, 2], [1, 0, 2], [2, 0, 1]] {
        let (tensor, truth) = mixtures(axes, 1.0, 0.02, false);
        let mut learner = learner(ModelKind::Exact, &tensor, None);
        assert_eq!(learner.dictionary().patterns(), 3, "{axes:?}");
        polish(&mut learner, &tensor);
        let cosine = smallest_cosine(learner.dictionary(), &truth);
        assert!(cosine > 0.998, "{axes:?}: {cosine:.4}");
    }
}
