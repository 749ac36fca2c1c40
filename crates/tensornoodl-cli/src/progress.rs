//! Progress of long work, on stderr: a bar on a terminal, JSON lines elsewhere.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use tensornoodl::recovery;

/// The progress of a recovery.
pub struct Progress {
    bar: Option<ProgressBar>,
    lines: bool,
    last_line: Instant,
    goal: Goal,
}

/// When the work is done.
pub struct Goal {
    /// The relative error of A to reach.
    pub tolerance: f64,
    /// The maximum number of steps.
    pub max_steps: u64,
}

/// Resolution of the bar.
const TICKS: f64 = 1000.0;

impl Progress {
    /// Starts to show progress towards a goal, or nothing if `quiet`.
    pub fn new(goal: Goal, quiet: bool) -> Progress {
        let terminal = io::stderr().is_terminal();
        let bar = (terminal && !quiet).then(|| {
            let style = ProgressStyle::with_template("{bar:32.cyan/dim} {msg}  {elapsed}");
            let bar = ProgressBar::new(TICKS as u64);
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("━╸─"))
        });
        Progress { bar, lines: !terminal && !quiet, last_line: Instant::now(), goal }
    }

    /// Shows one more step; JSON lines at most once a second.
    pub fn step(&mut self, progress: &recovery::Progress) {
        let (step, error) = (progress.step.step, progress.error_a);
        if let Some(bar) = &self.bar {
            bar.set_position((TICKS * self.share(step, error)) as u64);
            bar.set_message(format!("tensor {step}  error of A {error:.1e}"));
        } else if self.lines && self.last_line.elapsed() > Duration::from_secs(1) {
            self.last_line = Instant::now();
            let line = serde_json::json!({ "type": "progress", "step": step, "error_a": error });
            // A failure to write is ignored, because progress is not the result.
            let _ = writeln!(io::stderr(), "{line}");
        }
    }

    /// Returns the share of the work that is done: decades of error towards the tolerance, or steps, whichever is
    /// larger.
    fn share(&self, step: u64, error: f64) -> f64 {
        let decades = error.log10() / self.goal.tolerance.log10();
        let steps = step as f64 / self.goal.max_steps as f64;
        decades.clamp(0.0, 1.0).max(steps)
    }

    /// Removes the bar from the terminal.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A spinner on a terminal, for work of unknown length.
pub struct Spinner(Option<ProgressBar>);

impl Spinner {
    /// Starts the spinner, unless `quiet` is set or stderr is no terminal.
    pub fn new(what: &'static str, quiet: bool) -> Spinner {
        Spinner((io::stderr().is_terminal() && !quiet).then(|| {
            let bar = ProgressBar::new_spinner().with_message(what);
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        }))
    }

    /// Shows the share of repeated searches that are done, from 0 to 1.
    pub fn done(&self, share: f64) {
        if let Some(bar) = &self.0 {
            bar.set_message(format!("repeating the search: {:.0} %", 100.0 * share));
        }
    }

    /// Removes the spinner from the terminal.
    pub fn finish(&self) {
        self.0.iter().for_each(ProgressBar::finish_and_clear);
    }
}
