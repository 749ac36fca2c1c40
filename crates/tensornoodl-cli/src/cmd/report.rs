//! `noodl report`: an HTML page about a model.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tensornoodl_cli::model;
use tensornoodl_data::files;
use tensornoodl_report::PageLabels;

const EXAMPLES: &str = "\
Examples:
  noodl report mail.safetensors -o mail.html";

/// Write one HTML page about a model; the page needs no network.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct Args {
    /// A model file.
    model: PathBuf,
    /// The HTML file to write.
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Leave out of the page all labels of rows and cols that it does not show, and with them its search for similar rows.
    #[arg(long)]
    shown_only: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    files::apart(&[&args.model, Path::new(files::STDOUT)], &[&args.output])?;
    files::check(&args.output)?;
    let model = model::load(&args.model)?;
    let labels = if args.shown_only { PageLabels::Shown } else { PageLabels::All };
    files::write(&args.output, tensornoodl_report::html_with(&model, labels)?)?;
    writeln!(io::stdout().lock(), "written to {}", args.output.display())?;
    Ok(())
}
