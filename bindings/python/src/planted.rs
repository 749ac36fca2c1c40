//! Synthetic streams with known factors, and errors of results with respect to them.

use numpy::PyArray2;
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;
use tensornoodl::Dictionary;
use tensornoodl::metrics::Matching;
use tensornoodl::synthetic::{Plan, Values};

use crate::arrays::{dictionary, patterns};
use crate::codes::Codes;
use crate::errors::py_error;
use crate::labels::Labels;
use crate::tensor::Tensor;

/// Largest size of a tensor. Larger values of the parameters are taken for a typing error.
const MOST_BYTES: f64 = 1e11;

/// Converts the number of a step, which counts from 1.
fn check_step(name: &str, step: i64) -> PyResult<u64> {
    match u64::try_from(step) {
        Ok(step) if step > 0 => Ok(step),
        _ => Err(PyValueError::new_err(format!("{name} is {step}, it must be at least 1"))),
    }
}

/// A synthetic stream with known factors, drawn as in the paper's experiments. The stream depends only on the
/// parameters.
///
/// Entries of B and C are nonzero with the probabilities alpha and beta. Nonzero entries are 1 or -1; with a floor
/// below 1, their magnitudes are random and at least the floor, and their variance is 1. ``noise`` is the expected
/// norm of the noise that is added to each fiber. The last ``late`` patterns appear at step ``late_step``. All values
/// are multiplied by ``scale``.
#[pyclass(frozen, module = "tensornoodl")]
pub(crate) struct Planted(tensornoodl::synthetic::Planted);

#[pymethods]
impl Planted {
    #[new]
    #[pyo3(signature = (*, features=300, patterns=150, rows=100, cols=100, alpha=0.05, beta=0.05, floor=1.0, noise=0.0, scale=1.0,
                        late=0, late_step=1, seed=0))]
    #[expect(clippy::too_many_arguments, reason = "they are named in Python")]
    fn new(
        features: usize,
        patterns: usize,
        rows: usize,
        cols: usize,
        alpha: f64,
        beta: f64,
        floor: f64,
        noise: f64,
        scale: f64,
        late: usize,
        late_step: i64,
        seed: u64,
    ) -> PyResult<Planted> {
        let late_step = check_step("late_step", late_step)?;
        let values = if floor == 1.0 { Values::Rademacher } else { Values::SubGaussian { floor } };
        let plan = Plan {
            features,
            patterns,
            rows,
            cols,
            alpha,
            beta,
            row_values: values,
            col_values: values,
            noise,
            scale,
            late,
            late_step,
            seed,
        };
        plan.check().map_err(py_error)?;
        if plan.bytes() > MOST_BYTES {
            let text = format!(
                "one tensor of this takes about {:.0} GB, it must be at most {:.0} GB: use fewer features, patterns, rows or cols",
                plan.bytes() / 1e9,
                MOST_BYTES / 1e9
            );
            return Err(PyMemoryError::new_err(text));
        }
        Ok(Planted(tensornoodl::synthetic::Planted::new(plan).map_err(py_error)?))
    }

    /// The true patterns (m x n).
    #[getter]
    fn patterns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        patterns(py, self.0.true_dictionary())
    }

    /// Patterns to start from, each at this distance from a true one. The default distance is the paper's, 2 / ln n.
    #[pyo3(signature = (distance=None))]
    fn start<'py>(&self, py: Python<'py>, distance: Option<f64>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let start = self.0.start(distance.unwrap_or_else(|| self.0.paper_distance()));
        patterns(py, &start.map_err(py_error)?)
    }

    /// The tensor of a step; steps count from 1.
    fn tensor(&self, py: Python<'_>, step: i64) -> PyResult<Tensor> {
        let step = check_step("step", step)?;
        let planted = py.detach(|| self.0.tensor(step));
        let labels = Labels::new([None, None, None], planted.tensor.shape())?;
        Tensor::new(py, planted.tensor, labels, None, Some(step.to_string()))
    }

    /// The true codes of the tensor of a step; steps count from 1.
    fn codes(&self, py: Python<'_>, step: i64) -> PyResult<Codes> {
        let step = check_step("step", step)?;
        let planted = py.detach(|| self.0.tensor(step));
        Codes::new(planted.true_codes, self.0.plan().features)
    }

    fn __repr__(&self) -> String {
        let Plan { features, patterns, rows, cols, alpha, beta, noise, seed, .. } = self.0.plan();
        format!(
            "<tensornoodl.Planted: {patterns} patterns, {features} x {rows} x {cols}, alpha {alpha}, beta {beta}, noise {noise}, seed {seed}>"
        )
    }
}

/// The assignment of found patterns to true ones, with signs, that maximizes the sum of |cos|.
#[pyclass(frozen, module = "tensornoodl")]
pub(crate) struct Match {
    matching: Matching,
    found: Dictionary,
    truth: Dictionary,
}

#[pymethods]
impl Match {
    #[new]
    fn new(found: &Bound<'_, PyAny>, truth: &Bound<'_, PyAny>) -> PyResult<Match> {
        let (found, truth) = (dictionary(found)?, dictionary(truth)?);
        let lengths = (found.features(), truth.features());
        if lengths.0 != lengths.1 {
            let text = format!("found patterns have {} features, true ones {}", lengths.0, lengths.1);
            return Err(PyValueError::new_err(text));
        }
        let matching = Matching::new(&found, &truth).map_err(py_error)?;
        Ok(Match { matching, found, truth })
    }

    /// The relative error of the patterns up to order and sign: |A - A*|_F / |A*|_F.
    #[getter]
    fn error(&self) -> f64 {
        self.matching.error_a(&self.found, &self.truth)
    }

    /// For every true pattern the index of its found pattern, or None if it has none.
    #[getter]
    fn order(&self) -> Vec<Option<usize>> {
        self.matching.found.clone()
    }

    /// For every true pattern the sign (1 or -1) by which its found pattern must be multiplied.
    #[getter]
    fn signs(&self) -> Vec<f64> {
        self.matching.sign.clone()
    }

    fn __repr__(&self) -> String {
        let (found, truth) = (self.found.patterns(), self.truth.patterns());
        format!("<tensornoodl.Match of {found} patterns to {truth}: error {:.1e}>", self.error())
    }

    /// The relative error of the codes: |X - X*|_F / |X*|_F.
    fn error_codes(&self, found: &Codes, truth: &Codes) -> PyResult<f64> {
        self.check_codes(found, truth)?;
        Ok(self.matching.error_x(&found.codes, &truth.codes))
    }

    /// Whether the found codes have the support and the signs of the true ones.
    fn same_support(&self, found: &Codes, truth: &Codes) -> PyResult<bool> {
        self.check_codes(found, truth)?;
        Ok(self.matching.same_support(&found.codes, &truth.codes))
    }
}

impl Match {
    /// Checks that the codes belong to the dictionaries, and to the same fibers.
    fn check_codes(&self, found: &Codes, truth: &Codes) -> PyResult<()> {
        for (codes, dictionary) in [(found, &self.found), (truth, &self.truth)] {
            let (codes, dictionary) = (codes.codes.matrix().rows(), dictionary.patterns());
            if codes != dictionary {
                return Err(py_error(tensornoodl::Error::Patterns { codes, dictionary }));
            }
        }
        if found.codes.places() != truth.codes.places() {
            return Err(PyValueError::new_err("the codes are not of the same fibers"));
        }
        Ok(())
    }
}
