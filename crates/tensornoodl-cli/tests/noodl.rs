//! The real program, run as a user would.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;

use common::{folder, noodl, stderr, stdout};
use serde_json::Value;

/// The JSON lines of a run that must succeed.
fn json(args: &str) -> Vec<Value> {
    let output = noodl(args);
    assert!(output.status.success(), "{args}: {}", stderr(&output));
    stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn help_names_every_command_and_shows_examples() {
    for args in
        ["--help", "recover --help", "demo --help", "bench limit --help", "bench growth --help", "help"]
    {
        let output = noodl(args);
        assert!(output.status.success() && output.stderr.is_empty(), "{args}");
        assert!(stdout(&output).contains("Usage: noodl"), "{args}");
    }
    let help = stdout(&noodl("--help"));
    for part in ["demo", "recover", "bench", "completions", "Examples:", "Exit codes:"] {
        assert!(help.contains(part), "{part}");
    }
    let none = noodl("");
    assert_eq!(none.status.code(), Some(2));
    assert!(stderr(&none).contains("Usage: noodl <COMMAND>") && none.stdout.is_empty());
    assert!(stdout(&noodl("--version")).starts_with("noodl "));
}

#[test]
fn completions_are_made_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = noodl(&format!("completions {shell}"));
        assert!(output.status.success() && stdout(&output).contains("start-distance"), "{shell}");
    }
}

#[test]
fn init_says_what_it_found_and_why() {
    let line =
        &json("init --synthetic patterns=30,rows=60,cols=60,alpha=0.1,beta=0.1,noise=0.2 --evidence --json")
            [0];
    assert_eq!((&line["type"], &line["method"]), (&"init".into(), &"search".into()));
    assert_eq!((&line["patterns_found"], &line["spurious"]), (&line["patterns_seen"], &0.into()));
    let rungs = line["evidence"]["ladder"].as_array().unwrap();
    assert!(rungs.len() >= 20 && line["evidence"]["seeds"].as_array().unwrap().len() == 4);
    assert!(line["scale"]["noise"].as_f64().unwrap() > 0.1);

    let folder = folder("init_says_what_it_found_and_why");
    let (patterns, picture) = (folder.join("a.csv"), folder.join("ladder.svg"));
    let words = stdout(&noodl(&format!(
        "init --synthetic patterns=30,rows=60,cols=60,alpha=0.1,beta=0.1 --evidence --picture {} -o {}",
        picture.display(),
        patterns.display()
    )));
    assert!(
        words.contains("each clearer than any that chance finds") && words.contains("<- taken"),
        "{words}"
    );
    assert!(words.contains("0 spurious") && words.contains("seven tenths"), "{words}");
    let table = fs::read_to_string(&patterns).unwrap();
    assert!(table.starts_with("pattern 1,pattern 2,") && table.lines().count() == 301, "{table}");
    assert!(fs::read_to_string(&picture).unwrap().contains("30 taken"));

    let asked = &json("init --synthetic patterns=30,rows=50,cols=50 --patterns 4 --json")[0];
    assert_eq!(asked["patterns"], 4);
    let pairs =
        &json("init --synthetic patterns=5,n=50,rows=40,cols=40,alpha=0.1,beta=0.1 --method pairs --json")[0];
    // Pairs that share a rare pattern are rarer still.
    assert!(pairs["patterns_found"].as_u64() >= Some(4) && pairs["spurious"] == 0, "{pairs}");
    assert!(pairs["hits"].as_array().unwrap().iter().all(|hits| hits.as_u64().unwrap() >= 3));
}

#[test]
fn files_are_read_in_any_layout_and_refused_by_line() {
    let folder = folder("files_are_read_in_any_layout_and_refused_by_line");
    let path = folder.join("x.tns");
    // Three patterns of 30 features, each in 5 x 5 places; columns: row, col, feature.
    let mut lines = String::from("# rows cols features\n");
    for (pattern, row, col) in (0..75).map(|at| (at / 25, at / 25 * 5 + at % 25 / 5, at % 5)) {
        for feature in (0..30).filter(|feature| (feature * (pattern + 3)) % 7 < 3) {
            lines += &format!("{row} {col} {feature} {}\n", (1 + pattern) * (1 + row % 2));
        }
    }
    fs::write(&path, &lines).unwrap();
    let layout = "--row 1 --col 2 --feature 3 --index-base 0 --recipe center";
    let found = &json(&format!("init {} {layout} --json", path.display()))[0];
    assert_eq!((&found["features"], &found["rows"], &found["fibers"]), (&29.into(), &15.into(), &75.into()));
    assert_eq!(found["patterns"], 3, "{found}");
    let checked = json(&format!("check {} {layout} --json", path.display()));
    assert!(checked.len() >= 9 && checked.iter().all(|line| line["type"] == "check"));
    let words = stdout(&noodl(&format!("check {} {layout}", path.display())));
    assert!(words.contains("3 patterns explain 100 % of the energy"), "{words}");

    let refused = |args: &str, code: i32, says: &str| {
        let output = noodl(&args.replace("FILE", &path.display().to_string()));
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{args}: {message}");
        assert!(message.contains(says) && message.lines().count() == 1, "{args}: {message}");
        assert!(output.stdout.is_empty());
    };
    refused("init FILE", 3, "x.tns, line 2: the feature index is \"0\", it must be a whole number from 1");
    refused("check FILE --row 1 --index-base 0", 2, "it must be 1, 2, 3 in some order");
    refused("check FILE --index-base 2", 2, "index_base is 2, it must be 0 or 1");
    refused("init FILE --index-base 0 --recipe sqrt", 2, "actions are log2, scale, center");
    refused("init FILE --index-base 0 --floor long", 2, "it must be a length or auto");
    refused("init FILE --index-base 0 --picture /nowhere/x.svg --evidence", 1, "cannot write /nowhere/x.svg");
    refused("init FILE --patterns 0", 2, "patterns is 0, it must be at least 1");
    refused("init FILE --method pairs --evidence", 2, "method is pairs, it must be search with");
    refused("init --synthetic --feature 3", 2, "cannot be used with");
    refused("check --synthetic patterns=10,rows=1,cols=1", 3, "has 0 fibers that are not zero");
    refused("init --synthetic n=1000000,patterns=10", 1, "GB of memory");
    refused("init", 2, "DATA");
    refused("init no-such-file.tns", 3, "cannot read no-such-file.tns");
    refused("init --synthetic noise=loud", 2, "noise is \"loud\", it must be a number");
    refused("check --synthetic colour=3", 2, "is none of n, patterns");
    refused("check --synthetic alpha=2", 2, "alpha is 2");
    fs::write(&path, "1 1 1 1\n1 1 1 inf\n").unwrap();
    refused("init FILE", 3, "line 2: the value is \"inf\"");
    fs::write(&path, "4294967294 1 1 1\n4294967294 2 1 1\n").unwrap();
    refused("init FILE", 1, "GB of memory");
    fs::write(&path, "2 1 1 -1\n1 1 2 3\n").unwrap();
    refused("init FILE --recipe log2", 3, "log2 met the value -1");
    fs::write(&path, "").unwrap();
    refused("init FILE", 3, "has no entries");
}
