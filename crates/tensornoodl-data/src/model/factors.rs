//! Factors as arrays of a file: each entry that is not zero, with its step or block, its pattern and its index.

use tensornoodl::{Factors, Sparse};

use crate::error::Error;
use crate::model::arrays::{Array, Reader};

/// Reads the factors of all steps, or those of all blocks.
pub(crate) struct FactorReader<'a> {
    pub(crate) reader: &'a Reader<'a>,
    /// Prefix of the names of the tensors.
    pub(crate) prefix: &'static str,
    /// The word `step` or `block`.
    pub(crate) unit: &'static str,
    /// Number of steps or blocks.
    pub(crate) count: usize,
}

impl FactorReader<'_> {
    /// Reads the factors, for at most `patterns` patterns, where `lengths` are the numbers of rows and cols.
    pub(crate) fn read(&self, patterns: usize, lengths: [usize; 2]) -> Result<Vec<Factors>, Error> {
        let (prefix, unit) = (self.prefix, self.unit);
        let at = self.reader.integers(&format!("{prefix}rank_one.{unit}"))?;
        let shares = self.reader.floats(&format!("{prefix}rank_one.value"))?;
        let in_bounds = at.iter().all(|at| (0..self.count as i64).contains(at));
        if at.len() != shares.len() || !in_bounds || !at.is_sorted() {
            return Err(self.wrong("rank_one"));
        }
        // Number of patterns with factors. Patterns that were found later have none.
        let mut counts = vec![0; self.count];
        at.iter().for_each(|at| counts[*at as usize] += 1);
        if counts.iter().any(|count| *count > patterns) {
            return Err(self.wrong("rank_one"));
        }
        let rows = self.matrices("rows", lengths[0], &counts)?;
        let cols = self.matrices("cols", lengths[1], &counts)?;
        let mut shares = shares.as_slice();
        let factors = rows.into_iter().zip(cols).zip(&counts).map(|((rows, cols), count)| {
            let (own, later) = shares.split_at(*count);
            shares = later;
            Factors { rows, cols, rank_one: own.to_vec() }
        });
        Ok(factors.collect())
    }

    /// Reads one sparse matrix for each step or block.
    fn matrices(&self, name: &str, length: usize, counts: &[usize]) -> Result<Vec<Sparse>, Error> {
        let integers = |part: &str| self.reader.integers(&format!("{}{name}.{part}", self.prefix));
        let entries = Entries {
            at: integers(self.unit)?,
            patterns: integers("pattern")?,
            indices: integers("index")?,
            values: self.reader.floats(&format!("{}{name}.value", self.prefix))?,
        };
        entries.matrices(length, counts).ok_or_else(|| self.wrong(name))
    }

    fn wrong(&self, name: &str) -> Error {
        self.reader.cannot(format!("{}{name} is out of order or out of bounds", self.prefix))
    }
}

/// The entries of sparse matrices, one list for each part.
struct Entries {
    /// Step or block of each entry.
    at: Vec<i64>,
    patterns: Vec<i64>,
    indices: Vec<i64>,
    values: Vec<f64>,
}

impl Entries {
    /// Builds the matrices, or returns none if the entries are out of order or out of bounds.
    ///
    /// A matrix has `length` rows, and matrix number i has `counts[i]` columns.
    fn matrices(&self, length: usize, counts: &[usize]) -> Option<Vec<Sparse>> {
        let all = self.values.len();
        if [self.at.len(), self.patterns.len(), self.indices.len()].iter().any(|other| *other != all) {
            return None;
        }
        let mut next = 0;
        let mut matrices = Vec::new();
        for (at, count) in counts.iter().enumerate() {
            let mut matrix = Sparse::new(length);
            for pattern in 0..*count {
                let mut column: Vec<(u32, f64)> = Vec::new();
                while next < all && (self.at[next], self.patterns[next]) == (at as i64, pattern as i64) {
                    let index = u32::try_from(self.indices[next]).ok();
                    let index = index.filter(|index| (*index as usize) < length)?;
                    if column.last().is_some_and(|last| last.0 >= index) {
                        return None;
                    }
                    column.push((index, self.values[next]));
                    next += 1;
                }
                matrix.push(&column);
            }
            matrices.push(matrix);
        }
        (next == all).then_some(matrices)
    }
}

/// Returns the arrays of the factors of all steps or blocks, with their names. `unit` is the word `step` or `block`.
pub(crate) fn factor_arrays(prefix: &str, unit: &str, factors: &[Factors]) -> Vec<(String, Array)> {
    let mut tensors = Vec::new();
    for (name, of) in [("rows", (|it| &it.rows) as fn(&Factors) -> &Sparse), ("cols", |it| &it.cols)] {
        let mut columns = [Vec::new(), Vec::new(), Vec::new()];
        let mut values = Vec::new();
        for (at, factors) in factors.iter().enumerate() {
            for (pattern, column) in of(factors).columns().enumerate() {
                for &(index, value) in column {
                    let entry = [at as i64, pattern as i64, i64::from(index)];
                    columns.iter_mut().zip(entry).for_each(|(column, part)| column.push(part));
                    values.push(value);
                }
            }
        }
        for (part, column) in [unit, "pattern", "index"].into_iter().zip(columns) {
            tensors.push((format!("{prefix}{name}.{part}"), Array::integers(&column)));
        }
        tensors.push((format!("{prefix}{name}.value"), Array::floats(&values)));
    }
    let (mut at, mut patterns, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    for (number, factors) in factors.iter().enumerate() {
        for (pattern, share) in factors.rank_one.iter().enumerate() {
            at.push(number as i64);
            patterns.push(pattern as i64);
            shares.push(*share);
        }
    }
    tensors.push((format!("{prefix}rank_one.{unit}"), Array::integers(&at)));
    tensors.push((format!("{prefix}rank_one.pattern"), Array::integers(&patterns)));
    tensors.push((format!("{prefix}rank_one.value"), Array::floats(&shares)));
    tensors
}
