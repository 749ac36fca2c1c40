//! The lengths of a tensor's axes, and the place of a fiber in it.

use std::fmt;

/// Lengths of the three axes, n x J x K.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// n, the length of a fiber and of a pattern.
    pub features: usize,
    /// J, the length of a row factor.
    pub rows: usize,
    /// K, the length of a col factor.
    pub cols: usize,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {} x {}", self.features, self.rows, self.cols)
    }
}

/// Where a fiber stands in the tensor: (j, k).
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
    pub(crate) fn order(self) -> (u32, u32) {
        (self.col, self.row)
    }

    /// A number for each place, in their order,
    pub(crate) fn word(self) -> u64 {
        u64::from(self.col) << 32 | u64::from(self.row)
    }

    /// and the way back.
    pub(crate) fn of_word(word: u64) -> Place {
        Place { row: word as u32, col: (word >> 32) as u32 }
    }

    /// Which of so many ranks has this place, where every place is someone's.
    pub fn owner(self, ranks: usize) -> usize {
        (self.lot() % ranks as u64) as usize
    }

    /// A number that any place has alone, and that tells nothing of where it is (the mixing of MurmurHash3).
    pub(crate) fn lot(self) -> u64 {
        let mut lot = self.word();
        for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
            lot = (lot ^ lot >> 33).wrapping_mul(factor);
        }
        lot ^ lot >> 33
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the fiber at row {}, col {}", self.row, self.col)
    }
}
