//! Conversions between arrays of NumPy, SciPy and the package sparse, and the types of the core.

use numpy::ndarray::{ArrayView2, ArrayView3, Axis, s};
use numpy::{
    Element, IntoPyArray, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2, PyUntypedArrayMethods,
};
use pyo3::exceptions::{PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tensornoodl::{Dictionary, Factors, Place, Shape, Sparse};

use crate::errors::py_error;

/// A sparse matrix in SciPy's CSR format: start of each row, column indices, values.
pub(crate) type Csr<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<f64>>);

/// B (J x m), C (K x m), and for each pattern the share of its energy that the factors hold.
pub(crate) type DenseFactors<'py> =
    (Bound<'py, PyArray2<f64>>, Bound<'py, PyArray2<f64>>, Bound<'py, PyArray1<f64>>);

/// Number of fibers that [`gather`] copies together: reading a plane of the array loads values of neighbouring
/// fibers, too.
const GATHERED_TOGETHER: usize = 64;

/// Converts patterns (m x n) to a dictionary.
pub(crate) fn dictionary(patterns: &Bound<'_, PyAny>) -> PyResult<Dictionary> {
    let array = contiguous(patterns)?;
    let array = array.readonly();
    let features = array.as_array().ncols();
    Dictionary::from_columns(features, array.as_slice()?.to_vec()).map_err(py_error)
}

/// Converts a dictionary to patterns (m x n).
pub(crate) fn patterns<'py>(py: Python<'py>, dictionary: &Dictionary) -> PyResult<Bound<'py, PyArray2<f64>>> {
    PyArray1::from_slice(py, dictionary.values()).reshape([dictionary.patterns(), dictionary.features()])
}

/// Converts the transpose of a matrix to CSR: the columns of `matrix` become rows.
pub(crate) fn transposed_csr<'py>(py: Python<'py>, matrix: &Sparse) -> Csr<'py> {
    let (mut starts, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
    for column in matrix.columns() {
        indices.extend(column.iter().map(|entry| i64::from(entry.0)));
        values.extend(column.iter().map(|entry| entry.1));
        starts.push(values.len() as i64);
    }
    (starts.into_pyarray(py), indices.into_pyarray(py), values.into_pyarray(py))
}

/// Converts factors to dense arrays of these numbers of rows, cols and patterns. Patterns that were found in a later
/// step are 0.
pub(crate) fn dense_factors<'py>(
    py: Python<'py>,
    factors: &Factors,
    [rows, cols, patterns]: [usize; 3],
) -> PyResult<DenseFactors<'py>> {
    let mut shares = factors.rank_one.clone();
    shares.resize(patterns, 0.0);
    let (rows, cols) = (dense(py, &factors.rows, rows, patterns)?, dense(py, &factors.cols, cols, patterns)?);
    Ok((rows, cols, shares.into_pyarray(py)))
}

/// Converts a matrix to a dense array of rows x patterns.
fn dense<'py>(
    py: Python<'py>,
    matrix: &Sparse,
    rows: usize,
    patterns: usize,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    // NumPy allocates, because it raises MemoryError where Rust would abort.
    let array = py.import("numpy")?.call_method1("zeros", ((rows, patterns),))?;
    let array = array.cast_into::<PyArray2<f64>>()?;
    let mut values = array.try_readwrite()?;
    let mut view = values.as_array_mut();
    for (pattern, column) in matrix.columns().enumerate() {
        column.iter().for_each(|&(row, value)| view[[row as usize, pattern]] = value);
    }
    drop(values);
    Ok(array)
}

/// Returns a dense array with the dtype that NumPy's `__array__` protocol asks for. The array is always a copy.
pub(crate) fn as_type<'py>(
    dense: Bound<'py, PyAny>,
    dtype: Option<Bound<'py, PyAny>>,
    copy: Option<bool>,
) -> PyResult<Bound<'py, PyAny>> {
    if copy == Some(false) {
        let text = "copy is False, it must be True or None: a dense array is always a copy";
        return Err(PyValueError::new_err(text));
    }
    match dtype {
        Some(dtype) => dense.call_method1("astype", (dtype,)),
        None => Ok(dense),
    }
}

/// Returns a `sparse.COO`.
pub(crate) fn coo<'py>(
    py: Python<'py>,
    coords: Bound<'py, PyArray2<i64>>,
    values: Bound<'py, PyArray1<f64>>,
    shape: (usize, usize, usize),
) -> PyResult<Bound<'py, PyAny>> {
    let keywords = PyDict::new(py);
    keywords.set_item("shape", shape)?;
    py.import("sparse")?.getattr("COO")?.call((coords, values), Some(&keywords))
}

/// Converts places to an array p x 2 of rows and cols.
pub(crate) fn places_array<'py>(py: Python<'py>, places: &[Place]) -> PyResult<Bound<'py, PyArray2<i64>>> {
    let numbers: Vec<i64> = places.iter().flat_map(|at| [i64::from(at.row), i64::from(at.col)]).collect();
    PyArray1::from_vec(py, numbers).reshape([places.len(), 2])
}

/// Returns a matrix as float64 in C order: a view of the array if it has this form already, otherwise a copy.
pub(crate) fn contiguous<'py>(matrix: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray2<f64>>> {
    if let Ok(array) = matrix.cast::<PyArray2<f64>>()
        && array.is_c_contiguous()
    {
        // The user may change the shape of the array; the shape of a view does not change with it.
        return Ok(array.call_method0("view")?.cast_into()?);
    }
    let copy = |view: ArrayView2<'_, f64>| view.iter().copied().collect::<Vec<f64>>();
    let (shape, values) = if let Ok(array) = matrix.extract::<PyReadonlyArray2<'_, f64>>() {
        ([array.shape()[0], array.shape()[1]], copy(array.as_array()))
    } else if let Ok(array) = matrix.extract::<PyReadonlyArray2<'_, f32>>() {
        let values = array.as_array().iter().map(|value| f64::from(*value)).collect();
        ([array.shape()[0], array.shape()[1]], values)
    } else {
        return Err(PyTypeError::new_err("an array of two dimensions, float64 or float32, is needed"));
    };
    values.into_pyarray(matrix.py()).reshape(shape)
}

/// Returns the shape of an array of features x rows x cols, and the places of its nonzero fibers in the order of the
/// unfolding.
pub(crate) fn nonzero_places<T: Element + Copy + Into<f64> + Sync>(
    py: Python<'_>,
    array: &ArrayView3<'_, T>,
) -> PyResult<(Shape, Vec<Place>)> {
    let (features, rows, cols) = array.dim();
    let shape = Shape { features, rows, cols };
    if array.is_empty() {
        return Err(py_error(tensornoodl::Error::Shape(shape)));
    }
    let places = py.detach(|| {
        let mut nonzero = Vec::new();
        nonzero.try_reserve_exact(rows * cols).ok()?;
        nonzero.resize(rows * cols, false);
        // Read the memory in its order: fiber by fiber if the features are contiguous, otherwise plane by plane.
        if array.strides()[0] == 1 {
            for col in 0..cols {
                for row in 0..rows {
                    let fiber = array.slice(s![.., row, col]);
                    nonzero[col * rows + row] = fiber.iter().any(|value| (*value).into() != 0.0);
                }
            }
        } else {
            for plane in array.axis_iter(Axis(0)) {
                for ((row, col), value) in plane.indexed_iter() {
                    nonzero[col * rows + row] |= (*value).into() != 0.0;
                }
            }
        }
        let place = |at: usize| Place { row: (at % rows) as u32, col: (at / rows) as u32 };
        Some((0..rows * cols).filter(|at| nonzero[*at]).map(place).collect())
    });
    let places = places.ok_or_else(|| PyMemoryError::new_err(format!("no memory for the shape {shape}")))?;
    Ok((shape, places))
}

/// Copies the fibers at these places, one after the other.
pub(crate) fn gather<T: Copy + Into<f64>>(array: &ArrayView3<'_, T>, places: &[Place]) -> Vec<f64> {
    let features = array.dim().0;
    let mut values = vec![0.0; features * places.len()];
    let blocks = values.chunks_mut(features * GATHERED_TOGETHER).zip(places.chunks(GATHERED_TOGETHER));
    for (fibers, places) in blocks {
        for feature in 0..features {
            for (fiber, place) in places.iter().enumerate() {
                fibers[fiber * features + feature] =
                    array[[feature, place.row as usize, place.col as usize]].into();
            }
        }
    }
    values
}

/// Returns values with NaN for those that are not known.
pub(crate) fn known_or_nan(values: &[Option<f64>]) -> Vec<f64> {
    values.iter().map(|value| value.unwrap_or(f64::NAN)).collect()
}
