//! FROSTT's text format, `.tns`: a line for each entry, its indices and its value, `#` for comments.

use std::io::{BufRead, Read};

use tensornoodl::{Shape, Tensor};

use crate::error::Error;
pub use crate::input::open::open;
use crate::input::row::{At, Push, array_places};

/// Which column of a line holds what; the value comes last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Column of the feature index, from 1.
    pub feature: usize,
    /// Column of the row index.
    pub row: usize,
    /// Column of the col index.
    pub col: usize,
    /// The first index of an axis, 0 or 1.
    pub base: usize,
}

impl Default for Layout {
    fn default() -> Self {
        Layout { feature: 1, row: 2, col: 3, base: 1 }
    }
}

impl Layout {
    /// Columns 1, 2 and 3, each once.
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

/// Entries of one tensor, as a file has them.
#[derive(Debug, Clone, PartialEq)]
pub struct Entries {
    shape: Shape,
    /// (feature, row, col, value).
    values: Vec<(usize, usize, usize, f64)>,
    fibers: usize,
}

impl Entries {
    /// The smallest shape that holds all of them.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Number of places that have entries.
    pub fn fibers(&self) -> usize {
        self.fibers
    }

    /// About how many bytes the tensor takes.
    pub fn bytes(&self) -> f64 {
        8.0 * self.shape.features as f64 * self.fibers as f64
    }

    /// The tensor. Entries at the same position are added.
    pub fn tensor(&self) -> Result<Tensor<'static>, Error> {
        Ok(Tensor::from_triplets(self.shape, &self.values)?)
    }
}

/// A file whose lines are longer is something else.
const LONGEST_LINE: u64 = 1 << 16;

/// Reads all lines. `file` is the name that messages give it.
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
    let range = (layout.base, u32::MAX as usize - 1 + layout.base);
    lines(input, 0, file, names, range, |line| {
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

/// Reads all lines as rows of a table. Its indices are labels, so it does not matter where they start.
///
/// The lines are further down by `shift` than they seem.
pub(crate) fn rows(
    input: impl BufRead,
    shift: u64,
    file: &str,
    columns: &[String],
    push: &mut Push<'_>,
) -> Result<(), Error> {
    let places = array_places(columns, file)?;
    let range = (0, u32::MAX as usize);
    lines(input, shift, file, ["index 1", "index 2", "index 3"], range, |line| {
        let fields: Vec<&str> = places.iter().map(|place| line.fields[*place]).collect();
        push(&fields, At { file, line: line.number })
    })
}

/// A line that holds an entry.
struct Line<'a> {
    /// From 1.
    number: u64,
    fields: [&'a str; 4],
    indices: [usize; 3],
    value: f64,
}

/// Hands every line that holds an entry to `take`. Messages call the indices by `names`; they lie in `range`.
fn lines(
    mut input: impl BufRead,
    shift: u64,
    file: &str,
    names: [&'static str; 3],
    (lowest, highest): (usize, usize),
    mut take: impl FnMut(&Line<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let (mut line, mut number) = (Vec::new(), shift);
    loop {
        line.clear();
        let cannot_read = |error| Error::Read { file: file.into(), error };
        let read = input.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line).map_err(cannot_read)?;
        if read == 0 {
            return Ok(());
        }
        number += 1;
        let wrong = |what: &'static str, value: &str, rule: String| {
            // A line may be anything; a message is one line.
            let value = value.chars().take(40).collect();
            Error::Line { file: file.into(), line: number, what, value, rule }
        };
        if read as u64 == LONGEST_LINE {
            return Err(wrong("the line", "longer", format!("at most {LONGEST_LINE} bytes long")));
        }
        let text = String::from_utf8_lossy(&line);
        let text =
            text.strip_prefix('\u{feff}').unwrap_or(&text).split('#').next().unwrap_or_default().trim();
        if text.is_empty() {
            continue;
        }
        let fields: Vec<&str> = text.split_whitespace().collect();
        let Ok(fields) = <[&str; 4]>::try_from(fields) else {
            let rule = "three indices and a value, with blanks between".into();
            return Err(wrong("the line", text, rule));
        };
        let mut indices = [0; 3];
        for ((index, field), name) in indices.iter_mut().zip(fields).zip(names) {
            let inside = |index: &usize| (lowest..=highest).contains(index);
            *index = field.parse().ok().filter(inside).ok_or_else(|| {
                let other = if field == "0" { " (if indices start at 0, say so: index base 0)" } else { "" };
                wrong(name, field, format!("a whole number from {lowest} to {highest}{other}"))
            })?;
        }
        let finite = |value: &f64| value.abs() <= 1e100;
        let value = fields[3].parse().ok().filter(finite);
        let value = value.ok_or_else(|| wrong("the value", fields[3], "a number of at most 1e100".into()))?;
        take(&Line { number, fields, indices, value })?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str, layout: &Layout) -> Result<Entries, Error> {
        read(text.as_bytes(), "x.tns", layout)
    }

    #[test]
    fn lines_are_entries() {
        let text = "\u{feff}# a comment\n\n 2 1 4\t-1.5e0 # another\r\n1 3 1 2";
        let entries = read_text(text, &Layout::default()).unwrap();
        assert_eq!(entries.shape(), Shape { features: 2, rows: 3, cols: 4 });
        assert_eq!(entries.values, [(1, 0, 3, -1.5), (0, 2, 0, 2.0)]);
        let turned = Layout { feature: 3, row: 1, col: 2, base: 0 };
        let entries = read_text("0 1 2 7", &turned).unwrap();
        assert_eq!(entries.values, [(2, 0, 1, 7.0)]);
    }

    #[test]
    fn the_same_position_twice_is_added() {
        let tensor = read_text("1 1 1 2\n1 1 1 3\n", &Layout::default()).unwrap().tensor().unwrap();
        assert_eq!((tensor.values(), tensor.fibers()), (&[5.0][..], 1));
    }

    #[test]
    fn what_is_wrong_is_named_with_file_and_line() {
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
