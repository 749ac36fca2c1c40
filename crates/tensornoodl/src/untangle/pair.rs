//! The matrix M_i of the codes of one pattern, and a pair of factors of it.

/// The non-zero entries (row, col, value) of M_i.
pub(crate) type Entries = Vec<(u32, u32, f64)>;

/// One pair of factors of one pattern: a column of B and a column of C.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Pair {
    pub(crate) row: Vec<(u32, f64)>,
    pub(crate) col: Vec<(u32, f64)>,
    /// How much of M_i the pair holds, from 0 to 1.
    pub(crate) rank_one: f64,
}
