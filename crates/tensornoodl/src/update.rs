//! Stage III: the dictionary moves [eq:emp_grad_est, eq:apx_grad].
//!
//! Everything stage III needs of the fibers are sums over them, so that the sums of parts add up
//! to the sums of the whole. With r = y - A x:
//!
//! ```text
//! paper      G_i = sum_f r_f sgn(x_if)                     A_i += eta_A / p G_i
//! adaptive   G_i = sum_f w_f r_f x_if,  E = sum_f w_f x_f x_f'      see `Adaptive`
//! ```
//!
//! In both, columns are scaled to unit length afterwards, and a pattern with no active fiber does
//! not move.

use rayon::prelude::*;

use crate::codes::{Encoded, residual_of};
use crate::dense::{Cholesky, add_product, add_scaled, dot};
use crate::dictionary::Dictionary;
use crate::error::Error;
use crate::params::Samples;
use crate::sparse::Sparse;
use crate::tensor::Tensor;

/// The fibers stage III learns from, with their codes seen from the patterns.
pub(crate) struct Active<'a> {
    tensor: &'a Tensor<'a>,
    dictionary: &'a Dictionary,
    encoded: &'a Encoded,
    /// Column i: the fibers that show pattern i, and their codes.
    by_pattern: Sparse,
    /// Fibers that take part: not zero, and in the sample set.
    used: Vec<bool>,
    /// Patterns shown by some fiber.
    patterns: Vec<usize>,
}

impl<'a> Active<'a> {
    pub(crate) fn new(
        tensor: &'a Tensor<'a>,
        dictionary: &'a Dictionary,
        encoded: &'a Encoded,
        samples: Samples,
    ) -> Active<'a> {
        let in_set = |fiber: usize| match samples {
            Samples::All => true,
            Samples::Independent => {
                let place = tensor.places()[fiber];
                place.row == place.col
            }
        };
        let used: Vec<bool> =
            (0..tensor.fibers()).map(|fiber| encoded.energies[fiber] > 0.0 && in_set(fiber)).collect();
        let mut codes = Sparse::new(dictionary.patterns());
        for (fiber, code) in encoded.codes.columns().enumerate() {
            codes.push(if used[fiber] { code } else { &[] });
        }
        let by_pattern = codes.transpose();
        let patterns = (0..dictionary.patterns()).filter(|&i| !by_pattern.column(i).is_empty()).collect();
        Active { tensor, dictionary, encoded, by_pattern, used, patterns }
    }

    /// Fibers that take part.
    pub(crate) fn fibers_used(&self) -> usize {
        self.used.iter().filter(|used| **used).count()
    }

    /// Number of fibers that show each pattern.
    pub(crate) fn activity(&self) -> Vec<usize> {
        self.by_pattern.columns().map(|fibers| fibers.len()).collect()
    }

    /// G (n x active): sum over the fibers f that show pattern i of weight(f, x_if) r_f.
    fn gradient(&self, weight: impl Fn(usize, f64) -> f64 + Sync) -> Vec<f64> {
        let n = self.dictionary.features();
        let mut gradient = vec![0.0; n * self.patterns.len()];
        gradient.par_chunks_exact_mut(n).zip(&self.patterns).for_each_init(
            || vec![0.0; n],
            |residual, (sum, &i)| {
                for &(fiber, x) in self.by_pattern.column(i) {
                    let fiber = fiber as usize;
                    let code = self.encoded.codes.column(fiber);
                    residual_of(residual, self.tensor.fiber(fiber), self.dictionary, code);
                    add_scaled(sum, weight(fiber, x), residual);
                }
            },
        );
        gradient
    }

    /// E (active x active): sum of w_f x_f x_f'.
    fn second_moment(&self, weights: &[f64]) -> Vec<f64> {
        let k = self.patterns.len();
        let mut position = vec![usize::MAX; self.dictionary.patterns()];
        self.patterns.iter().enumerate().for_each(|(at, &i)| position[i] = at);
        let mut moment = vec![0.0; k * k];
        moment.par_chunks_exact_mut(k).zip(&self.patterns).for_each(|(column, &i)| {
            for &(fiber, x) in self.by_pattern.column(i) {
                for &(l, x_l) in self.encoded.codes.column(fiber as usize) {
                    column[position[l as usize]] += weights[fiber as usize] * x * x_l;
                }
            }
        });
        moment
    }
}

/// The paper's step: A <- A - eta_A g,  g = 1/p (A X - Y) sgn(X)' [eq:emp_grad_est, eq:apx_grad].
pub(crate) fn paper_step(active: &Active<'_>, eta_a: f64) -> Result<Dictionary, Error> {
    let n = active.dictionary.features();
    let p = active.fibers_used();
    let gradient = active.gradient(|_, x| x.signum());
    let mut values = active.dictionary.values().to_vec();
    for (g, &i) in gradient.chunks_exact(n).zip(&active.patterns) {
        add_scaled(&mut values[i * n..(i + 1) * n], eta_a / p as f64, g);
    }
    Dictionary::from_columns(n, values)
}

/// The adaptive step: recursive least squares that forgets a pattern's past only when its
/// residuals say that it still moves.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Adaptive {
    /// P: expected squared error of each pattern; none before its first sight.
    variance: Vec<Option<f64>>,
    /// Sum of squares, and its degrees of freedom, that no dictionary explains.
    noise: (f64, f64),
    /// Sums over all first sights: |G|^2, v d, d^2.
    prior: (f64, f64, f64),
    tensors: u64,
}

impl Adaptive {
    pub(crate) fn new(patterns: usize) -> Adaptive {
        Adaptive { variance: vec![None; patterns], noise: (0.0, 0.0), prior: (0.0, 0.0, 0.0), tensors: 0 }
    }

    /// Sum of P.
    pub(crate) fn total_variance(&self) -> f64 {
        self.variance.iter().flatten().sum()
    }

    pub(crate) fn step(
        &self,
        origin: &Dictionary,
        active: &Active<'_>,
    ) -> Result<(Dictionary, Adaptive), Error> {
        let mut state = self.clone();
        state.tensors += 1;
        let (n, m, k) = (origin.features(), origin.patterns(), active.patterns.len());
        if k == 0 {
            return Ok((origin.clone(), state));
        }
        let encoded = active.encoded;
        let sizes: Vec<usize> = encoded.codes.columns().map(|code| code.len()).collect();
        let weights: Vec<f64> = (0..sizes.len())
            .map(|f| {
                let dof = n.saturating_sub(sizes[f]) as f64;
                if active.used[f] && sizes[f] > 0 {
                    dof / encoded.residuals[f].max(1e-24 * encoded.energies[f])
                } else {
                    0.0
                }
            })
            .collect();
        let mut g = active.gradient(|fiber, x| weights[fiber] * x);
        let e = active.second_moment(&weights);
        let d: Vec<f64> = (0..k).map(|i| e[i * k + i]).collect();
        let w: f64 = (0..sizes.len()).map(|f| weights[f] * encoded.residuals[f]).sum();
        let used = (0..sizes.len()).filter(|&f| weights[f] > 0.0).count() as f64;
        let nnz: f64 = (0..sizes.len()).filter(|&f| weights[f] > 0.0).map(|f| sizes[f] as f64).sum();

        // H = G E^-1
        let mut h = g.clone();
        let mut ridged = e.clone();
        for i in 0..k {
            ridged[i * k + i] += 1e-10 * d[i];
        }
        let Some(chol) = Cholesky::new(ridged, k) else { return Ok((origin.clone(), self.clone())) };
        chol.solve_from_right(&mut h);
        let rss = (w - dot(&h, &g)).max(1e-14 * w);
        let dof = n as f64 * used - nnz - (n as f64 - 1.0) * k as f64;
        let x = (m as f64 * (state.tensors as f64).powi(2)).ln().max(1.0);
        if dof > 0.0 {
            let (old_rss, old_dof) = state.noise;
            let ratio = (rss / dof) / (old_rss / old_dof);
            let q = x / dof;
            if old_dof > 0.0 && ratio > 1.0 - 2.0 * q.sqrt() && ratio < 1.0 + 2.0 * q.sqrt() + 2.0 * q {
                state.noise = (old_rss + rss, old_dof + dof);
            } else {
                state.noise = (rss, dof);
            }
        }
        let v = if state.noise.1 > 0.0 { n as f64 * state.noise.0 / state.noise.1 } else { 1e-14 * n as f64 };
        // effective dimension
        let ne = {
            let norms: Vec<f64> = h.chunks_exact(n).map(|c| dot(c, c).sqrt()).collect();
            let mut s = 0.0;
            let mut c = 0.0;
            for i in 0..k {
                for j in 0..i {
                    if norms[i] > 1e-12 && norms[j] > 1e-12 {
                        let cos = dot(&h[i * n..(i + 1) * n], &h[j * n..(j + 1) * n]) / (norms[i] * norms[j]);
                        s += cos * cos;
                        c += 1.0;
                    }
                }
            }
            if s > 0.0 { (c / s).clamp(1.0, n as f64) } else { n as f64 }
        };
        let lev = 1.0 + 2.0 * (x / ne).sqrt() + 2.0 * x / ne;
        let g2: Vec<f64> = g.chunks_exact(n).map(|c| dot(c, c)).collect();
        let fresh: Vec<usize> = (0..k).filter(|&i| state.variance[active.patterns[i]].is_none()).collect();
        for &i in &fresh {
            state.prior.0 += g2[i];
            state.prior.1 += v * d[i];
            state.prior.2 += d[i] * d[i];
        }
        let prior =
            (state.prior.0 - state.prior.1).max((2.0 / n as f64).sqrt() * state.prior.1) / state.prior.2;
        let mut p: Vec<f64> = active.patterns.iter().map(|&i| state.variance[i].unwrap_or(prior)).collect();
        for _ in 0..3 {
            let pred: Vec<f64> =
                (0..k).map(|i| v * d[i] + (0..k).map(|l| e[i * k + l].powi(2) * p[l]).sum::<f64>()).collect();
            for i in 0..k {
                if g2[i] > lev * pred[i] && active.by_pattern.column(active.patterns[i]).len() >= 2 {
                    p[i] = (g2[i] - (pred[i] - d[i] * d[i] * p[i])) / (d[i] * d[i]);
                }
            }
        }
        let mut regular = e.clone();
        for i in 0..k {
            p[i] = p[i].max(1e-32);
            regular[i * k + i] += v / p[i];
        }
        let Some(chol) = Cholesky::new(regular, k) else { return Ok((origin.clone(), self.clone())) };
        let inverse = chol.inverse();
        // G' = G + (A - A0) E
        let mut moved = Vec::with_capacity(n * k);
        for &i in &active.patterns {
            moved.extend(active.dictionary.pattern(i).iter().zip(origin.pattern(i)).map(|(a, a0)| a - a0));
        }
        add_product(&mut g, &moved, &e, n);
        let mut change = vec![0.0; n * k];
        add_product(&mut change, &g, &inverse, n);
        let mut values = origin.values().to_vec();
        for (at, &i) in active.patterns.iter().enumerate() {
            add_scaled(&mut values[i * n..(i + 1) * n], 1.0, &change[at * n..(at + 1) * n]);
            state.variance[i] = Some(v * inverse[at * k + at]);
        }
        Ok((Dictionary::from_columns(n, values)?, state))
    }
}
