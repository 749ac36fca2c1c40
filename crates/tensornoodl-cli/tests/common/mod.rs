//! Runs the real programs. The tests of both programs share this module.

// Each file of tests uses some of these.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

#[cfg(feature = "mpi")]
pub mod mpi;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// An empty folder for one test.
pub fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// The path of a program of this workspace: cargo builds it into the folder above the one of the tests.
pub fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join(name);
    assert!(
        program.exists(),
        "{} is missing: run the tests of the whole workspace, which build it",
        program.display()
    );
    program
}

/// Runs `noodl`; the arguments have blanks between them.
pub fn noodl(args: &str) -> Output {
    Command::new(program("noodl")).args(args.split_whitespace()).output().unwrap()
}

/// Runs `noodl-lab`; the arguments have blanks between them.
pub fn lab(args: &str) -> Output {
    Command::new(program("noodl-lab")).args(args.split_whitespace()).output().unwrap()
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// One that is here.
pub fn browser() -> Option<&'static str> {
    ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success()))
}
