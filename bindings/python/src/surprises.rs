//! Surprising places of tensors.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tensornoodl_data::Surprising;

use crate::labels::Labels;
use crate::prepare::{names, prepare};

/// The fields of a surprise: step, row, col, events, expected, the p-values of total and shape, whether it is
/// significant, and the features that are too many, with their events and what was expected.
pub(crate) type Row = (String, String, String, f64, f64, f64, f64, bool, Vec<(String, f64, f64)>);

/// Returns the fields of a place in the step with this label.
pub(crate) fn row(step: &str, it: &Surprising) -> Row {
    let too_many = it.features.iter().map(|it| (it.feature.clone(), it.events, it.expected)).collect();
    let (row, col) = (it.row.clone(), it.col.clone());
    (step.into(), row, col, it.events, it.expected, it.p_total, it.p_shape, it.significant, too_many)
}

/// Checks that the model knows one of the rows and one of the cols of a tensor: nothing can be expected elsewhere.
pub(crate) fn check_known(model: &tensornoodl_data::Model, labels: &Labels) -> PyResult<()> {
    let (rows, cols) = (names(labels, 1, &model.card.rows), names(labels, 2, &model.card.cols));
    if model.knows(rows, cols) {
        return Ok(());
    }
    Err(PyValueError::new_err(format!(
        "the tensor has row '{}' and col '{}', ..., it must have rows and cols that the model knows: nothing can be expected \
         elsewhere",
        rows[0], cols[0]
    )))
}

/// Judges each place of a tensor as one of the next step. Also returns the number of entries that were left out because
/// the model does not know their features.
pub(crate) fn judge(
    model: &tensornoodl_data::Model,
    tensor: tensornoodl::Tensor<'_>,
    labels: &Labels,
) -> Result<(Vec<Surprising>, usize), tensornoodl_data::Error> {
    let (rows, cols) = (names(labels, 1, &model.card.rows), names(labels, 2, &model.card.cols));
    let (tensor, left_out) = prepare(&model.card, model.learner.kind(), tensor, labels, false)?;
    Ok((model.surprises(&tensor, rows, cols)?, left_out))
}
