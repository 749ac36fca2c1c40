//! Signals that stop a run: Ctrl-C, SIGTERM and SIGHUP. Nothing that was learned is lost.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tensornoodl::Stop;
use tensornoodl_data::{Lock, files};

use crate::output::{self, note};
use crate::program::Interrupted;

/// How long the thread that waits for signals sleeps between two looks at the run.
const PAUSE: Duration = Duration::from_millis(20);

/// How long the reader of a pipe that a file is written to may take after a signal.
const READER: Duration = Duration::from_millis(500);

/// The signals of a run.
///
/// A signal sets the flag of [`Signals::stop`], and the run ends as soon as it sees the flag. A run whose results are all
/// in its file, or that has none yet, is ended at once: it may be waiting for a pipe or be in the middle of a long
/// computation. A run that writes a file to a pipe which nobody reads is ended, too. A second signal ends the process in any
/// case.
pub struct Signals {
    stop: Stop,
    shared: Arc<Shared>,
}

/// What the run and the thread that waits for signals share.
struct Shared {
    output: PathBuf,
    /// The first signal, or 0.
    signal: AtomicI32,
    /// Whether a file is being written to a pipe or a device, which may wait for a reader.
    to_pipe: AtomicBool,
    state: Mutex<State>,
}

struct State {
    /// Whether the model in memory has learned more than the one in the file.
    unsaved: bool,
    /// Number of steps that the model in the file has learned.
    steps: usize,
    /// Whether the run has seen the flag and reports the end itself.
    ended: bool,
    lock: Option<Lock>,
}

impl Signals {
    /// Begins to wait for signals. A rank of several only gets the flag, because all ranks must end together.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn watch(output: &Path, alone: bool) -> io::Result<Signals> {
        let state = State { unsaved: false, steps: 0, ended: false, lock: None };
        let (signal, to_pipe) = (AtomicI32::new(0), AtomicBool::new(false));
        let shared = Shared { output: output.into(), signal, to_pipe, state: Mutex::new(state) };
        let (stop, shared) = (Stop::default(), Arc::new(shared));
        output::end_with(&stop);
        let wanted = [SIGINT, SIGTERM, SIGHUP]
            .into_iter()
            .filter(|signal| *signal != SIGHUP || !hangups_are_ignored());
        let mut signals = signal_hook::iterator::Signals::new(wanted)?;
        let (flag, seen) = (stop.clone(), Arc::clone(&shared));
        std::thread::spawn(move || {
            let Some(first) = signals.forever().next() else { return };
            seen.signal.store(first, Ordering::SeqCst);
            flag.set();
            let since = Instant::now();
            loop {
                if let Some(second) = signals.pending().next() {
                    std::process::exit(code(second).into());
                }
                if alone {
                    seen.end_if_idle(since);
                }
                std::thread::sleep(PAUSE);
            }
        });
        Ok(Signals { stop, shared })
    }

    /// Returns the flag that a signal sets.
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Takes the lock of the output file, which is released with the run. No first signal cuts this short.
    ///
    /// # Errors
    /// Those of `take`.
    pub fn lock<E>(&self, take: impl FnOnce() -> Result<Option<Lock>, E>) -> Result<(), E> {
        let mut state = self.shared.state();
        state.lock = take()?;
        Ok(())
    }

    /// Notes that the model in memory has learned more than the one in the file.
    pub fn learned(&self) {
        self.shared.state().unsaved = true;
    }

    /// Writes the file at `path`, which no first signal cuts short.
    ///
    /// # Errors
    /// Those of `write`.
    pub fn write<E>(&self, path: &Path, write: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let _state = self.shared.state();
        self.shared.to_pipe.store(files::is_special(path), Ordering::SeqCst);
        write()
    }

    /// Writes the model, which has learned `steps` steps. No first signal cuts this short.
    ///
    /// # Errors
    /// Those of `save`.
    pub fn save<E>(&self, steps: usize, save: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let mut state = self.shared.state();
        self.shared.to_pipe.store(files::is_special(&self.shared.output), Ordering::SeqCst);
        save()?;
        (state.unsaved, state.steps) = (false, steps);
        Ok(())
    }

    /// Returns the end of a run that has seen the flag after `step` steps.
    pub fn interrupted(&self, step: usize) -> Interrupted {
        self.shared.state().ended = true;
        // If another rank has got the signal, this one has the lowest code.
        let code = code(self.shared.signal.load(Ordering::SeqCst).max(SIGHUP));
        Interrupted { step, output: self.shared.output.clone(), code }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.shared.state().lock = None;
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the process, unless the model in memory has to be written or a file is being written. A pipe has had its
    /// time since the signal if nobody reads it by then.
    fn end_if_idle(&self, since: Instant) {
        let steps = match self.state.try_lock() {
            Ok(state) if state.unsaved || state.ended => return,
            Ok(mut state) => {
                state.lock = None;
                state.steps
            }
            Err(_) if self.to_pipe.load(Ordering::SeqCst) && since.elapsed() > READER => 0,
            Err(_) => return,
        };
        let code = code(self.signal.load(Ordering::SeqCst));
        note(&Interrupted { step: steps, output: self.output.clone(), code }.to_string());
        std::process::exit(code.into());
    }
}

/// Returns the exit code of a process that a signal ended, as shells give it.
fn code(signal: i32) -> u8 {
    128 + signal as u8
}

/// Whether the process was started to ignore SIGHUP, as `nohup` does. Only Linux tells.
fn hangups_are_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // Signal 1 is the lowest bit.
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}
