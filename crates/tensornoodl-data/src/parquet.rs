//! Parquet files, row by row.

use std::borrow::Cow;
use std::fs::File;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use parquet::basic::{LogicalType, TimeUnit};
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
    let reader = SerializedFileReader::new(input).map_err(|error| broken(error.to_string()))?;
    let schema = reader.metadata().file_metadata().schema();
    let known: Vec<String> = schema.get_fields().iter().map(|field| field.name().to_owned()).collect();
    let columns = counter.columns().to_vec();
    let wanted: Vec<Arc<Type>> =
        places(&columns, &known, file)?.into_iter().map(|place| schema.get_fields()[place].clone()).collect();
    let nanoseconds: Vec<bool> = wanted.iter().map(|field| in_nanoseconds(field)).collect();
    let projection = Type::group_type_builder(schema.name()).with_fields(wanted).build();
    let projection = projection.map_err(|error| broken(error.to_string()))?;
    let rows = reader.get_row_iter(Some(projection)).map_err(|error| broken(error.to_string()))?;
    for (line, row) in (1..).zip(rows) {
        let row = row.map_err(|error| broken(error.to_string()))?;
        let mut texts = vec![Cow::Borrowed(""); columns.len()];
        for (name, field) in row.get_column_iter() {
            if let Some(at) = columns.iter().position(|column| column == name) {
                texts[at] = text(field, nanoseconds[at]);
            }
        }
        let fields: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        counter.push(&fields, At { file, line })?;
    }
    Ok(())
}

fn in_nanoseconds(field: &Type) -> bool {
    let kind = field.get_basic_info().logical_type_ref();
    matches!(kind, Some(LogicalType::Timestamp(time)) if time.unit == TimeUnit::NANOS)
}

/// As CSV would have it; what is null is empty.
fn text(field: &Field, nanoseconds: bool) -> Cow<'_, str> {
    let time = |time: Result<Timestamp, jiff::Error>| match time {
        Ok(time) => time.to_zoned(TimeZone::UTC).datetime().to_string().into(),
        Err(_) => field.to_string().into(),
    };
    match field {
        Field::Null => "".into(),
        Field::Str(text) => text.as_str().into(),
        Field::Bytes(bytes) => String::from_utf8_lossy(bytes.data()).into_owned().into(),
        Field::Date(days) => date((*days).into()).map_or(field.to_string(), |date| date.to_string()).into(),
        Field::TimestampMillis(time_ms) => time(Timestamp::from_millisecond(*time_ms)),
        Field::TimestampMicros(time_us) => time(Timestamp::from_microsecond(*time_us)),
        Field::Long(time_ns) if nanoseconds => time(Timestamp::from_nanosecond((*time_ns).into())),
        other => other.to_string().into(),
    }
}
