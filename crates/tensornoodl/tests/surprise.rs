//! Surprise: p-values are uniform where nothing is unusual, and planted anomalies are found.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Gamma, Poisson};
use tensornoodl::parallel::run_ranks;
use tensornoodl::{
    Dictionary, DiscoverParams, Error, Learner, Params, Place, Shape, Surprise, Team, Tensor, significant,
};

type Entry = (usize, usize, usize, f64);

/// How planted events vary.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Noise {
    Poisson,
    /// The rate of each place and step is drawn from a gamma distribution of this shape.
    Busy(f64),
    /// The variance of each cell is this many times its mean.
    Bursts(f64),
}

/// A planted stream of counts, whose places have the same rates in all steps.
struct Stream {
    shape: Shape,
    /// The share of each feature in each pattern.
    patterns: Vec<Vec<f64>>,
    /// For each place, the expected events of each pattern in a step.
    rates: Vec<Vec<f64>>,
    noise: Noise,
}

/// Draws from a gamma distribution with mean 1.
fn gamma(shape: f64, rng: &mut ChaCha8Rng) -> f64 {
    Gamma::new(shape, 1.0 / shape).unwrap().sample(rng)
}

impl Stream {
    fn new(noise: Noise) -> Stream {
        let shape = Shape { features: 24, rows: 40, cols: 8 };
        let (patterns, events) = (4, 4000.0);
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let mut columns = Vec::new();
        for _ in 0..patterns {
            let values: Vec<f64> = (0..shape.features).map(|_| gamma(0.3, &mut rng)).collect();
            let sum: f64 = values.iter().sum();
            columns.push(values.iter().map(|value| value / sum).collect());
        }
        let mut lines = |count: usize| -> Vec<Vec<f64>> {
            (0..count).map(|_| (0..patterns).map(|_| gamma(0.5, &mut rng)).collect()).collect()
        };
        let (rows, cols) = (lines(shape.rows), lines(shape.cols));
        let mut rates = Vec::new();
        for col in &cols {
            for row in &rows {
                // Places follow their rows and cols only roughly.
                let rate = |i: usize| row[i] * col[i] * gamma(1.0, &mut rng);
                rates.push((0..patterns).map(rate).collect::<Vec<f64>>());
            }
        }
        let total: f64 = rates.iter().flatten().sum();
        rates.iter_mut().flatten().for_each(|rate| *rate *= events / total);
        Stream { shape, patterns: columns, rates, noise }
    }

    fn entries(&self, step: u64) -> Vec<Entry> {
        let mut rng = ChaCha8Rng::seed_from_u64(7 + step);
        let level = 0.5 + rng.random::<f64>();
        let mut entries = Vec::new();
        for (place, rates) in self.rates.iter().enumerate() {
            let busy = if let Noise::Busy(shape) = self.noise { gamma(shape, &mut rng) } else { 1.0 };
            for f in 0..self.shape.features {
                let mean: f64 = rates.iter().zip(&self.patterns).map(|(rate, column)| rate * column[f]).sum();
                let mut mean = mean * level * busy;
                if let Noise::Bursts(size) = self.noise {
                    mean *= gamma((mean / (size - 1.0)).max(1e-9), &mut rng);
                }
                let y = if mean > 1e-12 { Poisson::new(mean).unwrap().sample(&mut rng) } else { 0.0 };
                if y > 0.0 {
                    entries.push((f, place % self.shape.rows, place / self.shape.rows, y));
                }
            }
        }
        entries
    }

    fn tensor(&self, step: u64) -> Tensor<'static> {
        Tensor::from_triplets(self.shape, &self.entries(step)).unwrap()
    }

    fn learner(&self) -> Learner {
        Learner::for_counts(self.shape.features, Params::default(), DiscoverParams::default()).unwrap()
    }

    /// A learner after this many steps.
    fn learned(&self, steps: u64) -> Learner {
        let mut learner = self.learner();
        (1..=steps).for_each(|step| drop(learner.learn(&self.tensor(step)).unwrap()));
        learner
    }

    /// The surprises of steps 7 to 20, and the number of those that are significant.
    fn surprises(&self) -> (Vec<Surprise>, usize) {
        let mut learner = self.learned(6);
        let (mut all, mut listed) = (Vec::new(), 0);
        for step in 7..=20 {
            let tensor = self.tensor(step);
            let surprises = learner.surprises(&tensor, |value| value).unwrap();
            listed += significant(&surprises).len();
            all.extend(surprises);
            learner.learn(&tensor).unwrap();
        }
        (all, listed)
    }
}

/// The Kolmogorov-Smirnov statistic: the largest difference between the shares of p-values below p and p.
fn distance_from_uniform(mut p: Vec<f64>) -> f64 {
    p.sort_unstable_by(f64::total_cmp);
    let count = p.len() as f64;
    p.iter().enumerate().fold(0.0, |most: f64, (at, p)| most.max((at as f64 + 0.5 - p * count).abs() / count))
}

/// The p-value of a number of events whose variance is this many times its mean, by the normal distribution.
fn normal_p(surprise: &Surprise, variance: f64) -> f64 {
    let z = (surprise.events - surprise.expected).abs() / (variance * surprise.expected).sqrt();
    // The tail of the normal distribution, by an approximation of Zelen and Severo.
    let t = 1.0 / (1.0 + 0.332_67 * z);
    let tail = t * (0.436_183_6 + t * (-0.120_167_6 + t * 0.937_298));
    2.0 * tail * (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

/// Largest accepted distance from uniform p-values.
const DISTANCE: f64 = 0.07;

#[test]
fn p_values_of_planted_streams_are_uniform() {
    for noise in [Noise::Poisson, Noise::Busy(4.0), Noise::Bursts(3.0)] {
        let (all, listed) = Stream::new(noise).surprises();
        // The p-values of few events have large steps, which are no fault.
        let totals: Vec<&Surprise> = all.iter().filter(|it| it.expected > 10.0).collect();
        let shapes: Vec<f64> = all.iter().filter(|it| it.events > 5.0).map(|it| it.p_shape).collect();
        let total = distance_from_uniform(totals.iter().map(|it| it.p_total).collect());
        let shape = distance_from_uniform(shapes.clone());
        let poisson = distance_from_uniform(totals.iter().map(|it| normal_p(it, 1.0)).collect());
        let below = |p: &[f64], limit: f64| p.iter().filter(|p| **p < limit).count() as f64 / p.len() as f64;
        let tail = below(&shapes, 0.01);
        assert!(totals.len() > 700 && shapes.len() > 1000);
        assert!(total < DISTANCE && shape < DISTANCE, "{noise:?} {total} {shape}");
        // Without the dispersion this test would fail, so it can tell the difference.
        assert!((poisson > 2.0 * DISTANCE) == (noise != Noise::Poisson), "{noise:?} {poisson}");
        assert!((0.003..0.02).contains(&tail), "{noise:?} {tail}");
        assert!(listed <= 1, "{noise:?} {listed}");
    }
}

#[test]
fn planted_anomalies_are_found_and_named() {
    for noise in [Noise::Poisson, Noise::Busy(4.0), Noise::Bursts(3.0)] {
        let stream = Stream::new(noise);
        let learner = stream.learned(10);
        let mut entries = stream.entries(11);
        let usual = learner.surprises(&stream.tensor(11), |value| value).unwrap();
        // A place whose events all have a feature that it hardly ever has, and a place that falls silent.
        let shaped =
            usual.iter().filter(|it| it.events > 40.0).min_by(|a, b| a.events.total_cmp(&b.events)).unwrap();
        let silent = usual.iter().max_by(|a, b| a.expected.total_cmp(&b.expected)).unwrap();
        let at = |place: Place| {
            move |entry: &Entry| (entry.1, entry.2) == (place.row as usize, place.col as usize)
        };
        let share = |feature: usize| -> f64 {
            let all = (1..=11).flat_map(|step| stream.entries(step));
            all.filter(at(shaped.place)).filter(|entry| entry.0 == feature).map(|entry| entry.3).sum()
        };
        let rare = (0..24).min_by(|&f, &g| share(f).total_cmp(&share(g))).unwrap();
        entries.retain(|entry| !at(shaped.place)(entry) && !at(silent.place)(entry));
        entries.push((rare, shaped.place.row as usize, shaped.place.col as usize, shaped.events));
        // A place that never had events.
        let empty = (0..320).find(|place| stream.rates[*place].iter().sum::<f64>() < 0.05).unwrap();
        let empty = Place { row: (empty % 40) as u32, col: (empty / 40) as u32 };
        entries.retain(|entry| !at(empty)(entry));
        entries.extend([(3, 20.0), (5, 30.0)].map(|(f, y)| (f, empty.row as usize, empty.col as usize, y)));

        let all = learner
            .surprises(&Tensor::from_triplets(stream.shape, &entries).unwrap(), |value| value)
            .unwrap();
        let found = significant(&all);
        let find = |place: Place| found.iter().find(|it| it.place == place);
        let it = find(shaped.place).unwrap_or_else(|| panic!("{noise:?}: {found:?}"));
        assert!(it.p_shape < 1e-5 && it.p_total > 1e-4, "{noise:?} {it:?}");
        assert_eq!(it.features[0].feature, rare);
        assert!(it.features[0].expected < 1.0 && it.features[0].events == shaped.events);
        let it = find(silent.place).unwrap_or_else(|| panic!("{noise:?}: {found:?}"));
        assert!(it.events == 0.0 && it.p_total < 1e-5 && it.p_shape == 1.0 && it.features.is_empty());
        let it = find(empty).unwrap_or_else(|| panic!("{noise:?}: {found:?}"));
        assert!(it.events == 50.0 && it.expected < 2.0 && it.p_total < 1e-5, "{noise:?} {it:?}");
        let mut named: Vec<usize> = it.features.iter().map(|it| it.feature).collect();
        named.sort_unstable();
        assert_eq!(named, [3, 5]);
        assert!(found.len() <= 5, "{noise:?}: {found:?}");
    }
}

#[test]
fn surprises_have_the_same_bits_for_any_threads_and_ranks() {
    let stream = Stream::new(Noise::Busy(4.0));
    let learner = stream.learned(4);
    let tensor = stream.tensor(5);
    let surprises = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| learner.surprises(&tensor, |value| value).unwrap())
    };
    let one = surprises(1);
    assert!(one.len() > 100);
    assert_eq!(one, surprises(2));
    assert_eq!(one, surprises(4));
    for size in [2, 3] {
        let ranks = run_ranks(size, |team| {
            let own =
                |entry: &Entry| Place { row: entry.1 as u32, col: entry.2 as u32 }.owner(size) == team.rank();
            let entries: Vec<Entry> = stream.entries(5).into_iter().filter(own).collect();
            let mut learner = learner.clone();
            learner.join(Arc::new(team.clone()));
            learner.surprises(&Tensor::from_triplets(stream.shape, &entries).unwrap(), |value| value).unwrap()
        });
        ranks.iter().for_each(|rank| assert_eq!(&one, rank));
    }
}

#[test]
fn surprise_needs_counts_and_a_past() {
    let stream = Stream::new(Noise::Poisson);
    let tensor = stream.tensor(1);
    assert!(stream.learner().surprises(&tensor, |value| value).unwrap().is_empty());
    let mut learner = stream.learned(2);
    assert!(!learner.surprises(&tensor, |value| value).unwrap().is_empty());
    learner.forget_places();
    assert!(learner.surprises(&tensor, |value| value).unwrap().is_empty());
    assert!(significant(&[]).is_empty());

    let other = Tensor::from_triplets(Shape { features: 3, ..stream.shape }, &[(0, 0, 0, 1.0)]).unwrap();
    assert!(matches!(learner.surprises(&other, |value| value), Err(Error::Features { .. })));
    let negative = Tensor::from_triplets(stream.shape, &[(0, 0, 0, -1.0)]).unwrap();
    assert!(matches!(learner.surprises(&negative, |value| value), Err(Error::NotACount { .. })));
    let start = Dictionary::from_columns(24, (0..48).map(f64::from).collect()).unwrap();
    let exact = Learner::new(start, Params::default()).unwrap();
    let error = exact.surprises(&tensor, |value| value).unwrap_err();
    assert!(matches!(error, Error::NeedsCounts) && error.to_string().contains("counts model"), "{error}");
}

/// Damped counts are judged as counts.
#[test]
fn damping_is_undone() {
    let stream = Stream::new(Noise::Poisson);
    let roots = |step: u64| {
        let entries: Vec<Entry> =
            stream.entries(step).into_iter().map(|(f, j, k, y)| (f, j, k, y.sqrt())).collect();
        Tensor::from_triplets(stream.shape, &entries).unwrap()
    };
    let mut learner = stream.learner();
    (1..=6).for_each(|step| drop(learner.learn(&roots(step)).unwrap()));
    let all = learner.surprises(&roots(7), |value| value * value).unwrap();
    let total: f64 = stream.entries(7).iter().map(|entry| entry.3).sum();
    assert_eq!(all.iter().map(|it| it.events).sum::<f64>(), total);
    assert!(significant(&all).is_empty(), "{:?}", significant(&all));
    let totals = all.iter().filter(|it| it.expected > 10.0).map(|it| it.p_total).collect();
    assert!(distance_from_uniform(totals) < 0.15);
}
