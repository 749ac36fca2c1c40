//! Parameters of the search for patterns.

use crate::error::Error;
use crate::params::{AtLeast, Below, within};
use crate::stop::Stop;

/// How a dictionary is found in data, and how it grows.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct DiscoverParams {
    /// Number of patterns to take from the first tensor even if they are not significant, as long as they explain
    /// something. 0 takes only significant patterns.
    pub min_patterns: usize,
    /// Maximum number of patterns: first the patterns of the first tensor that explain most energy, then the most
    /// significant patterns of later tensors. `None` stands for four times the number of features, which is more than
    /// the theory allows (A.4).
    pub max_patterns: Option<usize>,
    /// Fibers with a norm below this are not searched. 0 searches all fibers.
    pub min_length: f64,
    /// Seed of the random numbers that choose where to search.
    pub seed: u64,
    /// Ends the first search early.
    #[serde(skip)]
    pub stop: Stop,
}

impl DiscoverParams {
    /// Checks every range.
    ///
    /// # Errors
    /// [`Error::Parameter`] for the first value outside its range.
    pub(crate) fn check(&self) -> Result<(), Error> {
        within("min_length", self.min_length, AtLeast(0.0), Below(f64::INFINITY))?;
        let most = self.max_patterns.unwrap_or(usize::MAX);
        within("max_patterns", most as f64, AtLeast(self.min_patterns.max(1) as f64), Below(f64::INFINITY))
    }
}
