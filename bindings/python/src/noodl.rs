//! The learner alone, for samples x features: fibers without rows and cols.

use std::sync::RwLock;

use numpy::{PyArray2, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::sync::RwLockExt;
use pyo3::types::{PyBytes, PyDict};
use tensornoodl::{Place, Shape, Stop, Tensor, init};

use crate::model::{Compressed, Options, compressed, dictionary, patterns};
use crate::run::run;
use crate::{mistake, wrong};

/// Learns the patterns of samples.
#[pyclass(frozen, module = "tensornoodl._core")]
pub(crate) struct Learner {
    learner: RwLock<tensornoodl::Learner>,
    /// What it is stopped by.
    stop: Stop,
}

impl Learner {
    fn new(mut learner: tensornoodl::Learner) -> Learner {
        let stop = Stop::default();
        learner.stop_by(stop.clone());
        Learner { learner: RwLock::new(learner), stop }
    }

    fn read<T>(&self, py: Python<'_>, look: impl FnOnce(&tensornoodl::Learner) -> T) -> PyResult<T> {
        Ok(look(&*self.learner.read_py_attached(py).map_err(mistake)?))
    }
}

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
                run(py, options.jobs, &stop, || init::learner(&first, params, grow, options.stream))?
            }
        };
        learner.map(Learner::new).map_err(wrong)
    }

    /// One step; what happened.
    fn learn<'py>(
        &self,
        py: Python<'py>,
        samples: PyReadonlyArray2<'_, f64>,
        jobs: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        let tensor = tensor(&samples)?;
        let work = || {
            let mut learner = self.learner.write().map_err(|error| error.to_string())?;
            Ok(learner.learn(&tensor))
        };
        let step =
            run(py, jobs, &self.stop, work)?.map_err(|error: String| mistake(error))?.map_err(wrong)?;
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
        let tensor = tensor(&samples)?;
        let work = || {
            let learner = self.learner.read().map_err(|error| error.to_string())?;
            Ok(learner.encode(&tensor))
        };
        let codes = run(py, jobs, &self.stop, work)?.map_err(|error: String| mistake(error))?;
        Ok(compressed(py, codes.map_err(wrong)?.matrix()))
    }

    /// m x n.
    fn patterns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        self.read(py, |learner| patterns(py, learner.dictionary()))?
    }

    /// For pickle and copy.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let bytes = self.read(py, |learner| postcard::to_stdvec(learner))?.map_err(mistake)?;
        let from = py.get_type::<Learner>().getattr("from_bytes")?;
        Ok((from, (PyBytes::new(py, &bytes),)))
    }

    /// The way back; what does not fit together is refused.
    #[staticmethod]
    fn from_bytes(bytes: &[u8]) -> PyResult<Learner> {
        let state = |_| wrong(tensornoodl::Error::State);
        let learner: tensornoodl::Learner = postcard::from_bytes(bytes).map_err(state)?;
        learner.check().map_err(wrong)?;
        Ok(Learner::new(learner))
    }
}
