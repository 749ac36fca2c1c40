//! Error bars are calibrated: on planted streams, predicted errors are the true ones on the average.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use tensornoodl::metrics::Matching;
use tensornoodl::synthetic::{Plan, Planted};
use tensornoodl::synthetic_counts::{CountPlan, PlantedCounts};
use tensornoodl::{Dictionary, DiscoverParams, Learner, ModelKind, Params, Rule};

/// Ninety percent of a normal distribution are within this many standard deviations of its mean.
const NINETY: f64 = 1.6449;

/// Sums over patterns and entries.
#[derive(Debug, Default)]
struct Calibration {
    predicted: f64,
    error: f64,
    patterns: usize,
    covered: usize,
    entries: usize,
}

impl Calibration {
    /// Adds all patterns of a learner that have error bars. Patterns of counts that are not a true pattern, because the
    /// learner has not separated it yet, and entries with few events are left out.
    fn add(&mut self, learner: &Learner, truth: &Dictionary) {
        let found = learner.dictionary();
        let matching = Matching::new(&found.with_unit_lengths(), &truth.with_unit_lengths()).unwrap();
        let (errors, bars) = (learner.errors(), learner.error_bars());
        for (i, at) in matching.found.iter().enumerate() {
            let Some((at, bars)) = at.and_then(|at| Some((at, bars[at].as_ref()?))) else { continue };
            let (a, b) = (found.pattern(at), truth.pattern(i));
            let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| matching.sign[i] * a - b).collect();
            let squares = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>();
            let error = squares(&differences) / squares(a);
            let counts = learner.kind() == ModelKind::Counts;
            if counts && error > 0.1 {
                continue;
            }
            self.predicted += errors[at].unwrap().powi(2);
            self.error += error;
            self.patterns += 1;
            for f in (0..a.len()).filter(|&f| !counts || bars[f] < 0.3 * a[f]) {
                self.covered += usize::from(differences[f].abs() < NINETY * bars[f]);
                self.entries += 1;
            }
        }
    }

    #[track_caller]
    fn assert_good(&self, name: &str) {
        let ratio = (self.predicted / self.error).sqrt();
        let coverage = self.covered as f64 / self.entries as f64;
        println!("{name}: {} patterns, predicted / true {ratio:.3}, coverage {coverage:.3}", self.patterns);
        assert!((0.8..1.25).contains(&ratio), "{name}: {ratio} {self:?}");
        assert!((0.85..0.95).contains(&coverage), "{name}: {coverage} {self:?}");
    }
}

#[test]
fn error_bars_of_noisy_streams_are_calibrated() {
    let small =
        Plan { features: 50, patterns: 20, rows: 30, cols: 30, alpha: 0.07, beta: 0.07, ..Plan::default() };
    let short =
        Plan { features: 20, patterns: 5, rows: 20, cols: 20, alpha: 0.1, beta: 0.1, ..small.clone() };
    let sparse =
        Plan { features: 100, patterns: 40, rows: 40, cols: 40, alpha: 0.03, beta: 0.03, ..small.clone() };
    let mixed = Plan { alpha: 0.15, beta: 0.15, ..small.clone() };
    for (name, plan) in [("small", small), ("short", short), ("sparse", sparse), ("mixed", mixed)] {
        for noise in [0.01, 0.1, 0.5] {
            let mut calibration = Calibration::default();
            for seed in 0..8 {
                let planted = Planted::new(Plan { noise, seed, ..plan.clone() }).unwrap();
                let start = planted.start(planted.paper_distance()).unwrap();
                let mut learner = Learner::new(start, Params::default()).unwrap();
                for t in 1..=20 {
                    learner.learn(&planted.tensor(t).tensor).unwrap();
                    if t % 4 == 0 {
                        calibration.add(&learner, planted.true_dictionary());
                    }
                }
            }
            calibration.assert_good(&format!("{name}, noise {noise}"));
        }
    }
}

#[test]
fn error_bars_of_counts_are_calibrated() {
    let plain = CountPlan::default();
    let few = CountPlan { events: 8.0, ..plain.clone() };
    for (name, plan) in [("plain", plain), ("few", few)] {
        let mut calibration = Calibration::default();
        for seed in 0..4 {
            let planted = PlantedCounts::new(CountPlan { seed, ..plan.clone() }).unwrap();
            let discover =
                DiscoverParams { min_patterns: 5, max_patterns: Some(5), ..DiscoverParams::default() };
            let mut learner = Learner::for_counts(plan.features, Params::default(), discover).unwrap();
            for t in 1..=8 {
                learner.learn(&planted.tensor(t).tensor).unwrap();
                if t == 4 || t == 8 {
                    calibration.add(&learner, planted.true_dictionary());
                }
            }
        }
        calibration.assert_good(name);
    }
}

#[test]
fn a_pattern_has_error_bars_from_its_fourth_tensor_on() {
    let planted = Planted::new(Plan { patterns: 30, features: 40, noise: 0.1, ..Plan::default() }).unwrap();
    let start = planted.start(0.3).unwrap();
    let paper = Params { rule: Rule::Paper { eta_a: 5.0 }, ..Params::default() };
    let mut learner = Learner::new(start.clone(), Params::default()).unwrap();
    let mut papers = Learner::new(start, paper).unwrap();
    let mut shown = [0; 30];
    for t in 1..=8 {
        let tensor = planted.tensor(t).tensor;
        let step = learner.learn(&tensor).unwrap();
        papers.learn(&tensor).unwrap();
        shown.iter_mut().zip(&step.activity).for_each(|(shown, fibers)| *shown += u64::from(*fibers > 0));
        let known: Vec<bool> = learner.errors().iter().map(Option::is_some).collect();
        assert_eq!(known, shown.map(|shown| shown >= 4), "tensor {t}");
        assert!(papers.errors().iter().all(Option::is_none));
    }
    assert!(learner.errors().iter().flatten().count() > 20);
}

#[test]
fn patterns_have_no_error_bars_without_noise() {
    let plan =
        Plan { features: 50, patterns: 20, rows: 30, cols: 30, alpha: 0.15, beta: 0.15, ..Plan::default() };
    for (noise, known) in [(0.0, false), (0.01, true)] {
        let planted = Planted::new(Plan { noise, ..plan.clone() }).unwrap();
        let mut learner = Learner::new(planted.start(0.3).unwrap(), Params::default()).unwrap();
        for t in 1..=12 {
            learner.learn(&planted.tensor(t).tensor).unwrap();
            let count = learner.errors().iter().flatten().count();
            assert_eq!(count > 15, known && t >= 4, "noise {noise}, tensor {t}: {count}");
            assert!(known || count == 0, "tensor {t}: {count}");
        }
    }
}
