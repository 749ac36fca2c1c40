//! Counted tables: labelled tensors.

use std::collections::BTreeMap;

use ahash::AHashMap;
use tensornoodl::{Place, Shape, Sparse, Tensor};

use crate::count::cells::Key;
use crate::count::labels::{Labels, sort_labels};
use crate::count::query::Query;
use crate::count::stretch::Stretch;
use crate::count::tally::Tally;
use crate::error::Error;

/// A counted table: the cells and labels of a stream of tensors.
#[derive(Debug, Clone, PartialEq)]
pub struct Events {
    /// Labels of the features.
    pub features: Labels,
    /// Labels of the rows.
    pub rows: Labels,
    /// Labels of the cols.
    pub cols: Labels,
    /// Labels of the steps in order, or none if the query has no step axis.
    pub steps: Option<Labels>,
    /// The known group of each row, or empty where none is known. The vector is empty if the query names no groups.
    pub row_groups: Vec<String>,
    /// The known group of each col, or empty where none is known. The vector is empty if the query names no groups.
    pub col_groups: Vec<String>,
    /// Numbers of rows of the table that were read and that were left out.
    pub tally: Tally,
    /// How far apart the events are on the feature axis, if it has many more labels than have events.
    pub stretch: Option<Stretch>,
    /// Indices (step, row, col, feature) and value of each cell that is not empty, sorted by the indices.
    pub(crate) cells: Vec<(Key, f64)>,
}

impl Events {
    /// Returns the shape n x J x K of every tensor.
    pub fn shape(&self) -> Shape {
        Shape {
            features: self.features.names.len(),
            rows: self.rows.names.len(),
            cols: self.cols.names.len(),
        }
    }

    /// Returns the number of tensors of the stream.
    pub fn steps(&self) -> usize {
        self.steps.as_ref().map_or(1, |steps| steps.names.len())
    }

    /// Returns the number of cells that are not empty, over all steps.
    pub fn cells(&self) -> usize {
        self.cells.len()
    }

    /// Returns the number of fibers that have cells, over all steps.
    pub fn fibers(&self) -> usize {
        self.cells.chunk_by(|a, b| a.0[..3] == b.0[..3]).count()
    }

    /// Returns the approximate size of the largest tensor in bytes.
    pub fn bytes(&self) -> f64 {
        let steps = self.cells.chunk_by(|a, b| a.0[0] == b.0[0]);
        let fibers = steps.map(|cells| cells.chunk_by(|a, b| a.0[..3] == b.0[..3]).count()).max();
        8.0 * self.features.names.len() as f64 * fibers.unwrap_or(0) as f64
    }

    /// Returns the size of the labels of features, rows and cols in bytes.
    pub fn label_bytes(&self) -> f64 {
        let names = [&self.features, &self.rows, &self.cols].into_iter().flat_map(|labels| &labels.names);
        names.map(|name| (name.len() + size_of::<String>()) as f64).sum()
    }

    /// Returns the sum of all cells.
    pub fn sum(&self) -> f64 {
        self.cells.iter().map(|cell| cell.1).sum()
    }

    /// Leaves out the cells with negative values, so that these values count as 0. Returns how many there are.
    pub fn clip(&mut self) -> usize {
        let before = self.cells.len();
        self.cells.retain(|cell| cell.1 >= 0.0);
        before - self.cells.len()
    }

    /// Replaces the features by those of a model, in the order of the model. Leaves out the cells of all other
    /// features, and returns their number.
    pub fn align(&mut self, names: &[String]) -> usize {
        let indices: AHashMap<&str, u32> = names.iter().map(String::as_str).zip(0..).collect();
        let new_index: Vec<Option<u32>> =
            self.features.names.iter().map(|name| indices.get(name.as_str()).copied()).collect();
        let before = self.cells.len();
        self.cells.retain_mut(|(key, _)| match new_index[key[3] as usize] {
            Some(index) => {
                key[3] = index;
                true
            }
            None => false,
        });
        self.cells.sort_unstable_by_key(|cell| cell.0);
        self.features.names = names.to_vec();
        before - self.cells.len()
    }

    /// Returns the query with the axes that were counted: a grid without bounds gets the bounds of the data. The limit of
    /// the number of features is left out, because it has done its work.
    pub fn resolve(&self, query: Query) -> Query {
        Query {
            feature: self.features.axis.clone(),
            row: self.rows.axis.clone(),
            col: self.cols.axis.clone(),
            step: self.steps.as_ref().map(|steps| steps.axis.clone()),
            max_features: None,
            ..query
        }
    }

    /// Gives rows and cols the same labels: the union of the labels of both axes.
    pub(crate) fn square(&mut self) {
        let mut names: Vec<String> = [self.rows.names.as_slice(), &self.cols.names].concat();
        sort_labels(&mut names, |name| name);
        names.dedup();
        let indices: AHashMap<&str, u32> = names.iter().map(String::as_str).zip(0..).collect();
        let new_indices =
            |old: &Labels| -> Vec<u32> { old.names.iter().map(|name| indices[name.as_str()]).collect() };
        let (rows, cols) = (new_indices(&self.rows), new_indices(&self.cols));
        for (key, _) in &mut self.cells {
            (key[1], key[2]) = (rows[key[1] as usize], cols[key[2] as usize]);
        }
        self.cells.sort_unstable_by_key(|cell| cell.0);
        (self.rows.names, self.cols.names) = (names.clone(), names);
    }

    /// Sets the known groups of rows and cols, from a map of labels to groups.
    pub fn group(&mut self, known: &BTreeMap<String, String>) {
        let groups = |labels: &Labels| {
            labels.names.iter().map(|name| known.get(name).cloned().unwrap_or_default()).collect()
        };
        (self.row_groups, self.col_groups) = (groups(&self.rows), groups(&self.cols));
    }

    /// Replaces the labels of rows and cols by names, from a map of labels to names.
    ///
    /// A label without a name stays. If several labels have the same name, the label is added to each of these names.
    pub fn name(&mut self, known: &BTreeMap<String, String>) {
        for labels in [&mut self.rows, &mut self.cols] {
            let mut uses: AHashMap<&str, usize> = AHashMap::default();
            let named = |label: &String| known.get(label).map_or(label.clone(), Clone::clone);
            let names: Vec<String> = labels.names.iter().map(named).collect();
            names.iter().for_each(|name| *uses.entry(name).or_default() += 1);
            let unique = |(name, label): (&String, &String)| match uses[name.as_str()] {
                1 => name.clone(),
                _ => format!("{name} ({label})"),
            };
            labels.names = names.iter().zip(&labels.names).map(unique).collect();
        }
    }

    /// Builds the tensor of a step, from 0. Only its cells are stored.
    ///
    /// # Errors
    /// [`Error::Tensor`] if the core crate refuses the tensor.
    pub fn tensor(&self, step: usize) -> Result<Tensor<'static>, Error> {
        let first = self.cells.partition_point(|cell| (cell.0[0] as usize) < step);
        let after = self.cells.partition_point(|cell| (cell.0[0] as usize) <= step);
        let mut fibers: Vec<&[(Key, f64)]> =
            self.cells[first..after].chunk_by(|a, b| a.0[..3] == b.0[..3]).collect();
        fibers.sort_unstable_by_key(|fiber| (fiber[0].0[2], fiber[0].0[1]));
        let mut matrix = Sparse::with_capacity(self.shape().features, fibers.len(), after - first);
        let mut places = Vec::with_capacity(fibers.len());
        let mut column: Vec<(u32, f64)> = Vec::new();
        for fiber in fibers {
            column.clear();
            column.extend(fiber.iter().filter(|cell| cell.1 != 0.0).map(|cell| (cell.0[3], cell.1)));
            if !column.is_empty() {
                matrix.push(&column);
                places.push(Place { row: fiber[0].0[1], col: fiber[0].0[2] });
            }
        }
        Ok(Tensor::from_sparse(self.shape(), matrix, places)?)
    }
}
