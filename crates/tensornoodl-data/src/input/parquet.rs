//! Reads Parquet files, as Apache Arrow record batches.

use std::cell::Cell;
use std::fs::File;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Once};

use arrow_array::RecordBatchReader;
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::{Compression, ConvertedType, LogicalType, Type as Physical};
use parquet::column::page::Page;
use parquet::errors::ParquetError;
use parquet::file::metadata::{FileMetaData, ParquetMetaData};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::{SchemaDescriptor, Type};
use tensornoodl::Team;
use tensornoodl::parallel::rank_range;

use crate::error::Error;
use crate::input::arrow::BatchPusher;
use crate::input::row::{Push, positions};

/// Number of rows of a batch.
const BATCH: usize = 1 << 13;

/// The largest size in bytes of values of a fixed length. The reader allocates memory for a whole batch of them, even
/// if the file has none.
const MAX_FIXED_LENGTH: i32 = 1 << 12;

/// Pushes the rows that this rank reads. Messages count rows as lines.
///
/// # Errors
/// If the file is damaged, a codec is not built in, a column is missing or has a type that is not supported, or
/// `push` fails.
pub(crate) fn rows(
    input: File,
    file: &str,
    team: &dyn Team,
    columns: &[String],
    push: &mut Push<'_>,
) -> Result<(), Error> {
    let broken = |what: String| Error::Format { file: file.into(), format: "Parquet", what };
    let failed = |error: ParquetError| broken(error.to_string().replace('\n', " "));
    let contradiction = || broken("its parts contradict each other".into());
    let again = input.try_clone().map_err(|error| Error::Read { file: file.into(), error })?;
    let reader = guarded(|| SerializedFileReader::new(again)).ok_or_else(contradiction)?.map_err(failed)?;
    let schema = reader.metadata().file_metadata().schema();
    let known: Vec<String> = schema.get_fields().iter().map(|field| field.name().to_owned()).collect();
    let positions = positions(columns, &known, file)?;
    check_codecs(reader.metadata(), columns, file)?;
    let groups = reader.metadata().row_groups().iter().map(|group| group.num_rows().max(0) as u64);
    let selection = Selection::of(groups, team);
    guarded(|| check_dictionaries(&reader, &selection.groups, columns))
        .ok_or_else(contradiction)?
        .map_err(failed)?;
    let batches = guarded(|| batches(input, reader.metadata(), &positions, &selection));
    let mut batches = batches.ok_or_else(contradiction)?.map_err(failed)?;
    let mut pusher = BatchPusher::new(&batches.schema(), file, columns, push)?;
    pusher.next += selection.first;
    while let Some(batch) = guarded(|| batches.next()).ok_or_else(contradiction)? {
        let batch = batch.map_err(|error| broken(format!("rows from {}: {error}", pusher.next)))?;
        pusher.push(&batch)?;
    }
    Ok(())
}

/// The rows that a rank reads.
struct Selection {
    /// Number of rows before the rows that the rank reads.
    first: u64,
    /// The row groups that contain the rows that the rank reads.
    groups: Vec<usize>,
    /// How many rows of the first group to skip, and how many rows to read. None for all rows of the groups.
    cut: Option<(usize, usize)>,
}

impl Selection {
    /// Returns the rows of this rank, where `groups` yields the number of rows of each row group.
    fn of(groups: impl Iterator<Item = u64>, team: &dyn Team) -> Selection {
        let ends = groups.scan(0_u64, |sum, rows| {
            *sum = sum.saturating_add(rows);
            Some(*sum)
        });
        let starts: Vec<u64> = std::iter::once(0).chain(ends).collect();
        let own = rank_range(team, starts[starts.len() - 1]);
        let overlaps = |group: &usize| starts[*group] < own.end && starts[*group + 1] > own.start;
        let groups: Vec<usize> = (0..starts.len() - 1).filter(overlaps).collect();
        let skipped = groups.first().map_or(0, |group| own.start - starts[*group]) as usize;
        let cut = (team.size() > 1).then_some((skipped, (own.end - own.start) as usize));
        Selection { first: own.start, groups, cut }
    }
}

/// Checks that the codecs of the columns are built in.
///
/// # Errors
/// [`Error::Codec`] with the first codec that is not.
fn check_codecs(metadata: &ParquetMetaData, columns: &[String], file: &str) -> Result<(), Error> {
    for chunk in metadata.row_groups().iter().flat_map(|group| group.columns()) {
        let column = chunk.column_path().parts().first().filter(|name| columns.contains(name));
        if let (Some(column), Some((codec, optional))) = (column, missing_codec(chunk.compression())) {
            let (file, column, codec) = (file.into(), column.clone(), codec.into());
            return Err(Error::Codec { file, column, codec, optional });
        }
    }
    Ok(())
}

/// Returns the name of a codec that this build does not have, and whether the feature `all-codecs` adds it.
fn missing_codec(codec: Compression) -> Option<(&'static str, bool)> {
    let optional = |name| (!cfg!(feature = "all-codecs")).then_some((name, true));
    match codec {
        Compression::BROTLI(_) => optional("brotli"),
        Compression::LZ4 | Compression::LZ4_RAW => optional("lz4"),
        Compression::LZO => Some(("lzo", false)),
        Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::GZIP(_) | Compression::ZSTD(_) => None,
    }
}

/// Opens the selected rows of the columns at the given positions.
///
/// The types of the columns come from the Parquet schema. The Arrow schema that a file can also have is ignored.
fn batches(
    input: File,
    metadata: &ParquetMetaData,
    positions: &[usize],
    selection: &Selection,
) -> Result<ParquetRecordBatchReader, ParquetError> {
    let file = metadata.file_metadata();
    check_lengths(file.schema(), positions)?;
    let file = FileMetaData::new(
        file.version(),
        file.num_rows(),
        file.created_by().map(str::to_owned),
        None,
        Arc::new(SchemaDescriptor::new(Arc::new(without_text(file.schema())?))),
        file.column_orders().cloned(),
    );
    let metadata = Arc::new(ParquetMetaData::new(file, metadata.row_groups().to_vec()));
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let plain = ArrowReaderMetadata::try_new(metadata.clone(), options.clone())?;
    let fields = plain.schema().fields().iter().zip(metadata.file_metadata().schema().get_fields());
    let field = |(field, own): (&Arc<Field>, &Arc<Type>)| match field.data_type() {
        // Views are not copied for each row.
        DataType::Binary => field.as_ref().clone().with_data_type(DataType::BinaryView),
        // The default unit, nanoseconds, reaches only from 1677 to 2262.
        _ if own.is_primitive() && own.get_physical_type() == Physical::INT96 => {
            field.as_ref().clone().with_data_type(DataType::Timestamp(TimeUnit::Millisecond, None))
        }
        _ => field.as_ref().clone(),
    };
    let schema = Schema::new(fields.map(field).collect::<Vec<_>>());
    let metadata = ArrowReaderMetadata::try_new(metadata, options.with_schema(Arc::new(schema)))?;
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(input, metadata);
    let wanted = ProjectionMask::roots(builder.parquet_schema(), positions.iter().copied());
    let builder =
        builder.with_projection(wanted).with_batch_size(BATCH).with_row_groups(selection.groups.clone());
    match selection.cut {
        Some((skipped, rows)) => builder.with_offset(skipped).with_limit(rows).build(),
        None => builder.build(),
    }
}

/// Checks that values of a fixed length have at most [`MAX_FIXED_LENGTH`] bytes.
fn check_lengths(schema: &Type, positions: &[usize]) -> Result<(), ParquetError> {
    for field in positions.iter().map(|position| &schema.get_fields()[*position]) {
        if let Type::PrimitiveType { physical_type: Physical::FIXED_LEN_BYTE_ARRAY, type_length, .. } =
            **field
            && type_length > MAX_FIXED_LENGTH
        {
            return Err(ParquetError::General(format!(
                "column {:?} has values of {type_length} bytes, at most {MAX_FIXED_LENGTH} are taken",
                field.name()
            )));
        }
    }
    Ok(())
}

/// Returns the schema with bytes instead of text. [`BatchPusher`] checks that they are UTF-8, and names the row that
/// is not.
fn without_text(schema: &Type) -> Result<Type, ParquetError> {
    let field = |field: &Arc<Type>| {
        let info = field.get_basic_info();
        let decimal = info.converted_type() == ConvertedType::DECIMAL
            || matches!(info.logical_type_ref(), Some(LogicalType::Decimal(_)));
        if !field.is_primitive() || field.get_physical_type() != Physical::BYTE_ARRAY || decimal {
            return Ok(field.clone());
        }
        let bytes = Type::primitive_type_builder(field.name(), Physical::BYTE_ARRAY);
        Ok(Arc::new(bytes.with_repetition(info.repetition()).build()?))
    };
    let fields = schema.get_fields().iter().map(field).collect::<Result<_, ParquetError>>()?;
    Type::group_type_builder(schema.name()).with_fields(fields).build()
}

/// Checks the sizes of the dictionaries of some row groups.
///
/// A dictionary cannot have more values than bytes. The Parquet crate would allocate memory for as many values as the
/// file declares.
fn check_dictionaries(
    reader: &SerializedFileReader<File>,
    groups: &[usize],
    columns: &[String],
) -> Result<(), ParquetError> {
    for &group in groups {
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

/// Returns the result of `work`, or none if it panics. No message is printed about the panic.
///
/// The Parquet crate panics for some files whose parts contradict each other, and only reading a file shows whether
/// it is one of them. The values that `work` was changing when it panicked must not be used afterwards.
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
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(false);
    result.ok()
}
