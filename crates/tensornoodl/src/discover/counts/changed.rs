//! Patterns that a step changes beyond recognition.
//!
//! New events may look more like a weak pattern than like any other, and move it to another shape. Such a pattern is a
//! new one: it gets the events by which the old one grew, and the old one stays what it was before the step. An old
//! pattern that has no events any more is removed like any other.

use crate::discover::counts::growth::Growth;
use crate::discover::counts::mixture::merge_loss;
use crate::linalg::vector::dot;

/// A pattern is not recognized if the cosine between its shapes before and after a step is below this: if less than a
/// quarter of its energy has the old shape.
const RECOGNIZED: f64 = 0.5;

/// Patterns that are split, and how sure that is.
pub(crate) struct Split {
    /// All patterns: the old ones as they were before the step, and the new ones at the end.
    pub(crate) growth: Growth,
    /// The numbers of the patterns that were split, in order. There is one new pattern for each.
    pub(crate) changed: Vec<usize>,
    /// For each new pattern, how significantly its events differ from the old pattern, in standard errors.
    pub(crate) evidence: Vec<f64>,
}

/// Splits the patterns that changed beyond recognition. None if all patterns are recognized.
///
/// `before` has the patterns of n features before a step, with their statistics after forgetting. `after` has the same
/// patterns after the step, in the same order, and perhaps further ones.
pub(crate) fn split(n: usize, before: &Growth, after: &Growth) -> Option<Split> {
    let mut split = Split { growth: after.clone(), changed: Vec::new(), evidence: Vec::new() };
    let shapes = before.columns.chunks_exact(n).zip(after.columns.chunks_exact(n));
    let statistics = before.statistics.chunks_exact(n).zip(after.statistics.chunks_exact(n));
    for (number, ((old, new), (past, all))) in shapes.zip(statistics).enumerate() {
        if dot(old, new) >= RECOGNIZED * (dot(old, old) * dot(new, new)).sqrt() {
            continue;
        }
        let grown: Vec<f64> = all.iter().zip(past).map(|(all, past)| (all - past).max(0.0)).collect();
        let loss = loss(past, &grown);
        // By chance, the loss is about half of the number of features with events.
        let features = past.iter().zip(&grown).filter(|(past, grown)| **past + **grown >= 0.5).count();
        if loss <= features as f64 {
            continue;
        }
        split.changed.push(number);
        split.evidence.push((2.0 * loss).sqrt());
        split.growth.columns[number * n..][..n].copy_from_slice(old);
        split.growth.statistics[number * n..][..n].copy_from_slice(past);
        split.growth.columns.extend_from_slice(new);
        split.growth.statistics.extend_from_slice(&grown);
    }
    (!split.changed.is_empty()).then_some(split)
}

/// The log-likelihood that is lost if events with these features, before and since, come from one pattern.
fn loss(past: &[f64], grown: &[f64]) -> f64 {
    let events = [past, grown].map(|events| events.iter().sum::<f64>());
    if events[0] <= 0.0 || events[1] <= 0.0 {
        return 0.0;
    }
    let shares =
        |values: &[f64], events: f64| -> Vec<f64> { values.iter().map(|value| value / events).collect() };
    merge_loss(&shares(past, events[0]), &shares(grown, events[1]), events[0], events[1], false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn growth(statistics: &[[f64; 4]]) -> Growth {
        let shares = |column: &[f64; 4]| column.map(|value| value / column.iter().sum::<f64>());
        Growth {
            columns: statistics.iter().flat_map(shares).collect(),
            statistics: statistics.iter().flatten().copied().collect(),
        }
    }

    #[test]
    fn a_pattern_that_becomes_another_one_is_split() {
        let before = growth(&[[100.0, 50.0, 0.0, 0.0], [5.0, 5.0, 10.0, 5.0]]);
        let after = growth(&[[110.0, 60.0, 0.0, 0.0], [5.0, 5.0, 10.0, 205.0], [0.0, 9.0, 9.0, 0.0]]);
        let split = split(4, &before, &after).unwrap();
        assert_eq!(split.changed, [1]);
        assert!(split.evidence[0] > 5.0);
        let expected =
            [[110.0, 60.0, 0.0, 0.0], [5.0, 5.0, 10.0, 5.0], [0.0, 9.0, 9.0, 0.0], [0.0, 0.0, 0.0, 200.0]];
        assert_eq!(split.growth.statistics, expected.concat());
        assert_eq!(split.growth.columns[4..8], before.columns[4..]);
    }

    #[test]
    fn few_events_and_slow_changes_are_no_other_pattern() {
        // Three events in three features say little about a pattern.
        let before = growth(&[[1.0, 1.0, 0.0, 0.0]]);
        assert!(split(4, &before, &growth(&[[1.0, 1.0, 2.0, 1.0]])).is_none());
        let before = growth(&[[100.0, 50.0, 10.0, 0.0]]);
        assert!(split(4, &before, &growth(&[[100.0, 120.0, 30.0, 20.0]])).is_none());
    }
}
