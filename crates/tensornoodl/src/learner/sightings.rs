//! When each pattern was seen, which patterns are overdue, and which ones were not seen for long.

/// The steps that showed a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Sightings {
    /// First step that showed the pattern, 0 if none has.
    first: u64,
    /// Last step that showed the pattern, 0 if none has.
    pub(crate) last: u64,
    /// Number of steps that showed the pattern.
    pub(crate) times: u64,
}

impl Sightings {
    /// Records that a step showed the pattern.
    pub(crate) fn add(&mut self, step: u64) {
        if self.times == 0 {
            self.first = step;
        }
        self.last = step;
        self.times += 1;
    }

    /// The mean number of steps from one sighting to the next; 1 for a pattern that was seen less than twice.
    fn usual_gap(self) -> f64 {
        ((self.last - self.first) as f64 / self.times.saturating_sub(1).max(1) as f64).max(1.0)
    }

    /// Whether the numbers fit together after `steps` steps. Sightings from a file may fail this.
    pub(crate) fn is_sound(&self, steps: u64) -> bool {
        self.first <= self.last && self.last <= steps && self.times <= steps
    }

    /// The probability of a gap as long as the one since the last sighting, given how often the pattern was seen
    /// before. It is 1 for a pattern that was seen less than three times.
    pub(crate) fn chance_of_gap(self, now: u64) -> f64 {
        if self.times < 3 {
            return 1.0;
        }
        // The share of steps that show the pattern has a uniform prior. The time before the first sighting does not
        // count.
        let (between, sightings) = ((self.last - self.first) as f64, (self.times - 1) as f64);
        let missed = between - sightings;
        (0..now - self.last).map(|i| (missed + 1.0 + i as f64) / (between + 2.0 + i as f64)).product()
    }
}

/// Number of usual gaps between sightings that presence is averaged over.
const MEMORY: f64 = 16.0;

/// A pattern was not seen for long if its presence has fallen below this part of what it was. After steps that do not
/// show the pattern at all, this takes 37 times its usual gap between sightings.
const LEFT: f64 = 0.1;

/// The presence of a pattern that no step has shown yet. It is so small that the first sighting outweighs it.
const UNSEEN: f64 = 1e-9;

/// How strongly the steps of a stream show a pattern.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Presence {
    /// The mean of its strengths in the steps that showed it, 0 if none has.
    pub(crate) usual: f64,
    /// The mean of its strengths in the latest steps, relative to the usual one, 0 to 1.
    recent: f64,
    /// The largest value that `recent` had.
    most: f64,
}

impl Default for Presence {
    fn default() -> Presence {
        Presence { usual: 0.0, recent: UNSEEN, most: UNSEEN }
    }
}

impl Presence {
    /// Whether all numbers are in range. A presence from a file may fail this.
    pub(crate) fn is_sound(&self) -> bool {
        [self.usual, self.recent, self.most].iter().all(|value| value.is_finite() && *value >= 0.0)
    }

    /// A strength relative to the usual one, at most 1. The first strength is usual.
    pub(crate) fn relative(&self, strength: f64) -> f64 {
        if self.usual > 0.0 { (strength / self.usual).min(1.0) } else { f64::from(u8::from(strength > 0.0)) }
    }

    /// Takes the relative strength of a step. `activity` is the largest relative strength of any pattern in this step:
    /// a step in which little happens says little about patterns that it does not show. `memory` is the least number
    /// of steps to average over.
    pub(crate) fn add(&mut self, relative: f64, activity: f64, sightings: Sightings, memory: f64) {
        let memory = memory.max(MEMORY * sightings.usual_gap());
        self.recent += (relative - activity * self.recent) / memory;
        self.most = self.most.max(self.recent);
    }

    /// Whether the pattern was not seen for long: many times its usual gap between sightings.
    pub(crate) fn is_gone(&self) -> bool {
        self.recent < LEFT * self.most
    }

    /// The presence of the pattern when it is seen again.
    pub(crate) fn again(self) -> Presence {
        Presence { recent: self.most, ..self }
    }
}
