//! Where stage I looks first: what is known of A'y before it is computed, and how well.
//!
//! The codes of a fiber depend on d = A'y only through the few entries that pass the thresholds. So
//! cheap scores with a proven radius, |score_i - d_i| <= radius, do the work of the dense product:
//! an entry with |score_i| + radius below a threshold is below it, and the few others are computed
//! (`fiber.rs`). Three roads lead to scores, each the next one's short cut:
//!
//! ```text
//! places    row j and col k have shown the sets of patterns R_j and C_k. If y = A_T x + r with
//!           T = R_j and C_k, then d = G_T x + A'r, and |a_i'r| <= |r| since patterns are unit.
//! product   A'Y in single precision.
//! plain     A'y in double precision.
//! ```
//!
//! The first is the structure of the model: a pattern is in the fiber at (j, k) where B_ji and C_ki
//! are both not zero. Whatever road a fiber takes, its code is the same to the last bit: scores only
//! propose, and all that is kept is computed by the same function of y and the support. (A proof may hold
//! by less than a rounding error on one road and fail on another; then the iteration finds the same code,
//! unless it does not settle.)
//!
//! All scores are in units of the code floor, so that single precision has room for any scale.
//!
//! # Rounding
//!
//! gamma(k) = k u / (1 - k u), u = 2^-53 or 2^-24, bounds the relative error of k roundings, and of a
//! sum of k products in any order (Higham, Accuracy and Stability of Numerical Algorithms, 3.1). Numbers
//! below the normal range lose at most 2^-149 each.

use crate::shape::{Place, Shape};

/// Unit roundoff of double and of single precision.
const U64: f64 = f64::EPSILON / 2.0;
const U32: f64 = f32::EPSILON as f64 / 2.0;

/// What the smallest positive number in single precision can hide.
const TINY: f64 = f32::from_bits(1) as f64;

/// Bound of the relative error of k roundings; infinite where there is none.
fn gamma(k: usize, u: f64) -> f64 {
    let error = k as f64 * u;
    if error < 1.0 { error / (1.0 - error) } else { f64::INFINITY }
}

/// Lengths that a rounding error is relative to, in units of the code floor.
#[derive(Clone, Copy)]
pub(crate) struct Lengths {
    /// n.
    pub(crate) features: usize,
    /// |y|.
    pub(crate) fiber: f64,
}

impl Lengths {
    /// What double precision loses in a_i'y, in y - A_S x and in the unit length of a pattern, if
    /// sum |x_i| is `code` and there are s codes.
    pub(crate) fn double(self, code: f64, s: usize) -> f64 {
        gamma(2 * self.features + s + 8, U64) * (self.fiber + code)
    }

    /// What single precision loses in a_i'y: a scaling, two conversions, n products, n sums.
    pub(crate) fn product(self) -> f64 {
        gamma(self.features + 4, U32) * self.fiber + 2.0 * self.features as f64 * TINY + self.double(0.0, 0)
    }

    /// What single precision loses in G_iS x, where |G_il| <= 1: two conversions, s products and sums.
    pub(crate) fn coupled(self, code: f64, s: usize) -> f64 {
        gamma(s + 3, U32) * code + 2.0 * s as f64 * TINY + self.double(code, s)
    }

    /// Whether single precision can hold a fiber of this length and its products.
    pub(crate) fn fit_single(self) -> bool {
        self.fiber < 1e30
    }
}

/// The patterns that the rows and cols of a tensor have shown so far: one bit for each.
pub(crate) struct Shown {
    words: usize,
    rows: Vec<u64>,
    cols: Vec<u64>,
}

impl Shown {
    /// Nothing shown yet; none if the bits would take more memory than this.
    pub(crate) fn new(shape: Shape, patterns: usize, most_bytes: usize) -> Option<Shown> {
        let words = patterns.div_ceil(64);
        let bytes = (shape.rows + shape.cols).checked_mul(8 * words)?;
        (bytes <= most_bytes).then(|| Shown {
            words,
            rows: vec![0; shape.rows * words],
            cols: vec![0; shape.cols * words],
        })
    }

    /// T, the patterns that both the row and the col of a place have shown, by increasing number.
    pub(crate) fn by_both(&self, place: Place) -> impl Iterator<Item = u32> {
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

    /// The fiber at this place shows a pattern.
    pub(crate) fn add(&mut self, place: Place, pattern: u32) {
        let (word, bit) = (pattern as usize / 64, 1 << (pattern % 64));
        self.rows[place.row as usize * self.words + word] |= bit;
        self.cols[place.col as usize * self.words + word] |= bit;
    }
}
