//! `noodl completions`: completion scripts for shells.

use std::io::Write;

use clap::CommandFactory;
use clap_complete::Shell;

/// Print a completion script for a shell.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The shell.
    shell: Shell,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Args::command(), "noodl", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(())
}
