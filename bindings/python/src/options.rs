//! Parameters of a learner, as `python/tensornoodl/_inputs.py` passes them.

use pyo3::prelude::*;
use tensornoodl::{DiscoverParams, Params, Passes, Rule, Stop};

use crate::errors::py_error;

/// Parameters of a learner. Python passes a dictionary with these keys.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Options {
    /// Largest number of patterns; `None`: the data determines it.
    patterns: Option<usize>,
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
    /// Number of threads; 0: one for each core.
    pub(crate) jobs: usize,
}

impl Options {
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

    /// Returns the parameters of the search for patterns, which `stop` ends.
    pub(crate) fn discover_params(&self, stop: &Stop) -> DiscoverParams {
        DiscoverParams {
            min_patterns: self.patterns.unwrap_or(0),
            max_patterns: self.patterns,
            seed: self.seed,
            stop: stop.clone(),
            ..DiscoverParams::default()
        }
    }
}
