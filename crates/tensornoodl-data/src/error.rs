//! What can be wrong with a file.

/// What was wrong, where, and which rule it broke.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A line that cannot be read.
    #[error("{file}, line {line}: {what} is {value:?}, it must be {rule}")]
    Line {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// Which part of the line.
        what: &'static str,
        /// What stands there.
        value: String,
        /// What may stand there.
        rule: String,
    },
    /// A field of a table that cannot be read.
    #[error("{file}, line {line}, column {column}: {value:?} is not {rule}")]
    Field {
        /// The file.
        file: String,
        /// The line, from 1; in a file without lines the row.
        line: u64,
        /// The column.
        column: String,
        /// What stands there.
        value: String,
        /// What may stand there.
        rule: String,
    },
    /// An entry of an array that cannot be taken.
    #[error("{file}, entry {entry}: {value} is not {rule}")]
    Entry {
        /// The file.
        file: String,
        /// Where in it, as NumPy writes it.
        entry: String,
        /// What stands there.
        value: f64,
        /// What may stand there.
        rule: String,
    },
    /// A column that a table does not have.
    #[error("{file} has no column {column:?}; it has {}", some(known))]
    Column {
        /// The file.
        file: String,
        /// The column.
        column: String,
        /// Those it has.
        known: Vec<String>,
    },
    /// A column whose values are no labels, numbers or times.
    #[error("{file}, column {column}: its type is {kind}, it must be {rule}")]
    Kind {
        /// The file.
        file: String,
        /// The column.
        column: String,
        /// What its values are.
        kind: String,
        /// What they may be.
        rule: &'static str,
    },
    /// A table of which nothing is left.
    #[error(
        "{file} has no events to learn from: {} rows, of which {} were filtered out, {} have no value where one is needed, \
         {} lie outside the grid, {} are of rows that were not kept",
        events,
        filtered,
        missing,
        outside,
        dropped
    )]
    NoEvents {
        /// The file.
        file: String,
        /// Rows of the table.
        events: u64,
        /// Rows that a filter left out.
        filtered: u64,
        /// Rows without a value in a column that is needed.
        missing: u64,
        /// Rows outside the bounds of a grid.
        outside: u64,
        /// Rows whose row label was not kept.
        dropped: u64,
    },
    /// An axis, a value or a filter that is none.
    #[error("{text:?} is given, it must be {rule}")]
    Axis {
        /// What was given.
        text: String,
        /// What it may be.
        rule: String,
    },
    /// A file that is broken or something else than its name says.
    #[error("{file} cannot be read as {format}: {what}")]
    Format {
        /// The file.
        file: String,
        /// What it should be.
        format: &'static str,
        /// What was wrong.
        what: String,
    },
    /// A file that has too little to look at.
    #[error(
        "{file} has {fibers} fibers that are not zero, at least 2 are needed: patterns are what fibers share"
    )]
    Few {
        /// The file.
        file: String,
        /// Its fibers.
        fibers: usize,
    },
    /// A file without entries.
    #[error("{0} has no entries")]
    Empty(String),
    /// A file that cannot be read.
    #[error("cannot read {file}: {error}")]
    Read {
        /// The file.
        file: String,
        /// What the system says.
        error: std::io::Error,
    },
    /// What can be read only once, by one.
    #[error("{file} can be read only once, and every rank reads a part of the table: it must be a file")]
    Once {
        /// What it is.
        file: String,
    },
    /// A file that is not the same for all ranks.
    #[error(
        "{file} has {} bytes for the first rank and {bytes} for rank {rank}: it must be the same file for all",
        first
    )]
    Differs {
        /// The file.
        file: String,
        /// Its length for the first rank.
        first: u64,
        /// Another rank.
        rank: usize,
        /// Its length for that one.
        bytes: u64,
    },
    /// A file that cannot be written.
    #[error("cannot write {file}: {error}")]
    Write {
        /// The file.
        file: String,
        /// What the system says.
        error: std::io::Error,
    },
    /// A name that no action has.
    #[error("the recipe has {0:?}, actions are log2, scale, center")]
    Action(String),
    /// A value that an action cannot take.
    #[error(
        "log2 met the value {value} at feature {feature} of {place} (counted from 0): it needs values above 0"
    )]
    Logarithm {
        /// The value.
        value: f64,
        /// Feature index.
        feature: usize,
        /// Where the fiber stands.
        place: tensornoodl::Place,
    },
    /// The core refuses the tensor.
    #[error(transparent)]
    Tensor(#[from] tensornoodl::Error),
}

/// The first ones: a message is for people.
fn some(names: &[String]) -> String {
    // One name that looks like several.
    let other = [';', '\t', '|'].iter().find(|other| names.len() == 1 && names[0].contains(**other));
    let more = match other {
        Some(other) => format!(" (fields must have commas between them, not {other:?})"),
        None if names.len() > 40 => ", ...".into(),
        None => String::new(),
    };
    let quoted = |name: &String| if name.contains(',') { format!("{name:?}") } else { name.clone() };
    names[..names.len().min(40)].iter().map(quoted).collect::<Vec<_>>().join(", ") + &more
}
