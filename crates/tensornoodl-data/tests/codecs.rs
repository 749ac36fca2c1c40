//! Compressed Parquet files: codecs that are built in are read, others are refused with a remedy.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use common::{parquet_file, place, query};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::metadata::{ParquetMetaDataReader, ParquetMetaDataWriter};
use parquet::file::properties::WriterProperties;
use tensornoodl_data::{Error, table};

/// Writes a Parquet file whose metadata names a codec. The pages are not compressed with it, so the file can only be
/// refused.
fn claim_codec(path: &Path, codec: Compression) {
    parquet_file(path);
    let bytes = fs::read(path).unwrap();
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&File::open(path).unwrap()).unwrap();
    let groups = metadata.row_groups().iter().map(|group| {
        let columns = group.columns().iter().map(|column| column.clone().into_builder());
        let columns = columns.map(|column| column.set_compression(codec).build().unwrap()).collect();
        group.clone().into_builder().set_column_metadata(columns).build().unwrap()
    });
    let metadata = metadata.clone().into_builder().set_row_groups(groups.collect()).build();
    // A Parquet file ends with the metadata, its length in four bytes, and four magic bytes.
    let (_, end) = bytes.split_at(bytes.len() - 8);
    let length = u32::from_le_bytes([end[0], end[1], end[2], end[3]]) as usize;
    let mut changed = bytes[..bytes.len() - 8 - length].to_vec();
    ParquetMetaDataWriter::new(&mut changed, &metadata).finish().unwrap();
    fs::write(path, changed).unwrap();
}

/// The message of an error, with the name of the file only.
fn refused(name: &str, codec: Compression) -> String {
    let path = place(name);
    claim_codec(&path, codec);
    let error = table::read(&path, query("hour(time)", "who", "day")).unwrap_err();
    assert!(matches!(error, Error::Codec { .. }), "{error}");
    error.to_string().replace(&path.display().to_string(), name)
}

#[test]
#[cfg(not(feature = "all-codecs"))]
fn a_codec_that_is_not_built_in_is_named_with_a_remedy() {
    for (codec, name) in [
        (Compression::BROTLI(Default::default()), "brotli"),
        (Compression::LZ4, "lz4"),
        (Compression::LZ4_RAW, "lz4"),
    ] {
        assert_eq!(
            refused("codec.parquet", codec),
            format!(
                "codec.parquet, column day: it is compressed with {name}, which this build cannot decompress; \
                 rewrite the file with snappy, zstd or gzip, or build with --features all-codecs"
            )
        );
    }
}

#[test]
fn a_codec_that_no_build_has_is_named() {
    assert_eq!(
        refused("lzo.parquet", Compression::LZO),
        "lzo.parquet, column day: it is compressed with lzo, which this build cannot decompress; \
         rewrite the file with snappy, zstd or gzip"
    );
}

#[test]
fn codecs_that_are_built_in_are_read() {
    let mut codecs = vec![
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(Default::default()),
        Compression::ZSTD(Default::default()),
    ];
    if cfg!(feature = "all-codecs") {
        codecs.extend([Compression::BROTLI(Default::default()), Compression::LZ4, Compression::LZ4_RAW]);
    }
    for codec in codecs {
        let path = place("compressed.parquet");
        let column = |step: usize| {
            let labels = (0..1000).map(|row| format!("label {}", row % step));
            Arc::new(StringArray::from_iter_values(labels)) as ArrayRef
        };
        let batch = RecordBatch::try_from_iter([("a", column(2)), ("b", column(3)), ("c", column(5))]);
        let batch = batch.unwrap();
        let properties = WriterProperties::builder().set_compression(codec).build();
        let file = File::create(&path).unwrap();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let events = table::read(&path, query("a", "b", "c")).unwrap();
        assert_eq!((events.shape().to_string(), events.sum()), ("2 x 3 x 5".into(), 1000.0), "{codec}");
    }
}
