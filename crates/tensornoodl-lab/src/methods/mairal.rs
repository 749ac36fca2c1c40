//! Mairal, Bach, Ponce and Sapiro, "Online dictionary learning for sparse coding" (2009).
//!
//! Codes are Lasso solutions. Two moments are kept of all fibers so far, E = sum x x' and F = sum y x', old ones with
//! a weight that goes to one:
//!
//! ```text
//! beta = (theta + 1 - p) / (theta + 1),   theta = t p for t < p, then p^2 + t - p
//! ```
//!
//! They start as t0 I and t0 A(0): without that, a pattern that no fiber has shown yet is moved far by the first
//! small code that the Lasso gives it by mistake. The dictionary minimizes the quadratic that E and F define, by
//! block coordinate descent on its columns. One difference from the original: columns have length one, where the
//! original bounds their length by one. The errors of A compare unit columns, and with sparse codes the original
//! columns have length one too.

use tensornoodl::{Codes, Dictionary, Error, Tensor};

use crate::methods::lasso::{Lasso, Solver};
use crate::methods::linear::{add, dot};
use crate::methods::method::Method;

/// The weight t0 of A(0), in fibers. All values from 0.01 to 1 give the same errors in the paper's cells.
const START_WEIGHT: f64 = 0.1;

/// Online dictionary learning.
pub struct Mairal {
    dictionary: Dictionary,
    lambda: f64,
    /// E (m x m) and F (n x m).
    e: Vec<f64>,
    f: Vec<f64>,
    steps: u64,
}

impl Mairal {
    /// Starts from a dictionary. The original lambda is 1.2 / sqrt(n).
    pub fn new(start: Dictionary, lambda: f64) -> Mairal {
        let m = start.patterns();
        let mut e = vec![0.0; m * m];
        (0..m).for_each(|i| e[i * m + i] = START_WEIGHT);
        let f = start.values().iter().map(|a| START_WEIGHT * a).collect();
        Mairal { dictionary: start, lambda, e, f, steps: 0 }
    }

    /// Returns the factor of the old moments; p is the number of fibers of the tensor.
    fn keep(&self, p: f64) -> f64 {
        // At first the old moments are those of A(0), which have their weight t0 already.
        if self.steps == 1 {
            return 1.0;
        }
        let t = self.steps as f64;
        let theta = if t < p { t * p } else { p * p + t - p };
        (theta + 1.0 - p) / (theta + 1.0)
    }
}

impl Method for Mairal {
    fn learn(&mut self, tensor: &Tensor<'_>) -> Result<(), Error> {
        let (n, m, p) = (self.dictionary.features(), self.dictionary.patterns(), tensor.fibers());
        if p == 0 {
            return Ok(());
        }
        self.steps += 1;
        let keep = self.keep(p as f64).max(0.0);
        self.e.iter_mut().chain(&mut self.f).for_each(|moment| *moment *= keep);
        let codes = self.encode(tensor)?;
        for (fiber, code) in codes.matrix().columns().enumerate() {
            for &(i, x) in code {
                add(&mut self.f[i as usize * n..][..n], x, tensor.fiber(fiber));
                code.iter().for_each(|&(l, z)| self.e[i as usize * m + l as usize] += x * z);
            }
        }
        let mut columns = self.dictionary.values().to_vec();
        for i in 0..m {
            let e = &self.e[i * m..][..m];
            // A pattern that no code uses does not change.
            if e[i] <= 0.0 {
                continue;
            }
            let mut next = self.f[i * n..][..n].to_vec();
            for (l, &e) in e.iter().enumerate().filter(|(_, e)| **e != 0.0) {
                add(&mut next, -e, &columns[l * n..][..n]);
            }
            next.iter_mut().for_each(|v| *v /= e[i]);
            add(&mut next, 1.0, &columns[i * n..][..n]);
            let length = dot(&next, &next).sqrt();
            if length > 0.0 {
                next.iter_mut().for_each(|v| *v /= length);
                columns[i * n..][..n].copy_from_slice(&next);
            }
        }
        self.dictionary = Dictionary::from_columns(n, columns)?;
        Ok(())
    }

    fn dictionary(&self) -> &Dictionary {
        &self.dictionary
    }

    fn encode(&self, tensor: &Tensor<'_>) -> Result<Codes, Error> {
        let lasso = Lasso::new(&self.dictionary);
        let code = |scores: &[f64]| lasso.solve(scores, self.lambda, Vec::new(), Solver::Descent).0;
        Ok(crate::methods::linear::encode(&self.dictionary, tensor, code))
    }
}
