//! The codes X of one tensor, and statistics of how they were found.
//!
//! ```text
//! Y = A X           Y (n x p): the fibers of the tensor; A (n x m): the dictionary; X (m x p): the codes
//! S (m x JK)        X with its columns at the places of their fibers
//! ```

use crate::data::sparse::Sparse;
use crate::data::tensor::Tensor;
use crate::params::ModelKind;
use crate::shape::{Place, Shape};

/// The codes X (m x p) of one tensor, and the places of its fibers.
///
/// Codes and places together represent the paper's S (m x JK), which is never formed.
#[derive(Debug, Clone, PartialEq)]
pub struct Codes {
    kind: ModelKind,
    matrix: Sparse,
    places: Vec<Place>,
    rows: usize,
    cols: usize,
}

impl Codes {
    /// Combines codes (m x p) of the exact model with the places of the fibers of `tensor`.
    ///
    /// # Panics
    /// If the number of columns is not the number of fibers.
    pub fn new(matrix: Sparse, tensor: &Tensor<'_>) -> Codes {
        assert_eq!(matrix.cols(), tensor.fibers(), "one column of codes per fiber");
        let shape = tensor.shape();
        Codes::at(ModelKind::Exact, matrix, tensor.places().to_vec(), shape)
    }

    /// Combines codes (m x p) of a model with places, one for each column, in a tensor of this shape.
    pub(crate) fn at(kind: ModelKind, matrix: Sparse, places: Vec<Place>, shape: Shape) -> Codes {
        Codes { kind, matrix, places, rows: shape.rows, cols: shape.cols }
    }

    /// Removes the patterns `lost`, given by increasing number, and renumbers the others; the dictionary has `patterns`
    /// patterns afterwards.
    pub(crate) fn renumber(&mut self, lost: &[usize], patterns: usize) {
        self.matrix.renumber(lost, patterns);
    }

    /// The model that the codes are of.
    pub fn kind(&self) -> ModelKind {
        self.kind
    }

    /// X (m x p): row i belongs to pattern i, column f to fiber f.
    pub fn matrix(&self) -> &Sparse {
        &self.matrix
    }

    /// The place of the fiber of every column of X.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// J and K, the lengths of a row factor and of a col factor.
    pub fn rows_and_cols(&self) -> (usize, usize) {
        (self.rows, self.cols)
    }
}

/// Number of fibers that each solver of stage I has encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SolverCounts {
    /// Fibers whose code was solved for directly and proved to be the limit of iterative hard thresholding.
    pub direct: usize,
    /// Fibers, counted in `direct` too, that needed no product with the whole dictionary: their patterns were
    /// predicted from other fibers of the same row and of the same col.
    pub predicted: usize,
    /// Fibers encoded by iterative hard thresholding that converged, because [`Solver::Iht`](crate::Solver::Iht) was
    /// chosen or because the proof of the direct solution failed.
    pub iht: usize,
    /// Fibers for which iterative hard thresholding had not converged after `iht_steps` steps. If the iteration
    /// diverged, so that the code fits worse than none, the code is empty.
    pub unconverged: usize,
}

impl SolverCounts {
    /// Adds the counts of other fibers.
    pub(crate) fn add(&mut self, other: SolverCounts) {
        self.direct += other.direct;
        self.predicted += other.predicted;
        self.iht += other.iht;
        self.unconverged += other.unconverged;
    }
}
