//! Labels of an axis: how they are sorted, and how a tensor gets the features of a model.

use ahash::AHashMap;
use tensornoodl::{Shape, Tensor};

use crate::count::axis::Axis;
use crate::count::calendar::Unit;
use crate::error::Error;

/// The labels of one axis of a tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct Labels {
    /// The axis that the labels belong to.
    pub axis: Axis,
    /// The labels, in the order of the indices of the tensor.
    pub names: Vec<String>,
}

impl Labels {
    /// Returns the unit of a time axis, or none for any other axis.
    pub fn unit(&self) -> Option<Unit> {
        match self.axis {
            Axis::Time(unit, _) => Some(unit),
            _ => None,
        }
    }
}

/// Returns a tensor with the features of a model, in the order of the model, and the number of entries that were left
/// out.
///
/// `features` are the labels of the features of `tensor`, `model` those of the model. Entries of features that the
/// model does not have are left out.
///
/// # Errors
/// [`Error::Tensor`] if the core crate refuses the tensor.
pub fn align(
    tensor: &Tensor<'_>,
    features: &[String],
    model: &[String],
) -> Result<(Tensor<'static>, usize), Error> {
    let indices: AHashMap<&str, usize> = model.iter().map(String::as_str).zip(0..).collect();
    let new_index: Vec<Option<usize>> =
        features.iter().map(|name| indices.get(name.as_str()).copied()).collect();
    let mut values = vec![0.0; model.len() * tensor.fibers()];
    let mut left_out = 0;
    for (fiber, aligned) in values.chunks_exact_mut(model.len()).enumerate() {
        for (value, index) in tensor.fiber(fiber).iter().zip(&new_index) {
            match index {
                Some(index) => aligned[*index] = *value,
                None => left_out += usize::from(*value != 0.0),
            }
        }
    }
    let shape = Shape { features: model.len(), ..tensor.shape() };
    Ok((Tensor::from_fibers(shape, values, tensor.places().to_vec())?, left_out))
}

/// Sorts items by their labels: as numbers if all labels are numbers, as text otherwise. Labels of equal numbers are
/// sorted as text.
pub(crate) fn sort_labels<T>(items: &mut [T], label: impl Fn(&T) -> &str) {
    let number = |text: &str| text.parse().ok().filter(|number: &f64| number.is_finite());
    if items.iter().all(|item| number(label(item)).is_some()) {
        items.sort_by(|a, b| {
            let (a, b) = (label(a), label(b));
            f64::total_cmp(&number(a).unwrap_or(0.0), &number(b).unwrap_or(0.0)).then_with(|| a.cmp(b))
        });
    } else {
        items.sort_by(|a, b| label(a).cmp(label(b)));
    }
}
