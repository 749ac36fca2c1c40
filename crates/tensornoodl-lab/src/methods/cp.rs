//! CP factors of one tensor, and the three products that all methods for one tensor need.
//!
//! Z is given by its non-zero fibers Y: Z_(1) (C . B) is Y W' with w_f = B_j * C_k at the place (j, k) of fiber f,
//! and the other two products follow from A'Y, so no unfolding is formed. Zeros of the tensor count as data.

use tensornoodl::{Codes, Dictionary, Error, Factors, Shape, Sparse, Tensor};

use crate::methods::linear::{BLOCK, dot, normalize, product, product_transposed, transposed_product};

/// A CP factorization; factors are n x m, J x m and K x m, column by column.
#[derive(Debug, Clone)]
pub struct Cp {
    /// The shape n x J x K of the tensor.
    pub shape: Shape,
    /// The dictionary A, with unit columns.
    pub features: Vec<f64>,
    /// The row factor B.
    pub rows: Vec<f64>,
    /// The col factor C.
    pub cols: Vec<f64>,
}

impl Cp {
    /// Makes CP factors of a dictionary and the row and col factors of a tensor.
    pub fn new(shape: Shape, dictionary: &Dictionary, factors: &Factors) -> Cp {
        let dense = |sparse: &Sparse| {
            let length = sparse.rows();
            let mut values = vec![0.0; length * sparse.cols()];
            for (column, values) in sparse.columns().zip(values.chunks_exact_mut(length)) {
                column.iter().for_each(|&(at, x)| values[at as usize] = x);
            }
            values
        };
        let features = dictionary.values().to_vec();
        Cp { shape, features, rows: dense(&factors.rows), cols: dense(&factors.cols) }
    }

    /// Returns the number of patterns, m.
    pub fn patterns(&self) -> usize {
        self.features.len() / self.shape.features
    }

    /// Removes terms that have vanished or overflowed.
    pub fn alive(self) -> Cp {
        let Shape { features: n, rows, cols } = self.shape;
        let mut alive = Cp { features: Vec::new(), rows: Vec::new(), cols: Vec::new(), ..self };
        for i in 0..self.features.len() / n {
            let term = [(&self.features, n), (&self.rows, rows), (&self.cols, cols)]
                .map(|(factor, length)| &factor[i * length..][..length]);
            if term.iter().all(|column| dot(column, column).is_normal()) {
                alive.features.extend(term[0]);
                alive.rows.extend(term[1]);
                alive.cols.extend(term[2]);
            }
        }
        alive
    }

    /// Returns A as a dictionary.
    ///
    /// # Errors
    /// If a column is zero or not finite.
    pub fn dictionary(&self) -> Result<Dictionary, Error> {
        Dictionary::from_columns(self.shape.features, self.features.clone())
    }

    /// Returns the codes b_j c_k at the places of the fibers, without those below `floor` in magnitude.
    pub fn codes(&self, tensor: &Tensor<'_>, floor: f64) -> Codes {
        let mut matrix = Sparse::new(self.patterns());
        for weights in self.weights(tensor).chunks_exact(self.patterns()) {
            let large: Vec<(u32, f64)> =
                (0..).zip(weights.iter().copied()).filter(|(_, x)| x.abs() >= floor).collect();
            matrix.push(&large);
        }
        Codes::new(matrix, tensor)
    }

    /// Returns the relative fit |Z - sum A_i o B_i o C_i|_F / |Z|_F, summed place by place: a difference of sums of
    /// squares would cancel to 1e-8.
    pub fn fit(&self, tensor: &Tensor<'_>) -> f64 {
        let Shape { features: n, rows, cols } = self.shape;
        let energy = dot(tensor.values(), tensor.values());
        if energy == 0.0 || self.patterns() == 0 {
            return if energy > 0.0 { 1.0 } else { 0.0 };
        }
        let mut fiber_at: Vec<Option<usize>> = vec![None; rows * cols];
        for (fiber, place) in tensor.places().iter().enumerate() {
            fiber_at[place.row as usize * cols + place.col as usize] = Some(fiber);
        }
        let mut residual = 0.0;
        for (block, fibers) in fiber_at.chunks(BLOCK).enumerate() {
            let places = (block * BLOCK..block * BLOCK + fibers.len()).map(|at| (at / cols, at % cols));
            let mut model = vec![0.0; n * fibers.len()];
            product(&mut model, &self.features, &self.weights_at(places), n);
            for (model, fiber) in model.chunks_exact(n).zip(fibers) {
                residual += match fiber {
                    Some(fiber) => {
                        tensor.fiber(*fiber).iter().zip(model).map(|(y, z)| (y - z).powi(2)).sum::<f64>()
                    }
                    None => dot(model, model),
                };
            }
        }
        (residual / energy).sqrt()
    }

    /// Returns B_j * C_k for every fiber, m x p.
    fn weights(&self, tensor: &Tensor<'_>) -> Vec<f64> {
        self.weights_at(tensor.places().iter().map(|place| (place.row as usize, place.col as usize)))
    }

    fn weights_at(&self, places: impl Iterator<Item = (usize, usize)>) -> Vec<f64> {
        let (m, Shape { rows, cols, .. }) = (self.patterns(), self.shape);
        let mut weights = Vec::with_capacity(m * places.size_hint().0);
        for (row, col) in places {
            weights.extend((0..m).map(|i| self.rows[i * rows + row] * self.cols[i * cols + col]));
        }
        weights
    }

    /// Returns Z_(1) (C . B), n x m.
    pub(crate) fn along_features(&self, tensor: &Tensor<'_>) -> Vec<f64> {
        let mut along = vec![0.0; self.features.len()];
        product_transposed(&mut along, tensor.values(), &self.weights(tensor), self.patterns());
        along
    }

    /// Returns A'Y, m x p.
    pub(crate) fn scores(&self, tensor: &Tensor<'_>) -> Vec<f64> {
        let mut scores = vec![0.0; self.patterns() * tensor.fibers()];
        transposed_product(&mut scores, &self.features, tensor.values(), self.shape.features);
        scores
    }

    /// Returns Z_(2) (C . A), J x m, from A'Y.
    pub(crate) fn along_rows(&self, tensor: &Tensor<'_>, scores: &[f64]) -> Vec<f64> {
        let (m, Shape { rows, cols, .. }) = (self.patterns(), self.shape);
        let mut along = vec![0.0; rows * m];
        for (scores, place) in scores.chunks_exact(m).zip(tensor.places()) {
            let (row, col) = (place.row as usize, place.col as usize);
            scores
                .iter()
                .enumerate()
                .for_each(|(i, d)| along[i * rows + row] += d * self.cols[i * cols + col]);
        }
        along
    }

    /// Returns Z_(3) (B . A), K x m, from A'Y.
    pub(crate) fn along_cols(&self, tensor: &Tensor<'_>, scores: &[f64]) -> Vec<f64> {
        let (m, Shape { rows, cols, .. }) = (self.patterns(), self.shape);
        let mut along = vec![0.0; cols * m];
        for (scores, place) in scores.chunks_exact(m).zip(tensor.places()) {
            let (row, col) = (place.row as usize, place.col as usize);
            scores
                .iter()
                .enumerate()
                .for_each(|(i, d)| along[i * cols + col] += d * self.rows[i * rows + row]);
        }
        along
    }

    /// Returns A'A.
    pub(crate) fn gram_features(&self) -> Vec<f64> {
        gram(&self.features, self.shape.features)
    }

    /// Returns B'B.
    pub(crate) fn gram_rows(&self) -> Vec<f64> {
        gram(&self.rows, self.shape.rows)
    }

    /// Returns C'C.
    pub(crate) fn gram_cols(&self) -> Vec<f64> {
        gram(&self.cols, self.shape.cols)
    }

    /// Scales all columns to length one.
    pub(crate) fn normalize_all(&mut self) {
        normalize(&mut self.features, self.shape.features);
        normalize(&mut self.rows, self.shape.rows);
        normalize(&mut self.cols, self.shape.cols);
    }
}

/// Returns F'F for a factor F.
fn gram(factor: &[f64], length: usize) -> Vec<f64> {
    let m = factor.len() / length;
    let mut gram = vec![0.0; m * m];
    transposed_product(&mut gram, factor, factor, length);
    gram
}
