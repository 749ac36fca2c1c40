//! One tensor: its nonzero fibers, their places, and the labels of its axes.

use numpy::ndarray::Axis;
use numpy::{
    IntoPyArray, PyArray2, PyArray3, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArray3,
    PyUntypedArrayMethods,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tensornoodl::{Place, Shape};

use crate::arrays::{as_type, contiguous, coo, gather, nonzero_places, places_array};
use crate::errors::py_error;
use crate::labels::Labels;

/// A sparse tensor of n features x J rows x K cols: its nonzero fibers and their places.
#[pyclass(frozen, module = "tensornoodl")]
pub(crate) struct Tensor {
    fibers: Fibers,
    pub(crate) shape: Shape,
    pub(crate) labels: Labels,
    /// The axes, if they have names.
    pub(crate) dims: Option<[tensornoodl_data::Axis; 3]>,
    /// Label of the tensor in a stream.
    pub(crate) step: Option<String>,
    /// What the cells of a table hold; None for an array.
    pub(crate) cells: Option<Cells>,
}

/// The fibers of a tensor and their places.
enum Fibers {
    /// An array p x n with one fiber in each row.
    Array { values: Py<PyArray2<f64>>, places: Vec<Place> },
    /// The cells of a table, which are few.
    Table(tensornoodl::Tensor<'static>),
}

/// What the cells of a table hold.
#[derive(Clone)]
pub(crate) struct Cells {
    pub(crate) value: tensornoodl_data::Value,
    pub(crate) average_over: Option<String>,
}

impl Tensor {
    /// Converts a tensor of the core. Its values are moved to NumPy, not copied.
    pub(crate) fn new(
        py: Python<'_>,
        tensor: tensornoodl::Tensor<'_>,
        labels: Labels,
        dims: Option<[tensornoodl_data::Axis; 3]>,
        step: Option<String>,
    ) -> PyResult<Tensor> {
        let (shape, places) = (tensor.shape(), tensor.places().to_vec());
        let values = tensor.into_values().into_pyarray(py);
        let values = values.reshape([places.len(), shape.features])?.unbind();
        let fibers = Fibers::Array { values, places };
        Ok(Tensor { fibers, shape, labels, dims, step, cells: None })
    }

    /// Returns a tensor of a table.
    pub(crate) fn of_table(
        tensor: tensornoodl::Tensor<'static>,
        labels: Labels,
        dims: [tensornoodl_data::Axis; 3],
        step: Option<String>,
        cells: Cells,
    ) -> Tensor {
        let shape = tensor.shape();
        Tensor { fibers: Fibers::Table(tensor), shape, labels, dims: Some(dims), step, cells: Some(cells) }
    }

    /// The place of every fiber.
    fn all_places(&self) -> &[Place] {
        match &self.fibers {
            Fibers::Array { places, .. } => places,
            Fibers::Table(tensor) => tensor.places(),
        }
    }

    /// The fibers (p x n): the array, or a new one for a table.
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        match &self.fibers {
            Fibers::Array { values, .. } => Ok(values.bind(py).clone()),
            Fibers::Table(tensor) => {
                let values = tensor.clone().into_values().into_pyarray(py);
                values.reshape([tensor.fibers(), self.shape.features])
            }
        }
    }

    /// Calls `each` with the feature, the place and the value of every entry that is not zero.
    fn each_entry(&self, py: Python<'_>, mut each: impl FnMut(usize, Place, f64)) -> PyResult<()> {
        match &self.fibers {
            Fibers::Array { values, places } => {
                let values = values.bind(py).try_readonly()?;
                for (fiber, place) in values.as_array().outer_iter().zip(places) {
                    let entries = fiber.iter().enumerate().filter(|(_, value)| **value != 0.0);
                    entries.for_each(|(feature, value)| each(feature, *place, *value));
                }
            }
            Fibers::Table(tensor) => {
                for (fiber, place) in tensor.places().iter().enumerate() {
                    tensor.entries(fiber).for_each(|(feature, value)| each(feature as usize, *place, value));
                }
            }
        }
        Ok(())
    }

    /// Calls `work` with the tensor as the core has it, which borrows the fibers.
    pub(crate) fn with<T>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(tensornoodl::Tensor<'_>) -> PyResult<T>,
    ) -> PyResult<T> {
        match &self.fibers {
            Fibers::Array { values, places } => {
                let values = values.bind(py).try_readonly()?;
                let tensor =
                    tensornoodl::Tensor::from_fibers(self.shape, values.as_slice()?, places.as_slice());
                work(tensor.map_err(py_error)?)
            }
            Fibers::Table(tensor) => {
                let Shape { rows, cols, .. } = self.shape;
                work(tensor.moved(rows, cols, tensor.places()).map_err(py_error)?)
            }
        }
    }
}

#[pymethods]
impl Tensor {
    /// A tensor of fibers (p x n) at places (p x 2: row and col). Fibers in C order, float64, are not copied.
    /// `cells` is what the cells of a table hold, such as `count`, and the column that they are averaged over.
    #[staticmethod]
    #[pyo3(signature = (fibers, places, rows=None, cols=None, labels=(None, None, None), dims=None, step=None, cells=None))]
    #[expect(clippy::too_many_arguments, reason = "they are named in Python")]
    fn from_fibers(
        fibers: Bound<'_, PyAny>,
        places: PyReadonlyArray2<'_, i64>,
        rows: Option<usize>,
        cols: Option<usize>,
        labels: GivenLabels,
        dims: Option<DimNames>,
        step: Option<String>,
        cells: Option<(String, Option<String>)>,
    ) -> PyResult<Tensor> {
        let cells = match cells {
            Some((value, average_over)) => {
                Some(Cells { value: value.parse().map_err(py_error)?, average_over })
            }
            None => None,
        };
        let values = contiguous(&fibers)?;
        let [count, features] = [values.shape()[0], values.shape()[1]];
        let places = places.as_array();
        if places.shape() != [count, 2] {
            let text = format!(
                "places have the shape {:?}, it must be [{count}, 2]: row and col of every fiber",
                places.shape()
            );
            return Err(PyValueError::new_err(text));
        }
        let places = places.outer_iter().map(|place| Some((index(place[0])?, index(place[1])?)));
        let places: Option<Vec<Place>> =
            places.map(|place| place.map(|(row, col)| Place { row, col })).collect();
        let places = places.ok_or_else(|| PyValueError::new_err("places must be from 0 to 4294967294"))?;
        let length = |of: fn(&Place) -> u32| places.iter().map(of).max().map_or(1, |last| last as usize + 1);
        let (rows, cols) =
            (rows.unwrap_or_else(|| length(|at| at.row)), cols.unwrap_or_else(|| length(|at| at.col)));
        let shape = Shape { features, rows, cols };
        let outside = |place: &&Place| place.row as usize >= rows || place.col as usize >= cols;
        if let Some(&place) = places.iter().find(outside) {
            return Err(py_error(tensornoodl::Error::PlaceOutOfBounds { place, shape }));
        }
        let labels = Labels::new([labels.0, labels.1, labels.2], shape)?;
        let fibers = Fibers::Array { values: values.unbind(), places };
        Ok(Tensor { fibers, shape, labels, dims: axes(dims), step, cells })
    }

    /// A tensor of an array of features x rows x cols. The array is not copied if no fiber is zero and the features
    /// are contiguous in memory (Fortran order).
    #[staticmethod]
    #[pyo3(signature = (array, labels=(None, None, None), dims=None, step=None))]
    fn from_dense(
        array: Bound<'_, PyAny>,
        labels: GivenLabels,
        dims: Option<DimNames>,
        step: Option<String>,
    ) -> PyResult<Tensor> {
        let py = array.py();
        let (shape, places, values) = if let Ok(array) = array.extract::<PyReadonlyArray3<'_, f64>>() {
            let view = array.as_array();
            let (shape, places) = nonzero_places(py, &view)?;
            if array.is_fortran_contiguous() && places.len() == shape.rows * shape.cols {
                // An array n x J x K in Fortran order has the memory of an array JK x n in C order.
                let values = array.transpose()?.reshape([places.len(), shape.features])?;
                (shape, places, values.unbind())
            } else {
                let values = py.detach(|| gather(&view, &places));
                let values = values.into_pyarray(py).reshape([places.len(), shape.features])?;
                (shape, places, values.unbind())
            }
        } else if let Ok(array) = array.extract::<PyReadonlyArray3<'_, f32>>() {
            let view = array.as_array();
            let (shape, places) = nonzero_places(py, &view)?;
            let values = py.detach(|| gather(&view, &places));
            let values = values.into_pyarray(py).reshape([places.len(), shape.features])?;
            (shape, places, values.unbind())
        } else {
            return Err(PyTypeError::new_err("an array of three dimensions, float64 or float32, is needed"));
        };
        let labels = Labels::new([labels.0, labels.1, labels.2], shape)?;
        let fibers = Fibers::Array { values, places };
        Ok(Tensor { fibers, shape, labels, dims: axes(dims), step, cells: None })
    }

    /// A tensor of entries: coordinates (3 x nnz: feature, row and col) and values. Entries with equal coordinates
    /// are added.
    #[staticmethod]
    #[pyo3(signature = (coords, values, shape, labels=(None, None, None), dims=None, step=None))]
    fn from_coords(
        py: Python<'_>,
        coords: PyReadonlyArray2<'_, i64>,
        values: PyReadonlyArray1<'_, f64>,
        shape: (usize, usize, usize),
        labels: GivenLabels,
        dims: Option<DimNames>,
        step: Option<String>,
    ) -> PyResult<Tensor> {
        let (coords, values) = (coords.as_array(), values.as_array());
        if coords.shape() != [3, values.len()] {
            let text = format!(
                "coordinates have the shape {:?}, it must be [3, {}]: feature, row and col of every value",
                coords.shape(),
                values.len()
            );
            return Err(PyValueError::new_err(text));
        }
        let shape = Shape { features: shape.0, rows: shape.1, cols: shape.2 };
        if coords.iter().any(|at| *at < 0) {
            return Err(PyValueError::new_err("coordinates must be 0 or more"));
        }
        let tensor = py.detach(|| {
            let entry = |(at, value): (numpy::ndarray::ArrayView1<'_, i64>, &f64)| {
                (at[0] as usize, at[1] as usize, at[2] as usize, *value)
            };
            let entries: Vec<_> = coords.axis_iter(Axis(1)).zip(values).map(entry).collect();
            tensornoodl::Tensor::from_triplets(shape, &entries)
        });
        let labels = Labels::new([labels.0, labels.1, labels.2], shape)?;
        Tensor::new(py, tensor.map_err(py_error)?, labels, axes(dims), step)
    }

    /// The numbers of features, rows and cols: (n, J, K).
    #[getter]
    fn shape(&self) -> (usize, usize, usize) {
        (self.shape.features, self.shape.rows, self.shape.cols)
    }

    /// The nonzero fibers (p x n), one in each row: a read-only view of the tensor's memory, or a copy for the
    /// tensor of a table, which holds only the cells that are not zero.
    #[getter]
    fn fibers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let view = self.values(py)?.call_method0("view")?;
        view.getattr("flags")?.setattr("writeable", false)?;
        Ok(view)
    }

    /// Row and col of every fiber (p x 2).
    #[getter]
    fn places<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<i64>>> {
        places_array(py, self.all_places())
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

    /// Names of the axes, or None.
    #[getter]
    fn dims(&self) -> Option<(String, String, String)> {
        self.dims.as_ref().map(|[feature, row, col]| (feature.to_string(), row.to_string(), col.to_string()))
    }

    /// Label of the tensor in a stream, or None.
    #[getter]
    fn step(&self) -> Option<String> {
        self.step.clone()
    }

    /// The tensor as a dense array (n x J x K).
    fn todense<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let dense = py.import("numpy")?.call_method1("zeros", (self.shape(),))?;
        let array = dense.cast::<PyArray3<f64>>()?.try_readwrite();
        let mut array = array?;
        let mut array = array.as_array_mut();
        self.each_entry(py, |feature, at, value| {
            array[[feature, at.row as usize, at.col as usize]] = value;
        })?;
        Ok(dense)
    }

    /// The tensor as a dense array, for ``numpy.asarray``.
    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        as_type(self.todense(py)?, dtype, copy)
    }

    /// The tensor as a ``sparse.COO``.
    fn to_sparse<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (mut coords, mut data): ([Vec<i64>; 3], Vec<f64>) = Default::default();
        self.each_entry(py, |feature, at, value| {
            let at = [feature as i64, i64::from(at.row), i64::from(at.col)];
            coords.iter_mut().zip(at).for_each(|(coords, at)| coords.push(at));
            data.push(value);
        })?;
        let count = data.len();
        let coords = coords.concat().into_pyarray(py).reshape([3, count])?;
        coo(py, coords, data.into_pyarray(py), self.shape())
    }

    /// Supports pickle and copy.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let given = |at: usize| self.labels.given[at].then(|| &self.labels.names[at]);
        let parts = (
            self.values(py)?,
            self.places(py)?,
            self.shape.rows,
            self.shape.cols,
            (given(0), given(1), given(2)),
            self.dims(),
            &self.step,
            self.cells.as_ref().map(|cells| (cells.value.to_string(), &cells.average_over)),
        );
        Ok((py.get_type::<Tensor>().getattr("from_fibers")?, parts.into_pyobject(py)?))
    }

    fn __repr__(&self) -> String {
        let (shape, fibers) = (self.shape, self.all_places().len());
        let step = self.step.as_ref().map_or(String::new(), |step| format!(", step {step:?}"));
        format!("<tensornoodl.Tensor {shape}, {fibers} non-zero fibers{step}>")
    }
}

/// Labels of the features, the rows and the cols, each of them optional.
type GivenLabels = (Option<Vec<String>>, Option<Vec<String>>, Option<Vec<String>>);

/// Names of the axes, or expressions such as `month(time)`.
type DimNames = [String; 3];

/// Parses the names of the axes. A text that is not a valid expression is the name of a column.
fn axes(dims: Option<DimNames>) -> Option<[tensornoodl_data::Axis; 3]> {
    let axis = |name: String| name.parse().unwrap_or(tensornoodl_data::Axis::Column(name));
    dims.map(|dims| dims.map(axis))
}

/// Converts an index. `u32::MAX` is not allowed, so that the length of the axis is a `u32`, too.
fn index(number: i64) -> Option<u32> {
    u32::try_from(number).ok().filter(|index| *index < u32::MAX)
}
