//! Gives mutated files to all readers, without libFuzzer: the seeds of `fuzz`, with bytes changed, cut out, repeated and
//! mixed. It ends at the first panic, and at the first file that takes longer than ten seconds.
//!
//! `cargo run --release -p tensornoodl-data --example mutate -- SECONDS SEED`

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[path = "../../../fuzz/fuzz_targets/common/mod.rs"]
mod common;

/// A reader and the name of its seeds.
type Target = (&'static str, fn(&[u8]));

const TARGETS: [Target; 7] = [
    ("csv", common::csv),
    ("parquet", common::parquet),
    ("npy", common::npy),
    ("npz", common::npz),
    ("tns", common::tns),
    ("model", common::model),
    ("words", |bytes| common::words(&String::from_utf8_lossy(bytes))),
];

/// Pieces of text that mean something to one of the readers.
const PIECES: [&str; 20] = [
    "\"",
    ",",
    "\r\n",
    "\n",
    ".",
    "-",
    "e308",
    "1e-320",
    "99999999999999999999",
    "-1",
    "0",
    "NaN",
    "inf",
    "1970-01-01",
    "9999-12-31",
    "\u{fe0f}",
    "\0",
    "(",
    ")",
    "'",
];

/// The longest time that a reader may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Pseudorandom numbers.
struct Draws(u64);

impl Draws {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end.max(1)
    }

    /// Returns a range of at most 64 bytes.
    fn range(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.below(length + 1);
        start..(start + self.below(65)).min(length)
    }
}

/// Changes a file in one to four places.
fn mutate(file: &mut Vec<u8>, other: &[u8], draws: &mut Draws) {
    for _ in 0..=draws.below(4) {
        let at = draws.below(file.len());
        match draws.below(9) {
            0 | 1 if !file.is_empty() => file[at] ^= 1 << draws.below(8),
            2 if !file.is_empty() => file[at] = draws.below(256) as u8,
            // Numbers of headers, also those that are larger than the file.
            3 if !file.is_empty() => {
                let end = (at + (1 << draws.below(4))).min(file.len());
                file[at..end].fill([0, 0x7f, 0x80, 0xff][draws.below(4)]);
            }
            4 => drop(file.drain(draws.range(file.len()))),
            5 => {
                let again = file[draws.range(file.len())].to_vec();
                file.splice(at..at, again);
            }
            6 => {
                let foreign = other[draws.range(other.len())].to_vec();
                file.splice(at..at, foreign);
            }
            7 => drop(file.splice(at..at, PIECES[draws.below(PIECES.len())].bytes())),
            8 if draws.below(4) == 0 => file.truncate(at),
            _ => {}
        }
    }
}

fn seeds(kind: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(kind);
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

fn main() {
    let mut words = std::env::args().skip(1).map(|word| word.parse::<u64>().expect("a number"));
    let (seconds, seed) = (words.next().unwrap_or(60), words.next().unwrap_or(1));
    let (begun, mut draws, mut longest) = (Instant::now(), Draws(seed), Duration::ZERO);
    let all: Vec<Vec<Vec<u8>>> = TARGETS.iter().map(|target| seeds(target.0)).collect();
    let current = std::env::temp_dir().join(format!("noodl-mutate-{}", std::process::id()));
    let mut files = 0;
    while begun.elapsed() < Duration::from_secs(seconds) {
        for (seeds, (kind, read)) in all.iter().zip(TARGETS) {
            let mut file = seeds[draws.below(seeds.len())].clone();
            mutate(&mut file, &seeds[draws.below(seeds.len())], &mut draws);
            // A process that is aborted leaves the file behind.
            fs::write(&current, &file).unwrap();
            let start = Instant::now();
            let broken = catch_unwind(|| read(&file)).is_err();
            let time = start.elapsed();
            if broken || time > PATIENCE {
                println!("{kind}: {} took {time:?}, panic: {broken}", current.display());
                std::process::exit(1);
            }
            longest = longest.max(time);
            files += 1;
        }
    }
    fs::remove_file(&current).unwrap();
    println!(
        "{files} files of {} kinds in {seconds} s, no panic; the longest took {longest:?}",
        TARGETS.len()
    );
}
