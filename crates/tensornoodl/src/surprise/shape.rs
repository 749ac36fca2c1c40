//! How unlikely the shape of a place is: how its events are divided among the features, given their number.
//!
//! ```text
//! l         the expected number of events
//! r         = 1 - (1 - q) l / (l + z), the correlation of events at the same place and step
//! h'        = h / (1 + r h / steps): the events of the place in the past, h, tell less where they come in bursts
//! mix       = (h' x + a mix of row and col) / (h' + a)
//! pattern_f = (l (A mix)_f + t mean_f) / (l + t)
//! share_f   = (h' own_f + b pattern_f) / (h' + b), where own_f is the share of feature f in the past of the place
//! y         the events, one by one: after i events, one of them is repeated with probability i / (i + c);
//!           else feature f is drawn with probability share_f (a Dirichlet-multinomial distribution)
//! 1 / (1 + c) = r + (1 - r) / (1 + h' + b)
//! ```
//!
//! q is the correlation of events that does not depend on their number, and z + 1 the size of bursts of events; t is the
//! number of stray events, which is the same for all places; a and b tell how well row and col, and the patterns, tell the shape of a place. Those are taken
//! that make the shapes of this step and of those before it most likely.
//!
//! The misfit of a fiber is the logarithm of how much more likely it would be if the expected shares were its
//! own. The p-value is the share of drawn fibers, with as many events, whose misfit is larger. Those with an equal
//! one count half. Beyond the last drawn fiber the tail is taken to fall exponentially, which makes very small p-values a
//! little too large rather than too small.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Hypergeometric};

use crate::surprise::chance::{LEAST_P, ln_gamma, ln_rising};

/// The largest number of events that a shape is judged by. Of more, this many are drawn.
const MOST_EVENTS: f64 = 512.0;

/// Drawing ends when this many drawn fibers had a larger misfit.
const HITS: f64 = 3.0;

/// Minimum and maximum number of drawn fibers.
const FEWEST_DRAWS: usize = 16;
const MOST_DRAWS: usize = 1 << 10;

/// One of this many drawn fibers, those with the largest misfit, tell how the tail goes on.
const TAIL: usize = 16;

/// The smallest expected share of a feature.
const LEAST: f64 = 1e-300;

/// What is known about one feature at a place before a step: its share among the events.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cell {
    /// In the past of the place.
    pub(crate) own: f64,
    /// In the mix of patterns that the place had.
    pub(crate) by_place: f64,
    /// In the mix of patterns that row and col lead to expect.
    pub(crate) by_lines: f64,
    /// In all events.
    pub(crate) mean: f64,
}

/// The law of shapes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Law {
    /// a, the weight in events of row and col.
    pub(crate) lines: f64,
    /// b, the weight in events of the patterns.
    pub(crate) patterns: f64,
    /// t, the number of stray events.
    pub(crate) stray: f64,
    /// q, the correlation of events.
    pub(crate) correlation: f64,
    /// z, the size of bursts, less 1.
    pub(crate) bursts: f64,
}

impl Law {
    /// The values among which the most likely ones are taken, in order, and where to start.
    pub(crate) const CHOICES: [(&'static [f64], usize); 5] = [
        (&[1.0, 4.0, 16.0, 64.0], 1),
        (&[1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1e3, 1e4], 5),
        (&[1e-3, 0.01, 0.03, 0.1, 0.3, 1.0], 2),
        (&[0.0, 0.002, 0.005, 0.01, 0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5], 0),
        (&[0.0, 0.1, 0.2, 0.4, 0.7, 1.0, 2.0, 4.0, 8.0, 16.0], 0),
    ];

    /// The law with these choices.
    pub(crate) fn new([lines, patterns, stray, correlation, bursts]: [f64; 5]) -> Law {
        Law { lines, patterns, stray, correlation, bursts }
    }

    /// The urn of a place that had this many events in so many steps, and at which `expected` events are expected.
    pub(crate) fn urn(&self, events: f64, steps: f64, expected: f64) -> Urn {
        let alone = (1.0 - self.correlation) * expected / (expected + self.bursts);
        let known = events / (1.0 + (1.0 - alone) * events / steps);
        let correlation = 1.0 - alone + alone / (1.0 + known + self.patterns);
        Urn { law: *self, known, stray: self.stray / (expected + self.stray), c: 1.0 / correlation - 1.0 }
    }
}

/// The urn that the events of a place come from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Urn {
    law: Law,
    /// h'.
    known: f64,
    /// The share of stray events.
    stray: f64,
    c: f64,
}

impl Urn {
    /// The expected share of a feature.
    pub(crate) fn share(&self, cell: &Cell) -> f64 {
        let Urn { law, known, stray, .. } = self;
        let pattern = (known * cell.by_place + law.lines * cell.by_lines) / (known + law.lines);
        let pattern = (1.0 - stray) * pattern + stray * cell.mean;
        ((known * cell.own + law.patterns * pattern) / (known + law.patterns)).max(LEAST)
    }

    /// The log-likelihood of the events of a place, given as cells with their numbers of events, up to a constant that
    /// does not depend on the law.
    pub(crate) fn log_likelihood(&self, cells: &[(Cell, f64)]) -> f64 {
        let total: f64 = cells.iter().map(|cell| cell.1).sum();
        let terms = cells.iter().map(|(cell, y)| ln_rising(self.c * self.share(cell), *y));
        terms.sum::<f64>() - ln_rising(self.c, total)
    }

    /// The mid-p-value of a fiber, where `cells` has all features.
    pub(crate) fn p_value(&self, cells: &[Cell], fiber: &[(u32, f64)], rng: &mut ChaCha8Rng) -> f64 {
        let shares: Vec<f64> = cells.iter().map(|cell| self.share(cell)).collect();
        let mut sums = shares.clone();
        (1..sums.len()).for_each(|at| sums[at] += sums[at - 1]);
        let mut events = list_events(fiber, rng);
        let mut misfit = Misfit::new(self.c, &shares, events.len());
        let own = misfit.of(&events);
        let (mut hits, mut values) = (0.0, Vec::new());
        for draw in 1..=MOST_DRAWS {
            self.draw(&sums, &mut events, rng);
            let value = misfit.of(&events);
            hits += match value - own {
                difference if difference.abs() <= 1e-9 * own.abs() => 0.5,
                difference if difference > 0.0 => 1.0,
                _ => 0.0,
            };
            // Of d draws, k have a larger misfit for a share of the fibers from k / (d + 1) to (k + 1) / (d + 1).
            match draw {
                FEWEST_DRAWS | MOST_DRAWS if hits >= HITS || hits >= 1.0 && draw == MOST_DRAWS => {
                    return (hits + 0.5) / (draw + 1) as f64;
                }
                _ if hits >= HITS && draw > FEWEST_DRAWS => return hits / draw as f64,
                _ => values.push(value),
            }
        }
        beyond(values, own).min(1.0 / MOST_DRAWS as f64)
    }

    /// Draws as many events as there are.
    fn draw(&self, sums: &[f64], events: &mut [u32], rng: &mut ChaCha8Rng) {
        let last = sums.len() - 1;
        for at in 0..events.len() {
            let before = at as f64;
            let repeated = rng.random::<f64>() * (before + self.c);
            events[at] = match repeated < before {
                true => events[repeated as usize],
                false => {
                    let position = rng.random::<f64>() * sums[last];
                    sums.partition_point(|sum| *sum <= position).min(last) as u32
                }
            };
        }
    }
}

/// The misfit of events at a place: ln P(y) for the shares y_f / N, less ln P(y) for the expected shares.
struct Misfit {
    /// For each feature, c share_f.
    weights: Vec<f64>,
    /// How much more likely k + 1 events of a feature are than k, each with shares of their own.
    ratios: Vec<f64>,
    /// Number of events of each feature; zero between calls.
    seen: Vec<u32>,
}

impl Misfit {
    fn new(c: f64, shares: &[f64], events: usize) -> Misfit {
        let own = c / events as f64;
        let nats =
            |k: usize| if k == 0 { 0.0 } else { ln_gamma((own + 1.0) * k as f64) - ln_gamma(own * k as f64) };
        let nats: Vec<f64> = (0..=events).map(nats).collect();
        Misfit {
            weights: shares.iter().map(|share| c * share).collect(),
            ratios: nats.windows(2).map(|pair| (pair[1] - pair[0]).exp()).collect(),
            seen: vec![0; shares.len()],
        }
    }

    /// The misfit of as many events.
    fn of(&mut self, events: &[u32]) -> f64 {
        let (mut product, mut nats) = (1.0, 0.0);
        for &feature in events {
            let seen = &mut self.seen[feature as usize];
            product *= self.ratios[*seen as usize] / (self.weights[feature as usize] + f64::from(*seen));
            *seen += 1;
            if !(1e-200..1e200).contains(&product) {
                nats += f64::clamp(product, LEAST, 1.0 / LEAST).ln();
                product = 1.0;
            }
        }
        events.iter().for_each(|&feature| self.seen[feature as usize] = 0);
        nats + product.ln()
    }
}

/// Returns the events of a fiber one by one, as features; [`MOST_EVENTS`] of them at most, drawn without replacement.
fn list_events(fiber: &[(u32, f64)], rng: &mut ChaCha8Rng) -> Vec<u32> {
    let mut left: f64 = fiber.iter().map(|entry| entry.1).sum();
    let mut events = Vec::new();
    let most = left.min(MOST_EVENTS);
    for &(feature, y) in fiber {
        let wanted = most - events.len() as f64;
        let count = match Hypergeometric::new(left as u64, y as u64, wanted as u64) {
            Ok(drawn) if left > wanted => drawn.sample(rng) as usize,
            _ => y.min(wanted) as usize,
        };
        events.extend(std::iter::repeat_n(feature, count));
        left -= y;
    }
    events
}

/// Returns the probability of a value above `own`, which is larger than nearly all drawn values. The tail of a
/// likelihood ratio falls at most as fast as exp(-x).
fn beyond(mut values: Vec<f64>, own: f64) -> f64 {
    values.sort_unstable_by(|a, b| b.total_cmp(a));
    let tail = values.len() / TAIL;
    let start = values[tail];
    let mean = values[..tail].iter().map(|value| value - start).sum::<f64>() / tail as f64;
    ((-(own - start).max(0.0) / mean.max(1.0)).exp() / TAIL as f64).max(LEAST_P)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn cells(shares: &[f64]) -> Vec<Cell> {
        shares
            .iter()
            .map(|&share| Cell { own: share, by_place: share, by_lines: share, mean: share })
            .collect()
    }

    /// Enumerates all fibers of four events.
    #[test]
    fn p_values_are_those_of_all_fibers() {
        let urn = Law::new([4.0, 30.0, 0.01, 0.1, 0.5]).urn(20.0, 5.0, 4.0);
        let cells = cells(&[0.7, 0.2, 0.1]);
        let mut fibers = Vec::new();
        for first in 0..=4_u32 {
            for second in 0..=4 - first {
                let counts = [first, second, 4 - first - second].map(f64::from);
                let with: Vec<(Cell, f64)> = cells.iter().copied().zip(counts).collect();
                let ways = ln_gamma(5.0) - counts.iter().map(|y| ln_gamma(y + 1.0)).sum::<f64>();
                fibers.push((counts, (urn.log_likelihood(&with) + ways).exp()));
            }
        }
        let total: f64 = fibers.iter().map(|fiber| fiber.1).sum();
        assert!((total - 1.0).abs() < 1e-9, "{total}");
        let shares: Vec<f64> = cells.iter().map(|cell| urn.share(cell)).collect();
        let list = |counts: &[f64; 3]| -> Vec<u32> {
            (0..3).flat_map(|f| std::iter::repeat_n(f as u32, counts[f] as usize)).collect()
        };
        let misfit = |counts: &[f64; 3]| Misfit::new(urn.c, &shares, 4).of(&list(counts));
        for (counts, probability) in &fibers {
            let worse = fibers.iter().filter(|other| misfit(&other.0) > misfit(counts) + 1e-9);
            let exact = worse.map(|other| other.1).sum::<f64>() + probability / 2.0;
            let fiber: Vec<(u32, f64)> = (0..).zip(*counts).filter(|entry| entry.1 > 0.0).collect();
            let p = |seed| urn.p_value(&cells, &fiber, &mut ChaCha8Rng::seed_from_u64(seed));
            let mut values: Vec<f64> = (0..101).map(p).collect();
            values.sort_unstable_by(f64::total_cmp);
            // One p-value is rough, and the median of many is less so. A tail that is guessed may be three times too
            // large.
            let ratio = values[50] / exact;
            assert!(
                (0.7..if exact < 0.003 { 3.0 } else { 1.6 }).contains(&ratio),
                "{counts:?}: {exact} {ratio}"
            );
        }
    }

    #[test]
    fn many_events_are_thinned() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let events = list_events(&[(0, 3e10), (4, 1e10), (7, 2.0)], &mut rng);
        assert_eq!(events.len(), 512);
        let share = events.iter().filter(|feature| **feature == 0).count() as f64 / 512.0;
        assert!((share - 0.75).abs() < 0.1, "{share}");
        assert_eq!(list_events(&[(2, 1.0), (5, 2.0)], &mut rng), [2, 5, 5]);
    }
}
