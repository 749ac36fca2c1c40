//! Queries and files that several tests use.

// Each test file uses only some of these functions.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use tensornoodl_data::{Axis, Query, Value};

pub fn query(feature: &str, row: &str, col: &str) -> Query {
    let axis = |text: &str| text.parse::<Axis>().unwrap();
    Query {
        feature: axis(feature),
        row: axis(row),
        col: axis(col),
        step: None,
        value: Value::Count,
        average_over: None,
        keep_rows: None,
        max_features: None,
        filters: Vec::new(),
        square: false,
        names: None,
        groups: None,
    }
}

/// Returns the query that the program uses for an array.
pub fn array_query() -> Query {
    Query { value: Value::Sum("value".into()), ..query("bin(1,1)", "bin(2,1)", "bin(3,1)") }
}

/// Returns a path for a file with this name, in the folder for temporary test files.
pub fn place(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Writes a Parquet file with a column of dates, one of times, one of texts with a null, and one of numbers.
pub fn parquet_file(path: &Path) {
    use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    let schema = "message events {
        required int32 day (DATE);
        required int64 time (TIMESTAMP(NANOS,false));
        optional binary who (STRING);
        required double size;
    }";
    let schema = std::sync::Arc::new(parse_message_type(schema).unwrap());
    let file = std::fs::File::create(path).unwrap();
    let mut writer =
        SerializedFileWriter::new(file, schema, WriterProperties::builder().build().into()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    // The days 2018-12-16, 2018-12-22 and 2018-12-23.
    column.typed::<Int32Type>().write_batch(&[17_881, 17_887, 17_888], None, None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let hours = [9, 17, 17].map(|hour| (17_881 * 24 + hour) * 3_600_000_000_000_i64);
    column.typed::<Int64Type>().write_batch(&hours, None, None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column
        .typed::<ByteArrayType>()
        .write_batch(&[ByteArray::from("ann"), ByteArray::from("bob")], Some(&[1, 1, 0]), None)
        .unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<DoubleType>().write_batch(&[0.5, 2.0, 4.0], None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
}
