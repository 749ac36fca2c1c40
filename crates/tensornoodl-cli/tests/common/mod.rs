//! Runs the real programs. The tests of both programs share this module.

// Each test file uses a part of this module.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

pub mod mpi;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use libtest_mimic::{Arguments, Trial};

/// Makes an empty folder for one test.
pub fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Returns the temporary files in a folder that a killed process has left behind.
pub fn temporary_files(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(".noodl-")).collect()
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

/// Runs test functions as the standard harness does. `needs => [tests]`: where `needs` is a reason why tests cannot
/// run on this machine, they are reported as ignored, with the reason.
#[macro_export]
macro_rules! run_tests {
    ($($needs:expr => [$($test:path),+ $(,)?]),+ $(,)?) => {{
        let mut trials = Vec::new();
        $(
            let needs: Option<String> = $needs;
            $(trials.push($crate::common::trial(stringify!($test), needs.as_deref(), $test));)+
        )+
        $crate::common::run(trials)
    }};
}

/// A test, ignored if there is a reason.
pub fn trial(name: &str, reason: Option<&str>, test: fn()) -> Trial {
    let trial = Trial::test(name, move || {
        test();
        Ok(())
    });
    match reason {
        Some(reason) => trial.with_ignored_flag(true).with_kind(reason),
        None => trial,
    }
}

/// Runs all tests, reports them, and ends the process.
pub fn run(trials: Vec<Trial>) -> ! {
    libtest_mimic::run(&Arguments::from_args(), trials).exit()
}

/// The reason why a browser cannot be tested, if there is one.
pub fn no_browser() -> Option<String> {
    browser().is_none().then(|| "no chromium".into())
}

/// The reason why real data cannot be tested, if there is one.
pub fn no_data() -> Option<String> {
    std::env::var_os("NOODL_DATA").is_none().then(|| "NOODL_DATA is not set".into())
}

/// The name of a browser that this machine has.
pub fn browser() -> Option<&'static str> {
    ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success()))
}
