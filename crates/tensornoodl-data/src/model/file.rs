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

use std::collections::HashMap;
use std::path::Path;

use safetensors::{Dtype, SafeTensors, View};
use serde::Deserialize;
use tensornoodl::{Factors, Learner, Sparse};

use crate::error::Error;
use crate::files;
use crate::model::card::{Card, FORMAT};
use crate::model::learn::{BLOCKS, Model};

impl Model {
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
