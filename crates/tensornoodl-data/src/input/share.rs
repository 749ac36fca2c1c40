//! Divides a text file among the ranks of a team: each rank reads the records that start in its own range of bytes.
//!
//! A line end inside quotes does not end a record of CSV, and whether a quote is open depends on everything before
//! it. So every rank first computes what its bytes do to a parser, for every state in which the parser can reach
//! them. Composed in the order of the ranks, these effects give the state in which a parser reaches the range of each
//! rank.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tensornoodl::Team;
use tensornoodl::parallel::{agree, gather, rank_range};

use crate::error::Error;
use crate::input::open::{self, GZIP};

/// The part of a file that a rank reads.
#[derive(Debug)]
pub(crate) enum Share {
    /// The whole file: there is one rank.
    Whole,
    /// The whole file, of which the rank takes every n-th row, where n is the number of ranks. Compressed files are
    /// shared this way.
    EveryNth,
    /// The records in a range of bytes, after a header that every rank reads.
    Records {
        header: Vec<u8>,
        range: Range<u64>,
        /// Number of lines between the header and `range`.
        shift: u64,
    },
}

/// How a text file is divided into records.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Text {
    /// Every line is a record.
    Lines,
    /// The first record is the header, and quoted fields can contain line ends.
    Csv,
}

/// The state of a CSV parser between two bytes.
type State = u8;
/// At the start of a field.
const START: State = 0;
/// Inside a field without quotes.
const PLAIN: State = 1;
/// Inside quotes.
const QUOTED: State = 2;
/// After a quote inside quotes. It closes the field unless another quote follows.
const CLOSED: State = 3;

/// What some text does to a parser: for each state before the text, the state after it.
type Effect = [State; 4];
const NO_EFFECT: Effect = [START, PLAIN, QUOTED, CLOSED];

impl Text {
    /// Returns the state after a byte. As in the crate csv, a quote opens a field only at its start, and is doubled
    /// inside.
    fn next(self, state: State, byte: u8) -> State {
        match (state, byte) {
            (_, b'"') if self == Text::Lines => PLAIN,
            (START | CLOSED, b'"') => QUOTED,
            (QUOTED, b'"') => CLOSED,
            (QUOTED, _) => QUOTED,
            (_, b',' | b'\n' | b'\r') => START,
            _ => PLAIN,
        }
    }

    /// Whether a record ends with this byte.
    fn ends(self, state: State, byte: u8) -> bool {
        match self {
            Text::Lines => byte == b'\n',
            Text::Csv => matches!(byte, b'\n' | b'\r') && state != QUOTED,
        }
    }

    fn effect(self, bytes: &[u8]) -> Effect {
        if !bytes.contains(&b'"')
            && let Some(last) = bytes.last()
        {
            let state = self.next(PLAIN, *last);
            return [state, state, QUOTED, state];
        }
        NO_EFFECT.map(|state| bytes.iter().fold(state, |state, byte| self.next(state, *byte)))
    }
}

const BOM: &[u8] = b"\xef\xbb\xbf";

/// The largest number of bytes that are scanned at a time.
const CHUNK: u64 = 1 << 16;

/// The largest length of a header in bytes. The reader refuses a header that is longer.
const MAX_HEADER: u64 = 1 << 25;

/// Where the records of a rank start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Start {
    byte: u64,
    /// Number of lines before that byte.
    lines: u64,
}

impl Share {
    /// Returns the share of this rank. All ranks call this function together, and see the same file.
    ///
    /// # Errors
    /// If one rank cannot read the file, all ranks return an error.
    pub(crate) fn of(team: &dyn Team, path: &Path, text: Text) -> Result<Share, Error> {
        if team.size() == 1 {
            return Ok(Share::Whole);
        }
        let name = path.display().to_string();
        let Opened { file, length, compressed, text_start } = agree(team, Opened::new(path))?;
        if compressed {
            return Ok(Share::EveryNth);
        }
        let own = rank_range(team, length);
        let own = own.start.max(text_start)..own.end.max(text_start);
        Scanner { team, text, file, name, length, own }.share()
    }

    /// Opens the share for reading. Also returns the number of lines that the reader must add to its line numbers.
    ///
    /// # Errors
    /// [`Error::Read`] if the file cannot be opened.
    pub(crate) fn open(&self, path: &Path) -> Result<(Box<dyn BufRead>, u64), Error> {
        let Share::Records { header, range, shift } = self else {
            return Ok((open::open(path)?, 0));
        };
        let seek = || {
            let mut file = File::open(path)?;
            file.seek(SeekFrom::Start(range.start))?;
            Ok(BufReader::with_capacity(1 << 16, file.take(range.end - range.start)))
        };
        let body = seek().map_err(|error| Error::Read { file: path.display().to_string(), error })?;
        Ok((Box::new(io::Cursor::new(header.clone()).chain(body)), *shift))
    }
}

/// A file that several ranks can read.
pub(crate) struct Opened {
    pub(crate) file: File,
    /// Length of the file in bytes.
    pub(crate) length: u64,
    compressed: bool,
    /// Position of the first byte after a byte-order mark.
    text_start: u64,
}

impl Opened {
    /// Opens a file.
    ///
    /// # Errors
    /// [`Error::Once`] if it is standard input, a pipe or a device, [`Error::Read`] if it cannot be read.
    pub(crate) fn new(path: &Path) -> Result<Opened, Error> {
        if path.as_os_str() == "-" {
            return Err(Error::Once { file: "standard input".into() });
        }
        let name = || path.display().to_string();
        match Opened::regular(path) {
            Ok(Some(opened)) => Ok(opened),
            Ok(None) => Err(Error::Once { file: name() }),
            Err(error) => Err(Error::Read { file: name(), error }),
        }
    }

    /// Opens the file, unless it is a pipe or a device: opening a pipe would wait for the process that writes to it.
    fn regular(path: &Path) -> io::Result<Option<Opened>> {
        let metadata = path.metadata()?;
        if !metadata.is_file() && !metadata.is_dir() {
            return Ok(None);
        }
        let mut file = File::open(path)?;
        let mut start = Vec::new();
        Read::by_ref(&mut file).take(BOM.len() as u64).read_to_end(&mut start)?;
        let text_start = if start == BOM { BOM.len() as u64 } else { 0 };
        Ok(Some(Opened { file, length: metadata.len(), compressed: start.starts_with(GZIP), text_start }))
    }
}

/// Finds the records of a rank.
struct Scanner<'a> {
    team: &'a dyn Team,
    text: Text,
    file: File,
    name: String,
    /// Length of the file in bytes.
    length: u64,
    /// The bytes of this rank.
    own: Range<u64>,
}

impl Scanner<'_> {
    fn share(mut self) -> Result<Share, Error> {
        let scanned = self.scan_own();
        let (effect, lines) = self.agree(scanned)?;
        let (mut state, mut lines_before) = (START, 0);
        for (effect, lines) in &gather(self.team, (effect, lines))[..self.team.rank()] {
            state = effect[usize::from(state)];
            lines_before += lines;
        }
        let found = self.first_record(state, lines_before);
        let starts = gather(self.team, self.agree(found)?);
        // A header can reach into the ranges of other ranks.
        let end = Start { byte: self.length, lines: 0 };
        let start = |rank: usize| starts.get(rank).map_or(end, |start| *start.max(&starts[0]));
        let (first, next) = (start(self.team.rank()), start(self.team.rank() + 1));
        let header = self.header(starts[0].byte);
        let header = self.agree(header)?;
        Ok(Share::Records { header, range: first.byte..next.byte, shift: first.lines - starts[0].lines })
    }

    /// Returns what the bytes of this rank do to a parser, and how many line feeds they have.
    fn scan_own(&mut self) -> io::Result<(Effect, u64)> {
        let (mut effect, mut lines) = (NO_EFFECT, 0);
        let text = self.text;
        chunks(&mut self.file, self.own.clone(), |chunk| {
            let next = text.effect(chunk);
            effect = effect.map(|state| next[usize::from(state)]);
            lines += line_feeds(chunk);
            None::<()>
        })?;
        Ok((effect, lines))
    }

    /// Finds the first record that starts in the bytes of this rank, which a parser reaches in the state `state`.
    ///
    /// A record belongs to the rank where it starts. The first record of CSV is the header, so the records of rank 0
    /// start after it.
    fn first_record(&mut self, mut state: State, mut lines: u64) -> io::Result<Start> {
        let is_first = self.team.rank() == 0;
        if self.text == Text::Lines && is_first {
            return Ok(Start { byte: 0, lines: 0 });
        }
        let mut byte = self.own.start;
        // Empty lines before the header are not records.
        let mut only_line_ends = is_first;
        let text = self.text;
        chunks(&mut self.file, self.own.start..self.length, |chunk| {
            let end = chunk.iter().position(|byte| {
                let ends = text.ends(state, *byte);
                state = text.next(state, *byte);
                only_line_ends &= ends;
                ends && !only_line_ends
            });
            let read = end.map_or(chunk.len(), |end| end + 1);
            byte += read as u64;
            lines += line_feeds(&chunk[..read]);
            end
        })?;
        Ok(Start { byte, lines })
    }

    /// Reads everything before the records of rank 0.
    fn header(&mut self, length: u64) -> io::Result<Vec<u8>> {
        let mut header = Vec::new();
        self.file.rewind()?;
        Read::by_ref(&mut self.file).take(length.min(MAX_HEADER)).read_to_end(&mut header)?;
        Ok(header)
    }

    fn agree<T>(&self, result: io::Result<T>) -> Result<T, Error> {
        agree(self.team, result.map_err(|error| Error::Read { file: self.name.clone(), error }))
    }
}

fn line_feeds(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// Calls `each` with the bytes of `range` chunk by chunk, until it returns something.
pub(crate) fn chunks<T>(
    file: &mut File,
    range: Range<u64>,
    mut each: impl FnMut(&[u8]) -> Option<T>,
) -> io::Result<Option<T>> {
    file.seek(SeekFrom::Start(range.start))?;
    let mut chunk = Vec::new();
    let mut remaining = range.end - range.start;
    while remaining > 0 {
        chunk.clear();
        let read = Read::by_ref(file).take(remaining.min(CHUNK)).read_to_end(&mut chunk)?;
        if read == 0 {
            break;
        }
        if let Some(found) = each(&chunk) {
            return Ok(Some(found));
        }
        remaining -= read as u64;
    }
    Ok(None)
}
