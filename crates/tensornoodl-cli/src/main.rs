//! `noodl`, TensorNOODL on the command line. `main` turns results into exit codes, no more.

mod cmd;
mod firm;
mod memory;
mod plot;
mod png;
mod progress;
mod ranks;
mod source;
mod svg;
mod table;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  noodl demo                              see it work: no arguments, three files to look at
  noodl recover --patterns 600 --rows 300 --cols 300 --alpha 0.01 --beta 0.01
                                          the recovery claim, on your own machine
  noodl recover --json | jq .error_a      the same for programs, a line for each tensor
  noodl learn mail.csv --feature 'month(time)' --row from --col to -o mail.safetensors --report mail.html
                                          from a table of events to patterns with names
  noodl check data.tns                    does the data fit the theory?
  noodl init data.tns --evidence          its patterns, and what speaks for their number
  noodl bench limit                       the time of a step beside that of one dense product
  noodl paper table --alpha 0.05 --j 100 --out results
                                          the paper's tables, run again, with all methods
  noodl completions bash > ~/.local/share/bash-completion/completions/noodl

Exit codes:
  0 done   1 failed   2 wrong usage or parameter   3 wrong data   4 not converged, with --strict   130 interrupted";

/// Online factorization of streams of sparse three-way tensors.
#[derive(Parser)]
#[command(name = "noodl", version, after_help = EXAMPLES)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(cmd::demo::Args),
    Recover(Box<cmd::recover::Args>),
    Init(cmd::init::Args),
    Check(cmd::check::Args),
    Stats(Box<cmd::stats::Args>),
    Learn(Box<cmd::learn::Args>),
    Show(cmd::show::Args),
    Report(cmd::report::Args),
    Encode(cmd::encode::Args),
    Compare(cmd::compare::Args),
    Export(cmd::export::Args),
    Bench(cmd::bench::Args),
    Paper(cmd::paper::Args),
    Completions(cmd::completions::Args),
}

/// An outcome that is an error only because `--strict` was given.
#[derive(Debug)]
struct NotConverged;

impl std::fmt::Display for NotConverged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "not converged within --max-steps")
    }
}

impl std::error::Error for NotConverged {}

/// Ctrl-C, or a request to end; what was learned is safe.
#[derive(Debug)]
struct Interrupted {
    step: usize,
    output: std::path::PathBuf,
}

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.step {
            0 => write!(f, "stopped before the end of the first step; nothing was written"),
            steps => {
                write!(f, "stopped after {steps} steps; {} has them, --resume goes on", self.output.display())
            }
        }
    }
}

impl std::error::Error for Interrupted {}

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) if ranks::is_silent() => return ExitCode::from(if error.use_stderr() { 2 } else { 0 }),
        Err(error) => return refuse(&error),
    };
    let (spread, threaded) = match &args.command {
        Command::Learn(_) => (true, false),
        Command::Recover(args) => (true, args.has_threads()),
        Command::Bench(args) => args.ranks(),
        _ => (false, false),
    };
    let ranks = match ranks::Ranks::begin(spread, threaded) {
        Ok(ranks) => ranks,
        Err(_) if ranks::is_silent() => return ExitCode::from(2),
        Err(error) => {
            complain(&format!("{error:#}"));
            return ExitCode::from(2);
        }
    };
    let done = match args.command {
        Command::Demo(args) => cmd::demo::run(&args),
        Command::Recover(args) => cmd::recover::run(&args, &ranks.team),
        Command::Init(args) => cmd::init::run(&args),
        Command::Check(args) => cmd::check::run(&args),
        Command::Stats(args) => cmd::stats::run(&args),
        Command::Learn(args) => cmd::learn::run(&args, &ranks.team),
        Command::Show(args) => cmd::show::run(&args),
        Command::Report(args) => cmd::report::run(&args),
        Command::Encode(args) => cmd::encode::run(&args),
        Command::Compare(args) => cmd::compare::run(&args),
        Command::Export(args) => cmd::export::run(&args),
        Command::Bench(args) => cmd::bench::run(&args, &ranks.team),
        Command::Paper(args) => cmd::paper::run(&args),
        Command::Completions(args) => cmd::completions::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has seen enough (`noodl ... | head`): not a failure.
        Err(error) if io_error(&error) == Some(io::ErrorKind::BrokenPipe) && ranks.team.size() == 1 => {
            ExitCode::SUCCESS
        }
        Err(error) => {
            let what = if io_error(&error).is_some() { "cannot write the output: " } else { "" };
            let elsewhere = matches!(core(&error), Some(tensornoodl::Error::OtherRank { .. }));
            ranks.fail(exit_code(&error), elsewhere, |rank| complain(&format!("{rank}{what}{error:#}")))
        }
    }
}

fn exit_code(error: &anyhow::Error) -> u8 {
    match error.downcast_ref() {
        Some(tensornoodl_data::Error::Write { .. }) => return 1,
        Some(tensornoodl_data::Error::Axis { .. } | tensornoodl_data::Error::Action(_)) => return 2,
        _ => {}
    }
    if let Some(tensornoodl::Error::Parameter { .. }) = core(error) {
        2
    } else if error.is::<tensornoodl_data::Error>() {
        3
    } else if error.is::<NotConverged>() {
        4
    } else if error.is::<Interrupted>() {
        130
    } else {
        1
    }
}

/// What the core says, if it does.
fn core(error: &anyhow::Error) -> Option<&tensornoodl::Error> {
    match error.downcast_ref() {
        Some(tensornoodl_data::Error::Tensor(core)) => Some(core),
        _ => error.downcast_ref(),
    }
}

/// The kind of a failure to write; failures to read are of `tensornoodl_data`.
fn io_error(error: &anyhow::Error) -> Option<io::ErrorKind> {
    let json = || error.downcast_ref().and_then(serde_json::Error::io_error_kind);
    error.downcast_ref().map(io::Error::kind).or_else(json)
}

/// Help and version go where clap sends them; anything else is one line.
fn refuse(error: &clap::Error) -> ExitCode {
    let help = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if help || !error.use_stderr() {
        return match error.print() {
            Ok(()) => ExitCode::from(if help { 2 } else { 0 }),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    let text = error.to_string();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or("wrong usage").trim_start_matches("error: ").to_owned();
    let more: Vec<&str> =
        lines.take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more")).collect();
    let more = if more.is_empty() { String::new() } else { format!(" ({})", more.join(", ")) };
    let command = std::env::args_os().nth(1).filter(|name| Args::command().find_subcommand(name).is_some());
    let command = command.map_or("noodl".into(), |name| format!("noodl {}", name.display()));
    complain(&format!("{first}{more}; see {command} --help"));
    ExitCode::from(2)
}

/// One line on stderr, whatever the names in it have in them. If even that cannot be written, nobody is there to be told.
fn complain(line: &str) {
    let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let _ = writeln!(anstream::stderr(), "noodl: {line}");
}
