//! Stage II: row and col factors from the codes (algo:KRP_algo).
//!
//! Row i of S, laid out as a J x K matrix M_i, is B_i C_i'. Alg. 2 takes its leading singular triple:
//!
//! ```text
//! B_i = sqrt(sigma) u,    C_i = sqrt(sigma) v,    M_i v = sigma u,  M_i' u = sigma v
//! ```
//!
//! M_i is sparse, and `lanczos.rs` finds its singular vectors without a dense matrix. `counts.rs` has the factors of
//! counts.
//!
//! In data that follows the model only roughly, several groups of rows and cols may share a pattern. M_i then has
//! further large singular triples; [`Codes::untangle_blocks`] returns them too.

use rayon::prelude::*;

use crate::data::codes::Codes;
use crate::data::sparse::Sparse;
use crate::parallel::message::{exchange, gather};
use crate::parallel::team::{Solo, Team};
use crate::params::ModelKind;
use crate::untangle::counts::poisson_pair;
use crate::untangle::lanczos::{NEGLIGIBLE, SparseMatrix, normalise};
use crate::untangle::pair::{Entries, Pair};

/// The row factor B (J x m) and the col factor C (K x m) of one tensor.
///
/// Where `rank_one` is far below 1, the matrix of a pattern has further blocks that B_i C_i' does not contain
/// ([`Codes::untangle_blocks`]), and entries of about 1e-9 and less may be traces of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Factors {
    /// B: column i says how strongly each row takes part in pattern i.
    pub rows: Sparse,
    /// C: column i says how strongly each col takes part in pattern i.
    pub cols: Sparse,
    /// The fraction of the energy of each M_i that B_i C_i' explains, sigma^2 / |M_i|_F^2: 1 where the
    /// model holds, 0 for a pattern that is in no fiber. For counts, the share of the events that B_i C_i' has at the
    /// right places.
    pub rank_one: Vec<f64>,
}

impl Codes {
    /// Stage II: computes the row and col factors of this tensor.
    pub fn untangle(&self) -> Factors {
        untangle(&Solo, self, 1).remove(0)
    }

    /// Stage II with `count` pairs of factors for each pattern: the leading one and the next singular pairs.
    ///
    /// Further pairs are large where several groups of rows and cols share a pattern, so that its matrix does not
    /// have rank one. The pairs of one pattern are orthogonal to each other, and `rank_one` is the fraction of the
    /// energy that each of them explains.
    ///
    /// For counts there is one pair, and further pairs are empty: [`Learner::groups`](crate::Learner::groups) finds the
    /// groups of counts.
    ///
    /// The ranks of a team hold the codes of different fibers; each rank returns the factors of the whole tensor.
    pub fn untangle_blocks(&self, team: &dyn Team, count: usize) -> Vec<Factors> {
        untangle(team, self, count)
    }
}

/// Alg. 2: untangles the codes, pattern by pattern, into `count` pairs of factors, the leading pairs first.
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
    send_to_owners(team, &mut entries);
    let untangled = entries.into_par_iter().enumerate().map(|(pattern, mut entries)| {
        // The order must not depend on the rank that sent an entry.
        entries.sort_unstable_by_key(|entry| (entry.1, entry.0));
        match codes.kind() {
            _ if owner(team, pattern) != team.rank() => Vec::new(),
            ModelKind::Exact => leading_pairs(&entries, count),
            ModelKind::Counts => poisson_pair(&entries).into_iter().collect(),
        }
    });
    let pairs = share(team, untangled.collect());
    let block = |at: usize| {
        let mut factors = Factors { rows: Sparse::new(rows), cols: Sparse::new(cols), rank_one: Vec::new() };
        for pair in &pairs {
            // A matrix with few rows or cols has fewer pairs than `count`.
            let pair = pair.get(at).cloned().unwrap_or_default();
            factors.rows.push(&pair.row);
            factors.cols.push(&pair.col);
            factors.rank_one.push(pair.rank_one);
        }
        factors
    };
    (0..count).map(block).collect()
}

/// The rank that untangles a pattern.
fn owner(team: &dyn Team, pattern: usize) -> usize {
    pattern % team.size()
}

/// Sends all entries of a pattern to the rank that untangles it.
fn send_to_owners(team: &dyn Team, entries: &mut [Entries]) {
    if team.size() == 1 {
        return;
    }
    let mut parcels: Vec<Vec<(usize, Entries)>> = vec![Vec::new(); team.size()];
    for (pattern, entries) in entries.iter_mut().enumerate().filter(|(_, entries)| !entries.is_empty()) {
        parcels[owner(team, pattern)].push((pattern, std::mem::take(entries)));
    }
    for (pattern, received) in exchange(team, parcels).into_iter().flatten() {
        entries[pattern].extend(received);
    }
}

/// Sends the pairs of the patterns of this rank to all ranks, and returns the pairs of all patterns.
fn share(team: &dyn Team, pairs: Vec<Vec<Pair>>) -> Vec<Vec<Pair>> {
    if team.size() == 1 {
        return pairs;
    }
    let mut all = vec![Vec::new(); pairs.len()];
    let own: Vec<(usize, Vec<Pair>)> =
        pairs.into_iter().enumerate().filter(|(_, pairs)| !pairs.is_empty()).collect();
    for (pattern, received) in gather(team, own).into_iter().flatten() {
        all[pattern] = received;
    }
    all
}

/// Returns sqrt(sigma) u and sqrt(sigma) v for the leading singular triples, at most `count`, of the sparse matrix with
/// these (row, col, value) entries.
fn leading_pairs(entries: &[(u32, u32, f64)], count: usize) -> Vec<Pair> {
    // Rows and cols without entries are left out.
    let occurring = |index: fn(&(u32, u32, f64)) -> u32| {
        let mut indices: Vec<u32> = entries.iter().map(index).collect();
        indices.sort_unstable();
        indices.dedup();
        indices
    };
    let (rows, cols) = (occurring(|entry| entry.0), occurring(|entry| entry.1));
    // In units of the largest entry, so that fourth powers neither overflow nor underflow.
    let unit = entries.iter().fold(0.0, |a: f64, entry| a.max(entry.2.abs()));
    let entry = |&(row, col, x): &(u32, u32, f64)| {
        (rows.partition_point(|&r| r < row), cols.partition_point(|&c| c < col), x / unit)
    };
    let matrix =
        SparseMatrix { rows: rows.len(), cols: cols.len(), entries: entries.iter().map(entry).collect() };
    let energy: f64 = matrix.entries.iter().map(|entry| entry.2 * entry.2).sum();
    let pair = |v: Vec<f64>| {
        let mut u = matrix.times(&v);
        let sigma = normalise(&mut u);
        // Choice: u and v are known up to a common sign. The first entry of v of at least half the largest
        // magnitude is made positive; rounding cannot flip its sign.
        let largest = v.iter().fold(0.0, |a: f64, b| a.max(b.abs()));
        let sign = v.iter().find(|x| x.abs() >= largest / 2.0).map_or(1.0, |x| x.signum());
        let scaled = |indices: &[u32], vector: &[f64]| {
            let entries = indices.iter().zip(vector).filter(|(_, x)| x.abs() > NEGLIGIBLE);
            entries.map(|(index, x)| (*index, sign * (sigma * unit).sqrt() * x)).collect()
        };
        let rank_one = (sigma * sigma / energy).min(1.0);
        Pair { row: scaled(&rows, &u), col: scaled(&cols, &v), rank_one }
    };
    let pairs = matrix.leading_vectors(count).into_iter().map(pair);
    // If the matrix has fewer singular triples, further pairs are rounding error.
    pairs.filter(|pair| pair.rank_one > NEGLIGIBLE).collect()
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
        // The sum of all pairs is the matrix.
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
        // More singular values than the basis of one run has vectors.
        let entries: Vec<(u32, u32, f64)> =
            (0..300).map(|at| (at, at, 1.0 - f64::from(at) / 3000.0)).collect();
        let pairs = leading_pairs(&entries, 1);
        let (first, traces) = pairs[0].row.split_first().unwrap();
        assert!(pairs.len() == 1 && first.0 == 0 && (first.1 - 1.0).abs() < 1e-12);
        assert!(traces.iter().all(|(_, x)| x.abs() < 1e-9), "{traces:?}");
    }
}
