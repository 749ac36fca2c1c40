//! The learner for a matrix of samples x features: each sample is a fiber, and there are no rows and cols.

use std::sync::{Arc, RwLock};

use numpy::{IntoPyArray, PyArray1, PyArray2, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use rayon::ThreadPool;
use tensornoodl::parallel::Solo;
use tensornoodl::{Codes, ModelKind, Place, Shape, Sparse, Stop, Tensor};
use tensornoodl_data::{Recipe, is_count, model_name};

use crate::arrays::{Csr, dictionary, known_or_nan, patterns, transposed_csr};
use crate::errors::{internal_error, not_a_count, py_error};
use crate::options::{Options, Pickled};
use crate::run::{read, run};

/// Learns the patterns of samples. The class `NOODL` wraps it.
#[pyclass(frozen, module = "tensornoodl._core")]
pub(crate) struct Learner {
    learner: RwLock<tensornoodl::Learner>,
    /// Why it has the counts model or the exact one, as the end of a sentence that begins with "because".
    reason: String,
}

/// Returns samples as the fibers of a tensor with one col.
fn tensor<'a>(samples: &'a PyReadonlyArray2<'_, f64>) -> PyResult<Tensor<'a>> {
    let (count, features) = samples.as_array().dim();
    let places: Vec<Place> = (0..count as u32).map(|row| Place { row, col: 0 }).collect();
    let shape = Shape { features, rows: count.max(1), cols: 1 };
    Tensor::from_fibers(shape, samples.as_slice()?, places).map_err(py_error)
}

/// Checks that all values can be numbers of events, if the model is that of counts.
fn check_counts(kind: ModelKind, tensor: &Tensor<'_>) -> PyResult<()> {
    let fibers = if kind == ModelKind::Counts { tensor.fibers() } else { 0 };
    for sample in 0..fibers {
        if let Some((feature, value)) = tensor.entries(sample).find(|entry| !is_count(entry.1)) {
            return Err(not_a_count(&format!("feature {feature} of sample {sample}"), value));
        }
    }
    Ok(())
}

/// Returns the codes of all samples. The counts model has none for a sample without events.
fn codes_of_samples(codes: &Codes, samples: usize) -> Sparse {
    let mut all = Sparse::new(codes.matrix().rows());
    let mut coded = codes.places().iter().zip(codes.matrix().columns()).peekable();
    for sample in 0..samples {
        let code = coded.next_if(|(place, _)| place.row as usize == sample);
        all.push(code.map_or(&[], |(_, code)| code));
    }
    all
}

impl Learner {
    fn kind(&self, py: Python<'_>) -> PyResult<ModelKind> {
        read(py, &self.learner, |learner| Ok(learner.kind()))
    }
}

#[pymethods]
impl Learner {
    /// A learner with the patterns of `start`, or with patterns that are found in the samples. It has not learned
    /// from them yet.
    #[staticmethod]
    #[pyo3(signature = (samples, options, start=None))]
    fn begin(
        py: Python<'_>,
        samples: PyReadonlyArray2<'_, f64>,
        options: Options,
        start: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Learner> {
        let (params, stop, first) = (options.params()?, Stop::default(), tensor(&samples)?);
        let discover = options.discover_params(None, options.seed, &stop);
        let kind_of_start = start.map(|_| (ModelKind::Exact, "dict_init has atoms of unit length".into()));
        let (kind, reason) = options.choose(kind_of_start, None, &Recipe::default())?;
        let learner = match (start, kind) {
            (Some(start), _) => tensornoodl::Learner::new(dictionary(start)?, params),
            (None, ModelKind::Counts) => {
                tensornoodl::Learner::for_counts(first.shape().features, params, discover)
            }
            (None, ModelKind::Exact) => run(py, options.jobs, &stop, |pool| {
                pool.install(|| {
                    tensornoodl::Learner::from_tensor(
                        Arc::new(Solo),
                        &first,
                        params,
                        discover,
                        options.stream,
                    )
                })
            })?,
        };
        let learner = RwLock::new(learner.map_err(py_error)?);
        Ok(Learner { learner, reason })
    }

    /// Learn from samples, and return a record of the step.
    fn learn<'py>(
        &self,
        py: Python<'py>,
        samples: PyReadonlyArray2<'_, f64>,
        options: Options,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (params, stop, tensor) = (options.params()?, Stop::default(), tensor(&samples)?);
        let kind = self.kind(py)?;
        options.check_model(kind, "the atoms so far were learned with it")?;
        check_counts(kind, &tensor)?;
        let work = |pool: &ThreadPool| {
            let learner = &mut *self.learner.write().map_err(|error| error.to_string())?;
            learner.set_stop(stop.clone());
            Ok(learner.set_params(params).and_then(|()| pool.install(|| learner.learn(&tensor))))
        };
        let learned = run(py, options.jobs, &stop, work)?.map_err(|error: String| internal_error(error))?;
        let step = learned.map_err(py_error)?;
        let record = PyDict::new(py);
        record.set_item("step", step.step)?;
        record.set_item("fibers", step.fibers)?;
        record.set_item("fit", step.fit)?;
        record.set_item("change", step.change)?;
        record.set_item("mean_code_size", step.mean_code_size)?;
        record.set_item("passes", step.passes)?;
        record.set_item("patterns", step.activity.len())?;
        record.set_item("found", step.found)?;
        record.set_item("lost", step.lost.len() - step.retired.len())?;
        record.set_item("retired", step.retired.len())?;
        record.set_item("returned", step.returned.len())?;
        Ok(record)
    }

    /// Codes of samples (samples x patterns) in CSR format: starts of rows, indices, values.
    fn encode<'py>(
        &self,
        py: Python<'py>,
        samples: PyReadonlyArray2<'_, f64>,
        jobs: usize,
    ) -> PyResult<Csr<'py>> {
        let (stop, tensor) = (Stop::default(), tensor(&samples)?);
        check_counts(self.kind(py)?, &tensor)?;
        let work = |pool: &ThreadPool| {
            let learner = &*self.learner.read().map_err(|error| error.to_string())?;
            Ok(pool.install(|| learner.encode_until(&stop, &tensor)))
        };
        let codes = run(py, jobs, &stop, work)?.map_err(|error: String| internal_error(error))?;
        let codes = codes.map_err(py_error)?;
        if codes.places().len() == tensor.fibers() {
            return Ok(transposed_csr(py, codes.matrix()));
        }
        Ok(transposed_csr(py, &codes_of_samples(&codes, tensor.fibers())))
    }

    /// The name of the model, `counts` or `exact`, and the reason for it.
    fn choice(&self, py: Python<'_>) -> PyResult<(&'static str, &str)> {
        Ok((model_name(self.kind(py)?), &self.reason))
    }

    /// For every pattern, its expected distance from the true one, relative to its length. NaN where it is not known.
    fn errors<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        read(py, &self.learner, |learner| Ok(known_or_nan(&py.detach(|| learner.errors())).into_pyarray(py)))
    }

    /// The ladder of the last decision on the number of patterns: the number of patterns of each rung, what it gains
    /// over the rung below, and the standard error of the gain.
    fn ladder(&self, py: Python<'_>) -> PyResult<Vec<(usize, f64, f64)>> {
        read(py, &self.learner, |learner| {
            Ok(learner.ladder().iter().map(|rung| (rung.patterns, rung.gain, rung.error)).collect())
        })
    }

    /// The patterns (m x n).
    fn patterns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        read(py, &self.learner, |learner| patterns(py, learner.dictionary()))
    }

    /// Supports pickle and copy.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Pickled<'py, &str>> {
        let bytes = read(py, &self.learner, |learner| postcard::to_stdvec(learner).map_err(internal_error))?;
        let from = py.get_type::<Learner>().getattr("from_bytes")?;
        Ok((from, (PyBytes::new(py, &bytes), &self.reason)))
    }

    /// The learner that ``__reduce__`` serialized. Bytes that are not consistent are refused.
    #[staticmethod]
    fn from_bytes(bytes: &[u8], reason: String) -> PyResult<Learner> {
        let invalid = |_| py_error(tensornoodl::Error::State);
        let learner: tensornoodl::Learner = postcard::from_bytes(bytes).map_err(invalid)?;
        learner.check().map_err(py_error)?;
        Ok(Learner { learner: RwLock::new(learner), reason })
    }
}
