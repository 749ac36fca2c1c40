//! `noodl encode`: the codes of another table for the patterns of a model.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use tensornoodl_cli::{memory, model};
use tensornoodl_data::{Query, files, table};

const EXAMPLES: &str = "\
Examples:
  noodl encode mail.safetensors new-mail.csv > codes.csv
  cat new-mail.csv | noodl encode mail.safetensors - -o codes.csv

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
    let mut text = csv::Writer::from_writer(Vec::new());
    text.write_record(["step", "row", "col", "pattern", "code"])?;
    for step in 0..events.steps() {
        let label = events.steps.as_ref().map_or("all", |steps| steps.names[step].as_str());
        let tensor = model.card.recipe.apply(events.tensor(step)?)?;
        let codes = model.learner.encode(&tensor)?;
        for (place, code) in codes.places().iter().zip(codes.matrix().columns()) {
            let (row, col) = (&events.rows.names[place.row as usize], &events.cols.names[place.col as usize]);
            for (pattern, value) in code {
                text.write_record([label, row, col, &(pattern + 1).to_string(), &value.to_string()])?;
            }
        }
    }
    let text = text.into_inner().map_err(|error| anyhow!("{error}"))?;
    match &args.output {
        Some(path) => files::write(path, &text)?,
        None => io::stdout().lock().write_all(&text)?,
    }
    Ok(())
}
