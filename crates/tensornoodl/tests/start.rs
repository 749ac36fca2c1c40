//! Recovery from nothing: without a dictionary, a number of patterns, or a scale.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use tensornoodl::metrics::Matching;
use tensornoodl::parallel::Solo;
use tensornoodl::recovery::{PatternCounts, Progress, Recovery};
use tensornoodl::synthetic::{Plan, Planted, Values};
use tensornoodl::{Dictionary, DiscoverParams, Error, Learner, Params, Passes, Place, Rule, Shape, Tensor};

/// Three cells of the paper's tables with 300 features: (patterns, J = K, alpha = beta).
const CELLS: [(usize, usize, f64); 3] = [(50, 100, 0.05), (150, 100, 0.05), (150, 300, 0.01)];

fn plan((patterns, size, alpha): (usize, usize, f64), values: Values) -> Plan {
    let (row_values, col_values) = (values, values);
    Plan { patterns, rows: size, cols: size, alpha, beta: alpha, row_values, col_values, ..Plan::default() }
}

fn recovery(plan: Plan) -> Recovery {
    Recovery::from_nothing(Planted::new(plan).unwrap(), Params::default()).unwrap()
}

fn advance(recovery: &mut Recovery, tensors: usize) -> Vec<Progress> {
    (0..tensors).map(|_| recovery.advance().unwrap()).collect()
}

#[test]
fn patterns_in_two_fibers_are_found_at_once_and_converge() {
    for values in [Values::Rademacher, Values::SubGaussian { floor: 0.5 }] {
        for cell in CELLS {
            let mut recovery = recovery(Plan { scale: 1000.0, seed: 26, ..plan(cell, values) });
            let first = recovery.advance().unwrap();
            let PatternCounts { seen, found, spurious } = first.pattern_counts;
            assert!(found == seen && spurious == 0, "{cell:?} {values:?}: {:?}", first.pattern_counts);
            assert!(seen > 8 * cell.0 / 10);
            let mut now = first;
            while now.error_a > 1e-10 && now.step.step < 40 {
                now = recovery.advance().unwrap();
                assert_eq!(now.pattern_counts.spurious, 0, "{cell:?} {values:?} tensor {}", now.step.step);
            }
            let outcome = recovery.outcome().unwrap();
            assert!(outcome.error_a <= 1e-10 && outcome.support, "{cell:?} {values:?}: {outcome:?}");
            assert_eq!(outcome.pattern_counts, PatternCounts { seen: cell.0, found: cell.0, spurious: 0 });
            assert!(outcome.steps <= outcome.coverage_step.unwrap() + 20);
            // Every pattern has its evidence.
            let learner = recovery.learner();
            assert!(learner.evidence().len() == cell.0 && learner.evidence().iter().all(|e| *e > 1.0));
            assert_eq!(learner.unexplained_fibers(), 0);
        }
    }
}

#[test]
fn noise_costs_at_most_a_tenth_more_than_the_oracle() {
    for (noise, values) in
        [(0.1, Values::Rademacher), (0.3, Values::SubGaussian { floor: 0.5 }), (0.5, Values::Rademacher)]
    {
        for cell in CELLS {
            let mut recovery = recovery(Plan { noise, seed: 91, ..plan(cell, values) });
            advance(&mut recovery, 20);
            let outcome = recovery.outcome().unwrap();
            let all = PatternCounts { seen: cell.0, found: cell.0, spurious: 0 };
            assert_eq!(outcome.pattern_counts, all, "{cell:?} {noise} {values:?}");
            let ratio = outcome.error_a / outcome.oracle_error_a.unwrap();
            assert!(ratio < 1.1, "{cell:?} {noise} {values:?}: {ratio}");
        }
    }
}

#[test]
fn late_patterns_are_found_and_the_other_patterns_stay() {
    let plan = Plan { late: 20, late_step: 9, ..Plan::default() };
    let mut recovery = recovery(plan);
    advance(&mut recovery, 8);
    let error_of_the_others = |recovery: &Recovery| {
        let (found, truth) = (recovery.learner().dictionary(), recovery.planted().true_dictionary());
        let distances = Matching::new(found, truth).unwrap().distances(found, truth);
        distances[..130].iter().fold(0.0, |a: f64, d| a.max(*d))
    };
    assert_eq!(recovery.learner().dictionary().patterns(), 130);
    let mut before = error_of_the_others(&recovery);
    assert!(before < 1e-10);
    for t in 9..=14 {
        let now = recovery.advance().unwrap();
        let after = error_of_the_others(&recovery);
        assert!(after <= before.max(1e-14), "tensor {t}: {before} {after}");
        before = after;
        assert_eq!(now.pattern_counts.spurious, 0);
    }
    let outcome = recovery.outcome().unwrap();
    assert_eq!(outcome.pattern_counts.found, 150);
    assert!(outcome.error_a < 1e-10, "{}", outcome.error_a);
}

#[test]
fn results_do_not_depend_on_scale_or_threads() {
    let run = |scale: f64, threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let values = Values::SubGaussian { floor: 0.5 };
            let mut recovery = recovery(Plan { noise: 0.1, scale, seed: 7, ..plan((60, 120, 0.04), values) });
            let last = advance(&mut recovery, 4).pop().unwrap();
            (recovery.learner().dictionary().clone(), last.step.codes)
        })
    };
    let (dictionary, codes) = run(1.0, 1);
    for threads in [2, 4] {
        assert_eq!((dictionary.clone(), codes.clone()), run(1.0, threads));
    }
    let (scaled, scaled_codes) = run(1000.0, 2);
    let apart = dictionary.values().iter().zip(scaled.values()).map(|(a, b)| (a - b).abs());
    assert!(apart.fold(0.0, f64::max) < 1e-6, "the search works in single precision");
    let support = |codes: &tensornoodl::Codes| -> Vec<Vec<u32>> {
        codes.matrix().columns().map(|column| column.iter().map(|entry| entry.0).collect()).collect()
    };
    assert_eq!(support(&codes), support(&scaled_codes));
}

/// A stream of tensors in which every pattern has its own frequency and every fiber its own noise.
struct Stream {
    truth: Dictionary,
    state: u64,
}

impl Stream {
    fn new(features: usize, patterns: usize, seed: u64) -> Stream {
        let plan = Plan { features, patterns: patterns.max(1), seed, ..Plan::default() };
        Stream { truth: Planted::new(plan).unwrap().true_dictionary().clone(), state: 0x9e37 + seed }
    }

    fn uniform(&mut self) -> f64 {
        self.state = self.state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.state >> 11) as f64 / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().max(1e-300).ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// A tensor whose fibers contain pattern i with probability `share(i)` and code +-1. The length of the noise of a
    /// fiber is `noise(z)` for a standard normal z.
    fn tensor(
        &mut self,
        fibers: usize,
        share: impl Fn(usize) -> f64,
        noise: impl Fn(f64) -> f64,
    ) -> Tensor<'static> {
        let n = self.truth.features();
        let (mut values, mut places) = (Vec::new(), Vec::new());
        for fiber in 0..fibers {
            let mut y = vec![0.0; n];
            for i in 0..self.truth.patterns() {
                if self.uniform() < share(i) {
                    let x = if self.uniform() < 0.5 { 1.0 } else { -1.0 };
                    y.iter_mut().zip(self.truth.pattern(i)).for_each(|(y, a)| *y += x * a);
                }
            }
            let length = noise(self.normal()) / (n as f64).sqrt();
            y.iter_mut().for_each(|y| *y += length * self.normal());
            if y.iter().any(|y| *y != 0.0) {
                values.extend(y);
                places.push(Place { row: (fiber / 100) as u32, col: (fiber % 100) as u32 });
            }
        }
        let shape = Shape { features: n, rows: fibers.div_ceil(100), cols: 100 };
        Tensor::from_fibers(shape, values, places).unwrap()
    }

    /// Returns (found, spurious, worst): the number of true patterns found, the number of other patterns in the
    /// dictionary, and the largest distance of a found pattern.
    fn compare(&self, learner: &Learner) -> (usize, usize, f64) {
        let found = learner.dictionary();
        let distances = Matching::new(found, &self.truth).unwrap().distances(found, &self.truth);
        let near: Vec<f64> = distances.into_iter().filter(|d| *d < 0.5).collect();
        let worst = near.iter().copied().fold(0.0, f64::max);
        (near.len(), found.patterns() - near.len(), worst)
    }
}

fn from_nothing(features: usize) -> Learner {
    Learner::from_nothing(features, Params::default(), DiscoverParams::default()).unwrap()
}

#[test]
fn noise_alone_has_no_patterns() {
    for features in [10, 40, 300] {
        let (mut stream, mut learner) = (Stream::new(features, 0, 1), from_nothing(features));
        for _ in 0..4 {
            let step = learner.learn(&stream.tensor(2000, |_| 0.0, |_| 1.0)).unwrap();
            assert_eq!((learner.dictionary().patterns(), step.found, step.fit), (0, 0, 1.0), "{features}");
        }
        assert!(learner.unexplained_fibers() > 0);
    }
}

#[test]
fn rare_patterns_are_found_beside_frequent_patterns() {
    // The first pattern is in every 4th fiber, the last pattern in every 600th.
    let (mut stream, mut learner) = (Stream::new(300, 150, 2), from_nothing(300));
    for _ in 0..10 {
        learner.learn(&stream.tensor(3000, |i| 0.25 / (i + 1) as f64, |_| 0.1)).unwrap();
    }
    let (found, spurious, worst) = stream.compare(&learner);
    assert!((found, spurious) == (150, 0) && worst < 0.1, "{found} {spurious} {worst}");
}

#[test]
fn patterns_are_found_in_fibers_of_very_unequal_noise() {
    let (mut stream, mut learner) = (Stream::new(300, 100, 3), from_nothing(300));
    for _ in 0..8 {
        learner.learn(&stream.tensor(2500, |_| 0.013, |z| 0.3 * z.exp())).unwrap();
    }
    let (found, spurious, worst) = stream.compare(&learner);
    assert!((found, spurious) == (100, 0) && worst < 0.1, "{found} {spurious} {worst}");
    assert!(learner.unexplained_fibers() > 0, "fibers that are mostly noise stay unexplained");
}

#[test]
fn patterns_are_found_with_few_features_or_few_fibers() {
    // More patterns than features.
    let (mut stream, mut learner) = (Stream::new(20, 50, 1), from_nothing(20));
    for _ in 0..5 {
        learner.learn(&stream.tensor(3000, |_| 0.026, |_| 0.0)).unwrap();
    }
    let (found, spurious, worst) = stream.compare(&learner);
    assert!(found >= 49 && spurious <= 1 && worst < 0.1, "{found} {spurious} {worst}");
    // Ten fibers per tensor: the first tensors contain no pattern twice.
    for (seed, fibers) in [(1, 10), (2, 10), (3, 10), (4, 50), (5, 50)] {
        let (mut stream, mut learner) = (Stream::new(300, 20, seed), from_nothing(300));
        for _ in 0..80 {
            learner.learn(&stream.tensor(fibers, |_| 0.065, |_| 0.0)).unwrap();
        }
        let (found, spurious, worst) = stream.compare(&learner);
        assert!((found, spurious) == (20, 0) && worst < 1e-10, "{seed}: {found} {spurious} {worst}");
    }
}

#[test]
fn a_repeated_fiber_counts_once() {
    let mut stream = Stream::new(300, 30, 5);
    let tensor = stream.tensor(8, |_| 0.04, |_| 0.0);
    let mut learner = from_nothing(300);
    let patterns: Vec<usize> =
        (0..6).map(|_| learner.learn(&tensor).map(|_| learner.dictionary().patterns()).unwrap()).collect();
    assert!(patterns.iter().all(|count| *count == patterns[0]), "{patterns:?}");
    let mut once = from_nothing(300);
    once.learn(&tensor).unwrap();
    assert_eq!(once.dictionary().patterns(), patterns[0]);
    // A repeated fiber also counts once while there are no patterns.
    let noise = stream.tensor(100, |_| 0.0, |_| 1.0);
    let mut learner = from_nothing(300);
    for _ in 0..3 {
        learner.learn(&noise).unwrap();
    }
    assert_eq!((learner.dictionary().patterns(), learner.unexplained_fibers()), (0, 100));
}

#[test]
fn the_number_of_patterns_can_be_limited() {
    let planted = Planted::new(Plan { patterns: 40, ..Plan::default() }).unwrap();
    let grow = DiscoverParams { max_patterns: Some(7), ..DiscoverParams::default() };
    let mut learner = Learner::from_nothing(300, Params::default(), grow).unwrap();
    for t in 1..4 {
        learner.learn(&planted.tensor(t).tensor).unwrap();
        assert_eq!(learner.dictionary().patterns(), 7);
    }
}

#[test]
fn patterns_are_found_with_other_rules_passes_and_in_parts() {
    let planted = Planted::new(Plan { patterns: 40, ..Plan::default() }).unwrap();
    let check = |params: Params| {
        let mut learner = Learner::from_nothing(300, params, DiscoverParams::default()).unwrap();
        let last = (1..=3).map(|t| learner.learn(&planted.tensor(t).tensor).unwrap()).last().unwrap();
        assert_eq!(learner.dictionary().patterns(), 40);
        assert!(last.fit < 1e-2, "{}", last.fit);
        // The report of the last step has the numbering of the dictionary.
        assert_eq!((last.activity.len(), last.codes.matrix().rows()), (40, 40));
        assert_eq!(learner.last_seen().len(), 40);
    };
    check(Params { rule: Rule::Paper { eta_a: 10.0 }, ..Params::default() });
    check(Params { passes: Passes::Auto, ..Params::default() });
    // A tensor in parts cannot be searched before learning: the first tensor only fills the pool of unexplained fibers.
    let mut learner = from_nothing(300);
    for t in 1..=3 {
        let tensor = planted.tensor(t).tensor;
        let n = tensor.shape().features;
        let parts =
            tensor.values().chunks(n * 100).zip(tensor.places().chunks(100)).map(|(values, places)| {
                Tensor::from_fibers(tensor.shape(), values.to_vec(), places.to_vec())
            });
        learner.learn_parts(tensor.shape(), parts).unwrap();
    }
    assert_eq!(learner.dictionary().patterns(), 40);
}

#[test]
fn tensors_without_patterns_are_not_an_error() {
    let shape = Shape { features: 4, rows: 3, cols: 3 };
    let mut learner = from_nothing(4);
    let tensor = |values: Vec<f64>| {
        let places: Vec<Place> = (0..values.len() / 4).map(|i| Place { row: i as u32, col: 0 }).collect();
        Tensor::from_fibers(shape, values, places).unwrap()
    };
    for values in [vec![], vec![0.0; 8], vec![1.0, 2.0, 3.0, 4.0]] {
        let fibers = values.len() / 4;
        let step = learner.learn(&tensor(values)).unwrap();
        assert_eq!((step.codes.matrix().cols(), step.codes.matrix().rows()), (fibers, 0));
        assert_eq!(step.codes.untangle().rows.cols(), 0);
    }
    assert_eq!(learner.dictionary().patterns(), 0);
    assert_eq!(learner.encode(&tensor(vec![1.0; 4])).unwrap().matrix().nnz(), 0);
    let before = learner.clone();
    let other = Tensor::from_triplets(Shape { features: 5, rows: 1, cols: 1 }, &[(0, 0, 0, 1.0)]).unwrap();
    assert_eq!(learner.learn(&other).unwrap_err(), Error::Features { tensor: 5, dictionary: 4 });
    assert_eq!(learner, before);
    assert!(Learner::from_nothing(0, Params::default(), DiscoverParams::default()).is_err());
}

#[test]
fn forgetting_makes_the_learner_follow_a_slow_drift() {
    // Every pattern moves by 0.002 per tensor, which is less than one tensor can show in this noise.
    let errors: Vec<f64> = [0.0, 0.1]
        .into_iter()
        .map(|forgetting| {
            let mut stream = Stream::new(100, 10, 8);
            let away = Stream::new(100, 10, 9).truth;
            let origin = stream.truth.clone();
            let params = Params { forgetting, ..Params::default() };
            let mut learner = Learner::new(origin.clone(), params).unwrap();
            for t in 0..150 {
                let shift = 0.002 * t as f64;
                let columns = origin.values().iter().zip(away.values()).map(|(a, b)| a + shift * b);
                stream.truth = Dictionary::from_columns(100, columns.collect()).unwrap();
                learner.learn(&stream.tensor(100, |_| 0.1, |_| 0.5)).unwrap();
            }
            let found = learner.dictionary();
            Matching::new(found, &stream.truth).unwrap().error_a(found, &stream.truth)
        })
        .collect();
    assert!(errors[1] < 0.8 * errors[0], "{errors:?}");
}

#[test]
fn patterns_that_become_equal_are_merged() {
    // Pattern 0 becomes pattern 1.
    let mut stream = Stream::new(100, 10, 8);
    let origin = stream.truth.clone();
    let params = Params { forgetting: 0.2, ..Params::default() };
    let mut learner = Learner::from_nothing(100, params, DiscoverParams::default()).unwrap();
    for t in 0..130 {
        let shift = (t as f64 / 100.0).clamp(0.0, 1.0);
        let mut columns = origin.values().to_vec();
        for (a, b) in columns[..100].iter_mut().zip(origin.pattern(1)) {
            *a += shift * (b - *a);
        }
        stream.truth = Dictionary::from_columns(100, columns).unwrap();
        let step = learner.learn(&stream.tensor(100, |_| 0.1, |_| 0.0)).unwrap();
        if t == 20 {
            assert_eq!(learner.dictionary().patterns(), 10);
        }
        assert_eq!(step.activity.len(), learner.dictionary().patterns());
        // Patterns that were found during the change may be in the dictionary, but no fiber contains them any more.
        let here = step.activity.iter().filter(|fibers| **fibers > 0).count();
        assert!(t < 128 || here == 9, "{here} patterns at tensor {t}");
    }
    let found = learner.dictionary();
    let kept = Dictionary::from_columns(100, origin.values()[100..].to_vec()).unwrap();
    let error = Matching::new(found, &kept).unwrap().error_a(found, &kept);
    assert!(error < 1e-6, "{error}");
}

#[test]
fn a_pattern_that_disappears_is_reported_and_kept() {
    let plan = Plan { patterns: 20, ..Plan::default() };
    let here = Planted::new(plan.clone()).unwrap();
    let mut learner = Learner::from_nothing(300, Params::default(), DiscoverParams::default()).unwrap();
    for t in 1..=10 {
        learner.learn(&here.tensor(t).tensor).unwrap();
    }
    assert_eq!((learner.dictionary().patterns(), learner.overdue()), (20, vec![]));
    // The last five patterns are in no further tensor.
    let gone = Planted::new(Plan { late: 5, late_step: 1000, ..plan }).unwrap();
    let matching = Matching::new(learner.dictionary(), gone.true_dictionary()).unwrap();
    let mut missing: Vec<usize> = matching.found[15..].iter().map(|found| found.unwrap()).collect();
    missing.sort_unstable();
    for t in 11..=30 {
        learner.learn(&gone.tensor(t).tensor).unwrap();
    }
    assert_eq!(learner.overdue(), missing);
    assert_eq!(learner.dictionary().patterns(), 20, "patterns must be kept");
    assert!(missing.iter().all(|&pattern| learner.last_seen()[pattern] <= 10));
}

#[test]
fn patterns_are_found_in_noise_as_long_as_a_pattern() {
    let mut recovery = recovery(Plan { noise: 1.0, ..Plan::default() });
    advance(&mut recovery, 10);
    let outcome = recovery.outcome().unwrap();
    assert_eq!(outcome.pattern_counts, PatternCounts { seen: 150, found: 150, spurious: 0 });
    assert!(outcome.error_a < 1.1 * outcome.oracle_error_a.unwrap());
}

/// Noiseless fibers of `count` patterns without negative values. Each fiber is a multiple of one pattern.
fn multiples(features: usize, count: usize, fibers: usize, seed: u64) -> (Tensor<'static>, Dictionary) {
    let mut stream = Stream::new(features, 0, seed);
    let values: Vec<f64> = (0..features * count).map(|_| -stream.uniform().max(1e-300).ln()).collect();
    let truth = Dictionary::from_columns(features, values).unwrap();
    let (mut values, mut places) = (Vec::new(), Vec::new());
    for fiber in 0..fibers {
        let (pattern, size) = ((stream.uniform() * count as f64) as usize, 1.0 + stream.uniform());
        values.extend(truth.pattern(pattern).iter().map(|a| size * a));
        places.push(Place { row: (fiber / 30) as u32, col: (fiber % 30) as u32 });
    }
    let shape = Shape { features, rows: fibers.div_ceil(30), cols: 30 };
    (Tensor::from_fibers(shape, values, places).unwrap(), truth)
}

/// Number of true patterns that are found, and number of patterns in all.
fn found(dictionary: &Dictionary, truth: &Dictionary) -> (usize, usize) {
    let distances = Matching::new(dictionary, truth).unwrap().distances(dictionary, truth);
    (distances.iter().filter(|d| **d < 0.01).count(), dictionary.patterns())
}

#[test]
fn patterns_without_negative_values_are_no_chance() {
    let right = |seed: &u64| {
        let (tensor, truth) = multiples(20, 5, 900, *seed);
        let start = tensornoodl::discover::find(&tensor, &DiscoverParams::default()).unwrap();
        found(&start.dictionary, &truth) == (5, 5)
    };
    let count = (0..40).filter(right).count();
    assert!(count >= 38, "{count} of 40");
}

#[test]
fn a_few_fibers_of_many_features_are_searched_in_their_own_space() {
    // The covariance would have 4e8 numbers.
    let (mut stream, mut learner) = (Stream::new(20_000, 3, 1), from_nothing(20_000));
    learner.learn(&stream.tensor(36, |_| 0.4, |_| 0.1)).unwrap();
    let (found, spurious, worst) = stream.compare(&learner);
    assert!((found, spurious) == (3, 0) && worst < 0.1, "{found} {spurious} {worst}");
    assert!(tensornoodl::discover::search_bytes(20_000, 36) < 1e8);
}

#[test]
fn patterns_that_the_first_tensor_mixes_are_separated_later() {
    // Sums and differences of two patterns explain the first tensor of these seeds. In the last three, fibers of one of
    // the two true patterns are far from all patterns that are found first.
    for seed in [151, 486, 906, 512, 831, 1614] {
        let plan = Plan {
            features: 30,
            patterns: 6,
            rows: 20,
            cols: 20,
            alpha: 0.25,
            beta: 0.25,
            noise: 0.1,
            seed,
            ..Plan::default()
        };
        let mut recovery = recovery(plan);
        advance(&mut recovery, 60);
        let counts = recovery.outcome().unwrap().pattern_counts;
        assert_eq!(counts, PatternCounts { seen: 6, found: 6, spurious: 0 }, "seed {seed}");
    }
}

#[test]
fn stable_patterns_that_the_first_tensor_mixes_are_separated_later() {
    for seed in [1, 138, 486, 906] {
        let plan =
            Plan { features: 30, patterns: 6, rows: 20, cols: 20, noise: 0.1, seed, ..Plan::default() };
        let planted = Planted::new(Plan { alpha: 0.25, beta: 0.25, ..plan }).unwrap();
        let (params, discover) = (Params::default(), DiscoverParams::default());
        let first = planted.tensor(1).tensor;
        let mut learner = Learner::from_tensor(Arc::new(Solo), &first, params, discover, true).unwrap();
        (1..=60).for_each(|t| drop(learner.learn(&planted.tensor(t).tensor).unwrap()));
        let counts = found(learner.dictionary(), planted.true_dictionary());
        assert_eq!(counts, (6, 6), "seed {seed}");
    }
}
