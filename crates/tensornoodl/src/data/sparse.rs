//! Sparse matrices stored by columns, for codes X (m x p), row factors B (J x m) and col factors C (K x m).

/// A sparse matrix, stored as one list of (row, value) entries for each column.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Sparse {
    rows: usize,
    /// Column c is `entries[starts[c]..starts[c + 1]]`.
    starts: Vec<usize>,
    entries: Vec<(u32, f64)>,
}

impl Sparse {
    /// A matrix with this many rows and without columns.
    pub fn new(rows: usize) -> Sparse {
        Sparse { rows, starts: vec![0], entries: Vec::new() }
    }

    /// A matrix with this many rows and without columns, with memory for this many columns and entries.
    pub fn with_capacity(rows: usize, columns: usize, entries: usize) -> Sparse {
        let mut starts = Vec::with_capacity(columns + 1);
        starts.push(0);
        Sparse { rows, starts, entries: Vec::with_capacity(entries) }
    }

    /// Whether the columns are in order and inside the matrix, for a matrix that was deserialized.
    pub(crate) fn is_sound(&self) -> bool {
        let inside = |column: &[(u32, f64)]| {
            column.is_sorted_by(|a, b| a.0 < b.0)
                && column.iter().all(|entry| (entry.0 as usize) < self.rows && entry.1.is_finite())
        };
        self.starts.first() == Some(&0)
            && self.starts.is_sorted()
            && self.starts.last() == Some(&self.entries.len())
            && self.columns().all(inside)
    }

    /// Appends a column, given as (row, value) entries by increasing row.
    ///
    /// # Panics
    /// If a row is out of bounds, or rows do not increase.
    pub fn push(&mut self, column: &[(u32, f64)]) {
        assert!(column.is_sorted_by(|a, b| a.0 < b.0), "rows of a column must increase");
        assert!(column.last().is_none_or(|last| (last.0 as usize) < self.rows), "row out of bounds");
        self.entries.extend_from_slice(column);
        self.starts.push(self.entries.len());
    }

    /// Appends all columns of another matrix with the same number of rows.
    pub(crate) fn append(&mut self, other: &Sparse) {
        debug_assert_eq!(self.rows, other.rows);
        let offset = self.entries.len();
        self.entries.extend_from_slice(&other.entries);
        self.starts.extend(other.starts[1..].iter().map(|start| offset + start));
    }

    /// Replaces every stored value.
    pub(crate) fn replace(&mut self, value: impl Fn(f64) -> f64) {
        self.entries.iter_mut().for_each(|entry| entry.1 = value(entry.1));
    }

    /// Returns the matrix of the columns with these numbers, in this order.
    pub(crate) fn gather(&self, columns: &[usize]) -> Sparse {
        let entries = columns.iter().map(|&column| self.column(column).len()).sum();
        let mut matrix = Sparse::with_capacity(self.rows, columns.len(), entries);
        for &column in columns {
            matrix.entries.extend_from_slice(self.column(column));
            matrix.starts.push(matrix.entries.len());
        }
        matrix
    }

    /// Removes the rows `lost`, given by increasing number, and moves the rows below up; the matrix has `rows` rows
    /// afterwards.
    pub(crate) fn renumber(&mut self, lost: &[usize], rows: usize) {
        let kept = |row: u32| {
            let before = lost.partition_point(|&lost| lost < row as usize);
            (lost.get(before) != Some(&(row as usize))).then_some(row - before as u32)
        };
        if !lost.is_empty() {
            let mut matrix = Sparse::new(rows);
            for column in self.columns() {
                let entries = column.iter().filter_map(|&(row, x)| Some((kept(row)?, x)));
                matrix.push(&entries.collect::<Vec<_>>());
            }
            *self = matrix;
        }
        self.rows = rows;
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns.
    pub fn cols(&self) -> usize {
        self.starts.len() - 1
    }

    /// The number of stored entries.
    pub fn nnz(&self) -> usize {
        self.entries.len()
    }

    /// The entries (row, value) of one column, by increasing row.
    ///
    /// # Panics
    /// If there is no column with this number.
    pub fn column(&self, column: usize) -> &[(u32, f64)] {
        &self.entries[self.starts[column]..self.starts[column + 1]]
    }

    /// The entries of all columns, in order of the columns.
    pub fn columns(&self) -> impl ExactSizeIterator<Item = &[(u32, f64)]> {
        (0..self.cols()).map(|column| self.column(column))
    }

    /// Returns the transposed matrix.
    pub fn transpose(&self) -> Sparse {
        let mut starts = vec![0; self.rows + 1];
        for &(row, _) in &self.entries {
            starts[row as usize + 1] += 1;
        }
        for row in 0..self.rows {
            starts[row + 1] += starts[row];
        }
        let mut next = starts.clone();
        let mut entries = vec![(0, 0.0); self.entries.len()];
        for (column, entries_of_column) in self.columns().enumerate() {
            for &(row, value) in entries_of_column {
                entries[next[row as usize]] = (column as u32, value);
                next[row as usize] += 1;
            }
        }
        Sparse { rows: self.cols(), starts, entries }
    }
}
