//! Parquet files, as Arrow's record batches.

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
use parquet::basic::{ConvertedType, LogicalType, Type as Physical};
use parquet::column::page::Page;
use parquet::errors::ParquetError;
use parquet::file::metadata::{FileMetaData, ParquetMetaData};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::{SchemaDescriptor, Type};

use crate::arrow::Rows;
use crate::error::Error;
use crate::events::Counter;
use crate::table::places;

/// Rows of a batch.
const BATCH: usize = 1 << 13;

/// Bytes that values of a fixed length may have. A reader takes memory for a batch of them, whether they are there or not.
const LONGEST: i32 = 1 << 12;

/// Reads all rows; messages count them as lines.
pub(crate) fn read(input: File, file: &str, counter: &mut Counter) -> Result<(), Error> {
    let broken = |what: String| Error::Format { file: file.into(), format: "Parquet", what };
    let failed = |error: ParquetError| broken(error.to_string().replace('\n', " "));
    let contradiction = || broken("it contradicts itself".into());
    let again = input.try_clone().map_err(|error| Error::Read { file: file.into(), error })?;
    let reader = guarded(|| SerializedFileReader::new(again)).ok_or_else(contradiction)?.map_err(failed)?;
    let schema = reader.metadata().file_metadata().schema();
    let known: Vec<String> = schema.get_fields().iter().map(|field| field.name().to_owned()).collect();
    let columns = counter.columns().to_vec();
    let places = places(&columns, &known, file)?;
    guarded(|| check_dictionaries(&reader, &columns)).ok_or_else(contradiction)?.map_err(failed)?;
    let batches = guarded(|| batches(input, reader.metadata(), &places));
    let mut batches = batches.ok_or_else(contradiction)?.map_err(failed)?;
    let mut rows = Rows::new(&batches.schema(), file, counter)?;
    while let Some(batch) = guarded(|| batches.next()).ok_or_else(contradiction)? {
        let batch = batch.map_err(|error| broken(format!("rows from {}: {error}", rows.next)))?;
        rows.push(&batch)?;
    }
    Ok(())
}

/// The columns at these places. Their types are those of the file, not those of a schema of Arrow's that it may have beside its own.
fn batches(
    input: File,
    metadata: &ParquetMetaData,
    places: &[usize],
) -> Result<ParquetRecordBatchReader, ParquetError> {
    let file = metadata.file_metadata();
    for field in places.iter().map(|place| &file.schema().get_fields()[*place]) {
        if let Type::PrimitiveType { physical_type: Physical::FIXED_LEN_BYTE_ARRAY, type_length, .. } =
            **field
            && type_length > LONGEST
        {
            return Err(ParquetError::General(format!(
                "column {:?} has values of {type_length} bytes, at most {LONGEST} are taken",
                field.name()
            )));
        }
    }
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
        // Not copied for each row.
        DataType::Binary => field.as_ref().clone().with_data_type(DataType::BinaryView),
        // Nanoseconds reach from 1677 to 2262 only.
        _ if own.is_primitive() && own.get_physical_type() == Physical::INT96 => {
            field.as_ref().clone().with_data_type(DataType::Timestamp(TimeUnit::Millisecond, None))
        }
        _ => field.as_ref().clone(),
    };
    let schema = Schema::new(fields.map(field).collect::<Vec<_>>());
    let metadata = ArrowReaderMetadata::try_new(metadata, options.with_schema(Arc::new(schema)))?;
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(input, metadata);
    let wanted = ProjectionMask::roots(builder.parquet_schema(), places.iter().copied());
    builder.with_projection(wanted).with_batch_size(BATCH).build()
}

/// The schema with bytes where it has text: [`Rows`] looks whether they are text, and can tell which row's are not.
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
