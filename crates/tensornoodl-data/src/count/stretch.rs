//! Feature axes of times or bins that are much longer than the events need, and the value that is to blame.

use crate::count::axis::MAX_FEATURES;

/// A feature axis with many labels without events, because cells of time and bins are complete between the first and the
/// last that occur.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    /// The axis, as users write it.
    pub axis: String,
    /// Number of labels of the axis.
    pub labels: usize,
    /// Number of labels that have events.
    pub used: usize,
    /// The first and the last label, and the first line of the table with each.
    pub ends: [(String, u64); 2],
    /// Some labels that are far from all others.
    pub far: Option<Far>,
}

/// Labels at one end of an axis that are farther from all others than all others are from each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Far {
    /// The farthest of these labels.
    pub label: String,
    /// The first line of the table with this label.
    pub line: u64,
    /// The first and the last of the other labels.
    pub others: [String; 2],
}

/// Times and bins may have this many labels without asking, however few of them have events.
const FREE: usize = 10_000;

/// Shorter axes are never called stretched.
const SHORT: usize = 100;

/// An axis is stretched if it has more than this many times the labels that have events.
const FACTOR: usize = 10;

impl Stretch {
    /// Returns the largest number of labels that an axis may have if `used` of them have events.
    pub(crate) fn limit(used: usize) -> usize {
        FREE.max(FACTOR.saturating_mul(used))
    }

    /// Returns whether the axis is so long that users should know.
    pub(crate) fn is_worth_a_word(&self) -> bool {
        self.labels > SHORT.max(FACTOR.saturating_mul(self.used))
    }

    /// Says what to do if the axis has too many labels.
    pub(crate) fn remedy(&self) -> String {
        let raise = match self.labels {
            labels if labels > MAX_FEATURES => String::new(),
            labels => format!(", or allow them with --max-features {labels}"),
        };
        format!("leave such rows out with --where, take wider cells or bins{raise}")
    }

    /// Describes the stretch in words. `file` is the name of the table.
    pub fn words(&self, file: &str) -> String {
        let Stretch { axis, used, ends, far, .. } = self;
        let labels = match self.labels {
            labels if labels > MAX_FEATURES => format!("more than {MAX_FEATURES}"),
            labels => labels.to_string(),
        };
        match far {
            Some(Far { label, line, others: [first, last] }) => format!(
                "{file}, line {line}: {label} stretches {axis} to {labels} labels, of which {used} have events; \
                 the others are from {first} to {last}"
            ),
            None => format!(
                "{file}: {axis} has {labels} labels, of which {used} have events; they are from {} (line {}) to {} \
                 (line {})",
                ends[0].0, ends[0].1, ends[1].0, ends[1].1
            ),
        }
    }
}

/// Returns where to cut sorted numbers such that one side is farther from the other side than either is long: the index
/// of the first number of the upper side. None if there is no such gap.
pub(crate) fn far_gap(sorted: &[i64]) -> Option<usize> {
    let (first, last) = (*sorted.first()?, *sorted.last()?);
    let is_far = |at: &usize| sorted[*at].abs_diff(sorted[at - 1]) > last.abs_diff(first) / 2;
    (1..sorted.len()).find(is_far)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_of_more_than_half_divides_numbers() {
        assert_eq!(far_gap(&[]), None);
        assert_eq!(far_gap(&[3]), None);
        assert_eq!(far_gap(&[0, 19_723, 19_724, 20_088]), Some(1));
        assert_eq!(far_gap(&[1, 2, 3, 50]), Some(3));
        assert_eq!(far_gap(&[0, 10, 20, 30]), None);
        assert_eq!(far_gap(&[i64::MIN, 0, i64::MAX]), Some(1));
    }
}
