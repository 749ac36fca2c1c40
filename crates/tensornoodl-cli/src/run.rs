//! How a program starts and ends: arguments, threads, ranks, one line for an error, and an exit code.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::ErrorKind;
use tensornoodl::Error;
use tensornoodl_data::Error as DataError;

use crate::output;
use crate::program::{FewerPatterns, Interrupted, NotConverged, NothingExplained, Program, wrong};
use crate::ranks::{self, Ranks};

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
    match program.run(&ranks.team).and_then(|()| Ok(output::finish()?)) {
        Ok(()) => ExitCode::SUCCESS,
        // The output was the only result, and its reader has ended (`noodl show ... | head`), which is not a failure.
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
        Some(DataError::Write { .. } | DataError::Memory { .. }) => return 1,
        Some(DataError::Axis { .. } | DataError::Action(_)) => return 2,
        _ => {}
    }
    if let Some(Error::Parameter { .. }) = core_error(error) {
        2
    } else if error.is::<DataError>() {
        3
    } else if error.is::<NotConverged>() {
        4
    } else if error.is::<FewerPatterns>() {
        5
    } else if error.is::<NothingExplained>() {
        6
    } else {
        error.downcast_ref().map_or(1, |interrupted: &Interrupted| interrupted.code)
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

/// Writes one line to stderr; control characters in names become blanks. A failure to write is ignored, because it
/// could not be reported either.
fn complain(program: &str, line: &str) {
    let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let _ = writeln!(anstream::stderr(), "{program}: {line}");
}
