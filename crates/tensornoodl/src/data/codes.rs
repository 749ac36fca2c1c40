//! The codes X of one tensor, and how they were found.

use crate::data::sparse::Sparse;
use crate::data::tensor::Tensor;
use crate::shape::{Place, Shape};

/// The codes X (m x p) of one tensor, at the places of its fibers.
///
/// Codes and places together are the paper's S (m x JK), which is never formed.
#[derive(Debug, Clone, PartialEq)]
pub struct Codes {
    matrix: Sparse,
    places: Vec<Place>,
    rows: usize,
    cols: usize,
}

impl Codes {
    /// Puts codes (m x p) at the places of the fibers of `tensor`.
    ///
    /// # Panics
    /// If there is not one column per fiber.
    pub fn new(matrix: Sparse, tensor: &Tensor<'_>) -> Codes {
        assert_eq!(matrix.cols(), tensor.fibers(), "one column of codes per fiber");
        let shape = tensor.shape();
        Codes { matrix, places: tensor.places().to_vec(), rows: shape.rows, cols: shape.cols }
    }

    /// Puts codes (m x p) at these places, one per column, of a tensor of this shape.
    pub(crate) fn at(matrix: Sparse, places: Vec<Place>, shape: Shape) -> Codes {
        Codes { matrix, places, rows: shape.rows, cols: shape.cols }
    }

    /// Numbers the patterns as a dictionary does that has lost some and has so many now.
    pub(crate) fn renumber(&mut self, lost: &[usize], patterns: usize) {
        self.matrix.renumber(lost, patterns);
    }

    /// X: row i is pattern i, column f is fiber f.
    pub fn matrix(&self) -> &Sparse {
        &self.matrix
    }

    /// The place of every column of X.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// J and K, the lengths of row and col factors.
    pub fn rows_and_cols(&self) -> (usize, usize) {
        (self.rows, self.cols)
    }
}

/// How many fibers were coded in which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SolverCounts {
    /// Solved directly and proved to be the limit of iterative hard thresholding.
    pub direct: usize,
    /// Those of the direct ones that needed no product with the whole dictionary: the patterns that the
    /// fiber's row and col share in other fibers were the right ones.
    pub guessed: usize,
    /// By iterative hard thresholding: asked for, or because the direct solution failed its check.
    pub iht: usize,
    /// By iterative hard thresholding that still moved after `iht_steps` steps. Iterated codes that
    /// fit worse than none, because the iteration diverges, are left out.
    pub unsettled: usize,
}

impl SolverCounts {
    pub(crate) fn add(&mut self, other: SolverCounts) {
        self.direct += other.direct;
        self.guessed += other.guessed;
        self.iht += other.iht;
        self.unsettled += other.unsettled;
    }
}
