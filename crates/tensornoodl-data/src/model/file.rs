//! The model file: one safetensors file with the patterns, the factors of every step, and a JSON document with
//! labels, settings and history. Python reads it with the package safetensors.
//!
//! | tensor | type | content |
//! | --- | --- | --- |
//! | `patterns` | f64, m x n | each row is a pattern of unit length |
//! | `rows.step`, `rows.pattern`, `rows.index` | i64 | step, pattern and row of each row factor that is not zero |
//! | `rows.value` | f64 | values of these row factors |
//! | `cols.step`, `cols.pattern`, `cols.index` | i64 | step, pattern and col of each col factor that is not zero |
//! | `cols.value` | f64 | values of these col factors |
//! | `rank_one.step`, `rank_one.pattern` | i64 | step and pattern of each entry of `rank_one.value` |
//! | `rank_one.value` | f64 | the share of the pattern's energy that its factors hold |
//! | `blocks.rows.block`, ... `blocks.rank_one.value` | | as above, for further groups that share a pattern in the last step |
//! | `learner` | u8 | the state of the learner, to continue with the next step |
//!
//! The metadata has one entry, `tensornoodl`: the [`Card`] as JSON.

use std::collections::HashMap;
use std::path::Path;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors, View};
use serde::Deserialize;
use tensornoodl::{Factors, Learner, Sparse};

use crate::error::Error;
use crate::files;
use crate::model::card::{Card, FORMAT};
use crate::model::learn::{BLOCKS, Model};

impl Model {
    /// Writes the model to a file, atomically.
    ///
    /// # Errors
    /// [`Error::Write`] if the operating system refuses, [`Error::Format`] if the model cannot be serialized.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        files::write(path, self.to_bytes()?)
    }

    /// Reads a model from a file.
    ///
    /// # Errors
    /// [`Error::Read`] if the operating system refuses, [`Error::Format`] if the file is not a model.
    pub fn load(path: &Path) -> Result<Model, Error> {
        let file = path.display().to_string();
        let bytes = std::fs::read(path).map_err(|error| Error::Read { file: file.clone(), error })?;
        Model::from_bytes(&bytes, &file)
    }

    /// Serializes the model to the bytes of a file.
    ///
    /// # Errors
    /// [`Error::Format`] if the model cannot be serialized.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let cannot = |what: String| Error::Format { file: "the model".into(), format: "a model", what };
        let dictionary = self.learner.dictionary();
        let shape = vec![dictionary.patterns(), dictionary.features()];
        let patterns = Array { shape, ..Array::floats(dictionary.values()) };
        let mut tensors = vec![("patterns".to_owned(), patterns)];
        tensors.extend(factor_arrays("", "step", &self.factors));
        tensors.extend(factor_arrays("blocks.", "block", &self.blocks));
        let state = postcard::to_stdvec(&self.learner).map_err(|error| cannot(error.to_string()))?;
        tensors.push(("learner".into(), Array { dtype: Dtype::U8, shape: vec![state.len()], bytes: state }));
        let card = serde_json::to_string(&self.card).map_err(|error| cannot(error.to_string()))?;
        let metadata = HashMap::from([("tensornoodl".to_owned(), card)]);
        safetensors::serialize(tensors, Some(metadata)).map_err(|error| cannot(error.to_string()))
    }

    /// Reads a model from the bytes of a file. `file` is the name of the file in messages.
    ///
    /// # Errors
    /// [`Error::Format`] if the bytes are not a model, or if the parts of the model do not fit together. The bytes
    /// can come from anybody: this function does not panic.
    pub fn from_bytes(bytes: &[u8], file: &str) -> Result<Model, Error> {
        let reader = Reader::new(bytes, file)?;
        let card = reader.card()?;
        let learner = reader.learner()?;
        let (dictionary, steps) = (learner.dictionary(), card.history.len());
        if reader.get("patterns", Dtype::F64)?.shape() != [dictionary.patterns(), dictionary.features()]
            || reader.floats("patterns")? != dictionary.values()
        {
            return Err(reader.cannot("its patterns are not those of its learner"));
        }
        let groups = |groups: &[String], labels: &[String]| groups.is_empty() || groups.len() == labels.len();
        if card.features.len() != dictionary.features()
            || card.steps.len() < steps
            || !groups(&card.row_groups, &card.rows)
            || !groups(&card.col_groups, &card.cols)
        {
            return Err(reader.cannot("its labels do not fit its patterns"));
        }
        let lengths = [card.rows.len(), card.cols.len()];
        let patterns = dictionary.patterns();
        let blocks = if steps == 0 { 0 } else { BLOCKS - 1 };
        let factors = FactorReader { reader: &reader, prefix: "", unit: "step", count: steps };
        let factors = factors.read(patterns, lengths)?;
        let blocks = FactorReader { reader: &reader, prefix: "blocks.", unit: "block", count: blocks };
        let blocks = blocks.read(patterns, lengths)?;
        Ok(Model { card, learner, factors, blocks })
    }
}

/// The part of the card that every version of the format has.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

/// Reads the parts of a model file.
struct Reader<'a> {
    bytes: &'a [u8],
    tensors: SafeTensors<'a>,
    file: &'a str,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8], file: &'a str) -> Result<Reader<'a>, Error> {
        let tensors = SafeTensors::deserialize(bytes).map_err(|error| cannot(file, error))?;
        Ok(Reader { bytes, tensors, file })
    }

    fn cannot(&self, what: impl ToString) -> Error {
        cannot(self.file, what)
    }

    fn card(&self) -> Result<Card, Error> {
        let (_, header) = SafeTensors::read_metadata(self.bytes).map_err(|error| self.cannot(error))?;
        let json = header.metadata().as_ref().and_then(|metadata| metadata.get("tensornoodl"));
        let json = json.ok_or_else(|| self.cannot("it has no card named tensornoodl"))?;
        let Format { format } = serde_json::from_str(json).map_err(|error| self.cannot(error))?;
        if format != FORMAT {
            return Err(self.cannot(format!("its format is {format}, this program knows {FORMAT}")));
        }
        serde_json::from_str(json).map_err(|error| self.cannot(error))
    }

    fn learner(&self) -> Result<Learner, Error> {
        let learner: Learner = postcard::from_bytes(self.get("learner", Dtype::U8)?.data())
            .map_err(|error| self.cannot(format!("the state of its learner: {error}")))?;
        learner.check().map_err(|error| self.cannot(error))?;
        Ok(learner)
    }

    fn get(&self, name: &str, dtype: Dtype) -> Result<TensorView<'a>, Error> {
        let tensor = self.tensors.tensor(name).map_err(|error| self.cannot(error))?;
        if tensor.dtype() != dtype {
            return Err(self.cannot(format!("{name} is {:?}, not {dtype:?}", tensor.dtype())));
        }
        Ok(tensor)
    }

    fn integers(&self, name: &str) -> Result<Vec<i64>, Error> {
        Ok(numbers(self.get(name, Dtype::I64)?.data(), i64::from_le_bytes))
    }

    fn floats(&self, name: &str) -> Result<Vec<f64>, Error> {
        let values = numbers(self.get(name, Dtype::F64)?.data(), f64::from_le_bytes);
        let finite = values.iter().all(|value| value.is_finite());
        if finite { Ok(values) } else { Err(self.cannot(format!("{name} has values that are not finite"))) }
    }
}

fn cannot(file: &str, what: impl ToString) -> Error {
    Error::Format { file: file.into(), format: "a model", what: what.to_string() }
}

/// Decodes numbers of 8 bytes each.
fn numbers<T>(bytes: &[u8], from_bytes: impl Fn([u8; 8]) -> T) -> Vec<T> {
    let number = |bytes: &[u8]| from_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|at| bytes[at]));
    bytes.chunks_exact(8).map(number).collect()
}

/// Reads the factors of all steps, or those of all blocks.
struct FactorReader<'a> {
    reader: &'a Reader<'a>,
    /// Prefix of the names of the tensors.
    prefix: &'static str,
    /// The word `step` or `block`.
    unit: &'static str,
    /// Number of steps or blocks.
    count: usize,
}

impl FactorReader<'_> {
    /// Reads the factors, for at most `patterns` patterns, where `lengths` are the numbers of rows and cols.
    fn read(&self, patterns: usize, lengths: [usize; 2]) -> Result<Vec<Factors>, Error> {
        let (prefix, unit) = (self.prefix, self.unit);
        let at = self.reader.integers(&format!("{prefix}rank_one.{unit}"))?;
        let shares = self.reader.floats(&format!("{prefix}rank_one.value"))?;
        let in_bounds = at.iter().all(|at| (0..self.count as i64).contains(at));
        if at.len() != shares.len() || !in_bounds || !at.is_sorted() {
            return Err(self.wrong("rank_one"));
        }
        // Number of patterns with factors. Patterns that were found later have none.
        let mut counts = vec![0; self.count];
        at.iter().for_each(|at| counts[*at as usize] += 1);
        if counts.iter().any(|count| *count > patterns) {
            return Err(self.wrong("rank_one"));
        }
        let rows = self.matrices("rows", lengths[0], &counts)?;
        let cols = self.matrices("cols", lengths[1], &counts)?;
        let mut shares = shares.as_slice();
        let factors = rows.into_iter().zip(cols).zip(&counts).map(|((rows, cols), count)| {
            let (own, later) = shares.split_at(*count);
            shares = later;
            Factors { rows, cols, rank_one: own.to_vec() }
        });
        Ok(factors.collect())
    }

    /// Reads one sparse matrix for each step or block.
    fn matrices(&self, name: &str, length: usize, counts: &[usize]) -> Result<Vec<Sparse>, Error> {
        let integers = |part: &str| self.reader.integers(&format!("{}{name}.{part}", self.prefix));
        let entries = Entries {
            at: integers(self.unit)?,
            patterns: integers("pattern")?,
            indices: integers("index")?,
            values: self.reader.floats(&format!("{}{name}.value", self.prefix))?,
        };
        entries.matrices(length, counts).ok_or_else(|| self.wrong(name))
    }

    fn wrong(&self, name: &str) -> Error {
        self.reader.cannot(format!("{}{name} is out of order or out of bounds", self.prefix))
    }
}

/// The entries of sparse matrices, one list for each part.
struct Entries {
    /// Step or block of each entry.
    at: Vec<i64>,
    patterns: Vec<i64>,
    indices: Vec<i64>,
    values: Vec<f64>,
}

impl Entries {
    /// Builds the matrices, or returns none if the entries are out of order or out of bounds.
    ///
    /// A matrix has `length` rows, and matrix number i has `counts[i]` columns.
    fn matrices(&self, length: usize, counts: &[usize]) -> Option<Vec<Sparse>> {
        let all = self.values.len();
        if [self.at.len(), self.patterns.len(), self.indices.len()].iter().any(|other| *other != all) {
            return None;
        }
        let mut next = 0;
        let mut matrices = Vec::new();
        for (at, count) in counts.iter().enumerate() {
            let mut matrix = Sparse::new(length);
            for pattern in 0..*count {
                let mut column: Vec<(u32, f64)> = Vec::new();
                while next < all && (self.at[next], self.patterns[next]) == (at as i64, pattern as i64) {
                    let index = u32::try_from(self.indices[next]).ok();
                    let index = index.filter(|index| (*index as usize) < length)?;
                    if column.last().is_some_and(|last| last.0 >= index) {
                        return None;
                    }
                    column.push((index, self.values[next]));
                    next += 1;
                }
                matrix.push(&column);
            }
            matrices.push(matrix);
        }
        (next == all).then_some(matrices)
    }
}

/// Returns the arrays of the factors of all steps or blocks, with their names. `unit` is the word `step` or `block`.
fn factor_arrays(prefix: &str, unit: &str, factors: &[Factors]) -> Vec<(String, Array)> {
    let mut tensors = Vec::new();
    for (name, of) in [("rows", (|it| &it.rows) as fn(&Factors) -> &Sparse), ("cols", |it| &it.cols)] {
        let mut columns = [Vec::new(), Vec::new(), Vec::new()];
        let mut values = Vec::new();
        for (at, factors) in factors.iter().enumerate() {
            for (pattern, column) in of(factors).columns().enumerate() {
                for &(index, value) in column {
                    let entry = [at as i64, pattern as i64, i64::from(index)];
                    columns.iter_mut().zip(entry).for_each(|(column, part)| column.push(part));
                    values.push(value);
                }
            }
        }
        for (part, column) in [unit, "pattern", "index"].into_iter().zip(columns) {
            tensors.push((format!("{prefix}{name}.{part}"), Array::integers(&column)));
        }
        tensors.push((format!("{prefix}{name}.value"), Array::floats(&values)));
    }
    let (mut at, mut patterns, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    for (number, factors) in factors.iter().enumerate() {
        for (pattern, share) in factors.rank_one.iter().enumerate() {
            at.push(number as i64);
            patterns.push(pattern as i64);
            shares.push(*share);
        }
    }
    tensors.push((format!("{prefix}rank_one.{unit}"), Array::integers(&at)));
    tensors.push((format!("{prefix}rank_one.pattern"), Array::integers(&patterns)));
    tensors.push((format!("{prefix}rank_one.value"), Array::floats(&shares)));
    tensors
}

/// An array to be written.
struct Array {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Array {
    fn floats(values: &[f64]) -> Array {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Array { dtype: Dtype::F64, shape: vec![values.len()], bytes }
    }

    fn integers(values: &[i64]) -> Array {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Array { dtype: Dtype::I64, shape: vec![values.len()], bytes }
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
