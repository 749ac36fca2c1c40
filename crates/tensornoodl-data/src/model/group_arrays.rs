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

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use super::*;
    use crate::{Axis, Card, Model, Query, Value};
    use tensornoodl::{DiscoverParams, Learner, Params, Shape, Tensor};

    /// Two teams of six people, who write to each other at two hours of their own.
    fn model() -> Model {
        let axis = |name: &str| Axis::Column(name.into());
        let query = Query {
            feature: axis("hour"),
            row: axis("from"),
            col: axis("to"),
            step: None,
            value: Value::Count,
            average_over: None,
            keep_rows: None,
            max_features: None,
            filters: Vec::new(),
            square: false,
            names: None,
            groups: None,
        };
        let names = |count: usize| (0..count).map(|at| at.to_string()).collect::<Vec<_>>();
        let mut card = Card::new(query, [names(4), names(12), names(12)]);
        card.steps = vec!["all".into()];
        card.row_groups = (0..12).map(|at| ["Law", "Trade"][at / 6].into()).collect();
        let learner = Learner::for_counts(4, Params::default(), DiscoverParams::default()).unwrap();
        let mut model = Model::with_card(learner, card);
        let mut events = Vec::new();
        for (row, col) in (0..12).flat_map(|row| (0..12).map(move |col| (row, col))) {
            if row / 6 == col / 6 && row != col {
                let first = 2 * (row / 6);
                events.push((first, row, col, 9.0 + row as f64));
                events.push((first + 1, row, col, 5.0 + (col % 3) as f64));
            }
        }
        let shape = Shape { features: 4, rows: 12, cols: 12 };
        model.learn(&Tensor::from_triplets(shape, &events).unwrap()).unwrap();
        model
    }

    #[test]
    fn groups_survive_the_file() {
        let model = model();
        let without = Model::from_bytes(&model.to_bytes().unwrap(), "m").unwrap();
        assert!(without.groups.get().is_none() && without.all_groups() == model.all_groups());
        let bytes = model.to_bytes().unwrap();
        let again = Model::from_bytes(&bytes, "m").unwrap();
        assert!(again.groups.get().is_some_and(|groups| groups == model.all_groups().unwrap()));
        assert!(again == model && again.to_bytes().unwrap() == bytes);
        assert_eq!(again.learner.dictionary().patterns(), 2);
        let mut known = Vec::new();
        for pattern in 0..2 {
            let groups = again.groups(pattern);
            assert!(
                groups[0].share > 0.99 && groups[0].rows.len() == 6 && groups[0].cols.len() == 6,
                "{groups:?}"
            );
            known.push(groups[0].known.as_ref().map(|known| (known.name.clone(), known.others, known.size)));
            assert_eq!(groups[0].number + again.groups(1 - pattern)[0].number, 3);
        }
        known.sort();
        assert_eq!(known, [Some(("Law".into(), 0, 6)), Some(("Trade".into(), 0, 6))]);
    }

    #[test]
    fn groups_are_found_again_if_the_file_has_none() {
        let model = model();
        let mut without = model.clone();
        without.groups = OnceLock::new();
        assert_eq!(without.all_groups(), model.all_groups());
        // A further step has other groups.
        let shape = Shape { features: 4, rows: 12, cols: 12 };
        without.learn(&Tensor::from_triplets(shape, &[(0, 11, 0, 3.0)]).unwrap()).unwrap();
        assert!(without.groups.get().is_none() && without.all_groups() != model.all_groups());
    }

    #[test]
    fn groups_that_do_not_fit_are_refused() {
        let wrong = |change: fn(&mut Groups)| {
            let mut model = model();
            let mut groups = model.all_groups().unwrap().clone();
            change(&mut groups);
            model.groups = OnceLock::from(groups);
            let error = Model::from_bytes(&model.to_bytes().unwrap(), "m").unwrap_err().to_string();
            assert!(error.contains("section.groups is out of order or out of bounds"), "{error}");
        };
        wrong(|groups| groups.shares.push(&[]));
        wrong(|groups| groups.shares = Sparse::new(2));
        wrong(|groups| {
            groups.shares = Sparse::new(2);
            groups.shares.push(&[(0, 1.5)]);
            groups.shares.push(&[]);
        });
        // A third group, a row without a label, and events below zero.
        wrong(|groups| groups.rows.push(&[(0, 1.0)]));
        for entry in [(12, 1.0), (3, -1.0)] {
            let mut model = model();
            let mut groups = model.all_groups().unwrap().clone();
            groups.cols = Sparse::new(13);
            groups.cols.push(&[entry]);
            model.groups = OnceLock::from(groups);
            assert!(Model::from_bytes(&model.to_bytes().unwrap(), "m").is_err());
        }
    }
}
