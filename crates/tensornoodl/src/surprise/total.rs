//! How unlikely the total of a place is: the number of its events in a step.
//!
//! ```text
//! T                       the events of the step
//! share ~ Gamma           of shape a and mean u before the place was seen; of shape a + h / s after that
//! N ~ negative binomial   of mean l = T (a + h / s) / (a / u + E / s)
//!                         and variance s l + v (1 + 1 / steps) l^2 + l^2 / (a + h / s)
//! ```
//!
//! s is the size of bursts: events that come together. v tells how much busier than usual a place may be in a step. The
//! last term knows that the share of the place is not known exactly. The a, s and v are taken that make the totals of this
//! step and of those before it most likely.
//!
//! A place at which at least [`USUAL`] events are expected is looked at in every step, also if it has none. Any other
//! place is looked at only if it has events; its p-value is then that among places that have events.

use crate::surprise::chance::{NegativeBinomial, Tails};

/// A place with at least this many expected events is looked at in every step.
const USUAL: f64 = 3.0;

/// The smallest expected number of events.
const LEAST: f64 = 1e-300;

/// What is known about the total of a place before a step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Before {
    /// h, the events of the place in the past, and E, those of all places.
    pub(crate) events: f64,
    pub(crate) all: f64,
    /// Number of steps of the past.
    pub(crate) steps: f64,
    /// u, the share in all events that row and col lead to expect.
    pub(crate) share: f64,
    /// T, the events of this step.
    pub(crate) now: f64,
}

impl Before {
    /// Whether the place is looked at even if it has no events.
    pub(crate) fn is_usual(&self) -> bool {
        self.now * self.events / self.all >= USUAL
    }
}

/// The law of totals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Law {
    /// a, how well rows and cols tell the share of a place, in events.
    pub(crate) lines: f64,
    /// s, the size of bursts.
    pub(crate) bursts: f64,
    /// v, the squared relative deviation of the rate of a place in a step.
    pub(crate) busy: f64,
}

impl Law {
    /// The values among which the most likely ones are taken, in order, and where to start.
    pub(crate) const CHOICES: [(&'static [f64], usize); 3] = [
        (&[0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0], 3),
        (&[1.0, 1.1, 1.2, 1.4, 1.7, 2.0, 3.0, 4.0, 6.0, 10.0, 16.0, 30.0], 0),
        (&[0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0, 2.0, 4.0], 0),
    ];

    /// The law with these choices.
    pub(crate) fn new([lines, bursts, busy]: [f64; 3]) -> Law {
        Law { lines, bursts, busy }
    }

    /// The distribution of the total of a place.
    pub(crate) fn predict(&self, before: &Before) -> NegativeBinomial {
        let shape = self.lines + before.events / self.bursts;
        let rate = self.lines / before.share + before.all / self.bursts;
        let mean = (before.now * shape / rate).max(LEAST);
        let relative = self.busy * (1.0 + 1.0 / before.steps) + 1.0 / shape;
        // The variance is the mean and mean^2 / size.
        NegativeBinomial::new(mean, 1.0 / ((self.bursts - 1.0) / mean + relative))
    }

    /// The probabilities of fewer, of as many and of more events at a place.
    pub(crate) fn tails(&self, before: &Before, events: f64) -> Tails {
        let law = self.predict(before);
        let tails = law.tails(events);
        if before.is_usual() {
            return tails;
        }
        let (none, some) = (1.0 - law.some(), law.some().max(LEAST));
        Tails {
            below: ((tails.below - none) / some).max(0.0),
            equal: tails.equal / some,
            above: tails.above / some,
        }
    }

    /// The log-likelihood of the total of a place.
    pub(crate) fn log_likelihood(&self, before: &Before, events: f64) -> f64 {
        let law = self.predict(before);
        let given = if before.is_usual() { 0.0 } else { law.some().max(LEAST).ln() };
        law.ln_probability(events) - given
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn likelihoods_and_tails_agree() {
        for (known, events) in [(0.0, 2.0), (5.0, 1.0), (40.0, 0.0), (40.0, 9.0)] {
            let before = Before { events: known, all: 900.0, steps: 9.0, share: 0.02, now: 120.0 };
            for law in [[1.0, 1.0, 0.0], [0.1, 4.0, 0.0], [10.0, 1.2, 0.5]].map(Law::new) {
                let tails = law.tails(&before, events);
                assert!((tails.equal.ln() - law.log_likelihood(&before, events)).abs() < 1e-9, "{law:?}");
                assert!((tails.below + tails.equal + tails.above - 1.0).abs() < 1e-6, "{law:?} {tails:?}");
            }
        }
    }
}
