//! How unlikely the total of a place is: the number of its events in a step.
//!
//! ```text
//! e_t                     the events of step t; E: of all earlier steps; h: of the place in them
//! u                       the share of the place in all events, as far as its row and col tell
//! share ~ Gamma           of shape a and mean u, before the place was seen; of shape a + h after that
//! N ~ negative binomial   of mean e_t (a + h) / (a / u + E), which knows that the share is not known exactly
//! ```
//!
//! Events come in bursts, and places are busy in some steps and not in others. So the variance is larger than that of
//! events that come alone: v times as large (bursts), or larger by v times the squared mean (busy steps). How large a and
//! v are, and which of the two holds, is what makes the totals of the steps so far most likely ([`Law::all`]).
//!
//! A place at which at least [`USUAL`] events are expected is looked at in every step, also if it has none. Any other place
//! is looked at only if it has events; its p-value is then that of N among places that have events.

use crate::surprise::chance::{NegativeBinomial, Tails};

/// A place with at least this many expected events is looked at in every step.
pub(crate) const USUAL: f64 = 3.0;

/// What is known about the total of a place before a step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Before {
    /// h, the events of the place in earlier steps.
    pub(crate) events: f64,
    /// u, the share in all events that its row and col lead to expect.
    pub(crate) share: f64,
}

/// The exposure of all places to a step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exposure {
    /// Number of earlier steps.
    pub(crate) steps: f64,
    /// E, the events of earlier steps.
    pub(crate) past: f64,
    /// e_t, the events of this step.
    pub(crate) now: f64,
}

/// How the totals of a place vary from step to step.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Variation {
    /// Events come in bursts: the variance is this many times the mean.
    Bursts(f64),
    /// Some steps are busy: the variance is the mean, and this many times its square.
    Busy(f64),
}

/// The law of totals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Law {
    /// a, how well rows and cols tell the share of a place: the shape of the gamma distribution.
    prior: f64,
    variation: Variation,
}

impl Law {
    /// All laws among which the most likely one is taken.
    pub(crate) fn all() -> Vec<Law> {
        let powers = |from: i32, to: i32| (from..=to).map(|power| f64::from(power).exp2());
        let busy = powers(-7, 4).map(Variation::Busy);
        let bursts = powers(-3, 6).map(|more| Variation::Bursts(1.0 + more));
        let variations: Vec<Variation> = [Variation::Busy(0.0)].into_iter().chain(busy).chain(bursts).collect();
        let priors = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0];
        let law = |prior: f64| variations.iter().map(move |&variation| Law { prior, variation });
        priors.into_iter().flat_map(law).collect()
    }

    /// The distribution of the total of a place.
    pub(crate) fn predict(&self, before: Before, exposure: Exposure) -> NegativeBinomial {
        let (a, h) = (self.prior, before.events);
        // Bursts of v events each tell as much as single events would, v times fewer.
        let burst = if let Variation::Bursts(v) = self.variation { v } else { 1.0 };
        let shape = a + h / burst;
        let mean = exposure.now * shape / (a / before.share + exposure.past / burst);
        let more = match self.variation {
            Variation::Bursts(v) => mean * (v - 1.0) + mean * mean / shape,
            Variation::Busy(v) => {
                let own = h / shape;
                let uncertainty = 1.0 / shape + v * own * own / exposure.steps.max(1.0);
                mean * mean * (v + uncertainty + v * uncertainty)
            }
        };
        NegativeBinomial { mean, size: mean * mean / more }
    }
}

/// A total that is looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Total {
    pub(crate) before: Before,
    pub(crate) events: f64,
    /// Whether the place is looked at only because it has events.
    given: bool,
}

impl Total {
    /// A total, if it is to be looked at.
    pub(crate) fn new(before: Before, events: f64, exposure: Exposure) -> Option<Total> {
        let given = exposure.now * before.events / exposure.past < USUAL;
        (events > 0.0 || !given).then_some(Total { before, events, given })
    }

    /// The probabilities of fewer, as many and more events.
    pub(crate) fn tails(&self, law: &Law, exposure: Exposure) -> Tails {
        law.predict(self.before, exposure).tails(self.events, self.given)
    }

    /// The log-likelihood of the total under a law.
    pub(crate) fn log_likelihood(&self, law: &Law, exposure: Exposure) -> f64 {
        let predicted = law.predict(self.before, exposure);
        let given = if self.given { predicted.some().max(1e-300).ln() } else { 0.0 };
        predicted.ln_probability(self.events) - given
    }
}
