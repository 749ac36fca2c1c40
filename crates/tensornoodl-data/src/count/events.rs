//! Events in, labelled tensors out: rows of a table are counted or summed into cells (step, row, col, feature).
//!
//! A table is read once, in any order. Held are the labels, and the cells that are not empty: 40 bytes or so for each, 80 for sums, however
//! many rows fall into it; with [`Query::average_over`] also the distinct values of that column at each place.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use tensornoodl::{Shape, Tensor};

use crate::count::labels::{Labels, in_order};
use crate::count::query::Query;
use crate::count::tally::Tally;
use crate::error::Error;

/// A table, counted.
#[derive(Debug, Clone, PartialEq)]
pub struct Events {
    /// Labels of the features.
    pub features: Labels,
    /// Labels of the rows.
    pub rows: Labels,
    /// Labels of the cols.
    pub cols: Labels,
    /// Labels of the steps, in order; none without a step axis.
    pub steps: Option<Labels>,
    /// What each row belongs to, and each col; empty where that is not known, and altogether unless asked for.
    pub row_groups: Vec<String>,
    /// The latter.
    pub col_groups: Vec<String>,
    /// What was read.
    pub tally: Tally,
    /// (step, row, col, feature) and value, in this order.
    pub(crate) cells: Vec<([u32; 4], f64)>,
}

impl Events {
    /// n, J and K.
    pub fn shape(&self) -> Shape {
        Shape {
            features: self.features.names.len(),
            rows: self.rows.names.len(),
            cols: self.cols.names.len(),
        }
    }

    /// Tensors of the stream.
    pub fn steps(&self) -> usize {
        self.steps.as_ref().map_or(1, |steps| steps.names.len())
    }

    /// Cells that are not empty.
    pub fn cells(&self) -> usize {
        self.cells.len()
    }

    /// Places that have cells, over all steps.
    pub fn fibers(&self) -> usize {
        self.cells.chunk_by(|a, b| a.0[..3] == b.0[..3]).count()
    }

    /// About how many bytes the largest tensor takes.
    pub fn bytes(&self) -> f64 {
        let steps = self.cells.chunk_by(|a, b| a.0[0] == b.0[0]);
        let fibers = steps.map(|cells| cells.chunk_by(|a, b| a.0[..3] == b.0[..3]).count()).max();
        8.0 * self.features.names.len() as f64 * fibers.unwrap_or(0) as f64
    }

    /// The sum over all cells.
    pub fn sum(&self) -> f64 {
        self.cells.iter().map(|cell| cell.1).sum()
    }

    /// Takes the features of a model, in their order; cells of others are left out. Returns how many.
    pub fn align(&mut self, names: &[String]) -> usize {
        let places: FxHashMap<&str, u32> = names.iter().map(String::as_str).zip(0..).collect();
        let place: Vec<Option<u32>> =
            self.features.names.iter().map(|name| places.get(name.as_str()).copied()).collect();
        let before = self.cells.len();
        self.cells.retain_mut(|(key, _)| match place[key[3] as usize] {
            Some(place) => {
                key[3] = place;
                true
            }
            None => false,
        });
        self.cells.sort_unstable_by_key(|cell| cell.0);
        self.features.names = names.to_vec();
        before - self.cells.len()
    }

    /// The query that it was read by, with the bounds of grids as they turned out.
    pub fn resolve(&self, query: Query) -> Query {
        Query {
            feature: self.features.axis.clone(),
            row: self.rows.axis.clone(),
            col: self.cols.axis.clone(),
            step: self.steps.as_ref().map(|steps| steps.axis.clone()),
            ..query
        }
    }

    /// Gives rows and cols the labels of both.
    pub(crate) fn square(&mut self) {
        let mut names: Vec<String> = [self.rows.names.as_slice(), &self.cols.names].concat();
        in_order(&mut names, |name| name);
        names.dedup();
        let places: FxHashMap<&str, u32> = names.iter().map(String::as_str).zip(0..).collect();
        let place =
            |old: &Labels| -> Vec<u32> { old.names.iter().map(|name| places[name.as_str()]).collect() };
        let (rows, cols) = (place(&self.rows), place(&self.cols));
        for (key, _) in &mut self.cells {
            (key[1], key[2]) = (rows[key[1] as usize], cols[key[2] as usize]);
        }
        // In the same order as before: in order they were, and are.
        self.cells.sort_unstable_by_key(|cell| cell.0);
        (self.rows.names, self.cols.names) = (names.clone(), names);
    }

    /// What rows and cols belong to.
    pub fn group(&mut self, known: &BTreeMap<String, String>) {
        let groups = |labels: &Labels| {
            labels.names.iter().map(|name| known.get(name).cloned().unwrap_or_default()).collect()
        };
        (self.row_groups, self.col_groups) = (groups(&self.rows), groups(&self.cols));
    }

    /// Names rows and cols; a label that has no name stays as it is, and one whose name is another's too stands beside it.
    pub fn name(&mut self, known: &BTreeMap<String, String>) {
        for labels in [&mut self.rows, &mut self.cols] {
            let mut times: FxHashMap<&str, usize> = FxHashMap::default();
            let named = |label: &String| known.get(label).map_or(label.clone(), Clone::clone);
            let names: Vec<String> = labels.names.iter().map(named).collect();
            names.iter().for_each(|name| *times.entry(name).or_default() += 1);
            let unique = |(name, label): (&String, &String)| match times[name.as_str()] {
                1 => name.clone(),
                _ => format!("{name} ({label})"),
            };
            labels.names = names.iter().zip(&labels.names).map(unique).collect();
        }
    }

    /// One tensor of the stream, from 0.
    pub fn tensor(&self, step: usize) -> Result<Tensor<'static>, Error> {
        let first = self.cells.partition_point(|cell| (cell.0[0] as usize) < step);
        let cells = self.cells[first..].iter().take_while(|cell| cell.0[0] as usize == step);
        let entries: Vec<(usize, usize, usize, f64)> = cells
            .map(|&([_, row, col, feature], value)| (feature as usize, row as usize, col as usize, value))
            .collect();
        Ok(Tensor::from_triplets(self.shape(), &entries)?)
    }
}
