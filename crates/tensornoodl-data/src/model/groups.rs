//! Groups of rows and cols that share a pattern.

use std::collections::BTreeMap;
use std::ops::Range;

use tensornoodl::{Factors, Groups, ModelKind, Sparse};

use crate::model::learn::Model;

/// The threshold of membership: factors below this share of the largest factor do not belong to a group, as in the
/// paper (app:enron). For counts: a row or col does not belong to a group that has less of its events than this share of
/// what the group with most of its events has.
pub const MEMBER: f64 = 0.05;

/// Rows and cols that share a pattern, strongest first.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Number of the group, from 1. A group of counts has the same number in all patterns that it shares.
    pub number: usize,
    /// The share of the pattern's energy that the group holds, from 0 to 1. For counts, the share of its events.
    pub share: f64,
    /// Indices of rows, and their factors. For counts, the numbers of events that they have in the group, in all
    /// patterns.
    pub rows: Vec<(usize, f64)>,
    /// Indices of cols, and their factors. For counts, the numbers of events that they have in the group, in all
    /// patterns.
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

    /// Returns the groups of rows and cols that share a pattern in the last step, or for counts in the latest steps.
    /// Groups that hold more of the pattern come first.
    pub fn groups(&self, pattern: usize) -> Vec<Group> {
        match self.all_groups() {
            Some(groups) => self.groups_of_counts(groups, pattern),
            None => self.singular_groups(pattern),
        }
    }

    /// Returns the groups of counts: each group with the number of events that each row and col has in it, and with its
    /// share of each pattern. Every row and col with events in the last step is in a group. None for the exact model,
    /// and before the first step.
    ///
    /// The groups are found when they are asked for first, which takes about as long as to find the patterns.
    pub fn all_groups(&self) -> Option<&Groups> {
        let last = self.factors.last().filter(|_| self.learner.kind() == ModelKind::Counts)?;
        Some(self.groups.get_or_init(|| self.learner.groups(last)))
    }

    fn groups_of_counts(&self, groups: &Groups, pattern: usize) -> Vec<Group> {
        if pattern >= groups.shares.cols() {
            return Vec::new();
        }
        let mut shares = groups.shares.column(pattern).to_vec();
        shares.sort_by(|a, b| b.1.total_cmp(&a.1));
        let (rows, cols) = (largest_events(&groups.rows), largest_events(&groups.cols));
        let group = |(group, share): (u32, f64)| {
            let members = |events: &Sparse, largest: &BTreeMap<u32, f64>| {
                strongest_first(events.column(group as usize), |entry| entry.1 >= MEMBER * largest[&entry.0])
            };
            let (rows, cols) = (members(&groups.rows, &rows), members(&groups.cols, &cols));
            let known = self.known_group(&rows, &cols);
            Group { number: group as usize + 1, share, rows, cols, known }
        };
        shares.into_iter().map(group).collect()
    }

    fn singular_groups(&self, pattern: usize) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for (number, factors) in (1..).zip(self.factors.last().into_iter().chain(&self.blocks)) {
            let Some(share) = factors.rank_one.get(pattern).copied().filter(|share| *share > 0.0) else {
                break;
            };
            let (rows, cols) = (members(&factors.rows, pattern), members(&factors.cols, pattern));
            let known = self.known_group(&rows, &cols);
            groups.push(Group { number, share, rows, cols, known });
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
    strongest_first(column, |entry| entry.1.abs() >= MEMBER * largest)
}

/// Returns some entries of a column, those of largest magnitude first.
fn strongest_first(column: &[(u32, f64)], is_member: impl Fn(&(u32, f64)) -> bool) -> Vec<(usize, f64)> {
    let members = column.iter().filter(|entry| is_member(entry));
    let mut members: Vec<(usize, f64)> = members.map(|&(index, value)| (index as usize, value)).collect();
    members.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    members
}

/// Returns the largest number of events that each row (or col) has in a group.
fn largest_events(events: &Sparse) -> BTreeMap<u32, f64> {
    let mut largest: BTreeMap<u32, f64> = BTreeMap::new();
    for &(index, events) in events.columns().flatten() {
        let largest = largest.entry(index).or_default();
        *largest = largest.max(events);
    }
    largest
}
