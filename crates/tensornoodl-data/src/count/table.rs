//! Reads tables and counts them: CSV, also compressed with gzip, Parquet, and arrays as tables of their entries.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatchReader;
use tensornoodl::Team;
use tensornoodl::parallel::{Solo, agree};

use crate::count::counter::Counter;
use crate::count::events::Events;
use crate::count::lookup::Lookup;
use crate::count::query::Query;
use crate::error::Error;
use crate::input::arrow;
use crate::input::csv;
use crate::input::format::{Format, recognize};
use crate::input::npy;
use crate::input::parquet;
use crate::input::row::Push;
use crate::input::same;
use crate::input::share::{Share, Text};
use crate::input::tns;

pub use crate::input::format::is_array;
pub use crate::input::row::ARRAY_COLUMNS;

/// Reads and counts a table. The path `-` is CSV from standard input.
///
/// Parquet is recognized by its first bytes, arrays by the name of the file; any other file is CSV.
///
/// # Errors
/// If the query contradicts itself, the file cannot be read, or no row counts.
pub fn read(path: &Path, query: Query) -> Result<Events, Error> {
    let team: Arc<dyn Team> = Arc::new(Solo);
    read_share(path, query, &team)
}

/// Reads and counts a table together with the other ranks of a team.
///
/// Each rank reads some of the rows and gets the cells of some of the places. All ranks get all labels.
///
/// # Errors
/// As [`read`], and if two ranks see different files. If one rank has an error, all ranks return an error.
pub fn read_share(path: &Path, query: Query, team: &Arc<dyn Team>) -> Result<Events, Error> {
    let file = path.display().to_string();
    let open = || File::open(path).map_err(|error| Error::Read { file: file.clone(), error });
    query.check()?;
    // Ranks that see different files could also see different formats, and would wait for each other.
    let lookups = query.names.iter().chain(&query.groups).map(Lookup::path);
    std::iter::once(path).chain(lookups).try_for_each(|path| same::check(&**team, path))?;
    let format = agree(&**team, recognize(path))?;
    let share = match format {
        Format::Tns => Share::of(&**team, path, Text::Lines)?,
        Format::Csv => Share::of(&**team, path, Text::Csv)?,
        Format::Npz if team.size() > 1 => Share::EveryNth,
        Format::Npy | Format::Npz | Format::Parquet => Share::Whole,
    };
    let every_nth = matches!(share, Share::EveryNth);
    count_share(&file, query, team, every_nth, |columns, push| match format {
        Format::Npy => npy::npy(BufReader::new(open()?), &file, &**team, columns, push),
        Format::Npz => npy::npz(BufReader::new(open()?), &file, columns, push),
        Format::Parquet => parquet::rows(open()?, &file, &**team, columns, push),
        Format::Tns => {
            let (input, shift) = share.open(path)?;
            tns::rows(input, shift, &file, columns, push)
        }
        Format::Csv => {
            let (input, shift) = share.open(path)?;
            csv::rows(input, shift, &file, columns, push)
        }
    })
}

/// Reads and counts a table that comes in Apache Arrow record batches. `name` is the name of the table in messages,
/// which count rows as lines.
///
/// A field is the text that CSV would have. It is empty for null and NaN, and the time in UTC for a column with a
/// time zone. The type [`RecordBatchReader`] is part of this interface because programs exchange tables with it.
///
/// # Errors
/// If the query contradicts itself, a column is missing or has a type that is not supported, the stream fails, or no
/// row counts.
pub fn read_batches(batches: impl RecordBatchReader, name: &str, query: Query) -> Result<Events, Error> {
    query.check()?;
    let team: Arc<dyn Team> = Arc::new(Solo);
    count_share(name, query, &team, false, |columns, push| arrow::rows(batches, name, columns, push))
}

/// Pushes the rows of a CSV file to a counter. The first line has the names of the columns, and `file` is the name of
/// the file in messages.
///
/// # Errors
/// If a column is missing or a row cannot be parsed.
pub fn csv(input: impl BufRead, file: &str, counter: &mut Counter) -> Result<(), Error> {
    let columns: Vec<String> = counter.columns().to_vec();
    csv::rows(input, 0, file, &columns, &mut |fields, at| counter.push(fields, at))
}

/// Counts the rows that `read_rows` pushes, then adds known groups and names.
///
/// If `every_nth` is set, `read_rows` pushes all rows on every rank, and each rank takes some of them.
fn count_share(
    file: &str,
    query: Query,
    team: &Arc<dyn Team>,
    every_nth: bool,
    read_rows: impl FnOnce(&[String], &mut Push<'_>) -> Result<(), Error>,
) -> Result<Events, Error> {
    let (names, groups, square) = (query.names.clone(), query.groups.clone(), query.square);
    let mut counter = Counter::new(query);
    counter.join(team);
    if every_nth {
        counter.take_every_nth();
    }
    let columns = counter.columns().to_vec();
    agree(&**team, read_rows(&columns, &mut |fields, at| counter.push(fields, at)))?;
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
