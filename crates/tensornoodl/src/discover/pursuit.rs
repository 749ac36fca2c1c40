//! Orthogonal matching pursuit: the code of one unit fiber during a search, in single precision.
//!
//! ```text
//! take the pattern i with the largest |a_i'r|, fit all patterns taken so far by least squares, and repeat
//! ```

use crate::linalg::small::{cholesky_row, cholesky_solve};

/// Largest number of codes of one fiber.
const MAX_CODES: usize = 6;

/// Smallest magnitude of a code relative to the length of the fiber, while the scale is unknown.
pub(crate) const MIN_CODE: f32 = 0.3;

/// Orthogonal matching pursuit of unit fibers with m patterns.
pub(crate) struct Pursuit {
    /// Number of patterns.
    m: usize,
    /// A'A (m x m).
    gram: Vec<f32>,
    /// Smallest |cos| of a pattern with a residual that is not chance. In few dimensions random vectors have large
    /// cosines, therefore the bound.
    min_cosine: f32,
}

impl Pursuit {
    /// Prepares the pursuit with m patterns of n features, given A'A (m x m). With `any_cosine`, only the smallest code
    /// is a bound.
    pub(crate) fn new(n: usize, m: usize, gram: Vec<f32>, any_cosine: bool) -> Pursuit {
        let chance = (2.0 * (20.0 * m as f32).ln() / n as f32).sqrt().min(0.7);
        let min_cosine = if any_cosine { 0.0 } else { chance };
        Pursuit { m, gram, min_cosine }
    }

    /// Codes one fiber, given d = A'y (m x 1). `code` must be empty and `scratch` of length m.
    pub(crate) fn run(
        &self,
        d: &[f32],
        without: Option<usize>,
        min_code: f32,
        code: &mut Vec<(u32, f32)>,
        scratch: &mut [f32],
    ) {
        let m = self.m;
        // A'r, and |r|^2.
        let (correlations, mut square) = (scratch, 1.0_f32);
        correlations.copy_from_slice(d);
        without.iter().for_each(|&w| correlations[w] = 0.0);
        while code.len() < MAX_CODES {
            let (i, size) = largest(correlations);
            let taken = code.iter().any(|entry| entry.0 == i);
            if taken || size < min_code.max(self.min_cosine * square.sqrt()) {
                break;
            }
            code.push((i, 0.0));
            if !solve(code, d, &self.gram, m) {
                code.pop();
                solve(code, d, &self.gram, m);
                break;
            }
            correlations.copy_from_slice(d);
            for &(i, x) in code.iter() {
                let column = &self.gram[i as usize * m..][..m];
                correlations.iter_mut().zip(column).for_each(|(correlation, g)| *correlation -= x * g);
            }
            without.iter().for_each(|&w| correlations[w] = 0.0);
            square = (1.0 - code.iter().map(|&(i, x)| x * d[i as usize]).sum::<f32>()).max(0.0);
        }
    }
}

/// Returns |a - A x|^2 for a unit vector a, after matching pursuit with up to three patterns.
///
/// d is A'a (m x 1), 0 for patterns that must not be used. The pursuit ends at a pattern i with `!keep[i]`.
pub(crate) fn squared_residual(d: &[f32], gram: &[f32], keep: &[bool]) -> f32 {
    let m = d.len();
    let mut correlations = d.to_vec();
    let mut code: Vec<(u32, f32)> = Vec::new();
    let mut square = 1.0;
    while code.len() < 3 {
        let (i, size) = largest(&correlations);
        if size < MIN_CODE || code.iter().any(|entry| entry.0 == i) || !keep[i as usize] {
            break;
        }
        code.push((i, 0.0));
        if !solve(&mut code, d, gram, m) {
            break;
        }
        for l in 0..m {
            correlations[l] = if d[l] == 0.0 {
                0.0
            } else {
                d[l] - code.iter().map(|&(i, x)| x * gram[i as usize * m + l]).sum::<f32>()
            };
        }
        square = 1.0 - code.iter().map(|&(i, x)| x * d[i as usize]).sum::<f32>();
    }
    square
}

/// Returns the index and the magnitude of the entry with the largest magnitude, the first one if there are several.
fn largest(values: &[f32]) -> (u32, f32) {
    let mut best = (0, -1.0);
    for (first, chunk) in (0..).step_by(16).zip(values.chunks(16)) {
        if chunk.iter().fold(0.0, |a: f32, v| a.max(v.abs())) > best.1 {
            for (i, v) in (first..).zip(chunk) {
                if v.abs() > best.1 {
                    best = (i, v.abs());
                }
            }
        }
    }
    best
}

/// Smallest square of a diagonal entry of the Cholesky factor of G_SS, below which G_SS counts as nearly singular.
const SMALLEST_PIVOT: f64 = 1e-3;

/// Solves the least-squares problem on the support S of a code, G_SS x = d_S, and writes x into the code.
///
/// Returns false, and leaves the code as it was, if G_SS is nearly singular.
fn solve(code: &mut [(u32, f32)], d: &[f32], gram: &[f32], m: usize) -> bool {
    let s = code.len();
    let (mut matrix, mut factor) = ([0.0; MAX_CODES * MAX_CODES], [0.0; MAX_CODES * MAX_CODES]);
    let mut x = [0.0; MAX_CODES];
    for row in 0..s {
        for col in 0..=row {
            matrix[row * s + col] = gram[code[row].0 as usize * m + code[col].0 as usize] as f64;
        }
        if !cholesky_row(&mut factor, &matrix, s, row, SMALLEST_PIVOT) {
            return false;
        }
        x[row] = d[code[row].0 as usize] as f64;
    }
    cholesky_solve(&factor, &mut x[..s]);
    code.iter_mut().zip(x).for_each(|(entry, x)| entry.1 = x as f32);
    true
}
