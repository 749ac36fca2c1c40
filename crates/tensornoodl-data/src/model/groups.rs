//! Groups of rows and cols that share a pattern.

use std::collections::BTreeMap;
use std::ops::Range;

use tensornoodl::{Factors, Sparse};

use crate::model::learn::Model;

/// The threshold of membership: factors below this share of the largest factor do not belong to a group, as in the
/// paper (app:enron).
pub const MEMBER: f64 = 0.05;

/// Rows and cols that share a pattern, strongest first.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The share of the pattern's energy that the group holds, from 0 to 1.
    pub share: f64,
    /// Indices of rows, and their factors.
    pub rows: Vec<(usize, f64)>,
    /// Indices of cols, and their factors.
    pub cols: Vec<(usize, f64)>,
    /// The known group of most members, or none if no member has a known group.
    pub known: Option<Known>,
}

/// The known group that most members of a found group belong to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Name of the known group.
    pub name: String,
    /// Number of members that do not belong to the known group, or whose group is not known: the paper's false
    /// positives.
    pub others: usize,
    /// Number of all members, where a row and a col with the same label count once: the paper's cluster size.
    pub size: usize,
}

impl Model {
    /// Returns the rows (or cols) that take part in a pattern over all steps, strongest first.
    ///
    /// `of` selects the row factors or the col factors. Each index comes with the root of the sum of its squared
    /// factors, with the sign of the factor of largest magnitude.
    pub fn leading(&self, pattern: usize, of: impl Fn(&Factors) -> &Sparse) -> Vec<(usize, f64)> {
        self.leading_in(0..self.factors.len(), pattern, of)
    }

    /// Returns the rows (or cols) that take part in a pattern over a range of steps, strongest first, as
    /// [`Model::leading`] does for all steps.
    ///
    /// # Panics
    /// If the range reaches beyond the steps of the model.
    pub fn leading_in(
        &self,
        steps: Range<usize>,
        pattern: usize,
        of: impl Fn(&Factors) -> &Sparse,
    ) -> Vec<(usize, f64)> {
        let mut sums: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
        for factors in self.factors[steps].iter().filter(|factors| pattern < of(factors).cols()) {
            for &(index, value) in of(factors).column(pattern) {
                let sum = sums.entry(index).or_default();
                let largest = if value.abs() > sum.1.abs() { value } else { sum.1 };
                *sum = (sum.0 + value * value, largest);
            }
        }
        let strength = |(index, (squares, largest)): (u32, (f64, f64))| {
            (index as usize, squares.sqrt() * f64::signum(largest))
        };
        let mut leading: Vec<(usize, f64)> = sums.into_iter().map(strength).collect();
        leading.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
        leading
    }

    /// Returns the groups of rows and cols that share a pattern in the last step. Groups that hold more of the
    /// pattern come first.
    pub fn groups(&self, pattern: usize) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for factors in self.factors.last().into_iter().chain(&self.blocks) {
            let Some(share) = factors.rank_one.get(pattern).copied().filter(|share| *share > 0.0) else {
                break;
            };
            let (rows, cols) = (members(&factors.rows, pattern), members(&factors.cols, pattern));
            let known = self.known_group(&rows, &cols);
            groups.push(Group { share, rows, cols, known });
        }
        groups
    }

    /// Returns the known group that most members belong to.
    fn known_group(&self, rows: &[(usize, f64)], cols: &[(usize, f64)]) -> Option<Known> {
        let card = &self.card;
        let mut groups: BTreeMap<&str, &str> = BTreeMap::new();
        for (members, labels, known) in
            [(rows, &card.rows, &card.row_groups), (cols, &card.cols, &card.col_groups)]
        {
            let known = |index: usize| Some((labels[index].as_str(), known.get(index)?.as_str()));
            groups.extend(members.iter().filter_map(|(index, _)| known(*index)));
        }
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        let named = groups.values().filter(|group| !group.is_empty());
        named.for_each(|group| *counts.entry(group).or_default() += 1);
        // Of two groups with equally many members, the first name wins.
        let (name, count) = counts.into_iter().max_by(|a, b| a.1.cmp(&b.1).then_with(|| b.0.cmp(a.0)))?;
        Some(Known { name: name.into(), others: groups.len() - count, size: groups.len() })
    }
}

/// Returns the members of a group, strongest first: the factors of a pattern that reach the threshold [`MEMBER`].
fn members(factors: &Sparse, pattern: usize) -> Vec<(usize, f64)> {
    let column = factors.column(pattern);
    let largest = column.iter().fold(0.0, |a: f64, entry| a.max(entry.1.abs()));
    let members = column.iter().filter(|entry| entry.1.abs() >= MEMBER * largest);
    let mut members: Vec<(usize, f64)> = members.map(|&(index, value)| (index as usize, value)).collect();
    members.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    members
}
