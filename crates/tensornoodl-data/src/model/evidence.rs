//! Evidence for the number of patterns.

use serde::{Deserialize, Deserializer, Serialize};
use tensornoodl::discover::SIGNIFICANCE;

use crate::model::stability::Stability;

/// Evidence for the number of patterns of a model: a ladder of numbers of patterns, fewest first.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Evidence {
    /// The numbers of patterns that were tried, and what each of them gains over the one before. Empty if the number was
    /// given, and for the exact model.
    pub rungs: Vec<Rung>,
    /// Whether learning again finds the same patterns, if that was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stability: Option<Stability>,
}

impl Evidence {
    /// Returns why this number of patterns was taken, as a sentence without a period.
    pub fn reason(&self, taken: usize) -> String {
        let noun = if taken == 1 { "pattern is" } else { "patterns are" };
        let place = self.rungs.iter().position(|rung| rung.patterns == taken);
        match place.map(|at| self.rungs.get(at + 1)) {
            None => format!("{taken} {noun} taken, which is not on the ladder"),
            Some(None) => format!("{taken} {noun} taken, the largest number that was tried"),
            // Along a stream, the ladder is that of the step that found patterns last.
            Some(Some(next)) if next.gain > SIGNIFICANCE * next.error => format!(
                "{taken} {noun} left: when the ladder was made, {} patterns gained {:+.1} ± {:.1}, and patterns were removed or \
                 retired since",
                next.patterns, next.gain, next.error
            ),
            Some(Some(next)) => format!(
                "{taken} {noun} taken, the fewest that no larger number significantly exceeds: {} patterns gain {:+.1} \
                 ± {:.1}, and {SIGNIFICANCE} standard errors are asked for",
                next.patterns, next.gain, next.error
            ),
        }
    }

    /// Returns the largest significance with which a number of patterns exceeds that of the first rung, in standard
    /// errors: gains are added up, and their errors are taken as independent. 0 without rungs.
    pub fn significance(&self) -> f64 {
        let (mut gain, mut squares, mut largest) = (0.0, 0.0, 0.0);
        for rung in self.rungs.iter().skip(1) {
            gain += rung.gain;
            squares += rung.error * rung.error;
            // The maximum leaves out what is not a number.
            largest = f64::max(largest, gain / f64::sqrt(squares));
        }
        largest
    }
}

/// What a number of patterns gains over the number before it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rung {
    /// Number of patterns.
    pub patterns: usize,
    /// Gain in the log-likelihood of the cells that were held out, in nats.
    #[serde(deserialize_with = "number_or_null")]
    pub gain: f64,
    /// Standard error of the gain, in nats. NaN if there is too little data for one.
    #[serde(deserialize_with = "number_or_null")]
    pub error: f64,
}

impl From<&tensornoodl::discover::Rung> for Rung {
    fn from(it: &tensornoodl::discover::Rung) -> Rung {
        Rung { patterns: it.patterns, gain: it.gain, error: it.error }
    }
}

/// Reads a number. JSON has no number that is not finite, and such a number is written as null.
fn number_or_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_the_ladder_exceeds_is_not_called_the_fewest() {
        let rung = |patterns, gain, error| Rung { patterns, gain, error };
        let rungs = vec![rung(1, 0.0, 0.0), rung(2, 90.0, 3.0), rung(3, 60.0, 6.0), rung(4, -2.0, 4.0)];
        let evidence = Evidence { rungs, stability: None };
        assert!(evidence.reason(3).starts_with("3 patterns are taken, the fewest that"));
        assert!(
            evidence
                .reason(2)
                .starts_with("2 patterns are left: when the ladder was made, 3 patterns gained +60.0")
        );
    }

    #[test]
    fn gains_add_up_to_the_significance() {
        let rung = |patterns, gain, error| Rung { patterns, gain, error };
        let evidence = |rungs: &[Rung]| Evidence { rungs: rungs.to_vec(), stability: None };
        assert_eq!(evidence(&[]).significance(), 0.0);
        assert_eq!(evidence(&[rung(1, 0.0, 0.0)]).significance(), 0.0);
        assert_eq!(evidence(&[rung(1, 0.0, 0.0), rung(2, 9.0, 3.0), rung(3, 31.0, 4.0)]).significance(), 8.0);
        assert_eq!(evidence(&[rung(1, 0.0, 0.0), rung(2, 9.0, 3.0), rung(3, -9.0, 4.0)]).significance(), 3.0);
        assert_eq!(evidence(&[rung(1, 0.0, 0.0), rung(2, 9.0, f64::NAN)]).significance(), 0.0);
    }
}
