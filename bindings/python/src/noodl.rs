//! The learner for a matrix of samples x features: each sample is a fiber, and there are no rows and cols.

use std::sync::{Arc, RwLock};

use numpy::{PyArray2, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use rayon::ThreadPool;
use tensornoodl::parallel::Solo;
use tensornoodl::{Place, Shape, Stop, Tensor};

use crate::arrays::{Csr, dictionary, patterns, transposed_csr};
use crate::errors::{internal_error, py_error};
use crate::options::Options;
use crate::run::{read, run};

/// Learns the patterns of samples. The class `NOODL` wraps it.
#[pyclass(frozen, module = "tensornoodl._core")]
pub(crate) struct Learner(RwLock<tensornoodl::Learner>);

/// Returns samples as the fibers of a tensor with one col.
fn tensor<'a>(samples: &'a PyReadonlyArray2<'_, f64>) -> PyResult<Tensor<'a>> {
    let (count, features) = samples.as_array().dim();
    let places: Vec<Place> = (0..count as u32).map(|row| Place { row, col: 0 }).collect();
    let shape = Shape { features, rows: count.max(1), cols: 1 };
    Tensor::from_fibers(shape, samples.as_slice()?, places).map_err(py_error)
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
        let learner = match start {
            Some(start) => tensornoodl::Learner::new(dictionary(start)?, params),
            None => {
                let discover = options.discover_params(&stop);
                run(py, options.jobs, &stop, |pool| {
                    pool.install(|| {
                        tensornoodl::Learner::from_tensor(
                            Arc::new(Solo),
                            &first,
                            params,
                            discover,
                            options.stream,
                        )
                    })
                })?
            }
        };
        learner.map(|learner| Learner(RwLock::new(learner))).map_err(py_error)
    }

    /// Learn from samples, and return a record of the step.
    fn learn<'py>(
        &self,
        py: Python<'py>,
        samples: PyReadonlyArray2<'_, f64>,
        options: Options,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (params, stop, tensor) = (options.params()?, Stop::default(), tensor(&samples)?);
        let work = |pool: &ThreadPool| {
            let learner = &mut *self.0.write().map_err(|error| error.to_string())?;
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
        record.set_item("lost", step.lost.len())?;
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
        let work = |pool: &ThreadPool| {
            let learner = &*self.0.read().map_err(|error| error.to_string())?;
            Ok(pool.install(|| learner.encode_until(&stop, &tensor)))
        };
        let codes = run(py, jobs, &stop, work)?.map_err(|error: String| internal_error(error))?;
        Ok(transposed_csr(py, codes.map_err(py_error)?.matrix()))
    }

    /// The patterns (m x n).
    fn patterns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        read(py, &self.0, |learner| patterns(py, learner.dictionary()))
    }

    /// Supports pickle and copy.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let bytes = read(py, &self.0, |learner| postcard::to_stdvec(learner).map_err(internal_error))?;
        let from = py.get_type::<Learner>().getattr("from_bytes")?;
        Ok((from, (PyBytes::new(py, &bytes),)))
    }

    /// The learner that ``__reduce__`` serialized. Bytes that are not consistent are refused.
    #[staticmethod]
    fn from_bytes(bytes: &[u8]) -> PyResult<Learner> {
        let invalid = |_| py_error(tensornoodl::Error::State);
        let learner: tensornoodl::Learner = postcard::from_bytes(bytes).map_err(invalid)?;
        learner.check().map_err(py_error)?;
        Ok(Learner(RwLock::new(learner)))
    }
}
