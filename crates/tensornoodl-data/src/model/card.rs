//! The card of a model: labels, settings and history.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::count::query::Query;
use crate::count::recipe::Recipe;
use crate::count::tally::Tally;
use crate::model::surprising::Surprising;

/// The version of the file format that is written.
pub(crate) const FORMAT: u32 = 3;

/// Returns the kind of models whose file does not name one.
pub(crate) fn exact() -> String {
    "exact".into()
}

/// Everything in a model that is not a tensor: labels, settings and history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Card {
    /// Version of the format of the file that the model was read from. For a new model, the version that is written.
    pub format: u32,
    /// Kind of the model: `exact` or `counts`.
    #[serde(default = "exact")]
    pub kind: String,
    /// Version of this library.
    pub version: String,
    /// Name of the table.
    pub table: String,
    /// The command that made the model, so that it can be repeated.
    pub command: String,
    /// How the table was counted.
    pub query: Query,
    /// The actions that were applied to the tensors.
    pub recipe: Recipe,
    /// Labels of the features.
    pub features: Vec<String>,
    /// Labels of the rows.
    pub rows: Vec<String>,
    /// Labels of the cols.
    pub cols: Vec<String>,
    /// Labels of all steps of the table, including steps that have not been learned.
    pub steps: Vec<String>,
    /// The known group of each row, or empty where none is known. The vector is empty if the query names no groups.
    pub row_groups: Vec<String>,
    /// The known group of each col, or empty where none is known. The vector is empty if the query names no groups.
    pub col_groups: Vec<String>,
    /// Seed of the search for patterns.
    pub seed: u64,
    /// Numbers of rows of the table that were read and that were left out.
    pub tally: Tally,
    /// What happened in each step that has been learned.
    pub history: Vec<Record>,
}

/// What happened in a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Number of fibers of the tensor.
    pub fibers: usize,
    /// |Y - A X|_F / |Y|_F; for counts, the root of the share of the deviance that the codes do not explain.
    pub fit: f64,
    /// |A(t+1) - A(t)|_F / |A(t)|_F.
    pub change: f64,
    /// Mean number of patterns in a fiber.
    pub mean_code_size: f64,
    /// Number of passes over the tensor.
    pub passes: usize,
    /// Number of patterns after the step.
    pub patterns: usize,
    /// Number of patterns that were found in the step.
    pub found: usize,
    /// Number of patterns that were lost in the step.
    pub lost: usize,
    /// Number of patterns that retired in the step, because they were not seen for long.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retired: usize,
    /// The identities of the patterns that had retired and returned in the step. They are counted as found, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub returned: Vec<u64>,
    /// Places whose events are too unlikely for chance, given the steps before: see [`tensornoodl::significant`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub surprises: Vec<Surprising>,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Record {
    /// The share that the patterns explained of the step, from 0 to 1: 1 - fit^2. It is 0 if they explained less than
    /// nothing: the codes of counts may be farther from the data than the mean of all places is.
    pub fn explained(&self) -> f64 {
        (1.0 - self.fit * self.fit).max(0.0)
    }
}

impl Card {
    /// Creates a card for tensors with these labels of features, rows and cols. All other fields are empty.
    pub fn new(query: Query, [features, rows, cols]: [Vec<String>; 3]) -> Card {
        Card {
            format: FORMAT,
            kind: exact(),
            version: env!("CARGO_PKG_VERSION").into(),
            table: String::new(),
            command: String::new(),
            query,
            recipe: Recipe::default(),
            features,
            rows,
            cols,
            steps: Vec::new(),
            row_groups: Vec::new(),
            col_groups: Vec::new(),
            seed: 0,
            tally: Tally::default(),
            history: Vec::new(),
        }
    }

    /// Returns the index in the model of each of these rows and cols. Labels that the model does not have are
    /// appended to the model.
    pub fn place(&mut self, rows: &[String], cols: &[String]) -> [Vec<u32>; 2] {
        [place(&mut self.rows, &mut self.row_groups, rows), place(&mut self.cols, &mut self.col_groups, cols)]
    }
}

/// Returns the index of each label among the known labels. New labels are added, with an empty group if there are
/// groups.
fn place(known: &mut Vec<String>, groups: &mut Vec<String>, labels: &[String]) -> Vec<u32> {
    if known.starts_with(labels) {
        return (0..labels.len() as u32).collect();
    }
    let grouped = !groups.is_empty();
    let mut indices: HashMap<String, u32> = known.iter().cloned().zip(0..).collect();
    let mut place = |label: &String| {
        let next = known.len() as u32;
        *indices.entry(label.clone()).or_insert_with(|| {
            known.push(label.clone());
            groups.extend(grouped.then(String::new));
            next
        })
    };
    labels.iter().map(&mut place).collect()
}
