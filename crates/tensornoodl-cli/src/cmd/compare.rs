//! `noodl compare`: matches the patterns of two models.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::anyhow;
use tensornoodl::metrics::Matching;
use tensornoodl_cli::model;

const EXAMPLES: &str = "\
Examples:
  noodl compare last-year.safetensors this-year.safetensors";

/// Match each pattern of one model with the most similar pattern of another model.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct Args {
    /// A model file.
    first: PathBuf,
    /// Another model file, with the same features.
    second: PathBuf,
    /// Write one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let (first, second) = (model::load(&args.first)?, model::load(&args.second)?);
    if first.card.features != second.card.features {
        return Err(anyhow!(
            "{} has {} features and {} has {}, which are not the same; only models of the same features can be compared",
            args.first.display(),
            first.card.features.len(),
            args.second.display(),
            second.card.features.len()
        ));
    }
    let [a, b] = [&first, &second].map(|model| model.learner.dictionary().with_unit_lengths());
    let matching = Matching::new(&b, &a)?;
    let cosine = |i: usize, l: usize| a.pattern(i).iter().zip(b.pattern(l)).map(|(a, b)| a * b).sum::<f64>();
    let pairs: Vec<(usize, Option<(usize, f64)>)> =
        matching.found.iter().enumerate().map(|(i, found)| (i, found.map(|l| (l, cosine(i, l))))).collect();
    let taken: Vec<usize> = pairs.iter().filter_map(|pair| pair.1.map(|other| other.0)).collect();
    let alone: Vec<usize> = (0..b.patterns()).filter(|l| !taken.contains(l)).collect();
    let mut out = io::stdout().lock();
    if args.json {
        let pairs: Vec<_> = pairs
            .iter()
            .map(|(i, other)| serde_json::json!({ "first": i + 1, "second": other.map(|o| o.0 + 1), "cosine": other.map(|o| o.1) }))
            .collect();
        let alone: Vec<usize> = alone.iter().map(|l| l + 1).collect();
        writeln!(out, "{}", serde_json::json!({ "pairs": pairs, "only_second": alone }))?;
        return Ok(());
    }
    for (i, other) in &pairs {
        match other {
            Some((l, cosine)) => {
                writeln!(out, "pattern {:<4} is most like {:<4} cosine {cosine:.3}", i + 1, l + 1)?
            }
            None => writeln!(out, "pattern {:<4} has no partner in the second model", i + 1)?,
        }
    }
    for l in alone {
        writeln!(out, "pattern {:<4} of the second model has no partner in the first", l + 1)?;
    }
    Ok(())
}
