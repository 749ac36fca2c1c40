//! Tables that come as Apache Arrow record batches.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs::File;
use std::sync::Arc;

use arrow_array::types::{Decimal256Type, Float16Type, Int8Type, UInt32Type};
use arrow_array::*;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};
use common::{place, query};
use parquet::arrow::ArrowWriter;
use tensornoodl_data::{Error, Events, Query, Value, arrow, table};

fn schema(columns: &[(&str, ArrayRef)]) -> SchemaRef {
    let field = |(name, array): &(&str, ArrayRef)| Field::new(*name, array.data_type().clone(), true);
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

/// Reads batches that all have the columns of the first batch.
fn read(batches: &[&[(&str, ArrayRef)]], query: Query) -> Result<Events, Error> {
    let schema = schema(batches[0]);
    let batch = |columns: &&[(&str, ArrayRef)]| {
        RecordBatch::try_new(schema.clone(), columns.iter().map(|column| column.1.clone()).collect())
    };
    let batches: Vec<Result<RecordBatch, ArrowError>> = batches.iter().map(batch).collect();
    arrow::read(RecordBatchIterator::new(batches, schema), "table", query)
}

/// Returns the labels of a column, and checks that a Parquet file with the column has the same labels.
fn labels(array: ArrayRef) -> Vec<String> {
    let ones: ArrayRef = Arc::new(Int8Array::from(vec![1; array.len()]));
    let columns = [("a", array), ("one", ones)];
    let names = read(&[&columns], query("one", "a", "one")).unwrap().rows.names;
    let kind = columns[0].1.data_type();
    // Parquet has no times in seconds, no decimals with a negative scale, and no dates in milliseconds.
    let not_in_parquet = matches!(
        kind,
        DataType::Time32(TimeUnit::Second)
            | DataType::Timestamp(TimeUnit::Second, _)
            | DataType::Date64
            | DataType::Decimal128(_, ..0)
    );
    if not_in_parquet {
        return names;
    }
    let path = place(&format!("kind_{:?}.parquet", std::thread::current().id()));
    let mut writer = ArrowWriter::try_new(File::create(&path).unwrap(), schema(&columns), None).unwrap();
    writer.write(&RecordBatch::try_from_iter(columns.clone()).unwrap()).unwrap();
    writer.close().unwrap();
    let events = table::read(&path, query("one", "a", "one")).unwrap();
    assert_eq!(events.rows.names, names, "{kind}");
    names
}

fn texts(labels: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(labels.to_vec()))
}

type Half = <Float16Type as ArrowPrimitiveType>::Native;
type Wide = <Decimal256Type as ArrowPrimitiveType>::Native;

const NOON: i64 = 17_881 * 86_400 + 9 * 3600 + 30 * 60; // 2018-12-16T09:30:00

#[test]
fn values_become_the_text_that_csv_would_have() {
    let text = [Some("bob"), None, Some("zoé"), Some("")];
    let bytes = || text.iter().map(|text| text.map(str::as_bytes));
    for array in [
        Arc::new(StringArray::from_iter(text)) as ArrayRef,
        Arc::new(LargeStringArray::from_iter(text)),
        Arc::new(StringViewArray::from_iter(text)),
        Arc::new(BinaryArray::from_iter(bytes())),
        Arc::new(LargeBinaryArray::from_iter(bytes())),
        Arc::new(BinaryViewArray::from_iter(bytes())),
        Arc::new(DictionaryArray::<Int8Type>::from_iter(text)),
        Arc::new(DictionaryArray::<UInt32Type>::from_iter(text)),
    ] {
        assert_eq!(labels(array.clone()), ["bob", "zoé"], "{:?}", array.data_type());
    }
    assert_eq!(
        labels(Arc::new(FixedSizeBinaryArray::try_from_iter([b"ab", b"cd"].iter()).unwrap())),
        ["ab", "cd"]
    );
    assert_eq!(labels(Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]))), ["false", "true"]);

    assert_eq!(labels(Arc::new(Int8Array::from(vec![Some(-128), None, Some(7)]))), ["-128", "7"]);
    assert_eq!(labels(Arc::new(Int16Array::from(vec![i16::MIN]))), ["-32768"]);
    assert_eq!(labels(Arc::new(Int32Array::from(vec![i32::MIN]))), ["-2147483648"]);
    assert_eq!(labels(Arc::new(Int64Array::from(vec![i64::MIN]))), ["-9223372036854775808"]);
    assert_eq!(labels(Arc::new(UInt8Array::from(vec![u8::MAX]))), ["255"]);
    assert_eq!(labels(Arc::new(UInt16Array::from(vec![u16::MAX]))), ["65535"]);
    assert_eq!(labels(Arc::new(UInt32Array::from(vec![u32::MAX]))), ["4294967295"]);
    assert_eq!(labels(Arc::new(UInt64Array::from(vec![u64::MAX]))), ["18446744073709551615"]);

    let half = PrimitiveArray::<Float16Type>::from_iter_values([1.5, 2.0].map(Half::from_f32));
    assert_eq!(labels(Arc::new(half)), ["1.5", "2"]);
    assert_eq!(labels(Arc::new(Float32Array::from(vec![0.1, 1e20, f32::NAN]))), ["0.1", "1E20"]);
    let doubles = vec![Some(0.1), Some(1.0), None, Some(f64::NAN), Some(1e-20), Some(1e19)];
    assert_eq!(labels(Arc::new(Float64Array::from(doubles))), ["1E-20", "0.1", "1", "10000000000000000000"]);
    let signed = Float64Array::from(vec![-1.5, -2.0, 0.0, -1e-20]);
    assert_eq!(labels(Arc::new(signed)), ["-2", "-1.5", "-1E-20", "0"]);
    let infinite = Float64Array::from(vec![f64::INFINITY, f64::NEG_INFINITY]);
    assert_eq!(labels(Arc::new(infinite)), ["-inf", "inf"]);

    let cents = Decimal128Array::from(vec![Some(12_345), Some(5), Some(-5), None, Some(0), Some(-12_300)]);
    let cents = cents.with_precision_and_scale(9, 2).unwrap();
    assert_eq!(labels(Arc::new(cents)), ["-123.00", "-0.05", "0.00", "0.05", "123.45"]);
    let small = Decimal32Array::from(vec![1]).with_precision_and_scale(9, 3).unwrap();
    assert_eq!(labels(Arc::new(small)), ["0.001"]);
    let small = Decimal64Array::from(vec![-10]).with_precision_and_scale(18, 1).unwrap();
    assert_eq!(labels(Arc::new(small)), ["-1.0"]);
    let large =
        Decimal256Array::from_iter_values([Wide::from_i128(7)]).with_precision_and_scale(76, 10).unwrap();
    assert_eq!(labels(Arc::new(large)), ["0.0000000007"]);
    let whole = Decimal128Array::from(vec![12, 0]).with_precision_and_scale(9, 0).unwrap();
    assert_eq!(labels(Arc::new(whole)), ["0", "12"]);
    let thousands = Decimal128Array::from(vec![12, 0]).with_precision_and_scale(9, -3).unwrap();
    assert_eq!(labels(Arc::new(thousands)), ["0", "12000"]);

    let nothing: &[(&str, ArrayRef)] = &[("a", Arc::new(NullArray::new(2))), ("b", texts(&["x", "y"]))];
    let error = read(&[nothing], query("a", "b", "b")).unwrap_err().to_string();
    assert!(error.contains("2 rows") && error.contains("2 have no value"), "{error}");
}

#[test]
fn dates_and_times_become_the_text_that_csv_would_have() {
    assert_eq!(labels(Arc::new(Date32Array::from(vec![Some(17_881), None]))), ["2018-12-16"]);
    assert_eq!(labels(Arc::new(Date32Array::from(vec![-1]))), ["1969-12-31"]);
    assert_eq!(labels(Arc::new(Date64Array::from(vec![17_881 * 86_400_000]))), ["2018-12-16"]);
    // A number outside the calendar or the day stays a number.
    assert_eq!(labels(Arc::new(Date32Array::from(vec![i32::MAX]))), ["2147483647"]);
    assert_eq!(labels(Arc::new(TimestampSecondArray::from(vec![i64::MAX]))), ["9223372036854775807"]);
    assert_eq!(labels(Arc::new(Time64MicrosecondArray::from(vec![-1]))), ["-1"]);

    for zone in [None, Some("UTC"), Some("+02:00"), Some("Europe/Berlin")] {
        let whole = "2018-12-16T09:30:00";
        let zoned = |array: ArrayRef| {
            let DataType::Timestamp(unit, _) = array.data_type() else { unreachable!() };
            let kind = DataType::Timestamp(*unit, zone.map(Into::into));
            labels(make_array(array.to_data().into_builder().data_type(kind).build().unwrap()))
        };
        assert_eq!(zoned(Arc::new(TimestampSecondArray::from(vec![Some(NOON), None]))), [whole]);
        assert_eq!(zoned(Arc::new(TimestampMillisecondArray::from(vec![NOON * 1000]))), [whole]);
        let part = [format!("{whole}.000001")];
        assert_eq!(zoned(Arc::new(TimestampMicrosecondArray::from(vec![NOON * 1_000_000 + 1]))), part);
        let part = [format!("{whole}.5")];
        let half = NOON * 1_000_000_000 + 500_000_000;
        assert_eq!(zoned(Arc::new(TimestampNanosecondArray::from(vec![half]))), part);
    }
    assert_eq!(labels(Arc::new(TimestampMillisecondArray::from(vec![-1]))), ["1969-12-31T23:59:59.999"]);

    let time = 9 * 3600 + 30 * 60 + 1;
    assert_eq!(labels(Arc::new(Time32SecondArray::from(vec![time]))), ["09:30:01"]);
    assert_eq!(labels(Arc::new(Time32MillisecondArray::from(vec![time * 1000]))), ["09:30:01.000"]);
    let time = i64::from(time) * 1_000_000;
    assert_eq!(labels(Arc::new(Time64MicrosecondArray::from(vec![time + 7]))), ["09:30:01.000007"]);
    assert_eq!(labels(Arc::new(Time64NanosecondArray::from(vec![time * 1000]))), ["09:30:01.000000000"]);
}

#[test]
fn a_dictionary_can_hold_numbers_and_nulls() {
    let keys = Int8Array::from(vec![Some(2), None, Some(0), Some(1)]);
    let values = Arc::new(Float64Array::from(vec![Some(2.5), None, Some(1.0)]));
    assert_eq!(labels(Arc::new(DictionaryArray::new(keys, values))), ["1", "2.5"]);
    let none = DictionaryArray::new(
        Int8Array::from(vec![None, None]),
        Arc::new(StringArray::from(Vec::<&str>::new())),
    );
    let columns: &[(&str, ArrayRef)] = &[("a", Arc::new(none)), ("b", texts(&["x", "y"]))];
    let error = read(&[columns], query("a", "b", "b")).unwrap_err().to_string();
    assert!(error.contains("2 have no value"), "{error}");
}

#[test]
fn rows_of_all_batches_are_counted() {
    let sizes = |sizes: Vec<f64>| Arc::new(Float64Array::from(sizes)) as ArrayRef;
    let people =
        |people: &[&str]| Arc::new(people.iter().copied().collect::<DictionaryArray<Int8Type>>()) as ArrayRef;
    // A list is not a label, but the query does not use this column.
    let lists = |count: usize| {
        let kind = Arc::new(Field::new("item", DataType::Int8, true));
        Arc::new(ListArray::new_null(kind, count)) as ArrayRef
    };
    let batch = |from: &[&str], to: &[&str], size: Vec<f64>| {
        vec![("size", sizes(size)), ("tags", lists(from.len())), ("from", people(from)), ("to", texts(to))]
    };
    let batches = [
        batch(&[], &[], vec![]),
        batch(&["ann", "bob"], &["bob", "ann"], vec![1.0, 2.0]),
        batch(&[], &[], vec![]),
        batch(&["cy", "bob", "ann"], &["bob", "ann", "cy"], vec![4.0, f64::NAN, 8.0]),
    ];
    let batches: Vec<&[(&str, ArrayRef)]> = batches.iter().map(Vec::as_slice).collect();
    let sums = Query { value: Value::Sum("size".into()), square: true, ..query("to", "from", "to") };
    let events = read(&batches, sums).unwrap();
    assert_eq!(
        (events.rows.names.join(" "), events.cols.names.join(" ")),
        ("ann bob cy".into(), "ann bob cy".into())
    );
    assert_eq!((events.sum(), events.tally.events, events.tally.missing), (15.0, 5, 1));
    let error = read(&batches[..1], query("from", "from", "to")).unwrap_err().to_string();
    assert!(error.starts_with("table has no events to learn from: 0 rows"), "{error}");
}

#[test]
fn a_batch_can_be_large() {
    let number = |step: i64| Arc::new((0..20_000).map(|row| row % step).collect::<Int64Array>()) as ArrayRef;
    let columns: &[(&str, ArrayRef)] = &[("a", number(7)), ("b", number(300)), ("c", number(2))];
    let events = read(&[columns], query("a", "b", "c")).unwrap();
    assert_eq!((events.shape().to_string(), events.sum()), ("7 x 300 x 2".into(), 20_000.0));
    let error = read(&[columns], query("a", "b", "day(b)")).unwrap_err().to_string();
    assert!(error.starts_with("table, line 1, column b: \"0\" is not a date"), "{error}");
}

#[test]
fn errors_name_table_row_and_column() {
    let says = |columns: &[(&str, ArrayRef)]| read(&[columns], query("a", "b", "b")).unwrap_err().to_string();
    let b = || ("b", texts(&["x", "y", "z"]));
    assert_eq!(says(&[b(), ("c", texts(&["x", "y", "z"]))]), "table has no column \"a\"; it has b, c");
    assert_eq!(
        says(&[b(), b(), ("a", b().1)]),
        "table cannot be read as a table: it has two columns named b"
    );
    let rule = "it must be text, numbers, truth values, dates or times";
    let duration = Arc::new(DurationSecondArray::from(vec![1, 2, 3]));
    assert_eq!(says(&[b(), ("a", duration)]), format!("table, column a: its type is Duration(s), {rule}"));
    for kind in [
        DataType::new_list(DataType::Utf8, true),
        DataType::Struct(vec![Field::new("x", DataType::Utf8, true)].into()),
        DataType::Dictionary(DataType::Int8.into(), DataType::new_list(DataType::Utf8, true).into()),
    ] {
        let error = says(&[("b", texts(&[])), ("a", new_empty_array(&kind))]);
        assert_eq!(error, format!("table, column a: its type is {kind}, {rule}"));
    }
    let bytes = || BinaryArray::from(vec![&b"ok"[..], b"\xc3\x28"]);
    let twice = |row: &[i8]| DictionaryArray::new(Int8Array::from(row.to_vec()), Arc::new(bytes()));
    let wrong = "column a: \"\u{fffd}(\" is not text in UTF-8";
    let two = || ("b", texts(&["x", "y"]));
    assert_eq!(says(&[two(), ("a", Arc::new(bytes()))]), format!("table, line 2, {wrong}"));
    assert_eq!(says(&[b(), ("a", Arc::new(twice(&[0, 0, 1])))]), format!("table, line 3, {wrong}"));
}

#[test]
fn a_stream_that_fails_is_an_error() {
    let batch = RecordBatch::try_from_iter([("a", texts(&["x", "y"]))]).unwrap();
    let schema = batch.schema();
    let lost = ArrowError::ExternalError("the other side\nis gone".into());
    let batches = RecordBatchIterator::new([Ok(batch.clone()), Err(lost), Ok(batch)], schema.clone());
    let error = arrow::read(batches, "table", query("a", "a", "a")).unwrap_err().to_string();
    assert!(error.starts_with("table cannot be read as Arrow: rows from 3: "), "{error}");
    assert!(error.ends_with("the other side is gone"), "{error}");
    let empty = RecordBatch::new_empty(Arc::new(Schema::empty()));
    let error = arrow::read(RecordBatchIterator::new([Ok(empty)], schema), "table", query("a", "a", "a"));
    let what = "rows from 1: it has 0 columns, fewer than its schema";
    assert_eq!(error.unwrap_err().to_string(), format!("table cannot be read as Arrow: {what}"));
}

/// Reads a Parquet file with one column `a`, of a type that the Arrow writer does not write.
fn parquet<T: parquet::data_type::DataType>(
    name: &str,
    kind: &str,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<Events, Error> {
    use parquet::file::writer::SerializedFileWriter;
    let schema =
        parquet::schema::parser::parse_message_type(&format!("message events {{ {kind}; }}")).unwrap();
    let path = place(name);
    let mut writer =
        SerializedFileWriter::new(File::create(&path).unwrap(), schema.into(), Default::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<T>().write_batch(values, levels, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    table::read(&path, query("a", "a", "a"))
}

#[test]
fn types_that_only_parquet_has_are_read() {
    use parquet::data_type::{ByteArray, ByteArrayType, FixedLenByteArrayType, Int96, Int96Type};
    // 2018-12-16T09:30:00 and 9999-12-31: days since noon of 24 November 4714 BC, and nanoseconds.
    let time = |day: u32, nanoseconds: u64| {
        let mut time = Int96::new();
        time.set_data(nanoseconds as u32, (nanoseconds >> 32) as u32, day);
        time
    };
    let times =
        [time(2_440_588 + 17_881, (9 * 3600 + 30 * 60) * 1_000_000_000), time(2_440_588 + 2_932_896, 0)];
    let events = parquet::<Int96Type>("int96.parquet", "required int96 a", &times, None).unwrap();
    assert_eq!(events.rows.names, ["2018-12-16T09:30:00", "9999-12-31T00:00:00"]);
    for kind in ["ENUM", "JSON", "BSON", "STRING"] {
        let texts = [ByteArray::from("ann"), ByteArray::from("zoé")];
        let kind = format!("optional binary a ({kind})");
        let events = parquet::<ByteArrayType>("text.parquet", &kind, &texts, Some(&[1, 0, 1])).unwrap();
        assert_eq!((events.rows.names.join(" "), events.tally.missing), ("ann zoé".into(), 1));
    }
    let cents = [ByteArray::from(vec![0xff, 0xfb])];
    let events = parquet::<ByteArrayType>("cents.parquet", "required binary a (DECIMAL(9,2))", &cents, None);
    assert_eq!(events.unwrap().rows.names, ["-0.05"]);
    // All values are null, and a buffer for them would take a terabyte.
    let kind = "optional fixed_len_byte_array(1000000000) a";
    let error = parquet::<FixedLenByteArrayType>("long.parquet", kind, &[], Some(&[0; 1000])).unwrap_err();
    assert!(
        error.to_string().ends_with("column \"a\" has values of 1000000000 bytes, at most 4096 are taken"),
        "{error}"
    );
}
