//! Progress of long work, on stderr: a bar on a terminal, JSON lines where stderr is a file.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use tensornoodl::recovery;

/// Where a recovery stands, shown to whoever waits.
pub struct Progress {
    bar: Option<ProgressBar>,
    lines: bool,
    last_line: Instant,
    goal: Goal,
}

/// When the work is done.
pub struct Goal {
    /// Error of A to reach.
    pub tolerance: f64,
    /// Most steps.
    pub max_steps: u64,
}

/// Resolution of the bar.
const TICKS: f64 = 1000.0;

impl Progress {
    /// Progress towards a goal; silent if `quiet`.
    pub fn new(goal: Goal, quiet: bool) -> Progress {
        let terminal = io::stderr().is_terminal();
        let bar = (terminal && !quiet).then(|| {
            let style = ProgressStyle::with_template("{bar:32.cyan/dim} {msg}  {elapsed}");
            let bar = ProgressBar::new(TICKS as u64);
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("━╸─"))
        });
        Progress { bar, lines: !terminal && !quiet, last_line: Instant::now(), goal }
    }

    /// Shows one more step.
    pub fn step(&mut self, progress: &recovery::Progress) -> io::Result<()> {
        let (step, error) = (progress.step.step, progress.error_a);
        if let Some(bar) = &self.bar {
            bar.set_position((TICKS * self.share(step, error)) as u64);
            bar.set_message(format!("tensor {step}  error of A {error:.1e}"));
        } else if self.lines && self.last_line.elapsed() > Duration::from_secs(1) {
            self.last_line = Instant::now();
            let line = serde_json::json!({ "type": "progress", "step": step, "error_a": error });
            writeln!(io::stderr(), "{line}")?;
        }
        Ok(())
    }

    /// How much is done: decades of error towards the tolerance, or steps, whichever is further.
    fn share(&self, step: u64, error: f64) -> f64 {
        let decades = error.log10() / self.goal.tolerance.log10();
        let steps = step as f64 / self.goal.max_steps as f64;
        decades.clamp(0.0, 1.0).max(steps)
    }

    /// Removes the bar.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Work whose length is not known, shown on a terminal.
pub struct Spinner(Option<ProgressBar>);

impl Spinner {
    /// Turns until it is finished; nothing if `quiet`, or where stderr is not a terminal.
    pub fn new(what: &'static str, quiet: bool) -> Spinner {
        Spinner((io::stderr().is_terminal() && !quiet).then(|| {
            let bar = ProgressBar::new_spinner().with_message(what);
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        }))
    }

    /// Says how much is done, from 0 to 1.
    pub fn done(&self, share: f64) {
        if let Some(bar) = &self.0 {
            bar.set_message(format!("looking again and again: {:.0} %", 100.0 * share));
        }
    }

    /// Removes it.
    pub fn finish(&self) {
        self.0.iter().for_each(ProgressBar::finish_and_clear);
    }
}
