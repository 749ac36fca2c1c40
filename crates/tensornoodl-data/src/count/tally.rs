//! What was read of a table, and what was left out.

/// What was read, and what was left out.
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
    /// Labels of the row axis that [`Query::keep_rows`](crate::Query::keep_rows) left out, and their rows of the table.
    pub dropped_labels: usize,
    /// The latter.
    pub dropped: u64,
}

impl Tally {
    /// Rows that count.
    pub fn used(&self) -> u64 {
        let left_out = [self.filtered, self.missing, self.outside, self.dropped];
        left_out.iter().fold(self.events, |used, out| used.saturating_sub(*out))
    }
}
