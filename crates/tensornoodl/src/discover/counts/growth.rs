//! Patterns of counts and their statistics, as a search leaves them.

use crate::discover::counts::mixture::Mixture;
use crate::encode::counts::FeatureRows;

/// Patterns that were found: the new dictionary and its statistics.
#[derive(Clone)]
pub(crate) struct Growth {
    /// A (n x m), column by column, each with sum 1. The patterns that were known before come first.
    pub(crate) columns: Vec<f64>,
    /// S (n x m), column by column.
    pub(crate) statistics: Vec<f64>,
}

impl Growth {
    /// The patterns of a fit. `past` (n x m) is what earlier steps have in their statistics.
    pub(crate) fn new(fit: &Mixture, past: &FeatureRows) -> Growth {
        let mut statistics = fit.statistics.columns();
        statistics.iter_mut().zip(past.columns()).for_each(|(s, p)| *s += p);
        Growth { columns: fit.rows.columns(), statistics }
    }

    /// Moves the first patterns to these numbers, which increase. The other patterns fill the numbers that are left.
    pub(crate) fn in_places(self, n: usize, first: &[usize]) -> Growth {
        let m = self.columns.len() / n;
        let left = (0..m).filter(|number| !first.contains(number));
        let mut order: Vec<(usize, usize)> = first.iter().copied().chain(left).zip(0..).collect();
        order.sort_unstable();
        let ordered = |columns: &[f64]| -> Vec<f64> {
            order.iter().flat_map(|&(_, at)| &columns[at * n..][..n]).copied().collect()
        };
        Growth { columns: ordered(&self.columns), statistics: ordered(&self.statistics) }
    }
}
