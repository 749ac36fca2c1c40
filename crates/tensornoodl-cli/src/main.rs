//! `noodl`, TensorNOODL on the command line, for people with data.

mod cmd;
mod sample_company;

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use tensornoodl::Team;
use tensornoodl_cli::program::{EXIT_CODES, Program};
use tensornoodl_cli::run;

const EXAMPLES: &str = "\
Examples:
  noodl demo                              an example that needs no data and writes three files
  noodl stats mail.csv --feature 'month(time)' --row from --col to
                                          the shape of a table of events
  noodl check mail.csv --feature 'month(time)' --row from --col to
                                          does the data fit the theory?
  noodl learn mail.csv --feature 'month(time)' --row from --col to -o mail.safetensors --report mail.html
                                          from a table of events to patterns with names
  noodl completions bash > ~/.local/share/bash-completion/completions/noodl

Planted patterns, benchmarks and the paper's experiments are commands of the program noodl-lab.";

/// Online factorization of streams of sparse three-way tensors.
#[derive(Parser)]
#[command(name = "noodl", version, after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(cmd::demo::Args),
    Stats(Box<cmd::stats::Args>),
    Check(Box<cmd::check::Args>),
    Learn(Box<cmd::learn::Args>),
    Show(cmd::show::Args),
    Report(cmd::report::Args),
    Encode(cmd::encode::Args),
    Compare(cmd::compare::Args),
    Export(cmd::export::Args),
    Completions(cmd::completions::Args),
}

impl Program for Args {
    const NAME: &'static str = "noodl";
    const RANK_COMMANDS: &'static str = "of noodl, only learn can run as several ranks";

    fn runs_as_ranks(&self) -> bool {
        matches!(self.command, Command::Learn(_))
    }

    fn threads(&self) -> Option<usize> {
        match &self.command {
            Command::Demo(args) => args.threads,
            Command::Stats(args) => args.threads,
            Command::Check(args) => args.threads(),
            Command::Learn(args) => args.threads,
            Command::Encode(args) => args.threads,
            _ => None,
        }
    }

    fn run(self, team: &Arc<dyn Team>) -> anyhow::Result<()> {
        match self.command {
            Command::Demo(args) => cmd::demo::run(&args),
            Command::Stats(args) => cmd::stats::run(&args),
            Command::Check(args) => cmd::check::run(&args),
            Command::Learn(args) => cmd::learn::run(&args, team),
            Command::Show(args) => cmd::show::run(&args),
            Command::Report(args) => cmd::report::run(&args),
            Command::Encode(args) => cmd::encode::run(&args),
            Command::Compare(args) => cmd::compare::run(&args),
            Command::Export(args) => cmd::export::run(&args),
            Command::Completions(args) => cmd::completions::run(&args),
        }
    }

    fn moved(command: &str) -> Option<String> {
        match command {
            "recover" | "bench" | "paper" => Some(format!(
                "'{command}' is now a command of noodl-lab: cargo run --release --bin noodl-lab -- {command}"
            )),
            "init" => Some("'init' is now part of check: use noodl check --evidence".into()),
            _ => None,
        }
    }
}

fn main() -> ExitCode {
    run::main::<Args>()
}
