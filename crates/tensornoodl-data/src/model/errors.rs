//! How far the patterns of a model are expected to be from the true ones.

use tensornoodl::ModelKind;

use crate::count::recipe::Recipe;
use crate::model::learn::Model;

impl Model {
    /// For every pattern, its expected distance from the true pattern, relative to the length of the pattern: see
    /// [`Learner::errors`](tensornoodl::Learner::errors). `None` where no such estimate holds, also for counts that a
    /// recipe has damped.
    pub fn errors(&self) -> Vec<Option<f64>> {
        if self.learner.kind() == ModelKind::Counts && self.card.recipe != Recipe::default() {
            return vec![None; self.learner.dictionary().patterns()];
        }
        self.learner.errors()
    }

    /// The pattern that is least sure, with its error: one without an error, or the one with the largest error. `None` if
    /// there are no patterns.
    pub fn least_sure(&self) -> Option<(usize, Option<f64>)> {
        let size = |error: Option<f64>| error.unwrap_or(f64::INFINITY);
        self.errors().into_iter().enumerate().rev().max_by(|a, b| size(a.1).total_cmp(&size(b.1)))
    }
}

/// Writes the relative error of a pattern with two digits, such as 0.031 or 4.7e-6.
pub fn error_text(error: f64) -> String {
    let digits = format!("{error:.1e}");
    match digits.parse::<f64>() {
        // The number of decimals that shows two digits.
        Ok(rounded) if (1e-3..100.0).contains(&rounded) => {
            let decimals = (1.0 - rounded.log10().floor()).max(0.0) as usize;
            format!("{rounded:.decimals$}")
        }
        _ => digits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_two_digits() {
        let texts = [0.0314, 0.0996, 0.25, 1.3, 0.001, 0.00099, 4.71e-6, 0.0].map(error_text);
        assert_eq!(texts, ["0.031", "0.10", "0.25", "1.3", "0.0010", "9.9e-4", "4.7e-6", "0.0e0"]);
    }
}
