//! What a program is: its name, its commands, and the outcomes that have an exit code of their own.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Parser;
use tensornoodl::{Error, Team};

/// The exit codes of both programs, for the end of their help texts.
pub const EXIT_CODES: &str = "\
Exit codes:
  0 done   1 failed   2 wrong usage or parameter   3 wrong data   4 not converged, with --strict
  5 done, with fewer patterns than --patterns asked for
  6 no pattern, or patterns that explain less than 1 %; the message says what to try, and whether a model was written
  129, 130, 143 stopped by SIGHUP, Ctrl-C or SIGTERM, with the model of all finished steps written";

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
    /// Whatever the command reports; [`run::main`](crate::run::main) prints the error and turns it into an exit code.
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

/// An outcome with fewer patterns than were asked for. The model has been written.
#[derive(Debug)]
pub struct FewerPatterns(
    /// Why there are fewer, and how many there are.
    pub String,
);

impl std::fmt::Display for FewerPatterns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FewerPatterns {}

/// An outcome that says next to nothing about the table: no pattern, or patterns that explain less than 1 %.
#[derive(Debug)]
pub struct NothingExplained(
    /// What was found, and what to try.
    pub String,
);

impl std::fmt::Display for NothingExplained {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NothingExplained {}

/// The end of a run by Ctrl-C, SIGTERM or SIGHUP. The model of all finished steps has been written.
#[derive(Debug)]
pub struct Interrupted {
    /// Number of steps that were learned.
    pub step: usize,
    /// The model file.
    pub output: PathBuf,
    /// The exit code.
    pub code: u8,
}

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.step {
            0 => write!(f, "stopped before the end of the first step; nothing was written"),
            steps => {
                let output = self.output.display();
                write!(f, "stopped after {steps} steps; {output} has their model, --resume continues the run")
            }
        }
    }
}

impl std::error::Error for Interrupted {}

/// Returns the error for a parameter whose value breaks a rule: "`name` is `value`, it must be `rule`".
pub fn wrong(name: &'static str, value: impl ToString, rule: &str) -> Error {
    Error::Parameter { name, value: value.to_string(), rule: rule.into() }
}
