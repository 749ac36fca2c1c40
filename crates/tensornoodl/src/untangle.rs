//! Stage II: row and col factors from the codes (algo:KRP_algo).
//!
//! Row i of S, laid out as a J x K matrix M_i, is B_i C_i'. Alg. 2 takes its leading singular triple
//!
//! ```text
//! B_i = sqrt(sigma) u,    C_i = sqrt(sigma) v,    M_i v = sigma u,  M_i' u = sigma v
//! ```
//!
//! M_i is known by its few non-zero entries and numerically of rank one, so that a few power steps
//! on the entries give the triple; no dense matrix is formed.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use rayon::prelude::*;

use crate::codes::Codes;
use crate::sparse::Sparse;

/// Most power steps. A matrix of rank one needs two; all are used only where the two leading
/// singular values agree to two digits, and then the model does not hold (see `rank_one`).
const POWER_STEPS: usize = 1000;

/// Entries of a unit singular vector below this are what the power steps left of another one.
const NEGLIGIBLE: f64 = 1e-13;

/// The row factor B (J x m) and the col factor C (K x m) of one tensor.
///
/// Where `rank_one` is far below 1, a pattern's matrix has further blocks that B_i C_i' leaves out, and
/// entries of about 1e-9 and less may be traces of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Factors {
    /// B: column i says how strongly each row takes part in pattern i.
    pub rows: Sparse,
    /// C: column i says how strongly each col takes part in pattern i.
    pub cols: Sparse,
    /// The share of the energy of each M_i that B_i C_i' holds, sigma_1^2 / |M_i|_F^2: 1 where the
    /// model holds, 0 for a pattern that no fiber shows.
    pub rank_one: Vec<f64>,
}

/// One pattern's pair of factors.
struct Pair {
    row: Vec<(u32, f64)>,
    col: Vec<(u32, f64)>,
    rank_one: f64,
}

/// Alg. 2: untangles the codes, pattern by pattern.
pub(crate) fn untangle(codes: &Codes) -> Factors {
    let (rows, cols) = codes.rows_and_cols();
    let by_pattern = codes.matrix().transpose();
    let pairs: Vec<Pair> = (0..by_pattern.cols())
        .into_par_iter()
        .map(|pattern| {
            let entries = by_pattern.column(pattern).iter().map(|&(fiber, x)| {
                let place = codes.places()[fiber as usize];
                (place.row, place.col, x)
            });
            leading_pair(&entries.collect::<Vec<_>>())
        })
        .collect();
    let mut factors = Factors { rows: Sparse::new(rows), cols: Sparse::new(cols), rank_one: Vec::new() };
    for pair in &pairs {
        factors.rows.push(&pair.row);
        factors.cols.push(&pair.col);
        factors.rank_one.push(pair.rank_one);
    }
    factors
}

/// sqrt(sigma) u and sqrt(sigma) v of the sparse matrix with these (row, col, value) entries.
fn leading_pair(entries: &[(u32, u32, f64)]) -> Pair {
    // Only rows and cols that occur are numbered.
    let numbered = |of: fn(&(u32, u32, f64)) -> u32| {
        let mut names: Vec<u32> = entries.iter().map(of).collect();
        names.sort_unstable();
        names.dedup();
        names
    };
    let (rows, cols) = (numbered(|entry| entry.0), numbered(|entry| entry.1));
    let local: Vec<(usize, usize, f64)> = entries
        .iter()
        .map(|&(row, col, x)| (rows.partition_point(|&r| r < row), cols.partition_point(|&c| c < col), x))
        .collect();

    // A start with a part in every direction, the same each time. Random, because codes of +-1 are
    // orthogonal to many a regular vector.
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let mut u: Vec<f64> = rows.iter().map(|_| rng.sample(StandardNormal)).collect();
    let mut v = vec![0.0; cols.len()];
    let mut sigma = 0.0;
    normalise(&mut u);
    for _ in 0..POWER_STEPS {
        v.fill(0.0);
        local.iter().for_each(|&(row, col, x)| v[col] += x * u[row]);
        normalise(&mut v);
        let mut next = vec![0.0; rows.len()];
        local.iter().for_each(|&(row, col, x)| next[row] += x * v[col]);
        sigma = normalise(&mut next);
        let change = next.iter().zip(&u).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        u = next;
        if change <= NEGLIGIBLE / 10.0 {
            break;
        }
    }

    // Choice: u and v are known up to a common sign. The first col of at least half the largest
    // magnitude is made positive, which rounding cannot turn.
    let largest = v.iter().fold(0.0, |a: f64, b| a.max(b.abs()));
    let sign = v.iter().find(|x| x.abs() >= largest / 2.0).map_or(1.0, |x| x.signum());
    let scale = sign * sigma.sqrt();
    let energy: f64 = entries.iter().map(|entry| entry.2 * entry.2).sum();
    let scaled = |names: Vec<u32>, vector: Vec<f64>| {
        names
            .into_iter()
            .zip(vector)
            .filter(|(_, x)| x.abs() > NEGLIGIBLE)
            .map(|(name, x)| (name, scale * x))
            .collect()
    };
    Pair {
        row: scaled(rows, u),
        col: scaled(cols, v),
        rank_one: if energy > 0.0 { (sigma * sigma / energy).min(1.0) } else { 0.0 },
    }
}

/// Scales to unit length and returns the length before.
fn normalise(vector: &mut [f64]) -> f64 {
    let norm = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
    if norm > 0.0 {
        vector.iter_mut().for_each(|x| *x /= norm);
    }
    norm
}
