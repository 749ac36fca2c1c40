//! The Python package: installed by one command into a virtual environment, then its tests.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs a command. Panics with its output if it fails.
fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

fn venv() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("python")
}

/// Makes the virtual environment. Returns the reason why the package cannot be tested, if there is one.
fn no_python() -> Option<String> {
    let says = |code: &str| Command::new("python3").args(["-c", code]).output();
    match says("import sys; sys.exit(sys.version_info < (3, 10))") {
        Err(_) => return Some("no python3".into()),
        Ok(output) if !output.status.success() => return Some("python3 is older than 3.10".into()),
        Ok(_) => {}
    }
    let made = Command::new("python3").args(["-m", "venv"]).arg(venv()).output();
    let made = made.is_ok_and(|output| output.status.success());
    (!made).then(|| "no python3-venv".into())
}

fn the_python_package_passes_its_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let python = venv().join("bin/python");
    // The README's command, and what the tests compare with.
    let package = format!("{}[test]", root.join("bindings/python").display());
    run(Command::new(&python).args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        &package,
    ]));
    let output = run(Command::new(&python)
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider"])
        .current_dir(root.join("bindings/python"))
        .env("NOODL", common::program("noodl"))
        .env("PYTHONDONTWRITEBYTECODE", "1"));
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or_default();
    assert!(last.contains(" passed"), "{text}");
    common::mpi::say(&format!("tests of the Python package: {last}"));
}

fn main() {
    run_tests!(no_python() => [the_python_package_passes_its_tests])
}
