//! One tensor Z(t), stored as its non-zero mode-1 fibers.
//!
//! ```text
//! Z (n x J x K)    sparse; the fiber at (j, k) is the vector of its n features there
//! Y (n x p)        the p non-zero fibers, one column each (mode-1-T, eq:dl)
//! ```

use std::borrow::Cow;
use std::sync::OnceLock;

use crate::data::sparse::Sparse;
use crate::error::Error;
use crate::shape::{Place, Shape};

/// The largest magnitude of a value: squares and sums of squares stay finite.
const LARGEST: f64 = 1e100;

impl Shape {
    /// Checks that every axis has 1 to 2^32 - 1 entries.
    pub(crate) fn check(self) -> Result<(), Error> {
        let ok = |length: usize| (1..=u32::MAX as usize).contains(&length);
        if ok(self.features) && ok(self.rows) && ok(self.cols) { Ok(()) } else { Err(Error::Shape(self)) }
    }
}

/// A sparse n x J x K tensor: its non-zero fibers, which are the columns of Y (n x p) (eq:dl), and their places.
///
/// All other fibers are zero and take no memory. A fiber is stored with all of its n values, or with its non-zero values
/// only ([`Tensor::from_sparse`]).
#[derive(Debug, Clone)]
pub struct Tensor<'a> {
    shape: Shape,
    fibers: Fibers<'a>,
    places: Cow<'a, [Place]>,
}

/// How the fibers of a tensor are stored.
#[derive(Debug, Clone)]
enum Fibers<'a> {
    /// All values of Y (n x p), column by column.
    Dense(Cow<'a, [f64]>),
    /// The non-zero values of Y, and all values once somebody has asked for them.
    Sparse(Cow<'a, Sparse>, OnceLock<Vec<f64>>),
}

/// Tensors are equal if they have the same fibers at the same places, however the fibers are stored.
impl PartialEq for Tensor<'_> {
    fn eq(&self, other: &Tensor<'_>) -> bool {
        let entries = |tensor: &Tensor<'_>| -> Vec<Vec<(u32, f64)>> {
            (0..tensor.fibers()).map(|fiber| tensor.entries(fiber).collect()).collect()
        };
        self.shape == other.shape && self.places == other.places && entries(self) == entries(other)
    }
}

impl<'a> Tensor<'a> {
    /// Makes a tensor from entries (feature, row, col, value), in any order.
    ///
    /// Entries at the same position are added. Fibers whose values are all zero are left out.
    ///
    /// # Errors
    /// [`Error::Shape`] if an axis is empty or too long, [`Error::OutOfBounds`] if an entry is outside the shape,
    /// [`Error::NotFinite`] if a value or a sum of values is not finite or larger than 1e100.
    pub fn from_triplets(
        shape: Shape,
        entries: &[(usize, usize, usize, f64)],
    ) -> Result<Tensor<'static>, Error> {
        shape.check()?;
        let mut places = Vec::with_capacity(entries.len());
        for (entry, &(feature, row, col, value)) in entries.iter().enumerate() {
            if feature >= shape.features || row >= shape.rows || col >= shape.cols {
                return Err(Error::OutOfBounds { entry, feature, row, col, shape });
            }
            let place = Place { row: row as u32, col: col as u32 };
            if is_unusable(value) {
                return Err(Error::NotFinite { feature, place, value });
            }
            places.push(place);
        }
        places.sort_unstable_by_key(|place| place.order());
        places.dedup();
        let n = shape.features;
        let mut values = vec![0.0; n * places.len()];
        for &(feature, row, col, value) in entries {
            let key = (col as u32, row as u32);
            if let Ok(fiber) = places.binary_search_by_key(&key, |place| place.order()) {
                values[fiber * n + feature] += value;
            }
        }
        // Entries may cancel each other, or overflow when added.
        let mut kept = 0;
        for fiber in 0..places.len() {
            let column = &values[fiber * n..(fiber + 1) * n];
            check_finite(column, places[fiber])?;
            if column.iter().any(|&value| value != 0.0) {
                values.copy_within(fiber * n..(fiber + 1) * n, kept * n);
                places[kept] = places[fiber];
                kept += 1;
            }
        }
        values.truncate(kept * n);
        places.truncate(kept);
        Ok(Tensor::dense(shape, values.into(), places.into()))
    }

    /// Makes a tensor from its fibers: column f of `values` (n x p, column by column) is the fiber at `places[f]`.
    ///
    /// Borrowed input is not copied.
    ///
    /// # Errors
    /// [`Error::Shape`] if an axis is empty or too long, [`Error::Length`] if there are not n values for each place,
    /// [`Error::PlaceOutOfBounds`] or [`Error::DuplicatePlace`] if a place is outside the shape or occurs twice,
    /// [`Error::NotFinite`] if a value is not finite or larger than 1e100.
    pub fn from_fibers(
        shape: Shape,
        values: impl Into<Cow<'a, [f64]>>,
        places: impl Into<Cow<'a, [Place]>>,
    ) -> Result<Tensor<'a>, Error> {
        shape.check()?;
        let (values, places) = (values.into(), places.into());
        let expected = shape.features.saturating_mul(places.len());
        if values.len() != expected {
            return Err(Error::Length { what: "fibers", got: values.len(), expected });
        }
        check_places(&places, shape)?;
        for (column, &place) in values.chunks_exact(shape.features).zip(places.iter()) {
            check_finite(column, place)?;
        }
        Ok(Tensor::dense(shape, values, places))
    }

    /// Makes a tensor from the non-zero values of its fibers: column f of `fibers` (n x p) is the fiber at `places[f]`.
    ///
    /// Tables of counts have long fibers with few events, and a learner for counts reads nothing but these values. All
    /// values are made on demand, when [`Tensor::values`] or [`Tensor::fiber`] is called.
    ///
    /// # Errors
    /// [`Error::Shape`] if an axis is empty or too long, [`Error::Length`] if there is not one fiber of n features for
    /// each place, [`Error::PlaceOutOfBounds`] or [`Error::DuplicatePlace`] if a place is outside the shape or occurs
    /// twice, [`Error::NotFinite`] if a value is not finite or larger than 1e100.
    pub fn from_sparse(
        shape: Shape,
        fibers: Sparse,
        places: impl Into<Cow<'a, [Place]>>,
    ) -> Result<Tensor<'a>, Error> {
        shape.check()?;
        let places = places.into();
        if fibers.cols() != places.len() || fibers.rows() != shape.features {
            let (got, expected) = (fibers.cols() * fibers.rows(), places.len() * shape.features);
            return Err(Error::Length { what: "fibers", got, expected });
        }
        check_places(&places, shape)?;
        for (column, &place) in fibers.columns().zip(places.iter()) {
            if let Some(&(feature, value)) = column.iter().find(|entry| is_unusable(entry.1)) {
                return Err(Error::NotFinite { feature: feature as usize, place, value });
            }
        }
        Ok(Tensor { shape, fibers: Fibers::Sparse(Cow::Owned(fibers), OnceLock::new()), places })
    }

    /// Makes a tensor from sparse fibers that this crate computed, without the checks of [`Tensor::from_sparse`].
    pub(crate) fn trusted_sparse(shape: Shape, fibers: Sparse, places: Vec<Place>) -> Tensor<'static> {
        Tensor { shape, fibers: Fibers::Sparse(Cow::Owned(fibers), OnceLock::new()), places: places.into() }
    }

    /// Makes a tensor of fibers that are stored with all values.
    fn dense(shape: Shape, values: Cow<'a, [f64]>, places: Cow<'a, [Place]>) -> Tensor<'a> {
        Tensor { shape, fibers: Fibers::Dense(values), places }
    }

    /// Returns a tensor with the fibers of this one at other places, in a shape with other rows and cols.
    ///
    /// The fibers are not copied.
    ///
    /// # Errors
    /// [`Error::Shape`] if an axis is empty or too long, [`Error::Length`] if there is not one place for each fiber,
    /// [`Error::PlaceOutOfBounds`] or [`Error::DuplicatePlace`] if a place is outside the shape or occurs twice.
    pub fn moved(
        &self,
        rows: usize,
        cols: usize,
        places: impl Into<Cow<'a, [Place]>>,
    ) -> Result<Tensor<'_>, Error> {
        let (shape, places) = (Shape { rows, cols, ..self.shape }, places.into());
        shape.check()?;
        if places.len() != self.places.len() {
            return Err(Error::Length { what: "places", got: places.len(), expected: self.places.len() });
        }
        check_places(&places, shape)?;
        Ok(Tensor { shape, fibers: self.borrowed().fibers, places })
    }

    /// Returns a tensor that borrows the fibers and places of this one.
    pub(crate) fn borrowed(&self) -> Tensor<'_> {
        let fibers = match &self.fibers {
            Fibers::Dense(values) => Fibers::Dense((&**values).into()),
            Fibers::Sparse(matrix, _) => Fibers::Sparse(Cow::Borrowed(matrix), OnceLock::new()),
        };
        Tensor { shape: self.shape, fibers, places: (&*self.places).into() }
    }

    /// Returns this tensor without borrows. Only what is borrowed is copied.
    pub fn into_owned(self) -> Tensor<'static> {
        let fibers = match self.fibers {
            Fibers::Dense(values) => Fibers::Dense(Cow::Owned(values.into_owned())),
            Fibers::Sparse(matrix, values) => Fibers::Sparse(Cow::Owned(matrix.into_owned()), values),
        };
        Tensor { shape: self.shape, fibers, places: Cow::Owned(self.places.into_owned()) }
    }

    /// Makes a tensor from fibers that this crate computed, without the checks of [`Tensor::from_fibers`].
    pub(crate) fn trusted(shape: Shape, values: Vec<f64>, places: Vec<Place>) -> Tensor<'static> {
        Tensor::dense(shape, values.into(), places.into())
    }

    /// Returns a tensor with those fibers of this one whose place is to be kept, in their order.
    pub fn filter(&self, keep: impl Fn(Place) -> bool) -> Tensor<'static> {
        self.gather(&(0..self.fibers()).filter(|&fiber| keep(self.places[fiber])).collect::<Vec<_>>())
    }

    /// Returns a tensor with these fibers of this one.
    pub(crate) fn gather(&self, fibers: &[usize]) -> Tensor<'static> {
        let n = self.shape.features;
        let kept = match &self.fibers {
            Fibers::Dense(values) => {
                Fibers::Dense(fibers.iter().flat_map(|fiber| &values[fiber * n..][..n]).copied().collect())
            }
            Fibers::Sparse(matrix, _) => Fibers::Sparse(Cow::Owned(matrix.gather(fibers)), OnceLock::new()),
        };
        let places = fibers.iter().map(|&fiber| self.places[fiber]).collect();
        Tensor { shape: self.shape, fibers: kept, places }
    }

    /// Returns Y (n x p), column by column, so that its memory can be used again.
    pub fn into_values(self) -> Vec<f64> {
        match self.fibers {
            Fibers::Dense(values) => values.into_owned(),
            Fibers::Sparse(matrix, values) => values.into_inner().unwrap_or_else(|| all_values(&matrix)),
        }
    }

    /// The shape n x J x K.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// p, the number of stored fibers.
    pub fn fibers(&self) -> usize {
        self.places.len()
    }

    /// One fiber: a column of Y, of length n.
    ///
    /// # Panics
    /// If there is no fiber with this number.
    pub fn fiber(&self, fiber: usize) -> &[f64] {
        let n = self.shape.features;
        &self.values()[fiber * n..(fiber + 1) * n]
    }

    /// All values of Y (n x p), column by column. If only the non-zero values are stored, the first call makes all
    /// values and keeps them.
    pub fn values(&self) -> &[f64] {
        match &self.fibers {
            Fibers::Dense(values) => values,
            Fibers::Sparse(matrix, values) => values.get_or_init(|| all_values(matrix)),
        }
    }

    /// The fibers (n x p), if only their non-zero values are stored.
    pub fn sparse(&self) -> Option<&Sparse> {
        match &self.fibers {
            Fibers::Dense(_) => None,
            Fibers::Sparse(matrix, _) => Some(matrix),
        }
    }

    /// The non-zero values of one fiber with their features, by increasing feature.
    ///
    /// # Panics
    /// If there is no fiber with this number.
    pub fn entries(&self, fiber: usize) -> impl Iterator<Item = (u32, f64)> + '_ {
        let n = self.shape.features;
        let (dense, sparse) = match &self.fibers {
            Fibers::Dense(values) => (&values[fiber * n..(fiber + 1) * n], [].as_slice()),
            Fibers::Sparse(matrix, _) => ([].as_slice(), matrix.column(fiber)),
        };
        let entries = (0..).zip(dense.iter().copied()).chain(sparse.iter().copied());
        entries.filter(|entry| entry.1 != 0.0)
    }

    /// The place of every stored fiber.
    pub fn places(&self) -> &[Place] {
        &self.places
    }
}

/// All values of a sparse matrix, column by column.
fn all_values(matrix: &Sparse) -> Vec<f64> {
    let mut values = vec![0.0; matrix.rows() * matrix.cols()];
    for (column, entries) in values.chunks_exact_mut(matrix.rows().max(1)).zip(matrix.columns()) {
        entries.iter().for_each(|&(row, value)| column[row as usize] = value);
    }
    values
}

/// Checks that all places are inside the shape, and no two are equal.
fn check_places(places: &[Place], shape: Shape) -> Result<(), Error> {
    let outside = |place: &&Place| place.row as usize >= shape.rows || place.col as usize >= shape.cols;
    match places.iter().find(outside) {
        Some(&place) => Err(Error::PlaceOutOfBounds { place, shape }),
        None => check_distinct(places),
    }
}

/// Checks that no two places are equal.
pub(crate) fn check_distinct(places: &[Place]) -> Result<(), Error> {
    if !places.is_sorted_by(|a, b| a.order() < b.order()) {
        let mut sorted = places.to_vec();
        sorted.sort_unstable_by_key(|place| place.order());
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::DuplicatePlace(pair[0]));
        }
    }
    Ok(())
}

/// Whether a value is NaN, infinite, or too large to be squared.
fn is_unusable(value: f64) -> bool {
    value.is_nan() || value.abs() > LARGEST
}

/// Checks that all values of a fiber can be used.
fn check_finite(fiber: &[f64], place: Place) -> Result<(), Error> {
    match fiber.iter().position(|&value| is_unusable(value)) {
        Some(feature) => Err(Error::NotFinite { feature, place, value: fiber[feature] }),
        None => Ok(()),
    }
}
