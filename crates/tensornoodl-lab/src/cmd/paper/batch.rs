//! `noodl-lab paper batch`: methods for one tensor.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::anyhow;
use tensornoodl_lab::paper::{BatchMethod, BatchOutcome, Cell, by_jobs, keep, run_batch};

use crate::cmd::paper::grid::{Progress, RunArgs, SEEDS, check_outputs, failed, grid};
use tensornoodl_data::files;

/// The default numbers of patterns.
pub(crate) const PATTERNS: [usize; 3] = [50, 150, 300];

const EXAMPLES: &str = "\
Examples:
  noodl-lab paper batch --patterns 50 --seeds 42 --output results

All methods get the first tensor of a stream. More tensors would not help methods for one tensor: B and C are new in each tensor, so T \
tensors side by side have m T terms. Orth-ALS needs m <= J, K.";

/// Factorize one tensor as a whole: by CP-ALS, Orth-ALS, tensor power with clustering, truncated power, and
/// TensorNOODL.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct Args {
    /// Values of alpha = beta, above 0 and at most 1.
    #[arg(long, value_delimiter = ',', default_values_t = [0.05])]
    pub(crate) alpha: Vec<f64>,
    /// Numbers of rows J; each tensor has as many cols K.
    #[arg(long, value_delimiter = ',', default_values_t = [100])]
    pub(crate) rows: Vec<usize>,
    /// Numbers of patterns, m.
    #[arg(long, value_delimiter = ',', default_values_t = PATTERNS)]
    pub(crate) patterns: Vec<usize>,
    /// Seeds of the streams.
    #[arg(long, value_delimiter = ',', default_values_t = SEEDS)]
    pub(crate) seeds: Vec<u64>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let cells = grid(&args.alpha, &args.rows, &args.patterns, &args.seeds, args.run.jobs)?;
    check_outputs(&args.run.output, &["batch.csv", "batch.md", "batch.json"])?;
    let folder = args.run.output.join("cells");
    fs::create_dir_all(&folder).map_err(|error| anyhow!("cannot write {}: {error}", folder.display()))?;
    let progress = Progress::new(args.run.quiet);
    let work: Vec<(Cell, BatchMethod)> =
        cells.iter().flat_map(|cell| BatchMethod::ALL.map(|method| (*cell, method))).collect();
    let done = AtomicUsize::new(0);
    let outcomes = by_jobs(args.run.jobs, work.len(), |at| {
        let (cell, method) = work[at];
        let Cell { alpha, size, patterns, seed } = cell;
        let path = folder.join(format!("{alpha}-{size}-{patterns}-{seed}-batch-{}.json", method.name()));
        let outcome = keep(&path, || run_batch(cell, method))?;
        progress.done((done.fetch_add(1, Ordering::Relaxed) + 1) as f64 / work.len() as f64);
        Ok(outcome)
    });
    let outcomes: Vec<BatchOutcome> = outcomes.map_err(failed)?.into_iter().flatten().collect();
    progress.finish();
    files::write(&args.run.output.join("batch.csv"), csv(&outcomes))?;
    let text = markdown(&outcomes);
    files::write(&args.run.output.join("batch.md"), &text)?;
    files::write(&args.run.output.join("batch.json"), serde_json::to_string_pretty(&outcomes)? + "\n")?;
    write!(io::stdout().lock(), "{text}\nwritten to {}\n", args.run.output.display())?;
    Ok(())
}

/// Returns a line for each run, as CSV.
fn csv(outcomes: &[BatchOutcome]) -> String {
    let mut text = String::from(
        "alpha,J,m,seed,method,seen,found,spurious,median_distance,error_a,error_x,support,seconds\n",
    );
    for outcome in outcomes {
        let Cell { alpha, size, patterns, seed } = outcome.cell;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{alpha},{size},{patterns},{seed},{},{},{},{},{:e},{:e},{:e},{},{:.3}",
            outcome.method.name(),
            outcome.seen,
            outcome.found,
            outcome.spurious,
            outcome.median_distance,
            outcome.error_a,
            outcome.error_x,
            outcome.support,
            outcome.seconds
        );
    }
    text
}

/// Returns the means over the seeds, as a table in Markdown.
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
