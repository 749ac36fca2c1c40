//! Parameters of a learner, as `python/tensornoodl/_inputs.py` passes them.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tensornoodl::{DiscoverParams, ModelKind, Params, Passes, Rule, Stop};
use tensornoodl_data::{ModelChoice, Query, Recipe, model_name};

use crate::errors::py_error;

/// Parameters of a learner. Python passes a dictionary with these keys.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Options {
    /// The model: `auto`, `counts` or `exact`.
    model: String,
    /// Number of patterns; `None`: the data determines it.
    pub(crate) patterns: Option<usize>,
    /// Passes over each tensor; `None`: until they no longer improve the patterns.
    passes: Option<usize>,
    eta_a: Option<f64>,
    eta_x: f64,
    tau: f64,
    code_floor: f64,
    forgetting: f64,
    pub(crate) seed: u64,
    /// Whether more tensors follow.
    pub(crate) stream: bool,
    /// Whether patterns, rows and cols are fitted together after the step.
    pub(crate) polish: bool,
    /// Number of threads; 0: one for each core.
    pub(crate) jobs: usize,
}

/// A model, and the reason for it as the end of a sentence that begins with "because".
pub(crate) type Choice = (ModelKind, String);

/// A function that makes an object again, and its arguments: the state of a learner, and the reasons `R` for what was
/// chosen.
pub(crate) type Pickled<'py, R> = (Bound<'py, PyAny>, (Bound<'py, PyBytes>, R));

impl Options {
    /// Chooses the model. `start` is the choice that patterns to start from leave, and `query` is how a table was
    /// counted; an array has none.
    ///
    /// # Errors
    /// If another model is asked for than the patterns to start from have, or a parameter does not belong to the model.
    pub(crate) fn choose(
        &self,
        start: Option<Choice>,
        query: Option<&Query>,
        recipe: &Recipe,
    ) -> PyResult<Choice> {
        let asked: ModelChoice = self.model.parse().map_err(py_error)?;
        let choice = match (start, asked, query) {
            (Some(start), ..) => start,
            (_, ModelChoice::Auto, _) if self.eta_a.is_some() => {
                (ModelKind::Exact, "eta_a belongs to it".into())
            }
            (.., Some(query)) => asked.resolve(query, recipe),
            (_, ModelChoice::Given(kind), None) => (kind, "it was asked for".into()),
            (_, ModelChoice::Auto, None) => {
                (ModelKind::Exact, "the values of an array need not count anything".into())
            }
        };
        self.check_model(choice.0, &choice.1)?;
        if choice.0 == ModelKind::Counts && !recipe.keeps_counts() {
            return Err(PyValueError::new_err(format!(
                "recipe is '{recipe}', it may only have log2, sqrt and presence with the counts model; use model='exact'"
            )));
        }
        Ok(choice)
    }

    /// Checks that the parameters belong to a model, which is taken for this reason.
    ///
    /// # Errors
    /// If another model is asked for, or the counts model gets a step size.
    pub(crate) fn check_model(&self, kind: ModelKind, reason: &str) -> PyResult<()> {
        let name = model_name(kind);
        if !["auto", name].contains(&&*self.model) {
            let asked = &self.model;
            return Err(PyValueError::new_err(format!(
                "model is '{asked}', it must be '{name}' or 'auto': the {name} model is needed, because {reason}"
            )));
        }
        match (kind, self.eta_a) {
            (ModelKind::Counts, Some(eta_a)) => Err(PyValueError::new_err(format!(
                "eta_a is {eta_a}, it must be None with the counts model, which has no step size"
            ))),
            _ => Ok(()),
        }
    }

    /// Returns the parameters of the steps.
    pub(crate) fn params(&self) -> PyResult<Params> {
        let params = Params {
            eta_x: self.eta_x,
            tau: self.tau,
            code_floor: self.code_floor,
            forgetting: self.forgetting,
            rule: self.eta_a.map_or(Rule::Adaptive, |eta_a| Rule::Paper { eta_a }),
            passes: match self.passes {
                Some(passes) => Passes::Fixed(passes),
                None if self.stream => Passes::Auto,
                None => Passes::Exhaust,
            },
            ..Params::default()
        };
        params.check().map_err(py_error)?;
        Ok(params)
    }

    /// Returns the parameters of the search for patterns, which `stop` ends. `of_counts` is the number of patterns of the
    /// counts before a recipe; a stream goes on looking for patterns.
    pub(crate) fn discover_params(&self, of_counts: Option<usize>, seed: u64, stop: &Stop) -> DiscoverParams {
        let patterns = self.patterns.or(of_counts.filter(|_| !self.stream));
        DiscoverParams {
            min_patterns: patterns.unwrap_or(0),
            max_patterns: patterns,
            seed,
            stop: stop.clone(),
            ..DiscoverParams::default()
        }
    }
}
