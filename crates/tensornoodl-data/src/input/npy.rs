//! Arrays of NumPy: `.npy`, and `.npz` with one array in it, or with fibers and their places.
//!
//! An array is read entry by entry and never held, so that only what is not zero takes memory, whatever its header says. Each rank of a team
//! reads a part of a plain one; what is packed is read by all of them.

use std::fmt::Write;
use std::io::{self, Read, Seek};
use std::ops::Range;

use ndarray_npy::ReadableElement;
use ndarray_npy::npy::header::Header;
use tensornoodl::Team;
use tensornoodl::parallel::rank_range;
use zip::ZipArchive;

use crate::error::Error;
use crate::input::row::{At, Push, array_places};

/// Reads an array n x J x K, or the share of a rank in it.
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
    moved.map_err(|error| array.name.broken(&ending(&error)))?;
    array.part = Some(own);
    dense(array, columns, push)
}

/// Reads the one array n x J x K that is in it; or `fibers`, p x n, and `places`, p x 2: the row and the col of each.
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
    inside: &str,
    name: Name<'a>,
) -> Result<Array<'a, impl Read>, Error> {
    let input = archive.by_name(inside).map_err(|error| name.broken(&error.to_string()))?;
    Array::new(input, name)
}

fn dense(array: Array<'_, impl Read>, columns: &[String], push: &mut Push<'_>) -> Result<(), Error> {
    let mut row = Row::new(columns, push, array.name.file)?;
    row.line = array.part.as_ref().map_or(0, |part| part.start);
    array.entries("features, rows and cols", |index: [usize; 3], value| row.push(index, value))
}

fn read_places(array: Array<'_, impl Read>) -> Result<[Vec<usize>; 2], Error> {
    let name = array.name;
    if array.header.shape.get(1) != Some(&2) {
        return Err(name.broken("it must have two columns, the row and the col of each fiber"));
    }
    let mut places = [Vec::new(), Vec::new()];
    array.entries("fibers and sides", |index: [usize; 2], value| {
        // Further than memory goes, and such that a double holds it.
        if value < 0.0 || value > f64::from(u32::MAX) || value.fract() != 0.0 {
            return Err(name.wrong(&index, value, format!("a whole number from 0 to {}", u32::MAX)));
        }
        places[index[1]].push(value as usize);
        Ok(())
    })?;
    Ok(places)
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
    let mut row = Row::new(columns, push, array.name.file)?;
    array.entries("fibers and features", |[fiber, feature]: [usize; 2], value| {
        row.push([feature, places[0][fiber], places[1][fiber]], value)
    })
}

/// Entries as rows of a table.
struct Row<'a, 'b> {
    push: &'a mut Push<'b>,
    file: &'a str,
    /// Which of the texts are counted.
    places: Vec<usize>,
    line: u64,
    texts: [String; 4],
}

impl<'a, 'b> Row<'a, 'b> {
    fn new(columns: &[String], push: &'a mut Push<'b>, file: &'a str) -> Result<Row<'a, 'b>, Error> {
        let places = array_places(columns, file)?;
        Ok(Row { push, file, places, line: 0, texts: Default::default() })
    }

    /// What is zero is no event.
    fn push(&mut self, index: [usize; 3], value: f64) -> Result<(), Error> {
        self.line += 1;
        if value == 0.0 {
            return Ok(());
        }
        self.texts.iter_mut().for_each(String::clear);
        // Text takes what is written to it; the value is read back to the bit.
        for (text, index) in self.texts.iter_mut().zip(index) {
            let _ = write!(text, "{index}");
        }
        let _ = write!(self.texts[3], "{value:e}");
        let fields: Vec<&str> = self.places.iter().map(|place| self.texts[*place].as_str()).collect();
        (self.push)(&fields, At { file: self.file, line: self.line })
    }
}

/// How messages call an array.
#[derive(Clone, Copy)]
struct Name<'a> {
    file: &'a str,
    format: &'static str,
    /// Its name in the file, if it needs one.
    array: &'static str,
}

impl Name<'_> {
    fn broken(&self, what: &str) -> Error {
        let array = if self.array.is_empty() { String::new() } else { format!("{}: ", self.array) };
        Error::Format { file: self.file.into(), format: self.format, what: format!("{array}{what}") }
    }

    fn wrong(&self, index: &[usize], value: f64, rule: String) -> Error {
        Error::Entry { file: self.file.into(), entry: format!("{}{index:?}", self.array), value, rule }
    }
}

/// An array whose header was read.
struct Array<'a, R> {
    input: R,
    name: Name<'a>,
    header: Header,
    /// Bytes of an entry.
    size: usize,
    decode: Decode,
    /// Entries that are read, by their order in the file, if not all; the input stands before the first of them.
    part: Option<Range<u64>>,
}

impl<'a, R: Read> Array<'a, R> {
    fn new(mut input: R, name: Name<'a>) -> Result<Array<'a, R>, Error> {
        let header = header(&mut input, name)?;
        let kind = KINDS.iter().find(|(_, decode)| decode(&[], &header).is_some());
        let (size, decode) = *kind.ok_or_else(|| {
            let kind: String = header.type_descriptor.to_string().chars().take(40).collect();
            name.broken(&format!(
                "its entries are {kind}, they must be whole numbers of at most 64 bits, or f4 or f8"
            ))
        })?;
        Ok(Array { input, name, header, size, decode, part: None })
    }

    /// How many entries there are.
    fn count(&self) -> Result<u64, Error> {
        let shape = self.header.shape.iter();
        let count = shape.copied().try_fold(1_u64, |count, length| count.checked_mul(length as u64));
        count.ok_or_else(|| self.name.broken("its header speaks of more entries than a file can have"))
    }

    /// Hands every entry to `take`, with its index, in the order of the file. `axes` says what they should be.
    fn entries<const N: usize>(
        mut self,
        axes: &str,
        mut take: impl FnMut([usize; N], f64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let count = self.count()?;
        let part = self.part.clone().unwrap_or(0..count);
        let (name, shape) = (self.name, &self.header.shape);
        let Ok(shape) = <[usize; N]>::try_from(&shape[..]) else {
            return Err(name.broken(&format!("it has {} axes, it must have {N}: {axes}", shape.len())));
        };
        let mut order: Vec<usize> = (0..N).collect();
        if !self.header.layout.is_fortran() {
            order.reverse();
        }
        let mut index = [0; N];
        let mut before = part.start;
        for &axis in &order {
            index[axis] = (before % shape[axis].max(1) as u64) as usize;
            before /= shape[axis].max(1) as u64;
        }
        let mut left = part.end - part.start;
        let mut bytes = vec![0; self.size * left.min(ENTRIES_AT_ONCE) as usize];
        while left > 0 {
            let bytes = &mut bytes[..self.size * left.min(ENTRIES_AT_ONCE) as usize];
            self.input.read_exact(bytes).map_err(|error| name.broken(&ending(&error)))?;
            let values = (self.decode)(bytes, &self.header);
            let values = values.ok_or_else(|| name.broken("a truth value is neither 0 nor 1"))?;
            for &value in &values {
                let usable = value.abs() <= 1e100;
                if !usable {
                    return Err(name.wrong(&index, value, "a number of at most 1e100".into()));
                }
                take(index, value)?;
                for &axis in &order {
                    index[axis] += 1;
                    if index[axis] < shape[axis] {
                        break;
                    }
                    index[axis] = 0;
                }
            }
            left -= values.len() as u64;
        }
        if part.end < count {
            return Ok(());
        }
        match self.input.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(name.broken("it goes on after the last entry that its header speaks of")),
            Err(error) => Err(name.broken(&ending(&error))),
        }
    }
}

const ENTRIES_AT_ONCE: u64 = 8192;

/// Why reading ended.
fn ending(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "it ends in the middle".into(),
        _ => error.to_string(),
    }
}

/// NumPy reads no longer ones, either.
const LONGEST_HEADER: usize = 10_000;

/// Reads the header. It is a Python expression, and whoever reads those takes time and stack that double with every bracket
/// in a bracket; headers of arrays of numbers have one pair of each kind and no more.
fn header(input: &mut impl Read, name: Name<'_>) -> Result<Header, Error> {
    let broken = || name.broken("it does not begin as an array of NumPy does");
    let mut start = [0; 8];
    let mut read = |bytes: &mut [u8]| input.read_exact(bytes).map_err(|error| name.broken(&ending(&error)));
    read(&mut start)?;
    // The first version has two bytes for the length, the others four.
    let mut length = [0; 4];
    let bytes = if start[6] == 1 { 2 } else { 4 };
    read(&mut length[..bytes])?;
    let count = u32::from_le_bytes(length) as usize;
    if !start.starts_with(b"\x93NUMPY") || count > LONGEST_HEADER {
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

/// Entries of a kind as numbers; none if they are of another kind.
type Decode = fn(&[u8], &Header) -> Option<Vec<f64>>;

/// How many bytes an entry has, for each kind.
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
