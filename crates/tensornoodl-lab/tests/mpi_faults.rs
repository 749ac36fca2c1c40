//! Failures of a rank: the job ends soon, says why, and keeps what was learned.

#![allow(clippy::unwrap_used)]

#[path = "../../tensornoodl-cli/tests/common/mod.rs"]
mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use common::mpi::{Ended, Job, days, launcher, no_mpi, say, signal, turn};
use common::{folder, noodl, program, stderr, stdout, temporary_files};
use rand::{RngExt, SeedableRng};

/// The time limit for jobs that end by themselves.
const SOON: Duration = Duration::from_secs(20);

/// Returns the messages of the programs, without those of MPI.
fn said(ended: &Ended) -> Vec<&str> {
    ended
        .stderr
        .lines()
        .filter(|line| line.starts_with("noodl: ") || line.starts_with("noodl-lab: "))
        .collect()
}

/// An error is reported once, whichever rank finds it.
fn what_is_wrong_is_said_once() {
    let _turn = turn();
    let folder = folder("mpi_what_is_wrong_is_said_once");
    let at = |name: &str| folder.join(name).display().to_string();
    let table = days(&folder, 20).display().to_string();
    let text = fs::read_to_string(&table).unwrap();
    // Behind two thirds of the table.
    let line = text.lines().count() * 3 / 4;
    let bad: Vec<&str> = text
        .lines()
        .enumerate()
        .map(|(at, row)| if at == line { "1,2,ann,bob,x,1,1" } else { row })
        .collect();
    fs::write(at("bad.csv"), bad.join("\n")).unwrap();
    std::os::unix::fs::symlink("/dev/full", at("full")).unwrap();
    let files = fs::read_dir(&folder).unwrap().count();
    let axes = "--feature kind --row from --col to --step day";
    for (args, code, message) in [
        (
            format!("noodl learn {} {axes} --value sum(size) -o {}", at("bad.csv"), at("x")),
            3,
            format!("line {}, column size: \"x\"", line + 1),
        ),
        (format!("noodl learn {} {axes} -o {}", at("none.csv"), at("x")), 3, "cannot read".into()),
        (format!("noodl learn {table} {axes} -o {}", at("no/x")), 1, "cannot write".into()),
        (format!("noodl learn {table} {axes} -q -o {}", at("full")), 1, "No space left on device".into()),
        (format!("noodl learn {table} {axes} -o {} --tau=-1", at("x")), 2, "tau is -1".into()),
        (
            format!("noodl learn {table} {axes} -o {} --recipe root", at("x")),
            2,
            "the recipe has \"root\"".into(),
        ),
        (
            format!("noodl learn {table} {axes} -o {} --start-model {table}", at("x")),
            3,
            "cannot be read as a model".into(),
        ),
        ("noodl-lab recover --patterns 0".into(), 2, "patterns is 0".into()),
        ("noodl-lab recover --start sky".into(), 2, "invalid value 'sky'".into()),
        (
            format!("noodl stats {table} {axes}"),
            2,
            "started 3 times at once; of noodl, only learn can run as several ranks".into(),
        ),
        (
            "noodl-lab recover --rows 20 --cols 20 --patterns 10 --tolerance 0 --max-steps 1 --strict".into(),
            4,
            "not converged".into(),
        ),
    ] {
        let ended = Job::new(3, &args, &[]).end(SOON);
        assert_eq!(ended.code(), code, "{args}: {}", ended.stderr);
        assert_eq!(ended.stderr.matches(&message).count(), 1, "{args}: {}", ended.stderr);
        assert_eq!(said(&ended).len(), 1, "{args}: {}", ended.stderr);
        // What MPI adds is no more than a screen.
        assert!(ended.stderr.lines().count() < 24, "{args}: {}", ended.stderr);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), files, "{args}: nothing is left half written");
    }
    let version = Job::new(3, "noodl --version", &[]).end(SOON);
    assert_eq!((version.code(), version.stdout.lines().count(), version.stderr.as_str()), (0, 1, ""));
    let patience = Job::new(3, "noodl-lab recover", &[("NOODL_PATIENCE", "long")]).end(SOON);
    assert_eq!((patience.code(), said(&patience).len()), (2, 1), "{}", patience.stderr);
}

/// The last rank starts in another folder, where the table has the same length and one other byte.
fn a_rank_that_sees_another_table() {
    let _turn = turn();
    let folders = ["mpi_sees_one", "mpi_sees_another"].map(folder);
    let text = fs::read_to_string(days(&folders[0], 20)).unwrap();
    // In the share of the first rank, so the last rank need not read it.
    let other = text.replacen(",ann,bob,", ",ann,cid,", 1);
    assert!(other.len() == text.len() && other != text);
    fs::write(folders[1].join("days.csv"), other).unwrap();
    let model = folders[0].join("model.safetensors");
    let start = |last: &Path| {
        let mut command = launcher(2);
        for (separator, folder) in [(&[][..], folders[0].as_path()), (&[":", "-n", "1"], last)] {
            command.args(separator).arg("-wdir").arg(folder).arg(program("noodl"));
            command.args("learn days.csv --feature kind --row from --col to -q -o".split(' ')).arg(&model);
        }
        Job::start(command).end(SOON)
    };
    let same = start(&folders[0]);
    assert_eq!(same.code(), 0, "{}", same.stderr);
    fs::remove_file(&model).unwrap();
    let refused = start(&folders[1]);
    assert_eq!((refused.code(), said(&refused).len()), (3, 1), "{}", refused.stderr);
    let message = said(&refused)[0];
    assert!(message.contains("rank 2 sees another file days.csv than the first rank"), "{message}");
    assert!(message.contains("put the file where all ranks see it"), "{message}");
    assert!(!model.exists());
}

/// A stream of many steps, with a checkpoint after every step.
struct Stream {
    folder: PathBuf,
    args: String,
    model: PathBuf,
    /// The bytes of the model of an undisturbed process.
    bits: Vec<u8>,
}

impl Stream {
    fn new(test: &str, steps: usize) -> Stream {
        let folder = folder(test);
        let table = days(&folder, steps);
        let model = folder.join("model.safetensors");
        let args = format!(
            "learn {} --feature kind --row from --col to --step day --checkpoint-every 1 --resume --json -o {}",
            table.display(),
            model.display()
        );
        let alone = noodl(&args);
        assert!(alone.status.success(), "{}", stderr(&alone));
        let bits = fs::read(&model).unwrap();
        fs::remove_file(&model).unwrap();
        Stream { folder, args, model, bits }
    }

    /// Starts a job and waits until it is in the middle of the stream.
    fn job(&self, ranks: usize, patience: &str) -> Job {
        let _ = fs::remove_file(&self.model);
        let mut job = Job::new(ranks, &format!("noodl {}", self.args), &[("NOODL_PATIENCE", patience)]);
        job.has_lines(20);
        job
    }

    /// Removes the temporary files that killed processes have left behind. Returns how many there were.
    fn remove_temporary_files(&self) -> usize {
        let files = temporary_files(&self.folder);
        files.iter().for_each(|file| fs::remove_file(file).unwrap());
        files.len()
    }

    /// Returns the number of steps in the model file, which must be readable.
    fn steps(&self) -> usize {
        assert!(
            fs::read_dir(&self.folder).unwrap().count() <= 3,
            "the table, the model, and a temporary file"
        );
        let shown = noodl(&format!("show {}", self.model.display()));
        assert!(shown.status.success(), "{}", stderr(&shown));
        let shown = stdout(&shown);
        let (line, _) = shown.split_once(" steps learned").unwrap();
        line.rsplit(' ').nth(2).unwrap().parse().unwrap()
    }

    /// Continues the stream to its end.
    fn finish(&self, ranks: usize) {
        self.remove_temporary_files();
        let ended = Job::new(ranks, &format!("noodl {}", self.args), &[]).end(Duration::from_secs(240));
        assert!(ended.status.success(), "{}", ended.stderr);
        assert!(fs::read(&self.model).unwrap() == self.bits, "other bits after {ranks} ranks went on");
        assert_eq!(temporary_files(&self.folder), Vec::<PathBuf>::new());
    }
}

/// If a rank is killed, the launcher ends the others.
fn a_rank_that_is_killed() {
    let _turn = turn();
    let stream = Stream::new("mpi_a_rank_that_is_killed", 600);
    for rank in 0..3 {
        let job = stream.job(3, "300");
        let now = Instant::now();
        signal(job.pid(rank), "KILL");
        let ended = job.end(Duration::from_secs(15));
        say(&format!("rank {rank} killed: the job ended after {:.1?}", ended.at - now));
        assert_eq!(ended.code(), 137, "{}", ended.stderr);
        assert!(ended.stderr.contains(&format!("process rank {rank} ")), "{}", ended.stderr);
        assert!(stream.steps() >= 19);
        stream.finish(4 - rank);
    }
}

/// If a rank is stopped, only the other ranks can notice. They wait for 3 s, and need a few more to end.
fn a_rank_that_is_stopped() {
    let _turn = turn();
    let stream = Stream::new("mpi_a_rank_that_is_stopped", 600);
    for rank in 0..3 {
        let job = stream.job(3, "3");
        let now = Instant::now();
        signal(job.pid(rank), "STOP");
        let ended = job.end(Duration::from_secs(3 + 2 + 5 + 5));
        say(&format!(
            "rank {rank} stopped, with 3 s of patience: the job ended after {:.1?}",
            ended.at - now
        ));
        assert_eq!(ended.code(), 1, "{}", ended.stderr);
        let named = format!("has waited 3 s for rank {rank} in exchange");
        assert!(said(&ended).iter().any(|line| line.contains(&named)), "{}", ended.stderr);
        assert!(stream.steps() >= 19);
        stream.finish(rank + 1);
    }
}

/// A rank that is stopped while MPI starts: patience begins with the start. The rank is in MPI's initialization or, if
/// that was fast, in an early exchange.
fn a_rank_that_is_stopped_at_the_start() {
    let _turn = turn();
    let recover = "noodl-lab recover --rows 50 --cols 50 --patterns 20 --tolerance 0 --max-steps 1000000 -q";
    for (at, millis) in [0, 50, 100, 200, 300].into_iter().enumerate() {
        let rank = at % 3;
        let job = Job::new(3, recover, &[("NOODL_PATIENCE", "2")]);
        let pid = loop {
            match job.ranks().into_iter().find(|(at, _)| *at == rank) {
                Some((_, pid)) => break pid,
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        std::thread::sleep(Duration::from_millis(millis));
        let now = Instant::now();
        signal(pid, "STOP");
        // Patience, 2 s in which connected ranks may report, and a few seconds for the launcher.
        let ended = job.end(Duration::from_secs(2 + 2 + 4));
        say(&format!(
            "rank {rank} stopped after {millis} ms, with 2 s of patience: the job ended after {:.1?}",
            ended.at - now
        ));
        assert_ne!(ended.code(), 0, "{}", ended.stderr);
        let told = |line: &&str| {
            line.contains("has waited") && line.ends_with("stopped, stuck, or cut off; the job ends")
        };
        assert!(said(&ended).iter().any(told), "{}", ended.stderr);
    }
}

/// A job that is suspended as a whole for longer than its patience goes on afterwards.
fn a_job_that_is_suspended_goes_on() {
    let _turn = turn();
    let stream = Stream::new("mpi_a_job_that_is_suspended_goes_on", 600);
    let job = stream.job(3, "2");
    let pids: Vec<u32> = job.ranks().into_iter().map(|(_, pid)| pid).collect();
    assert_eq!(pids.len(), 3);
    pids.iter().for_each(|pid| signal(*pid, "STOP"));
    std::thread::sleep(Duration::from_secs(5));
    pids.iter().for_each(|pid| signal(*pid, "CONT"));
    let ended = job.end(Duration::from_secs(240));
    assert!(ended.status.success(), "{}", ended.stderr);
    assert!(fs::read(&stream.model).unwrap() == stream.bits);
}

/// If the launcher is killed, all ranks end.
fn a_launcher_that_is_killed() {
    let _turn = turn();
    let stream = Stream::new("mpi_a_launcher_that_is_killed", 600);
    let job = stream.job(3, "3");
    let now = Instant::now();
    signal(job.launcher(), "KILL");
    let ended = job.end(SOON);
    say(&format!("the launcher killed: the last rank ended after {:.1?}", now.elapsed()));
    assert_eq!(ended.status.code(), None);
    assert!(stream.steps() >= 19);
    stream.finish(2);
}

/// A signal to one rank, or to the launcher, ends all ranks, and what was learned is kept.
fn asked_to_end() {
    let _turn = turn();
    let stream = Stream::new("mpi_asked_to_end", 600);
    for (who, name) in [(Some(0), "TERM"), (Some(2), "TERM"), (Some(1), "INT"), (None, "TERM"), (None, "INT")]
    {
        let job = stream.job(3, "300");
        let now = Instant::now();
        signal(who.map_or(job.launcher(), |rank| job.pid(rank)), name);
        let ended = job.end(SOON);
        say(&format!("{name} to {who:?}: the job ended after {:.1?}", ended.at - now));
        assert_ne!(ended.code(), 0, "{}", ended.stderr);
        if who.is_some() {
            assert_eq!(ended.code(), if name == "TERM" { 143 } else { 130 }, "{}", ended.stderr);
            let steps = stream.steps();
            let sentence = format!("noodl: rank 0: stopped after {steps} steps; ");
            assert!(said(&ended).len() == 1 && said(&ended)[0].starts_with(&sentence), "{}", ended.stderr);
        }
        assert!(stream.steps() >= 19);
        stream.finish(3);
    }
}

/// The folder of the model disappears during the run.
fn a_checkpoint_that_cannot_be_written() {
    let _turn = turn();
    let stream = Stream::new("mpi_a_checkpoint_that_cannot_be_written", 600);
    let job = stream.job(3, "300");
    let gone = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mpi_gone");
    let _ = fs::remove_dir_all(&gone);
    fs::rename(&stream.folder, &gone).unwrap();
    let ended = job.end(SOON);
    assert_eq!(ended.code(), 1, "{}", ended.stderr);
    let [first, last] = &said(&ended)[..] else { panic!("{}", ended.stderr) };
    assert!(first.starts_with("noodl: no checkpoint: cannot write "), "{}", ended.stderr);
    assert!(last.starts_with("noodl: rank 0: cannot write "), "{}", ended.stderr);
    fs::rename(&gone, &stream.folder).unwrap();
    assert!(stream.steps() >= 19);
    stream.finish(3);
}

/// The script for Slurm, with a replacement for `srun`: it goes on after a failure with one rank fewer, and does not
/// repeat wrong usage.
fn the_slurm_script_goes_on() {
    let _turn = turn();
    let stream = Stream::new("mpi_the_slurm_script", 600);
    let bin = folder("mpi_the_slurm_script_bin");
    let srun = bin.join("srun");
    // What it is told itself stands before the program; each try has a rank less.
    let script = "#!/bin/sh\nwhile [ \"${1#--}\" != \"$1\" ]; do shift; done\necho try >> \"$0.tries\"\n\
                  exec mpirun --oversubscribe --bind-to none -n $((4 - $(grep -c try \"$0.tries\"))) \"$@\"\n";
    fs::write(&srun, script).unwrap();
    fs::set_permissions(&srun, fs::Permissions::from_mode(0o755)).unwrap();
    let programs = program("noodl").parent().unwrap().to_owned();
    let start = |args: &str| {
        let _ = fs::remove_file(bin.join("srun.tries"));
        let path = format!("{}:{}:{}", bin.display(), programs.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("bash");
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/noodl.sbatch"));
        command.args(args.split_whitespace()).env("PATH", path).env("NOODL_PAUSE", "0");
        command.envs(launcher(1).get_envs().filter_map(|(name, to)| Some((name, to?))));
        Job::start(command)
    };
    let tries = || fs::read_to_string(bin.join("srun.tries")).unwrap().lines().count();
    let begin = stream.args.replace(" --checkpoint-every 1 --resume", "");
    // The words of a command are kept in the model, in their order.
    let words = begin.replacen("learn", "learn --checkpoint-every 10 --resume", 1);
    assert!(noodl(&words).status.success());
    let bits = fs::read(&stream.model).unwrap();
    fs::remove_file(&stream.model).unwrap();
    let mut job = start(&begin);
    job.has_lines(20);
    signal(job.pid(1), "KILL");
    let ended = job.end(Duration::from_secs(240));
    assert!(ended.status.success(), "{}", ended.stderr);
    assert!(ended.stderr.contains("noodl.sbatch: try 1 of 5 ended with 137"), "{}", ended.stderr);
    assert_eq!(tries(), 2);
    assert!(fs::read(&stream.model).unwrap() == bits);
    let ended = start(&format!("{begin} --tau=-1")).end(SOON);
    assert_eq!((ended.code(), tries()), (2, 1), "{}", ended.stderr);
}

/// Fifty kills of any rank at any moment; each time the run goes on with another number of ranks.
fn a_stream_that_was_killed_ends_in_the_same_bits() {
    let _turn = turn();
    let stream = Stream::new("mpi_a_stream_that_was_killed", 200);
    let begun = Instant::now();
    stream.finish(2);
    let whole = begun.elapsed();
    fs::remove_file(&stream.model).unwrap();
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(42);
    let (mut killed, mut ends, mut before, mut halves, mut stuck) = (0, 0, 0, 0, 0);
    // Fifty, and more until one has hit a file that was being written.
    while killed < 50 || halves == 0 && killed < 150 {
        // Some begin anew and end as soon as a rank is there: before the first checkpoint.
        let anew = killed % 10 == 1;
        if anew && stream.model.exists() {
            fs::remove_file(&stream.model).unwrap();
        }
        let ranks = rng.random_range(1..=4);
        stream.remove_temporary_files();
        let mut job = Job::new(ranks, &format!("noodl {}", stream.args), &[("NOODL_PATIENCE", "5")]);
        std::thread::sleep(whole.mul_f64(if anew { 0.0 } else { rng.random_range(0.0..0.5) }));
        // Some in the middle of writing.
        while killed % 3 == 0 && temporary_files(&stream.folder).is_empty() && !job.has_ended() {
            std::thread::sleep(Duration::from_micros(50));
        }
        let mut there = job.ranks();
        while there.is_empty() && !job.has_ended() {
            there = job.ranks();
        }
        if !there.is_empty() {
            signal(there[rng.random_range(0..there.len())].1, "KILL");
        }
        job.is_left(Duration::from_secs(5 + 10 + 15));
        // Open MPI's launcher may miss that a rank has gone before it was there.
        let now = Instant::now();
        while !job.has_ended() && now.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(2));
        }
        if !job.has_ended() {
            stuck += 1;
            signal(job.launcher(), "KILL");
        }
        let ended = job.end(Duration::from_secs(5));
        if ended.status.success() {
            assert!(fs::read(&stream.model).unwrap() == stream.bits, "after {killed} kills");
            fs::remove_file(&stream.model).unwrap();
            ends += 1;
            continue;
        }
        // A launcher whose ranks go before they have come may end by a signal itself.
        assert!(matches!(ended.status.code(), None | Some(137)), "{}: {}", ended.status, ended.stderr);
        killed += 1;
        halves += stream.remove_temporary_files();
        if stream.model.exists() {
            assert!(stream.steps() > 0);
        } else {
            before += 1;
        }
    }
    stream.finish(3);
    say(&format!(
        "{killed} kills: {before} before the first checkpoint, {halves} while writing; {} ends; the launcher stayed {stuck} times",
        ends + 1
    ));
    assert!(before > 0 && halves > 0 && stuck < 5, "{before} {halves} {stuck}");
}

fn main() {
    run_tests!(no_mpi() => [what_is_wrong_is_said_once, a_rank_that_sees_another_table, a_rank_that_is_killed, a_rank_that_is_stopped, a_rank_that_is_stopped_at_the_start, a_job_that_is_suspended_goes_on, a_launcher_that_is_killed, asked_to_end, a_checkpoint_that_cannot_be_written, the_slurm_script_goes_on, a_stream_that_was_killed_ends_in_the_same_bits])
}
