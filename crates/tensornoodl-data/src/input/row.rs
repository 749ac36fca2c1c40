//! Rows of tables, and the fields in them.

use crate::error::Error;

/// Columns of a table that is an array: indices along its axes, and the value of an entry.
pub const ARRAY_COLUMNS: [&str; 4] = ["1", "2", "3", "value"];

/// Where a field stands, for messages.
#[derive(Debug, Clone, Copy)]
pub struct At<'a> {
    /// The file.
    pub file: &'a str,
    /// The line, or the row where a file has no lines; from 1.
    pub line: u64,
}

/// Takes the fields of a row, one for each column that was asked for.
pub(crate) type Push<'a> = dyn FnMut(&[&str], At<'_>) -> Result<(), Error> + 'a;

/// Where each column stands among those of an array.
pub(crate) fn array_places(columns: &[String], file: &str) -> Result<Vec<usize>, Error> {
    places(columns, &ARRAY_COLUMNS.map(str::to_owned), file)
}

/// Where each column stands among those that there are.
pub(crate) fn places(columns: &[String], known: &[String], file: &str) -> Result<Vec<usize>, Error> {
    let place = |column: &String| {
        let place = known.iter().position(|name| name == column);
        if known.iter().filter(|name| *name == column).count() > 1 {
            let what = format!("it has two columns named {column}");
            return Err(Error::Format { file: file.into(), format: "a table", what });
        }
        place.ok_or_else(|| Error::Column {
            file: file.into(),
            column: column.clone(),
            known: known.to_vec(),
        })
    };
    columns.iter().map(place).collect()
}

/// A field as text.
pub(crate) fn text<'a>(bytes: &'a [u8], column: &str, at: At<'_>) -> Result<&'a str, Error> {
    std::str::from_utf8(bytes).map_err(|_| Error::Field {
        file: at.file.into(),
        line: at.line,
        column: column.into(),
        value: String::from_utf8_lossy(bytes).chars().take(40).collect(),
        rule: "text in UTF-8".into(),
    })
}

/// The number that a field holds.
pub(crate) fn number(text: &str, column: &str, at: At<'_>) -> Result<f64, Error> {
    let finite = |number: &f64| number.abs() <= 1e100;
    text.trim()
        .parse()
        .ok()
        .filter(finite)
        .ok_or_else(|| wrong(text, column, at, "a number of at most 1e100"))
}

pub(crate) fn wrong(text: &str, column: &str, at: At<'_>, rule: &str) -> Error {
    Error::Field {
        file: at.file.into(),
        line: at.line,
        column: column.into(),
        // A field may be anything; a message is one line.
        value: text.chars().take(40).collect(),
        rule: rule.into(),
    }
}
