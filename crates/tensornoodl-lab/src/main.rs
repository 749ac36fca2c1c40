//! `noodl-lab`, the laboratory of TensorNOODL: recovery of planted patterns, benchmarks, and the paper's experiments.

mod charts;
mod cmd;
mod png;

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use tensornoodl::Team;
use tensornoodl_cli::program::{EXIT_CODES, Program};
use tensornoodl_cli::run;

const EXAMPLES: &str = "\
Examples:
  noodl-lab recover --patterns 600 --rows 300 --cols 300 --alpha 0.01 --beta 0.01
                                          the recovery claim, on your own machine
  noodl-lab recover --json | jq .error_a  the error after each tensor, from JSON lines
  noodl-lab check --synthetic noise=1     the assumptions of the theory on a planted tensor
  noodl-lab bench limit                   the time of a step beside that of one dense product
  noodl-lab paper table --alpha 0.05 --rows 100 --output results
                                          the paper's tables, run again, with all methods

Tables and arrays are for the program noodl.";

/// The laboratory of TensorNOODL: recovery of planted patterns, benchmarks, and the paper's experiments.
#[derive(Parser)]
#[command(name = "noodl-lab", version, after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Recover(Box<cmd::recover::Args>),
    Check(cmd::check::Args),
    Pairs(cmd::pairs::Args),
    Bench(cmd::bench::Args),
    Paper(cmd::paper::Args),
}

impl Program for Args {
    const NAME: &'static str = "noodl-lab";
    const RANK_COMMANDS: &'static str = "of noodl-lab, only recover and bench ranks can run as several ranks";

    fn runs_as_ranks(&self) -> bool {
        match &self.command {
            Command::Recover(_) => true,
            Command::Bench(args) => args.runs_as_ranks(),
            _ => false,
        }
    }

    fn threads(&self) -> Option<usize> {
        match &self.command {
            Command::Recover(args) => args.threads,
            Command::Check(args) => args.options.threads(),
            Command::Pairs(args) => args.threads,
            Command::Bench(args) => args.threads(),
            Command::Paper(args) => args.threads(),
        }
    }

    fn run(self, team: &Arc<dyn Team>) -> anyhow::Result<()> {
        match self.command {
            Command::Recover(args) => cmd::recover::run(&args, team),
            Command::Check(args) => cmd::check::run(&args),
            Command::Pairs(args) => cmd::pairs::run(&args),
            Command::Bench(args) => cmd::bench::run(&args, team),
            Command::Paper(args) => cmd::paper::run(&args),
        }
    }
}

fn main() -> ExitCode {
    run::main::<Args>()
}
