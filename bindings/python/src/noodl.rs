//! The learner alone, for samples x features: fibers without rows and cols.

use std::sync::{Arc, RwLock};

use numpy::{PyArray2, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use rayon::ThreadPool;
use tensornoodl::parallel::Solo;
use tensornoodl::{Place, Shape, Stop, Tensor};

use crate::model::{Compressed, Options, compressed, dictionary, patterns};
use crate::run::{read, run};
use crate::{mistake, wrong};

/// Learns the patterns of samples.
#[pyclass(frozen, module = "tensornoodl._core")]
pub(crate) struct Learner(RwLock<tensornoodl::Learner>);

/// Samples as fibers, one below the other.
fn tensor<'a>(samples: &'a PyReadonlyArray2<'_, f64>) -> PyResult<Tensor<'a>> {
    let (count, features) = samples.as_array().dim();
    let places: Vec<Place> = (0..count as u32).map(|row| Place { row, col: 0 }).collect();
    let shape = Shape { features, rows: count.max(1), cols: 1 };
    Tensor::from_fibers(shape, samples.as_slice()?, places).map_err(wrong)
}

#[pymethods]
impl Learner {
    /// The learner that the first samples suggest, before it has learned from them.
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
                let grow = options.grow(&stop);
                run(py, options.jobs, &stop, |pool| {
                    pool.install(|| {
                        tensornoodl::Learner::from_tensor(
                            Arc::new(Solo),
                            &first,
                            params,
                            grow,
                            options.stream,
                        )
                    })
                })?
            }
        };
        learner.map(|learner| Learner(RwLock::new(learner))).map_err(wrong)
    }

    /// One step; what happened.
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
        let learned = run(py, options.jobs, &stop, work)?.map_err(|error: String| mistake(error))?;
        let step = learned.map_err(wrong)?;
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

    /// Codes, samples x patterns.
    fn encode<'py>(
        &self,
        py: Python<'py>,
        samples: PyReadonlyArray2<'_, f64>,
        jobs: usize,
    ) -> PyResult<Compressed<'py>> {
        let (stop, tensor) = (Stop::default(), tensor(&samples)?);
        let work = |pool: &ThreadPool| {
            let learner = &*self.0.read().map_err(|error| error.to_string())?;
            Ok(pool.install(|| learner.encode_until(&stop, &tensor)))
        };
        let codes = run(py, jobs, &stop, work)?.map_err(|error: String| mistake(error))?;
        Ok(compressed(py, codes.map_err(wrong)?.matrix()))
    }

    /// m x n.
    fn patterns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        read(py, &self.0, |learner| patterns(py, learner.dictionary()))
    }

    /// For pickle and copy.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let bytes = read(py, &self.0, |learner| postcard::to_stdvec(learner).map_err(mistake))?;
        let from = py.get_type::<Learner>().getattr("from_bytes")?;
        Ok((from, (PyBytes::new(py, &bytes),)))
    }

    /// The way back; what does not fit together is refused.
    #[staticmethod]
    fn from_bytes(bytes: &[u8]) -> PyResult<Learner> {
        let state = |_| wrong(tensornoodl::Error::State);
        let learner: tensornoodl::Learner = postcard::from_bytes(bytes).map_err(state)?;
        learner.check().map_err(wrong)?;
        Ok(Learner(RwLock::new(learner)))
    }
}
