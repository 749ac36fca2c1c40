//! The grid of the paper's cells: its values, how cells are run, and their progress.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use indicatif::{ProgressBar, ProgressStyle};
use tensornoodl_cli::program::wrong;
use tensornoodl_data::files;
use tensornoodl_lab::paper::{Cell, Event, Failure, MethodName, Outcome, Work};

/// Options of all runs of cells.
#[derive(Clone, clap::Args)]
pub(crate) struct RunArgs {
    /// Number of cells that are run at the same time, at least 1; they share the threads.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) jobs: usize,
    /// Number of threads of all jobs, at least 1 [default: all cores]. Results do not depend on it.
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Folder of the results and of the finished cells.
    #[arg(long, short, value_name = "DIR")]
    pub(crate) output: PathBuf,
    /// Show no progress.
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// The grid of the paper's tables.
pub(crate) const ALPHAS: [f64; 3] = [0.005, 0.01, 0.05];
pub(crate) const SIZES: [usize; 3] = [100, 300, 500];
pub(crate) const PATTERNS: [usize; 5] = [50, 150, 300, 450, 600];
pub(crate) const SEEDS: [u64; 3] = [42, 26, 91];

/// Returns the name of a method in tables and figures.
pub(crate) fn title(method: MethodName) -> &'static str {
    match method {
        MethodName::Noodl => "TensorNOODL, the paper's step",
        MethodName::Adaptive => "TensorNOODL, adaptive step",
        MethodName::Matrix => "NOODL, plain matrices",
        MethodName::AroraB => "Arora(b)",
        MethodName::AroraU => "Arora(u)",
        MethodName::Mairal => "Mairal",
    }
}

/// Returns every cell of a grid.
pub(crate) fn grid(
    alpha: &[f64],
    sizes: &[usize],
    patterns: &[usize],
    seeds: &[u64],
    jobs: usize,
) -> anyhow::Result<Vec<Cell>> {
    if let Some(alpha) = alpha.iter().find(|alpha| !(**alpha > 0.0 && **alpha <= 1.0)) {
        return Err(wrong("alpha", alpha, "above 0 and at most 1").into());
    }
    if jobs == 0 {
        return Err(wrong("jobs", 0, "at least 1").into());
    }
    let mut cells = Vec::new();
    for &alpha in alpha {
        for &size in sizes {
            for &patterns in patterns {
                for &seed in seeds {
                    let cell = Cell { alpha, size, patterns, seed };
                    cell.plan().check()?;
                    if !cells.contains(&cell) {
                        cells.push(cell);
                    }
                }
            }
        }
    }
    Ok(cells)
}

/// Turns a failure into an error; what a method refuses is a wrong parameter.
pub(crate) fn failed(failure: Failure) -> anyhow::Error {
    match failure {
        Failure::Method(error) => error.into(),
        other => anyhow!("{other}"),
    }
}

/// Makes the folder and checks that the results can be written, before hours of work.
pub(crate) fn check_outputs(folder: &Path, names: &[&str]) -> anyhow::Result<()> {
    fs::create_dir_all(folder).map_err(|error| anyhow!("cannot write {}: {error}", folder.display()))?;
    names.iter().try_for_each(|name| files::check(&folder.join(name)))?;
    Ok(())
}

pub(crate) fn outcomes(work: &Work, run: &RunArgs) -> anyhow::Result<Vec<Outcome>> {
    let progress = Progress::new(run.quiet);
    let outcomes = work.run(run.jobs, |event| progress.tell(&event)).map_err(failed)?;
    progress.finish();
    Ok(outcomes)
}

/// Progress of many cells: a bar with the time left on a terminal, JSON lines elsewhere.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    lines: bool,
    begun: Instant,
    last_line: Mutex<Option<Instant>>,
}

impl Progress {
    pub(crate) fn new(quiet: bool) -> Progress {
        let terminal = io::stderr().is_terminal();
        let bar = (terminal && !quiet).then(|| {
            let style =
                ProgressStyle::with_template("{bar:32.cyan/dim} {percent} %  {msg}  {elapsed}, left {eta}");
            let bar =
                ProgressBar::new(10_000).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Progress { bar, lines: !terminal && !quiet, begun: Instant::now(), last_line: Mutex::new(None) }
    }

    pub(crate) fn tell(&self, event: &Event<'_>) {
        match (event, &self.bar) {
            (Event::Finished(outcome), Some(bar)) => bar.set_message(format!(
                "J {} m {} alpha {} {}: {:.1e}",
                outcome.cell.size,
                outcome.cell.patterns,
                outcome.cell.alpha,
                outcome.method.name(),
                outcome.error_a
            )),
            (Event::Done(share), _) => self.done(*share),
            (Event::Finished(_), None) => {}
        }
    }

    pub(crate) fn done(&self, share: f64) {
        if let Some(bar) = &self.bar {
            bar.set_position((10_000.0 * share) as u64);
        }
        let Ok(mut last) = self.last_line.lock() else { return };
        if self.lines && (share >= 1.0 || last.is_none_or(|last| last.elapsed() > Duration::from_secs(1))) {
            *last = Some(Instant::now());
            let left = self.begun.elapsed().as_secs_f64() * (1.0 - share) / share.max(1e-6);
            let line = serde_json::json!({ "type": "progress", "done": share, "seconds_left": left.round() });
            // Results are written even if nobody can read the progress.
            let _ = writeln!(io::stderr(), "{line}");
        }
    }

    pub(crate) fn finish(&self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}
