//! Reads `.tns`, the text format of FROSTT.
//!
//! A line has the three indices of an entry and its value, separated by blanks. A `#` starts a comment.

use std::io::{BufRead, Read};

use tensornoodl::{Shape, Tensor};

use crate::error::Error;
pub use crate::input::open::open;
use crate::input::row::{At, Push, array_positions, quote};

/// Which column of a line is which axis. The value is the last column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Column of the feature index, from 1.
    pub feature: usize,
    /// Column of the row index, from 1.
    pub row: usize,
    /// Column of the col index, from 1.
    pub col: usize,
    /// The smallest index of every axis, 0 or 1.
    pub base: usize,
}

impl Default for Layout {
    fn default() -> Self {
        Layout { feature: 1, row: 2, col: 3, base: 1 }
    }
}

impl Layout {
    /// Checks that the axes are the columns 1, 2 and 3 in some order, and that the base is 0 or 1.
    ///
    /// # Errors
    /// [`tensornoodl::Error::Parameter`] with the value that is wrong.
    pub fn check(&self) -> Result<(), Error> {
        let mut columns = [self.feature, self.row, self.col];
        columns.sort_unstable();
        let wrong = |name, value: String, rule: &str| {
            Err(tensornoodl::Error::Parameter { name, value, rule: rule.into() }.into())
        };
        if columns != [1, 2, 3] {
            let given = format!("{}, {}, {}", self.feature, self.row, self.col);
            return wrong("feature, row, col", given, "1, 2, 3 in some order");
        }
        if self.base > 1 {
            return wrong("index_base", self.base.to_string(), "0 or 1");
        }
        Ok(())
    }
}

/// The entries of one tensor, in the order of the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Entries {
    shape: Shape,
    /// Feature index, row index, col index and value of each entry.
    values: Vec<(usize, usize, usize, f64)>,
    fibers: usize,
}

impl Entries {
    /// Returns the smallest shape that holds all entries.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the number of places that have entries.
    pub fn fibers(&self) -> usize {
        self.fibers
    }

    /// Returns the approximate size of the tensor in bytes.
    pub fn bytes(&self) -> f64 {
        8.0 * self.shape.features as f64 * self.fibers as f64
    }

    /// Builds the tensor. Entries at the same position are added.
    ///
    /// # Errors
    /// [`Error::Tensor`] if the tensor is too large.
    pub fn tensor(&self) -> Result<Tensor<'static>, Error> {
        Ok(Tensor::from_triplets(self.shape, &self.values)?)
    }
}

/// The largest length of a line in bytes. A file with a longer line is not `.tns`.
const MAX_LINE: u64 = 1 << 16;

/// Reads all entries of a tensor. `file` is the name of the input in messages.
///
/// # Errors
/// If the layout is wrong, a line cannot be parsed, or there are no entries.
pub fn read(input: impl BufRead, file: &str, layout: &Layout) -> Result<Entries, Error> {
    layout.check()?;
    let mut names = [""; 3];
    for (column, name) in
        [(layout.feature, "the feature index"), (layout.row, "the row index"), (layout.col, "the col index")]
    {
        names[column - 1] = name;
    }
    let mut shape = Shape { features: 0, rows: 0, cols: 0 };
    let mut values = Vec::new();
    let parser = Parser { file, names, lowest: layout.base, highest: u32::MAX as usize - 1 + layout.base };
    parser.lines(input, 0, |line| {
        let index = |column: usize| line.indices[column - 1] - layout.base;
        let (feature, row, col) = (index(layout.feature), index(layout.row), index(layout.col));
        shape.features = shape.features.max(feature + 1);
        shape.rows = shape.rows.max(row + 1);
        shape.cols = shape.cols.max(col + 1);
        values.push((feature, row, col, line.value));
        Ok(())
    })?;
    if values.is_empty() {
        return Err(Error::Empty(file.into()));
    }
    let mut places: Vec<(usize, usize)> = values.iter().map(|&(_, row, col, _)| (row, col)).collect();
    places.sort_unstable();
    places.dedup();
    Ok(Entries { shape, values, fibers: places.len() })
}

/// Pushes all entries as rows of a table with the columns [`ARRAY_COLUMNS`](crate::table::ARRAY_COLUMNS).
///
/// Indices are labels here, so they can start at 0 or 1. `shift` is added to all line numbers.
pub(crate) fn rows(
    input: impl BufRead,
    shift: u64,
    file: &str,
    columns: &[String],
    push: &mut Push<'_>,
) -> Result<(), Error> {
    let positions = array_positions(columns, file)?;
    let names = ["index 1", "index 2", "index 3"];
    let parser = Parser { file, names, lowest: 0, highest: u32::MAX as usize };
    parser.lines(input, shift, |line| {
        let fields: Vec<&str> = positions.iter().map(|position| line.fields[*position]).collect();
        push(&fields, At { file, line: line.number })
    })
}

/// A line that holds an entry.
struct Line<'a> {
    /// Line number, from 1.
    number: u64,
    fields: [&'a str; 4],
    indices: [usize; 3],
    value: f64,
}

/// Parses the lines of a file.
struct Parser<'a> {
    file: &'a str,
    /// Names of the three indices in messages.
    names: [&'static str; 3],
    /// Smallest index allowed.
    lowest: usize,
    /// Largest index allowed.
    highest: usize,
}

impl Parser<'_> {
    /// Calls `take` for every line that holds an entry. `shift` is added to all line numbers.
    fn lines(
        &self,
        mut input: impl BufRead,
        shift: u64,
        mut take: impl FnMut(&Line<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (mut line, mut number) = (Vec::new(), shift);
        loop {
            line.clear();
            let read = input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line);
            let read = read.map_err(|error| Error::Read { file: self.file.into(), error })?;
            if read == 0 {
                return Ok(());
            }
            number += 1;
            if read as u64 == MAX_LINE {
                let rule = format!("at most {MAX_LINE} bytes long");
                return Err(self.bad_line(number, "the line", "longer", rule));
            }
            let text = String::from_utf8_lossy(&line);
            let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
            let text = text.split('#').next().unwrap_or_default().trim();
            if !text.is_empty() {
                take(&self.entry(number, text)?)?;
            }
        }
    }

    /// Parses a line that is neither empty nor a comment.
    fn entry<'a>(&self, number: u64, text: &'a str) -> Result<Line<'a>, Error> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let Ok(fields) = <[&str; 4]>::try_from(fields) else {
            let rule = "three indices and a value, with blanks between".into();
            return Err(self.bad_line(number, "the line", text, rule));
        };
        let Parser { lowest, highest, .. } = *self;
        let mut indices = [0; 3];
        for ((index, field), name) in indices.iter_mut().zip(fields).zip(self.names) {
            let allowed = |index: &usize| (lowest..=highest).contains(index);
            *index = field.parse().ok().filter(allowed).ok_or_else(|| {
                let hint = if field == "0" { " (if indices start at 0, say so: index base 0)" } else { "" };
                self.bad_line(number, name, field, format!("a whole number from {lowest} to {highest}{hint}"))
            })?;
        }
        let usable = |value: &f64| value.abs() <= 1e100;
        let value = fields[3].parse().ok().filter(usable).ok_or_else(|| {
            self.bad_line(number, "the value", fields[3], "a number of at most 1e100".into())
        })?;
        Ok(Line { number, fields, indices, value })
    }

    fn bad_line(&self, line: u64, what: &'static str, value: &str, rule: String) -> Error {
        Error::Line { file: self.file.into(), line, what, value: quote(value), rule }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str, layout: &Layout) -> Result<Entries, Error> {
        read(text.as_bytes(), "x.tns", layout)
    }

    #[test]
    fn each_line_is_an_entry() {
        let text = "\u{feff}# a comment\n\n 2 1 4\t-1.5e0 # another\r\n1 3 1 2";
        let entries = read_text(text, &Layout::default()).unwrap();
        assert_eq!(entries.shape(), Shape { features: 2, rows: 3, cols: 4 });
        assert_eq!(entries.values, [(1, 0, 3, -1.5), (0, 2, 0, 2.0)]);
        let permuted = Layout { feature: 3, row: 1, col: 2, base: 0 };
        let entries = read_text("0 1 2 7", &permuted).unwrap();
        assert_eq!(entries.values, [(2, 0, 1, 7.0)]);
    }

    #[test]
    fn entries_at_one_position_are_added() {
        let tensor = read_text("1 1 1 2\n1 1 1 3\n", &Layout::default()).unwrap().tensor().unwrap();
        assert_eq!((tensor.values(), tensor.fibers()), (&[5.0][..], 1));
    }

    #[test]
    fn errors_name_file_and_line() {
        let says = |text: &str| read_text(text, &Layout::default()).unwrap_err().to_string();
        assert_eq!(
            says("1 1 1 1\n1 0 1 1\n"),
            "x.tns, line 2: the row index is \"0\", it must be a whole number from 1 to 4294967295 \
             (if indices start at 0, say so: index base 0)"
        );
        assert_eq!(
            says("1 1 1 NaN"),
            "x.tns, line 1: the value is \"NaN\", it must be a number of at most 1e100"
        );
        assert!(says("1 1 1\n").contains("three indices and a value"));
        assert!(says("-1 1 1 1\n").contains("the feature index is \"-1\""));
        assert!(says("1 1 4294967296 1\n").contains("the col index"));
        assert_eq!(says("# nothing\n"), "x.tns has no entries");
        assert!(says(&"1".repeat(1 << 20)).contains("at most 65536 bytes long"));
        let twice = Layout { row: 1, ..Layout::default() };
        let text = "feature, row, col is 1, 1, 3, it must be 1, 2, 3 in some order";
        assert_eq!(read_text("1 1 1 1", &twice).unwrap_err().to_string(), text);
    }
}
