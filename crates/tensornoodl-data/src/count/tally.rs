//! How many rows of a table were counted, and how many were left out.

/// Numbers of rows of a table that were read and that were left out.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Tally {
    /// Rows of the table.
    pub events: u64,
    /// Rows that a filter left out.
    pub filtered: u64,
    /// Rows without a value in a column that is needed.
    pub missing: u64,
    /// Rows outside the bounds of a grid.
    pub outside: u64,
    /// Labels of the row axis that [`Query::keep_rows`](crate::Query::keep_rows) left out.
    pub dropped_labels: usize,
    /// Rows of the table that have one of the dropped labels.
    pub dropped: u64,
}

impl Tally {
    /// Returns the number of rows that were counted.
    pub fn used(&self) -> u64 {
        let left_out = [self.filtered, self.missing, self.outside, self.dropped];
        left_out.iter().fold(self.events, |used, out| used.saturating_sub(*out))
    }
}
