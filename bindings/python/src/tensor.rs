//! One tensor: its non-zero fibers in an array of NumPy, their places, and the labels of its axes.

use std::sync::Arc;

use numpy::ndarray::{ArrayView2, ArrayView3, Axis, s};
use numpy::{
    Element, IntoPyArray, PyArray1, PyArray2, PyArray3, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2,
    PyReadonlyArray3, PyUntypedArrayMethods,
};
use pyo3::exceptions::{PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use tensornoodl::{Place, Shape};

use crate::wrong;

/// Labels take memory, even if they are numbers.
const MOST_INDICES: usize = 10_000_000;

/// Labels of the features, the rows and the cols.
#[derive(Clone)]
pub(crate) struct Labels {
    pub(crate) names: Arc<[Vec<String>; 3]>,
    /// Whether they were given, or are indices.
    pub(crate) given: [bool; 3],
}

impl Labels {
    pub(crate) fn given(names: [Vec<String>; 3]) -> Labels {
        Labels { names: Arc::new(names), given: [true; 3] }
    }

    /// Indices where no labels are given.
    pub(crate) fn new(given: [Option<Vec<String>>; 3], shape: Shape) -> PyResult<Labels> {
        let lengths = [shape.features, shape.rows, shape.cols];
        let mut labels: [Vec<String>; 3] = Default::default();
        let known = [0, 1, 2].map(|at: usize| given[at].is_some());
        for (at, (given, length)) in given.into_iter().zip(lengths).enumerate() {
            let Some(given) = given else {
                if length > MOST_INDICES {
                    let text = format!(
                        "the shape is {shape}: an axis without labels may have {MOST_INDICES} entries; number those that occur"
                    );
                    return Err(PyValueError::new_err(text));
                }
                labels[at] = (0..length).map(|index| index.to_string()).collect();
                continue;
            };
            if given.len() != length {
                let axis = ["features", "rows", "cols"][at];
                let text = format!("{} labels of {axis} given, {length} needed", given.len());
                return Err(PyValueError::new_err(text));
            }
            let mut sorted: Vec<&String> = given.iter().collect();
            sorted.sort_unstable();
            if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
                let axis = ["feature", "row", "col"][at];
                return Err(PyValueError::new_err(format!("two of the {axis} labels are {:?}", pair[0])));
            }
            labels[at] = given;
        }
        Ok(Labels { names: Arc::new(labels), given: known })
    }
}

/// A sparse tensor of n features x J rows x K cols: its non-zero fibers and their places.
#[pyclass(frozen, module = "tensornoodl")]
pub(crate) struct Tensor {
    /// p x n: a row is a fiber.
    values: Py<PyArray2<f64>>,
    places: Vec<Place>,
    pub(crate) shape: Shape,
    pub(crate) labels: Labels,
    /// Names of the axes, where it has some.
    pub(crate) dims: Option<[tensornoodl_data::Axis; 3]>,
    /// Its label in a stream.
    pub(crate) step: Option<String>,
}

impl Tensor {
    /// Of a tensor that was made here.
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
        Ok(Tensor { values, places, shape, labels, dims, step })
    }

    /// Gives `work` the tensor, as it lies in memory.
    pub(crate) fn with<T>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(tensornoodl::Tensor<'_>) -> PyResult<T>,
    ) -> PyResult<T> {
        let values = self.values.bind(py).try_readonly()?;
        let tensor = tensornoodl::Tensor::from_fibers(self.shape, values.as_slice()?, self.places.as_slice());
        work(tensor.map_err(wrong)?)
    }
}

#[pymethods]
impl Tensor {
    /// Fibers that lie one after the other in memory are not copied.
    #[staticmethod]
    #[pyo3(signature = (fibers, places, rows=None, cols=None, labels=(None, None, None), dims=None, step=None))]
    fn from_fibers(
        fibers: Bound<'_, PyAny>,
        places: PyReadonlyArray2<'_, i64>,
        rows: Option<usize>,
        cols: Option<usize>,
        labels: Given,
        dims: Option<Dims>,
        step: Option<String>,
    ) -> PyResult<Tensor> {
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
        let most = |of: fn(&Place) -> u32| places.iter().map(of).max().map_or(1, |most| most as usize + 1);
        let (rows, cols) =
            (rows.unwrap_or_else(|| most(|at| at.row)), cols.unwrap_or_else(|| most(|at| at.col)));
        let shape = Shape { features, rows, cols };
        let outside = |place: &&Place| place.row as usize >= rows || place.col as usize >= cols;
        if let Some(&place) = places.iter().find(outside) {
            return Err(wrong(tensornoodl::Error::PlaceOutOfBounds { place, shape }));
        }
        let labels = Labels::new([labels.0, labels.1, labels.2], shape)?;
        Ok(Tensor { values: values.unbind(), places, shape, labels, dims: axes(dims), step })
    }

    /// An array of features x rows x cols. Where no fiber is zero and the features lie next to each other in memory (order F), it
    /// is not copied.
    #[staticmethod]
    #[pyo3(signature = (array, labels=(None, None, None), dims=None, step=None))]
    fn from_dense(
        array: Bound<'_, PyAny>,
        labels: Given,
        dims: Option<Dims>,
        step: Option<String>,
    ) -> PyResult<Tensor> {
        let py = array.py();
        let (shape, places, values) = if let Ok(array) = array.extract::<PyReadonlyArray3<'_, f64>>() {
            let view = array.as_array();
            let (shape, places) = nonzero(py, &view)?;
            if array.is_fortran_contiguous() && places.len() == shape.rows * shape.cols {
                // The memory of n x J x K is that of JK x n.
                let values = array.transpose()?.reshape([places.len(), shape.features])?;
                (shape, places, values.unbind())
            } else {
                let values = py.detach(|| gather(&view, &places));
                let values = values.into_pyarray(py).reshape([places.len(), shape.features])?;
                (shape, places, values.unbind())
            }
        } else if let Ok(array) = array.extract::<PyReadonlyArray3<'_, f32>>() {
            let view = array.as_array();
            let (shape, places) = nonzero(py, &view)?;
            let values = py.detach(|| gather(&view, &places));
            let values = values.into_pyarray(py).reshape([places.len(), shape.features])?;
            (shape, places, values.unbind())
        } else {
            return Err(PyTypeError::new_err("an array of three dimensions, float64 or float32, is needed"));
        };
        let labels = Labels::new([labels.0, labels.1, labels.2], shape)?;
        Ok(Tensor { values, places, shape, labels, dims: axes(dims), step })
    }

    /// Entries of a tensor: coordinates (3 x nnz) and values. Those at the same position are added.
    #[staticmethod]
    #[pyo3(signature = (coords, values, shape, labels=(None, None, None), dims=None, step=None))]
    fn from_coords(
        py: Python<'_>,
        coords: PyReadonlyArray2<'_, i64>,
        values: PyReadonlyArray1<'_, f64>,
        shape: (usize, usize, usize),
        labels: Given,
        dims: Option<Dims>,
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
        Tensor::new(py, tensor.map_err(wrong)?, labels, axes(dims), step)
    }

    /// (n, J, K).
    #[getter]
    fn shape(&self) -> (usize, usize, usize) {
        (self.shape.features, self.shape.rows, self.shape.cols)
    }

    /// p x n: a row is a fiber. It is the memory of the tensor, so it can only be read.
    #[getter]
    fn fibers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let view = self.values.bind(py).call_method0("view")?;
        view.getattr("flags")?.setattr("writeable", false)?;
        Ok(view)
    }

    /// p x 2: row and col of every fiber.
    #[getter]
    fn places<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<i64>>> {
        pairs(py, &self.places)
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

    /// Names of the axes, if it has some.
    #[getter]
    fn dims(&self) -> Option<(String, String, String)> {
        self.dims.as_ref().map(|[feature, row, col]| (feature.to_string(), row.to_string(), col.to_string()))
    }

    /// Its label in a stream, if it has one.
    #[getter]
    fn step(&self) -> Option<String> {
        self.step.clone()
    }

    /// The whole array, n x J x K, zeros and all.
    fn todense<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let dense = py.import("numpy")?.call_method1("zeros", (self.shape(),))?;
        let array = dense.cast::<PyArray3<f64>>()?.try_readwrite();
        let (mut array, values) = (array?, self.values.bind(py).try_readonly()?);
        let mut array = array.as_array_mut();
        for (fiber, place) in values.as_array().outer_iter().zip(&self.places) {
            array.slice_mut(s![.., place.row as usize, place.col as usize]).assign(&fiber);
        }
        Ok(dense)
    }

    /// For ``numpy.asarray``.
    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        as_type(self.todense(py)?, dtype, copy)
    }

    /// The same as an array of the package sparse.
    fn to_sparse<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let values = self.values.bind(py).try_readonly()?;
        let (mut coords, mut data): ([Vec<i64>; 3], Vec<f64>) = Default::default();
        for (fiber, place) in values.as_array().outer_iter().zip(&self.places) {
            for (feature, value) in (0..).zip(fiber).filter(|(_, value)| **value != 0.0) {
                let at = [feature, i64::from(place.row), i64::from(place.col)];
                coords.iter_mut().zip(at).for_each(|(coords, at)| coords.push(at));
                data.push(*value);
            }
        }
        let count = data.len();
        let coords = coords.concat().into_pyarray(py).reshape([3, count])?;
        coo(py, coords, data.into_pyarray(py), self.shape())
    }

    /// For pickle and copy.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let given = |at: usize| self.labels.given[at].then(|| &self.labels.names[at]);
        let parts = (
            self.values.bind(py),
            self.places(py)?,
            self.shape.rows,
            self.shape.cols,
            (given(0), given(1), given(2)),
            self.dims(),
            &self.step,
        );
        Ok((py.get_type::<Tensor>().getattr("from_fibers")?, parts.into_pyobject(py)?))
    }

    fn __repr__(&self) -> String {
        let (shape, fibers) = (self.shape, self.places.len());
        let step = self.step.as_ref().map_or(String::new(), |step| format!(", step {step:?}"));
        format!("<tensornoodl.Tensor {shape}, {fibers} non-zero fibers{step}>")
    }
}

/// The array that NumPy asks for; it is always a new one.
pub(crate) fn as_type<'py>(
    dense: Bound<'py, PyAny>,
    dtype: Option<Bound<'py, PyAny>>,
    copy: Option<bool>,
) -> PyResult<Bound<'py, PyAny>> {
    if copy == Some(false) {
        return Err(PyValueError::new_err("a dense array of it is always a copy"));
    }
    match dtype {
        Some(dtype) => dense.call_method1("astype", (dtype,)),
        None => Ok(dense),
    }
}

/// An array of the package sparse.
pub(crate) fn coo<'py>(
    py: Python<'py>,
    coords: Bound<'py, PyArray2<i64>>,
    values: Bound<'py, PyArray1<f64>>,
    shape: (usize, usize, usize),
) -> PyResult<Bound<'py, PyAny>> {
    let named = PyDict::new(py);
    named.set_item("shape", shape)?;
    py.import("sparse")?.getattr("COO")?.call((coords, values), Some(&named))
}

/// Labels of features, rows and cols, where they are given.
type Given = (Option<Vec<String>>, Option<Vec<String>>, Option<Vec<String>>);

/// Names of the axes, or what they are made of.
type Dims = [String; 3];

/// A name that looks like a function, but is none, is a name.
fn axes(dims: Option<Dims>) -> Option<[tensornoodl_data::Axis; 3]> {
    let axis = |name: String| name.parse().unwrap_or(tensornoodl_data::Axis::Column(name));
    dims.map(|dims| dims.map(axis))
}

/// p x 2.
pub(crate) fn pairs<'py>(py: Python<'py>, places: &[Place]) -> PyResult<Bound<'py, PyArray2<i64>>> {
    let numbers: Vec<i64> = places.iter().flat_map(|at| [i64::from(at.row), i64::from(at.col)]).collect();
    PyArray1::from_vec(py, numbers).reshape([places.len(), 2])
}

/// The highest index is left free, so that there is a length for every tensor.
fn index(number: i64) -> Option<u32> {
    u32::try_from(number).ok().filter(|index| *index < u32::MAX)
}

/// Fibers in double precision, one after the other: the array itself, if it is that already.
pub(crate) fn contiguous<'py>(fibers: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray2<f64>>> {
    if let Ok(array) = fibers.cast::<PyArray2<f64>>()
        && array.is_c_contiguous()
    {
        // Its shape may change, that of a view of our own does not.
        return Ok(array.call_method0("view")?.cast_into()?);
    }
    let copy = |view: ArrayView2<'_, f64>| view.iter().copied().collect::<Vec<f64>>();
    let (shape, values) = if let Ok(array) = fibers.extract::<PyReadonlyArray2<'_, f64>>() {
        ([array.shape()[0], array.shape()[1]], copy(array.as_array()))
    } else if let Ok(array) = fibers.extract::<PyReadonlyArray2<'_, f32>>() {
        let values = array.as_array().iter().map(|value| f64::from(*value)).collect();
        ([array.shape()[0], array.shape()[1]], values)
    } else {
        return Err(PyTypeError::new_err("an array of two dimensions, float64 or float32, is needed"));
    };
    values.into_pyarray(fibers.py()).reshape(shape)
}

/// Where fibers are not zero, in the order of the unfolding.
fn nonzero<T: Element + Copy + Into<f64> + Sync>(
    py: Python<'_>,
    array: &ArrayView3<'_, T>,
) -> PyResult<(Shape, Vec<Place>)> {
    let (features, rows, cols) = array.dim();
    let shape = Shape { features, rows, cols };
    if array.is_empty() {
        return Err(wrong(tensornoodl::Error::Shape(shape)));
    }
    let places = py.detach(|| {
        let mut seen = Vec::new();
        seen.try_reserve_exact(rows * cols).ok()?;
        seen.resize(rows * cols, false);
        // Lanes of features lie next to each other, or planes of them do.
        if array.strides()[0] == 1 {
            for col in 0..cols {
                for row in 0..rows {
                    let fiber = array.slice(s![.., row, col]);
                    seen[col * rows + row] = fiber.iter().any(|value| (*value).into() != 0.0);
                }
            }
        } else {
            for plane in array.axis_iter(Axis(0)) {
                for ((row, col), value) in plane.indexed_iter() {
                    seen[col * rows + row] |= (*value).into() != 0.0;
                }
            }
        }
        let place = |at: usize| Place { row: (at % rows) as u32, col: (at / rows) as u32 };
        Some((0..rows * cols).filter(|at| seen[*at]).map(place).collect())
    });
    let places = places.ok_or_else(|| PyMemoryError::new_err(format!("no memory for the shape {shape}")))?;
    Ok((shape, places))
}

/// Fibers that are gathered at a time: the planes they come from are read along.
const TOGETHER: usize = 64;

/// The fibers at these places, one after the other.
fn gather<T: Copy + Into<f64>>(array: &ArrayView3<'_, T>, places: &[Place]) -> Vec<f64> {
    let features = array.dim().0;
    let mut values = vec![0.0; features * places.len()];
    for (fibers, places) in values.chunks_mut(features * TOGETHER).zip(places.chunks(TOGETHER)) {
        for feature in 0..features {
            for (fiber, place) in places.iter().enumerate() {
                fibers[fiber * features + feature] =
                    array[[feature, place.row as usize, place.col as usize]].into();
            }
        }
    }
    values
}
