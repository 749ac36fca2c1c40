//! Record batches of Apache Arrow: tables as other programs hold them in memory. Parquet comes this way, too.

use std::fmt::{Arguments, Display, UpperExp};
use std::io::Write;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchReader, new_empty_array};
use arrow_schema::{DataType, Schema, TimeUnit};
use jiff::SignedDuration;
use jiff::civil::Time;

use crate::error::Error;
use crate::input::row::{At, Push, places, text};
use crate::input::time::date;

/// Reads a table that comes in batches. `name` is what messages call it; they count its rows as lines.
///
/// A field is the text that CSV would have: empty if it is null or NaN, and for a time whose column has a zone, the time in UTC. Arrow's
/// own type stands here because it is how programs exchange tables.
pub(crate) fn rows(
    batches: impl RecordBatchReader,
    name: &str,
    columns: &[String],
    push: &mut Push<'_>,
) -> Result<(), Error> {
    let mut rows = Rows::new(&batches.schema(), name, columns, push)?;
    for batch in batches {
        let batch = batch.map_err(|error| broken(name, rows.next, error))?;
        rows.push(&batch)?;
    }
    Ok(())
}

/// A batch that begins with this row, and is none.
fn broken(file: &str, first: u64, what: impl Display) -> Error {
    let what = format!("rows from {first}: {what}").replace('\n', " ");
    Error::Format { file: file.into(), format: "Arrow", what }
}

/// Rows of batches, on their way to a counter.
pub(crate) struct Rows<'a, 'b> {
    file: &'a str,
    push: &'a mut Push<'b>,
    /// The columns that are counted, and where they stand in a batch.
    columns: &'a [String],
    places: Vec<usize>,
    /// Memory for what is not text already, in each of the columns and in their dictionaries.
    written: Vec<Written>,
    dictionaries: Vec<Written>,
    /// The row that comes next, from 1.
    pub(crate) next: u64,
}

/// Rows that are made text at a time: some programs have all of a table in one batch.
const PIECE: usize = 1 << 13;

impl<'a, 'b> Rows<'a, 'b> {
    /// Of batches with this schema.
    pub(crate) fn new(
        schema: &Schema,
        file: &'a str,
        columns: &'a [String],
        push: &'a mut Push<'b>,
    ) -> Result<Rows<'a, 'b>, Error> {
        let known: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
        let places = places(columns, &known, file)?;
        for (place, column) in places.iter().zip(columns) {
            let kind = schema.field(*place).data_type();
            let values = if let DataType::Dictionary(_, values) = kind { values } else { kind };
            if cells(&new_empty_array(values), &mut Written::default()).is_none() {
                return Err(refused(file, column, kind));
            }
        }
        let memory = || columns.iter().map(|_| Written::default()).collect();
        let (written, dictionaries) = (memory(), memory());
        Ok(Rows { file, push, columns, places, written, dictionaries, next: 1 })
    }

    /// All rows of a batch.
    pub(crate) fn push(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        let file = self.file;
        let arrays = self.places.iter().map(|place| batch.columns().get(*place));
        let arrays: Vec<&ArrayRef> = arrays.collect::<Option<_>>().ok_or_else(|| {
            let what = format!("it has {} columns, fewer than its schema", batch.num_columns());
            broken(file, self.next, what)
        })?;
        let mut dictionaries: Vec<Option<Cells<'_>>> = Vec::new();
        for ((array, column), memory) in arrays.iter().zip(self.columns).zip(&mut self.dictionaries) {
            dictionaries.push(match array.as_any_dictionary_opt() {
                Some(dictionary) => Some(
                    cells(dictionary.values(), memory)
                        .ok_or_else(|| refused(file, column, array.data_type()))?,
                ),
                None => None,
            });
        }
        for start in (0..batch.num_rows()).step_by(PIECE) {
            let length = PIECE.min(batch.num_rows() - start);
            let pieces: Vec<ArrayRef> = arrays.iter().map(|array| array.slice(start, length)).collect();
            let mut cells_of = Vec::new();
            for (at, memory) in self.written.iter_mut().enumerate() {
                let texts = match &dictionaries[at] {
                    Some(values) => Some(keyed(&pieces[at], values)),
                    None => cells(&pieces[at], memory),
                };
                cells_of.push(texts.ok_or_else(|| refused(file, &self.columns[at], arrays[at].data_type()))?);
            }
            let mut fields = Vec::with_capacity(cells_of.len());
            for row in 0..length {
                let at = At { file, line: self.next };
                fields.clear();
                for (cell, column) in cells_of.iter().zip(self.columns) {
                    fields.push(text(cell(row), column, at)?);
                }
                (self.push)(&fields, at)?;
                self.next += 1;
            }
        }
        Ok(())
    }
}

fn refused(file: &str, column: &str, kind: &DataType) -> Error {
    Error::Kind {
        file: file.into(),
        column: column.into(),
        kind: kind.to_string(),
        rule: "text, numbers, truth values, dates or times",
    }
}

/// The text of each row, in bytes.
type Cells<'a> = Box<dyn Fn(usize) -> &'a [u8] + 'a>;

/// Texts one behind the other, and where each ends.
#[derive(Default)]
struct Written {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

/// As CSV would have it; what is null is empty. None if there is no such text.
fn cells<'a>(array: &'a dyn Array, memory: &'a mut Written) -> Option<Cells<'a>> {
    Some(match array.data_type() {
        DataType::Null => Box::new(|_| b""),
        DataType::Utf8 => as_it_is(array, |row| array.as_string::<i32>().value(row).as_bytes()),
        DataType::LargeUtf8 => as_it_is(array, |row| array.as_string::<i64>().value(row).as_bytes()),
        DataType::Utf8View => as_it_is(array, |row| array.as_string_view().value(row).as_bytes()),
        DataType::Binary => as_it_is(array, |row| array.as_binary::<i32>().value(row)),
        DataType::LargeBinary => as_it_is(array, |row| array.as_binary::<i64>().value(row)),
        DataType::BinaryView => as_it_is(array, |row| array.as_binary_view().value(row)),
        DataType::FixedSizeBinary(_) => as_it_is(array, |row| array.as_fixed_size_binary().value(row)),
        DataType::Boolean => {
            write(array, memory, |out, row| put(out, format_args!("{}", array.as_boolean().value(row))))
        }
        DataType::Int8 => each::<Int8Type>(array, memory, number),
        DataType::Int16 => each::<Int16Type>(array, memory, number),
        DataType::Int32 => each::<Int32Type>(array, memory, number),
        DataType::Int64 => each::<Int64Type>(array, memory, number),
        DataType::UInt8 => each::<UInt8Type>(array, memory, number),
        DataType::UInt16 => each::<UInt16Type>(array, memory, number),
        DataType::UInt32 => each::<UInt32Type>(array, memory, number),
        DataType::UInt64 => each::<UInt64Type>(array, memory, number),
        DataType::Float16 => each::<Float16Type>(array, memory, |out, value| float(out, f32::from(value))),
        DataType::Float32 => each::<Float32Type>(array, memory, float),
        DataType::Float64 => each::<Float64Type>(array, memory, float),
        DataType::Decimal32(_, scale) => {
            each::<Decimal32Type>(array, memory, |out, value| decimal(out, value, *scale))
        }
        DataType::Decimal64(_, scale) => {
            each::<Decimal64Type>(array, memory, |out, value| decimal(out, value, *scale))
        }
        DataType::Decimal128(_, scale) => {
            each::<Decimal128Type>(array, memory, |out, value| decimal(out, value, *scale))
        }
        DataType::Decimal256(_, scale) => {
            each::<Decimal256Type>(array, memory, |out, value| decimal(out, value, *scale))
        }
        DataType::Date32 => {
            each::<Date32Type>(array, memory, |out, days: i32| day(out, days.into(), days.into()))
        }
        DataType::Date64 => each::<Date64Type>(array, memory, |out, time_ms: i64| {
            day(out, time_ms, time_ms.div_euclid(86_400_000))
        }),
        DataType::Time32(TimeUnit::Second) => {
            each::<Time32SecondType>(array, memory, |out, time: i32| clock(out, time.into(), 0))
        }
        DataType::Time32(_) => {
            each::<Time32MillisecondType>(array, memory, |out, time: i32| clock(out, time.into(), 3))
        }
        DataType::Time64(TimeUnit::Microsecond) => {
            each::<Time64MicrosecondType>(array, memory, |out, time| clock(out, time, 6))
        }
        DataType::Time64(_) => each::<Time64NanosecondType>(array, memory, |out, time| clock(out, time, 9)),
        DataType::Timestamp(TimeUnit::Second, _) => {
            each::<TimestampSecondType>(array, memory, |out, value| time(out, value, 1))
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            each::<TimestampMillisecondType>(array, memory, |out, value| time(out, value, 1_000))
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            each::<TimestampMicrosecondType>(array, memory, |out, value| time(out, value, 1_000_000))
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            each::<TimestampNanosecondType>(array, memory, |out, value| time(out, value, 1_000_000_000))
        }
        _ => return None,
    })
}

/// Text that an array holds.
fn as_it_is<'a>(array: &'a dyn Array, value: impl Fn(usize) -> &'a [u8] + 'a) -> Cells<'a> {
    let nulls = array.nulls();
    Box::new(move |row| if nulls.is_some_and(|nulls| nulls.is_null(row)) { b"" } else { value(row) })
}

/// Text that is made of what an array holds.
fn write<'a>(array: &dyn Array, memory: &'a mut Written, one: impl Fn(&mut Vec<u8>, usize)) -> Cells<'a> {
    let Written { bytes, ends } = memory;
    bytes.clear();
    ends.clear();
    ends.push(0);
    for row in 0..array.len() {
        if array.nulls().is_none_or(|nulls| nulls.is_valid(row)) {
            one(bytes, row);
        }
        ends.push(bytes.len());
    }
    Box::new(|row| &bytes[ends[row]..ends[row + 1]])
}

/// Text that is made of numbers.
fn each<'a, T: ArrowPrimitiveType>(
    array: &dyn Array,
    memory: &'a mut Written,
    one: impl Fn(&mut Vec<u8>, T::Native),
) -> Cells<'a> {
    let values = array.as_primitive::<T>().values();
    write(array, memory, |out, row| one(out, values[row]))
}

/// The values of a dictionary that an array has the keys of.
fn keyed<'a, 'b: 'a>(array: &'a dyn Array, values: &'a Cells<'b>) -> Cells<'a> {
    match array.as_any_dictionary_opt() {
        Some(dictionary) if !dictionary.values().is_empty() => {
            let keys = dictionary.normalized_keys();
            as_it_is(array, move |row| values(keys[row]))
        }
        _ => Box::new(|_| b""),
    }
}

fn put(out: &mut Vec<u8>, text: Arguments<'_>) {
    // Memory takes whatever is written.
    let _ = out.write_fmt(text);
}

fn number(out: &mut Vec<u8>, value: impl Display) {
    put(out, format_args!("{value}"));
}

/// A whole number has no point, as the same number would in a column of integers. NaN is how tables without nulls say that there is nothing.
fn float<T: Copy + Display + UpperExp + Into<f64>>(out: &mut Vec<u8>, value: T) {
    let number: f64 = value.into();
    match number.abs() {
        size if size.is_nan() => {}
        size if size != 0.0 && !(1e-15..=1e19).contains(&size) => put(out, format_args!("{value:E}")),
        _ => put(out, format_args!("{value}")),
    }
}

/// A whole number, and how many of its digits stand behind the point.
fn decimal(out: &mut Vec<u8>, value: impl Display, scale: i8) {
    let start = out.len();
    number(out, value);
    let first = start + usize::from(out[start] == b'-');
    let behind = usize::from(scale.max(0).unsigned_abs());
    while out.len() - first <= behind {
        out.insert(first, b'0');
    }
    match scale {
        0 => {}
        1.. => out.insert(out.len() - behind, b'.'),
        _ if &out[first..] == b"0" => {}
        _ => out.resize(out.len() + usize::from(scale.unsigned_abs()), b'0'),
    }
}

/// A day that is none of the calendar's stays the number that it is.
fn day(out: &mut Vec<u8>, value: i64, days: i64) {
    match date(days) {
        Some(date) => number(out, date),
        None => number(out, value),
    }
}

/// Likewise a time, of so many units in a second,
fn time(out: &mut Vec<u8>, value: i64, unit: i64) {
    let (seconds, part) = (value.div_euclid(unit), value.rem_euclid(unit));
    let midnight = date(seconds.div_euclid(86_400)).map(|date| date.to_datetime(Time::midnight()));
    let since = SignedDuration::new(seconds.rem_euclid(86_400), (part * (1_000_000_000 / unit)) as i32);
    match midnight.map(|midnight| midnight.saturating_add(since)) {
        Some(time) => number(out, time),
        None => number(out, value),
    }
}

/// and a time of day, whose seconds have so many digits behind the point.
fn clock(out: &mut Vec<u8>, value: i64, digits: usize) {
    let unit = 10_i64.pow(digits as u32);
    let (seconds, part) = (value.div_euclid(unit), value.rem_euclid(unit));
    match seconds {
        0..86_400 => {
            put(out, format_args!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60));
            if digits > 0 {
                put(out, format_args!(".{part:0digits$}"));
            }
        }
        _ => number(out, value),
    }
}
