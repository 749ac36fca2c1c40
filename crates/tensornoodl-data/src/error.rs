//! The errors of the crate: what is wrong, where, and which rule it breaks.

/// An error of reading, counting or writing.
///
/// Each message is one line that names the file, the position in the file, the value found and the rule it breaks.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A line of a text file cannot be parsed.
    #[error("{file}, line {line}: {what} is {value:?}, it must be {rule}")]
    Line {
        /// Name of the file.
        file: String,
        /// Line number, from 1.
        line: u64,
        /// The part of the line that is wrong.
        what: &'static str,
        /// The text found.
        value: String,
        /// The values allowed.
        rule: String,
    },
    /// A field of a table cannot be parsed.
    #[error("{file}, line {line}, column {column}: {value:?} is not {rule}")]
    Field {
        /// Name of the file.
        file: String,
        /// Line number, from 1. A format without lines has the row number instead.
        line: u64,
        /// Name of the column.
        column: String,
        /// The text found.
        value: String,
        /// The values allowed.
        rule: String,
    },
    /// An entry of an array has a value that is not allowed.
    #[error("{file}, entry {entry}: {value} is not {rule}")]
    Entry {
        /// Name of the file.
        file: String,
        /// Index of the entry, in the notation of NumPy.
        entry: String,
        /// The value found.
        value: f64,
        /// The values allowed.
        rule: String,
    },
    /// The table does not have a column that the query names.
    #[error("{file} has no column {column:?}; it has {}", list_names(known))]
    Column {
        /// Name of the file.
        file: String,
        /// Name of the missing column.
        column: String,
        /// Names of the columns that the table has.
        known: Vec<String>,
    },
    /// The values of a column are neither labels, numbers nor times.
    #[error("{file}, column {column}: its type is {kind}, it must be {rule}")]
    Kind {
        /// Name of the file.
        file: String,
        /// Name of the column.
        column: String,
        /// Type of the column.
        kind: String,
        /// The types allowed.
        rule: &'static str,
    },
    /// A cell cannot be a number of events, which the counts model needs.
    #[error(
        "{file}: the cell of feature {feature:?}, row {row:?}, col {col:?} is {value}: the counts model needs whole \
         numbers that are not negative; use --model exact, or count events with --value count"
    )]
    NotACount {
        /// Name of the file, or of the tensor.
        file: String,
        /// The value of the cell.
        value: f64,
        /// Label of the feature.
        feature: String,
        /// Label of the row.
        row: String,
        /// Label of the col.
        col: String,
    },
    /// No row of the table counts: it is empty, or every row was left out.
    #[error(
        "{file} has no events to learn from: {events} rows, of which {filtered} were filtered out, {missing} have no value where one is needed, \
         {outside} lie outside the grid, {dropped} are of rows that were not kept"
    )]
    NoEvents {
        /// Name of the file.
        file: String,
        /// Number of rows of the table.
        events: u64,
        /// Number of rows that a filter left out.
        filtered: u64,
        /// Number of rows without a value in a column that is needed.
        missing: u64,
        /// Number of rows outside the bounds of a grid.
        outside: u64,
        /// Number of rows whose row label was not kept.
        dropped: u64,
    },
    /// The text of an axis, a value, a filter or a lookup cannot be parsed, or the query does not allow it.
    #[error("{text:?} is given, it must be {rule}")]
    Axis {
        /// The text given.
        text: String,
        /// The texts allowed.
        rule: String,
    },
    /// The feature axis has too many labels without events.
    #[error("{what}; at most {limit} labels are allowed: {remedy}")]
    Stretched {
        /// The file, the axis, and the value that stretches it.
        what: String,
        /// The largest number of labels allowed.
        limit: usize,
        /// What to do.
        remedy: String,
    },
    /// The file is damaged, or its format is not the one that its name says.
    #[error("{file} cannot be read as {format}: {what}")]
    Format {
        /// Name of the file.
        file: String,
        /// The expected format.
        format: &'static str,
        /// What is wrong.
        what: String,
    },
    /// The bytes of a model file are not those that were written.
    #[error("{file} is damaged: its checksum is {found:08x}, it was written with {written:08x}; {remedy}")]
    Damaged {
        /// Name of the file.
        file: String,
        /// The checksum in the file.
        written: i64,
        /// The checksum of the bytes of the file.
        found: i64,
        /// What to do.
        remedy: &'static str,
    },
    /// A Parquet file is compressed with a codec that this build does not have.
    #[error(
        "{file}, column {column}: it is compressed with {codec}, which this build cannot decompress; \
         rewrite the file with snappy, zstd or gzip{}",
        if *optional { ", or build with --features all-codecs" } else { "" }
    )]
    Codec {
        /// Name of the file.
        file: String,
        /// Name of the column.
        column: String,
        /// Name of the codec.
        codec: String,
        /// Whether the cargo feature `all-codecs` adds the codec.
        optional: bool,
    },
    /// The tensor has too few fibers to find patterns in.
    #[error(
        "{file} has {fibers} fibers that are not zero, at least 2 are needed: patterns are what fibers share"
    )]
    Few {
        /// Name of the file.
        file: String,
        /// Number of fibers that are not zero.
        fibers: usize,
    },
    /// The file has no entries.
    #[error("{0} has no entries")]
    Empty(String),
    /// The operating system cannot read the file.
    #[error("cannot read {file}: {error}")]
    Read {
        /// Name of the file.
        file: String,
        /// Error of the operating system.
        error: std::io::Error,
    },
    /// The input is a pipe or a device, and several ranks have to read it.
    #[error("{file} can be read only once, and every rank reads a part of the table: it must be a file")]
    Once {
        /// Name of the input.
        file: String,
    },
    /// Two ranks see different files under the same name.
    #[error(
        "rank {rank} sees another file {file} than the first rank: {}; put the file where all ranks see it, such as a \
         shared file system, or give all hosts the same copy",
        differing(*lengths)
    )]
    Differs {
        /// Name of the file.
        file: String,
        /// The first rank that sees another file than rank 0.
        rank: usize,
        /// Lengths in bytes that rank 0 and `rank` see.
        lengths: [u64; 2],
    },
    /// There is too little memory.
    #[error(
        "this needs about {:.2} GB of memory, {:.2} GB are free; take fewer rows, cols, patterns or features",
        needed / 1e9,
        free / 1e9
    )]
    Memory {
        /// Number of bytes needed.
        needed: f64,
        /// Number of bytes that are free for this process.
        free: f64,
    },
    /// The operating system cannot write the file.
    #[error("cannot write {file}: {error}")]
    Write {
        /// Name of the file.
        file: String,
        /// Error of the operating system.
        error: std::io::Error,
    },
    /// A recipe names an unknown action.
    #[error("the recipe has {0:?}, actions are log2, sqrt, presence, scale, center")]
    Action(String),
    /// An action that needs values of at least 0 was applied to a negative value.
    #[error(
        "{action} met the value {value} at feature {feature} of {place} (counted from 0): it needs values of at least 0"
    )]
    Negative {
        /// Name of the action.
        action: &'static str,
        /// The value found.
        value: f64,
        /// Index of the feature, from 0.
        feature: usize,
        /// Place of the fiber.
        place: tensornoodl::Place,
    },
    /// The core crate refuses the tensor or its parameters.
    #[error(transparent)]
    Tensor(#[from] tensornoodl::Error),
}

/// Says how the files of two ranks differ.
fn differing([first, other]: [u64; 2]) -> String {
    match first == other {
        true => format!("both have {first} bytes, but not the same"),
        false => format!("it has {other} bytes instead of {first}"),
    }
}

/// The largest number of column names in a message.
const MAX_NAMES: usize = 40;

/// Lists at most [`MAX_NAMES`] column names.
///
/// If the only name contains another separator than the comma, the list says so.
fn list_names(names: &[String]) -> String {
    let separator = [';', '\t', '|'].iter().find(|other| names.len() == 1 && names[0].contains(**other));
    let remark = match separator {
        Some(separator) => format!(" (fields must have commas between them, not {separator:?})"),
        None if names.len() > MAX_NAMES => ", ...".into(),
        None => String::new(),
    };
    let quoted = |name: &String| if name.contains(',') { format!("{name:?}") } else { name.clone() };
    names.iter().take(MAX_NAMES).map(quoted).collect::<Vec<_>>().join(", ") + &remark
}
