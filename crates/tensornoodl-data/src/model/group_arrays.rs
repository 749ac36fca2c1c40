//! Groups of counts as arrays of a file.

use tensornoodl::{Groups, Sparse};

use crate::error::Error;
use crate::model::arrays::{Array, Reader};

/// The name of the section.
const SECTION: &str = "section.groups";

/// Returns the arrays of the groups, with their names.
pub(crate) fn group_arrays(groups: &Groups) -> Vec<(String, Array)> {
    let mut arrays = Vec::new();
    for (name, matrix) in [("rows", &groups.rows), ("cols", &groups.cols)] {
        let entries = || {
            (0..)
                .zip(matrix.columns())
                .flat_map(|(group, column)| column.iter().map(move |entry| (group, entry)))
        };
        let numbers: Vec<i64> = entries().map(|(group, _)| group).collect();
        let indices: Vec<i64> = entries().map(|(_, entry)| i64::from(entry.0)).collect();
        let events: Vec<f64> = entries().map(|(_, entry)| entry.1).collect();
        arrays.push((format!("{SECTION}.{name}.group"), Array::integers(&numbers)));
        arrays.push((format!("{SECTION}.{name}.index"), Array::integers(&indices)));
        arrays.push((format!("{SECTION}.{name}.value"), Array::floats(&events)));
    }
    let shape = [groups.shares.cols(), groups.shares.rows()];
    let mut shares = vec![0.0; shape[0] * shape[1]];
    for (pattern, column) in groups.shares.columns().enumerate() {
        column.iter().for_each(|&(group, share)| shares[pattern * shape[1] + group as usize] = share);
    }
    arrays.push((format!("{SECTION}.share"), Array::matrix(shape, &shares)));
    arrays
}

/// Reads the groups of a model with this many patterns, rows and cols. None if the file has no groups.
///
/// # Errors
/// [`Error::Format`] if the arrays do not fit together.
pub(crate) fn read_groups(
    reader: &Reader<'_>,
    patterns: usize,
    [rows, cols]: [usize; 2],
) -> Result<Option<Groups>, Error> {
    let name = format!("{SECTION}.share");
    if !reader.has(&name) {
        return Ok(None);
    }
    let ([count, groups], values) = reader.matrix(&name)?;
    if count != patterns || values.iter().any(|share| !(0.0..=1.0 + 1e-9).contains(share)) {
        return Err(wrong(reader));
    }
    let mut shares = Sparse::new(groups);
    for pattern in 0..patterns {
        let row = (0..).zip(values[pattern * groups..(pattern + 1) * groups].iter().copied());
        shares.push(&row.filter(|entry| entry.1 > 0.0).collect::<Vec<_>>());
    }
    let [rows, cols] =
        [("rows", rows), ("cols", cols)].map(|(name, length)| read_matrix(reader, name, length, groups));
    Ok(Some(Groups { rows: rows?, cols: cols?, shares }))
}

/// Reads the events of rows or cols in each group.
fn read_matrix(reader: &Reader<'_>, name: &str, length: usize, groups: usize) -> Result<Sparse, Error> {
    let numbers = reader.integers(&format!("{SECTION}.{name}.group"))?;
    let indices = reader.integers(&format!("{SECTION}.{name}.index"))?;
    let events = reader.floats(&format!("{SECTION}.{name}.value"))?;
    let in_order = numbers.iter().zip(&indices).is_sorted_by(|a, b| a < b);
    let inside = numbers.iter().all(|group| (0..groups as i64).contains(group))
        && indices.iter().all(|index| (0..length as i64).contains(index))
        && events.iter().all(|events| *events > 0.0);
    if [indices.len(), events.len()] != [numbers.len(); 2] || !in_order || !inside {
        return Err(wrong(reader));
    }
    let mut matrix = Sparse::new(length);
    for group in 0..groups as i64 {
        let own = numbers.partition_point(|number| *number < group)
            ..numbers.partition_point(|number| *number <= group);
        let column: Vec<(u32, f64)> = own.map(|at| (indices[at] as u32, events[at])).collect();
        matrix.push(&column);
    }
    Ok(matrix)
}

fn wrong(reader: &Reader<'_>) -> Error {
    reader.cannot(format!("{SECTION} is out of order or out of bounds"))
}
