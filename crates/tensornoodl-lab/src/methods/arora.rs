//! Arora, Ge, Ma and Moitra, "Simple, efficient, and neural algorithms for sparse coding" (2015).
//!
//! Codes are one hard threshold, x = HT_{C/2}(A'y). The gradient of pattern i is the mean of (y - A x) sign(x_i): the
//! codes are biased by the parts of the other patterns of a fiber along A_i, and so is the limit. The unbiased method
//! computes separate codes for pattern i, in a dictionary B(i) whose other columns have no part along A_i:
//!
//! ```text
//! x(i) = HT_{C/2}(B(i)'y),   (B(i)'y)_l = d_l - G_il d_i,   d = A'y,  G = A'A
//! ```
//!
//! so that B(i) is never formed, and only fibers that show pattern i cost time.

use rayon::prelude::*;
use tensornoodl::{Codes, Dictionary, Error, Tensor};

use crate::methods::linear::{add, by_blocks, encode};
use crate::methods::method::Method;

/// The biased method Arora(b), or the unbiased method Arora(u).
pub struct Arora {
    dictionary: Dictionary,
    eta_a: f64,
    code_floor: f64,
    unbiased: bool,
}

/// One term of the gradient of a pattern: the index i of the pattern, sign(x_i), and the index of the residual.
type GradientTerm = (u32, f64, usize);

impl Arora {
    /// Starts from a dictionary, with the step size and the code floor C of the paper.
    pub fn new(start: Dictionary, eta_a: f64, code_floor: f64, unbiased: bool) -> Arora {
        Arora { dictionary: start, eta_a, code_floor, unbiased }
    }

    fn threshold(&self, scores: &[f64]) -> Vec<(u32, f64)> {
        let large = |(_, x): &(u32, f64)| x.abs() >= self.code_floor / 2.0;
        (0..).zip(scores.iter().copied()).filter(large).collect()
    }

    /// Returns the terms of the gradient from a block of fibers, and their residuals.
    fn gradient_terms(
        &self,
        tensor: &Tensor<'_>,
        first: usize,
        scores: &[f64],
        gram: &[f64],
    ) -> (Vec<GradientTerm>, Vec<f64>) {
        let (n, m) = (self.dictionary.features(), self.dictionary.patterns());
        let (mut terms, mut residuals) = (Vec::new(), Vec::new());
        for (at, d) in scores.chunks_exact(m).enumerate() {
            let y = tensor.fiber(first + at);
            let code = self.threshold(d);
            if !self.unbiased && !code.is_empty() {
                let mut r = y.to_vec();
                code.iter().for_each(|&(i, x)| add(&mut r, -x, self.dictionary.pattern(i as usize)));
                terms.extend(code.iter().map(|&(i, x)| (i, x.signum(), residuals.len() / n)));
                residuals.extend(r);
                continue;
            }
            for &(i, x) in &code {
                let g = &gram[i as usize * m..][..m];
                let own: Vec<f64> = d.iter().zip(g).map(|(d, g)| d - g * x).collect();
                let others = self.threshold(&own).into_iter().filter(|(l, _)| *l != i);
                let (mut r, mut along) = (y.to_vec(), x);
                for (l, z) in others {
                    add(&mut r, -z, self.dictionary.pattern(l as usize));
                    along -= g[l as usize] * z;
                }
                add(&mut r, -along, self.dictionary.pattern(i as usize));
                terms.push((i, x.signum(), residuals.len() / n));
                residuals.extend(r);
            }
        }
        (terms, residuals)
    }
}

impl Method for Arora {
    fn learn(&mut self, tensor: &Tensor<'_>) -> Result<(), Error> {
        let (n, m, p) = (self.dictionary.features(), self.dictionary.patterns(), tensor.fibers());
        if p == 0 {
            return Ok(());
        }
        let gram = if self.unbiased { self.dictionary.gram() } else { Vec::new() };
        let blocks = by_blocks(&self.dictionary, tensor, |first, scores| {
            self.gradient_terms(tensor, first, scores, &gram)
        });
        let mut of_pattern: Vec<Vec<(&[f64], f64)>> = vec![Vec::new(); m];
        for (terms, residuals) in &blocks {
            for &(i, sign, at) in terms {
                of_pattern[i as usize].push((&residuals[at * n..][..n], sign));
            }
        }
        let mut columns = self.dictionary.values().to_vec();
        let step = self.eta_a / p as f64;
        columns.par_chunks_exact_mut(n).zip(of_pattern).for_each(|(column, terms)| {
            terms.into_iter().for_each(|(r, sign)| add(column, step * sign, r));
        });
        self.dictionary = Dictionary::from_columns(n, columns)?;
        Ok(())
    }

    fn dictionary(&self) -> &Dictionary {
        &self.dictionary
    }

    fn encode(&self, tensor: &Tensor<'_>) -> Result<Codes, Error> {
        Ok(encode(&self.dictionary, tensor, |scores| self.threshold(scores)))
    }
}
