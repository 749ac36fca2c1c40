//! What the documents say is so: commands run, names exist.

#![allow(clippy::unwrap_used)]

#[path = "../../tensornoodl-cli/tests/common/mod.rs"]
mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::program;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The lines of all shell blocks of the README.
fn commands() -> Vec<String> {
    let readme = read("README.md");
    let blocks = readme.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.flat_map(str::lines).map(str::to_owned).collect()
}

#[test]
fn every_command_of_the_readme_runs() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("readme");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let mut run = 0;
    for command in commands() {
        // `noodl ...`, `noodl-lab ...` or `cargo run --release --bin noodl -- ...`
        let command = command.replace("cargo run --release --bin ", "").replacen(" -- ", " ", 1);
        let Some((name @ ("noodl" | "noodl-lab"), args)) = command.split_once(' ') else {
            continue;
        };
        let mut program = Command::new(program(name));
        let output = program.current_dir(&folder).args(args.split_whitespace()).output().unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(!output.stdout.is_empty(), "{command}");
        run += 1;
    }
    assert_eq!(run, 9);
    for file in ["table.csv", "table.md", "table.json", "batch.md", "samples.png", "convergence.png"] {
        assert!(folder.join("results").join(file).exists(), "{file}");
    }
}

#[test]
fn the_readme_has_the_two_commands_and_ci_takes_its_own_from_it() {
    let commands = commands();
    for command in ["cargo run --release --bin noodl -- demo", "cargo test --release"] {
        assert!(commands.iter().any(|line| line == command), "{command}");
    }
    assert!(read(".ci/run").contains("README.md"));
}

#[test]
fn links_between_documents_lead_somewhere() {
    for document in [
        "README.md",
        "ARCHITECTURE.md",
        "BENCHMARKS.md",
        "CONTRIBUTING.md",
        "docs/paper-map.md",
        "docs/paper.md",
        "docs/cluster.md",
        "docs/enron.md",
        "docs/nba.md",
        "docs/recovery.md",
        "docs/start.md",
    ] {
        let text = read(document);
        let folder = root().join(document).parent().unwrap().to_owned();
        for link in text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
            assert!(link.starts_with("https://") || folder.join(link).exists(), "{document}: {link}");
        }
    }
}

#[test]
fn the_architecture_names_every_file_of_the_core() {
    let text = read("ARCHITECTURE.md");
    for folder in [
        "crates/tensornoodl/src",
        "crates/tensornoodl-data/src",
        "crates/tensornoodl-report/src",
        "crates/tensornoodl-cli/src",
        "crates/tensornoodl-lab/src",
    ] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(text.contains(&name), "{folder}/{name} is not in ARCHITECTURE.md");
        }
    }
}

#[test]
fn the_map_of_the_paper_is_true() {
    let map = read("docs/paper-map.md");
    let rows = map.lines().filter(|line| line.starts_with("| ") && line.contains(".rs`"));
    let mut checked = 0;
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [label, _, code, test] = cells[..] else { panic!("four columns: {row}") };
        // `file`: `name`
        let parts = |cell: &str| -> (String, String) {
            let names: Vec<&str> = cell.split('`').collect();
            (names[1].to_owned(), names[3].to_owned())
        };
        let (file, item) = parts(code);
        let source = read(&format!("crates/tensornoodl/src/{file}"));
        assert!(
            source.contains(&format!("{item}(")) || source.contains(&format!("{item} {{")),
            "{file} has no {item}"
        );
        let (file, name) = parts(test);
        let source_of_test = read(&format!("crates/tensornoodl/tests/{file}"));
        assert!(
            source_of_test.contains(&format!("fn {name}()"))
                || source_of_test.contains(&format!("fn {name}(")),
            "{file} has no {name}"
        );
        assert!(source.contains(label), "{label} is not mentioned in {code}");
        checked += 1;
    }
    assert!(checked >= 15);
}

/// Labels in parentheses in the comments of the code are in the map.
#[test]
fn every_label_in_the_code_is_in_the_map() {
    let map = read("docs/paper-map.md");
    let kinds = ["alg:", "algo:", "eq:", "def:", "assumption:"];
    let mut found = 0;
    for entry in fs::read_dir(root().join("crates/tensornoodl/src")).unwrap() {
        let path = entry.unwrap().path();
        let source = fs::read_to_string(&path).unwrap();
        for line in source.lines().filter(|line| line.trim_start().starts_with("//")) {
            let inside = |rest: &'_ str| rest.split_once(')').map(|(inside, _)| inside.to_owned());
            for group in line.split('(').skip(1).filter_map(inside) {
                for label in
                    group.split(", ").filter(|label| kinds.iter().any(|kind| label.starts_with(kind)))
                {
                    assert!(map.contains(&format!("| {label} |")), "{}: ({label})", path.display());
                    found += 1;
                }
            }
        }
    }
    assert!(found > 20, "labels are not found any more");
}

/// Tables are copied from the results; with NOODL_BLESS set, they are copied now.
#[test]
fn the_page_of_the_paper_shows_the_results() {
    let page = read("docs/paper.md");
    let mut parts = page.split("<!-- crates/tensornoodl-lab/results/");
    let mut blessed = parts.next().unwrap().to_owned();
    let mut shown = 0;
    for part in parts {
        let (file, rest) = part.split_once(" -->\n").unwrap();
        let (_, after) = rest.split_once("<!-- end -->").unwrap();
        let table = read(&format!("crates/tensornoodl-lab/results/{file}"));
        blessed += &format!(
            "<!-- crates/tensornoodl-lab/results/{file} -->\n\n{}\n\n<!-- end -->{after}",
            table.trim()
        );
        shown += 1;
    }
    assert_eq!(shown, 4);
    if std::env::var_os("NOODL_BLESS").is_some() {
        fs::write(root().join("docs/paper.md"), &blessed).unwrap();
    } else {
        assert_eq!(page, blessed, "run this test with NOODL_BLESS=1");
    }
}
