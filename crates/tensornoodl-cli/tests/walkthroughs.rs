//! The pages that lead through real tables: their commands are run where NOODL_DATA is set.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

/// Runs all commands of a page in a temporary folder. Returns the output of each command.
fn walk(page: &str) -> BTreeMap<String, String> {
    let data = env::var_os("NOODL_DATA").unwrap();
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join("docs").join(page)).unwrap();
    let folder = env::temp_dir().join(format!("noodl-walk-{page}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let path = env::var("PATH").unwrap();
    let path = format!("{}:{path}", common::program("noodl").parent().unwrap().display());
    let mut outputs = BTreeMap::new();
    for block in text.split("```sh\n").skip(1) {
        let commands = block.split("```").next().unwrap().replace("\\\n", " ");
        for command in commands.lines() {
            let run = Command::new("sh")
                .args(["-c", command])
                .current_dir(&folder)
                .env("PATH", &path)
                .env("NOODL_DATA", fs::canonicalize(&data).unwrap())
                .output()
                .unwrap();
            assert!(run.status.success(), "{command}\n{}", String::from_utf8_lossy(&run.stderr));
            outputs.insert(command.to_owned(), String::from_utf8(run.stdout).unwrap());
        }
    }
    let pages: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    for page in pages.iter().filter(|path| path.extension().is_some_and(|end| end == "html")) {
        let length = fs::metadata(page).unwrap().len();
        assert!(length < 2_000_000, "{} has {length} bytes", page.display());
    }
    fs::remove_dir_all(&folder).unwrap();
    outputs
}

/// Returns the output of the command with this beginning and this end.
fn of<'o>(outputs: &'o BTreeMap<String, String>, begin: &str, end: &str) -> &'o str {
    let found = outputs.iter().find(|(command, _)| command.starts_with(begin) && command.ends_with(end));
    found.unwrap_or_else(|| panic!("no command {begin} ... {end}")).1
}

fn enron() {
    let outputs = walk("enron.md");
    let stats = of(&outputs, "noodl stats", "--square");
    for part in ["44 features x 182 rows x 182 cols", "3007 of 33124 places", "9838, which add up to 34427"] {
        assert!(stats.contains(part), "{part}: {stats}");
    }
    for model in ["enron", "paper"] {
        let show = of(&outputs, "noodl show", &format!("{model}.safetensors"));
        // The number of patterns may differ between processors; the first pattern is always found.
        for part in ["most at 2001-10, 2001-11, 2001-09", "Jeff Dasovich", "Legal", "Trading"] {
            assert!(show.contains(part), "{part}: {show}");
        }
    }
}

fn nba() {
    let outputs = walk("nba.md");
    let season = of(&outputs, "noodl show", "season.safetensors --top 3");
    assert!(season.contains("120 features), 100 rows, 30 cols, 27 of 27 steps learned"), "{season}");
    let seven = of(&outputs, "noodl show", "season-7.safetensors --at 2018-W51");
    let patterns: usize = seven.split_whitespace().next().unwrap().parse().unwrap();
    assert!((5..=7).contains(&patterns), "{seven}");
    let alike = of(&outputs, "noodl show", "--like 'James Harden'");
    assert_eq!(alike.lines().count(), 5, "{alike}");
}

fn main() {
    run_tests!(common::no_data() => [enron, nba])
}
