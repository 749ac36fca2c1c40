//! `noodl-lab check`: `noodl check` for planted tensors.

use tensornoodl_cli::assess::Options;
use tensornoodl_cli::planted::PlantedArgs;

const EXAMPLES: &str = "\
Examples:
  noodl-lab check --synthetic                     the first tensor of the demo
  noodl-lab check --synthetic noise=1             too much noise, and what it looks like
  noodl-lab check --synthetic patterns=300,alpha=0.15,beta=0.15 --json
  noodl-lab check --synthetic patterns=300,noise=0.3 --evidence

Patterns that are found are compared with the planted ones. Tables and arrays are checked by noodl check.";

/// Measure the assumptions of the theory on a planted tensor: a verdict on each, and what to do.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct Args {
    #[command(flatten)]
    planted: PlantedArgs,
    #[command(flatten)]
    pub(crate) options: Options,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    args.options.check()?;
    args.options.run(&args.planted.load()?)
}
