//! Tables of events and models, run as a user would.

#![allow(clippy::unwrap_used, clippy::print_stderr, clippy::print_stdout)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use assert_cmd::cargo::cargo_bin;
use common::{folder, noodl, stderr, stdout};
use serde_json::Value;

/// E-mails of a firm: two teams, one busy in spring, one in autumn, over two years; each team writes within itself.
fn firm(folder: &Path) -> PathBuf {
    let mut text = String::from("time,from,to,size\n");
    let teams = [(["ann", "bob", "cid", "dot"], [3, 4, 5]), (["eve", "fay", "gus", "hal"], [9, 10, 11])];
    let mut event = 0_u64;
    for (team, months) in teams {
        for (from, to) in team.iter().flat_map(|from| team.iter().map(move |to| (from, to))) {
            for (year, month) in
                [2001, 2002].iter().flat_map(|year| months.iter().map(move |month| (year, month)))
            {
                for mail in 0..(3 + event % 2) {
                    text += &format!("{year}-{month:02}-{:02} 09:30,{from},{to},{event}\n", mail + 1);
                }
                event += 1;
            }
        }
    }
    let path = folder.join("firm.csv");
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_table_becomes_a_model_with_names() {
    let folder = folder("a_table_becomes_a_model_with_names");
    let table = firm(&folder).display().to_string();
    let axes = format!("{table} --feature month(time) --row from --col to --where from!=@to");
    let stats = noodl(&format!("stats {axes} --json"));
    let stats: Value = serde_json::from_str(&stdout(&stats)).unwrap();
    let shape = ["features", "rows", "cols", "fibers", "steps"].map(|name| stats[name].as_u64().unwrap());
    assert_eq!(shape, [21, 8, 8, 24, 1]);
    assert!(stdout(&noodl(&format!("stats {axes}"))).contains("21 features x 8 rows x 8 cols"));
    let model = folder.join("firm.safetensors");
    let learned = noodl(&format!("learn {axes} --recipe log2,scale -o {}", model.display()));
    assert!(learned.status.success(), "{}", stderr(&learned));
    assert!(stdout(&learned).starts_with("2 patterns in "), "{}", stdout(&learned));
    let shown = stdout(&noodl(&format!("show {}", model.display())));
    let rows: Vec<&str> = shown.lines().filter(|line| line.starts_with("  rows")).collect();
    let team = |line: &&str, names: [&str; 4]| names.iter().all(|name| line.contains(name));
    assert_eq!(rows.len(), 2, "{shown}");
    assert!(rows.iter().any(|line| team(line, ["ann", "bob", "cid", "dot"])), "{shown}");
    assert!(rows.iter().any(|line| team(line, ["eve", "fay", "gus", "hal"])), "{shown}");
    // A page about it, whole in one file.
    let page = folder.join("firm.html");
    assert!(noodl(&format!("report {} -o {}", model.display(), page.display())).status.success());
    let text = fs::read_to_string(&page).unwrap();
    assert!(text.contains("2 patterns over 21 features") && text.contains("id=\"pattern-2\""));
    assert!(!text.contains("src=\"http") && !text.contains("href=\"http") && text.len() < 2_000_000);
    fs::remove_file(&page).unwrap();
    // What is wrong is said, and the old model is still there.
    let before = fs::read(&model).unwrap();
    for (wrong, code, message) in [
        (format!("learn {table} --feature month(date) --row from --col to"), 3, "has no column \"date\""),
        (
            format!("learn {table} --feature month(size) --row from --col to"),
            3,
            "line 2, column size: \"0\" is not a date",
        ),
        (format!("learn {table} --feature year(time) --row from --col to"), 2, "\"year(time)\" is given"),
        (format!("learn {axes} --recipe sqrt"), 2, "the recipe has \"sqrt\""),
        (format!("learn {axes} --patterns 0"), 2, "a number above 0 or auto"),
        (format!("learn {axes} --start {table}"), 3, "cannot be read as a model"),
    ] {
        let refused = noodl(&format!("{wrong} -o {}", model.display()));
        assert_eq!(refused.status.code(), Some(code), "{wrong}: {}", stderr(&refused));
        assert!(stderr(&refused).contains(message), "{}", stderr(&refused));
    }
    assert!(fs::read(&model).unwrap() == before);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2, "nothing is left half written");
}

#[test]
fn a_stream_that_was_stopped_ends_in_the_same_bits() {
    let folder = folder("a_stream_that_was_stopped_ends_in_the_same_bits");
    let table = firm(&folder).display().to_string();
    let whole = folder.join("model.safetensors");
    let args = format!(
        "learn {table} --feature day(time) --row from --col to --step month(time) --checkpoint-every 1 --resume -o"
    );
    let learned = noodl(&format!("{args} {}", whole.display()));
    assert!(learned.status.success(), "{}", stderr(&learned));
    let bits = fs::read(&whole).unwrap();
    fs::remove_file(&whole).unwrap();
    // Killed again and again, it gets there.
    let mut killed = 0;
    for attempt in 0..200 {
        let mut run = Command::new(cargo_bin!("noodl"))
            .args(format!("{args} {}", whole.display()).split_whitespace())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(2 + attempt));
        if run.try_wait().unwrap().is_some_and(|status| status.success()) {
            break;
        }
        run.kill().unwrap();
        run.wait().unwrap();
        killed += 1;
    }
    assert!(killed > 0);
    assert!(noodl(&format!("{args} {}", whole.display())).status.success());
    assert!(fs::read(&whole).unwrap() == bits, "after {killed} kills");
    // Another way to learn is not a way to go on.
    let refused = noodl(&format!("{args} {} --recipe log2", whole.display()));
    assert!(stderr(&refused).contains("leave --resume out"), "{}", stderr(&refused));
}

#[test]
fn a_model_is_used_compared_and_exported() {
    let folder = folder("a_model_is_used_compared_and_exported");
    let table = firm(&folder).display().to_string();
    let model = folder.join("firm.safetensors").display().to_string();
    let axes = format!("{table} --feature month(time) --row from --col to --where from!=@to");
    assert!(noodl(&format!("learn {axes} --recipe log2,scale -o {model}")).status.success());
    let codes = stdout(&noodl(&format!("encode {model} {table}")));
    let lines: Vec<&str> = codes.lines().collect();
    // 24 pairs of people, each with the pattern of their team.
    assert_eq!((lines[0], lines.len()), ("step,row,col,pattern,code", 25), "{codes}");
    let pattern = |names: [&str; 2]| {
        let line =
            lines.iter().find(|line| line.starts_with(&format!("all,{},{},", names[0], names[1]))).unwrap();
        line.split(',').nth(3).unwrap().to_owned()
    };
    assert_eq!(pattern(["ann", "bob"]), pattern(["dot", "cid"]));
    assert_ne!(pattern(["ann", "bob"]), pattern(["eve", "fay"]));
    let same: Value =
        serde_json::from_str(&stdout(&noodl(&format!("compare {model} {model} --json")))).unwrap();
    assert!(
        same["pairs"].as_array().unwrap().iter().all(|pair| pair["cosine"].as_f64().unwrap() > 0.999_999)
    );
    for end in ["csv", "npz"] {
        let out = folder.join(format!("firm.{end}"));
        assert!(noodl(&format!("export {model} -o {}", out.display())).status.success());
        assert!(fs::metadata(&out).unwrap().len() > 500);
    }
    let text = fs::read_to_string(folder.join("firm.csv")).unwrap();
    // Two patterns of 21 features, and four rows and four cols of each.
    assert_eq!(text.lines().count(), 1 + 2 * 21 + 2 * 4 + 2 * 4, "{text}");
    assert!(text.contains("row,all,1,"), "{text}");
    let refused = noodl(&format!("export {model} -o {}", folder.join("firm.xls").display()));
    assert_eq!((refused.status.code(), stderr(&refused).contains("output is .xls")), (Some(2), true));
    let refused = noodl(&format!("show {model} --pattern 3"));
    assert_eq!((refused.status.code(), stderr(&refused).contains("from 1 to 2")), (Some(2), true));
}
