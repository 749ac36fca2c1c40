//! The documents are true: their commands run, and the names in them exist.

#![allow(clippy::unwrap_used)]

#[path = "../../tensornoodl-cli/tests/common/mod.rs"]
mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{folder, program};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The lines of all shell blocks of a document.
fn commands(document: &str) -> Vec<String> {
    let text = read(document);
    let blocks = text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.flat_map(str::lines).map(str::to_owned).collect()
}

/// All files with this extension in a folder and its folders, as paths from the root of the workspace.
fn files(folder: &str, extension: &str) -> Vec<String> {
    let mut files = Vec::new();
    for entry in fs::read_dir(root().join(folder)).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{folder}/{}", entry.file_name().into_string().unwrap());
        if entry.file_type().unwrap().is_dir() {
            files.extend(self::files(&path, extension));
        } else if path.ends_with(&format!(".{extension}")) {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// Runs all commands of a document in one folder; returns how many were run.
fn run_commands(document: &str, folder: &Path) -> usize {
    let mut run = 0;
    for command in commands(document) {
        // `noodl ...`, `noodl-lab ...` or `cargo run --release --bin noodl -- ...`
        let command = command.replace("cargo run --release --bin ", "").replacen(" -- ", " ", 1);
        let Some((name @ ("noodl" | "noodl-lab"), args)) = command.split_once(' ') else {
            continue;
        };
        let mut program = Command::new(program(name));
        let output = program.current_dir(folder).args(args.split_whitespace()).output().unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(!output.stdout.is_empty(), "{command}");
        run += 1;
    }
    run
}

#[test]
fn every_command_of_the_readme_runs() {
    let folder = folder("every_command_of_the_readme_runs");
    assert_eq!(run_commands("README.md", &folder), 3);
}

#[test]
fn every_command_of_the_laboratory_runs() {
    let folder = folder("every_command_of_the_laboratory_runs");
    assert_eq!(run_commands("docs/lab.md", &folder), 8);
    for file in ["table.csv", "table.md", "table.json", "batch.md", "samples.png", "convergence.png"] {
        assert!(folder.join("results").join(file).exists(), "{file}");
    }
}

#[test]
fn the_readme_has_the_two_commands_and_ci_takes_its_own_from_it() {
    let commands = commands("README.md");
    for command in ["cargo run --release --bin noodl -- demo", "cargo test --release"] {
        assert!(commands.iter().any(|line| line == command), "{command}");
    }
    assert!(read(".ci/run").contains("README.md"));
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut documents = files("docs", "md");
    documents.extend(["README.md", "ARCHITECTURE.md", "BENCHMARKS.md", "CONTRIBUTING.md"].map(String::from));
    documents.push("bindings/python/README.md".into());
    assert!(documents.len() > 12, "{documents:?}");
    for document in documents {
        let text = read(&document);
        let folder = root().join(&document).parent().unwrap().to_owned();
        for link in text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
            let file = link.split('#').next().unwrap();
            assert!(link.starts_with("https://") || folder.join(file).exists(), "{document}: {link}");
        }
    }
}

/// The first sentence of the documentation of a source file.
fn first_sentence(file: &str) -> String {
    let text = read(file);
    let lines = text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    let paragraph: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    let paragraph = paragraph.join(" ");
    let sentence = paragraph.split(". ").next().unwrap().trim_end_matches(['.', ':']);
    assert!(!sentence.is_empty(), "{file} has no documentation");
    sentence.replace('|', "\\|").replace(['[', ']'], "")
}

/// ARCHITECTURE.md has a table of the source files of each crate. With NOODL_BLESS set, this test writes the tables.
#[test]
fn the_architecture_has_every_source_file() {
    let page = read("ARCHITECTURE.md");
    let mut parts = page.split("<!-- files of ");
    let mut blessed = parts.next().unwrap().to_owned();
    let mut crates = Vec::new();
    for part in parts {
        let (folder, rest) = part.split_once(" -->\n").unwrap();
        let (_, after) = rest.split_once("<!-- end -->").unwrap();
        let row = |file: String| format!("| `{file}` | {} |\n", first_sentence(&file));
        let rows: String = files(folder, "rs").into_iter().map(row).collect();
        blessed += &format!(
            "<!-- files of {folder} -->\n\n| file | content |\n| --- | --- |\n{rows}\n<!-- end -->{after}"
        );
        crates.push(folder.split('/').nth(1).unwrap().to_owned());
    }
    let names = ["", "-data", "-report", "-mpi", "-cli", "-lab"].map(|end| format!("tensornoodl{end}"));
    assert_eq!((&crates[..6], crates[6..].join(" ").as_str()), (&names[..], "python"));
    compare("ARCHITECTURE.md", &page, &blessed);
}

/// Compares a document with what it must be, or with NOODL_BLESS set, writes it.
fn compare(document: &str, page: &str, blessed: &str) {
    if std::env::var_os("NOODL_BLESS").is_some() {
        fs::write(root().join(document), blessed).unwrap();
    } else {
        assert_eq!(page, blessed, "{document} is out of date: run this test with NOODL_BLESS=1");
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
        // A function, a generic function, or a type.
        let defined = ['(', '<', ' '].iter().any(|after| source.contains(&format!("{item}{after}")));
        assert!(defined, "{file} has no {item}");
        let (file, name) = parts(test);
        let folder = if file.starts_with("src/") { "" } else { "tests/" };
        let source_of_test = read(&format!("crates/tensornoodl/{folder}{file}"));
        assert!(
            source_of_test.contains(&format!("fn {name}()"))
                || source_of_test.contains(&format!("fn {name}(")),
            "{file} has no {name}"
        );
        assert!(source.contains(label), "{label} is not mentioned in {code}");
        checked += 1;
    }
    assert!(checked >= 25);
}

/// Every label in parentheses in the comments of the code is in the map.
#[test]
fn every_label_in_the_code_is_in_the_map() {
    let map = read("docs/paper-map.md");
    let kinds = ["alg:", "algo:", "eq:", "def:", "assumption:", "counts:"];
    let mut found = 0;
    for path in files("crates/tensornoodl/src", "rs") {
        let source = read(&path);
        for line in source.lines().filter(|line| line.trim_start().starts_with("//")) {
            let inside = |rest: &'_ str| rest.split_once(')').map(|(inside, _)| inside.to_owned());
            for group in line.split('(').skip(1).filter_map(inside) {
                for label in
                    group.split(", ").filter(|label| kinds.iter().any(|kind| label.starts_with(kind)))
                {
                    assert!(map.contains(&format!("| {label} |")), "{path}: ({label})");
                    found += 1;
                }
            }
        }
    }
    assert!(found > 20, "labels are not found any more");
}

/// The tables of docs/paper.md are copies of the results. With NOODL_BLESS set, this test copies them.
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
    compare("docs/paper.md", &page, &blessed);
}
