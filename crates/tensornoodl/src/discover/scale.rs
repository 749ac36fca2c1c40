//! The units of the data: the sizes of codes and of noise that were found in it.

/// The units of the data, found in it.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct Scale {
    /// Number of features.
    pub(crate) n: usize,
    /// The smallest code, but for one in a hundred: what `tau` is relative to.
    pub code: f64,
    /// What `code_floor` is relative to, the paper's C: half of it tells a code from what the others of its fiber leave in
    /// A'y. Where codes spread, that is more than half of the smallest one.
    pub floor: f64,
    /// The usual length of what is left of a fiber: its noise.
    pub noise: f64,
}

impl Scale {
    /// Whether it can be one.
    pub(crate) fn is_sound(&self, n: usize) -> bool {
        self.n == n && [self.code, self.floor, self.noise].iter().all(|unit| unit.is_finite() && *unit >= 0.0)
    }

    /// Whether what is left of a fiber is too short to hold noise and a code.
    pub(crate) fn explains(&self, length: f64, rest: f64) -> bool {
        let noise = self.noise.powi(2) * (1.0 + 3.0 * (2.0 / self.n as f64).sqrt());
        rest.powi(2) <= 0.5 * self.code.powi(2) + noise || rest <= 0.3 * length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_may_be_noise_and_half_the_energy_of_a_code() {
        let scale = Scale { n: 200, code: 2.0, floor: 2.0, noise: 1.0 };
        // 2 + 1.3.
        assert!(scale.explains(5.0, 3.29_f64.sqrt()) && !scale.explains(5.0, 3.31_f64.sqrt()));
        assert!(scale.explains(50.0, 15.0), "or a small share of the fiber");
    }
}
