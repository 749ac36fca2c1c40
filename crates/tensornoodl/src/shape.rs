//! The shape of a tensor, and the place of a fiber in it.
//!
//! ```text
//! n x J x K    shape: features, rows, cols
//! (j, k)       place of a fiber: row j, col k
//! ```

use std::fmt;

/// The lengths of the three axes of a tensor, n x J x K.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// n, the number of features: the length of a fiber and of a pattern.
    pub features: usize,
    /// J, the number of rows: the length of a row factor.
    pub rows: usize,
    /// K, the number of cols: the length of a col factor.
    pub cols: usize,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {} x {}", self.features, self.rows, self.cols)
    }
}

/// The place (j, k) of a fiber in a tensor.
///
/// Places are ordered as the columns of the mode-1 unfolding (mode-1-T): first by col, then by row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Place {
    /// Row index j.
    pub row: u32,
    /// Col index k.
    pub col: u32,
}

impl Place {
    /// A sort key: places are ordered by col, then by row.
    pub(crate) fn order(self) -> (u32, u32) {
        (self.col, self.row)
    }

    /// Returns the place as one integer. Keys have the order of the places.
    pub(crate) fn key(self) -> u64 {
        u64::from(self.col) << 32 | u64::from(self.row)
    }

    /// Returns the place with this key.
    pub(crate) fn from_key(key: u64) -> Place {
        Place { row: key as u32, col: (key >> 32) as u32 }
    }

    /// Returns the rank, out of `ranks`, that holds the fiber at this place when places are spread over ranks by hash.
    ///
    /// # Panics
    /// If `ranks` is 0.
    pub fn owner(self, ranks: usize) -> usize {
        (self.hash() % ranks as u64) as usize
    }

    /// Returns the random half, 0 or 1, that the place is in. Each seed divides the places in another way.
    pub fn half(self, seed: u64) -> usize {
        ((self.hash() ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63) as usize
    }

    /// Returns a hash of the place: a bijective 64-bit mixer, the finalizer of MurmurHash3. Different places have
    /// different hashes.
    pub(crate) fn hash(self) -> u64 {
        let mut hash = self.key();
        for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
            hash = (hash ^ hash >> 33).wrapping_mul(factor);
        }
        hash ^ hash >> 33
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the fiber at row {}, col {}", self.row, self.col)
    }
}
