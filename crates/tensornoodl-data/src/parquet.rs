//! Parquet files, row by row.

use std::borrow::Cow;
use std::cell::Cell;
use std::fs::File;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Once};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use parquet::basic::{LogicalType, TimeUnit};
use parquet::column::page::Page;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use parquet::schema::types::Type;

use crate::axis::date;
use crate::error::Error;
use crate::events::{At, Counter};
use crate::table::places;

/// Reads all rows; messages count them as lines.
pub(crate) fn read(input: File, file: &str, counter: &mut Counter) -> Result<(), Error> {
    let broken = |what: String| Error::Format { file: file.into(), format: "Parquet", what };
    let failed = |error: ParquetError| broken(error.to_string().replace('\n', " "));
    let contradiction = || broken("it contradicts itself".into());
    let reader = guarded(|| SerializedFileReader::new(input)).ok_or_else(contradiction)?.map_err(failed)?;
    let schema = reader.metadata().file_metadata().schema();
    let known: Vec<String> = schema.get_fields().iter().map(|field| field.name().to_owned()).collect();
    let columns = counter.columns().to_vec();
    let wanted: Vec<Arc<Type>> =
        places(&columns, &known, file)?.into_iter().map(|place| schema.get_fields()[place].clone()).collect();
    guarded(|| check_dictionaries(&reader, &columns)).ok_or_else(contradiction)?.map_err(failed)?;
    let nanoseconds: Vec<bool> = wanted.iter().map(|field| in_nanoseconds(field)).collect();
    let projection = Type::group_type_builder(schema.name()).with_fields(wanted).build().map_err(failed)?;
    let rows = guarded(|| reader.get_row_iter(Some(projection)));
    let mut rows = rows.ok_or_else(contradiction)?.map_err(failed)?;
    for line in 1.. {
        let Some(row) = guarded(|| rows.next()).ok_or_else(contradiction)? else { break };
        let row = row.map_err(|error| broken(format!("row {line}: {error}")))?;
        let mut texts = vec![Cow::Borrowed(""); columns.len()];
        for (name, field) in row.get_column_iter() {
            if let Some(at) = columns.iter().position(|column| column == name) {
                let text = guarded(|| text(field, nanoseconds[at])).ok_or_else(contradiction)?;
                texts[at] = text.map_err(|bytes| Error::Field {
                    file: file.into(),
                    line,
                    column: name.clone(),
                    value: String::from_utf8_lossy(bytes).chars().take(40).collect(),
                    rule: "text in UTF-8".into(),
                })?;
            }
        }
        let fields: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        counter.push(&fields, At { file, line })?;
    }
    Ok(())
}

/// Looks at all pages once before. A dictionary with more values than bytes has none; whoever believes it takes all memory that there is.
fn check_dictionaries(reader: &SerializedFileReader<File>, columns: &[String]) -> Result<(), ParquetError> {
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group)?;
        for at in 0..group.num_columns() {
            let path = group.metadata().column(at).column_path();
            if !path.parts().first().is_some_and(|name| columns.contains(name)) {
                continue;
            }
            for page in group.get_column_page_reader(at)? {
                if let Page::DictionaryPage { buf, num_values, .. } = page?
                    && num_values as usize > buf.len()
                {
                    return Err(ParquetError::General(format!(
                        "column {path} has a dictionary of {num_values} values in {} bytes",
                        buf.len()
                    )));
                }
            }
        }
    }
    Ok(())
}

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// What the Parquet crate does; none if it panics, as it does for some files whose parts contradict each other. To tell those before
/// is to read them, so the panic is caught, and nothing is printed about it. What it worked on must not be used after.
fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    static SILENCE: Once = Once::new();
    SILENCE.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !GUARDED.get() {
                usual(info);
            }
        }));
    });
    GUARDED.set(true);
    let done = panic::catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(false);
    done.ok()
}

fn in_nanoseconds(field: &Type) -> bool {
    let kind = field.get_basic_info().logical_type_ref();
    matches!(kind, Some(LogicalType::Timestamp(time)) if time.unit == TimeUnit::NANOS)
}

/// As CSV would have it; what is null is empty. An error has the bytes that are not text.
fn text(field: &Field, nanoseconds: bool) -> Result<Cow<'_, str>, &[u8]> {
    // A time that is none of the calendar's stays the number that it is.
    let time = |number: i64, time: Result<Timestamp, jiff::Error>| match time {
        Ok(time) => time.to_zoned(TimeZone::UTC).datetime().to_string().into(),
        Err(_) => number.to_string().into(),
    };
    Ok(match field {
        Field::Null => "".into(),
        Field::Str(text) => text.as_str().into(),
        Field::Bytes(bytes) => std::str::from_utf8(bytes.data()).map_err(|_| bytes.data())?.into(),
        Field::Date(days) => {
            date((*days).into()).map_or_else(|| days.to_string(), |date| date.to_string()).into()
        }
        Field::TimestampMillis(time_ms) => time(*time_ms, Timestamp::from_millisecond(*time_ms)),
        Field::TimestampMicros(time_us) => time(*time_us, Timestamp::from_microsecond(*time_us)),
        Field::Long(time_ns) if nanoseconds => time(*time_ns, Timestamp::from_nanosecond((*time_ns).into())),
        other => other.to_string().into(),
    })
}
