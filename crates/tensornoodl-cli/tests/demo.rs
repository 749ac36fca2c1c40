//! `noodl demo`, the first command that a newcomer runs.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use common::{folder, program, stderr, stdout};

const FILES: [&str; 3] = ["mail.csv", "mail.safetensors", "mail.html"];

fn demo(folder: &Path, args: &[&str]) -> Output {
    Command::new(program("noodl")).current_dir(folder).arg("demo").args(args).output().unwrap()
}

#[test]
fn the_demo_recovers_to_machine_precision_and_finds_every_group() {
    let folder = folder("the_demo_recovers_to_machine_precision_and_finds_every_group");
    let output = demo(&folder, &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("150 of 150 patterns"), "{text}");
    assert!(text.contains("every sign and support is right"), "{text}");
    assert!(text.contains('●') && text.contains('·'), "{text}");
    assert!(!text.contains('\u{1b}'), "no colours where stdout is not a terminal");
    // Planted and found, side by side: from, to, and in the second line the cosine.
    let numbers = |line: &str| -> Vec<f64> {
        let words = line.split_whitespace().filter(|word| !word.starts_with('+'));
        words.filter_map(|word| word.parse().ok()).collect()
    };
    let lines: Vec<&str> = text.lines().collect();
    let pairs: Vec<&[&str]> = lines.windows(2).filter(|two| two[0].contains(" planted  ")).collect();
    assert_eq!(pairs.len(), 9, "{text}");
    for pair in pairs {
        let (planted, found) = (numbers(pair[0]), numbers(pair[1]));
        // The number of the pattern comes first. People outside the group are counted with a plus.
        assert_eq!(found[1..3], planted[..], "{pair:?}");
        assert!(found[3] > 0.98, "{pair:?}");
    }
    assert!(text.contains("found     9 of 9 groups"), "{text}");
    let too_many = lines.iter().find(|line| line.starts_with("too many")).map(|line| numbers(line)).unwrap();
    assert!(too_many[0] <= 2.0 && too_many[1] == 0.0, "{text}");
    // The project begins in September.
    let september = lines.iter().find(|line| line.contains("2024-09 ")).unwrap();
    assert!(september.ends_with("new: Project Heron") && text.matches("new: ").count() == 1, "{text}");
    let after_plot = lines.iter().skip_while(|line| !line.starts_with("Now with names"));
    let paths = folder.to_str().unwrap();
    let program = program("noodl").display().to_string();
    for line in after_plot.filter(|line| !line.contains(paths) && !line.contains(&program)) {
        assert!(line.chars().count() <= 100, "{line}");
    }
    // All is where it says, and a second demo replaces it and nothing else.
    let out = folder.join("noodl-demo");
    for file in FILES {
        assert!(text.contains(out.join(file).to_str().unwrap()), "{file}: {text}");
    }
    let bytes = |file: &str| fs::read(out.join(file)).unwrap();
    let before = FILES.map(bytes);
    fs::write(out.join("mine.txt"), "mine").unwrap();
    // The command that it says gives the same files.
    let command = text.split("from the table:\n\n").nth(1).unwrap().split("\n\n").next().unwrap();
    fs::remove_file(out.join(FILES[1])).unwrap();
    fs::remove_file(out.join(FILES[2])).unwrap();
    let again = Command::new("sh").current_dir(&folder).args(["-c", command]).output().unwrap();
    assert!(again.status.success(), "{command}: {}", stderr(&again));
    assert!(FILES.map(bytes) == before, "the same bits");
    assert!(demo(&folder, &[]).status.success());
    assert!(FILES.map(bytes) == before && bytes("mine.txt") == b"mine");
    assert_eq!(fs::read_dir(&out).unwrap().count(), 4);
}

#[test]
fn a_folder_that_cannot_be_written_is_refused_before_any_work() {
    let folder = folder("a_folder_that_cannot_be_written_is_refused_before_any_work");
    fs::write(folder.join("file"), "").unwrap();
    fs::create_dir_all(folder.join("taken/mail.html")).unwrap();
    for out in ["file", "file/deeper", "taken"] {
        let refused = demo(&folder, &["--output", out]);
        let text = stderr(&refused);
        assert_eq!((refused.status.code(), text.lines().count()), (Some(1), 1), "{text}");
        assert!(
            text.starts_with(&format!("noodl: cannot write {out}")) && refused.stdout.is_empty(),
            "{text}"
        );
    }
}
