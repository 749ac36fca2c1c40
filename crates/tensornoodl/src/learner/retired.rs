//! Patterns that were not seen for long: they leave the dictionary, are kept, and return when they are seen again.
//!
//! A stream of years shows more patterns than a dictionary can tell apart. A pattern that was not seen for long costs
//! accuracy: other patterns look like sums of patterns that are gone. So it retires. When a search finds a pattern that
//! is close to a retired one, that one returns.

use crate::learner::sightings::{Presence, Sightings};
use crate::linalg::vector::dot;

/// A pattern that was not seen for long.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Retired {
    /// The pattern.
    pub(crate) pattern: Vec<f64>,
    /// Its statistics in the counts model. Empty for the exact model.
    pub(crate) statistics: Vec<f64>,
    /// When it was seen.
    pub(crate) sightings: Sightings,
    pub(crate) presence: Presence,
}

/// A new pattern that is a retired one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Returned {
    /// Its number in the dictionary after the step.
    pub pattern: usize,
    /// Its number among the retired patterns before the step: see [`Learner::retired`](crate::Learner::retired).
    pub retired: usize,
}

impl Retired {
    /// Whether all parts fit together. A retired pattern from a file may fail this.
    pub(crate) fn is_sound(&self, features: usize, statistics: usize, steps: u64) -> bool {
        let fits = |values: &[f64], length| values.len() == length && values.iter().all(|v| v.is_finite());
        fits(&self.pattern, features)
            && fits(&self.statistics, statistics)
            && dot(&self.pattern, &self.pattern) > 0.0
            && self.sightings.is_sound(steps)
            && self.presence.is_sound()
    }
}
