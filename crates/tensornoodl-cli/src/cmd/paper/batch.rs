//! `noodl paper batch`.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};

use anyhow::anyhow;
use experiments::{BatchMethod, BatchOutcome, keep, run_batch};

use super::{Progress, RunArgs, SEEDS, grid};
use tensornoodl_data::files;

/// Patterns by default.
pub(crate) const PATTERNS: [usize; 3] = [50, 150, 300];

const EXAMPLES: &str = "\
Examples:
  noodl paper batch --m 50 --seeds 42 --out results

Methods that know no stream get its first tensor, and so does TensorNOODL: side by side, the tensors of a stream have as many
terms as patterns times tensors, because B and C are new each time. Orth-ALS needs m <= J, K.";

/// One tensor as a whole: CP-ALS, Orth-ALS, tensor power with clustering, truncated power, and TensorNOODL.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct Args {
    /// alpha = beta.
    #[arg(long, value_delimiter = ',', default_values_t = [0.05])]
    pub(crate) alpha: Vec<f64>,
    /// J = K.
    #[arg(long, value_delimiter = ',', default_values_t = [100])]
    pub(crate) j: Vec<usize>,
    /// Number of patterns.
    #[arg(long, value_delimiter = ',', default_values_t = PATTERNS)]
    pub(crate) m: Vec<usize>,
    /// Seeds, the paper's by default.
    #[arg(long, value_delimiter = ',', default_values_t = SEEDS)]
    pub(crate) seeds: Vec<u64>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let cells = grid(&args.alpha, &args.j, &args.m, &args.seeds, args.run.jobs)?;
    let folder = args.run.out.join("cells");
    fs::create_dir_all(&folder).map_err(|error| anyhow!("cannot write {}: {error}", folder.display()))?;
    let progress = Progress::new(args.run.quiet);
    let mut outcomes: Vec<BatchOutcome> = Vec::new();
    for (at, &cell) in cells.iter().enumerate() {
        for method in BatchMethod::ALL {
            let path = folder.join(format!(
                "{}-{}-{}-{}-batch-{}.json",
                cell.alpha,
                cell.size,
                cell.patterns,
                cell.seed,
                method.name()
            ));
            outcomes.extend(keep(&path, || run_batch(cell, method)).map_err(|failure| anyhow!("{failure}"))?);
        }
        progress.done((at + 1) as f64 / cells.len() as f64);
    }
    progress.finish();
    let text = markdown(&outcomes);
    files::write(&args.run.out.join("batch.md"), &text)?;
    files::write(&args.run.out.join("batch.json"), serde_json::to_string_pretty(&outcomes)? + "\n")?;
    write!(io::stdout().lock(), "{text}\nwritten to {}\n", args.run.out.display())?;
    Ok(())
}

/// Means over the seeds.
fn markdown(outcomes: &[BatchOutcome]) -> String {
    let mut text = String::from(
        "| J = K, alpha, m | method | told | found, of those seen | spurious | median distance | error of A | error of X | \
         support | seconds |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    let mut done: Vec<String> = Vec::new();
    for outcome in outcomes {
        let key = |outcome: &BatchOutcome| {
            let cell = outcome.cell;
            format!("{}, {}, {} {}", cell.size, cell.alpha, cell.patterns, outcome.method.name())
        };
        if done.contains(&key(outcome)) {
            continue;
        }
        done.push(key(outcome));
        let same: Vec<&BatchOutcome> = outcomes.iter().filter(|other| key(other) == key(outcome)).collect();
        let mean = |of: &dyn Fn(&BatchOutcome) -> f64| {
            same.iter().map(|outcome| of(outcome)).sum::<f64>() / same.len() as f64
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| {}, {}, {} | {} | {} | {:.1} of {:.1} | {:.1} | {:.1e} | {:.1e} | {:.1e} | {} | {:.2} |",
            outcome.cell.size,
            outcome.cell.alpha,
            outcome.cell.patterns,
            outcome.method.title(),
            outcome.method.told(),
            mean(&|outcome| outcome.found as f64),
            mean(&|outcome| outcome.seen as f64),
            mean(&|outcome| outcome.spurious as f64),
            mean(&|outcome| outcome.median_distance),
            mean(&|outcome| outcome.error_a),
            mean(&|outcome| outcome.error_x),
            if same.iter().all(|outcome| outcome.support) { "Y" } else { "N" },
            mean(&|outcome| outcome.seconds),
        );
    }
    text
}
