//! Tables: CSV, also packed by gzip, and Parquet.

use std::fs::File;
use std::io::{BufRead, Read, Seek};
use std::path::Path;

use crate::error::Error;
use crate::events::{At, Counter, Events};
use crate::query::Query;
use crate::{parquet, tns};

/// Reads a table, `-` for CSV from standard input. Parquet is known by its first bytes.
pub fn read(path: &Path, query: Query) -> Result<Events, Error> {
    let file = path.display().to_string();
    let mut counter = Counter::new(query);
    match if path.as_os_str() == "-" { None } else { open_parquet(path)? } {
        Some(input) => parquet::read(input, &file, &mut counter)?,
        None => csv(tns::open(path)?, &file, &mut counter)?,
    }
    counter.finish(&file)
}

const PARQUET: &[u8] = b"PAR1";

/// The file, if it is Parquet. A pipe has only one reading in it, and is CSV.
fn open_parquet(path: &Path) -> Result<Option<File>, Error> {
    let open = || {
        let mut file = File::open(path)?;
        if !file.metadata()?.is_file() {
            return Ok(None);
        }
        let mut start = Vec::new();
        Read::by_ref(&mut file).take(PARQUET.len() as u64).read_to_end(&mut start)?;
        file.rewind()?;
        Ok((start == PARQUET).then_some(file))
    };
    open().map_err(|error| Error::Read { file: path.display().to_string(), error })
}

/// Where each column stands among those that there are.
pub(crate) fn places(columns: &[String], known: &[String], file: &str) -> Result<Vec<usize>, Error> {
    let place = |column: &String| {
        let place = known.iter().position(|name| name == column);
        place.ok_or_else(|| Error::Column {
            file: file.into(),
            column: column.clone(),
            known: known.to_vec(),
        })
    };
    columns.iter().map(place).collect()
}

/// Reads CSV: the first line has the names of the columns.
pub fn csv(input: impl BufRead, file: &str, counter: &mut Counter) -> Result<(), Error> {
    let mut reader = csv::ReaderBuilder::new().buffer_capacity(1 << 16).from_reader(input);
    let cannot_read = |error: csv::Error| {
        let line = error.position().map_or(0, csv::Position::line);
        match error.into_kind() {
            csv::ErrorKind::Io(error) => Error::Read { file: file.into(), error },
            csv::ErrorKind::UnequalLengths { expected_len, len, .. } => Error::Line {
                file: file.into(),
                line,
                what: "the number of fields",
                value: len.to_string(),
                rule: format!("{expected_len}, as in the first line"),
            },
            other => Error::Format { file: file.into(), format: "CSV", what: format!("{other:?}") },
        }
    };
    let header = reader.byte_headers().map_err(cannot_read)?.clone();
    let name = |name: &[u8]| {
        let name = String::from_utf8_lossy(name);
        name.strip_prefix('\u{feff}').unwrap_or(&name).trim().to_owned()
    };
    let known: Vec<String> = header.iter().map(name).collect();
    let columns: Vec<String> = counter.columns().to_vec();
    let places = places(&columns, &known, file)?;
    let mut record = csv::ByteRecord::new();
    let mut fields: Vec<&str> = Vec::new();
    while reader.read_byte_record(&mut record).map_err(cannot_read)? {
        let at = At { file, line: record.position().map_or(0, csv::Position::line) };
        fields.clear();
        for (place, column) in places.iter().zip(&columns) {
            let bytes = record.get(*place).unwrap_or_default();
            let text = std::str::from_utf8(bytes).map_err(|_| Error::Field {
                file: file.into(),
                line: at.line,
                column: column.clone(),
                value: String::from_utf8_lossy(bytes).chars().take(40).collect(),
                rule: "text in UTF-8".into(),
            })?;
            fields.push(text);
        }
        counter.push(&fields, at)?;
        fields = recycle(fields);
    }
    Ok(())
}

/// The same memory, without what it borrowed.
fn recycle<'a>(mut fields: Vec<&str>) -> Vec<&'a str> {
    fields.clear();
    fields.into_iter().map(|_| "").collect()
}
