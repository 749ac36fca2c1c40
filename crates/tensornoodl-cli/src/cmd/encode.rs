//! `noodl encode`: codes of another table under the patterns of a model.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::anyhow;
use tensornoodl_data::{Model, files, table};

use crate::memory;

const EXAMPLES: &str = "\
Examples:
  noodl encode mail.safetensors new-mail.csv > codes.csv
  cat new-mail.csv | noodl encode mail.safetensors - -o codes.csv

The table is taken apart as the one that the model was learned from. The model stays as it is.";

/// Write the codes of a table: which patterns each row and col shows together, and how strongly.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct Args {
    /// A model file.
    model: PathBuf,
    /// A table with the columns that the model was learned from; - for standard input.
    table: PathBuf,
    /// The file to write [default: standard output].
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    args.output.iter().try_for_each(|path| files::check(path))?;
    let model = Model::load(&args.model)?;
    let mut events = table::read(&args.table, model.card.query.clone())?;
    let cells = events.cells();
    if events.align(&model.card.features) == cells {
        return Err(anyhow!("{} has none of the features of the model", args.table.display()));
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
