//! Whether learning again, with other seeds or from halves of the places, finds the same patterns.

use serde::{Deserialize, Serialize};
use tensornoodl::Dictionary;
use tensornoodl::metrics::agreement;

use crate::error::Error;

/// What repeated learning found.
///
/// The agreement of two sets of patterns is the mean cosine between a pattern and the most similar pattern of the other
/// set, over the patterns of both: 1 if all patterns come again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stability {
    /// Learning from the same table with other seeds, compared with the model.
    pub seeds: Vec<Repeat>,
    /// The number of patterns of each of two random halves of the places.
    pub halves: [usize; 2],
    /// The agreement of the patterns of both halves with each other, from 0 to 1.
    pub halves_agreement: f64,
}

/// The result of learning again with another seed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Repeat {
    /// The seed.
    pub seed: u64,
    /// Number of patterns that were found.
    pub patterns: usize,
    /// The agreement with the patterns of the model, from 0 to 1.
    pub agreement: f64,
}

impl Stability {
    /// Measures the stability of the patterns of a model, which were learned with `seed`: learns again with `seeds`
    /// other seeds, and from both halves of the places.
    ///
    /// `learn(seed, half)` returns the patterns that are learned from the table of the model with this seed, in the way
    /// of the model, or none if there are none: from all places, or only from those whose
    /// [`half`](tensornoodl::Place::half) for the seed of the model is the given one.
    ///
    /// # Errors
    /// An error of `learn`; [`Error::Tensor`] if it returns patterns of other features.
    pub fn measure<E: From<Error>>(
        patterns: &Dictionary,
        seed: u64,
        seeds: usize,
        mut learn: impl FnMut(u64, Option<usize>) -> Result<Option<Dictionary>, E>,
    ) -> Result<Stability, E> {
        let own = Some(patterns.clone()).filter(|own| own.patterns() > 0);
        let agreement = |a: &Option<Dictionary>, b: &Option<Dictionary>| match (a, b) {
            (Some(a), Some(b)) => agreement(a, b).map_err(Error::Tensor),
            (None, None) => Ok(1.0),
            _ => Ok(0.0),
        };
        let count = |found: &Option<Dictionary>| found.as_ref().map_or(0, Dictionary::patterns);
        let mut repeats = Vec::new();
        for further in 1..=seeds as u64 {
            let seed = seed.wrapping_add(further);
            let other = learn(seed, None)?;
            repeats.push(Repeat { seed, patterns: count(&other), agreement: agreement(&own, &other)? });
        }
        let halves = [learn(seed, Some(0))?, learn(seed, Some(1))?];
        Ok(Stability {
            seeds: repeats,
            halves_agreement: agreement(&halves[0], &halves[1])?,
            halves: [count(&halves[0]), count(&halves[1])],
        })
    }

    /// The mean agreement of the other seeds with the model, from 0 to 1. None without other seeds.
    pub fn seeds_agreement(&self) -> Option<f64> {
        let sum: f64 = self.seeds.iter().map(|repeat| repeat.agreement).sum();
        (!self.seeds.is_empty()).then(|| sum / self.seeds.len() as f64)
    }

    /// Returns the agreement in words: "seeds agree: 0.98 (4, 4, 5 patterns); halves agree: 0.93 (4 and 4 patterns)".
    pub fn sentence(&self) -> String {
        let counts: Vec<String> = self.seeds.iter().map(|repeat| repeat.patterns.to_string()).collect();
        let seeds = self
            .seeds_agreement()
            .map(|agreement| format!("seeds agree: {agreement:.2} ({} patterns); ", counts.join(", ")));
        let [one, other] = self.halves;
        let halves = self.halves_agreement;
        format!("{}halves agree: {halves:.2} ({one} and {other} patterns)", seeds.unwrap_or_default())
    }
}
