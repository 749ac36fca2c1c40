//! `noodl-lab pairs`: the start that the paper names (Arora and others, 2015), for comparison with the search of
//! `check`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Instant;

use serde_json::json;
use tensornoodl::discover::pairs::{self, Found, PairParams};
use tensornoodl_cli::assess::{Source, counts_record, counts_words, csv};
use tensornoodl_cli::planted::PlantedArgs;
use tensornoodl_cli::progress::Spinner;
use tensornoodl_data::files;

const EXAMPLES: &str = "\
Examples:
  noodl-lab pairs --synthetic
  noodl-lab pairs --synthetic patterns=5,features=50,rows=40,cols=40,alpha=0.1,beta=0.1 --json

The search of noodl-lab check --evidence finds patterns in the same tensors.";

/// Find the patterns of a planted tensor from pairs of fibers that share one pattern, the start that the paper names.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct Args {
    #[command(flatten)]
    planted: PlantedArgs,
    /// Write the patterns to this CSV file: a column for each pattern, a line for each feature.
    #[arg(long, value_name = "FILE")]
    patterns_out: Option<PathBuf>,
    /// Seed of the pairs that are drawn.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Number of threads, at least 1 [default: all cores]. Results do not depend on it.
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Write one JSON object.
    #[arg(long)]
    json: bool,
    /// Show no progress.
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    args.patterns_out.iter().try_for_each(|path| files::check(path))?;
    let source = args.planted.load()?;
    let spinner = Spinner::new("drawing pairs of fibers", args.quiet || args.json);
    let begun = Instant::now();
    let pairs = PairParams { seed: args.seed, ..PairParams::new(source.tensor.shape().features) };
    let found = pairs::find(&source.tensor, &pairs)?;
    let seconds = begun.elapsed().as_secs_f64();
    spinner.finish();
    let path = args.patterns_out.iter().find(|_| found.dictionary.patterns() > 0);
    if let Some(path) = path {
        files::write(path, csv(&found.dictionary))?;
    }
    let mut stdout = io::stdout().lock();
    if args.json {
        writeln!(stdout, "{}", record(&source, &found, seconds)?)?;
        return Ok(());
    }
    write!(stdout, "{}", words(&source, &found, seconds)?)?;
    if let Some(path) = path {
        writeln!(stdout, "written   {}", path.display())?;
    }
    Ok(())
}

fn words(source: &Source, found: &Found, seconds: f64) -> anyhow::Result<String> {
    let hits = match (found.hits.last(), found.hits.first()) {
        (Some(least), Some(most)) => format!("{least} to {most}"),
        _ => "no".into(),
    };
    let text = format!(
        "{}: {}, {} fibers\n\nfound     {} patterns in {seconds:.1} s: {} of {} pairs of fibers led to one direction, {hits} hits a \
         pattern\n",
        source.name,
        source.tensor.shape(),
        source.tensor.fibers(),
        found.hits.len(),
        found.accepted,
        found.pairs,
    );
    Ok(text + &source.pattern_counts(&found.dictionary)?.as_ref().map_or(String::new(), counts_words))
}

fn record(source: &Source, found: &Found, seconds: f64) -> anyhow::Result<serde_json::Value> {
    let shape = source.tensor.shape();
    let mut record = json!({
        "type": "pairs",
        "features": shape.features,
        "rows": shape.rows,
        "cols": shape.cols,
        "fibers": source.tensor.fibers(),
        "patterns": found.dictionary.patterns(),
        "seconds": seconds,
        "pairs": found.pairs,
        "accepted": found.accepted,
        "hits": found.hits,
    });
    let counts = source.pattern_counts(&found.dictionary)?;
    if let (Some(record), Some(counts)) = (record.as_object_mut(), counts.as_ref().map(counts_record)) {
        record.extend(counts.as_object().cloned().unwrap_or_default());
    }
    Ok(record)
}
