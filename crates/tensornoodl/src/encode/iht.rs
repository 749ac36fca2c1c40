//! Stage I for one fiber: iterative hard thresholding, step by step (alg:coeff_init, alg:coeff_iht).
//!
//! ```text
//! x(0)   = HT_{C/2}(d),    d = A'y
//! x(r+1) = HT_tau(x(r) + eta_x g(r)),    g(r) = d - G x(r),    G = A'A
//! ```
//!
//! Most steps change only entries of the support S of x, and cost s^2 products instead of s m. Let x(o) be the last
//! iterate whose gradient g is known for all m patterns. With c = |(max_l |G_li|)_{i in S}|, no |g_i| outside of S
//! grows by more than c |x(r) - x(o)|, so no entry outside passes the threshold while
//!
//! ```text
//! |x(r) - x(o)| < (tau / eta_x - max_{i not in S} |g_i(o)|) / c
//! ```

use crate::encode::fiber::{Coder, Work, solve_on_support};
use crate::encode::gram::add_column;
use crate::linalg::vector::add_scaled;
use crate::params::{Params, Solver};

impl Coder<'_> {
    /// Runs iterative hard thresholding from d = A'y and leaves the last iterate in `work.code`.
    ///
    /// Returns false if the iterate still changes by more than `code_tolerance` after `iht_steps` steps, or is no
    /// longer finite.
    ///
    /// Choice: the paper fixes R. Real data has no true X to compare with, so the iteration stops on the change of the
    /// iterate; with a tolerance of 0 it makes R steps. With [`Solver::Direct`], the proof of the direct solution is
    /// tried at every step whose number is a power of two: once the support is final, the limit is known.
    pub(crate) fn iht(&self, work: &mut Work, d: &[f64]) -> bool {
        let Params { iht_steps, code_tolerance, .. } = *self.params;
        self.start(work, d);
        let may_jump = self.params.solver == Solver::Direct && code_tolerance > 0.0;
        work.gradient.resize(d.len(), 0.0);
        // How far x may move from `origin` before another pattern can enter the support.
        let mut safe_distance = 0.0;
        for step in 1..=iht_steps {
            let from_origin = work.code.iter().zip(&work.origin).map(|(x, o)| (x.1 - o).powi(2));
            if from_origin.sum::<f64>().sqrt() < safe_distance {
                self.step_on_support(work, d);
            } else {
                safe_distance = self.step_on_all(work, d);
            }
            let Work { code, candidates: next, .. } = &mut *work;
            let same_support = next.iter().map(|entry| entry.0).eq(code.iter().map(|entry| entry.0));
            let largest = next.iter().fold(0.0, |a: f64, entry| a.max(entry.1.abs()));
            let difference = |(a, b): (&(u32, f64), &(u32, f64))| (a.1 - b.1).abs();
            let change = if same_support {
                next.iter().zip(code.iter()).map(difference).fold(0.0, f64::max)
            } else {
                safe_distance = 0.0;
                f64::INFINITY
            };
            std::mem::swap(code, next);
            if code.iter().any(|entry| !entry.1.is_finite()) {
                return false;
            }
            if change <= code_tolerance * largest {
                return true;
            }
            if may_jump && same_support && step.is_power_of_two() && self.jump_to_limit(work, d) {
                return true;
            }
        }
        code_tolerance == 0.0
    }

    /// Computes the next iterate in `work.candidates`, for entries of the support only.
    fn step_on_support(&self, work: &mut Work, d: &[f64]) {
        let Params { eta_x, tau, .. } = *self.params;
        let Work { code, candidates: next, .. } = work;
        next.clear();
        for &(i, x) in code.iter() {
            let column = self.gram().column(i);
            let known: f64 = code.iter().map(|&(l, x)| column[l as usize] * x).sum();
            next.push((i, x + eta_x * (d[i as usize] - known)));
        }
        next.retain(|(_, z)| z.abs() >= tau);
    }

    /// Computes the next iterate in `work.candidates`, for all patterns, and makes the current iterate `work.origin`.
    ///
    /// Returns the distance from the origin within which no other pattern can enter the support.
    fn step_on_all(&self, work: &mut Work, d: &[f64]) -> f64 {
        let Params { eta_x, tau, .. } = *self.params;
        let gram = self.gram();
        let Work { code, candidates: next, gradient, origin, .. } = work;
        next.clear();
        gradient.copy_from_slice(d);
        code.iter().for_each(|&(i, x)| add_scaled(gradient, -x, gram.column(i)));
        let mut support = code.iter().peekable();
        let mut highest = 0.0_f64;
        for (i, &g) in (0..).zip(gradient.iter()) {
            let x = support.next_if(|entry| entry.0 == i);
            if x.is_none() {
                highest = highest.max(g.abs());
            }
            let z = x.map_or(0.0, |entry| entry.1) + eta_x * g;
            if z.abs() >= tau {
                next.push((i, z));
            }
        }
        let steepest = code.iter().map(|&(i, _)| gram.largest(i).powi(2)).sum::<f64>().sqrt();
        origin.clear();
        origin.extend(code.iter().map(|entry| entry.1));
        (tau / eta_x * (1.0 - 1e-12) - highest) / steepest
    }

    /// Proves that iterative hard thresholding keeps the support of the iterate from here on, and replaces the
    /// iterate by the limit. Returns false, and leaves the iterate as it was, if the proof fails.
    ///
    /// The proof is the one of `fiber.rs`, with the current iterate in place of x(0).
    fn jump_to_limit(&self, work: &mut Work, d: &[f64]) -> bool {
        let Params { eta_x, tau, .. } = *self.params;
        let (gram, margin) = (self.gram(), 1e-9 * tau);
        let Work { code, d_s, .. } = &mut *work;
        let now: Vec<f64> = code.iter().map(|entry| entry.1).collect();
        let row_sum = |i: u32| code.iter().map(|&(l, _)| gram.column(i)[l as usize].abs()).sum::<f64>();
        if code.iter().any(|&(i, _)| eta_x * row_sum(i) >= 2.0) {
            return false;
        }
        d_s.clear();
        d_s.extend(code.iter().map(|&(i, _)| d[i as usize]));
        let s = code.len();
        // Almost dependent patterns would lose more digits than the margin allows for.
        let solved = solve_on_support(work, |i, l| gram.column(i)[l as usize])
            && (0..s).all(|at| work.factor[at * s + at] > 1e-3);
        let Work { code, gradient, coupling, .. } = work;
        let distance = code.iter().zip(&now).map(|(x, now)| (x.1 - now).powi(2)).sum::<f64>().sqrt();
        let mut proved = solved && code.iter().all(|(_, x)| x.abs() - distance >= tau + margin);
        if proved {
            gradient.copy_from_slice(d);
            coupling.clear();
            coupling.resize(d.len(), 0.0);
            code.iter().for_each(|&(i, x)| add_column(gradient, coupling, x, gram.column(i)));
            code.iter().for_each(|&(i, _)| (gradient[i as usize], coupling[i as usize]) = (0.0, 0.0));
            let below = |(g, c): (&f64, &f64)| eta_x * (g.abs() + c.sqrt() * distance) < tau - margin;
            proved = gradient.iter().zip(&*coupling).all(below);
        }
        if !proved {
            code.iter_mut().zip(now).for_each(|(entry, now)| entry.1 = now);
        }
        proved
    }
}
