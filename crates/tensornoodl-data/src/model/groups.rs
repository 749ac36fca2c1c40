//! Groups that share a pattern.

use std::collections::BTreeMap;
use std::ops::Range;

use tensornoodl::{Factors, Sparse};

use crate::model::learn::Model;

/// Factors smaller than this share of the largest are not of the group, as in the paper (app:enron).
pub const MEMBER: f64 = 0.05;

/// Rows and cols that share a pattern, strongest first.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The share of the pattern's energy that it holds.
    pub share: f64,
    /// Numbers of rows, and their factors.
    pub rows: Vec<(usize, f64)>,
    /// The same for cols.
    pub cols: Vec<(usize, f64)>,
    /// What most of them are known to belong to, where anything is known.
    pub known: Option<Known>,
}

/// Something that members of a group are known to belong to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// What it is.
    pub name: String,
    /// Members that do not, or of whom nothing is known: the paper's false positives.
    pub others: usize,
    /// Members in all, rows and cols with the same label counted once: the paper's cluster size.
    pub size: usize,
}

impl Model {
    /// Who takes part in a pattern, over all steps, strongest first: numbers of rows (or cols) and the root of the sum of their
    /// squared factors, with the sign of the largest.
    pub fn leading(&self, pattern: usize, of: impl Fn(&Factors) -> &Sparse) -> Vec<(usize, f64)> {
        self.leading_in(0..self.factors.len(), pattern, of)
    }

    /// The same over some of the steps.
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

    /// The groups of rows and cols that share a pattern in the last step, those that hold most of it first.
    pub fn groups(&self, pattern: usize) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for factors in self.factors.last().into_iter().chain(&self.blocks) {
            let Some(share) = factors.rank_one.get(pattern).copied().filter(|share| *share > 0.0) else {
                break;
            };
            let members = |factors: &Sparse| {
                let largest = factors.column(pattern).iter().fold(0.0, |a: f64, entry| a.max(entry.1.abs()));
                let column = factors.column(pattern).iter().filter(|entry| entry.1.abs() >= MEMBER * largest);
                let mut members: Vec<(usize, f64)> =
                    column.map(|&(index, value)| (index as usize, value)).collect();
                members.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
                members
            };
            let (rows, cols) = (members(&factors.rows), members(&factors.cols));
            let known = self.known_group(&rows, &cols);
            groups.push(Group { share, rows, cols, known });
        }
        groups
    }

    /// What most members of a group are known to belong to.
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
        groups
            .values()
            .filter(|group| !group.is_empty())
            .for_each(|group| *counts.entry(group).or_default() += 1);
        let (name, of_it) = counts.into_iter().max_by(|a, b| a.1.cmp(&b.1).then_with(|| b.0.cmp(a.0)))?;
        Some(Known { name: name.into(), others: groups.len() - of_it, size: groups.len() })
    }
}
