//! A second thread that ends the process if a call of MPI does not return, because a link is cut or a launcher is gone.

use std::fmt;
use std::io::Write;
use std::os::unix::process::{CommandExt, parent_id};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::REPORTING_TIME;

/// Time that the watchdog grants in addition to the patience of an exchange: other ranks may report first, and MPI
/// may end the job by itself.
const GRACE: Duration = Duration::from_secs(10);

/// The number of crossings during the first call of MPI, which connects the ranks.
const CONNECTING: u64 = 1;

/// Longest time that an abort may take if it cannot reach the other ranks.
const ABORT_LIMIT: Duration = Duration::from_secs(5);

/// How often the watchdog looks. It counts its looks instead of reading the clock, so that the time in which the
/// whole job was suspended does not count.
const TICK: Duration = Duration::from_millis(100);

/// Tracks whether the first thread is inside MPI, and ends the process if it stays there for too long.
#[derive(Debug)]
pub(crate) struct Watchdog {
    /// Number of entries into MPI and exits from it; odd while the first thread is inside.
    crossings: AtomicU64,
    /// Longest time until the ranks are connected.
    connecting: Duration,
    /// Longest time inside MPI afterwards, in milliseconds.
    limit: AtomicU64,
}

/// A call of MPI that is under way; it ends when this is dropped.
pub(crate) struct Inside<'a>(&'a Watchdog);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.crossings.fetch_add(1, Ordering::Relaxed);
    }
}

impl Watchdog {
    /// Starts the thread, which allows `patience` and [`REPORTING_TIME`] for the first call, and `patience` and [`GRACE`]
    /// for each other call.
    ///
    /// The first call connects the ranks, and nothing but this thread limits its time. Ranks that are already connected
    /// know who is missing, so they report first.
    pub(crate) fn start(patience: Duration) -> Arc<Watchdog> {
        let limit = (patience + GRACE).as_millis() as u64;
        let watchdog = Arc::new(Watchdog {
            crossings: AtomicU64::new(0),
            connecting: patience + REPORTING_TIME,
            limit: AtomicU64::new(limit),
        });
        let of_thread = Arc::clone(&watchdog);
        thread::spawn(move || of_thread.watch());
        watchdog
    }

    /// Marks the begin of a call of MPI.
    pub(crate) fn enter(&self) -> Inside<'_> {
        self.crossings.fetch_add(1, Ordering::Relaxed);
        Inside(self)
    }

    /// Marks the begin of the last call of MPI, which does not return; the first thread may be inside MPI already.
    pub(crate) fn enter_for_good(&self) {
        let crossings = self.crossings.load(Ordering::Relaxed);
        self.crossings.store((crossings + 2) | 1, Ordering::Relaxed);
    }

    /// Marks the begin of an abort, which gets [`ABORT_LIMIT`] instead of the usual time.
    pub(crate) fn enter_abort(&self) {
        self.limit.store(ABORT_LIMIT.as_millis() as u64, Ordering::Relaxed);
        self.enter_for_good();
    }

    fn watch(&self) -> ! {
        let (mut before, mut waited) = (0, Duration::ZERO);
        loop {
            thread::sleep(TICK);
            let now = self.crossings.load(Ordering::Relaxed);
            waited = if now == before && now % 2 == 1 { waited + TICK } else { Duration::ZERO };
            before = now;
            let limit = match now {
                CONNECTING => self.connecting,
                _ => Duration::from_millis(self.limit.load(Ordering::Relaxed)),
            };
            if waited < limit {
                continue;
            }
            let seconds = waited.as_secs();
            match now {
                CONNECTING => report(format_args!(
                    "a rank has waited {seconds} s for another rank to start: stopped, stuck, or cut off; the job ends"
                )),
                _ => report(format_args!("a call of MPI has not returned for {seconds} s; this rank ends")),
            }
            end_launcher_later();
            std::process::abort();
        }
    }
}

/// Writes a line to stderr in one piece, because other ranks may write at the same time. Errors are ignored: the process
/// is about to end.
pub(crate) fn report(line: fmt::Arguments<'_>) {
    let _ = std::io::stderr().write_all(format!("noodl: {line}\n").as_bytes());
}

/// Starts a process that ends the launcher of the job after ten seconds, if the launcher is still there.
///
/// If a host is cut off, Open MPI's launcher waits for its helper on that host, and the helper waits for the
/// launcher, for a quarter of an hour after all ranks have ended.
pub(crate) fn end_launcher_later() {
    let script = "sleep 10; case $(cat /proc/$0/comm) in mpirun|mpiexec|orterun|orted|prterun|prted) \
                  kill -TERM $0; sleep 3; kill -KILL $0;; esac";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, &parent_id().to_string()]);
    // The process must outlive the job, so it shares neither its process group, nor its environment, nor the pipes
    // that the launcher reads.
    shell.process_group(0).env_clear().envs(std::env::vars_os().filter(|(name, _)| name == "PATH"));
    let _ = shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
}
