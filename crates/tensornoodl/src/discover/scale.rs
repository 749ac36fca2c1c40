//! The units of the data: typical sizes of codes and of noise.

/// The units of the data, as found in it.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct Scale {
    /// Number of features.
    pub(crate) n: usize,
    /// The 1st percentile of code magnitudes. `tau` is relative to it.
    pub code: f64,
    /// The unit of `code_floor`, the paper's C. Half of it separates a code from what the other codes of its fiber
    /// add to A'y. Where code magnitudes vary, this is more than half of the smallest code.
    pub floor: f64,
    /// The median norm of the residual of a fiber: its noise.
    pub noise: f64,
}

impl Scale {
    /// Whether all numbers are in range. A scale from a file may fail this.
    pub(crate) fn is_sound(&self, n: usize) -> bool {
        self.n == n && [self.code, self.floor, self.noise].iter().all(|unit| unit.is_finite() && *unit >= 0.0)
    }

    /// Whether a fiber of this norm is explained: its residual norm is too small to hold noise and another code.
    pub(crate) fn explains(&self, norm: f64, residual: f64) -> bool {
        let noise = self.noise.powi(2) * (1.0 + 3.0 * (2.0 / self.n as f64).sqrt());
        residual.powi(2) <= 0.5 * self.code.powi(2) + noise || residual <= 0.3 * norm
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_residual_of_noise_and_half_a_code_is_explained() {
        let scale = Scale { n: 200, code: 2.0, floor: 2.0, noise: 1.0 };
        // 2 + 1.3.
        assert!(scale.explains(5.0, 3.29_f64.sqrt()) && !scale.explains(5.0, 3.31_f64.sqrt()));
        assert!(scale.explains(50.0, 15.0), "or a small share of the fiber");
    }
}
