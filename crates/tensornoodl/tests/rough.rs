//! The exact model on streams of counts, which follow it only roughly.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use tensornoodl::parallel::Solo;
use tensornoodl::synthetic_counts::{CountPlan, PlantedCounts};
use tensornoodl::{DiscoverParams, Learner, Params, Step};

/// Learns from 70 tensors of a stream of three patterns. Returns the learner, and the explained share and the number of
/// lost patterns of each step.
fn learn(plan: CountPlan) -> (Learner, Vec<(f64, usize)>) {
    let planted = PlantedCounts::new(CountPlan { patterns: 3, same_factors: true, ..plan }).unwrap();
    let tensor = |t: u64| planted.tensor(t).tensor;
    let (params, discover) = (Params::default(), DiscoverParams::default());
    let mut learner = Learner::from_tensor(Arc::new(Solo), &tensor(1), params, discover, true).unwrap();
    let explained = |step: &Step| (1.0 - step.fit * step.fit, step.lost.len());
    let steps = (1..=70).map(|t| explained(&learner.learn(&tensor(t)).unwrap())).collect();
    (learner, steps)
}

#[test]
fn no_pattern_is_dropped_that_explains_what_the_others_do_not() {
    for seed in 0..6 {
        let small =
            CountPlan { features: 9, rows: 12, cols: 6, alpha: 0.6, beta: 0.7, ..CountPlan::default() };
        let (learner, steps) = learn(CountPlan { events: 6.0, seed, ..small });
        for (t, pair) in steps.windows(2).enumerate().filter(|(_, pair)| pair[0].1 > 0) {
            let (before, after) = (pair[0].0, pair[1].0);
            assert!(after > 0.9 * before, "seed {seed}, step {}: {before:.2}, then {after:.2}", t + 1);
        }
        let last = steps[60..].iter().map(|step| step.0).fold(1.0, f64::min);
        assert!(learner.dictionary().patterns() >= 2 && last > 0.7, "seed {seed}: {last:.2}");
    }
}

#[test]
fn fibers_of_single_events_do_not_shrink_patterns_to_single_features() {
    for seed in 1..4 {
        let large =
            CountPlan { features: 24, alpha: 0.3, beta: 0.3, concentration: 1.0, ..CountPlan::default() };
        let learner = learn(CountPlan { events: 4.0, seed, ..large }).0;
        let dictionary = learner.dictionary();
        // The number of equal entries that a pattern of unit length would have, with the same sum.
        let width = |i: usize| dictionary.pattern(i).iter().map(|a| a.abs()).sum::<f64>().powi(2);
        let narrowest = (0..dictionary.patterns()).map(width).fold(f64::INFINITY, f64::min);
        assert!(narrowest > 2.0, "seed {seed}: a pattern has only {narrowest:.1} features");
    }
}
