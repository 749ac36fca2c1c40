//! Surprise: p-values are uniform where nothing is unusual, and planted anomalies are found.

#![allow(clippy::unwrap_used)]

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Gamma, Poisson};
use tensornoodl::{DiscoverParams, Learner, Params, Shape, Surprise, Tensor};

/// How planted events vary.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Noise {
    Poisson,
    /// The rate of each place and step is drawn from a gamma distribution of this shape.
    Totals(f64),
    /// The rate of each cell, too: of the shape times the expected number of events.
    Cells(f64),
    /// The rate of each cell has this shape.
    Busy(f64),
}

/// A planted stream of counts.
struct Stream {
    shape: Shape,
    /// The share of each feature in each pattern.
    patterns: Vec<Vec<f64>>,
    /// For each place, the expected events of each pattern in a step.
    rates: Vec<Vec<f64>>,
    noise: Noise,
}

fn gamma(shape: f64, rng: &mut ChaCha8Rng) -> f64 {
    Gamma::new(shape, 1.0 / shape).unwrap().sample(rng)
}

fn poisson(mean: f64, rng: &mut ChaCha8Rng) -> f64 {
    if mean < 1e-12 { 0.0 } else { Poisson::new(mean).unwrap().sample(rng) }
}

impl Stream {
    fn new(shape: Shape, patterns: usize, events: f64, noise: Noise, seed: u64) -> Stream {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut columns = Vec::new();
        for _ in 0..patterns {
            let values: Vec<f64> = (0..shape.features).map(|_| gamma(0.3, &mut rng)).collect();
            let sum: f64 = values.iter().sum();
            columns.push(values.iter().map(|value| value / sum).collect());
        }
        let mut part = |count: usize| -> Vec<Vec<f64>> {
            (0..count).map(|_| (0..patterns).map(|_| gamma(0.5, &mut rng)).collect()).collect()
        };
        let (rows, cols) = (part(shape.rows), part(shape.cols));
        let mut rates = Vec::new();
        for col in &cols {
            for row in &rows {
                rates.push((0..patterns).map(|i| row[i] * col[i] * gamma(1.0, &mut rng)).collect::<Vec<f64>>());
            }
        }
        let total: f64 = rates.iter().flatten().sum();
        rates.iter_mut().flatten().for_each(|rate| *rate *= events / total);
        Stream { shape, patterns: columns, rates, noise }
    }

    fn entries(&self, step: u64) -> Vec<(usize, usize, usize, f64)> {
        let mut rng = ChaCha8Rng::seed_from_u64(7 + step);
        let level = 0.5 + rng.random::<f64>();
        let mut entries = Vec::new();
        for (place, rates) in self.rates.iter().enumerate() {
            let busy = match self.noise {
                Noise::Totals(shape) => gamma(shape, &mut rng),
                _ => 1.0,
            };
            for f in 0..self.shape.features {
                let mean: f64 = rates.iter().zip(&self.patterns).map(|(rate, column)| rate * column[f]).sum();
                let mean = mean * level * busy;
                let cell = match self.noise {
                    Noise::Cells(shape) if mean > 1e-9 => gamma(shape * mean, &mut rng),
                    Noise::Busy(shape) => gamma(shape, &mut rng),
                    _ => 1.0,
                };
                let y = poisson(mean * cell, &mut rng);
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
}

/// The p-values of all steps of a stream after the first few.
fn surprises(stream: &Stream, steps: u64) -> Vec<Surprise> {
    let mut learner = Learner::for_counts(stream.shape.features, Params::default(), DiscoverParams::default()).unwrap();
    let mut all = Vec::new();
    for step in 1..=steps {
        let tensor = stream.tensor(step);
        if step > 5 {
            all.extend(learner.surprises(&tensor, |y| y).unwrap());
        }
        let done = learner.learn(&tensor).unwrap();
        if step == steps {
            println!("   patterns {}, fit {:.3}, times {:?}", learner.dictionary().patterns(), done.fit, done.times);
        }
    }
    all
}

fn table(name: &str, p: &[f64]) {
    let share = |limit: f64| p.iter().filter(|p| **p < limit).count() as f64 / p.len() as f64;
    println!(
        "{name:28} {:7} | {:.4} {:.4} {:.4} {:.4} {:.4} {:.4}",
        p.len(),
        share(0.0001),
        share(0.001),
        share(0.01),
        share(0.05),
        share(0.1),
        share(0.5)
    );
    let bins: Vec<usize> = (0..10).map(|bin| p.iter().filter(|p| (**p * 10.0).floor().min(9.0) as usize == bin).count()).collect();
    println!("    {bins:?}");
}

#[test]
fn look() {
    let boost: f64 = std::env::var("BOOST").map_or(1.0, |b| b.parse().unwrap());
    let steps: u64 = std::env::var("STEPS").map_or(25, |b| b.parse().unwrap());
    let rows: usize = std::env::var("ROWS").map_or(60, |b| b.parse().unwrap());
    let events: f64 = std::env::var("EVENTS").map_or(3000.0, |b| b.parse().unwrap());
    let which = std::env::var("NOISE").unwrap_or("p".into());
    let noise = match which.as_str() { "p" => Noise::Poisson, "t" => Noise::Totals(4.0), "c" => Noise::Cells(1.0), _ => Noise::Busy(2.0) };
    let shape = Shape { features: 24, rows, cols: 15 };
    let mut stream = Stream::new(shape, 4, events, noise, 3);
    let mut learner = Learner::for_counts(stream.shape.features, Params::default(), DiscoverParams::default()).unwrap();
    let mut all = Vec::new();
    for step in 1..=steps {
        let factor = if step <= 3 { boost } else { 1.0 };
        stream.rates.iter_mut().flatten().for_each(|rate| *rate *= factor);
        let tensor = stream.tensor(step);
        stream.rates.iter_mut().flatten().for_each(|rate| *rate /= factor);
        if step > 5 {
            all.extend(learner.surprises(&tensor, |y| y).unwrap());
        }
        let done = learner.learn(&tensor).unwrap();
        if step % 20 == 5 {
            println!("{step}  patterns {}, fit {:.3}, times {:?}", learner.dictionary().patterns(), done.fit, done.times);
            if !all.is_empty() {
            table("  total", &all.iter().map(|it| it.p_total).collect::<Vec<_>>());
            let big: Vec<f64> = all.iter().filter(|it| it.expected > 5.0).map(|it| it.p_total).collect();
            table("  total, expected > 5", &big);
            let with: Vec<&Surprise> = all.iter().filter(|it| it.events > 0.0).collect();
            table("  shape", &with.iter().map(|it| it.p_shape).collect::<Vec<_>>());
            table("  shape, 1 event", &with.iter().filter(|it| it.events == 1.0).map(|it| it.p_shape).collect::<Vec<_>>());
            table("  shape, events > 5", &with.iter().filter(|it| it.events > 5.0).map(|it| it.p_shape).collect::<Vec<_>>());
            table("  shape, events > 20", &with.iter().filter(|it| it.events > 20.0).map(|it| it.p_shape).collect::<Vec<_>>());
            }
            all.clear();
            let a = learner.dictionary();
            let mut worst: Vec<(f64, usize)> = Vec::new();
            for (place, rates) in stream.rates.iter().enumerate() {
                let total: f64 = rates.iter().sum();
                let pi: Vec<f64> = (0..24).map(|f| rates.iter().zip(&stream.patterns).map(|(r, c)| r * c[f]).sum::<f64>() / total).collect();
                let mut w = vec![1.0 / a.patterns() as f64; a.patterns()];
                let mut l = vec![0.0; 24];
                for _ in 0..500 {
                    l = (0..24).map(|f| (0..a.patterns()).map(|i| a.pattern(i)[f] * w[i]).sum::<f64>()).collect::<Vec<f64>>();
                    w = (0..a.patterns()).map(|i| w[i] * (0..24).map(|f| a.pattern(i)[f] * pi[f] / l[f]).sum::<f64>()).collect();
                }
                let kl: f64 = pi.iter().zip(&l).map(|(p, l)| if *p > 0.0 { p * (p / l).ln() } else { 0.0 }).sum();
                worst.push((kl * total, place));
            }
            worst.sort_by(|a, b| b.0.total_cmp(&a.0));
            let sum: f64 = worst.iter().map(|w| w.0).sum();
            println!("   nats of misfit a step {sum:.2}, worst places {:?}", &worst[..5]);
        }
    }
}
