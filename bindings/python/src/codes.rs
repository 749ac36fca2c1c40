//! Codes of a tensor: the output of stage I.

use numpy::{IntoPyArray, PyArray1, PyArray2, PyArray3, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tensornoodl::Sparse;
use tensornoodl_data::Axis;

use crate::arrays::{DenseFactors, as_type, coo, dense_factors, places_array, transposed_csr};
use crate::labels::Labels;
use crate::tensor::Tensor;

/// Codes of a tensor: a sparse tensor of m patterns x J rows x K cols that holds the strength of each pattern at each
/// place.
#[pyclass(frozen, module = "tensornoodl")]
pub(crate) struct Codes {
    pub(crate) codes: tensornoodl::Codes,
    pub(crate) labels: Labels,
    pub(crate) dims: Option<[Axis; 3]>,
}

impl Codes {
    /// Returns codes without labels.
    pub(crate) fn new(codes: tensornoodl::Codes, features: usize) -> PyResult<Codes> {
        let (rows, cols) = codes.rows_and_cols();
        let labels = Labels::new([None, None, None], tensornoodl::Shape { features, rows, cols })?;
        Ok(Codes { codes, labels, dims: None })
    }
}

#[pymethods]
impl Codes {
    /// Codes of a tensor of patterns x rows x cols: its nonzero entries.
    #[staticmethod]
    fn from_tensor(py: Python<'_>, tensor: &Tensor) -> PyResult<Codes> {
        tensor.with(py, |input| {
            let mut matrix = Sparse::new(input.shape().features);
            for fiber in 0..input.fibers() {
                matrix.push(&input.entries(fiber).collect::<Vec<_>>());
            }
            let codes = tensornoodl::Codes::new(matrix, &input);
            Ok(Codes { codes, labels: tensor.labels.clone(), dims: tensor.dims.clone() })
        })
    }

    /// The numbers of patterns, rows and cols: (m, J, K).
    #[getter]
    fn shape(&self) -> (usize, usize, usize) {
        let (rows, cols) = self.codes.rows_and_cols();
        (self.codes.matrix().rows(), rows, cols)
    }

    /// Pattern, row and col of every nonzero code (3 x nnz).
    #[getter]
    fn coords<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<i64>>> {
        let (matrix, places) = (self.codes.matrix(), self.codes.places());
        let columns = || matrix.columns().zip(places);
        let mut numbers: Vec<i64> = Vec::with_capacity(3 * matrix.nnz());
        numbers.extend(columns().flat_map(|(code, _)| code.iter().map(|entry| i64::from(entry.0))));
        numbers.extend(columns().flat_map(|(code, at)| code.iter().map(|_| i64::from(at.row))));
        numbers.extend(columns().flat_map(|(code, at)| code.iter().map(|_| i64::from(at.col))));
        numbers.into_pyarray(py).reshape([3, matrix.nnz()])
    }

    /// The nonzero codes, in the order of `coords`.
    #[getter]
    fn values<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        let codes = self.codes.matrix().columns().flatten().map(|entry| entry.1);
        codes.collect::<Vec<f64>>().into_pyarray(py)
    }

    /// Row and col of every fiber (p x 2), including fibers without codes.
    #[getter]
    fn places<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<i64>>> {
        places_array(py, self.codes.places())
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

    /// B (J x m), C (K x m), and for each pattern the share of its energy that they hold.
    fn factors<'py>(&self, py: Python<'py>) -> PyResult<DenseFactors<'py>> {
        let untangled = py.detach(|| self.codes.untangle());
        let (rows, cols) = self.codes.rows_and_cols();
        dense_factors(py, &untangled, [rows, cols, self.codes.matrix().rows()])
    }

    /// The codes as a dense array (m x J x K).
    fn todense<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let dense = py.import("numpy")?.call_method1("zeros", (self.shape(),))?;
        let array = dense.cast::<PyArray3<f64>>()?.try_readwrite();
        let mut array = array?;
        let mut array = array.as_array_mut();
        for (code, place) in self.codes.matrix().columns().zip(self.codes.places()) {
            for &(pattern, value) in code {
                array[[pattern as usize, place.row as usize, place.col as usize]] = value;
            }
        }
        Ok(dense)
    }

    /// The codes as a dense array, for ``numpy.asarray``.
    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        as_type(self.todense(py)?, dtype, copy)
    }

    /// The codes as a ``sparse.COO``.
    fn to_sparse<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        coo(py, self.coords(py)?, self.values(py), self.shape())
    }

    /// The codes as a ``scipy.sparse.csr_array`` of fibers x patterns.
    fn to_scipy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (starts, indices, values) = transposed_csr(py, self.codes.matrix());
        let keywords = PyDict::new(py);
        keywords.set_item("shape", (self.codes.matrix().cols(), self.codes.matrix().rows()))?;
        py.import("scipy.sparse")?.getattr("csr_array")?.call(((values, indices, starts),), Some(&keywords))
    }

    fn __repr__(&self) -> String {
        let ((patterns, rows, cols), matrix) = (self.shape(), self.codes.matrix());
        let (codes, fibers) = (matrix.nnz(), matrix.cols());
        format!("<tensornoodl.Codes {patterns} x {rows} x {cols}, {codes} codes in {fibers} fibers>")
    }
}
