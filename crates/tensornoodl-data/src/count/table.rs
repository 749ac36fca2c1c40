//! Tables: CSV, also packed by gzip, and Parquet. Arrays are tables of their entries.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatchReader;
use tensornoodl::Team;
use tensornoodl::parallel::{Solo, agree};

use crate::count::counter::Counter;
use crate::count::events::Events;
use crate::count::query::Query;
use crate::error::Error;
use crate::input::format::{Kind, seen};
use crate::input::row::Push;
use crate::input::share::{Part, Text};
use crate::input::{arrow, csv, npy, parquet, tns};

pub use crate::input::format::is_array;
pub use crate::input::row::ARRAY_COLUMNS;

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
    count_share(&file, query, team, matches!(part, Part::Turns), |columns, push| match kind {
        Kind::Npy => npy::npy(BufReader::new(open()?), &file, &**team, columns, push),
        Kind::Npz => npy::npz(BufReader::new(open()?), &file, columns, push),
        Kind::Parquet => parquet::rows(open()?, &file, &**team, columns, push),
        Kind::Tns => part.open(path).and_then(|(input, shift)| tns::rows(input, shift, &file, columns, push)),
        Kind::Csv => part.open(path).and_then(|(input, shift)| csv::rows(input, shift, &file, columns, push)),
    })
}

/// Reads a table that comes in batches. `name` is what messages call it; they count its rows as lines.
///
/// A field is the text that CSV would have: empty if it is null or NaN, and for a time whose column has a zone, the time in UTC. Arrow's
/// own type stands here because it is how programs exchange tables.
pub fn read_batches(batches: impl RecordBatchReader, name: &str, query: Query) -> Result<Events, Error> {
    query.check()?;
    let team: Arc<dyn Team> = Arc::new(Solo);
    count_share(name, query, &team, false, |columns, push| arrow::rows(batches, name, columns, push))
}

fn count_share(
    file: &str,
    query: Query,
    team: &Arc<dyn Team>,
    in_turns: bool,
    rows: impl FnOnce(&[String], &mut Push<'_>) -> Result<(), Error>,
) -> Result<Events, Error> {
    let (names, groups, square) = (query.names.clone(), query.groups.clone(), query.square);
    let mut counter = Counter::new(query);
    counter.join(team);
    if in_turns {
        counter.take_turns();
    }
    let columns = counter.columns().to_vec();
    agree(&**team, rows(&columns, &mut |fields, at| counter.push(fields, at)))?;
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

/// Reads CSV: the first line has the names of the columns.
pub fn csv(input: impl BufRead, file: &str, counter: &mut Counter) -> Result<(), Error> {
    let columns: Vec<String> = counter.columns().to_vec();
    csv::rows(input, 0, file, &columns, &mut |fields, at| counter.push(fields, at))
}
