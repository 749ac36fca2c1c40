//! What the targets do: one function for each reader, which panics if the reader breaks its promise.
#![allow(dead_code)]

use std::fmt::{Debug, Display};
use std::path::PathBuf;
use std::str::FromStr;

use safetensors::SafeTensors;
use tensornoodl::{Shape, Tensor};
use tensornoodl_data::{Axis, Counter, Error, Events, Filter, Model, Query, Recipe, Value, table};

fn query(feature: &str, row: &str, col: &str, value: &str) -> Query {
    Query {
        feature: feature.parse().unwrap(),
        row: row.parse().unwrap(),
        col: col.parse().unwrap(),
        step: None,
        value: value.parse().unwrap(),
        average_over: None,
        keep_rows: None,
        max_features: None,
        filters: Vec::new(),
        square: false,
        names: None,
        groups: None,
    }
}

/// Returns queries of a table with the columns a, b, c and d.
fn queries() -> [Query; 3] {
    [
        Query {
            step: Some("week(a)".parse().unwrap()),
            keep_rows: Some(2),
            max_features: Some(1000),
            filters: vec!["d!=@c".parse().unwrap()],
            square: false,
            names: None,
            groups: None,
            ..query("month(a)", "b", "c", "count")
        },
        query("grid(c,d,3x2)", "b", "weekhour(a)", "mean(d)"),
        Query { average_over: Some("b".into()), ..query("bin(d,0.5)", "b", "c", "sum(c)") },
    ]
}

/// Returns the query that the program uses for an array.
fn array_query() -> Query {
    query("bin(1,1)", "bin(2,1)", "bin(3,1)", "sum(value)")
}

/// Builds the tensors of a table that was read, unless they are large. An error of a tensor is fine, an error message
/// must be one line.
fn use_events(events: Result<Events, Error>) {
    match events {
        Ok(events) if events.bytes() < 1e7 => {
            let recipe: Recipe = "log2,scale,center".parse().unwrap();
            for step in 0..events.steps() {
                let _ = events.tensor(step).and_then(|tensor| recipe.apply(tensor));
            }
        }
        Ok(_) => {}
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
}

/// Reads bytes as a file with this extension.
fn read(bytes: &[u8], extension: &str, query: Query) {
    let path: PathBuf = std::env::temp_dir().join(format!("noodl-fuzz-{}.{extension}", std::process::id()));
    std::fs::write(&path, bytes).unwrap();
    use_events(table::read(&path, query));
}

/// Reads any bytes as CSV, with queries that cover every kind of axis.
pub(crate) fn csv(bytes: &[u8]) {
    for query in queries() {
        let mut counter = Counter::new(query);
        if table::csv(bytes, "fuzz.csv", &mut counter).is_ok() {
            use_events(counter.finish("fuzz.csv"));
        }
    }
}

/// Reads any bytes as a Parquet file.
pub(crate) fn parquet(bytes: &[u8]) {
    for query in queries() {
        read(bytes, "parquet", query);
    }
}

/// Reads any bytes as a .npy file.
pub(crate) fn npy(bytes: &[u8]) {
    read(bytes, "npy", array_query());
}

/// Reads any bytes as a .npz file.
pub(crate) fn npz(bytes: &[u8]) {
    read(bytes, "npz", array_query());
}

/// Reads any bytes as a .tns file.
pub(crate) fn tns(bytes: &[u8]) {
    read(bytes, "tns", array_query());
}

/// Reads any bytes as a model file, as they are and with the checksum that they need. A model that is read can be
/// written, shown and used.
pub(crate) fn model(bytes: &[u8]) {
    use_model(Model::from_bytes(bytes, "fuzz.safetensors"));
    let mut sealed = bytes.to_vec();
    seal(&mut sealed);
    use_model(Model::from_bytes(&sealed, "sealed.safetensors"));
}

/// Writes the checksum of the bytes into a model file, if the file has a place for it.
fn seal(bytes: &mut [u8]) {
    let Ok((header, metadata)) = SafeTensors::read_metadata(bytes) else { return };
    let Some(info) = metadata.info("checksum") else { return };
    let (start, end) = (8 + header + info.data_offsets.0, 8 + header + info.data_offsets.1);
    if end - start == 8 {
        bytes[start..end].fill(0);
        let checksum = u64::from(crc32fast::hash(bytes));
        bytes[start..end].copy_from_slice(&checksum.to_le_bytes());
    }
}

fn use_model(model: Result<Model, Error>) {
    match model {
        Ok(mut model) => {
            let again = model.to_bytes().expect("a model that was read can be written");
            let again = Model::from_bytes(&again, "again").expect("a model that was written can be read");
            assert_eq!(again.identities(), model.identities());
            assert_eq!(again.card.rows, model.card.rows);
            for pattern in 0..model.learner.dictionary().patterns() {
                model.leading(pattern, |factors| &factors.rows);
                model.first_step(pattern);
            }
            let shape = Shape { features: model.card.features.len(), rows: 2, cols: 2 };
            let entries: Vec<_> =
                (0..shape.features).map(|at| (at, at % 2, at % 2, 1.0 + at as f64)).collect();
            if let Ok(tensor) = Tensor::from_triplets(shape, &entries) {
                // An error is fine, and so are meaningless patterns.
                let _ = model.learner.encode(&tensor);
                let _ = model.learn(&tensor);
            }
        }
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
}

/// Parses any text as an axis, a value, a filter or a recipe. What can be parsed is written so that it parses to an
/// equal value.
pub(crate) fn words(text: &str) {
    round::<Axis>(text);
    round::<Value>(text);
    round::<Filter>(text);
    round::<Recipe>(text);
}

fn round<T: FromStr + Display + PartialEq + Debug>(text: &str) {
    if let Ok(it) = text.parse::<T>() {
        let again = it.to_string();
        match again.parse::<T>() {
            Ok(other) => assert_eq!(it, other, "{text:?} is written as {again:?}"),
            Err(_) => panic!("{text:?} is written as {again:?}, which cannot be parsed"),
        }
    }
}
