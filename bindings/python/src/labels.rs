//! Labels of the axes of a tensor.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tensornoodl::Shape;

/// Largest length of an axis without labels: its indices become labels, which take memory.
const MOST_INDICES: usize = 10_000_000;

/// Labels of the features, the rows and the cols, in this order.
#[derive(Clone)]
pub(crate) struct Labels {
    pub(crate) names: Arc<[Vec<String>; 3]>,
    /// For each axis, whether the user gave the labels; otherwise they are indices.
    pub(crate) given: [bool; 3],
}

impl Labels {
    /// Returns labels that are given for all axes.
    pub(crate) fn given(names: [Vec<String>; 3]) -> Labels {
        Labels { names: Arc::new(names), given: [true; 3] }
    }

    /// Returns labels that may be given for some axes; the other axes get indices.
    ///
    /// # Errors
    ///
    /// If the number of labels is not the length of the axis, if a label occurs twice, or if an axis without labels
    /// is longer than [`MOST_INDICES`].
    pub(crate) fn new(given: [Option<Vec<String>>; 3], shape: Shape) -> PyResult<Labels> {
        let lengths = [shape.features, shape.rows, shape.cols];
        let is_given = [0, 1, 2].map(|axis: usize| given[axis].is_some());
        let mut labels: [Vec<String>; 3] = Default::default();
        for (axis, (given, length)) in given.into_iter().zip(lengths).enumerate() {
            labels[axis] = match given {
                Some(given) => checked(given, length, axis)?,
                None if length > MOST_INDICES => {
                    let text = format!(
                        "the shape is {shape}: an axis without labels may have {MOST_INDICES} entries; number only those that occur"
                    );
                    return Err(PyValueError::new_err(text));
                }
                None => (0..length).map(|index| index.to_string()).collect(),
            };
        }
        Ok(Labels { names: Arc::new(labels), given: is_given })
    }
}

/// Returns labels if there are `length` of them and no two are equal.
fn checked(labels: Vec<String>, length: usize, axis: usize) -> PyResult<Vec<String>> {
    if labels.len() != length {
        let axis = ["features", "rows", "cols"][axis];
        let text = format!("{} labels of {axis} given, {length} needed", labels.len());
        return Err(PyValueError::new_err(text));
    }
    let mut sorted: Vec<&String> = labels.iter().collect();
    sorted.sort_unstable();
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        let axis = ["feature", "row", "col"][axis];
        return Err(PyValueError::new_err(format!("two of the {axis} labels are {:?}", pair[0])));
    }
    Ok(labels)
}
