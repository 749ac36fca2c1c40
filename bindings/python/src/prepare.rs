//! Tensors as a model takes them: its features, its places, and after its recipe.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tensornoodl::ModelKind;
use tensornoodl_data::{Card, Recipe, align, is_count};

use crate::errors::py_error;
use crate::labels::Labels;

/// Aligns the features of a tensor with those of the model, checks the values that the counts model gets unless
/// `clip` makes 0 of its negative values, and applies the model's recipe. Returns the tensor, and the number of
/// entries that were left out because the model does not know their features.
pub(crate) fn prepare<'a>(
    card: &Card,
    kind: ModelKind,
    tensor: tensornoodl::Tensor<'a>,
    labels: &Labels,
    clip: bool,
) -> Result<(tensornoodl::Tensor<'a>, usize), tensornoodl_data::Error> {
    let features = &labels.names[0];
    let (tensor, left_out) = if !labels.given[0] {
        // Features without labels are those of the model, in order.
        if features.len() != card.features.len() {
            let (tensor, dictionary) = (features.len(), card.features.len());
            return Err(tensornoodl::Error::Features { tensor, dictionary }.into());
        }
        (tensor, 0)
    } else if card.features == *features {
        (tensor, 0)
    } else {
        let known = |name: &String| card.features.contains(name);
        if !features.iter().any(known) {
            return Err(tensornoodl_data::Error::Axis {
                text: format!("a tensor with features {:?}, ...", features[0]),
                rule: format!("one with features that the model has: {:?}, ...", card.features[0]),
            });
        }
        align(&tensor, features, &card.features)?
    };
    if kind == ModelKind::Counts && clip {
        let values: Vec<f64> = tensor.values().iter().map(|value| value.max(0.0)).collect();
        let clipped = tensornoodl::Tensor::from_fibers(tensor.shape(), values, tensor.places().to_vec())?;
        return Ok((card.recipe.apply(clipped)?, left_out));
    }
    if kind == ModelKind::Counts {
        check_counts(&tensor, [&card.features, &labels.names[1], &labels.names[2]])?;
    }
    let tensor = if card.recipe == Recipe::default() { tensor } else { card.recipe.apply(tensor)? };
    Ok((tensor, left_out))
}

/// Checks that all values of a tensor can be numbers of events. `labels` are those of the features, rows and cols.
fn check_counts(
    tensor: &tensornoodl::Tensor<'_>,
    labels: [&[String]; 3],
) -> Result<(), tensornoodl_data::Error> {
    for (fiber, place) in tensor.places().iter().enumerate() {
        if let Some((feature, value)) = tensor.entries(fiber).find(|entry| !is_count(entry.1)) {
            let at = [feature, place.row, place.col];
            let [feature, row, col] = [0, 1, 2].map(|axis: usize| labels[axis][at[axis] as usize].clone());
            return Err(tensornoodl_data::Error::NotACount {
                file: "the tensor".into(),
                value,
                feature,
                row,
                col,
            });
        }
    }
    Ok(())
}

/// Returns the labels of the rows (axis 1) or cols (axis 2) of a tensor. An axis without labels has the labels of the
/// model if it has the same length.
pub(crate) fn names<'a>(labels: &'a Labels, axis: usize, known: &'a [String]) -> &'a [String] {
    let given = &labels.names[axis];
    if !labels.given[axis] && given.len() == known.len() { known } else { given }
}

/// Returns the index in a card of each row and col of a tensor. Rows and cols that are new are added to the card.
pub(crate) fn place(card: &mut Card, labels: &Labels) -> [Vec<u32>; 2] {
    let (rows, cols) = (names(labels, 1, &card.rows).to_vec(), names(labels, 2, &card.cols).to_vec());
    card.place(&rows, &cols)
}

/// Moves a tensor to the places of a card that [`place`] returned.
pub(crate) fn moved<'a>(
    tensor: &'a tensornoodl::Tensor<'_>,
    card: &Card,
    [rows, cols]: &[Vec<u32>; 2],
) -> Result<tensornoodl::Tensor<'a>, tensornoodl::Error> {
    let place = |place: &tensornoodl::Place| tensornoodl::Place {
        row: rows[place.row as usize],
        col: cols[place.col as usize],
    };
    let places: Vec<tensornoodl::Place> = tensor.places().iter().map(place).collect();
    tensor.moved(card.rows.len(), card.cols.len(), places)
}

/// Returns the tensor of a step that a model has learned from, at the places of the model and after the recipe.
///
/// # Errors
/// If it cannot be that tensor.
pub(crate) fn learned_tensor(
    model: &tensornoodl_data::Model,
    step: usize,
    tensor: tensornoodl::Tensor<'_>,
    labels: &Labels,
    polish: bool,
) -> PyResult<tensornoodl::Tensor<'static>> {
    let mut card = model.card.clone();
    let places = place(&mut card, labels);
    let label = &model.card.steps[step];
    for (axis, names, known) in [("row", &card.rows, &model.card.rows), ("col", &card.cols, &model.card.cols)]
    {
        if let Some(new) = names.get(known.len()) {
            return Err(PyValueError::new_err(format!(
                "the tensor of step '{label}' has the {axis} '{new}', it must be the one that the model has learned from, \
                 which has no such {axis}"
            )));
        }
    }
    let (tensor, _) = prepare(&card, model.learner.kind(), tensor, labels, polish).map_err(py_error)?;
    let (given, fibers) = (tensor.fibers(), model.card.history[step].fibers);
    if given != fibers {
        return Err(PyValueError::new_err(format!(
            "the tensor of step '{label}' has {given} places, it must be the one that the model has learned from, which has \
             {fibers}"
        )));
    }
    // A recipe without actions makes a copy.
    Recipe::default().apply(moved(&tensor, &card, &places).map_err(py_error)?).map_err(py_error)
}
