//! Reads Apache Arrow record batches: tables in the memory of other programs, and Parquet files.

use std::fmt::{Arguments, Display, UpperExp};
use std::io::Write;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchReader, new_empty_array};
use arrow_schema::{DataType, Schema, TimeUnit};
use jiff::SignedDuration;
use jiff::civil::Time;

use crate::error::Error;
use crate::input::row::{At, Push, positions, text};
use crate::input::time::date_of;

/// Pushes all rows of all batches. `name` is the name of the table in messages, which count rows as lines.
///
/// # Errors
/// If a column is missing or has a type that is not supported, if the stream of batches fails, or if `push` fails.
pub(crate) fn rows(
    batches: impl RecordBatchReader,
    name: &str,
    columns: &[String],
    push: &mut Push<'_>,
) -> Result<(), Error> {
    let mut pusher = BatchPusher::new(&batches.schema(), name, columns, push)?;
    for batch in batches {
        let batch = batch.map_err(|error| broken(name, pusher.next, error))?;
        pusher.push(&batch)?;
    }
    Ok(())
}

/// The error of a batch that starts with row number `first` and cannot be read.
fn broken(file: &str, first: u64, what: impl Display) -> Error {
    let what = format!("rows from {first}: {what}").replace('\n', " ");
    Error::Format { file: file.into(), format: "Arrow", what }
}

/// The error of a column whose type is not supported.
fn refused(file: &str, column: &str, kind: &DataType) -> Error {
    Error::Kind {
        file: file.into(),
        column: column.into(),
        kind: kind.to_string(),
        rule: "text, numbers, truth values, dates or times",
    }
}

/// Pushes the rows of record batches.
///
/// A field is the text that CSV would have. It is empty for null and NaN, and the time in UTC for a column with a
/// time zone.
pub(crate) struct BatchPusher<'a, 'b> {
    file: &'a str,
    push: &'a mut Push<'b>,
    columns: &'a [String],
    /// Positions of the columns in a batch.
    positions: Vec<usize>,
    /// For each column, a buffer for values that are not text.
    buffers: Vec<TextBuffer>,
    /// For each column, a buffer for the values of its dictionary.
    dictionary_buffers: Vec<TextBuffer>,
    /// Number of the next row, from 1.
    pub(crate) next: u64,
}

/// The largest number of rows that are converted to text at a time. Some programs hold a whole table in one batch.
const SLICE: usize = 1 << 13;

impl<'a, 'b> BatchPusher<'a, 'b> {
    /// Prepares for batches with the given schema.
    ///
    /// # Errors
    /// If a column is missing or has a type that is not supported.
    pub(crate) fn new(
        schema: &Schema,
        file: &'a str,
        columns: &'a [String],
        push: &'a mut Push<'b>,
    ) -> Result<BatchPusher<'a, 'b>, Error> {
        let known: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
        let positions = positions(columns, &known, file)?;
        for (position, column) in positions.iter().zip(columns) {
            let kind = schema.field(*position).data_type();
            let values = if let DataType::Dictionary(_, values) = kind { values } else { kind };
            if cells(&new_empty_array(values), &mut TextBuffer::default()).is_none() {
                return Err(refused(file, column, kind));
            }
        }
        let buffers = || columns.iter().map(|_| TextBuffer::default()).collect();
        let (buffers, dictionary_buffers) = (buffers(), buffers());
        Ok(BatchPusher { file, push, columns, positions, buffers, dictionary_buffers, next: 1 })
    }

    /// Pushes all rows of a batch.
    ///
    /// # Errors
    /// If the batch does not have the columns of the schema, or if a row is refused.
    pub(crate) fn push(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        let file = self.file;
        let arrays = self.positions.iter().map(|position| batch.columns().get(*position));
        let arrays: Vec<&ArrayRef> = arrays.collect::<Option<_>>().ok_or_else(|| {
            let what = format!("it has {} columns, fewer than its schema", batch.num_columns());
            broken(file, self.next, what)
        })?;
        let mut dictionaries: Vec<Option<Cells<'_>>> = Vec::new();
        for ((array, column), buffer) in arrays.iter().zip(self.columns).zip(&mut self.dictionary_buffers) {
            dictionaries.push(match array.as_any_dictionary_opt() {
                Some(dictionary) => Some(
                    cells(dictionary.values(), buffer)
                        .ok_or_else(|| refused(file, column, array.data_type()))?,
                ),
                None => None,
            });
        }
        for start in (0..batch.num_rows()).step_by(SLICE) {
            let length = SLICE.min(batch.num_rows() - start);
            let slices: Vec<ArrayRef> = arrays.iter().map(|array| array.slice(start, length)).collect();
            let mut columns_of_cells = Vec::new();
            for (at, buffer) in self.buffers.iter_mut().enumerate() {
                let texts = match &dictionaries[at] {
                    Some(values) => Some(dictionary_cells(&slices[at], values)),
                    None => cells(&slices[at], buffer),
                };
                let refused = || refused(file, &self.columns[at], arrays[at].data_type());
                columns_of_cells.push(texts.ok_or_else(refused)?);
            }
            let mut fields = Vec::with_capacity(columns_of_cells.len());
            for row in 0..length {
                let at = At { file, line: self.next };
                fields.clear();
                for (cell, column) in columns_of_cells.iter().zip(self.columns) {
                    fields.push(text(cell(row), column, at)?);
                }
                (self.push)(&fields, at)?;
                self.next += 1;
            }
        }
        Ok(())
    }
}

/// Returns the text of each row as bytes.
type Cells<'a> = Box<dyn Fn(usize) -> &'a [u8] + 'a>;

/// The texts of a column, one after the other, and where each of them ends.
#[derive(Default)]
struct TextBuffer {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

/// Returns the text of each row, which is empty for null, or none if the type is not supported.
fn cells<'a>(array: &'a dyn Array, buffer: &'a mut TextBuffer) -> Option<Cells<'a>> {
    use DataType::*;
    Some(match array.data_type() {
        Null => Box::new(|_| b""),
        Utf8 => borrowed(array, |row| array.as_string::<i32>().value(row).as_bytes()),
        LargeUtf8 => borrowed(array, |row| array.as_string::<i64>().value(row).as_bytes()),
        Utf8View => borrowed(array, |row| array.as_string_view().value(row).as_bytes()),
        Binary => borrowed(array, |row| array.as_binary::<i32>().value(row)),
        LargeBinary => borrowed(array, |row| array.as_binary::<i64>().value(row)),
        BinaryView => borrowed(array, |row| array.as_binary_view().value(row)),
        FixedSizeBinary(_) => borrowed(array, |row| array.as_fixed_size_binary().value(row)),
        Boolean => {
            written(array, buffer, |out, row| put(out, format_args!("{}", array.as_boolean().value(row))))
        }
        kind if kind.is_temporal() => return time_cells(array, buffer),
        _ => return number_cells(array, buffer),
    })
}

fn number_cells<'a>(array: &dyn Array, buffer: &'a mut TextBuffer) -> Option<Cells<'a>> {
    use DataType::*;
    Some(match array.data_type() {
        Int8 => each::<Int8Type>(array, buffer, number),
        Int16 => each::<Int16Type>(array, buffer, number),
        Int32 => each::<Int32Type>(array, buffer, number),
        Int64 => each::<Int64Type>(array, buffer, number),
        UInt8 => each::<UInt8Type>(array, buffer, number),
        UInt16 => each::<UInt16Type>(array, buffer, number),
        UInt32 => each::<UInt32Type>(array, buffer, number),
        UInt64 => each::<UInt64Type>(array, buffer, number),
        Float16 => each::<Float16Type>(array, buffer, |out, value| float(out, f32::from(value))),
        Float32 => each::<Float32Type>(array, buffer, float),
        Float64 => each::<Float64Type>(array, buffer, float),
        Decimal32(_, scale) => each::<Decimal32Type>(array, buffer, |out, value| decimal(out, value, *scale)),
        Decimal64(_, scale) => each::<Decimal64Type>(array, buffer, |out, value| decimal(out, value, *scale)),
        Decimal128(_, scale) => {
            each::<Decimal128Type>(array, buffer, |out, value| decimal(out, value, *scale))
        }
        Decimal256(_, scale) => {
            each::<Decimal256Type>(array, buffer, |out, value| decimal(out, value, *scale))
        }
        _ => return None,
    })
}

fn time_cells<'a>(array: &dyn Array, buffer: &'a mut TextBuffer) -> Option<Cells<'a>> {
    use DataType::{Date32, Date64, Time32, Time64, Timestamp};
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    Some(match array.data_type() {
        Date32 => each::<Date32Type>(array, buffer, |out, days: i32| day(out, days.into(), days.into())),
        Date64 => each::<Date64Type>(array, buffer, |out, time_ms: i64| {
            day(out, time_ms, time_ms.div_euclid(86_400_000))
        }),
        Time32(Second) => {
            each::<Time32SecondType>(array, buffer, |out, time: i32| time_of_day(out, time.into(), 0))
        }
        Time32(_) => {
            each::<Time32MillisecondType>(array, buffer, |out, time: i32| time_of_day(out, time.into(), 3))
        }
        Time64(Microsecond) => {
            each::<Time64MicrosecondType>(array, buffer, |out, time| time_of_day(out, time, 6))
        }
        Time64(_) => each::<Time64NanosecondType>(array, buffer, |out, time| time_of_day(out, time, 9)),
        Timestamp(Second, _) => {
            each::<TimestampSecondType>(array, buffer, |out, value| timestamp(out, value, 1))
        }
        Timestamp(Millisecond, _) => {
            each::<TimestampMillisecondType>(array, buffer, |out, value| timestamp(out, value, 1_000))
        }
        Timestamp(Microsecond, _) => {
            each::<TimestampMicrosecondType>(array, buffer, |out, value| timestamp(out, value, 1_000_000))
        }
        Timestamp(Nanosecond, _) => {
            each::<TimestampNanosecondType>(array, buffer, |out, value| timestamp(out, value, 1_000_000_000))
        }
        _ => return None,
    })
}

/// Returns cells whose text the array holds.
fn borrowed<'a>(array: &'a dyn Array, value: impl Fn(usize) -> &'a [u8] + 'a) -> Cells<'a> {
    let nulls = array.nulls();
    Box::new(move |row| if nulls.is_some_and(|nulls| nulls.is_null(row)) { b"" } else { value(row) })
}

/// Returns cells whose text `write_row` writes to the buffer.
fn written<'a>(
    array: &dyn Array,
    buffer: &'a mut TextBuffer,
    write_row: impl Fn(&mut Vec<u8>, usize),
) -> Cells<'a> {
    let TextBuffer { bytes, ends } = buffer;
    bytes.clear();
    ends.clear();
    ends.push(0);
    for row in 0..array.len() {
        if array.nulls().is_none_or(|nulls| nulls.is_valid(row)) {
            write_row(bytes, row);
        }
        ends.push(bytes.len());
    }
    Box::new(|row| &bytes[ends[row]..ends[row + 1]])
}

/// Returns cells whose text `write_value` writes to the buffer, for an array of numbers.
fn each<'a, T: ArrowPrimitiveType>(
    array: &dyn Array,
    buffer: &'a mut TextBuffer,
    write_value: impl Fn(&mut Vec<u8>, T::Native),
) -> Cells<'a> {
    let values = array.as_primitive::<T>().values();
    written(array, buffer, |out, row| write_value(out, values[row]))
}

/// Returns the cells of an array of dictionary keys, where `values` are the cells of the dictionary.
fn dictionary_cells<'a, 'b: 'a>(array: &'a dyn Array, values: &'a Cells<'b>) -> Cells<'a> {
    match array.as_any_dictionary_opt() {
        Some(dictionary) if !dictionary.values().is_empty() => {
            let keys = dictionary.normalized_keys();
            borrowed(array, move |row| values(keys[row]))
        }
        _ => Box::new(|_| b""),
    }
}

fn put(out: &mut Vec<u8>, text: Arguments<'_>) {
    // Writing to memory cannot fail.
    let _ = out.write_fmt(text);
}

fn number(out: &mut Vec<u8>, value: impl Display) {
    put(out, format_args!("{value}"));
}

/// Writes a floating-point number.
///
/// A whole number has no decimal point, so it is the same label as in a column of integers. NaN is empty, because
/// tables without nulls use it for missing values.
fn float<T: Copy + Display + UpperExp + Into<f64>>(out: &mut Vec<u8>, value: T) {
    let number: f64 = value.into();
    match number.abs() {
        size if size.is_nan() => {}
        size if size != 0.0 && !(1e-15..=1e19).contains(&size) => put(out, format_args!("{value:E}")),
        _ => put(out, format_args!("{value}")),
    }
}

/// Writes a decimal number, given as an integer and the number of its digits after the decimal point.
fn decimal(out: &mut Vec<u8>, value: impl Display, scale: i8) {
    let start = out.len();
    number(out, value);
    let first = start + usize::from(out[start] == b'-');
    let after_point = usize::from(scale.max(0).unsigned_abs());
    while out.len() - first <= after_point {
        out.insert(first, b'0');
    }
    match scale {
        0 => {}
        1.. => out.insert(out.len() - after_point, b'.'),
        _ if &out[first..] == b"0" => {}
        _ => out.resize(out.len() + usize::from(scale.unsigned_abs()), b'0'),
    }
}

/// Writes the date `days` days after 1 January 1970, or the number `value` if the calendar does not reach that far.
fn day(out: &mut Vec<u8>, value: i64, days: i64) {
    match date_of(days) {
        Some(date) => number(out, date),
        None => number(out, value),
    }
}

/// Writes a date and time, given in units since 1 January 1970, where a second has `per_second` units. Writes the
/// number `value` if the calendar does not reach that far.
fn timestamp(out: &mut Vec<u8>, value: i64, per_second: i64) {
    let (seconds, part) = (value.div_euclid(per_second), value.rem_euclid(per_second));
    let midnight = date_of(seconds.div_euclid(86_400)).map(|date| date.to_datetime(Time::midnight()));
    let nanoseconds = part * (1_000_000_000 / per_second);
    let since = SignedDuration::new(seconds.rem_euclid(86_400), nanoseconds as i32);
    match midnight.map(|midnight| midnight.saturating_add(since)) {
        Some(time) => number(out, time),
        None => number(out, value),
    }
}

/// Writes a time of day with `digits` digits after the seconds, given in units of the last digit. Writes the number
/// `value` if it is not within a day.
fn time_of_day(out: &mut Vec<u8>, value: i64, digits: usize) {
    let per_second = 10_i64.pow(digits as u32);
    let (seconds, part) = (value.div_euclid(per_second), value.rem_euclid(per_second));
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
