//! Rows of a table: their columns, their fields, and where they stand in a file.

use crate::error::Error;

/// The columns of an array that is read as a table: the index along each of its three axes, and the value of the entry.
pub const ARRAY_COLUMNS: [&str; 4] = ["1", "2", "3", "value"];

/// The position of a row in a file, for error messages.
#[derive(Debug, Clone, Copy)]
pub struct At<'a> {
    /// Name of the file.
    pub file: &'a str,
    /// Line number, from 1. A format without lines has the row number instead.
    pub line: u64,
}

/// The function that a reader calls for each row, with one field for each column that was asked for.
pub(crate) type Push<'a> = dyn FnMut(&[&str], At<'_>) -> Result<(), Error> + 'a;

/// The largest number of characters of a value that a message quotes. A value can be anything, and a message is one
/// line.
const QUOTED: usize = 40;

/// Shortens a value for a message.
pub(crate) fn quote(value: &str) -> String {
    value.chars().take(QUOTED).collect()
}

/// Returns the position of each column among [`ARRAY_COLUMNS`].
pub(crate) fn array_positions(columns: &[String], file: &str) -> Result<Vec<usize>, Error> {
    positions(columns, &ARRAY_COLUMNS.map(str::to_owned), file)
}

/// Returns the position of each column among the columns that the table has.
///
/// # Errors
/// If a column is missing, or if the table has two columns of that name.
pub(crate) fn positions(columns: &[String], known: &[String], file: &str) -> Result<Vec<usize>, Error> {
    let position = |column: &String| {
        if known.iter().filter(|name| *name == column).count() > 1 {
            let what = format!("it has two columns named {column}");
            return Err(Error::Format { file: file.into(), format: "a table", what });
        }
        let position = known.iter().position(|name| name == column);
        position.ok_or_else(|| Error::Column {
            file: file.into(),
            column: column.clone(),
            known: known.to_vec(),
        })
    };
    columns.iter().map(position).collect()
}

/// Returns a field as text.
///
/// # Errors
/// If the bytes are not UTF-8.
pub(crate) fn text<'a>(bytes: &'a [u8], column: &str, at: At<'_>) -> Result<&'a str, Error> {
    std::str::from_utf8(bytes)
        .map_err(|_| bad_field(&String::from_utf8_lossy(bytes), column, at, "text in UTF-8"))
}

/// Parses a field as a number.
///
/// # Errors
/// If the field is not a number, or its magnitude is above 1e100.
pub(crate) fn number(text: &str, column: &str, at: At<'_>) -> Result<f64, Error> {
    let usable = |number: &f64| number.abs() <= 1e100;
    let number = text.trim().parse().ok().filter(usable);
    let rule = "a number of at most 1e100; a field without a value must be empty";
    number.ok_or_else(|| bad_field(text, column, at, rule))
}

/// The error of a field that breaks a rule.
pub(crate) fn bad_field(text: &str, column: &str, at: At<'_>, rule: &str) -> Error {
    Error::Field {
        file: at.file.into(),
        line: at.line,
        column: column.into(),
        value: quote(text),
        rule: rule.into(),
    }
}
