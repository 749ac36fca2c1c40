//! Queries and files that tests share.

// Each file of tests uses some of these.
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
        filters: Vec::new(),
        square: false,
        names: None,
        groups: None,
    }
}

/// A query of an array, as the program makes it.
pub fn array_query() -> Query {
    Query { value: Value::Sum("value".into()), ..query("bin(1,1)", "bin(2,1)", "bin(3,1)") }
}

/// A place for a file of this name.
pub fn place(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// A Parquet file with one column of each kind that tables have.
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
    // 2018-12-16, 2018-12-22, 2018-12-23.
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
