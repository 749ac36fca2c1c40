//! Stage II for counts: the rank-one Poisson factors of the codes.
//!
//! ```text
//! M_jk ~ Poisson(B_j C_k)                         the events of one pattern at row j and col k
//! B_j = r_j / sqrt(N),    C_k = c_k / sqrt(N)     r and c: row and col sums of M, N: the sum of all entries
//! ```
//!
//! This is the most likely pair of factors, in closed form: B_j C_k = r_j c_k / N has the row and col sums of M. So every
//! row and every col with events is in the factors, and no factor is negative. `factors.rs` has the factors of the exact
//! model.

use std::collections::BTreeMap;

use crate::untangle::pair::Pair;

/// Returns the factors of the matrix with these (row, col, value) entries, none if it has no events (counts:factors).
///
/// `rank_one` is the share of the events that the factors have at the right places: sum min(M_jk, B_j C_k) / N. It is 1
/// if rows and cols take part in the pattern independently of each other, and small if groups of them do.
pub(crate) fn poisson_pair(entries: &[(u32, u32, f64)]) -> Option<Pair> {
    let sums = |index: fn(&(u32, u32, f64)) -> u32| {
        let mut sums: BTreeMap<u32, f64> = BTreeMap::new();
        entries.iter().for_each(|entry| *sums.entry(index(entry)).or_default() += entry.2);
        sums
    };
    let (rows, cols) = (sums(|entry| entry.0), sums(|entry| entry.1));
    let events: f64 = rows.values().sum();
    if events <= 0.0 {
        return None;
    }
    let right = |&(row, col, x): &(u32, u32, f64)| x.min(rows[&row] * (cols[&col] / events));
    let right: f64 = entries.iter().map(right).sum();
    let factor =
        |sums: &BTreeMap<u32, f64>| sums.iter().map(|(&index, sum)| (index, sum / events.sqrt())).collect();
    Some(Pair { row: factor(&rows), col: factor(&cols), rank_one: (right / events).min(1.0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(factor: &[(u32, f64)]) -> Vec<f64> {
        factor.iter().map(|entry| entry.1).collect()
    }

    #[test]
    fn factors_have_the_row_and_col_sums() {
        // Rows 2 and 5, cols 0, 1 and 9, independent of each other.
        let (b, c) = ([(2, 3.0), (5, 1.0)], [(0, 2.0), (1, 4.0), (9, 10.0)]);
        let entries: Vec<(u32, u32, f64)> =
            c.iter().flat_map(|&(col, c)| b.iter().map(move |&(row, b)| (row, col, b * c))).collect();
        let pair = poisson_pair(&entries).unwrap();
        assert_eq!(pair.row.iter().map(|entry| entry.0).collect::<Vec<_>>(), [2, 5]);
        assert_eq!(values(&pair.row), [6.0, 2.0]);
        assert_eq!(values(&pair.col), [1.0, 2.0, 5.0]);
        assert_eq!(pair.rank_one, 1.0);
    }

    #[test]
    fn everybody_with_events_is_in_the_factors_of_groups() {
        // A pair of people, and four people who all write to each other.
        let mut entries = vec![(0, 1, 4.0), (1, 0, 4.0)];
        entries.extend((2..6).flat_map(|row| (2..6).map(move |col| (row, col, 0.5))));
        let pair = poisson_pair(&entries).unwrap();
        let root = 1.0 / 16f64.sqrt();
        assert_eq!(values(&pair.row), [4.0, 4.0, 2.0, 2.0, 2.0, 2.0].map(|sum| sum * root));
        assert_eq!(pair.row, pair.col);
        // 4 x 4 / 16 events of 4 are right in each direction of the pair, and 2 x 2 / 16 of 0.5 in each of 16 cells.
        assert_eq!(pair.rank_one, (2.0 + 16.0 * 0.25) / 16.0);
    }

    #[test]
    fn a_pattern_without_events_has_no_factors() {
        assert_eq!(poisson_pair(&[]), None);
        let pair = poisson_pair(&[(7, 3, 1e-12)]).unwrap();
        assert_eq!((pair.row[0].0, pair.col[0].0, pair.rank_one), (7, 3, 1.0));
    }
}
