//! The Python package: installed by one command into an environment of its own, then its tests.

#![allow(clippy::unwrap_used)]

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs a command; what it printed is shown if it fails.
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

/// Why it cannot be tested here, if so.
fn missing(venv: &Path) -> Option<&'static str> {
    let says = |code: &str| Command::new("python3").args(["-c", code]).output();
    match says("import sys; sys.exit(sys.version_info < (3, 10))") {
        Err(_) => return Some("there is no python3"),
        Ok(output) if !output.status.success() => return Some("python3 is older than 3.10"),
        Ok(_) => {}
    }
    let made = Command::new("python3").args(["-m", "venv"]).arg(venv).output();
    let made = made.is_ok_and(|output| output.status.success());
    (!made).then_some("python3 makes no environments (Debian's package python3-venv does)")
}

#[test]
fn the_python_package_passes_its_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let venv = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("python");
    if let Some(why) = missing(&venv) {
        // Past the harness, which keeps what passing tests print.
        writeln!(io::stderr(), "the Python package was not tested: {why}").unwrap();
        return;
    }
    let python = venv.join("bin/python");
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
        .env("NOODL", env!("CARGO_BIN_EXE_noodl"))
        .env("PYTHONDONTWRITEBYTECODE", "1"));
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or_default();
    assert!(last.contains(" passed"), "{text}");
    writeln!(io::stderr(), "tests of the Python package: {last}").unwrap();
}
