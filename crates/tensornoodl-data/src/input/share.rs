//! Shares of a text: each rank reads the records of its own part of a file.
//!
//! Where a record ends can only be told by who knows whether a quote is open, which depends on all that stands before. So every
//! rank first looks at what its bytes would do to someone who comes to them in any state; these effects, one after the other,
//! say in which state everyone comes to his.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use tensornoodl::Team;
use tensornoodl::parallel::{agree, get, put, rank_range};

use crate::error::Error;
use crate::input::open::{self, GZIP};

/// What a rank reads of a file.
#[derive(Debug)]
pub(crate) enum Part {
    /// All of it, alone.
    Whole,
    /// All of it, but takes only every so manyth row: what is packed cannot be cut.
    Turns,
    /// Records from here to there, after a head that everyone reads.
    Records {
        head: Vec<u8>,
        range: Range<u64>,
        /// By how many lines those of `range` are further down than if they stood behind the head.
        shift: u64,
    },
}

/// Text whose records are lines, or CSV, with a first line that is everyone's and quotes that may hold lines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Text {
    Lines,
    Csv,
}

/// Where one is in a record: at the start of a field, in a plain one, in one with quotes, or after a quote in there, which closes it
/// unless another one follows.
type State = u8;
const START: State = 0;
const PLAIN: State = 1;
const QUOTED: State = 2;
const CLOSED: State = 3;

/// What some text does: for each state before it, the one after it.
type Effect = [State; 4];
const NO_EFFECT: Effect = [START, PLAIN, QUOTED, CLOSED];

impl Text {
    /// As the csv crate reads: quotes count at the start of a field only, and double within.
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

/// Pieces in which a file is looked through.
const PIECE: u64 = 1 << 16;

impl Part {
    /// The part of this rank. All ranks ask; what is wrong on one of them is an error on all.
    pub(crate) fn of(team: &dyn Team, path: &Path, text: Text) -> Result<Part, Error> {
        if team.size() == 1 {
            return Ok(Part::Whole);
        }
        let name = path.display().to_string();
        let failed = |error| Error::Read { file: name.clone(), error };
        let opened = agree(team, look(path))?;
        let lengths: Vec<u64> = team
            .gather(opened.length.to_le_bytes().to_vec())
            .iter()
            .map(|bytes| get(&mut &bytes[..]))
            .collect();
        if let Some(rank) = lengths.iter().position(|length| *length != lengths[0]) {
            return Err(Error::Differs { file: name, first: lengths[0], rank, bytes: lengths[rank] });
        }
        if opened.packed {
            return Ok(Part::Turns);
        }
        let Opened { mut file, length, first, .. } = opened;
        let own = rank_range(team, length);
        let own = own.start.max(first)..own.end.max(first);

        // What my bytes do, and how many lines they have.
        let effects = |file: &mut File| {
            let (mut effect, mut lines) = (NO_EFFECT, 0);
            pieces(file, own.clone(), |piece| {
                let next = text.effect(piece);
                effect = effect.map(|state| next[state as usize]);
                lines += newlines(piece);
                None::<()>
            })?;
            Ok((effect, lines))
        };
        let (effect, lines) = agree(team, effects(&mut file).map_err(failed))?;
        let mut parcel = Vec::new();
        effect.iter().for_each(|state| put(&mut parcel, u64::from(*state)));
        put(&mut parcel, lines);
        let (mut state, mut above) = (START, 0);
        for parcel in &team.gather(parcel)[..team.rank()] {
            let words: [u64; 5] = std::array::from_fn(|at| get(&mut &parcel[8 * at..]));
            state = words[state as usize] as State;
            above += words[4];
        }

        // A record that others have begun is theirs; mine begin where it ends. The first one of CSV is everyone's.
        let mut find = |file: &mut File| {
            if text == Text::Lines && team.rank() == 0 {
                return Ok((0, 0));
            }
            let mut begin = own.start;
            let mut empty = team.rank() == 0;
            let found = pieces(file, own.start..length, |piece| {
                let end = piece.iter().position(|byte| {
                    let ends = text.ends(state, *byte);
                    state = text.next(state, *byte);
                    empty &= ends;
                    ends && !empty
                });
                let read = end.map_or(piece.len(), |end| end + 1);
                begin += read as u64;
                above += newlines(&piece[..read]);
                end
            });
            found.map(|_| (begin, above))
        };
        let (begin, above) = agree(team, find(&mut file).map_err(failed))?;
        let mut parcel = Vec::new();
        put(&mut parcel, begin);
        put(&mut parcel, above);
        let begins: Vec<[u64; 2]> = team
            .gather(parcel)
            .iter()
            .map(|parcel| [get(&mut &parcel[..]), get(&mut &parcel[8..])])
            .collect();
        let begin = |rank: usize| begins.get(rank).map_or([length, 0], |begin| *begin.max(&begins[0]));
        let ([begin, above], [end, _]) = (begin(team.rank()), begin(team.rank() + 1));
        let mut head = Vec::new();
        let read =
            file.rewind().and_then(|()| file.take(begins[0][0].min(LONGEST_HEAD)).read_to_end(&mut head));
        agree(team, read.map_err(failed))?;
        Ok(Part::Records { head, range: begin..end, shift: above - begins[0][1] })
    }

    /// What is to be read, and by how many lines it is further down than it seems.
    pub(crate) fn open(&self, path: &Path) -> Result<(Box<dyn BufRead>, u64), Error> {
        let Part::Records { head, range, shift } = self else {
            return Ok((open::open(path)?, 0));
        };
        let seek = || {
            let mut file = File::open(path)?;
            file.seek(SeekFrom::Start(range.start))?;
            Ok(BufReader::with_capacity(1 << 16, file.take(range.end - range.start)))
        };
        let body = seek().map_err(|error| Error::Read { file: path.display().to_string(), error })?;
        Ok((Box::new(io::Cursor::new(head.clone()).chain(body)), *shift))
    }
}

/// What is longer is no head, and whoever reads it will say so.
const LONGEST_HEAD: u64 = 1 << 25;

struct Opened {
    file: File,
    length: u64,
    packed: bool,
    /// Where the text begins.
    first: u64,
}

fn look(path: &Path) -> Result<Opened, Error> {
    let name = || path.display().to_string();
    let opened = || {
        // To open a pipe is to wait for who writes to it.
        let about = path.metadata()?;
        if !about.is_file() && !about.is_dir() {
            return Ok(None);
        }
        let mut file = File::open(path)?;
        let mut start = Vec::new();
        Read::by_ref(&mut file).take(3).read_to_end(&mut start)?;
        let first = if start == BOM { 3 } else { 0 };
        Ok(Some(Opened { file, length: about.len(), packed: start.starts_with(GZIP), first }))
    };
    if path.as_os_str() == "-" {
        return Err(Error::Once { file: "standard input".into() });
    }
    match opened() {
        Ok(Some(opened)) => Ok(opened),
        Ok(None) => Err(Error::Once { file: name() }),
        Err(error) => Err(Error::Read { file: name(), error }),
    }
}

fn newlines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// Hands out some bytes of a file piece by piece, until `each` has found what it looks for.
fn pieces<T>(
    file: &mut File,
    range: Range<u64>,
    mut each: impl FnMut(&[u8]) -> Option<T>,
) -> io::Result<Option<T>> {
    file.seek(SeekFrom::Start(range.start))?;
    let mut piece = Vec::new();
    let mut left = range.end - range.start;
    while left > 0 {
        piece.clear();
        let read = Read::by_ref(file).take(left.min(PIECE)).read_to_end(&mut piece)?;
        if read == 0 {
            break;
        }
        if let Some(found) = each(&piece) {
            return Ok(Some(found));
        }
        left -= read as u64;
    }
    Ok(None)
}
