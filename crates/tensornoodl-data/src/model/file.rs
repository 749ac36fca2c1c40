//! The model file: one safetensors file with the patterns, the factors of every step, labels, settings and history,
//! and a checksum over all bytes. Python reads it with the package safetensors.
//!
//! | tensor | type | content |
//! | --- | --- | --- |
//! | `patterns` | f64, m x n | each row is a pattern of unit length |
//! | `patterns.id` | i64 | the identity of each pattern: a number that no other pattern of the model ever gets |
//! | `patterns.next_id` | i64 | the identity of the next pattern |
//! | `patterns.name` | texts | the name of each pattern, or empty |
//! | `labels.features`, `labels.rows`, `labels.cols`, `labels.steps` | texts | the labels of all axes |
//! | `labels.row_groups`, `labels.col_groups` | texts | known groups of rows and cols, or none |
//! | `rows.step`, `rows.pattern`, `rows.index` | i64 | step, pattern and row of each row factor that is not zero |
//! | `rows.value` | f64 | values of these row factors |
//! | `cols.step`, `cols.pattern`, `cols.index` | i64 | step, pattern and col of each col factor that is not zero |
//! | `cols.value` | f64 | values of these col factors |
//! | `rank_one.step`, `rank_one.pattern` | i64 | step and pattern of each entry of `rank_one.value` |
//! | `rank_one.value` | f64 | the share of the pattern's energy that its factors hold |
//! | `blocks.rows.block`, ... `blocks.rank_one.value` | | as above, for further groups that share a pattern in the last step; empty for counts |
//! | `card` | JSON | settings: how the table was counted and prepared, and by which command |
//! | `history` | JSON | a [`Record`] for each step |
//! | `learner` | u8 | the state of the learner, to continue with the next step |
//! | `checksum` | i64 | the checksum of the file |
//! | `section.evidence` | JSON | [`Evidence`] for the number of patterns |
//! | `section.archive.pattern` | f64, a x n | patterns that were lost or retired |
//! | `section.archive.id` | i64 | the identity of each of them |
//! | `section.archive.retired` | i64 | 1 if the pattern retired and may return, else 0 |
//! | `section.archive.first` | i64 | the step that found it, from 0 |
//! | `section.archive.last` | i64 | the last step that showed it, from 0 |
//! | `section.archive.name` | texts | their names, or empty |
//! | `section.groups.rows.group`, `section.groups.rows.index` | i64 | for counts, if groups were asked for before: group and row of each entry of `section.groups.rows.value` |
//! | `section.groups.rows.value` | f64 | the number of events that a row has in a group, in the latest steps |
//! | `section.groups.cols.group`, ... `section.groups.cols.value` | | as above, for cols |
//! | `section.groups.share` | f64, m x groups | the share of each group in the events of each pattern |
//!
//! A list of texts `X` is two tensors: `X.text` (u8) has the texts in UTF-8, one after the other, and `X.end` (i64)
//! has the end of each text in bytes. JSON documents are tensors of bytes (u8). So the header of the file is small for
//! any number of labels and steps.
//!
//! Tensors whose names begin with `section.` are optional; the next word is the name of the section. A reader leaves
//! out sections and other tensors that it does not know. `section.error_bars` and `section.open_steps` are reserved.
//!
//! The metadata has one entry, `tensornoodl`, a JSON object: `format` is 3, and `kind` is the kind of model, `exact`
//! or `counts`.
//!
//! The checksum is the CRC-32 of the whole file, as zlib computes it, with zeros in place of the eight bytes of
//! `checksum`. In Python:
//!
//! ```python
//! data = bytearray(open("mail.safetensors", "rb").read())
//! start = 8 + int.from_bytes(data[:8], "little")
//! start += json.loads(data[8:start])["checksum"]["data_offsets"][0]
//! written = int.from_bytes(data[start:start + 8], "little")
//! data[start:start + 8] = bytes(8)
//! assert zlib.crc32(data) == written
//! ```
//!
//! Files of format 2 are read, too. They have neither a checksum nor identities and sections, and labels, settings and
//! history are the [`Card`] as JSON in the metadata.

use std::collections::HashSet;
use std::path::Path;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use tensornoodl::{ExactLearner, Learner};

use crate::count::query::Query;
use crate::count::recipe::Recipe;
use crate::count::tally::Tally;
use crate::error::Error;
use crate::files;
use crate::memory;
use crate::model::arrays::{Array, Reader, serialize, text_arrays};
use crate::model::card::{Card, FORMAT, Record, exact};
use crate::model::choice::model_name;
use crate::model::evidence::Evidence;
use crate::model::factors::{FactorReader, factor_arrays};
use crate::model::group_arrays::{group_arrays, read_groups};
use crate::model::identity::{Archived, Identities, Identity, MAX_ID};
use crate::model::learn::{Model, blocks};

/// The last format without a checksum.
const UNSEALED: u32 = 2;

/// The kinds of models that this program knows.
const KINDS: [&str; 2] = ["exact", "counts"];

/// What the metadata says about the file, in all formats.
#[derive(Serialize, Deserialize)]
struct Head {
    format: u32,
    #[serde(default = "exact")]
    kind: String,
}

/// The parts of the card that the tensor `card` holds.
#[derive(Serialize, Deserialize)]
struct Settings {
    version: String,
    table: String,
    command: String,
    query: Query,
    recipe: Recipe,
    seed: u64,
    tally: Tally,
}

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
    /// [`Error::Read`] if the operating system refuses, [`Error::Damaged`] if the checksum is wrong, [`Error::Format`]
    /// if the file is not a model, [`Error::Memory`] if it does not fit into memory.
    pub fn load(path: &Path) -> Result<Model, Error> {
        let file = path.display().to_string();
        let bytes = std::fs::read(path).map_err(|error| Error::Read { file: file.clone(), error })?;
        // The arrays, and what is made of them.
        memory::check(2.0 * bytes.len() as f64)?;
        Model::from_bytes(&bytes, &file)
    }

    /// Returns what a user should know about the file that the model was read from, or none.
    pub fn note(&self) -> Option<&'static str> {
        let note = "its format is 2, which has no checksum: damage may go unnoticed; a model that is saved again has one";
        (self.card.format <= UNSEALED).then_some(note)
    }

    /// Serializes the model to the bytes of a file, in the present format.
    ///
    /// # Errors
    /// [`Error::Format`] if the model cannot be serialized.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        self.serialize().map_err(|what| Error::Format { file: "the model".into(), format: "a model", what })
    }

    fn serialize(&self) -> Result<Vec<u8>, String> {
        let (card, dictionary) = (&self.card, self.learner.dictionary());
        let mut arrays = vec![
            array(
                "patterns",
                Array::matrix([dictionary.patterns(), dictionary.features()], dictionary.values()),
            ),
            array("patterns.next_id", Array::integers(&[self.identities.next as i64])),
        ];
        arrays.extend(identity_arrays("patterns", &self.identities.list));
        for (name, labels) in [
            ("labels.features", &card.features),
            ("labels.rows", &card.rows),
            ("labels.cols", &card.cols),
            ("labels.steps", &card.steps),
            ("labels.row_groups", &card.row_groups),
            ("labels.col_groups", &card.col_groups),
        ] {
            arrays.extend(text_arrays(name, labels));
        }
        arrays.extend(factor_arrays("", "step", &self.factors));
        arrays.extend(factor_arrays("blocks.", "block", &self.blocks));
        let settings = Settings {
            version: card.version.clone(),
            table: card.table.clone(),
            command: card.command.clone(),
            query: card.query.clone(),
            recipe: card.recipe.clone(),
            seed: card.seed,
            tally: card.tally.clone(),
        };
        arrays.push(json_array("card", &settings)?);
        arrays.push(json_array("history", &card.history)?);
        let learner = postcard::to_stdvec(&self.learner).map_err(|error| error.to_string())?;
        arrays.push(array("learner", Array::bytes(learner)));
        if let Some(evidence) = &self.evidence {
            arrays.push(json_array("section.evidence", evidence)?);
        }
        if !self.archive.is_empty() {
            arrays.extend(archive_arrays(&self.archive, dictionary.features()));
        }
        // Groups that nobody has asked for are not searched for: that takes as long as to learn.
        if let Some(groups) = self.groups.get() {
            arrays.extend(group_arrays(groups));
        }
        let head = Head { format: FORMAT, kind: card.kind.clone() };
        serialize(arrays, serde_json::to_string(&head).map_err(|error| error.to_string())?)
    }

    /// Reads a model from the bytes of a file. `file` is the name of the file in messages.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the checksum is wrong, [`Error::Format`] if the bytes are not a model, or if the parts of
    /// the model do not fit together. The bytes can come from anybody: this function does not panic.
    pub fn from_bytes(bytes: &[u8], file: &str) -> Result<Model, Error> {
        let reader = Reader::new(bytes, file)?;
        let head: Head = reader.entry()?;
        let card = match head.format {
            FORMAT => {
                reader.verify()?;
                read_card(&reader, head)?
            }
            UNSEALED => reader.entry()?,
            other => {
                let what = format!("its format is {other}, this program knows {UNSEALED} and {FORMAT}");
                return Err(reader.cannot(what));
            }
        };
        if !KINDS.contains(&card.kind.as_str()) {
            let what =
                format!("it is a model of the kind {:?}, this program knows {}", card.kind, KINDS.join(", "));
            return Err(reader.cannot(what));
        }
        let learner = read_learner(reader.bytes("learner")?, card.format)
            .map_err(|error| reader.cannot(format!("the state of its learner: {error}")))?;
        if card.kind != model_name(learner.kind()) {
            return Err(reader.cannot("its kind is not that of its learner"));
        }
        let (dictionary, steps) = (learner.dictionary(), card.history.len());
        let (patterns, features) = (dictionary.patterns(), dictionary.features());
        if reader.matrix("patterns")? != ([patterns, features], dictionary.values().to_vec()) {
            return Err(reader.cannot("its patterns are not those of its learner"));
        }
        let groups = |groups: &[String], labels: &[String]| groups.is_empty() || groups.len() == labels.len();
        if card.features.len() != features
            || card.steps.len() < steps
            || !groups(&card.row_groups, &card.rows)
            || !groups(&card.col_groups, &card.cols)
        {
            return Err(reader.cannot("its labels do not fit its patterns"));
        }
        let lengths = [card.rows.len(), card.cols.len()];
        let blocks = if steps == 0 { 0 } else { blocks(learner.kind()) - 1 };
        let factors = FactorReader { reader: &reader, prefix: "", unit: "step", count: steps };
        let factors = factors.read(patterns, lengths)?;
        let blocks = FactorReader { reader: &reader, prefix: "blocks.", unit: "block", count: blocks };
        let blocks = blocks.read(patterns, lengths)?;
        let (identities, archive) = match card.format {
            UNSEALED => (Identities::new(patterns), Vec::new()),
            _ => read_identities(&reader, [patterns, features], steps)?,
        };
        if archive.iter().filter(|it| it.retired).count() > learner.retired().len() {
            return Err(reader.cannot("section.archive does not fit the retired patterns of its learner"));
        }
        let evidence = "section.evidence";
        let evidence = reader.has(evidence).then(|| reader.json::<Evidence>(evidence)).transpose()?;
        let groups = read_groups(&reader, patterns, lengths)?.map_or_else(OnceLock::new, OnceLock::from);
        Ok(Model { card, learner, factors, blocks, groups, identities, archive, evidence })
    }
}

fn array(name: &str, array: Array) -> (String, Array) {
    (name.into(), array)
}

fn json_array(name: &str, value: &impl Serialize) -> Result<(String, Array), String> {
    let json = serde_json::to_vec(value).map_err(|error| error.to_string())?;
    Ok(array(name, Array::bytes(json)))
}

/// Returns the arrays of identities and names.
fn identity_arrays<'i>(
    name: &str,
    identities: impl IntoIterator<Item = &'i Identity, IntoIter: Clone>,
) -> Vec<(String, Array)> {
    let identities = identities.into_iter();
    let ids: Vec<i64> = identities.clone().map(|identity| identity.id as i64).collect();
    let mut arrays = vec![(format!("{name}.id"), Array::integers(&ids))];
    arrays.extend(text_arrays(&format!("{name}.name"), identities.map(|identity| &identity.name)));
    arrays
}

/// Returns the arrays of the lost and retired patterns.
fn archive_arrays(archive: &[Archived], features: usize) -> Vec<(String, Array)> {
    let values: Vec<f64> = archive.iter().flat_map(|it| it.pattern.iter().copied()).collect();
    let steps = |of: fn(&Archived) -> usize| {
        Array::integers(&archive.iter().map(|it| of(it) as i64).collect::<Vec<_>>())
    };
    let mut arrays = identity_arrays("section.archive", archive.iter().map(|it| &it.identity));
    arrays.push(array("section.archive.pattern", Array::matrix([archive.len(), features], &values)));
    arrays.push(array("section.archive.retired", steps(|it| usize::from(it.retired))));
    arrays.push(array("section.archive.first", steps(|it| it.first)));
    arrays.push(array("section.archive.last", steps(|it| it.last)));
    arrays
}

/// Reads the card of a file of the present format.
fn read_card(reader: &Reader<'_>, head: Head) -> Result<Card, Error> {
    let Settings { version, table, command, query, recipe, seed, tally } = reader.json("card")?;
    Ok(Card {
        format: head.format,
        kind: head.kind,
        version,
        table,
        command,
        query,
        recipe,
        features: reader.texts("labels.features")?,
        rows: reader.texts("labels.rows")?,
        cols: reader.texts("labels.cols")?,
        steps: reader.texts("labels.steps")?,
        row_groups: reader.texts("labels.row_groups")?,
        col_groups: reader.texts("labels.col_groups")?,
        seed,
        tally,
        history: reader.json::<Vec<Record>>("history")?,
    })
}

/// Reads the state of a learner, from the tensor `learner` of a file of this format.
///
/// The bytes have no names of fields, so a learner with other fields needs a new format. This function is the place
/// to convert the state of older formats.
fn read_learner(bytes: &[u8], format: u32) -> Result<Learner, String> {
    let read: Result<(Learner, &[u8]), _> = match format {
        // Format 2 knows the exact model only.
        UNSEALED => postcard::take_from_bytes(bytes).map(|(it, rest): (ExactLearner, _)| (it.into(), rest)),
        FORMAT => postcard::take_from_bytes(bytes),
        other => return Err(format!("it has the unknown format {other}")),
    };
    // If there is a checksum, it was right, and these are the bytes that were written.
    let remedy = match format {
        UNSEALED => "the file may be damaged",
        _ => "another version of the program wrote it: use that version, or learn the model again",
    };
    let (learner, rest) = read.map_err(|error| format!("{error}; {remedy}"))?;
    if !rest.is_empty() {
        return Err(format!("it has {} bytes too many; {remedy}", rest.len()));
    }
    learner.check().map_err(|error| error.to_string())?;
    Ok(learner)
}

/// Reads the identities of the patterns, and the lost patterns. `shape` is the number of patterns and of features.
fn read_identities(
    reader: &Reader<'_>,
    [patterns, features]: [usize; 2],
    steps: usize,
) -> Result<(Identities, Vec<Archived>), Error> {
    let [next] = reader.integers("patterns.next_id")?[..] else {
        return Err(reader.cannot("patterns.next_id has not one value"));
    };
    let mut taken = HashSet::new();
    let mut read = |name: &str, count: usize| {
        let (ids, names) = (reader.integers(&format!("{name}.id"))?, reader.texts(&format!("{name}.name"))?);
        let mut fits = ids.len() == count && names.len() == count && next <= MAX_ID as i64;
        let identity = |(id, name): (i64, String)| {
            fits &= (1..next).contains(&id) && taken.insert(id);
            Identity { id: id as u64, name }
        };
        let identities: Vec<Identity> = ids.into_iter().zip(names).map(identity).collect();
        let wrong = || reader.cannot(format!("{name}.id must be one new number from 1 for each pattern"));
        if fits { Ok(identities) } else { Err(wrong()) }
    };
    let list = read("patterns", patterns)?;
    let mut archive = Vec::new();
    if reader.has("section.archive.id") {
        let ([count, length], values) = reader.matrix("section.archive.pattern")?;
        let identities = read("section.archive", count)?;
        let (first, last) =
            (reader.integers("section.archive.first")?, reader.integers("section.archive.last")?);
        let retired = reader.integers("section.archive.retired")?;
        let in_order =
            first.iter().zip(&last).all(|(first, last)| 0 <= *first && first <= last && *last < steps as i64);
        let flags = retired.iter().all(|flag| [0, 1].contains(flag));
        let lengths = [first.len(), last.len(), retired.len()];
        if length != features || lengths != [count; 3] || !in_order || !flags {
            return Err(reader.cannot("section.archive does not fit its patterns and steps"));
        }
        let patterns = values.chunks_exact(features).map(<[f64]>::to_vec);
        let steps = first.into_iter().zip(last).map(|(first, last)| (first as usize, last as usize));
        archive = identities
            .into_iter()
            .zip(patterns)
            .zip(steps)
            .zip(retired)
            .map(|(((identity, pattern), (first, last)), retired)| Archived {
                identity,
                retired: retired == 1,
                pattern,
                first,
                last,
            })
            .collect();
    }
    Ok((Identities { list, next: next.max(1) as u64 }, archive))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::evidence::Rung;
    use crate::model::stability::{Repeat, Stability};
    use tensornoodl::{Dictionary, Params, Shape, Tensor};

    fn model() -> Model {
        let patterns = Dictionary::from_columns(3, vec![1.0, 0.5, 0.0, 0.0, 0.0, 1.0]).unwrap();
        let axis = |name: &str| crate::Axis::Column(name.into());
        let query = Query {
            feature: axis("f"),
            row: axis("r"),
            col: axis("c"),
            step: Some(axis("t")),
            value: crate::Value::Count,
            average_over: None,
            keep_rows: None,
            max_features: None,
            filters: Vec::new(),
            square: false,
            names: None,
            groups: None,
        };
        let labels = [&["a", "", "\u{1f35c} \n\"\0"][..], &["r"], &["c", "d"]];
        let labels = labels.map(|names| names.iter().map(|name| name.to_string()).collect());
        let mut card = Card::new(query, labels);
        card.steps = vec!["1".into(), "2".into()];
        card.row_groups = vec![String::new()];
        let mut model = Model::with_card(Learner::new(patterns, Params::default()).unwrap(), card);
        let shape = Shape { features: 3, rows: 1, cols: 2 };
        let entries = [(0, 0, 0, 2.0), (1, 0, 0, 1.0), (2, 0, 1, 5.0)];
        model.learn(&Tensor::from_triplets(shape, &entries).unwrap()).unwrap();
        model
    }

    fn archived(id: u64) -> Archived {
        let identity = Identity { id, name: "old \u{e9}".into() };
        Archived { identity, retired: false, pattern: vec![0.0, -1.0, 0.0], first: 0, last: 0 }
    }

    fn with_archive(model: &mut Model, change: fn(&mut Archived)) {
        model.identities.next = 4;
        model.archive = vec![archived(3)];
        change(&mut model.archive[0]);
    }

    #[test]
    fn all_parts_are_written_and_read() {
        let mut model = model();
        model.set_name(1, "night shift");
        model.identities.next = 5;
        model.archive = vec![archived(4), archived(3)];
        let rung = |patterns: usize, gain: f64| Rung { patterns, gain, error: 0.1 + gain / 3.0 };
        let repeat = Repeat { seed: 7, patterns: 3, agreement: 0.1 + 0.2 };
        let stability = Some(Stability { seeds: vec![repeat], halves: [2, 3], halves_agreement: 0.7 });
        model.evidence = Some(Evidence { rungs: vec![rung(2, 10.3), rung(4, -1e-300)], stability });
        let again = Model::from_bytes(&model.to_bytes().unwrap(), "m").unwrap();
        assert_eq!((again.identities()[1].name.as_str(), again.archive().len()), ("night shift", 2));
        assert!(again == model);
        // An error that is not finite is written, too.
        let rungs = vec![Rung { error: f64::INFINITY, ..rung(2, 1.0) }];
        model.evidence = Some(Evidence { rungs, stability: None });
        let again = Model::from_bytes(&model.to_bytes().unwrap(), "m").unwrap();
        let read = again.evidence.unwrap().rungs[0];
        assert!(read.gain == 1.0 && read.error.is_nan());
    }

    #[test]
    fn identities_that_do_not_fit_are_refused() {
        let wrong = |change: fn(&mut Model), what: &str| {
            let mut model = model();
            change(&mut model);
            let error = Model::from_bytes(&model.to_bytes().unwrap(), "m").unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        };
        let ids = "id must be one new number from 1 for each pattern";
        wrong(|model| model.identities.next = 2, ids);
        wrong(|model| model.identities.list[1].id = 1, ids);
        wrong(|model| model.identities.list[1].id = 0, ids);
        wrong(|model| model.identities.next = u64::MAX, ids);
        wrong(|model| model.identities.next = MAX_ID + 1, ids);
        wrong(|model| drop(model.identities.list.pop()), ids);
        wrong(|model| model.archive = vec![archived(2)], ids);
        wrong(|model| model.archive = vec![archived(3)], ids);
        let fit = "section.archive does not fit its patterns and steps";
        wrong(|model| with_archive(model, |it| it.last = 1), fit);
        wrong(|model| with_archive(model, |it| it.first = 1), fit);
        let fit = "section.archive does not fit the retired patterns of its learner";
        wrong(|model| with_archive(model, |it| it.retired = true), fit);
        wrong(
            |model| model.card.kind = "sums".into(),
            "it is a model of the kind \"sums\", this program knows exact, counts",
        );
        wrong(|model| model.card.row_groups.push("x".into()), "its labels do not fit its patterns");
        wrong(|model| drop(model.card.features.pop()), "its labels do not fit its patterns");
    }
}
