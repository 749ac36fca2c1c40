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
use tensornoodl::Team;
use tensornoodl::parallel::rank_range;

use crate::error::Error;
use crate::input::arrow::Rows;
use crate::input::row::{Push, places};

/// Rows of a batch.
const BATCH: usize = 1 << 13;

/// Bytes that values of a fixed length may have. A reader takes memory for a batch of them, whether they are there or not.
const LONGEST: i32 = 1 << 12;

/// Reads all rows, or the share of a rank in them; messages count them as lines.
pub(crate) fn rows(
    input: File,
    file: &str,
    team: &dyn Team,
    columns: &[String],
    push: &mut Push<'_>,
) -> Result<(), Error> {
    let broken = |what: String| Error::Format { file: file.into(), format: "Parquet", what };
    let failed = |error: ParquetError| broken(error.to_string().replace('\n', " "));
    let contradiction = || broken("it contradicts itself".into());
    let again = input.try_clone().map_err(|error| Error::Read { file: file.into(), error })?;
    let reader = guarded(|| SerializedFileReader::new(again)).ok_or_else(contradiction)?.map_err(failed)?;
    let schema = reader.metadata().file_metadata().schema();
    let known: Vec<String> = schema.get_fields().iter().map(|field| field.name().to_owned()).collect();
    let places = places(columns, &known, file)?;
    let groups = reader.metadata().row_groups().iter().map(|group| group.num_rows().max(0) as u64);
    let part = Part::of(groups, team);
    guarded(|| check_dictionaries(&reader, &part.groups, columns))
        .ok_or_else(contradiction)?
        .map_err(failed)?;
    let batches = guarded(|| batches(input, reader.metadata(), &places, &part));
    let mut batches = batches.ok_or_else(contradiction)?.map_err(failed)?;
    let mut rows = Rows::new(&batches.schema(), file, columns, push)?;
    rows.next += part.first;
    while let Some(batch) = guarded(|| batches.next()).ok_or_else(contradiction)? {
        let batch = batch.map_err(|error| broken(format!("rows from {}: {error}", rows.next)))?;
        rows.push(&batch)?;
    }
    Ok(())
}

/// Rows that are read.
struct Part {
    /// How many rows stand before them.
    first: u64,
    /// The groups of rows that they are in; unless they are all, how many rows of the first one stand before them, and how many
    /// they are.
    groups: Vec<usize>,
    cut: Option<(usize, usize)>,
}

impl Part {
    /// The share of a rank, where groups have so many rows.
    fn of(groups: impl Iterator<Item = u64>, team: &dyn Team) -> Part {
        let starts: Vec<u64> = std::iter::once(0)
            .chain(groups.scan(0_u64, |sum, rows| {
                *sum = sum.saturating_add(rows);
                Some(*sum)
            }))
            .collect();
        let own = rank_range(team, starts[starts.len() - 1]);
        let has = |group: &usize| starts[*group] < own.end && starts[*group + 1] > own.start;
        let groups: Vec<usize> = (0..starts.len() - 1).filter(has).collect();
        let skipped = groups.first().map_or(0, |group| own.start - starts[*group]) as usize;
        let cut = (team.size() > 1).then_some((skipped, (own.end - own.start) as usize));
        Part { first: own.start, groups, cut }
    }
}

/// The columns at these places. Their types are those of the file, not those of a schema of Arrow's that it may have beside its own.
fn batches(
    input: File,
    metadata: &ParquetMetaData,
    places: &[usize],
    part: &Part,
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
    let builder = builder.with_projection(wanted).with_batch_size(BATCH).with_row_groups(part.groups.clone());
    match part.cut {
        Some((skipped, rows)) => builder.with_offset(skipped).with_limit(rows).build(),
        None => builder.build(),
    }
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

/// Looks at all pages of some groups of rows once before. A dictionary with more values than bytes has none; whoever believes it takes all memory that there is.
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
