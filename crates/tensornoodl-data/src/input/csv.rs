//! CSV.

use std::io::{self, BufRead, Read};

use crate::error::Error;
use crate::input::row::{At, Push, places, text};

/// Hands these columns of CSV out, row by row. All but the first are further down by `shift` lines than they seem.
pub(crate) fn rows(
    input: impl BufRead,
    shift: u64,
    file: &str,
    columns: &[String],
    push: &mut Push<'_>,
) -> Result<(), Error> {
    let input = Limited { input, left: LONGEST_ROW, read: Vec::new(), before: 0 };
    let mut reader = csv::ReaderBuilder::new().buffer_capacity(1 << 16).from_reader(input);
    let cannot_read = |error: csv::Error, line: u64| match error.into_kind() {
        csv::ErrorKind::Io(error) if error.kind() == io::ErrorKind::FileTooLarge => Error::Line {
            file: file.into(),
            line,
            what: "the row",
            value: "longer".into(),
            rule: format!("at most {LONGEST_ROW} bytes long (is a quote never closed?)"),
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
    };
    let header = reader.byte_headers().map_err(|error| cannot_read(error, 1))?.clone();
    let name = |name: &[u8]| {
        let name = String::from_utf8_lossy(name);
        name.strip_prefix('\u{feff}').unwrap_or(&name).trim().to_owned()
    };
    let known: Vec<String> = header.iter().map(name).collect();
    if known.is_empty() {
        let what = "it is empty, its first line must have the names of the columns".into();
        return Err(Error::Format { file: file.into(), format: "CSV", what });
    }
    let places = places(columns, &known, file)?;
    let mut record = csv::ByteRecord::new();
    let mut fields: Vec<&str> = Vec::new();
    loop {
        // Line ends before a row are the row's, to the reader.
        let (line, byte) = (reader.position().line(), reader.position().byte());
        let at = At { file, line: shift + line + reader.get_mut().line_ends(byte) };
        let read = reader.read_byte_record(&mut record);
        if !read.map_err(|error| cannot_read(error, at.line))? {
            return Ok(());
        }
        fields.clear();
        for (place, column) in places.iter().zip(columns) {
            let bytes = record.get(*place).unwrap_or_default();
            fields.push(text(bytes, column, at)?);
        }
        push(&fields, at)?;
        fields = recycle(fields);
        reader.get_mut().left = LONGEST_ROW;
    }
}

/// A row that is longer, in bytes, is none: a quote that is never closed makes one of all that follows.
const LONGEST_ROW: u64 = 1 << 24;

/// Input that ends in an error if no row does, and remembers what was read last.
struct Limited<R> {
    input: R,
    /// Bytes that the row may still have.
    left: u64,
    read: Vec<u8>,
    /// Bytes that were read before those.
    before: u64,
}

impl<R: BufRead> Limited<R> {
    /// Line ends that stand at this byte, up to where the next row begins.
    fn line_ends(&mut self, at: u64) -> u64 {
        let blank = |byte: &&u8| matches!(byte, b'\n' | b'\r');
        let count =
            |bytes: &[u8]| bytes.iter().take_while(blank).filter(|byte| **byte == b'\n').count() as u64;
        let read =
            at.checked_sub(self.before).and_then(|at| self.read.get(at as usize..)).unwrap_or_default();
        let mut lines = count(read);
        if read.iter().all(|byte| blank(&byte)) {
            // What is wrong with it is met when it is read.
            lines += self.input.fill_buf().map_or(0, count);
        }
        lines
    }
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.left = self.left.checked_sub(read as u64).ok_or(io::ErrorKind::FileTooLarge)?;
        self.before += self.read.len() as u64;
        self.read.clear();
        self.read.extend_from_slice(&buffer[..read]);
        Ok(read)
    }
}

/// The same memory, without what it borrowed.
fn recycle<'a>(mut fields: Vec<&str>) -> Vec<&'a str> {
    fields.clear();
    fields.into_iter().map(|_| "").collect()
}
