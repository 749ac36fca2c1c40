//! Tables of events, in files or in memory, counted into tensors.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PySlice};
use tensornoodl::Stop;
use tensornoodl_data::{Counter, Query, arrow, table};

use crate::errors::py_error;
use crate::labels::Labels;
use crate::run::run;
use crate::tensor::{Cells, Tensor};

/// The events of a table, counted into a stream of tensors with common labels.
#[pyclass(frozen, module = "tensornoodl")]
pub(crate) struct Events {
    pub(crate) events: Arc<tensornoodl_data::Events>,
    pub(crate) query: Query,
    /// Name of the table in messages and in the report.
    pub(crate) table: String,
    /// Indices of those steps of the table that this part of the stream contains.
    steps: Vec<usize>,
    labels: Labels,
}

/// Names or groups of labels: a column of a second table, such as `people.csv(id,name)`, or a mapping.
#[derive(FromPyObject)]
pub(crate) enum LabelMap {
    Lookup(String),
    Map(BTreeMap<String, String>),
}

impl LabelMap {
    fn read(self) -> Result<BTreeMap<String, String>, tensornoodl_data::Error> {
        match self {
            LabelMap::Lookup(text) => text.parse::<tensornoodl_data::Lookup>()?.read(),
            LabelMap::Map(map) => Ok(map),
        }
    }
}

/// Count the events of a table into a stream of tensors.
#[pyfunction]
#[pyo3(signature = (source, *, feature, row, col, step=None, value="count", filters=Vec::new(), average_over=None, keep_rows=None,
                    max_features=None, square=false, names=None, groups=None))]
#[expect(clippy::too_many_arguments, reason = "they are named in Python")]
pub(crate) fn from_events(
    py: Python<'_>,
    source: Bound<'_, PyAny>,
    feature: &str,
    row: &str,
    col: &str,
    step: Option<&str>,
    value: &str,
    filters: Vec<String>,
    average_over: Option<String>,
    keep_rows: Option<usize>,
    max_features: Option<usize>,
    square: bool,
    names: Option<LabelMap>,
    groups: Option<LabelMap>,
) -> PyResult<Events> {
    let parse = || {
        Ok(Query {
            feature: feature.parse()?,
            row: row.parse()?,
            col: col.parse()?,
            step: step.map(str::parse).transpose()?,
            value: value.parse()?,
            average_over,
            keep_rows,
            max_features,
            filters: filters.iter().map(|filter| filter.parse()).collect::<Result<_, _>>()?,
            square,
            names: None,
            groups: None,
        })
    };
    let query = parse().map_err(|error: tensornoodl_data::Error| py_error(error))?;
    let (table, mut events) = if let Ok(path) = source.extract::<PathBuf>() {
        let events = run(py, 0, &Stop::default(), |_| table::read(&path, query.clone()))?;
        (path.display().to_string(), events.map_err(py_error)?)
    } else {
        let stop = Stop::default();
        let batches = Batches { reader: reader(&needed_columns(source, &query)?)?, stop: stop.clone() };
        let events = run(py, 0, &stop, |_| arrow::read(batches, "the table", query.clone()))?;
        ("a table".to_owned(), events.map_err(py_error)?)
    };
    let query = events.resolve(query);
    if let Some(groups) = groups {
        events.group(&groups.read().map_err(py_error)?);
    }
    if let Some(names) = names {
        events.name(&names.read().map_err(py_error)?);
    }
    let labels =
        Labels::given([&events.features, &events.rows, &events.cols].map(|labels| labels.names.clone()));
    let steps = (0..events.steps()).collect();
    Ok(Events { events: Arc::new(events), query, table, steps, labels })
}

/// Returns the table with only the columns that the query needs, because other columns may have types that Arrow does
/// not support. Tables whose columns cannot be selected are returned as they are.
fn needed_columns<'py>(source: Bound<'py, PyAny>, query: &Query) -> PyResult<Bound<'py, PyAny>> {
    let needed = Counter::new(query.clone()).columns().to_vec();
    let Ok(columns) =
        source.getattr("columns").and_then(|columns| columns.call_method0("to_list").or(Ok(columns)))
    else {
        return Ok(source);
    };
    // If a column is missing, the reader reports it, together with the columns that exist.
    match columns.extract::<Vec<String>>() {
        Ok(columns) if needed.iter().all(|name| columns.contains(name)) => source.get_item(needed),
        _ => Ok(source),
    }
}

/// Returns a reader of a table in memory, through Arrow's C stream interface.
fn reader(source: &Bound<'_, PyAny>) -> PyResult<RecordBatchStreamReader> {
    let capsule = source.call_method0("__arrow_c_stream__")?;
    let capsule = capsule.cast::<PyCapsule>()?;
    let pointer = capsule.pointer_checked(Some(c"arrow_array_stream"))?;
    // SAFETY: a capsule of this name points to an Arrow stream that lives as long as the capsule. `from_raw` moves the stream out and
    // leaves an empty one for the capsule to release.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.cast().as_ptr()) };
    RecordBatchStreamReader::try_new(stream).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Batches of a table until `stop` is set, because a stream may be endless.
struct Batches {
    reader: RecordBatchStreamReader,
    stop: Stop,
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.stop.is_set() {
            return Some(Err(ArrowError::ExternalError(tensornoodl::Error::Stopped.into())));
        }
        self.reader.next()
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        self.reader.schema()
    }
}

impl Events {
    /// Returns the tensor of a step of the table.
    fn tensor(&self, py: Python<'_>, step: usize) -> PyResult<Tensor> {
        let axes = [&self.query.feature, &self.query.row, &self.query.col].map(Clone::clone);
        let label = self.events.steps.as_ref().map(|steps| steps.names[step].clone());
        let tensor = py.detach(|| self.events.tensor(step)).map_err(py_error)?;
        let cells = Cells { value: self.query.value.clone(), average_over: self.query.average_over.clone() };
        Ok(Tensor::of_table(tensor, self.labels.clone(), axes, label, cells))
    }
}

#[pymethods]
impl Events {
    /// The numbers of features, rows and cols: (n, J, K).
    #[getter]
    fn shape(&self) -> (usize, usize, usize) {
        let shape = self.events.shape();
        (shape.features, shape.rows, shape.cols)
    }

    /// Labels of the features.
    #[getter]
    fn features(&self) -> Vec<String> {
        self.labels.names[0].clone()
    }

    /// Labels of the rows.
    #[getter]
    fn rows(&self) -> Vec<String> {
        self.labels.names[1].clone()
    }

    /// Labels of the cols.
    #[getter]
    fn cols(&self) -> Vec<String> {
        self.labels.names[2].clone()
    }

    /// Labels of the steps.
    #[getter]
    fn steps(&self) -> Vec<String> {
        match &self.events.steps {
            Some(labels) => self.steps.iter().map(|step| labels.names[*step].clone()).collect(),
            None => self.steps.iter().map(|_| "all".to_owned()).collect(),
        }
    }

    /// Whether a step axis was given.
    #[getter]
    fn is_stream(&self) -> bool {
        self.events.steps.is_some()
    }

    /// Numbers of events: all, those used, and those left out for each reason.
    #[getter]
    fn tally<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (tally, dict) = (&self.events.tally, PyDict::new(py));
        dict.set_item("events", tally.events)?;
        dict.set_item("filtered", tally.filtered)?;
        dict.set_item("missing", tally.missing)?;
        dict.set_item("outside", tally.outside)?;
        dict.set_item("dropped", tally.dropped)?;
        dict.set_item("dropped_labels", tally.dropped_labels)?;
        dict.set_item("used", tally.used())?;
        Ok(dict)
    }

    fn __iter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let builtins = slf.py().import("builtins")?;
        let numbers = builtins.call_method1("range", (slf.len()?,))?;
        builtins.call_method1("map", (slf.getattr("__getitem__")?, numbers))
    }

    fn __len__(&self) -> usize {
        self.steps.len()
    }

    /// The tensor of a step, by its index or label; for a slice, a part of the stream.
    fn __getitem__(&self, py: Python<'_>, key: Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        if let Ok(slice) = key.cast::<PySlice>() {
            let at = slice.indices(self.steps.len() as isize)?;
            let numbers = (0..at.slicelength).map(|i| (at.start + i as isize * at.step) as usize);
            let steps = numbers.map(|number| self.steps[number]).collect();
            let (events, query) = (Arc::clone(&self.events), self.query.clone());
            let part =
                Events { events, query, table: self.table.clone(), steps, labels: self.labels.clone() };
            return Ok(Py::new(py, part)?.into_any());
        }
        let missing =
            || PyIndexError::new_err(format!("step is {key}, there are {} steps", self.steps.len()));
        let step = match key.extract::<isize>() {
            Ok(number) => {
                let number = if number < 0 { number + self.steps.len() as isize } else { number };
                *usize::try_from(number).ok().and_then(|number| self.steps.get(number)).ok_or_else(missing)?
            }
            Err(_) => {
                let text = "a step must be a whole number, a label or a slice";
                let label: String = key.extract().map_err(|_| PyTypeError::new_err(text))?;
                let at = self.steps().iter().position(|known| *known == label);
                self.steps
                    [at.ok_or_else(|| PyIndexError::new_err(format!("the stream has no step {label:?}")))?]
            }
        };
        Ok(Py::new(py, self.tensor(py, step)?)?.into_any())
    }

    fn __repr__(&self) -> String {
        let (shape, table) = (self.events.shape(), &self.table);
        let steps = match (&self.events.steps, self.steps.len()) {
            (None, _) => String::new(),
            (_, 1) => ", 1 step".into(),
            (_, steps) => format!(", {steps} steps"),
        };
        format!("<tensornoodl.Events of {table}: {shape}{steps}>")
    }
}
