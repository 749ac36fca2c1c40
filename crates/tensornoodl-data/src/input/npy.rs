//! Reads NumPy arrays: `.npy`, and `.npz` with one array, or with fibers and their places.
//!
//! An array is streamed entry by entry and never held, so only entries that are not zero take memory, whatever the
//! header says. Each rank of a team reads a part of a `.npy` file; a `.npz` file can be compressed, so every rank
//! reads all of it.

use std::fmt::Write;
use std::io::{self, Read, Seek};
use std::ops::Range;

use ndarray_npy::ReadableElement;
use ndarray_npy::npy::header::Header;
use tensornoodl::Team;
use tensornoodl::parallel::rank_range;
use zip::ZipArchive;

use crate::error::Error;
use crate::input::row::{At, Push, array_positions, quote};
use crate::memory::Watch;

/// Pushes the entries of an array n x J x K that this rank reads.
///
/// # Errors
/// If the array cannot be read or has other axes, if a column is missing, or if `push` fails.
pub(crate) fn npy(
    input: impl Read + Seek,
    file: &str,
    team: &dyn Team,
    columns: &[String],
    push: &mut Push<'_>,
) -> Result<(), Error> {
    let mut array = Array::new(input, Name { file, format: "NPY", array: "" })?;
    let own = rank_range(team, array.count()?);
    let skipped = own.start.checked_mul(array.size as u64).and_then(|bytes| i64::try_from(bytes).ok());
    let moved = array.input.seek_relative(skipped.unwrap_or(i64::MAX));
    moved.map_err(|error| array.name.broken(&read_failure(&error)))?;
    array.range = Some(own);
    dense(array, columns, push)
}

/// Pushes the entries of the only array n x J x K of an archive, or those of its arrays `fibers` and `places`.
///
/// `fibers` is p x n, and `places` is p x 2: the row and the col of each fiber.
///
/// # Errors
/// If the archive has other arrays or cannot be read, if a column is missing, or if `push` fails.
pub(crate) fn npz(
    input: impl Read + Seek,
    file: &str,
    columns: &[String],
    push: &mut Push<'_>,
) -> Result<(), Error> {
    let name = |array| Name { file, format: "NPZ", array };
    let mut archive = ZipArchive::new(input).map_err(|error| name("").broken(&error.to_string()))?;
    let names: Vec<String> = archive.file_names().map(str::to_owned).collect();
    let named = |array: &str| names.iter().position(|name| name.strip_suffix(".npy") == Some(array));
    match (named("fibers"), named("places"), &names[..]) {
        (Some(fibers), Some(places), _) => {
            let places = read_places(open(&mut archive, &names[places], name("places"))?)?;
            sparse(open(&mut archive, &names[fibers], name("fibers"))?, &places, columns, push)
        }
        (_, _, [only]) => dense(open(&mut archive, only, name(""))?, columns, push),
        _ => {
            let some: Vec<String> = names.iter().take(10).map(|name| format!("{name:?}")).collect();
            let rule = "it must have one array, or fibers and places";
            Err(name("").broken(&format!("{rule}, and has {} files: {}", names.len(), some.join(", "))))
        }
    }
}

fn open<'a, R: Read + Seek>(
    archive: &'a mut ZipArchive<R>,
    member: &str,
    name: Name<'a>,
) -> Result<Array<'a, impl Read>, Error> {
    let input = archive.by_name(member).map_err(|error| name.broken(&error.to_string()))?;
    Array::new(input, name)
}

fn dense(array: Array<'_, impl Read>, columns: &[String], push: &mut Push<'_>) -> Result<(), Error> {
    let mut pusher = Pusher::new(columns, push, array.name.file)?;
    pusher.line = array.range.as_ref().map_or(0, |range| range.start);
    array.entries("features, rows and cols", |index: [usize; 3], value| pusher.push(index, value))
}

fn sparse(
    array: Array<'_, impl Read>,
    places: &[Vec<usize>; 2],
    columns: &[String],
    push: &mut Push<'_>,
) -> Result<(), Error> {
    let (fibers, count) = (array.header.shape.first().copied().unwrap_or(0), places[0].len());
    if fibers != count {
        return Err(array.name.broken(&format!("there are {fibers} of them, and {count} places")));
    }
    let mut pusher = Pusher::new(columns, push, array.name.file)?;
    array.entries("fibers and features", |[fiber, feature]: [usize; 2], value| {
        pusher.push([feature, places[0][fiber], places[1][fiber]], value)
    })
}

/// Reads the row and the col of each fiber.
fn read_places(array: Array<'_, impl Read>) -> Result<[Vec<usize>; 2], Error> {
    let name = array.name;
    if array.header.shape.get(1) != Some(&2) {
        return Err(name.broken("it must have two columns, the row and the col of each fiber"));
    }
    let (mut places, mut watch) = ([Vec::new(), Vec::new()], Watch::default());
    array.entries("fibers and sides", |index: [usize; 2], value| {
        if value < 0.0 || value > f64::from(u32::MAX) || value.fract() != 0.0 {
            return Err(name.bad_entry(&index, value, format!("a whole number from 0 to {}", u32::MAX)));
        }
        places[index[1]].push(value as usize);
        watch.grow(size_of::<usize>())
    })?;
    Ok(places)
}

/// Pushes entries as rows of a table.
struct Pusher<'a, 'b> {
    push: &'a mut Push<'b>,
    file: &'a str,
    /// Positions of the columns among `texts`.
    positions: Vec<usize>,
    /// Number of entries so far.
    line: u64,
    /// The three indices and the value of the current entry.
    texts: [String; 4],
}

impl<'a, 'b> Pusher<'a, 'b> {
    fn new(columns: &[String], push: &'a mut Push<'b>, file: &'a str) -> Result<Pusher<'a, 'b>, Error> {
        let positions = array_positions(columns, file)?;
        Ok(Pusher { push, file, positions, line: 0, texts: Default::default() })
    }

    /// Pushes an entry, unless it is zero.
    fn push(&mut self, index: [usize; 3], value: f64) -> Result<(), Error> {
        self.line += 1;
        if value == 0.0 {
            return Ok(());
        }
        self.texts.iter_mut().for_each(String::clear);
        // Writing to a string cannot fail. The text of the value is parsed back to the same bits.
        for (text, index) in self.texts.iter_mut().zip(index) {
            let _ = write!(text, "{index}");
        }
        let _ = write!(self.texts[3], "{value:e}");
        let fields: Vec<&str> =
            self.positions.iter().map(|position| self.texts[*position].as_str()).collect();
        (self.push)(&fields, At { file: self.file, line: self.line })
    }
}

/// The name of an array in messages.
#[derive(Clone, Copy)]
struct Name<'a> {
    file: &'a str,
    format: &'static str,
    /// Name of the array in an archive with several arrays, or empty.
    array: &'static str,
}

impl Name<'_> {
    fn broken(&self, what: &str) -> Error {
        let array = if self.array.is_empty() { String::new() } else { format!("{}: ", self.array) };
        Error::Format { file: self.file.into(), format: self.format, what: format!("{array}{what}") }
    }

    fn bad_entry(&self, index: &[usize], value: f64, rule: String) -> Error {
        Error::Entry { file: self.file.into(), entry: format!("{}{index:?}", self.array), value, rule }
    }
}

/// An array whose header has been read.
struct Array<'a, R> {
    input: R,
    name: Name<'a>,
    header: Header,
    /// Size of an entry in bytes.
    size: usize,
    decode: Decode,
    /// The entries to read, by their order in the file, or none for all. The input stands before the first of them.
    range: Option<Range<u64>>,
}

/// Number of entries that are read at a time.
const CHUNK: u64 = 8192;

impl<'a, R: Read> Array<'a, R> {
    fn new(mut input: R, name: Name<'a>) -> Result<Array<'a, R>, Error> {
        let header = read_header(&mut input, name)?;
        let kind = KINDS.iter().find(|(_, decode)| decode(&[], &header).is_some());
        let (size, decode) = *kind.ok_or_else(|| {
            let kind = quote(&header.type_descriptor.to_string());
            name.broken(&format!(
                "its entries are {kind}, they must be whole numbers of at most 64 bits, or f4 or f8"
            ))
        })?;
        Ok(Array { input, name, header, size, decode, range: None })
    }

    /// Returns the number of entries that the header declares.
    fn count(&self) -> Result<u64, Error> {
        let shape = self.header.shape.iter();
        let count = shape.copied().try_fold(1_u64, |count, length| count.checked_mul(length as u64));
        count.ok_or_else(|| self.name.broken("its header declares more entries than a file can hold"))
    }

    /// Calls `take` with the index and the value of every entry, in the order of the file. `axes` names the axes that
    /// are expected.
    fn entries<const N: usize>(
        mut self,
        axes: &str,
        mut take: impl FnMut([usize; N], f64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (name, count) = (self.name, self.count()?);
        let range = self.range.clone().unwrap_or(0..count);
        let mut index = Index::<N>::new(&self.header, range.start).ok_or_else(|| {
            name.broken(&format!("it has {} axes, it must have {N}: {axes}", self.header.shape.len()))
        })?;
        let mut remaining = range.end - range.start;
        let mut buffer = vec![0; self.size * remaining.min(CHUNK) as usize];
        while remaining > 0 {
            let bytes = &mut buffer[..self.size * remaining.min(CHUNK) as usize];
            self.input.read_exact(bytes).map_err(|error| name.broken(&read_failure(&error)))?;
            let values = (self.decode)(bytes, &self.header);
            let values = values.ok_or_else(|| name.broken("a truth value is neither 0 nor 1"))?;
            for &value in &values {
                // NaN is not usable either.
                let usable = value.abs() <= 1e100;
                if !usable {
                    let remedy = if value.is_nan() { "; fill missing values first" } else { "" };
                    let rule = format!("a number of at most 1e100{remedy}");
                    return Err(name.bad_entry(&index.current, value, rule));
                }
                take(index.current, value)?;
                index.advance();
            }
            remaining -= values.len() as u64;
        }
        if range.end < count {
            return Ok(());
        }
        match self.input.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(name.broken("it has bytes after the last entry that its header declares")),
            Err(error) => Err(name.broken(&read_failure(&error))),
        }
    }
}

/// The index of an entry, which advances in the order of the file.
struct Index<const N: usize> {
    current: [usize; N],
    shape: [usize; N],
    /// The axes, the fastest first.
    order: [usize; N],
}

impl<const N: usize> Index<N> {
    /// Returns the index of entry number `at` of the file, or none if the array does not have N axes.
    fn new(header: &Header, at: u64) -> Option<Index<N>> {
        let shape = <[usize; N]>::try_from(&header.shape[..]).ok()?;
        let is_fortran = header.layout.is_fortran();
        let order = std::array::from_fn(|axis| if is_fortran { axis } else { N - 1 - axis });
        let (mut current, mut at) = ([0; N], at);
        for axis in order {
            let length = shape[axis].max(1) as u64;
            current[axis] = (at % length) as usize;
            at /= length;
        }
        Some(Index { current, shape, order })
    }

    fn advance(&mut self) {
        for axis in self.order {
            self.current[axis] += 1;
            if self.current[axis] < self.shape[axis] {
                break;
            }
            self.current[axis] = 0;
        }
    }
}

/// Says why a read failed.
fn read_failure(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "it ends in the middle".into(),
        _ => error.to_string(),
    }
}

/// The largest length of a header in bytes. NumPy has the same limit.
const MAX_HEADER: usize = 10_000;

/// Reads the header.
///
/// The header is a Python expression, and a parser of Python expressions takes time and stack that double with every
/// nested bracket. The header of an array of numbers has one pair of each kind of brackets, so any other header is
/// refused before it is parsed.
fn read_header(input: &mut impl Read, name: Name<'_>) -> Result<Header, Error> {
    let broken = || name.broken("it does not start with the header of a NumPy array");
    let mut start = [0; 8];
    let mut read =
        |bytes: &mut [u8]| input.read_exact(bytes).map_err(|error| name.broken(&read_failure(&error)));
    read(&mut start)?;
    // Version 1 has two bytes for the length, later versions have four.
    let mut length = [0; 4];
    let bytes = if start[6] == 1 { 2 } else { 4 };
    read(&mut length[..bytes])?;
    let count = u32::from_le_bytes(length) as usize;
    if !start.starts_with(b"\x93NUMPY") || count > MAX_HEADER {
        return Err(broken());
    }
    let mut text = vec![0; count];
    read(&mut text)?;
    let brackets = |open: u8| text.iter().filter(|byte| **byte == open).count();
    if brackets(b'[') > 0 {
        return Err(name.broken("its entries are records, they must be numbers"));
    }
    if brackets(b'(') > 1 || brackets(b'{') > 1 {
        return Err(broken());
    }
    let whole = [&start, &length[..bytes], &text].concat();
    Header::from_reader(&mut whole.as_slice()).map_err(|_| broken())
}

/// Decodes entries of one type, or returns none if the header names another type.
type Decode = fn(&[u8], &Header) -> Option<Vec<f64>>;

/// Size of an entry in bytes and decoder, for each type of entry.
const KINDS: [(usize, Decode); 11] = [
    (8, |bytes, header| decode(bytes, header, |value: f64| value)),
    (4, |bytes, header| decode::<f32>(bytes, header, f64::from)),
    (8, |bytes, header| decode(bytes, header, |value: i64| value as f64)),
    (4, |bytes, header| decode::<i32>(bytes, header, f64::from)),
    (2, |bytes, header| decode::<i16>(bytes, header, f64::from)),
    (1, |bytes, header| decode::<i8>(bytes, header, f64::from)),
    (8, |bytes, header| decode(bytes, header, |value: u64| value as f64)),
    (4, |bytes, header| decode::<u32>(bytes, header, f64::from)),
    (2, |bytes, header| decode::<u16>(bytes, header, f64::from)),
    (1, |bytes, header| decode::<u8>(bytes, header, f64::from)),
    (1, |bytes, header| decode::<bool>(bytes, header, f64::from)),
];

fn decode<T: ReadableElement>(bytes: &[u8], header: &Header, number: fn(T) -> f64) -> Option<Vec<f64>> {
    let values = T::read_to_end_exact_vec(bytes, &header.type_descriptor, bytes.len() / size_of::<T>());
    Some(values.ok()?.into_iter().map(number).collect())
}
