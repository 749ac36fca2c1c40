//! Labels of an axis.

use rustc_hash::FxHashMap;
use tensornoodl::{Shape, Tensor};

use crate::count::axis::Axis;
use crate::count::calendar::Unit;
use crate::error::Error;

/// The labels of one axis, and what they are.
#[derive(Debug, Clone, PartialEq)]
pub struct Labels {
    /// What they are made of.
    pub axis: Axis,
    /// In order.
    pub names: Vec<String>,
}

impl Labels {
    /// The unit of a time axis.
    pub fn unit(&self) -> Option<Unit> {
        match self.axis {
            Axis::Time(unit, _) => Some(unit),
            _ => None,
        }
    }
}

/// The same tensor with the features of a model, in their order; what the model does not know is left out. Also returns how many
/// entries that are.
pub fn align(
    tensor: &Tensor<'_>,
    features: &[String],
    model: &[String],
) -> Result<(Tensor<'static>, usize), Error> {
    let places: FxHashMap<&str, usize> = model.iter().map(String::as_str).zip(0..).collect();
    let place: Vec<Option<usize>> = features.iter().map(|name| places.get(name.as_str()).copied()).collect();
    let mut values = vec![0.0; model.len() * tensor.fibers()];
    let mut lost = 0;
    for (fiber, aligned) in values.chunks_exact_mut(model.len()).enumerate() {
        for (value, place) in tensor.fiber(fiber).iter().zip(&place) {
            match place {
                Some(place) => aligned[*place] = *value,
                None => lost += usize::from(*value != 0.0),
            }
        }
    }
    let shape = Shape { features: model.len(), ..tensor.shape() };
    Ok((Tensor::from_fibers(shape, values, tensor.places().to_vec())?, lost))
}

/// Sorts by label: as numbers if all are, so that 9 comes before 10, and 1 and 1.0 in some order that is always the same.
pub(crate) fn in_order<T>(labels: &mut [T], label: impl Fn(&T) -> &str) {
    let number = |text: &str| text.parse().ok().filter(|number: &f64| number.is_finite());
    if labels.iter().all(|one| number(label(one)).is_some()) {
        labels.sort_by(|a, b| {
            let (a, b) = (label(a), label(b));
            f64::total_cmp(&number(a).unwrap_or(0.0), &number(b).unwrap_or(0.0)).then_with(|| a.cmp(b))
        });
    } else {
        labels.sort_by(|a, b| label(a).cmp(label(b)));
    }
}
