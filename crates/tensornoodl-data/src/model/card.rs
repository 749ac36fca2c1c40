//! The card of a model.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::count::query::Query;
use crate::count::recipe::Recipe;
use crate::count::tally::Tally;

/// The version of the format that is written. Others are refused.
pub(crate) const FORMAT: u32 = 2;

/// All that is not a number of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Card {
    /// Version of the format.
    pub format: u32,
    /// Version of this library.
    pub version: String,
    /// The table.
    pub table: String,
    /// What made it, for those who want it again.
    pub command: String,
    /// What was made of the table.
    pub query: Query,
    /// And done to the tensors.
    pub recipe: Recipe,
    /// Labels of the features.
    pub features: Vec<String>,
    /// Labels of the rows.
    pub rows: Vec<String>,
    /// Labels of the cols.
    pub cols: Vec<String>,
    /// Labels of the steps, learned or not.
    pub steps: Vec<String>,
    /// What each row belongs to, as people know it; none unless asked for.
    pub row_groups: Vec<String>,
    /// And each col.
    pub col_groups: Vec<String>,
    /// Of the search for patterns.
    pub seed: u64,
    /// What was read, and what was left out.
    pub tally: Tally,
    /// Of every step so far.
    pub history: Vec<Record>,
}

impl Card {
    /// Of a tensor with these labels of features, rows and cols; nothing is known yet of where it comes from.
    pub fn new(query: Query, [features, rows, cols]: [Vec<String>; 3]) -> Card {
        Card {
            format: FORMAT,
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

    /// Where these rows and cols stand among those of the model; those that are new stand at its end from now on.
    pub fn place(&mut self, rows: &[String], cols: &[String]) -> [Vec<u32>; 2] {
        [place(&mut self.rows, &mut self.row_groups, rows), place(&mut self.cols, &mut self.col_groups, cols)]
    }
}

/// Where labels stand among those that are known, to which new ones are added; nothing is known of their groups.
fn place(known: &mut Vec<String>, groups: &mut Vec<String>, labels: &[String]) -> Vec<u32> {
    if known.starts_with(labels) {
        return (0..labels.len() as u32).collect();
    }
    let grouped = !groups.is_empty();
    let mut places: HashMap<String, u32> = known.iter().cloned().zip(0..).collect();
    let mut place = |label: &String| {
        let next = known.len() as u32;
        *places.entry(label.clone()).or_insert_with(|| {
            known.push(label.clone());
            groups.extend(grouped.then(String::new));
            next
        })
    };
    labels.iter().map(&mut place).collect()
}

/// What happened in a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Fibers of the tensor.
    pub fibers: usize,
    /// |Y - A X|_F / |Y|_F.
    pub fit: f64,
    /// |A(t+1) - A(t)|_F / |A(t)|_F.
    pub change: f64,
    /// Mean number of patterns in a fiber.
    pub mean_code_size: f64,
    /// Passes over the tensor.
    pub passes: usize,
    /// Patterns after it.
    pub patterns: usize,
    /// Found in it.
    pub found: usize,
    /// Lost in it.
    pub lost: usize,
}
