//! Reads CSV files row by row.

use std::io::{self, BufRead, Read};

use crate::error::Error;
use crate::input::row::{At, Push, positions, text};

/// The largest length of a row in bytes. A quote that is never closed makes one row of everything after it.
const MAX_ROW: u64 = 1 << 24;

/// Pushes some columns of a CSV file, row by row. The first line has the names of the columns.
///
/// `file` is the name of the input in messages. `shift` is added to the line numbers of all rows but the first line.
///
/// # Errors
/// If a column is missing, a row cannot be parsed, or `push` fails.
pub(crate) fn rows(
    input: impl BufRead,
    shift: u64,
    file: &str,
    columns: &[String],
    push: &mut Push<'_>,
) -> Result<(), Error> {
    let input = Limited { input, remaining: MAX_ROW, last_read: Vec::new(), before: 0, failure: None };
    let mut reader = csv::ReaderBuilder::new().buffer_capacity(1 << 16).from_reader(input);
    let header = reader.byte_headers().map_err(|error| read_error(error, file, 1))?.clone();
    let positions = positions(columns, &column_names(&header, file)?, file)?;
    let mut record = csv::ByteRecord::new();
    let mut fields: Vec<&str> = Vec::new();
    loop {
        // The crate csv counts empty lines before a row as part of the row.
        let (line, byte) = (reader.position().line(), reader.position().byte());
        let at = At { file, line: shift + line + reader.get_mut().empty_lines(byte) };
        if !reader.read_byte_record(&mut record).map_err(|error| read_error(error, file, at.line))? {
            return Ok(());
        }
        fields.clear();
        for (position, column) in positions.iter().zip(columns) {
            fields.push(text(record.get(*position).unwrap_or_default(), column, at)?);
        }
        push(&fields, at)?;
        fields = recycle(fields);
        reader.get_mut().remaining = MAX_ROW;
    }
}

fn column_names(header: &csv::ByteRecord, file: &str) -> Result<Vec<String>, Error> {
    let name = |name: &[u8]| {
        let name = String::from_utf8_lossy(name);
        name.strip_prefix('\u{feff}').unwrap_or(&name).trim().to_owned()
    };
    let names: Vec<String> = header.iter().map(name).collect();
    if names.is_empty() {
        let what = "it is empty, its first line must have the names of the columns".into();
        return Err(Error::Format { file: file.into(), format: "CSV", what });
    }
    Ok(names)
}

fn read_error(error: csv::Error, file: &str, line: u64) -> Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) if error.kind() == io::ErrorKind::FileTooLarge => Error::Line {
            file: file.into(),
            line,
            what: "the row",
            value: "longer".into(),
            rule: format!("at most {MAX_ROW} bytes long (is a quote never closed?)"),
        },
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
}

/// An input that fails when a row is longer than [`MAX_ROW`], and that remembers the bytes of its last read.
struct Limited<R> {
    input: R,
    /// Number of bytes that the current row may still have.
    remaining: u64,
    /// The bytes of the last read.
    last_read: Vec<u8>,
    /// Number of bytes that were read before those of `last_read`.
    before: u64,
    /// An error that the next read reports. A decoder reports a wrong checksum once, and then the end of its input.
    failure: Option<io::Error>,
}

impl<R: BufRead> Limited<R> {
    /// Counts the line feeds between byte `at` of the input and the next row.
    fn empty_lines(&mut self, at: u64) -> u64 {
        let is_line_end = |byte: &&u8| matches!(byte, b'\n' | b'\r');
        let count =
            |bytes: &[u8]| bytes.iter().take_while(is_line_end).filter(|byte| **byte == b'\n').count() as u64;
        let start = at.checked_sub(self.before);
        let bytes = start.and_then(|start| self.last_read.get(start as usize..)).unwrap_or_default();
        let mut lines = count(bytes);
        if bytes.iter().all(|byte| is_line_end(&byte)) {
            match self.input.fill_buf() {
                Ok(bytes) => lines += count(bytes),
                Err(error) => self.failure = Some(error),
            }
        }
        lines
    }
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        let read = self.input.read(buffer)?;
        self.remaining = self.remaining.checked_sub(read as u64).ok_or(io::ErrorKind::FileTooLarge)?;
        self.before += self.last_read.len() as u64;
        self.last_read.clear();
        self.last_read.extend_from_slice(&buffer[..read]);
        Ok(read)
    }
}

/// Returns the memory of `fields` without its borrows, so that the next row can use it.
fn recycle<'a>(mut fields: Vec<&str>) -> Vec<&'a str> {
    fields.clear();
    fields.into_iter().map(|_| "").collect()
}
