//! `noodl export`: a model as CSV, Parquet or NPZ.

use std::io::{self, Cursor, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::anyhow;
use ndarray::{Array1, Array2};
use ndarray_npy::NpzWriter;
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use tensornoodl::{Error, Factors, Groups, Sparse};
use tensornoodl_cli::model;
use tensornoodl_cli::output::cell;
use tensornoodl_data::{Card, Model, files};

const EXAMPLES: &str = "\
Examples:
  noodl export mail.safetensors -o mail.csv      a line for each number, with its labels
  noodl export mail.safetensors -o mail.parquet  the lines of the CSV file, with typed columns
  noodl export mail.safetensors -o mail.npz      for NumPy: patterns (m x n), rows_*, cols_*, card (JSON as bytes)

Lines have the columns of (pattern, row or col), step, pattern, block, label and value. Block 1 holds the factors of every \
step. Blocks 2 and 3 hold the next singular pairs of the last step: further groups that share a pattern, unless their values are \
small. In NPZ, blocks 2 and 3 are block_rows_* and block_cols_*, and all numbers count from 0.

A model of counts has groups instead of blocks 2 and 3. Lines of group row and of group col say how many events a row or col has in \
a group; block is the number of the group. Lines of group share have the share of each group in the events of a pattern. In NPZ these \
are group_rows_*, group_cols_* and group_share (patterns x groups).

Spreadsheets run a cell that begins with = + - or @ as a formula. In CSV, a label that begins so and is not a number therefore gets an \
apostrophe before it; --raw writes it as it is.";

/// Write the numbers of a model for other programs; the extension of the file says in which format.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct Args {
    /// A model file.
    model: PathBuf,
    /// The file to write: .csv, .parquet or .npz.
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Write labels in CSV as they are, also those that a spreadsheet would run as formulas.
    #[arg(long)]
    raw: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    files::apart(&[&args.model, Path::new(files::STDOUT)], &[&args.output])?;
    files::check(&args.output)?;
    let model = model::load(&args.model)?;
    let bytes = match args.output.extension().and_then(|end| end.to_str()) {
        Some("csv") => csv(&model, args.raw)?,
        Some("parquet") => parquet(&model)?,
        Some("npz") => npz(&model)?,
        other => {
            let (name, value) =
                ("output", other.map_or("a name without extension".into(), |end| format!(".{end}")));
            let rule = "a .csv, .parquet or .npz file".into();
            return Err(Error::Parameter { name, value, rule }.into());
        }
    };
    files::write(&args.output, bytes)?;
    writeln!(io::stdout().lock(), "written to {}", args.output.display())?;
    Ok(())
}

/// Step or block, pattern, index and value.
type Number = (usize, usize, u32, f64);

/// Returns the numbers of all factors in a list.
fn numbers<'m>(
    list: &'m [Factors],
    of: impl Fn(&'m Factors) -> &'m Sparse + 'm,
) -> impl Iterator<Item = Number> + 'm {
    list.iter().enumerate().flat_map(move |(at, factors)| {
        of(factors).columns().enumerate().flat_map(move |(pattern, column)| {
            column.iter().map(move |&(index, value)| (at, pattern, index, value))
        })
    })
}

/// A number with its labels. Numbers of patterns have no step and no block, and numbers of groups have no step.
struct Line<'m> {
    of: &'static str,
    step: Option<&'m str>,
    /// None for the members of groups, which may share several patterns.
    pattern: Option<usize>,
    /// The number of the block or group.
    block: Option<usize>,
    label: &'m str,
    value: f64,
}

/// Returns all numbers of a model; patterns and blocks count from 1.
fn lines(model: &Model) -> Vec<Line<'_>> {
    let (card, dictionary) = (&model.card, model.learner.dictionary());
    let mut lines = Vec::new();
    for pattern in 0..dictionary.patterns() {
        for (value, label) in dictionary.pattern(pattern).iter().zip(&card.features) {
            let (of, pattern) = ("pattern", Some(pattern + 1));
            lines.push(Line { of, step: None, pattern, block: None, label, value: *value });
        }
    }
    type Side = fn(&Factors) -> &Sparse;
    let sides: [(&str, Side, &[String]); 2] =
        [("row", |factors| &factors.rows, &card.rows), ("col", |factors| &factors.cols, &card.cols)];
    for (of, side, labels) in sides {
        let leading = numbers(&model.factors, side).map(|number| (number.0, 1, number));
        // Before the first step there are no factors.
        let last = model.factors.len().saturating_sub(1);
        let further = numbers(&model.blocks, side).map(|number| (last, number.0 + 2, number));
        for (step, block, (_, pattern, index, value)) in leading.chain(further) {
            let (step, block) = (Some(card.steps[step].as_str()), Some(block));
            let label = &labels[index as usize];
            lines.push(Line { of, step, pattern: Some(pattern + 1), block, label, value });
        }
    }
    if let Some(groups) = model.all_groups() {
        lines.extend(group_lines(groups, card));
    }
    lines
}

/// Returns the numbers of the groups of counts.
fn group_lines<'m>(groups: &'m Groups, card: &'m Card) -> impl Iterator<Item = Line<'m>> {
    let members = |of: &'static str, events: &'m Sparse, labels: &'m [String]| {
        entries(events).map(move |(group, index, value)| {
            let (block, label) = (Some(group + 1), labels[index as usize].as_str());
            Line { of, step: None, pattern: None, block, label, value }
        })
    };
    let shares = entries(&groups.shares).map(|(pattern, group, value)| {
        let (pattern, block) = (Some(pattern + 1), Some(group as usize + 1));
        Line { of: "group share", step: None, pattern, block, label: "", value }
    });
    let rows = members("group row", &groups.rows, &card.rows);
    rows.chain(members("group col", &groups.cols, &card.cols)).chain(shares)
}

/// Returns the entries of a matrix: column, row and value.
fn entries(matrix: &Sparse) -> impl Iterator<Item = (usize, u32, f64)> {
    let columns = matrix.columns().enumerate();
    columns.flat_map(|(at, column)| column.iter().map(move |&(index, value)| (at, index, value)))
}

fn csv(model: &Model, raw: bool) -> anyhow::Result<Vec<u8>> {
    let mut text = csv::Writer::from_writer(Vec::new());
    text.write_record(["of", "step", "pattern", "block", "label", "value"])?;
    for Line { of, step, pattern, block, label, value } in lines(model) {
        let number = |number: Option<usize>| number.map_or(String::new(), |number| number.to_string());
        let (pattern, block, value) = (number(pattern), number(block), value.to_string());
        let text_cell = |text: &'_ str| if raw { text.to_owned() } else { cell(text).into_owned() };
        let (step, label) = (text_cell(step.unwrap_or("")), text_cell(label));
        text.write_record([of, &step, &pattern, &block, &label, &value])?;
    }
    text.into_inner().map_err(|error| anyhow!("{error}"))
}

const SCHEMA: &str = "message model {
    REQUIRED BYTE_ARRAY of (STRING);
    OPTIONAL BYTE_ARRAY step (STRING);
    OPTIONAL INT64 pattern;
    OPTIONAL INT64 block;
    REQUIRED BYTE_ARRAY label (STRING);
    REQUIRED DOUBLE value;
}";

fn parquet(model: &Model) -> anyhow::Result<Vec<u8>> {
    let lines = lines(model);
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut bytes = Vec::new();
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let mut file = SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties))?;
    let mut group = file.next_row_group()?;
    column::<ByteArrayType>(&mut group, lines.iter().map(|line| Some(line.of.into())))?;
    column::<ByteArrayType>(&mut group, lines.iter().map(|line| line.step.map(ByteArray::from)))?;
    column::<Int64Type>(&mut group, lines.iter().map(|line| line.pattern.map(|pattern| pattern as i64)))?;
    column::<Int64Type>(&mut group, lines.iter().map(|line| line.block.map(|block| block as i64)))?;
    column::<ByteArrayType>(&mut group, lines.iter().map(|line| Some(line.label.into())))?;
    column::<DoubleType>(&mut group, lines.iter().map(|line| Some(line.value)))?;
    group.close()?;
    file.close()?;
    Ok(bytes)
}

/// Writes the next column of the schema; None becomes null.
fn column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, &mut Vec<u8>>,
    values: impl Iterator<Item = Option<T::T>>,
) -> anyhow::Result<()> {
    let (mut there, mut known) = (Vec::new(), Vec::new());
    for value in values {
        known.push(i16::from(value.is_some()));
        there.extend(value);
    }
    let mut column = group.next_column()?.ok_or_else(|| anyhow!("the schema has fewer columns"))?;
    column.typed::<T>().write_batch(&there, Some(&known), None)?;
    Ok(column.close()?)
}

fn npz(model: &Model) -> anyhow::Result<Vec<u8>> {
    let dictionary = model.learner.dictionary();
    let mut bytes = Cursor::new(Vec::new());
    let mut file = NpzWriter::new_compressed(&mut bytes);
    let shape = (dictionary.patterns(), dictionary.features());
    file.add_array("patterns", &Array2::from_shape_vec(shape, dictionary.values().to_vec())?)?;
    let further = |(block, pattern, index, value): Number| (block + 1, pattern, index, value);
    for (name, at, list) in [
        ("rows", "step", numbers(&model.factors, |factors| &factors.rows).collect::<Vec<_>>()),
        ("cols", "step", numbers(&model.factors, |factors| &factors.cols).collect()),
        // The leading block is 0.
        ("block_rows", "block", numbers(&model.blocks, |factors| &factors.rows).map(further).collect()),
        ("block_cols", "block", numbers(&model.blocks, |factors| &factors.cols).map(further).collect()),
    ] {
        let whole = |of: &dyn Fn(&Number) -> usize| -> Array1<i64> {
            list.iter().map(|number| of(number) as i64).collect()
        };
        file.add_array(format!("{name}_{at}"), &whole(&|number| number.0))?;
        file.add_array(format!("{name}_pattern"), &whole(&|number| number.1))?;
        file.add_array(format!("{name}_index"), &whole(&|number| number.2 as usize))?;
        file.add_array(
            format!("{name}_value"),
            &list.iter().map(|number| number.3).collect::<Array1<f64>>(),
        )?;
    }
    if let Some(groups) = model.all_groups() {
        for (name, events) in [("group_rows", &groups.rows), ("group_cols", &groups.cols)] {
            let whole = |of: fn((usize, u32, f64)) -> i64| entries(events).map(of).collect::<Array1<i64>>();
            file.add_array(format!("{name}_group"), &whole(|entry| entry.0 as i64))?;
            file.add_array(format!("{name}_index"), &whole(|entry| i64::from(entry.1)))?;
            file.add_array(
                format!("{name}_value"),
                &entries(events).map(|entry| entry.2).collect::<Array1<f64>>(),
            )?;
        }
        let mut shares = Array2::zeros((groups.shares.cols(), groups.shares.rows()));
        entries(&groups.shares).for_each(|(pattern, group, share)| shares[[pattern, group as usize]] = share);
        file.add_array("group_share", &shares)?;
    }
    file.add_array("card", &Array1::from(serde_json::to_vec(&model.card)?))?;
    file.finish()?;
    Ok(bytes.into_inner())
}
