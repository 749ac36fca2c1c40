//! The Lasso, min |y - A x|^2 / 2 + lambda |x|_1, in Gram form: d = A'y and G = A'A replace the fiber.
//! Three solvers that agree: ISTA, FISTA (Beck and Teboulle 2009) and coordinate descent.

use std::sync::atomic::{AtomicUsize, Ordering};

use tensornoodl::{Codes, Dictionary, Sparse, Tensor};

use crate::methods::linear::{add, by_blocks, dot};

/// A solver of the Lasso.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Solver {
    /// Proximal gradient steps.
    Ista,
    /// Proximal gradient steps with momentum.
    Fista,
    /// Cyclic coordinate descent.
    Descent,
}

/// Maximum number of proximal steps.
const MOST_STEPS: usize = 20_000;
/// Maximum number of sweeps over all coordinates.
const MOST_SWEEPS: usize = 1_000;
/// A solver has converged when the largest change of an entry, divided by lambda, is below this.
const SETTLED: f64 = 1e-6;

/// A code, and whether the solver converged.
pub type Solved = (Vec<(u32, f64)>, bool);

/// The Lasso for one dictionary.
pub struct Lasso<'a> {
    dictionary: &'a Dictionary,
    gram: Vec<f64>,
    /// An upper bound of the largest eigenvalue of G, at most 1 % too large.
    lipschitz: f64,
}

impl Lasso<'_> {
    /// Computes G.
    pub fn new(dictionary: &Dictionary) -> Lasso<'_> {
        let gram = dictionary.gram();
        let lipschitz = 1.01 * largest_eigenvalue(&gram, dictionary.patterns());
        Lasso { dictionary, gram, lipschitz }
    }

    /// Returns the codes of a tensor for each lambda. Lambdas must decrease: the codes of one lambda are the start
    /// for the next. The path ends before the first lambda at which a code does not converge: if the dictionary is
    /// slightly wrong, small lambdas fit its error by hundreds of useless codes.
    pub fn path(&self, tensor: &Tensor<'_>, lambdas: &[f64], solver: Solver) -> Vec<Codes> {
        let m = self.dictionary.patterns();
        // The number of lambdas at which all codes so far have converged.
        let settled = AtomicUsize::new(lambdas.len());
        let blocks = by_blocks(self.dictionary, tensor, |_, scores| {
            let path = |d: &[f64]| {
                let mut path: Vec<Vec<(u32, f64)>> = Vec::new();
                while path.len() < settled.load(Ordering::Relaxed) {
                    let start = path.last().cloned().unwrap_or_default();
                    let (x, done) = self.solve(d, lambdas[path.len()], start, solver);
                    if !done {
                        settled.fetch_min(path.len(), Ordering::Relaxed);
                        break;
                    }
                    path.push(x);
                }
                path
            };
            scores.chunks_exact(m).map(path).collect::<Vec<_>>()
        });
        let codes = |at: usize| {
            let mut matrix = Sparse::new(m);
            blocks.iter().flatten().for_each(|path| matrix.push(&path[at]));
            Codes::new(matrix, tensor)
        };
        (0..settled.into_inner()).map(codes).collect()
    }

    /// Solves for the code of one fiber with d = A'y, from a start near the solution.
    pub fn solve(&self, d: &[f64], lambda: f64, start: Vec<(u32, f64)>, solver: Solver) -> Solved {
        match solver {
            Solver::Ista => self.proximal(d, lambda, start, false),
            Solver::Fista => self.proximal(d, lambda, start, true),
            Solver::Descent => self.descend(d, lambda, start),
        }
    }

    /// Returns d - G x for a sparse x.
    fn correlations(&self, d: &[f64], x: &[(u32, f64)]) -> Vec<f64> {
        let m = d.len();
        let mut c = d.to_vec();
        for &(i, x) in x {
            c.iter_mut().zip(&self.gram[i as usize * m..][..m]).for_each(|(c, g)| *c -= x * g);
        }
        c
    }

    /// Iterates x <- shrink(z + (d - G z) / L, lambda / L), where z is x, or with momentum an extrapolation of x.
    fn proximal(&self, d: &[f64], lambda: f64, start: Vec<(u32, f64)>, momentum: bool) -> Solved {
        let (step, m) = (1.0 / self.lipschitz, d.len());
        let dense = |x: &[(u32, f64)]| {
            let mut values = vec![0.0; m];
            x.iter().for_each(|&(i, x)| values[i as usize] = x);
            values
        };
        let mut x = dense(&start);
        let (mut z, mut pace) = (x.clone(), 1.0_f64);
        for _ in 0..MOST_STEPS {
            let c = self.correlations(d, &sparse(&z));
            let next: Vec<f64> = z.iter().zip(&c).map(|(z, c)| shrink(z + step * c, step * lambda)).collect();
            let change = next.iter().zip(&x).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            let faster = (1.0 + (1.0 + 4.0 * pace * pace).sqrt()) / 2.0;
            let ahead = if momentum { (pace - 1.0) / faster } else { 0.0 };
            z = next.iter().zip(&x).map(|(next, x)| next + ahead * (next - x)).collect();
            (x, pace) = (next, faster);
            if change < SETTLED * lambda {
                return (sparse(&x), true);
            }
        }
        (sparse(&x), false)
    }

    /// Descends along one coordinate after the other. Columns have unit length, so the best x_i with all other
    /// entries fixed is shrink(c_i + x_i, lambda) for c = d - G x.
    fn descend(&self, d: &[f64], lambda: f64, start: Vec<(u32, f64)>) -> Solved {
        let m = d.len();
        let mut c = self.correlations(d, &start);
        let mut x = vec![0.0; m];
        start.iter().for_each(|&(i, value)| x[i as usize] = value);
        for _ in 0..MOST_SWEEPS {
            let mut largest = 0.0_f64;
            for i in 0..m {
                if x[i] == 0.0 && c[i].abs() <= lambda {
                    continue;
                }
                let by = shrink(c[i] + x[i], lambda) - x[i];
                if by != 0.0 {
                    x[i] += by;
                    add(&mut c, -by, &self.gram[i * m..][..m]);
                    largest = largest.max(by.abs());
                }
            }
            if largest < SETTLED * lambda {
                return (sparse(&x), true);
            }
        }
        (sparse(&x), false)
    }
}

fn sparse(x: &[f64]) -> Vec<(u32, f64)> {
    (0..).zip(x.iter().copied()).filter(|(_, x)| *x != 0.0).collect()
}

/// Moves x towards zero by `by`, and not beyond.
fn shrink(x: f64, by: f64) -> f64 {
    x.signum() * (x.abs() - by).max(0.0)
}

/// Returns the largest eigenvalue, by the power method.
fn largest_eigenvalue(gram: &[f64], m: usize) -> f64 {
    let mut v: Vec<f64> = (0..m).map(|i| 1.0 + (i % 7) as f64).collect();
    let mut value = 1.0;
    for _ in 0..200 {
        let length = dot(&v, &v).sqrt();
        v.iter_mut().for_each(|v| *v /= length);
        let next: Vec<f64> = gram.chunks_exact(m).map(|g| dot(g, &v)).collect();
        value = dot(&next, &next).sqrt();
        v = next;
    }
    value
}
