//! Calibration of p-values by those of the latest steps.
//!
//! If p is uniform, -ln p has the mean 1. Where no law fits exactly, -ln p is nearly always a multiple of that: its mean
//! over the places of the latest steps tells by which factor. A p-value becomes p^g, where g is one over that mean. It is
//! never made smaller.
//!
//! Small and large places differ, so there is a mean for each of several sizes.

/// The number of sizes. Each is four times the one before.
pub(crate) const SIZES: usize = 5;

/// The number of places of each size that a calibration remembers.
const MEMORY: f64 = 512.0;

/// The number of places with the mean 1 that a calibration starts with.
const START: f64 = 32.0;

/// -ln p is cut off here, so that places that are truly unusual do not count as chance.
const CUT: f64 = 6.0;

/// The smallest exponent.
const LEAST: f64 = 0.1;

/// How p-values of one kind are calibrated.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Calibration {
    /// For each size: the number of places below the cut, and the sum of -ln p.
    sizes: [(f64, f64); SIZES],
}

/// The number of the size of a place with this many events.
pub(crate) fn size(events: f64) -> usize {
    ((events.max(1.0).log2() / 2.0) as usize).min(SIZES - 1)
}

impl Calibration {
    /// The calibration before the first p-value, which changes nothing.
    pub(crate) fn new() -> Calibration {
        Calibration { sizes: [(START, START); SIZES] }
    }

    /// Whether all sums are valid. A calibration from a file may fail this.
    pub(crate) fn is_sound(&self) -> bool {
        self.sizes.iter().all(|size| size.0 >= 0.0 && size.1 > 0.0 && size.0.is_finite() && size.1.is_finite())
    }

    /// Takes p-values of places with so many events into account.
    pub(crate) fn add(&mut self, places: &[(f64, f64)]) {
        for &(events, p) in places {
            let nats = -p.ln();
            let size = &mut self.sizes[size(events)];
            // The maximum likelihood of a cut exponential distribution.
            let kept = 1.0 - 1.0 / MEMORY;
            *size = (size.0 * kept + f64::from(nats < CUT), size.1 * kept + nats.clamp(0.0, CUT));
        }
    }

    /// Returns the calibrated p-value of a place with this many events.
    pub(crate) fn apply(&self, events: f64, p: f64) -> f64 {
        let (count, nats) = self.sizes[size(events)];
        p.powf((count / nats).clamp(LEAST, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_p_values_become_uniform() {
        let mut calibration = Calibration::new();
        let uniform: Vec<f64> = (0..20_000).map(|i| ((i * 7919 % 20_000) as f64 + 0.5) / 20_000.0).collect();
        calibration.add(&uniform.iter().map(|p| (50.0, p.powf(1.6))).collect::<Vec<_>>());
        for p in [0.5, 0.01, 1e-5] {
            let calibrated = calibration.apply(60.0, f64::powf(p, 1.6));
            assert!((calibrated.ln() / p.ln() - 1.0).abs() < 0.1, "{p} {calibrated}");
            // Other sizes have other means.
            assert_eq!(calibration.apply(2.0, p), p);
        }
    }

    #[test]
    fn p_values_are_never_made_smaller() {
        let mut calibration = Calibration::new();
        calibration.add(&[(1.0, 0.9); 5000]);
        assert_eq!(calibration.apply(1.0, 0.3), 0.3);
    }
}
