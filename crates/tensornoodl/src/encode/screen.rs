//! Cheap approximations of A'y with error bounds, and the patterns that rows and cols have in common.
//!
//! ```text
//! y (n)         a fiber, at row j and col k
//! d = A'y (m)   its inner products with the patterns
//! score_i       an approximation of d_i with |score_i - d_i| <= radius
//! ```
//!
//! The code of a fiber depends on d only through the few entries that pass the thresholds. So scores replace the
//! dense product in double precision: if |score_i| + radius is below a threshold, |d_i| is below it, and the few
//! other entries are computed (`fiber.rs`). There are three ways to compute scores, from the cheapest to the most
//! expensive. If one way does not prove the code of a fiber, the next way is tried:
//!
//! ```text
//! places    R_j and C_k are the sets of patterns found so far in row j and in col k. If y = A_T x + r with
//!           T = R_j and C_k, then d = G_T x + A'r, and |a_i'r| <= |r| because patterns have unit length.
//! product   A'Y in single precision.
//! plain     A'y in double precision.
//! ```
//!
//! The first way uses the structure of the model: pattern i is in the fiber at (j, k) where both B_ji and C_ki are not
//! zero. The code of a fiber has the same bits for all three ways: scores only propose a support, and the code is
//! computed by one function of y and the support. (A proof may hold by less than a rounding error for one way and fail
//! for another; then the iteration finds the same code, unless it does not settle.)
//!
//! All scores are in units of the code floor, so that single precision can hold them for data of any scale.
//!
//! # Rounding
//!
//! gamma(k) = k u / (1 - k u), u = 2^-53 or 2^-24, bounds the relative error of k roundings, and of a
//! sum of k products in any order (Higham, Accuracy and Stability of Numerical Algorithms, 3.1). Numbers
//! below the normal range lose at most 2^-149 each.

use crate::shape::{Place, Shape};

/// Unit roundoff of double precision.
const U64: f64 = f64::EPSILON / 2.0;

/// Unit roundoff of single precision.
const U32: f64 = f32::EPSILON as f64 / 2.0;

/// The smallest positive number in single precision, which bounds the error of underflow.
const TINY: f64 = f32::from_bits(1) as f64;

/// Returns gamma(k), a bound of the relative error of k roundings; infinite where k u >= 1.
fn gamma(k: usize, u: f64) -> f64 {
    let error = k as f64 * u;
    if error < 1.0 { error / (1.0 - error) } else { f64::INFINITY }
}

/// Bounds of the rounding errors in the scores of one fiber, in units of the code floor.
#[derive(Clone, Copy)]
pub(crate) struct RoundingBounds {
    /// n, the number of features.
    pub(crate) features: usize,
    /// |y|, in units of the code floor.
    pub(crate) fiber: f64,
}

impl RoundingBounds {
    /// Bounds the error, in double precision, of a_i'y, of y - A_S x and of the unit length of a pattern, where
    /// `code` is sum |x_i| and s the number of entries of x.
    pub(crate) fn double(self, code: f64, s: usize) -> f64 {
        gamma(2 * self.features + s + 8, U64) * (self.fiber + code)
    }

    /// Bounds the error of a_i'y in single precision: a scaling, two conversions, n products, n sums.
    pub(crate) fn single_product(self) -> f64 {
        gamma(self.features + 4, U32) * self.fiber + 2.0 * self.features as f64 * TINY + self.double(0.0, 0)
    }

    /// Bounds the error of G_iS x in single precision, where |G_il| <= 1: two conversions, s products and sums.
    /// `code` is sum |x_i|, and s the number of entries of x.
    pub(crate) fn single_gram(self, code: f64, s: usize) -> f64 {
        gamma(s + 3, U32) * code + 2.0 * s as f64 * TINY + self.double(code, s)
    }

    /// Whether single precision can hold the fiber and its products without overflow.
    pub(crate) fn fits_single(self) -> bool {
        self.fiber < 1e30
    }
}

/// The patterns found so far in each row and in each col of a tensor, one bit for each pattern.
pub(crate) struct PatternsByPlace {
    /// Number of 64-bit words for one row or col.
    words: usize,
    rows: Vec<u64>,
    cols: Vec<u64>,
}

impl PatternsByPlace {
    /// Sets without patterns; `None` if they would take more memory than `most_bytes`.
    pub(crate) fn new(shape: Shape, patterns: usize, most_bytes: usize) -> Option<PatternsByPlace> {
        let words = patterns.div_ceil(64);
        let bytes = (shape.rows + shape.cols).checked_mul(8 * words)?;
        (bytes <= most_bytes).then(|| PatternsByPlace {
            words,
            rows: vec![0; shape.rows * words],
            cols: vec![0; shape.cols * words],
        })
    }

    /// The patterns found both in the row and in the col of a place, by increasing number.
    pub(crate) fn in_row_and_col(&self, place: Place) -> impl Iterator<Item = u32> {
        let row = &self.rows[place.row as usize * self.words..][..self.words];
        let col = &self.cols[place.col as usize * self.words..][..self.words];
        (0..).step_by(64).zip(row.iter().zip(col)).flat_map(|(first, (row, col))| {
            let mut both = row & col;
            std::iter::from_fn(move || {
                let bit = both.trailing_zeros();
                both &= both.wrapping_sub(1);
                (bit < 64).then_some(first + bit)
            })
        })
    }

    /// Adds a pattern that was found in the fiber at this place.
    pub(crate) fn add(&mut self, place: Place, pattern: u32) {
        let (word, bit) = (pattern as usize / 64, 1 << (pattern % 64));
        self.rows[place.row as usize * self.words + word] |= bit;
        self.cols[place.col as usize * self.words + word] |= bit;
    }
}
