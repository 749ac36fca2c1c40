//! Codes that are called certain are right, and nearly all codes are certain once the patterns are known.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use tensornoodl::metrics::Matching;
use tensornoodl::synthetic::{Plan, Planted, Values};
use tensornoodl::{DiscoverParams, Learner, Params};

/// Counts over the fibers of a stream.
#[derive(Debug, Default)]
struct Tally {
    /// Fibers of tensors after which the error of A is below 1e-3 and that were learned from a start near A*, and those
    /// of them that are certain.
    known: usize,
    known_certain: usize,
    /// Certain codes, those of them that are wrong, and wrong codes, in all tensors.
    certain: usize,
    wrong_certain: usize,
    wrong: usize,
    fibers: usize,
}

impl Tally {
    /// Learns from a stream. After each tensor, adds the codes of that tensor, and those of another one.
    fn add(&mut self, planted: &Planted, mut learner: Learner, tensors: u64) {
        let near = learner.scale().is_none() && learner.dictionary().patterns() > 0;
        let truth = planted.true_dictionary();
        for t in 1..=tensors {
            learner.learn(&planted.tensor(t).tensor).unwrap();
            if learner.dictionary().patterns() == 0 {
                continue;
            }
            let matching = Matching::new(learner.dictionary(), truth).unwrap();
            let known = near && matching.error_a(learner.dictionary(), truth) < 1e-3;
            for other in [t, t + 1000] {
                let other = planted.tensor(other);
                let codes = learner.encode(&other.tensor).unwrap();
                let certain = learner.certain_codes(&other.tensor, &codes).unwrap().unwrap();
                let right = matching.right_codes(&codes, &other.true_codes);
                let count = certain.iter().filter(|certain| **certain).count();
                self.fibers += certain.len();
                self.certain += count;
                self.wrong += right.iter().filter(|right| !**right).count();
                self.wrong_certain +=
                    certain.iter().zip(&right).filter(|(certain, right)| **certain && !**right).count();
                if known {
                    self.known += certain.len();
                    self.known_certain += count;
                }
            }
        }
    }

    #[track_caller]
    fn print_and_assert(&self, name: &str) {
        let share = |part: usize, all: usize| part as f64 / all.max(1) as f64;
        println!(
            "{name}: {} codes, {:.3} certain, {} wrong; error below 1e-3: {} codes, {:.3} certain; {} certain and wrong",
            self.fibers,
            share(self.certain, self.fibers),
            self.wrong,
            self.known,
            share(self.known_certain, self.known),
            self.wrong_certain
        );
        assert_eq!(self.wrong_certain, 0, "{name}");
        assert!(self.known == 0 || share(self.known_certain, self.known) >= 0.9, "{name}");
    }
}

/// Streams of the paper's shape, with more patterns in a fiber, and with few features.
fn plans() -> Vec<(&'static str, Plan)> {
    let paper = Plan { rows: 40, cols: 40, ..Plan::default() };
    let values = Values::SubGaussian { floor: 0.5 };
    vec![
        ("paper", paper.clone()),
        ("many", Plan { patterns: 600, rows: 30, cols: 30, ..paper.clone() }),
        ("small codes", Plan { row_values: values, ..paper.clone() }),
        ("rare", Plan { alpha: 0.02, beta: 0.02, ..paper.clone() }),
        ("short", Plan { features: 50, patterns: 20, rows: 30, cols: 30, alpha: 0.07, beta: 0.07, ..paper }),
    ]
}

#[test]
fn certain_codes_are_right_and_most_codes_are_certain() {
    for (name, plan) in plans() {
        for noise in [0.0, 0.001, 0.1] {
            let mut tally = Tally::default();
            for seed in 0..2 {
                let planted = Planted::new(Plan { noise, seed, ..plan.clone() }).unwrap();
                let floor = plan.row_values.floor() * plan.col_values.floor();
                let params = Params { code_floor: floor, ..Params::default() };
                let start = planted.start(planted.paper_distance()).unwrap();
                tally.add(&planted, Learner::new(start, params).unwrap(), 10);
                let search = DiscoverParams::default();
                let nothing = Learner::from_nothing(plan.features, Params::default(), search).unwrap();
                tally.add(&planted, nothing, 12);
            }
            tally.print_and_assert(&format!("{name}, noise {noise}"));
        }
    }
}
