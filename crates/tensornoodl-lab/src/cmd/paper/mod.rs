//! `noodl-lab paper`: runs the paper's experiments again.

use std::io::{self, Write};

use clap::Subcommand;

mod batch;
mod enron;
mod figure;
mod grid;
mod table;

use crate::cmd::paper::figure::Figure;
use crate::cmd::paper::grid::{ALPHAS, PATTERNS, RunArgs, SEEDS, SIZES};

/// Run the paper's experiments again, and print its numbers beside ours.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Subcommand)]
enum Experiment {
    Table(table::Args),
    Figure(figure::Args),
    Batch(batch::Args),
    Enron(enron::Args),
    All(AllArgs),
}

const ALL_EXAMPLES: &str = "\
Examples:
  noodl-lab paper all --quick --output results      small cells of every experiment, in about a minute
  noodl-lab paper all --jobs 2 --output results     everything, in hours; a run that was stopped continues";

/// Run all experiments: tables, both figures, methods for one tensor, and Enron if NOODL_DATA names the folder of its
/// tables.
#[derive(clap::Args)]
#[command(after_help = ALL_EXAMPLES, args_override_self = true)]
struct AllArgs {
    /// Run only small cells with one seed.
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    run: RunArgs,
}

impl Args {
    pub(crate) fn threads(&self) -> Option<usize> {
        match &self.experiment {
            Experiment::Table(args) => args.run.threads,
            Experiment::Figure(args) => args.run.threads,
            Experiment::Batch(args) => args.run.threads,
            Experiment::Enron(args) => args.threads,
            Experiment::All(args) => args.run.threads,
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.experiment {
        Experiment::Table(args) => table::run(args),
        Experiment::Figure(args) => figure::run(args),
        Experiment::Batch(args) => batch::run(args),
        Experiment::Enron(args) => enron::run(args),
        Experiment::All(args) => all(args),
    }
}

fn all(args: &AllArgs) -> anyhow::Result<()> {
    let AllArgs { quick, run } = args;
    let or = |few: &[usize], all: &[usize]| if *quick { few.to_vec() } else { all.to_vec() };
    let seeds = if *quick { vec![42] } else { SEEDS.to_vec() };
    let (rows, patterns) = (or(&[100], &SIZES), or(&[50, 150], &PATTERNS));
    let alpha = if *quick { vec![0.01, 0.05] } else { ALPHAS.to_vec() };
    table::run(&table::Args {
        alpha: alpha.clone(),
        rows: rows.clone(),
        patterns: patterns.clone(),
        methods: Vec::new(),
        kept: false,
        seeds: seeds.clone(),
        run: run.clone(),
    })?;
    figure::run(&figure::Args {
        which: Figure::Samples,
        alpha: alpha.clone(),
        rows,
        patterns,
        seeds: seeds.clone(),
        run: run.clone(),
    })?;
    figure::run(&figure::Args {
        which: Figure::Convergence,
        alpha,
        rows: or(&[100], &[500]),
        patterns: or(&[150], &[450]),
        seeds: if *quick { vec![42] } else { vec![26] },
        run: run.clone(),
    })?;
    let patterns = or(&[50], &batch::PATTERNS);
    batch::run(&batch::Args { alpha: vec![0.05], rows: vec![100], patterns, seeds, run: run.clone() })?;
    if std::env::var_os("NOODL_DATA").is_none() {
        let sentence = "skipped: Enron, as NOODL_DATA does not name the folder of its tables";
        writeln!(io::stdout().lock(), "{sentence}")?;
        return Ok(());
    }
    enron::run(&enron::Args { data: None, patterns: 5, seed: 0, threads: None, output: run.output.clone() })
}
