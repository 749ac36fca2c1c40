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
//! events that come alone: v times as large (bursts), or larger by v times the squared mean (busy steps). And a place may
//! have changed: with probability c, h and E are those of the latest steps only, in which older steps count less and less.
//! How large a, v and c are, and whether there are bursts or busy steps, is what makes the totals of the latest steps most
//! likely ([`Law::all`]).
//!
//! A place at which at least [`USUAL`] events are expected is looked at in every step, also if it has none. Any other place
//! is looked at only if it has events; its p-value is then that of N among places that have events.

use crate::surprise::chance::{NegativeBinomial, Tails};

/// A place with at least this many expected events is looked at in every step.
const USUAL: f64 = 3.0;

/// The share of the latest steps that is kept with each step.
pub(crate) const RECENT: f64 = 0.7;

/// The smallest number or probability that is divided by.
const TINY: f64 = 1e-300;

/// A number of events, in all steps so far and in the latest ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Events {
    pub(crate) all: f64,
    pub(crate) recent: f64,
}

/// What is known about the total of a place before a step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Before {
    /// h, the events of the place.
    pub(crate) events: Events,
    /// u, the share in all events that its row and col lead to expect.
    pub(crate) share: f64,
}

/// The exposure of all places to a step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exposure {
    /// Number of earlier steps.
    pub(crate) steps: f64,
    /// E, the events of earlier steps.
    pub(crate) past: Events,
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

/// The law of the totals of places that do not change.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Steady {
    /// a, how well rows and cols tell the share of a place: the shape of the gamma distribution.
    lines: f64,
    variation: Variation,
}

impl Steady {
    fn all() -> Vec<Steady> {
        let powers = |from: i32, to: i32| (from..=to).map(|power| f64::from(power).exp2());
        let bursts = powers(-2, 5).map(|more| Variation::Bursts(1.0 + more));
        let busy = [0.0].into_iter().chain(powers(-7, 3)).map(Variation::Busy);
        let variations: Vec<Variation> = busy.chain(bursts).collect();
        let with = |lines: f64| variations.iter().map(move |&variation| Steady { lines, variation });
        [1.0, 0.01, 0.03, 0.1, 0.3, 3.0, 10.0].into_iter().flat_map(with).collect()
    }

    /// The distribution of the total of a place with h events among E in this many steps.
    fn predict(&self, before: Before, h: f64, past: f64, steps: f64, now: f64) -> NegativeBinomial {
        // Bursts of v events each tell as much as single events would, v times fewer.
        let burst = if let Variation::Bursts(v) = self.variation { v } else { 1.0 };
        let shape = self.lines + h / burst;
        let mean = (now * shape / (self.lines / before.share + past / burst)).max(TINY);
        let more = match self.variation {
            Variation::Bursts(v) => mean * (v - 1.0) + mean * mean / shape,
            Variation::Busy(v) => {
                let own = h / shape;
                let unknown = 1.0 / shape + v * own * own / steps.max(1.0);
                mean * mean * (v + unknown + v * unknown)
            }
        };
        NegativeBinomial { mean, size: mean * (mean / more) }
    }

    /// The distributions of the total of a place that is as it always was, and of one that is as it was of late.
    fn predict_both(&self, before: Before, exposure: Exposure) -> [NegativeBinomial; 2] {
        let Exposure { steps, past, now } = exposure;
        let latest = steps.min(1.0 / (1.0 - RECENT));
        [
            self.predict(before, before.events.all, past.all, steps, now),
            self.predict(before, before.events.recent, past.recent, latest, now),
        ]
    }
}

/// The law of totals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Law {
    steady: Steady,
    /// c, the probability that a place has changed.
    changed: f64,
}

/// The probabilities that a place has changed, among which the most likely one is taken.
const CHANGED: [f64; 4] = [0.01, 0.03, 0.1, 0.3];

impl Law {
    /// All laws among which the most likely one is taken.
    pub(crate) fn all() -> Vec<Law> {
        let with = |steady: Steady| CHANGED.map(|changed| Law { steady, changed });
        Steady::all().into_iter().flat_map(with).collect()
    }

    /// The expected number of events of a place.
    pub(crate) fn expected(&self, before: Before, exposure: Exposure) -> f64 {
        let [always, of_late] = self.steady.predict_both(before, exposure);
        (1.0 - self.changed) * always.mean + self.changed * of_late.mean
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
        let given = exposure.now * before.events.all / exposure.past.all < USUAL;
        (events > 0.0 || !given).then_some(Total { before, events, given })
    }

    /// The probabilities of fewer, as many and more events.
    pub(crate) fn tails(&self, law: &Law, exposure: Exposure) -> Tails {
        let [always, of_late] = law.steady.predict_both(self.before, exposure);
        let some = (1.0 - law.changed) * always.some() + law.changed * of_late.some();
        let (always, of_late) = (always.tails(self.events), of_late.tails(self.events));
        let both = |part: fn(&Tails) -> f64| (1.0 - law.changed) * part(&always) + law.changed * part(&of_late);
        let tails = Tails { below: both(|it| it.below), equal: both(|it| it.equal), above: both(|it| it.above) };
        if !self.given {
            return tails;
        }
        let part = some.max(TINY);
        let below = ((tails.below - (1.0 - some)) / part).max(0.0);
        Tails { below, equal: tails.equal / part, above: tails.above / part }
    }

    /// The log-likelihood of the total under each of [`Law::all`].
    pub(crate) fn log_likelihoods(&self, exposure: Exposure) -> Vec<f64> {
        let mut nats = Vec::new();
        for steady in Steady::all() {
            let predicted = steady.predict_both(self.before, exposure);
            let [always, of_late] = predicted.map(|it| it.ln_probability(self.events).exp());
            let [some_always, some_of_late] = predicted.map(|it| if self.given { it.some() } else { 1.0 });
            for changed in CHANGED {
                let both = |always: f64, of_late: f64| ((1.0 - changed) * always + changed * of_late).max(TINY).ln();
                nats.push(both(always, of_late) - both(some_always, some_of_late));
            }
        }
        nats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn likelihoods_have_the_order_of_the_laws() {
        let events = |all: f64| Events { all, recent: all / 3.0 };
        let exposure = Exposure { steps: 9.0, past: events(900.0), now: 120.0 };
        for (known, n) in [(0.0, 2.0), (5.0, 1.0), (40.0, 0.0), (40.0, 9.0)] {
            let before = Before { events: events(known), share: 0.02 };
            let total = Total::new(before, n, exposure).unwrap();
            for (law, nats) in Law::all().iter().zip(total.log_likelihoods(exposure)) {
                let tails = total.tails(law, exposure);
                assert!((tails.equal.ln() - nats).abs() < 1e-9, "{law:?}");
                assert!((tails.below + tails.equal + tails.above - 1.0).abs() < 1e-9, "{law:?} {tails:?}");
            }
        }
    }

    #[test]
    fn only_a_place_where_events_are_usual_is_looked_at_without_events() {
        let events = |all: f64| Events { all, recent: all };
        let exposure = Exposure { steps: 1.0, past: events(100.0), now: 100.0 };
        let before = |h: f64| Before { events: events(h), share: 0.01 };
        assert!(Total::new(before(2.9), 0.0, exposure).is_none());
        assert!(Total::new(before(3.0), 0.0, exposure).is_some());
        assert!(Total::new(before(0.0), 1.0, exposure).is_some());
    }
}
