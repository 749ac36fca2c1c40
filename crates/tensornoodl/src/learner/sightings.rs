//! When each pattern was seen, and which patterns are overdue.

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
