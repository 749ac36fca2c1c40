//! Learning again from the steps of a model: with other seeds, and from halves of the places.

use tensornoodl::{Dictionary, Learner, ModelKind, Tensor};

use crate::error::Error;
use crate::model::learn::Model;
use crate::model::stability::Stability;

impl Model {
    /// Measures the [`Stability`] of the patterns, and keeps it in the evidence of the model.
    ///
    /// `begin(seed, patterns, tensor)` returns a learner for the first tensor, in the way of the model; `patterns` is the
    /// number of patterns, if the model determines it. `tensor(step)` returns the tensor of a step that the model has
    /// learned from, from 0, after the recipe. `polish` says whether the model was polished.
    ///
    /// # Errors
    /// An error of `begin`, of `tensor`, or of a learner. The model is then unchanged.
    pub fn measure_stability<'t>(
        &mut self,
        seeds: usize,
        polish: bool,
        mut begin: impl FnMut(u64, Option<usize>, &Tensor<'_>) -> Result<Learner, Error>,
        mut tensor: impl FnMut(usize) -> Result<Tensor<'t>, Error>,
    ) -> Result<&Stability, Error> {
        let (patterns, own_seed, steps) =
            (self.learner.dictionary(), self.card.seed, self.card.history.len());
        // The number of patterns of damped counts is that of the counts themselves.
        let damped = self.learner.kind() == ModelKind::Counts && !self.card.recipe.0.is_empty();
        let of_counts = damped.then(|| patterns.patterns());
        let stability = Stability::measure(patterns, own_seed, seeds, |seed, half| {
            let mut part = |step: usize| {
                let whole = tensor(step)?;
                Ok(match half {
                    Some(half) => whole.filter(|place| place.half(own_seed) == half),
                    None => whole,
                })
            };
            match begin(seed, of_counts, &part(0)?) {
                Err(Error::Tensor(tensornoodl::Error::NoPattern | tensornoodl::Error::NothingShared)) => {
                    Ok(None)
                }
                learner => learn_again(learner?, steps, polish, part),
            }
        })?;
        Ok(self.evidence.get_or_insert_default().stability.insert(stability))
    }
}

/// Returns the patterns that a new learner finds in the tensors of all steps. None if there are none.
fn learn_again<'t>(
    mut learner: Learner,
    steps: usize,
    polish: bool,
    mut tensor: impl FnMut(usize) -> Result<Tensor<'t>, Error>,
) -> Result<Option<Dictionary>, Error> {
    for step in 0..steps {
        let tensor = tensor(step)?;
        let learned = learner.learn(&tensor)?;
        if polish {
            let factors = learned.codes.untangle_blocks(&**learner.team(), 1).remove(0);
            match learner.polish(&tensor, &factors) {
                Err(tensornoodl::Error::SeveralGroups { .. }) => {}
                polished => drop(polished?),
            }
        }
    }
    Ok(Some(learner.dictionary().clone()).filter(|found| found.patterns() > 0))
}
