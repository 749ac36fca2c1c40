//! `noodl encode`: the codes of another table for the patterns of a model, or what is surprising in it.

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use tensornoodl_cli::{memory, model};
use tensornoodl_data::{Events, Model, Query, Surprising, SurprisingFeature, files, table};

const EXAMPLES: &str = "\
Examples:
  noodl encode mail.safetensors new-mail.csv > codes.csv
  cat new-mail.csv | noodl encode mail.safetensors - -o codes.csv
  noodl encode mail.safetensors new-mail.csv --surprise > surprises.csv

The table is counted with the axes, filters and recipe of the model. The model does not change.";

/// Write the codes of a table: which patterns each row and col shows together, and how strongly.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct Args {
    /// A model file.
    model: PathBuf,
    /// A table with the columns that the model was learned from; - for CSV from standard input.
    table: PathBuf,
    /// Names for rows and cols from a second table: its file, its column of labels, and its column of names.
    #[arg(long, value_name = "FILE(LABEL,NAME)")]
    names: Option<String>,
    /// Write how surprising each place is instead: its events, how many are expected, the p-values of their number and of
    /// their features, and the features that are too many. The most surprising place comes first. It needs the counts
    /// model, and a table that the model has not learned from.
    #[arg(long)]
    surprise: bool,
    /// The file to write [default: standard output].
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Number of threads, at least 1 [default: all cores]. Results do not depend on it.
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let outputs: Vec<&Path> = args.output.iter().map(PathBuf::as_path).collect();
    files::apart(&[&args.model, &args.table], &outputs)?;
    outputs.iter().try_for_each(|path| files::check(path))?;
    let model = model::load(&args.model)?;
    // Files that a model names are not opened: the model may come from somebody else.
    let names = args.names.as_deref().map(str::parse).transpose()?;
    let query = Query { names, groups: None, ..model.card.query.clone() };
    let mut events = table::read(&args.table, query)?;
    let cells = events.cells();
    let lost = events.align(&model.card.features);
    if lost == cells {
        return Err(anyhow!("{} has none of the features of {}", args.table.display(), args.model.display()));
    }
    if lost > 0 {
        writeln!(
            io::stderr(),
            "noodl: {lost} of {cells} cells have features that the model does not know; they are left out"
        )?;
    }
    memory::check(2.0 * events.bytes())?;
    if args.surprise {
        check_places(args, &model, &events)?;
    }
    let text = if args.surprise { surprises(&model, &events)? } else { codes(&model, &events)? };
    match &args.output {
        Some(path) => files::write(path, &text)?,
        None => io::stdout().lock().write_all(&text)?,
    }
    Ok(())
}

/// Checks that the model knows rows and cols of the table.
fn check_places(args: &Args, model: &Model, events: &Events) -> anyhow::Result<()> {
    let knows = |known: &[String], labels: &[String]| {
        let known: HashSet<&String> = known.iter().collect();
        labels.iter().any(|label| known.contains(label))
    };
    let (rows, cols) = (&events.rows.names, &events.cols.names);
    if knows(&model.card.rows, rows) && knows(&model.card.cols, cols) {
        return Ok(());
    }
    Err(anyhow!(
        "{} knows no row or no col of {}, so nothing can be expected there; use the same --names as for learn",
        args.model.display(),
        args.table.display()
    ))
}

/// Returns the label of a step.
fn label(events: &Events, step: usize) -> &str {
    events.steps.as_ref().map_or("all", |steps| steps.names[step].as_str())
}

/// Returns the codes of all steps as CSV.
fn codes(model: &Model, events: &Events) -> anyhow::Result<Vec<u8>> {
    let mut text = csv::Writer::from_writer(Vec::new());
    text.write_record(["step", "row", "col", "pattern", "code"])?;
    for step in 0..events.steps() {
        let tensor = model.card.recipe.apply(events.tensor(step)?)?;
        let codes = model.learner.encode(&tensor)?;
        for (place, code) in codes.places().iter().zip(codes.matrix().columns()) {
            let (row, col) = (&events.rows.names[place.row as usize], &events.cols.names[place.col as usize]);
            for (pattern, value) in code {
                let fields = [label(events, step), row, col, &(pattern + 1).to_string(), &value.to_string()];
                text.write_record(fields)?;
            }
        }
    }
    text.into_inner().map_err(|error| anyhow!("{error}"))
}

/// Returns the surprises of all steps as CSV, the smallest p-value first.
fn surprises(model: &Model, events: &Events) -> anyhow::Result<Vec<u8>> {
    let mut all: Vec<(&str, Surprising)> = Vec::new();
    for step in 0..events.steps() {
        let tensor = model.card.recipe.apply(events.tensor(step)?)?;
        let own = model.surprises(&tensor, &events.rows.names, &events.cols.names)?;
        all.extend(own.into_iter().map(|it| (label(events, step), it)));
    }
    all.sort_by(|a, b| a.1.p().total_cmp(&b.1.p()));
    let mut text = csv::Writer::from_writer(Vec::new());
    text.write_record(["step", "row", "col", "events", "expected", "p_total", "p_shape", "features"])?;
    for (step, it) in &all {
        let feature = |it: &SurprisingFeature| format!("{} {} ({:.3})", it.feature, it.events, it.expected);
        let features: Vec<String> = it.features.iter().map(feature).collect();
        let numbers = [it.events.to_string(), format!("{:.3}", it.expected)];
        let p_values = [it.p_total, it.p_shape].map(|p| format!("{p:.3e}"));
        let fields = [*step, &it.row, &it.col, &numbers[0], &numbers[1], &p_values[0], &p_values[1]];
        text.write_record(fields.into_iter().chain([features.join("; ").as_str()]))?;
    }
    text.into_inner().map_err(|error| anyhow!("{error}"))
}
