//! `noodl-lab bench`: times of the method, and where its start works.

mod limit;
mod ranks;
mod scaling;
mod start;
mod start_picture;
mod timing;

use std::sync::Arc;

use clap::Subcommand;
use tensornoodl::Team;
use tensornoodl_cli::program::wrong;

/// Measure the time of the method, and how many patterns its start finds.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    Limit(limit::Args),
    Scaling(scaling::Args),
    Start(start::Args),
    Ranks(ranks::Args),
}

impl Args {
    pub(crate) fn runs_as_ranks(&self) -> bool {
        matches!(self.bench, Bench::Ranks(_))
    }

    pub(crate) fn threads(&self) -> Option<usize> {
        match &self.bench {
            Bench::Limit(args) => args.threads,
            Bench::Scaling(args) => args.threads,
            Bench::Start(args) => args.threads,
            Bench::Ranks(args) => args.threads,
        }
    }

    fn repeats(&self) -> usize {
        match &self.bench {
            Bench::Limit(args) => args.repeats,
            Bench::Scaling(args) => args.repeats,
            Bench::Start(args) => args.repeats,
            Bench::Ranks(args) => args.repeats,
        }
    }
}

pub(crate) fn run(args: &Args, team: &Arc<dyn Team>) -> anyhow::Result<()> {
    if args.repeats() == 0 {
        return Err(wrong("repeats", 0, "at least 1").into());
    }
    match &args.bench {
        Bench::Limit(args) => limit::run(args),
        Bench::Scaling(args) => scaling::run(args),
        Bench::Start(args) => start::run(args),
        Bench::Ranks(args) => ranks::run(args, team),
    }
}
