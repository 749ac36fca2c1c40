//! Tables: CSV, also packed by gzip, and Parquet. Arrays are tables of their entries.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use tensornoodl::Team;
use tensornoodl::parallel::{Solo, agree};

use crate::cut::{Part, Text};
use crate::error::Error;
use crate::events::{At, Counter, Events};
use crate::query::Query;
use crate::{npy, parquet, tns};

/// Columns of a table that is an array: indices along its axes, and the value of an entry.
pub const ARRAY_COLUMNS: [&str; 4] = ["1", "2", "3", "value"];

/// Reads a table, `-` for CSV from standard input. Parquet is known by its first bytes, arrays by the file's name.
pub fn read(path: &Path, query: Query) -> Result<Events, Error> {
    let team: Arc<dyn Team> = Arc::new(Solo);
    read_share(path, query, &team)
}

/// Reads a table as a rank of a team, which gets a share of its places: each rank reads some rows, all agree on the labels, and every
/// event goes to the rank that has its place. An error is that of all ranks.
pub fn read_share(path: &Path, query: Query, team: &Arc<dyn Team>) -> Result<Events, Error> {
    let file = path.display().to_string();
    let open = || File::open(path).map_err(|error| Error::Read { file: file.clone(), error });
    query.check()?;
    let kind = agree(&**team, seen(path))?;
    let part = match kind {
        Kind::Tns => Part::of(&**team, path, Text::Lines)?,
        Kind::Csv => Part::of(&**team, path, Text::Csv)?,
        Kind::Npz if team.size() > 1 => Part::Turns,
        Kind::Npy | Kind::Npz | Kind::Parquet => Part::Whole,
    };
    count_share(&file, query, team, |counter| {
        if matches!(part, Part::Turns) {
            counter.take_turns();
        }
        match kind {
            Kind::Npy => npy::npy(BufReader::new(open()?), &file, counter),
            Kind::Npz => npy::npz(BufReader::new(open()?), &file, counter),
            Kind::Parquet => parquet::read(open()?, &file, counter),
            Kind::Tns => part.open(path).and_then(|(input, shift)| tns::table(input, shift, &file, counter)),
            Kind::Csv => part.open(path).and_then(|(input, shift)| csv_from(input, shift, &file, counter)),
        }
    })
}

/// What a query makes of rows, wherever they come from. `file` is the name that messages give the table.
pub(crate) fn count(
    file: &str,
    query: Query,
    rows: impl FnOnce(&mut Counter) -> Result<(), Error>,
) -> Result<Events, Error> {
    query.check()?;
    let team: Arc<dyn Team> = Arc::new(Solo);
    count_share(file, query, &team, rows)
}

fn count_share(
    file: &str,
    query: Query,
    team: &Arc<dyn Team>,
    rows: impl FnOnce(&mut Counter) -> Result<(), Error>,
) -> Result<Events, Error> {
    let (names, groups, square) = (query.names.clone(), query.groups.clone(), query.square);
    let mut counter = Counter::new(query);
    counter.join(team);
    agree(&**team, rows(&mut counter))?;
    let mut events = counter.finish(file)?;
    if square {
        events.square();
    }
    if let Some(groups) = groups {
        events.group(&agree(&**team, groups.read())?);
    }
    if let Some(names) = names {
        events.name(&agree(&**team, names.read())?);
    }
    Ok(events)
}

/// Whether a file is an array, as its name says: .npy, .npz, .tns or .tns.gz. Its columns are [`ARRAY_COLUMNS`].
pub fn is_array(path: &Path) -> bool {
    matches!(kind(path), Kind::Npy | Kind::Npz | Kind::Tns)
}

/// What a file is.
#[derive(Clone, Copy)]
enum Kind {
    Npy,
    Npz,
    Tns,
    Parquet,
    Csv,
}

/// As its name says: what has no other is CSV.
fn kind(path: &Path) -> Kind {
    let name = path.to_string_lossy().to_ascii_lowercase();
    match name.rsplit_once('.') {
        Some((_, "npy")) => Kind::Npy,
        Some((_, "npz")) => Kind::Npz,
        Some((_, "tns")) => Kind::Tns,
        Some((rest, "gz")) if rest.ends_with(".tns") => Kind::Tns,
        Some((_, "parquet")) => Kind::Parquet,
        _ => Kind::Csv,
    }
}

/// And as a look into it says.
fn seen(path: &Path) -> Result<Kind, Error> {
    Ok(match kind(path) {
        Kind::Csv if is_parquet(path)? => Kind::Parquet,
        kind => kind,
    })
}

const PARQUET: &[u8] = b"PAR1";

/// Whether it begins as Parquet does. A pipe has only one reading in it, and is CSV.
fn is_parquet(path: &Path) -> Result<bool, Error> {
    let look = || {
        if path.as_os_str() == "-" {
            return Ok(false);
        }
        if !path.metadata()?.is_file() {
            return Ok(false);
        }
        let mut file = File::open(path)?;
        let mut start = Vec::new();
        Read::by_ref(&mut file).take(PARQUET.len() as u64).read_to_end(&mut start)?;
        Ok(start == PARQUET)
    };
    look().map_err(|error| Error::Read { file: path.display().to_string(), error })
}

/// Where each column that is counted stands among those of an array.
pub(crate) fn array_places(counter: &Counter, file: &str) -> Result<Vec<usize>, Error> {
    places(counter.columns(), &ARRAY_COLUMNS.map(str::to_owned), file)
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

/// Reads CSV: the first line has the names of the columns.
pub fn csv(input: impl BufRead, file: &str, counter: &mut Counter) -> Result<(), Error> {
    csv_from(input, 0, file, counter)
}

fn csv_from(input: impl BufRead, shift: u64, file: &str, counter: &mut Counter) -> Result<(), Error> {
    let columns: Vec<String> = counter.columns().to_vec();
    rows(input, shift, file, &columns, |fields, at| counter.push(fields, at))
}

/// Hands these columns of CSV out, row by row. All but the first are further down by `shift` lines than they seem.
pub(crate) fn rows(
    input: impl BufRead,
    shift: u64,
    file: &str,
    columns: &[String],
    mut each: impl FnMut(&[&str], At<'_>) -> Result<(), Error>,
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
        each(&fields, at)?;
        fields = recycle(fields);
        reader.get_mut().left = LONGEST_ROW;
    }
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
