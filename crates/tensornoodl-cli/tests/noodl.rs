//! The program `noodl`, run as a user would.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{folder, noodl, stderr, stdout};
use serde_json::Value;

/// The JSON lines of a run that must succeed.
fn json(args: &str) -> Vec<Value> {
    let output = noodl(args);
    assert!(output.status.success(), "{args}: {}", stderr(&output));
    stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Runs a command that must be refused with one line on stderr, which says this.
fn refused(args: &str, code: i32, says: &str) {
    let output = noodl(args);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{args}: {message}");
    assert!(message.starts_with("noodl: ") && message.contains(says), "{args}: {message}");
    assert_eq!(message.lines().count(), 1, "{args}: {message}");
    assert!(output.stdout.is_empty(), "{args}");
}

#[test]
fn help_names_every_command_and_shows_examples() {
    for args in ["--help", "demo --help", "check --help", "learn --help", "help"] {
        let output = noodl(args);
        assert!(output.status.success() && output.stderr.is_empty(), "{args}");
        assert!(stdout(&output).contains("Usage: noodl"), "{args}");
    }
    let help = stdout(&noodl("--help"));
    for part in ["demo", "check", "learn", "completions", "noodl-lab", "Examples:", "Exit codes:"] {
        assert!(help.contains(part), "{part}");
    }
    let none = noodl("");
    assert_eq!(none.status.code(), Some(2));
    assert!(stderr(&none).contains("Usage: noodl <COMMAND>") && none.stdout.is_empty());
    assert!(stdout(&noodl("--version")).starts_with("noodl "));
}

#[test]
fn wrong_usage_is_refused_in_one_line() {
    refused("demos", 2, "unrecognized subcommand 'demos' (tip: a similar subcommand exists: 'demo')");
    refused("completions klingon", 2, "invalid value 'klingon' for '<SHELL>'");
    refused("check x.npy --threads 0", 2, "threads is 0, it must be at least 1");
    refused("learn x.npy -o x --start old.safetensors", 2, "a similar argument exists: '--start-model'");
}

#[test]
fn commands_of_the_laboratory_are_named() {
    for command in ["recover", "bench", "paper"] {
        let line = format!(
            "noodl: '{command}' is now a command of noodl-lab: cargo run --release --bin noodl-lab -- {command}\n"
        );
        let output = noodl(&format!("{command} --json"));
        assert_eq!((output.status.code(), stderr(&output)), (Some(2), line));
    }
    let output = noodl("init mail.tns");
    let line = "noodl: 'init' is now part of check: use noodl check --evidence\n";
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(2), line));
}

#[test]
fn completions_are_made_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = noodl(&format!("completions {shell}"));
        assert!(output.status.success() && stdout(&output).contains("checkpoint-every"), "{shell}");
    }
}

/// Three patterns of 30 features, each in 5 x 5 places, as a .tns file (columns: row, col, feature) and as CSV.
fn three_patterns(folder: &Path) -> [PathBuf; 2] {
    let (mut tns, mut csv) =
        (String::from("# rows cols features\n"), String::from("who,with,what,size,day\n"));
    for (pattern, row, col) in (0..75).map(|at| (at / 25, at / 25 * 5 + at % 25 / 5, at % 5)) {
        for feature in (0..30).filter(|feature| (feature * (pattern + 3)) % 7 < 3) {
            let value = (1 + pattern) * (1 + row % 2);
            tns += &format!("{row} {col} {feature} {value}\n");
            csv += &format!("r{row},c{col},{feature},{value},2024-01-0{}\n", 1 + pattern);
        }
    }
    let paths = ["x.tns", "x.csv"].map(|name| folder.join(name));
    fs::write(&paths[0], tns).unwrap();
    fs::write(&paths[1], csv).unwrap();
    paths
}

#[test]
fn check_takes_tables_and_arrays() {
    let folder = folder("check_takes_tables_and_arrays");
    let [tns, csv] = three_patterns(&folder).map(|path| path.display().to_string());
    let from_array = format!("check {tns} --row 1 --col 2 --feature 3 --recipe center");
    let from_table =
        format!("check {csv} --row who --col with --feature bin(what,1) --value sum(size) --recipe center");
    for command in [&from_array, &from_table] {
        let lines = json(&format!("{command} --json"));
        assert!(lines.len() >= 9 && lines.iter().all(|line| line["type"] == "check"), "{lines:?}");
        let words = stdout(&noodl(command));
        assert!(words.contains("3 patterns explain 100 % of the energy"), "{words}");
        let lines = json(&format!("{command} --json --evidence --threads 1"));
        let found = lines.last().unwrap();
        assert_eq!((&found["type"], &found["patterns"]), (&"patterns".into(), &3.into()), "{found}");
        assert_eq!([&found["features"], &found["rows"], &found["fibers"]], [29, 15, 75], "{found}");
        assert!(found["evidence"]["ladder"].as_array().unwrap().len() >= 3, "{found}");
    }
    // Arrays may count from 0 or from 1.
    assert_eq!(json(&format!("{from_array} --json --index-base 0")), json(&format!("{from_array} --json")));
    // The other axes of an array follow from the given ones.
    assert_eq!(
        json(&format!("check {tns} --feature 3 --recipe center --json")),
        json(&format!("{from_array} --json"))
    );
    let first = stdout(&noodl(&format!("{from_table} --step day(day)")));
    assert!(first.contains("step 2024-01-01 (the first of 3): ") && first.contains("1 pattern"), "{first}");
}

#[test]
fn check_reports_patterns_and_writes_them() {
    let folder = folder("check_reports_patterns_and_writes_them");
    let [tns, _] = three_patterns(&folder).map(|path| path.display().to_string());
    let (patterns, picture) = (folder.join("a.csv"), folder.join("ladder.svg"));
    let command = format!("check {tns} --feature 3 --recipe center");
    let words = stdout(&noodl(&format!(
        "{command} --evidence --picture {} --patterns-out {}",
        picture.display(),
        patterns.display()
    )));
    for part in ["each clearer than any that chance finds", "<- taken", "seven tenths", "ladder.svg"] {
        assert!(words.contains(part), "{part}: {words}");
    }
    let table = fs::read_to_string(&patterns).unwrap();
    assert!(table.starts_with("pattern 1,pattern 2,pattern 3\n") && table.lines().count() == 30, "{table}");
    assert!(fs::read_to_string(&picture).unwrap().contains("3 taken"));
    let two = json(&format!("{command} --patterns 2 --json"));
    assert_eq!(two.last().unwrap()["patterns"], 2, "{two:?}");
    let long = json(&format!("{command} --min-length 5 --json"));
    assert_eq!(
        (&long.last().unwrap()["min_length"], long.last().unwrap()["fibers_searched"].as_u64() < Some(75)),
        (&5.0.into(), true)
    );
}

#[test]
fn check_refuses_what_is_wrong() {
    let folder = folder("check_refuses_what_is_wrong");
    let [path, csv] = three_patterns(&folder).map(|path| path.display().to_string());
    let wrong = |args: &str, code: i32, says: &str| refused(&args.replace("FILE", &path), code, says);
    wrong("check FILE --index-base 2", 2, "index_base is 2, it must be 0 or 1");
    wrong("check FILE --recipe root", 2, "actions are log2, sqrt, presence, scale, center");
    wrong("check FILE --min-length long", 2, "it must be a length or auto");
    wrong("check FILE --picture /nowhere/x.svg --evidence", 1, "cannot write /nowhere/x.svg");
    wrong("check FILE --patterns-out FILE", 1, "needs that file for something else");
    wrong("check FILE --patterns 0", 2, "patterns is 0, it must be at least 1");
    wrong("check", 2, "TABLE");
    wrong("check no-such-file.tns", 3, "cannot read no-such-file.tns");
    refused(&format!("check {csv}"), 2, "give --feature, --row and --col");
    fs::write(&path, "1 1 1 1\n1 1 1 inf\n").unwrap();
    wrong("check FILE", 3, "line 2: the value is \"inf\"");
    fs::write(&path, "1 1 1 1\n4294967294 2 1 1\n").unwrap();
    wrong("check FILE", 3, "4294967294 stretches bin(1,1) to more than 1000000 labels");
    fs::write(&path, "1 1 1 1\n500000 2 1 1\n").unwrap();
    wrong("check FILE", 3, "allow them with --max-features 500000");
    // 20,000 fibers of 500,000 features.
    let entry = |at: usize| format!("{at} {} {} 1\n", at % 200 + 1, at / 200 % 100 + 1);
    fs::write(&path, (1..=500_000).map(entry).collect::<String>()).unwrap();
    wrong("check FILE", 1, "GB of memory");
    fs::write(&path, "2 1 1 -1\n1 1 2 3\n").unwrap();
    wrong("check FILE --recipe log2", 3, "log2 met the value -1");
    wrong("check FILE --recipe sqrt", 3, "sqrt met the value -1");
    fs::write(&path, "").unwrap();
    wrong("check FILE", 3, "has no events to learn from");
}
