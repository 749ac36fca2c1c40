//! Jobs of several ranks, started by `mpirun` as a user would.

// Each test file uses a part of this module.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::program;

/// Writes a line to stderr, past the test harness, which hides what passing tests print.
pub fn say(line: &str) {
    let mut stderr = io::stderr();
    writeln!(stderr, "{line}").unwrap();
}

/// The reason why MPI cannot be tested, if there is one.
pub fn no_mpi() -> Option<String> {
    let mpirun =
        || Command::new("mpirun").arg("--version").output().is_ok_and(|output| output.status.success());
    if cfg!(not(feature = "mpi")) {
        Some("built without the feature mpi".into())
    } else if !mpirun() {
        Some("no mpirun".into())
    } else {
        None
    }
}

/// Waits until no other test runs a job: ranks share the cores.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns `mpirun` for this many ranks on this machine, with any number of cores and also as root.
pub fn launcher(ranks: usize) -> Command {
    let mut command = Command::new("mpirun");
    command.args(["--oversubscribe", "--bind-to", "none", "-n", &ranks.to_string()]);
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    // Containers may forbid a process to read the memory of another one; shared memory works everywhere.
    command.env("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
    command
}

/// Runs a program as this many ranks, to its end. The command begins with the name of the program.
pub fn mpirun(ranks: usize, command: &str) -> Output {
    let ended = Job::new(ranks, command, &[]).end(Duration::from_secs(120));
    Output { status: ended.status, stdout: ended.stdout.into_bytes(), stderr: ended.stderr.into_bytes() }
}

/// A running job. An environment variable marks its processes; dropping the job ends them.
pub struct Job {
    launcher: Child,
    begun: Instant,
    mark: String,
    files: [PathBuf; 2],
}

/// The result of a job.
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
    /// The time at which the launcher ended.
    pub at: Instant,
}

impl Ended {
    /// Returns the exit code. Panics with the output if a signal ended the launcher.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| panic!("{}: {}", self.status, self.stderr))
    }
}

impl Job {
    /// Starts a program as this many ranks. The command begins with the name of the program.
    pub fn new(ranks: usize, command: &str, variables: &[(&str, &str)]) -> Job {
        let mut words = command.split_whitespace();
        let mut launcher = launcher(ranks);
        launcher.arg(program(words.next().unwrap())).args(words).envs(variables.iter().copied());
        Job::start(launcher)
    }

    pub fn start(mut command: Command) -> Job {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let mark = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let files =
            ["out", "err"].map(|end| Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{mark}.{end}")));
        let [stdout, stderr] = files.each_ref().map(|file| Stdio::from(fs::File::create(file).unwrap()));
        command.env("NOODL_TEST_JOB", &mark).stdin(Stdio::null()).stdout(stdout).stderr(stderr);
        Job { launcher: command.spawn().unwrap(), begun: Instant::now(), mark, files }
    }

    /// Returns the rank and the process id of all running processes of the job.
    pub fn ranks(&self) -> Vec<(usize, u32)> {
        let mut ranks = Vec::new();
        for entry in fs::read_dir("/proc").unwrap() {
            let Some(pid) = entry.unwrap().file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            // The process may have ended; a process without variables is about to end.
            let Ok(variables) = fs::read(format!("/proc/{pid}/environ")) else { continue };
            let is = |name: &str| {
                variables.split(|byte| *byte == 0).find_map(|line| line.strip_prefix(name.as_bytes()))
            };
            let rank = is("OMPI_COMM_WORLD_RANK=").map(String::from_utf8_lossy);
            if let (Some(mark), Some(rank)) = (is("NOODL_TEST_JOB="), rank)
                && mark == self.mark.as_bytes()
            {
                ranks.push((rank.parse().unwrap(), pid));
            }
        }
        ranks.sort_unstable();
        ranks
    }

    pub fn launcher(&self) -> u32 {
        self.launcher.id()
    }

    /// Returns the process id of a running rank.
    pub fn pid(&self, rank: usize) -> u32 {
        self.ranks().into_iter().find(|(at, _)| *at == rank).unwrap().1
    }

    pub fn stdout(&self) -> String {
        fs::read_to_string(&self.files[0]).unwrap()
    }

    pub fn stderr(&self) -> String {
        fs::read_to_string(&self.files[1]).unwrap()
    }

    /// Waits until the job has written this many lines, and so is in the middle of its work.
    pub fn has_lines(&mut self, lines: usize) {
        while self.stdout().lines().count() < lines {
            assert!(self.begun.elapsed() < Duration::from_secs(60), "it does not begin");
            assert!(self.launcher.try_wait().unwrap().is_none(), "it has ended");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub fn has_ended(&mut self) -> bool {
        self.launcher.try_wait().unwrap().is_some()
    }

    /// Waits for the end of the launcher and of all ranks, which must come within `limit`.
    pub fn end(mut self, limit: Duration) -> Ended {
        let now = Instant::now();
        let status = loop {
            if let Some(status) = self.launcher.try_wait().unwrap() {
                break status;
            }
            assert!(now.elapsed() < limit, "mpirun is still there after {limit:?}: {}", self.stderr());
            std::thread::sleep(Duration::from_millis(2));
        };
        let at = Instant::now();
        self.is_left(limit.saturating_sub(now.elapsed()));
        Ended { status, stdout: self.stdout(), stderr: self.stderr(), at }
    }

    /// Waits until all ranks have ended, within `limit`; the launcher may still run.
    pub fn is_left(&self, limit: Duration) {
        let now = Instant::now();
        loop {
            let ranks = self.ranks();
            if ranks.is_empty() {
                return;
            }
            assert!(now.elapsed() < limit, "{ranks:?} are still there after {limit:?}: {}", self.stderr());
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // A failed test may leave processes of this job.
        if self.launcher.try_wait().is_ok_and(|status| status.is_none()) {
            let _ = self.launcher.kill();
            let _ = self.launcher.wait();
        }
        for (_, pid) in self.ranks() {
            signal(pid, "KILL");
        }
        self.files.iter().for_each(|file| drop(fs::remove_file(file)));
    }
}

/// Sends a signal to a process, if it still runs.
pub fn signal(pid: u32, name: &str) {
    let _ = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).stderr(Stdio::null()).status();
}

/// Writes a table of `days` days of three teams with separate kinds of events; the second and the third team come
/// later.
pub fn days(folder: &Path, days: usize) -> PathBuf {
    let mut text = String::from("day,kind,from,to,size,x,y\n");
    let teams = [["ann", "bob", "cid", "dot"], ["eve", "fay", "gus", "hal"], ["ida", "jon", "kim", "leo"]];
    let mut event = 0_usize;
    for day in 0..days {
        for (at, team) in teams.iter().enumerate().filter(|(at, _)| 10 * day >= 3 * days * at) {
            for (from, to) in team.iter().flat_map(|from| team.iter().map(move |to| (from, to))) {
                for kind in 4 * at..4 * at + 4 {
                    for _ in 0..1 + event * 7919 / 8 % 3 {
                        let size = (event * 37 % 1000) as f64 / 10.0 + 0.1;
                        text += &format!("{day:03},{kind},{from},{to},{size},{},{}\n", kind % 4, kind / 4);
                    }
                    event += 1;
                }
            }
        }
    }
    let path = folder.join("days.csv");
    fs::write(&path, text).unwrap();
    path
}
