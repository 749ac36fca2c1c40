//! Calibration of p-values by those of the latest steps.
//!
//! If p is uniform, -ln p is exponential with the mean 1. Where no law fits exactly, -ln p is nearly always a multiple of
//! that, and a p-value becomes p^g, where g comes from the small p-values of the latest steps:
//!
//! ```text
//! mean of min(max(-ln p - c, 0), d) = (e^(-g c) - e^(-g (c + d))) / g
//! ```
//!
//! p-values above e^-c only count, and those below e^-(c + d) count as that: places that are truly unusual must not pass
//! for chance. Small and large places differ, so there is a g for each of several sizes.

/// The number of sizes. Each is four times the one before.
pub(crate) const SIZES: usize = 5;

/// The number of places of each size that a calibration remembers.
const MEMORY: f64 = 512.0;

/// The number of uniform p-values that a calibration starts with.
const START: f64 = 32.0;

/// c: p-values below 0.2 are calibrated by.
const LARGEST: f64 = 1.6;

/// d, above which -ln p - c is cut off.
const CUT: f64 = 6.0;

/// The smallest and the largest g.
const RANGE: (f64, f64) = (0.1, 1.5);

/// The mean of the cut excess of -ln p, if p^g is uniform.
fn mean(g: f64) -> f64 {
    ((-g * LARGEST).exp() - (-g * (LARGEST + CUT)).exp()) / g
}

/// How p-values of one kind are calibrated.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Calibration {
    /// For each size: the number of p-values, and the sum of the cut excess of -ln p.
    sizes: [(f64, f64); SIZES],
}

/// The number of the size of a place with this many events.
pub(crate) fn size(events: f64) -> usize {
    ((events.max(1.0).log2() / 2.0) as usize).min(SIZES - 1)
}

impl Calibration {
    /// The calibration before the first p-value, which changes nothing.
    pub(crate) fn new() -> Calibration {
        Calibration { sizes: [(START, START * mean(1.0)); SIZES] }
    }

    /// Whether all sums are valid. A calibration from a file may fail this.
    pub(crate) fn is_sound(&self) -> bool {
        self.sizes.iter().all(|size| size.0 > 0.0 && size.1 >= 0.0 && size.0.is_finite() && size.1.is_finite())
    }

    /// Takes p-values of places into account, each with the number of events of the place. They must be uniform if the law
    /// is right, so those of discrete numbers must be drawn, and not mid-p-values.
    pub(crate) fn add(&mut self, places: &[(f64, f64)]) {
        let kept = 1.0 - 1.0 / MEMORY;
        for &(events, p) in places {
            let size = &mut self.sizes[size(events)];
            *size = (size.0 * kept + 1.0, size.1 * kept + (-p.ln() - LARGEST).clamp(0.0, CUT));
        }
    }

    /// Returns g for a place with this many events.
    pub(crate) fn exponent(&self, events: f64) -> f64 {
        let (count, sum) = self.sizes[size(events)];
        let (mut low, mut high) = RANGE;
        // The mean falls with g.
        for _ in 0..30 {
            let middle = (low + high) / 2.0;
            *(if mean(middle) > sum / count { &mut low } else { &mut high }) = middle;
        }
        high
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_uniform_numbers_are_recognized() {
        let uniform: Vec<f64> = (0..20_000).map(|i| ((i * 7919 % 20_000) as f64 + 0.5) / 20_000.0).collect();
        for power in [0.8, 1.0, 1.6, 3.0] {
            let mut calibration = Calibration::new();
            calibration.add(&uniform.iter().map(|p| (50.0, p.powf(power))).collect::<Vec<_>>());
            let found = calibration.exponent(60.0);
            assert!((found * power - 1.0).abs() < 0.07, "{power} {found}");
            // Other sizes have their own.
            assert!((calibration.exponent(2.0) - 1.0).abs() < 1e-6);
        }
    }

    #[test]
    fn places_that_are_unusual_change_little() {
        let mut calibration = Calibration::new();
        let uniform = (0..2000).map(|i| ((i * 1009 % 2000) as f64 + 0.5) / 2000.0);
        let unusual = uniform.enumerate().map(|(at, p)| (9.0, if at % 100 == 0 { 1e-200 } else { p }));
        calibration.add(&unusual.collect::<Vec<_>>());
        assert!(calibration.exponent(9.0) > 0.85, "{}", calibration.exponent(9.0));
    }
}
