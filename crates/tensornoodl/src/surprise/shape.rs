//! How unlikely the shape of a place is: how its events are divided among the features, given their number.
//!
//! The events of a place come from an urn:
//!
//! ```text
//! an event      copies an earlier event with probability (events so far) / (events so far + c2), else it is new
//! a new event   has any feature with probability s; else it has the feature of an event of this place in earlier steps
//!               with probability h / (h + b), where h is their number; else it has a pattern, and a feature of it
//! a pattern     is that of an earlier event with probability (such events so far) / (such events so far + c1), else
//!               it is pattern i with probability w_i
//! w             the mix of patterns that is expected at the place: what it had in earlier steps, and what its row
//!               and col lead to expect, which has the weight of a events
//! ```
//!
//! 1 / (1 + c2) is the correlation between events at the same place (bursts); 1 / (1 + c1) tells how much the mix of a
//! place changes from step to step, and how well it is known; b tells how well the patterns fit, and s how many events are
//! stray. What makes the shapes of the latest steps most likely is taken ([`Prediction::all`], [`Dispersion::all`]).
//!
//! The shape is judged by -ln P(y), where P is the probability of the counts y under the urn. The probability of an event
//! after the others is computed with the expected pattern of each event instead of the drawn one. The p-value is the
//! share of simulated fibers with as many events that are less likely.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::encode::counts::{FeatureRows, LEAST, expected};
use crate::surprise::chance::{LEAST_P, ln_gamma};

/// The largest number of events of a place that its shape is judged by. Of more, this many are drawn.
pub(crate) const MOST_EVENTS: usize = 64;

/// A simulation ends when this many fibers were less likely.
const HITS: f64 = 10.0;

/// The number of simulated fibers after which a place that is not surprising has been recognized.
const FIRST_DRAWS: usize = 1 << 8;

/// Maximum number of simulated fibers.
const MOST_DRAWS: usize = 1 << 12;

/// The number of simulated fibers after which a very small p-value may be clear.
const CLEAR_DRAWS: usize = 1 << 10;

/// A simulation also ends if the p-value times the number of simulated fibers is smaller than this.
const CLEAR: f64 = 0.01;

/// One of this many simulated fibers, the least likely ones, tell how the tail goes on.
const TAIL: usize = 32;

/// How well the shape of a place is known from the past.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Prediction {
    /// a, the weight in events of what row and col lead to expect.
    lines: f64,
    /// b, the weight in events of what the patterns lead to expect, beside what the place had itself.
    patterns: f64,
    /// s, the probability that an event has any feature.
    stray: f64,
}

/// How shapes vary from step to step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Dispersion {
    /// How much the mix of a place changes: 1 / (1 + c1) for a known mix.
    change: f64,
    bursts: Bursts,
}

/// Why events have the same feature.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Bursts {
    /// Any two events at the same place and step have this correlation, 1 / (1 + c2).
    Correlation(f64),
    /// Events come in bursts: the variance is 1 + this many times that of events that come alone. c2 is the expected
    /// number of events over this.
    Size(f64),
}

/// The law of shapes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Law {
    pub(crate) prediction: Prediction,
    pub(crate) dispersion: Dispersion,
}

impl Prediction {
    /// All predictions among which the most likely one is taken.
    pub(crate) fn all() -> Vec<Prediction> {
        let mut all = Vec::new();
        for stray in [0.01, 1e-4, 1e-3, 0.03, 0.1] {
            for lines in [4.0, 1.0, 16.0, 64.0] {
                let with = [1e9, 300.0, 100.0, 30.0, 10.0].map(|patterns| Prediction { lines, patterns, stray });
                all.extend(with);
            }
        }
        all
    }
}

impl Dispersion {
    /// All dispersions among which the most likely one is taken.
    pub(crate) fn all() -> Vec<Dispersion> {
        let correlations = [0.0, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4].map(Bursts::Correlation);
        let sizes = (-3..=4).map(|power| Bursts::Size(f64::from(power).exp2()));
        let bursts: Vec<Bursts> = correlations.into_iter().chain(sizes).collect();
        let with = |change: f64| bursts.iter().map(move |&bursts| Dispersion { change, bursts });
        [0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7].into_iter().flat_map(with).collect()
    }

    fn correlation(&self, expected: f64) -> f64 {
        match self.bursts {
            Bursts::Correlation(correlation) => correlation,
            Bursts::Size(more) => more / (more + expected),
        }
    }
}

impl Law {
    /// The urn of a place.
    pub(crate) fn urn(&self, before: &Before, pattern_events: &[f64]) -> Urn {
        let Law { prediction, dispersion } = self;
        let correlation = dispersion.correlation(before.expected);
        // Correlated events tell as much as fewer independent ones.
        let events: f64 = before.patterns.iter().map(|entry| entry.1).sum();
        let per_step = (events / before.times.max(1.0) - 1.0).max(0.0);
        let weight = 1.0 / (1.0 + per_step * (dispersion.change + correlation).min(1.0));
        let total = prediction.lines + events * weight;
        let mut mix: Vec<f64> = before.mix.iter().map(|share| share * prediction.lines / total).collect();
        before.patterns.iter().for_each(|&(i, x)| mix[i as usize] += x * weight / total);
        // Patterns were learned from events, too.
        let known = |(share, events): (&f64, &f64)| share / (1.0 + events);
        let unknown: f64 = mix.iter().zip(pattern_events).map(known).sum();
        let change = dispersion.change + (1.0 - dispersion.change) / (1.0 + total);
        // So are the features of a place.
        let features = events * weight + prediction.patterns;
        let unknown = unknown + 1.0 / (1.0 + features);
        Urn {
            mix,
            own: (1.0 - prediction.stray) * events * weight / features,
            stray: prediction.stray,
            c1: odds(change),
            c2: odds(correlation + (1.0 - correlation) * unknown),
        }
    }
}

/// 1 / x - 1, for 0 < x < 1.
fn odds(x: f64) -> f64 {
    1.0 / x.clamp(1e-9, 1.0 - 1e-9) - 1.0
}

/// What is known about the shape of a place before a step.
#[derive(Debug, Clone)]
pub(crate) struct Before {
    /// The mix of patterns that its row and col lead to expect: shares that add up to 1.
    pub(crate) mix: Vec<f64>,
    /// The number of earlier steps in which the place had events.
    pub(crate) times: f64,
    /// The events of each pattern in these steps.
    pub(crate) patterns: Vec<(u32, f64)>,
    /// The events of each feature in these steps.
    pub(crate) features: Vec<(u32, f64)>,
    /// The expected number of events in the step.
    pub(crate) expected: f64,
}

/// The urn that the events of a place come from.
#[derive(Debug, Clone)]
pub(crate) struct Urn {
    /// w, the expected share of each pattern.
    mix: Vec<f64>,
    /// The probability that a new event has the feature of an event of earlier steps.
    own: f64,
    /// The probability that a new event has any feature.
    stray: f64,
    c1: f64,
    c2: f64,
}

/// Patterns from which features can be drawn fast: tables of the alias method.
pub(crate) struct Patterns {
    pub(crate) rows: FeatureRows,
    features: usize,
    /// For each pattern and feature: the probability to keep the feature, and the feature to take otherwise.
    aliases: Vec<(f64, u32)>,
}

impl Patterns {
    /// Tables for A (n x m), given column by column; columns have sum 1.
    pub(crate) fn new(features: usize, columns: &[f64]) -> Patterns {
        let aliases = columns.chunks_exact(features).flat_map(alias_table).collect();
        Patterns { rows: FeatureRows::from_columns(features, columns), features, aliases }
    }

    /// Draws a feature of a pattern.
    fn draw(&self, pattern: usize, rng: &mut ChaCha8Rng) -> u32 {
        let at = rng.random::<f64>() * self.features as f64;
        let slot = (at as usize).min(self.features - 1);
        let (keep, other) = self.aliases[pattern * self.features + slot];
        if at - (slot as f64) < keep { slot as u32 } else { other }
    }
}

/// The table of the alias method for one distribution.
fn alias_table(shares: &[f64]) -> Vec<(f64, u32)> {
    let total: f64 = shares.iter().sum();
    let mut table: Vec<(f64, u32)> =
        shares.iter().enumerate().map(|(at, share)| (share / total * shares.len() as f64, at as u32)).collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) = (0..table.len()).partition(|&at| table[at].0 < 1.0);
    while let (Some(&little), Some(&much)) = (small.last(), large.last()) {
        small.pop();
        table[little].1 = much as u32;
        table[much].0 -= 1.0 - table[little].0;
        if table[much].0 < 1.0 {
            large.pop();
            small.push(much);
        }
    }
    small.into_iter().chain(large).for_each(|at| table[at].0 = 1.0);
    table
}

/// Memory for one place at a time.
pub(crate) struct Scratch {
    /// The share of each feature in earlier steps of the place.
    own: Vec<f64>,
    /// The features of earlier steps with the sum of the shares up to each of them.
    sums: Vec<(u32, f64)>,
    /// Number of earlier events of each feature; all zero between calls.
    seen: Vec<u32>,
    /// The events of each pattern so far, padded.
    mix: Vec<f64>,
    events: Vec<u32>,
    patterns: Vec<u32>,
}

impl Scratch {
    /// Memory for these patterns.
    pub(crate) fn new(patterns: &Patterns) -> Scratch {
        Scratch {
            own: vec![0.0; patterns.features],
            sums: Vec::new(),
            seen: vec![0; patterns.features],
            mix: vec![0.0; patterns.rows.stride()],
            events: Vec::new(),
            patterns: Vec::new(),
        }
    }

    /// Makes a place the present one.
    pub(crate) fn load(&mut self, before: &Before) {
        self.sums.drain(..).for_each(|(feature, _)| self.own[feature as usize] = 0.0);
        let total: f64 = before.features.iter().map(|entry| entry.1).sum();
        let mut sum = 0.0;
        for &(feature, events) in &before.features {
            self.own[feature as usize] = events / total;
            sum += events / total;
            self.sums.push((feature, sum));
        }
    }
}

/// Returns the events of a fiber one by one, as features in random order; [`MOST_EVENTS`] of them at most. Values that are
/// not whole are rounded up or down at random.
pub(crate) fn list_events(fiber: &[(u32, f64)], rng: &mut ChaCha8Rng) -> Vec<u32> {
    let total: f64 = fiber.iter().map(|entry| entry.1).sum();
    let few = total <= 16.0 * MOST_EVENTS as f64;
    let mut events = Vec::new();
    if few {
        for &(feature, y) in fiber {
            let count = y.floor() as usize + usize::from(rng.random::<f64>() < y.fract());
            events.extend(std::iter::repeat_n(feature, count));
        }
        let most = events.len().min(MOST_EVENTS);
        for at in 0..most {
            let other = rng.random_range(at..events.len());
            events.swap(at, other);
        }
        events.truncate(MOST_EVENTS);
        if events.is_empty() {
            events.extend(fiber.first().map(|entry| entry.0));
        }
    } else {
        // So many events that drawing with replacement makes no difference.
        for _ in 0..MOST_EVENTS {
            let mut rest = rng.random::<f64>() * total;
            let drawn = fiber.iter().find(|entry| {
                rest -= entry.1;
                rest < 0.0
            });
            events.extend(drawn.or(fiber.last()).map(|entry| entry.0));
        }
    }
    events
}

impl Urn {
    /// The expected share of each feature among new events.
    pub(crate) fn share(&self, patterns: &Patterns, feature: u32, scratch: &Scratch) -> f64 {
        let row = patterns.rows.row(feature as usize);
        let by_patterns: f64 = row.iter().zip(&self.mix).map(|(a, w)| a * w).sum();
        let stray = self.stray / patterns.features as f64;
        self.own * scratch.own[feature as usize] + (1.0 - self.own - self.stray) * by_patterns + stray
    }

    /// Returns -ln P(y) of the counts of some events at the place that is loaded, up to a constant that depends on their
    /// number.
    pub(crate) fn surprise(&self, patterns: &Patterns, events: &[u32], scratch: &mut Scratch) -> f64 {
        let Scratch { own, seen, mix, .. } = scratch;
        mix.fill(0.0);
        mix.iter_mut().zip(&self.mix).for_each(|(x, w)| *x = w * self.c1);
        let (mut total, mut product, mut nats) = (self.c1, 1.0f64, 0.0);
        let stray = self.stray / patterns.features as f64;
        for (before, &feature) in events.iter().enumerate() {
            let row = patterns.rows.row(feature as usize);
            let part = expected(row, mix).max(LEAST);
            let by_patterns = self.c2 * (1.0 - self.own - self.stray) * part / total;
            let copies = f64::from(seen[feature as usize]);
            let all = by_patterns + self.c2 * (self.own * own[feature as usize] + stray) + copies;
            // The number of orders of the events falls by the number of equal ones.
            product *= all / ((before as f64 + self.c2) * (copies + 1.0));
            if product < 1e-200 {
                nats -= product.max(LEAST).ln();
                product = 1.0;
            }
            // The event is divided among the patterns, as far as it comes from one.
            let divided = by_patterns / all;
            mix.iter_mut().zip(row).for_each(|(x, a)| *x *= 1.0 + a * divided / part);
            total += divided;
            seen[feature as usize] += 1;
        }
        events.iter().for_each(|&feature| seen[feature as usize] = 0);
        nats - product.ln()
    }

    /// Draws this many events at the place that is loaded into `scratch.events`.
    fn draw(&self, patterns: &Patterns, count: usize, scratch: &mut Scratch, rng: &mut ChaCha8Rng) {
        let Scratch { events, patterns: drawn, sums, .. } = scratch;
        events.clear();
        drawn.clear();
        for before in 0..count {
            let at = rng.random::<f64>() * (before as f64 + self.c2);
            if at < before as f64 {
                events.push(events[at as usize]);
                continue;
            }
            let at = rng.random::<f64>();
            if at < self.own {
                let found = sums.partition_point(|entry| entry.1 <= at / self.own).min(sums.len() - 1);
                events.push(sums[found].0);
                continue;
            }
            if at < self.own + self.stray {
                events.push(rng.random_range(0..patterns.features) as u32);
                continue;
            }
            let at = rng.random::<f64>() * (drawn.len() as f64 + self.c1);
            let pattern = if at < drawn.len() as f64 {
                drawn[at as usize]
            } else {
                let mut rest = (at - drawn.len() as f64) / self.c1;
                let found = self.mix.iter().position(|share| {
                    rest -= share;
                    rest < 0.0
                });
                found.unwrap_or(self.mix.len() - 1) as u32
            };
            drawn.push(pattern);
            events.push(patterns.draw(pattern as usize, rng));
        }
    }

    /// Returns the p-value of the shape of some events: the probability that as many events of the urn are less likely,
    /// and a part of the probability that they are as likely.
    pub(crate) fn p_value(
        &self,
        patterns: &Patterns,
        events: &[u32],
        effort: Effort,
        scratch: &mut Scratch,
        rng: &mut ChaCha8Rng,
    ) -> f64 {
        let own = self.surprise(patterns, events, scratch);
        // The p-value cannot be smaller than half of the probability of the events themselves.
        let least = (0.5 * (ln_gamma(events.len() as f64 + 1.0) - own).exp()).max(LEAST_P);
        let (most_draws, equal) = match effort {
            Effort::Calibrate => (MOST_DRAWS / 4, rng.random::<f64>()),
            _ => (MOST_DRAWS, 0.5),
        };
        let mut values = Vec::new();
        let mut hits = 0.0;
        for draw in 1..=most_draws {
            self.draw(patterns, events.len(), scratch, rng);
            let drawn = std::mem::take(&mut scratch.events);
            let value = self.surprise(patterns, &drawn, scratch);
            scratch.events = drawn;
            hits += match value - own {
                difference if difference.abs() <= 1e-9 * own.abs() => equal,
                difference if difference > 0.0 => 1.0,
                _ => 0.0,
            };
            let enough = match effort {
                Effort::Below(_) if draw <= FIRST_DRAWS => 2.0,
                _ => HITS,
            };
            if hits >= enough {
                // The number of draws until so many hits is at least d with probability enough / d.
                return (enough / (draw as f64 + rng.random::<f64>())).min(1.0);
            }
            values.push(value);
            if draw >= FIRST_DRAWS && draw.is_power_of_two() {
                let p = beyond(&mut values, own).max(least);
                let is_clear = draw >= CLEAR_DRAWS && hits == 0.0 && p * (draw as f64) < CLEAR;
                if draw == most_draws || is_clear || matches!(effort, Effort::Below(limit) if p * CLEAR > limit) {
                    return p;
                }
            }
        }
        least
    }
}

/// How exactly a p-value is to be known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Effort {
    /// Exactly. Half of the probability of equally likely events counts.
    Exact,
    /// Exactly only below this limit.
    Below(f64),
    /// As exactly as a calibration needs. A random part of the probability of equally likely events counts.
    Calibrate,
}

/// Returns the probability of a value above `own`, which is larger than most of the drawn values: the tail of a
/// log-likelihood falls exponentially.
fn beyond(values: &mut [f64], own: f64) -> f64 {
    values.sort_unstable_by(|a, b| b.total_cmp(a));
    let tail = values.len() / TAIL;
    let start = values[tail];
    let mean = values[..tail].iter().map(|value| value - start).sum::<f64>() / tail as f64;
    (-(own - start).max(0.0) / mean.max(1e-6)).exp() / TAIL as f64
}

/// Iterations that divide the events of a place among the patterns.
const DIVISIONS: usize = 20;

/// Patterns with less than this share of the events of a place are left out.
const NEGLIGIBLE: f64 = 1e-3;

/// Divides the events of a place in all steps among the patterns, of which `mix` is expected. `start` is a division that
/// is nearly right, if one is known.
pub(crate) fn divide(
    rows: &FeatureRows,
    features: &[(u32, f64)],
    mix: &[f64],
    start: &[(u32, f64)],
) -> Vec<(u32, f64)> {
    let total: f64 = features.iter().map(|entry| entry.1).sum();
    let padded = || vec![0.0; rows.stride()];
    let mut events = padded();
    start.iter().for_each(|&(i, x)| events[i as usize] = x);
    for _ in 0..DIVISIONS {
        // One event is expected to have the mix.
        let mut weights = padded();
        let prior = mix.iter().chain(std::iter::repeat(&0.0));
        weights.iter_mut().zip(&events).zip(prior).for_each(|((w, x), share)| *w = x + share);
        events.fill(0.0);
        for &(feature, y) in features {
            let row = rows.row(feature as usize);
            let ratio = y / expected(row, &weights).max(LEAST);
            events.iter_mut().zip(row).zip(&weights).for_each(|((x, a), w)| *x += ratio * a * w);
        }
    }
    let kept = events.iter().enumerate().filter(|(_, x)| **x > NEGLIGIBLE * total);
    let sum: f64 = kept.clone().map(|(_, x)| x).sum();
    kept.map(|(i, x)| (i as u32, x * total / sum)).collect()
}
