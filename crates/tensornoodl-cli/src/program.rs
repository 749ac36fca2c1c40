//! How a program starts and ends: arguments, threads, ranks, one line for an error, and an exit code.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use clap::error::ErrorKind;
use tensornoodl::{Error, Team};
use tensornoodl_data::Error as DataError;

use crate::ranks::{self, Ranks};

/// The exit codes of both programs, for the end of their help texts.
pub const EXIT_CODES: &str = "\
Exit codes:
  0 done   1 failed   2 wrong usage or parameter   3 wrong data   4 not converged, with --strict   130 interrupted";

/// A program with subcommands.
pub trait Program: Parser {
    /// The name of the program, as users type it.
    const NAME: &'static str;

    /// Names the commands that can run as the ranks of an MPI job.
    const RANK_COMMANDS: &'static str;

    /// Whether the command can run as the ranks of an MPI job.
    fn runs_as_ranks(&self) -> bool;

    /// The value of `--threads`. None stands for all cores.
    fn threads(&self) -> Option<usize>;

    /// Runs the command.
    ///
    /// # Errors
    /// Whatever the command reports; [`main`] prints the error and turns it into an exit code.
    fn run(self, team: &Arc<dyn Team>) -> anyhow::Result<()>;

    /// Says where a former command of this program went, in one sentence. None if the program never had such a command.
    fn moved(_command: &str) -> Option<String> {
        None
    }
}

/// An outcome that is an error only because `--strict` was given.
#[derive(Debug)]
pub struct NotConverged;

impl std::fmt::Display for NotConverged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "not converged within --max-steps")
    }
}

impl std::error::Error for NotConverged {}

/// The end of a run by Ctrl-C or SIGTERM. The model of all finished steps has been written.
#[derive(Debug)]
pub struct Interrupted {
    /// Number of steps that were learned.
    pub step: usize,
    /// The model file.
    pub output: PathBuf,
}

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.step {
            0 => write!(f, "stopped before the end of the first step; nothing was written"),
            steps => {
                let output = self.output.display();
                write!(f, "stopped after {steps} steps; {output} has them, --resume goes on")
            }
        }
    }
}

impl std::error::Error for Interrupted {}

/// Returns the error for a parameter whose value breaks a rule: "`name` is `value`, it must be `rule`".
pub fn wrong(name: &'static str, value: impl ToString, rule: &str) -> Error {
    Error::Parameter { name, value: value.to_string(), rule: rule.into() }
}

/// Runs a program: parses the arguments, starts threads and ranks, runs the command, and reports an error in one line.
pub fn main<P: Program>() -> ExitCode {
    let first = std::env::args().nth(1).unwrap_or_default();
    if let Some(sentence) = P::moved(&first) {
        return refuse::<P>(&sentence);
    }
    let program = match P::try_parse() {
        Ok(program) => program,
        Err(error) => return explain::<P>(&error),
    };
    if program.threads() == Some(0) {
        return refuse::<P>(&wrong("threads", 0, "at least 1").to_string());
    }
    let ranks = match Ranks::begin::<P>(&program) {
        Ok(ranks) => ranks,
        Err(error) => return refuse::<P>(&format!("{error:#}")),
    };
    match program.run(&ranks.team) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the pipe has ended (`noodl ... | head`), which is not a failure.
        Err(error) if io_error(&error) == Some(io::ErrorKind::BrokenPipe) && ranks.team.size() == 1 => {
            ExitCode::SUCCESS
        }
        Err(error) => {
            let what = if io_error(&error).is_some() { "cannot write the output: " } else { "" };
            let other_rank = matches!(core_error(&error), Some(Error::OtherRank { .. }));
            ranks.fail(exit_code(&error), other_rank, |rank| {
                complain(P::NAME, &format!("{rank}{what}{error:#}"));
            })
        }
    }
}

/// Reports wrong usage in one line; of several ranks, only the first one speaks.
fn refuse<P: Program>(sentence: &str) -> ExitCode {
    if !ranks::is_silent() {
        complain(P::NAME, sentence);
    }
    ExitCode::from(2)
}

fn exit_code(error: &anyhow::Error) -> u8 {
    match error.downcast_ref() {
        Some(DataError::Write { .. }) => return 1,
        Some(DataError::Axis { .. } | DataError::Action(_)) => return 2,
        _ => {}
    }
    if let Some(Error::Parameter { .. }) = core_error(error) {
        2
    } else if error.is::<DataError>() {
        3
    } else if error.is::<NotConverged>() {
        4
    } else if error.is::<Interrupted>() {
        130
    } else {
        1
    }
}

/// Returns the error of the core crate inside an error, if there is one.
fn core_error(error: &anyhow::Error) -> Option<&Error> {
    match error.downcast_ref() {
        Some(DataError::Tensor(core)) => Some(core),
        _ => error.downcast_ref(),
    }
}

/// Returns the kind of a failure to write; failures to read are errors of `tensornoodl_data`.
fn io_error(error: &anyhow::Error) -> Option<io::ErrorKind> {
    let json = || error.downcast_ref().and_then(serde_json::Error::io_error_kind);
    error.downcast_ref().map(io::Error::kind).or_else(json)
}

/// Prints help and version as clap does, and any other message of clap in one line.
fn explain<P: Program>(error: &clap::Error) -> ExitCode {
    let help = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if help || !error.use_stderr() {
        let code = if error.use_stderr() { 2 } else { 0 };
        if ranks::is_silent() {
            return ExitCode::from(code);
        }
        return match error.print() {
            Ok(()) => ExitCode::from(code),
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
    let command = std::env::args_os().nth(1).filter(|name| P::command().find_subcommand(name).is_some());
    let command = command.map_or(P::NAME.into(), |name| format!("{} {}", P::NAME, name.display()));
    refuse::<P>(&format!("{first}{more}; see {command} --help"))
}

/// Writes one line to stderr; control characters in names become blanks. A failure to write is ignored, as nobody could be told.
fn complain(program: &str, line: &str) {
    let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let _ = writeln!(anstream::stderr(), "{program}: {line}");
}
