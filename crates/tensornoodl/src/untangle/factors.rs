//! Stage II: row and col factors from the codes (algo:KRP_algo).
//!
//! Row i of S, laid out as a J x K matrix M_i, is B_i C_i'. Alg. 2 takes its leading singular triple
//!
//! ```text
//! B_i = sqrt(sigma) u,    C_i = sqrt(sigma) v,    M_i v = sigma u,  M_i' u = sigma v
//! ```
//!
//! M_i is known by its few non-zero entries, and no dense matrix is formed: the Lanczos iteration finds v among
//! v0, (M'M) v0, (M'M)^2 v0, ..., and where M_i is of rank one the first of them is it.
//!
//! Data that follows the model only roughly may have several groups share a pattern. Then M_i has further
//! singular triples of some size, which are found beside the first ([`Codes::untangle_blocks`]).

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use rayon::prelude::*;

use crate::data::codes::Codes;
use crate::data::sparse::Sparse;
use crate::linalg::decompose::eigen;
use crate::linalg::vector::{add_scaled, dot};
use crate::parallel::team::{Solo, Team, get, put, put_all};
use crate::shape::Place;

/// Plain power steps that come first.
const POWER_STEPS: usize = 8;

/// Vectors that are orthogonal to each other, at most; then the iteration begins again from the best so far.
const MOST_VECTORS: usize = 48;

/// Beginnings, at most. They are used up only where singular values agree to many digits; the pairs are then mixtures of
/// those whose values are that close.
const BEGINNINGS: usize = 20;

/// Entries of a unit singular vector below this are what the iteration left of another one.
const NEGLIGIBLE: f64 = 1e-13;

/// A residual below this share of the largest eigenvalue is rounding.
const SETTLED: f64 = 1e-14;

/// The row factor B (J x m) and the col factor C (K x m) of one tensor.
///
/// Where `rank_one` is far below 1, a pattern's matrix has further blocks that B_i C_i' leaves out
/// ([`Codes::untangle_blocks`]), and entries of about 1e-9 and less may be traces of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Factors {
    /// B: column i says how strongly each row takes part in pattern i.
    pub rows: Sparse,
    /// C: column i says how strongly each col takes part in pattern i.
    pub cols: Sparse,
    /// The share of the energy of each M_i that B_i C_i' holds, sigma^2 / |M_i|_F^2: 1 where the
    /// model holds, 0 for a pattern that no fiber shows.
    pub rank_one: Vec<f64>,
}

/// One pattern's pair of factors.
#[derive(Clone, Default)]
struct Pair {
    row: Vec<(u32, f64)>,
    col: Vec<(u32, f64)>,
    rank_one: f64,
}

/// The codes of one pattern, by place.
type Entries = Vec<(u32, u32, f64)>;

impl Codes {
    /// Stage II: the row and col factors of this tensor.
    pub fn untangle(&self) -> Factors {
        untangle(&Solo, self, 1).remove(0)
    }

    /// The same with further pairs of factors beside the leading one, so many in all: where several groups of rows and
    /// cols share a pattern, its matrix is not of rank one, and these are its next singular pairs.
    ///
    /// Of one pattern, they are orthogonal to each other, and `rank_one` is the share of the energy that each holds.
    ///
    /// The ranks of a team, which have codes of some of the fibers each, all get the factors of the whole.
    pub fn untangle_blocks(&self, team: &dyn Team, count: usize) -> Vec<Factors> {
        untangle(team, self, count)
    }
}

/// Alg. 2: untangles the codes, pattern by pattern, into so many pairs of factors, the leading ones first.
pub(crate) fn untangle(team: &dyn Team, codes: &Codes, count: usize) -> Vec<Factors> {
    let (rows, cols) = codes.rows_and_cols();
    let by_pattern = codes.matrix().transpose();
    let entries = |pattern: usize| {
        let entries = by_pattern.column(pattern).iter().map(|&(fiber, x)| {
            let place = codes.places()[fiber as usize];
            (place.row, place.col, x)
        });
        entries.collect()
    };
    let mut entries: Vec<Entries> = (0..by_pattern.cols()).map(entries).collect();
    hand_out(team, &mut entries);
    let mine = |pattern: usize| pattern % team.size() == team.rank();
    let untangled = entries.into_par_iter().enumerate().map(|(pattern, mut entries)| {
        // By place, whoever had them.
        entries.sort_unstable_by_key(|entry| (entry.1, entry.0));
        if mine(pattern) { leading_pairs(&entries, count) } else { Vec::new() }
    });
    let mut pairs: Vec<Vec<Pair>> = untangled.collect();
    collect(team, &mut pairs);
    let block = |at: usize| {
        let mut factors = Factors { rows: Sparse::new(rows), cols: Sparse::new(cols), rank_one: Vec::new() };
        for pair in &pairs {
            // A matrix of few rows or cols has few pairs.
            let pair = pair.get(at).cloned().unwrap_or_default();
            factors.rows.push(&pair.row);
            factors.cols.push(&pair.col);
            factors.rank_one.push(pair.rank_one);
        }
        factors
    };
    (0..count).map(block).collect()
}

/// All entries of a pattern go to one rank, which moves each of them once.
fn hand_out(team: &dyn Team, entries: &mut [Entries]) {
    if team.size() == 1 {
        return;
    }
    let mut parcels = vec![Vec::new(); team.size()];
    for (pattern, entries) in entries.iter_mut().enumerate() {
        let parcel = &mut parcels[pattern % team.size()];
        if !entries.is_empty() {
            put(parcel, pattern as u64);
            put_all(parcel, entries, |parcel, &(row, col, x)| {
                put(parcel, Place { row, col }.word());
                put(parcel, x.to_bits());
            });
            entries.clear();
        }
    }
    for parcel in team.exchange(parcels) {
        let bytes = &mut &parcel[..];
        while !bytes.is_empty() {
            let entries = &mut entries[get(bytes) as usize];
            for _ in 0..get(bytes) {
                let (place, x) = (Place::of_word(get(bytes)), f64::from_bits(get(bytes)));
                entries.push((place.row, place.col, x));
            }
        }
    }
}

/// And its factors to all of them.
fn collect(team: &dyn Team, pairs: &mut [Vec<Pair>]) {
    if team.size() == 1 {
        return;
    }
    let mut own = Vec::new();
    let write = |own: &mut Vec<u8>, &(at, x): &(u32, f64)| {
        put(own, at.into());
        put(own, x.to_bits());
    };
    for (pattern, pairs) in pairs.iter().enumerate() {
        for pair in pairs {
            put(&mut own, pattern as u64);
            put(&mut own, pair.rank_one.to_bits());
            put_all(&mut own, &pair.row, write);
            put_all(&mut own, &pair.col, write);
        }
    }
    pairs.iter_mut().for_each(Vec::clear);
    for parcel in team.gather(own) {
        let bytes = &mut &parcel[..];
        while !bytes.is_empty() {
            let (pattern, rank_one) = (get(bytes) as usize, f64::from_bits(get(bytes)));
            let mut read =
                || (0..get(bytes)).map(|_| (get(bytes) as u32, f64::from_bits(get(bytes)))).collect();
            let (row, col) = (read(), read());
            pairs[pattern].push(Pair { row, col, rank_one });
        }
    }
}

/// sqrt(sigma) u and sqrt(sigma) v for the leading singular triples of the sparse matrix with these (row, col, value)
/// entries, at most `count`.
fn leading_pairs(entries: &[(u32, u32, f64)], count: usize) -> Vec<Pair> {
    // Only rows and cols that occur are numbered.
    let numbered = |of: fn(&(u32, u32, f64)) -> u32| {
        let mut names: Vec<u32> = entries.iter().map(of).collect();
        names.sort_unstable();
        names.dedup();
        names
    };
    let (rows, cols) = (numbered(|entry| entry.0), numbered(|entry| entry.1));
    // In units of the largest, so that squares of squares are numbers.
    let unit = entries.iter().fold(0.0, |a: f64, entry| a.max(entry.2.abs()));
    let entry = |&(row, col, x): &(u32, u32, f64)| {
        (rows.partition_point(|&r| r < row), cols.partition_point(|&c| c < col), x / unit)
    };
    let matrix = Matrix { rows: rows.len(), cols: cols.len(), entries: entries.iter().map(entry).collect() };
    let energy: f64 = matrix.entries.iter().map(|entry| entry.2 * entry.2).sum();
    let pair = |v: Vec<f64>| {
        let mut u = matrix.times(&v);
        let sigma = normalise(&mut u);
        // Choice: u and v are known up to a common sign. The first col of at least half the largest
        // magnitude is made positive, which rounding cannot turn.
        let largest = v.iter().fold(0.0, |a: f64, b| a.max(b.abs()));
        let sign = v.iter().find(|x| x.abs() >= largest / 2.0).map_or(1.0, |x| x.signum());
        let scaled = |names: &[u32], vector: &[f64]| {
            let entries = names.iter().zip(vector).filter(|(_, x)| x.abs() > NEGLIGIBLE);
            entries.map(|(name, x)| (*name, sign * (sigma * unit).sqrt() * x)).collect()
        };
        let rank_one = (sigma * sigma / energy).min(1.0);
        Pair { row: scaled(&rows, &u), col: scaled(&cols, &v), rank_one }
    };
    let pairs = matrix.leading(count).into_iter().map(pair);
    // What is left of a matrix that has fewer is rounding.
    pairs.filter(|pair| pair.rank_one > NEGLIGIBLE).collect()
}

/// A sparse matrix M, by (row, col, value).
struct Matrix {
    rows: usize,
    cols: usize,
    entries: Vec<(usize, usize, f64)>,
}

impl Matrix {
    /// M v.
    fn times(&self, v: &[f64]) -> Vec<f64> {
        let mut u = vec![0.0; self.rows];
        self.entries.iter().for_each(|&(row, col, x)| u[row] += x * v[col]);
        u
    }

    /// M'u.
    fn transposed_times(&self, u: &[f64]) -> Vec<f64> {
        let mut v = vec![0.0; self.cols];
        self.entries.iter().for_each(|&(row, col, x)| v[col] += x * u[row]);
        v
    }

    /// The leading right singular vectors, at most `count`, by the Lanczos iteration on M'M.
    fn leading(&self, count: usize) -> Vec<Vec<f64>> {
        if self.entries.is_empty() {
            return Vec::new();
        }
        // A start with a part in every direction, the same each time. Random, because codes of +-1 are
        // orthogonal to many a regular vector.
        let mut rng = ChaCha8Rng::seed_from_u64(0);
        let mut start = || {
            let random: Vec<f64> = (0..self.rows).map(|_| rng.sample(StandardNormal)).collect();
            self.transposed_times(&random)
        };
        let mut best = start();
        normalise(&mut best);
        // Where the model holds, this is all it takes.
        for _ in 0..POWER_STEPS {
            let mut next = self.transposed_times(&self.times(&best));
            normalise(&mut next);
            let change = next.iter().zip(&best).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            best = next;
            if change <= SETTLED {
                break;
            }
        }
        for _ in 1..BEGINNINGS {
            match self.lanczos(best, &mut start, count) {
                Ok(settled) => return settled,
                // All of them again, as one vector.
                Err(vectors) => {
                    best = vec![0.0; self.cols];
                    vectors.iter().for_each(|v| add_scaled(&mut best, 1.0, v));
                }
            }
        }
        self.lanczos(best, &mut start, count).unwrap_or_else(|vectors| vectors)
    }

    /// Singular vectors from the space of v, M'M v, ...: settled, or as good as they have become. Where that space ends
    /// too early, it goes on with another start.
    fn lanczos(
        &self,
        mut v: Vec<f64>,
        start: &mut impl FnMut() -> Vec<f64>,
        count: usize,
    ) -> Result<Vec<Vec<f64>>, Vec<Vec<f64>>> {
        let most = MOST_VECTORS.max(4 * count).min(self.cols);
        // Orthogonal vectors V, M V, and V'M'M V.
        let (mut basis, mut images): (Vec<Vec<f64>>, Vec<Vec<f64>>) = (Vec::new(), Vec::new());
        let mut products: Vec<Vec<f64>> = Vec::new();
        normalise(&mut v);
        loop {
            let image = self.times(&v);
            let mut next = self.transposed_times(&image);
            images.push(image);
            basis.push(v);
            let size = basis.len();
            products.push(images.iter().map(|other| dot(other, &images[size - 1])).collect());
            let product = |at: usize| products[(at / size).max(at % size)][(at / size).min(at % size)];
            let product: Vec<f64> = (0..size * size).map(product).collect();
            // Values that are not finite have no vectors.
            let eigen = if size == 1 { Some((product, vec![1.0])) } else { eigen(&product, size) };
            let Some((values, vectors)) = eigen else { return Ok(Vec::new()) };
            let largest = values[size - 1];
            let mut rest = orthogonalise(&mut next, &basis);
            // By decreasing eigenvalue; what the space lacks of a vector is its last coordinate times the rest.
            let leading = || (0..size).rev().take(count).map(|at| &vectors[at * size..][..size]);
            let lack = leading().map(|y| y[size - 1].abs()).fold(0.0, f64::max);
            let mut settled = size >= count && rest * lack <= SETTLED * largest;
            if !settled && rest <= SETTLED * largest {
                // M'M makes nothing new of this space; there may be more where singular values are the same.
                next = start();
                let length = normalise(&mut next);
                rest = orthogonalise(&mut next, &basis);
                settled = length == 0.0 || rest <= NEGLIGIBLE;
            }
            if settled || size == most {
                let combined = |y: &[f64]| {
                    let mut v = vec![0.0; self.cols];
                    basis.iter().zip(y).for_each(|(b, &y)| add_scaled(&mut v, y, b));
                    v
                };
                let found = leading().map(combined).collect();
                return if settled || size == self.cols { Ok(found) } else { Err(found) };
            }
            v = next;
        }
    }
}

/// Takes the parts along orthogonal unit vectors out, scales what is left to unit length, and returns how long it was.
fn orthogonalise(vector: &mut [f64], basis: &[Vec<f64>]) -> f64 {
    // Twice is enough for orthogonality to rounding.
    for v in basis.iter().chain(basis) {
        let part = dot(v, vector);
        add_scaled(vector, -part, v);
    }
    normalise(vector)
}

/// Scales to unit length and returns the length before.
fn normalise(vector: &mut [f64]) -> f64 {
    let norm = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
    if norm > 0.0 {
        vector.iter_mut().for_each(|x| *x /= norm);
    }
    norm
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three groups, of which two are equally strong, and an entry that belongs to none.
    const GROUPS: [(u32, u32, f64); 13] = [
        (0, 0, 3.0),
        (0, 5, 3.0),
        (7, 0, 3.0),
        (7, 5, 3.0),
        (1, 1, 2.0),
        (1, 2, -2.0),
        (2, 1, 2.0),
        (2, 2, -2.0),
        (3, 3, 2.0),
        (3, 4, 2.0),
        (4, 3, 2.0),
        (4, 4, 2.0),
        (9, 9, 0.5),
    ];

    #[test]
    fn further_blocks_are_the_next_singular_pairs() {
        let pairs = leading_pairs(&GROUPS, 4);
        let energy: f64 = GROUPS.iter().map(|entry| entry.2 * entry.2).sum();
        let sigmas: Vec<f64> = pairs.iter().map(|pair| (pair.rank_one * energy).sqrt()).collect();
        for (sigma, expected) in sigmas.iter().zip([6.0, 4.0, 4.0, 0.5]) {
            assert!((sigma - expected).abs() < 1e-12, "{sigmas:?}");
        }
        let near = |entries: &[(u32, f64)], expected: &[(u32, f64)]| {
            entries.len() == expected.len()
                && entries.iter().zip(expected).all(|(a, b)| a.0 == b.0 && (a.1 - b.1).abs() < 1e-12)
        };
        let root = 3f64.sqrt();
        assert!(near(&pairs[0].row, &[(0, root), (7, root)]) && near(&pairs[0].col, &[(0, root), (5, root)]));
        assert!(near(&pairs[3].row, &[(9, 0.5f64.sqrt())]) && near(&pairs[3].col, &[(9, 0.5f64.sqrt())]));
        // ThreadRank they are the matrix.
        let mut sums = std::collections::BTreeMap::new();
        for pair in &pairs {
            for (row, b) in &pair.row {
                pair.col.iter().for_each(|(col, c)| *sums.entry((*row, *col)).or_insert(0.0) += b * c);
            }
        }
        for (row, col, x) in GROUPS {
            assert!((sums.remove(&(row, col)).unwrap_or(0.0) - x).abs() < 1e-12);
        }
        assert!(sums.values().all(|x: &f64| x.abs() < 1e-12));
    }

    #[test]
    fn the_scale_makes_no_difference() {
        let pairs = leading_pairs(&GROUPS, 3);
        for scale in [1e-100, 1e90] {
            let scaled: Vec<(u32, u32, f64)> =
                GROUPS.iter().map(|&(row, col, x)| (row, col, scale * x)).collect();
            for (pair, other) in pairs.iter().zip(leading_pairs(&scaled, 3)) {
                assert!((pair.rank_one - other.rank_one).abs() < 1e-14);
                assert_eq!(pair.row.len(), other.row.len());
            }
        }
    }

    #[test]
    fn a_matrix_of_rank_one_has_one_pair() {
        let entries: Vec<(u32, u32, f64)> =
            (0..60).map(|at| (at / 6, at % 6, f64::from(at / 6 + 1) * (f64::from(at % 6) - 2.5))).collect();
        let pairs = leading_pairs(&entries, 3);
        assert_eq!(pairs.len(), 1);
        assert!((pairs[0].rank_one - 1.0).abs() < 1e-14);
        for (row, col, x) in entries {
            assert!((pairs[0].row[row as usize].1 * pairs[0].col[col as usize].1 - x).abs() < 1e-13 * 25.0);
        }
        assert!(leading_pairs(&[], 2).is_empty());
    }

    #[test]
    fn singular_values_that_lie_close_are_told_apart() {
        // Larger than the space of one beginning.
        let entries: Vec<(u32, u32, f64)> =
            (0..300).map(|at| (at, at, 1.0 - f64::from(at) / 3000.0)).collect();
        let pairs = leading_pairs(&entries, 1);
        let (first, traces) = pairs[0].row.split_first().unwrap();
        assert!(pairs.len() == 1 && first.0 == 0 && (first.1 - 1.0).abs() < 1e-12);
        assert!(traces.iter().all(|(_, x)| x.abs() < 1e-9), "{traces:?}");
    }
}
