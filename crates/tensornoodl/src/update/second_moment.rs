//! E, the weighted second moment of the codes.

use crate::linalg::decompose::Cholesky;
use crate::linalg::product::add_product;

/// E = sum of w_f x_f x_f' (k x k) over the k patterns that some fiber shows.
///
/// A pattern that never shares a fiber with another one has only its diagonal entry in E. In sparse tensors most
/// patterns are like that. Patterns that share fibers come first and have a dense block.
pub(crate) struct SecondMoment {
    /// The number of each pattern, in the order of E.
    pub(crate) patterns: Vec<usize>,
    /// Number of patterns that share fibers with others. They come first.
    mixed: usize,
    /// The block of E for the patterns that share fibers (mixed x mixed).
    dense: Vec<f64>,
    /// d, the diagonal of E.
    pub(crate) diagonal: Vec<f64>,
}

impl SecondMoment {
    /// Builds E from its entries (i, l) over all m patterns. `mixed[i]` says whether pattern i shares a fiber.
    pub(crate) fn new(mixed: &[bool], entry: impl Fn(usize, usize) -> f64) -> SecondMoment {
        let m = mixed.len();
        let shown = |&i: &usize| entry(i, i) > 0.0;
        let mut patterns: Vec<usize> = (0..m).filter(shown).collect();
        patterns.sort_by_key(|&i| !mixed[i]);
        let shared = patterns.partition_point(|&i| mixed[i]);
        let mut dense = vec![0.0; shared * shared];
        for (at, &i) in patterns[..shared].iter().enumerate() {
            for (other, &l) in patterns[..=at].iter().enumerate() {
                dense[at * shared + other] = entry(i, l);
                dense[other * shared + at] = dense[at * shared + other];
            }
        }
        let diagonal = patterns.iter().map(|&i| entry(i, i)).collect();
        SecondMoment { patterns, mixed: shared, dense, diagonal }
    }

    /// k, the number of patterns in E.
    pub(crate) fn size(&self) -> usize {
        self.patterns.len()
    }

    fn column(&self, pattern: usize) -> &[f64] {
        &self.dense[pattern * self.mixed..][..self.mixed]
    }

    /// For each pattern i, the sum of E_il^2 p_l over all l != i.
    pub(crate) fn due_to_others(&self, p: &[f64]) -> Vec<f64> {
        let sum = |i: usize| -> f64 {
            let part = |e: &[f64], p: &[f64]| e.iter().zip(p).map(|(e, p)| e * e * p).sum::<f64>();
            if i < self.mixed {
                let column = self.column(i);
                part(&column[..i], p) + part(&column[i + 1..], &p[i + 1..])
            } else {
                0.0
            }
        };
        (0..self.size()).map(sum).collect()
    }

    /// For each pattern i, the largest p_l over pattern i and the patterns that share a fiber with it.
    pub(crate) fn largest(&self, p: &[f64]) -> Vec<f64> {
        let largest = |i: usize| -> f64 {
            if i < self.mixed {
                let companions = self.column(i).iter().zip(p).filter(|(e, _)| **e != 0.0);
                companions.map(|(_, p)| *p).fold(p[i], f64::max)
            } else {
                p[i]
            }
        };
        (0..self.size()).map(largest).collect()
    }

    /// Computes out += B E, for B and out (n x k).
    pub(crate) fn add_product(&self, out: &mut [f64], b: &[f64], n: usize) {
        let (out_mixed, out_alone) = out.split_at_mut(n * self.mixed);
        let (b_mixed, b_alone) = b.split_at(n * self.mixed);
        if self.mixed > 0 {
            add_product(out_mixed, b_mixed, &self.dense, n);
        }
        let alone = out_alone.chunks_exact_mut(n).zip(b_alone.chunks_exact(n));
        for ((out, b), d) in alone.zip(&self.diagonal[self.mixed..]) {
            out.iter_mut().zip(b).for_each(|(out, b)| *out += d * b);
        }
    }

    /// Factors M = E + diag(ridge). None if M is not positive definite.
    pub(crate) fn regular(&self, ridge: &[f64]) -> Option<Regular> {
        let mut mixed = None;
        if self.mixed > 0 {
            let mut matrix = self.dense.clone();
            (0..self.mixed).for_each(|i| matrix[i * self.mixed + i] += ridge[i]);
            mixed = Some(Cholesky::new(matrix, self.mixed)?);
        }
        let unmixed = self.diagonal[self.mixed..].iter().zip(&ridge[self.mixed..]);
        let alone: Vec<f64> = unmixed.map(|(d, ridge)| 1.0 / (d + ridge)).collect();
        alone.iter().all(|scale| *scale > 0.0 && scale.is_finite()).then_some(Regular { mixed, alone })
    }
}

/// The factored matrix M = E + diag(ridge).
pub(crate) struct Regular {
    mixed: Option<Cholesky>,
    /// The inverse of the diagonal part of M.
    alone: Vec<f64>,
}

impl Regular {
    /// Overwrites B (n x k) with B M^-1.
    pub(crate) fn solve(&self, b: &mut [f64], n: usize) {
        let (mixed, alone) = b.split_at_mut(b.len() - n * self.alone.len());
        if let Some(factor) = &self.mixed {
            factor.solve_from_right(mixed);
        }
        for (column, scale) in alone.chunks_exact_mut(n).zip(&self.alone) {
            column.iter_mut().for_each(|b| *b *= scale);
        }
    }

    /// The diagonal of M^-1.
    pub(crate) fn diagonal_of_inverse(&self) -> Vec<f64> {
        let mut diagonal = self.mixed.as_ref().map_or(Vec::new(), Cholesky::diagonal_of_inverse);
        diagonal.extend_from_slice(&self.alone);
        diagonal
    }
}
