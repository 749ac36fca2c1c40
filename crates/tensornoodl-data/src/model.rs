//! The model file: one safetensors file with the patterns, the factors of every step, and a JSON document with the labels and
//! how it all came about. Python reads it with the package safetensors.
//!
//! | tensor | shape | |
//! | --- | --- | --- |
//! | `patterns` | m x n, f64 | a row is a pattern, of unit length |
//! | `rows.step`, `.pattern`, `.index` | i64 | where the row factors are not zero: in which step, pattern and row |
//! | `rows.value` | f64 | and what they are there |
//! | `cols.step`, `.pattern`, `.index`, `.value` | | the same for the col factors |
//! | `rank_one.step`, `.pattern`, `.value` | | the share of a pattern's energy that its factors hold |
//! | `blocks.rows.block`, ... `blocks.rank_one.value` | | the same for the next groups that share a pattern in the last step |
//! | `learner` | bytes | the state of the learner, for whoever goes on |
//!
//! The metadata has one entry, `tensornoodl`: the [`Card`] as JSON.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::Path;

use safetensors::{Dtype, SafeTensors, View};
use serde::{Deserialize, Serialize};
use tensornoodl::{Factors, Learner, Sparse, Step, Tensor};

use crate::error::Error;
use crate::events::{Events, Tally};
use crate::files;
use crate::query::Query;
use crate::recipe::Recipe;

/// The version of the format that is written. Others are refused.
const FORMAT: u32 = 2;

/// Patterns, factors, and where they come from.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// All that is not a number of the model.
    pub card: Card,
    /// Goes on learning.
    pub learner: Learner,
    /// Of every step so far.
    pub factors: Vec<Factors>,
    /// Of the last step, what comes after the leading factors: further groups that share a pattern.
    pub blocks: Vec<Factors>,
}

/// Groups of a pattern that are looked for, the leading one among them.
const BLOCKS: usize = 3;

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

impl Model {
    /// Before the first step.
    pub fn new(
        learner: Learner,
        events: &Events,
        recipe: Recipe,
        table: &str,
        query: Query,
        command: &str,
        seed: u64,
    ) -> Model {
        let labels = [&events.features, &events.rows, &events.cols].map(|labels| labels.names.clone());
        let card = Card {
            table: table.into(),
            command: command.into(),
            recipe,
            steps: events.steps.as_ref().map_or(vec!["all".into()], |steps| steps.names.clone()),
            row_groups: events.row_groups.clone(),
            col_groups: events.col_groups.clone(),
            seed,
            tally: events.tally.clone(),
            ..Card::new(query, labels)
        };
        Model::with_card(learner, card)
    }

    /// Before the first step, of whatever the card says.
    pub fn with_card(learner: Learner, card: Card) -> Model {
        Model { card, learner, factors: Vec::new(), blocks: Vec::new() }
    }

    /// Learns from the tensor of the next step.
    pub fn learn(&mut self, tensor: &Tensor<'_>) -> Result<Step, Error> {
        let step = self.learner.learn(tensor)?;
        // Patterns that are gone have no factors either.
        for factors in self.factors.iter_mut().filter(|_| !step.lost.is_empty()) {
            let keep = |sparse: &Sparse| {
                let mut kept = Sparse::new(sparse.rows());
                let columns =
                    sparse.columns().enumerate().filter(|(pattern, _)| !step.lost.contains(pattern));
                columns.for_each(|(_, column)| kept.push(column));
                kept
            };
            let rank_one = factors.rank_one.iter().enumerate();
            let rank_one =
                rank_one.filter(|(pattern, _)| !step.lost.contains(pattern)).map(|(_, share)| *share);
            *factors = Factors {
                rows: keep(&factors.rows),
                cols: keep(&factors.cols),
                rank_one: rank_one.collect(),
            };
        }
        self.blocks = step.codes.untangle_blocks(&**self.learner.team(), BLOCKS);
        self.factors.push(self.blocks.remove(0));
        self.card.history.push(Record {
            fibers: step.fibers,
            fit: step.fit,
            change: step.change,
            mean_code_size: step.mean_code_size,
            passes: step.passes,
            patterns: self.learner.dictionary().patterns(),
            found: step.found,
            lost: step.lost.len(),
        });
        Ok(step)
    }

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

    /// Writes it, aside and then renamed.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        files::write(path, self.to_bytes()?)
    }

    /// Reads it.
    pub fn load(path: &Path) -> Result<Model, Error> {
        let file = path.display().to_string();
        let bytes = std::fs::read(path).map_err(|error| Error::Read { file: file.clone(), error })?;
        Model::from_bytes(&bytes, &file)
    }

    /// As in the file.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let cannot = |what: String| Error::Format { file: "the model".into(), format: "a model", what };
        let dictionary = self.learner.dictionary();
        let mut tensors = vec![(
            "patterns".to_owned(),
            Array::floats(dictionary.values().to_vec())
                .shaped(vec![dictionary.patterns(), dictionary.features()]),
        )];
        tensors.extend(listed("", "step", &self.factors));
        tensors.extend(listed("blocks.", "block", &self.blocks));
        let state = postcard::to_stdvec(&self.learner).map_err(|error| cannot(error.to_string()))?;
        tensors.push(("learner".into(), Array { dtype: Dtype::U8, shape: vec![state.len()], bytes: state }));
        let card = serde_json::to_string(&self.card).map_err(|error| cannot(error.to_string()))?;
        let metadata = HashMap::from([("tensornoodl".to_owned(), card)]);
        safetensors::serialize(tensors, Some(metadata)).map_err(|error| cannot(error.to_string()))
    }

    /// From a file, whoever made it: what does not fit together is refused.
    pub fn from_bytes(bytes: &[u8], file: &str) -> Result<Model, Error> {
        let cannot = |what: String| Error::Format { file: file.into(), format: "a model", what };
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(|error| cannot(error.to_string()))?;
        let card = header.metadata().as_ref().and_then(|metadata| metadata.get("tensornoodl"));
        let card = card.ok_or_else(|| cannot("it has no card named tensornoodl".into()))?;
        let format: Format = serde_json::from_str(card).map_err(|error| cannot(error.to_string()))?;
        if format.format != FORMAT {
            return Err(cannot(format!("its format is {}, this program knows {FORMAT}", format.format)));
        }
        let card: Card = serde_json::from_str(card).map_err(|error| cannot(error.to_string()))?;
        let tensors = SafeTensors::deserialize(bytes).map_err(|error| cannot(error.to_string()))?;
        let get = |name: &str, dtype: Dtype| {
            let tensor = tensors.tensor(name).map_err(|error| cannot(error.to_string()))?;
            if tensor.dtype() != dtype {
                return Err(cannot(format!("{name} is {:?}, not {dtype:?}", tensor.dtype())));
            }
            Ok(tensor)
        };
        let wholes = |name: &str| Ok::<_, Error>(words(get(name, Dtype::I64)?.data(), i64::from_le_bytes));
        let floats = |name: &str| {
            let values = words(get(name, Dtype::F64)?.data(), f64::from_le_bytes);
            let finite = values.iter().all(|value| value.is_finite());
            if finite { Ok(values) } else { Err(cannot(format!("{name} has values that are not finite"))) }
        };
        let learner: Learner = postcard::from_bytes(get("learner", Dtype::U8)?.data())
            .map_err(|error| cannot(format!("the state of its learner: {error}")))?;
        learner.check().map_err(|error| cannot(error.to_string()))?;
        let (dictionary, steps) = (learner.dictionary(), card.history.len());
        if get("patterns", Dtype::F64)?.shape() != [dictionary.patterns(), dictionary.features()]
            || floats("patterns")? != dictionary.values()
        {
            return Err(cannot("its patterns are not those of its learner".into()));
        }
        let groups = |groups: &[String], labels: &[String]| groups.is_empty() || groups.len() == labels.len();
        if card.features.len() != dictionary.features()
            || card.steps.len() < steps
            || !groups(&card.row_groups, &card.rows)
            || !groups(&card.col_groups, &card.cols)
        {
            return Err(cannot("its labels do not fit its patterns".into()));
        }
        let list = |prefix: &str, number: &str, most: usize| {
            let wrong = |what: &str| cannot(format!("{prefix}{what} is out of order or out of bounds"));
            // Patterns of each: those that were found later have no factors there.
            let (at, shares) =
                (wholes(&format!("{prefix}rank_one.{number}"))?, floats(&format!("{prefix}rank_one.value"))?);
            let known = at.iter().all(|at| (0..most as i64).contains(at)) && at.is_sorted();
            if at.len() != shares.len() || !known {
                return Err(wrong("rank_one"));
            }
            let mut counts = vec![0; most];
            at.iter().for_each(|at| counts[*at as usize] += 1);
            if counts.iter().any(|count| *count > dictionary.patterns()) {
                return Err(wrong("rank_one"));
            }
            let matrices = |name: &str, length: usize| {
                let columns =
                    [number, "pattern", "index"].map(|part| wholes(&format!("{prefix}{name}.{part}")));
                let [at, pattern, index] = columns;
                let values = floats(&format!("{prefix}{name}.value"))?;
                matrices(&at?, &pattern?, &index?, &values, length, &counts).ok_or_else(|| wrong(name))
            };
            let pairs =
                matrices("rows", card.rows.len())?.into_iter().zip(matrices("cols", card.cols.len())?);
            let mut rest = shares.as_slice();
            let factors = pairs.zip(&counts).map(|((rows, cols), count)| {
                let (here, later) = rest.split_at(*count);
                rest = later;
                Factors { rows, cols, rank_one: here.to_vec() }
            });
            Ok(factors.collect::<Vec<_>>())
        };
        let factors = list("", "step", steps)?;
        let blocks = list("blocks.", "block", if steps == 0 { 0 } else { BLOCKS - 1 })?;
        Ok(Model { card, learner, factors, blocks })
    }
}

/// What can be said of a card of any format.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

/// Where factors are not zero and what they are there, for each step or block, whatever its number is called.
fn listed(prefix: &str, number: &str, factors: &[Factors]) -> Vec<(String, Array)> {
    let mut tensors = Vec::new();
    for (name, of) in [("rows", (|it| &it.rows) as fn(&Factors) -> &Sparse), ("cols", |it| &it.cols)] {
        let mut columns = [Vec::new(), Vec::new(), Vec::new()];
        let mut values = Vec::new();
        for (at, factors) in factors.iter().enumerate() {
            for (pattern, column) in of(factors).columns().enumerate() {
                for &(index, value) in column {
                    let at = [at as i64, pattern as i64, i64::from(index)];
                    columns.iter_mut().zip(at).for_each(|(column, at)| column.push(at));
                    values.push(value);
                }
            }
        }
        for (part, column) in [number, "pattern", "index"].into_iter().zip(columns) {
            tensors.push((format!("{prefix}{name}.{part}"), Array::wholes(&column)));
        }
        tensors.push((format!("{prefix}{name}.value"), Array::floats(values)));
    }
    let (mut at, mut patterns, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    for (number, factors) in factors.iter().enumerate() {
        for (pattern, share) in factors.rank_one.iter().enumerate() {
            at.push(number as i64);
            patterns.push(pattern as i64);
            shares.push(*share);
        }
    }
    tensors.push((format!("{prefix}rank_one.{number}"), Array::wholes(&at)));
    tensors.push((format!("{prefix}rank_one.pattern"), Array::wholes(&patterns)));
    tensors.push((format!("{prefix}rank_one.value"), Array::floats(shares)));
    tensors
}

/// A matrix for every step or block; none if anything is out of order.
fn matrices(
    steps: &[i64],
    patterns: &[i64],
    indices: &[i64],
    values: &[f64],
    length: usize,
    counts: &[usize],
) -> Option<Vec<Sparse>> {
    let all = values.len();
    if [steps.len(), patterns.len(), indices.len()].iter().any(|other| *other != all) {
        return None;
    }
    let mut at = 0;
    let mut matrices = Vec::new();
    for (step, count) in counts.iter().enumerate() {
        let mut matrix = Sparse::new(length);
        for pattern in 0..*count {
            let mut column: Vec<(u32, f64)> = Vec::new();
            while at < all && (steps[at], patterns[at]) == (step as i64, pattern as i64) {
                let index = u32::try_from(indices[at]).ok().filter(|index| (*index as usize) < length)?;
                if column.last().is_some_and(|last| last.0 >= index) {
                    return None;
                }
                column.push((index, values[at]));
                at += 1;
            }
            matrix.push(&column);
        }
        matrices.push(matrix);
    }
    (at == all).then_some(matrices)
}

fn words<T>(bytes: &[u8], from: impl Fn([u8; 8]) -> T) -> Vec<T> {
    let word = |bytes: &[u8]| from([0, 1, 2, 3, 4, 5, 6, 7].map(|at| bytes[at]));
    bytes.chunks_exact(8).map(word).collect()
}

/// A tensor to be written.
struct Array {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Array {
    fn floats(values: Vec<f64>) -> Array {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Array { dtype: Dtype::F64, shape: vec![values.len()], bytes }
    }

    fn wholes(values: &[i64]) -> Array {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Array { dtype: Dtype::I64, shape: vec![values.len()], bytes }
    }

    fn shaped(self, shape: Vec<usize>) -> Array {
        Array { shape, ..self }
    }
}

impl View for Array {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> std::borrow::Cow<'_, [u8]> {
        self.bytes.as_slice().into()
    }

    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}
