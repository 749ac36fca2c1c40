//! `noodl-lab paper`, run as a user would.

#![allow(clippy::unwrap_used)]

#[path = "../../tensornoodl-cli/tests/common/mod.rs"]
mod common;

use std::fs;
use std::path::Path;

use common::{folder, lab, stderr, stdout};
use serde_json::Value;

#[test]
fn paper_table_keeps_what_is_finished() {
    let folder = folder("paper_table_keeps_what_is_finished");
    let out = folder.join("results");
    let args = format!(
        "paper table --alpha 0.05 --rows 60 --patterns 20 --seeds 1,2 --jobs 2 --output {}",
        out.display()
    );
    let first = lab(&args);
    assert!(first.status.success(), "{}", stderr(&first));
    let text = fs::read_to_string(out.join("table.csv")).unwrap();
    assert_eq!(text.lines().count(), 6, "{text}");
    let noodl_line = text.lines().find(|line| line.contains(",noodl,")).unwrap();
    assert!(noodl_line.starts_with("0.05,60,20,noodl,2,"), "{noodl_line}");
    assert_eq!(fs::read_dir(out.join("cells")).unwrap().count(), 10);
    for (file, name) in [("table.md", "Arora(u)"), ("table.json", "arora-u")] {
        assert!(fs::read_to_string(out.join(file)).unwrap().contains(name));
    }
    // What is missing is run again, what is there is not.
    let kept = out.join("cells/0.05-60-20-1-noodl.json");
    let mut changed: Value = serde_json::from_str(&fs::read_to_string(&kept).unwrap()).unwrap();
    changed["error_a"] = 0.25.into();
    fs::write(&kept, changed.to_string()).unwrap();
    fs::remove_file(out.join("cells/0.05-60-20-2-mairal.json")).unwrap();
    assert!(lab(&args).status.success());
    let again = fs::read_to_string(out.join("table.csv")).unwrap();
    assert!(again.lines().find(|line| line.contains(",noodl,")).unwrap().contains(",1.25"), "{again}");
    assert_eq!(fs::read_dir(out.join("cells")).unwrap().count(), 10);
    // What is not an outcome is not overwritten.
    fs::write(&kept, "{").unwrap();
    let refused = lab(&args);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("remove it to run its cell again"), "{}", stderr(&refused));
    fs::copy(out.join("cells/0.05-60-20-2-noodl.json"), &kept).unwrap();
    let refused = lab(&args);
    assert!(stderr(&refused).contains("holds the outcome of another cell"), "{}", stderr(&refused));
    for (wrong, message) in
        [("--alpha 2", "alpha is 2"), ("--patterns 5,0", "patterns is 0"), ("--jobs 0", "jobs is 0")]
    {
        let refused = lab(&format!("paper table {wrong} --output {}", folder.join("never").display()));
        assert_eq!((refused.status.code(), stderr(&refused).contains(message)), (Some(2), true), "{wrong}");
    }
    assert!(!folder.join("never").exists());
    // A stream that has too little in it does not get there, and nobody is told that it did.
    let args = format!(
        "paper table --alpha 0.05 --rows 50 --patterns 10 --methods noodl --seeds 1 --output {}",
        out.display()
    );
    assert!(stdout(&lab(&args)).contains("| 50 | 10 | not in 1000 |"));
}

#[test]
fn paper_figures_are_drawn_from_kept_cells() {
    let folder = folder("paper_figures_are_drawn_from_kept_cells");
    let out = folder.display();
    let run = |figure: &str, m: &str| {
        let args =
            format!("paper figure {figure} --alpha 0.05 --rows 60 --patterns {m} --seeds 3 --output {out}");
        let output = lab(&args);
        assert!(output.status.success(), "{args}: {}", stderr(&output));
        assert!(fs::read(folder.join(format!("{figure}.png"))).unwrap().starts_with(b"\x89PNG"));
        fs::read_to_string(folder.join(format!("{figure}.svg"))).unwrap()
    };
    let samples = run("samples", "20,30");
    // One panel of two lines, as these cells are not in the paper.
    assert_eq!(
        (samples.matches("<polyline").count(), samples.matches("<circle").count()),
        (2, 4),
        "{samples}"
    );
    let convergence = run("convergence", "20");
    assert!(
        convergence.contains("Arora(u)")
            && convergence.contains("error of X")
            && convergence.contains("seeds 3")
    );
    // Two methods for 30 patterns, five for 20.
    assert_eq!(fs::read_dir(folder.join("cells")).unwrap().count(), 2 + 5);
    let refused = lab("paper figure convergence --patterns 10,20 --output /nowhere");
    assert_eq!((refused.status.code(), stderr(&refused).contains("one stream")), (Some(2), true));
}

#[test]
fn one_tensor_is_given_to_methods_that_know_no_stream() {
    let folder = folder("one_tensor_is_given_to_methods_that_know_no_stream");
    let args =
        format!("paper batch --rows 50 --patterns 10 --alpha 0.1 --seeds 1,2 --output {}", folder.display());
    for _ in 0..2 {
        let output = lab(&args);
        assert!(output.status.success(), "{}", stderr(&output));
        let table = fs::read_to_string(folder.join("batch.md")).unwrap();
        assert_eq!(table.lines().count(), 2 + 7, "{table}");
        assert_eq!(fs::read_to_string(folder.join("batch.csv")).unwrap().lines().count(), 1 + 2 * 7);
        assert!(
            stdout(&output).contains("| 50, 0.1, 10 | TensorNOODL | nothing | 10.0 of 10.0 | 0.0 |"),
            "{table}"
        );
    }
    assert_eq!(fs::read_dir(folder.join("cells")).unwrap().count(), 2 * 7);
    // A tensor without fibers is nobody's.
    let empty = lab(&format!(
        "paper batch --rows 10 --patterns 2 --alpha 0.0001 --seeds 1 --output {}",
        folder.display()
    ));
    assert!(empty.status.success() && stdout(&empty).lines().count() == 4, "{}", stderr(&empty));
}

#[test]
fn bad_tables_of_enron_are_refused() {
    let folder = folder("bad_tables_of_enron_are_refused");
    let out = folder.join("out");
    let run = |data: &Path| lab(&format!("paper enron --data {} --output {}", data.display(), out.display()));
    // Bad tables are named, with line, value and rule, and nothing is written.
    fs::write(folder.join("enron_people.csv"), "id,name,email_local,group4\n0,\"A, B\",a,Legal\n1,,b,\n")
        .unwrap();
    for (table, message) in [
        ("from,to,month\n", "line 1: the header is \"from,to,month\", it must be one with the column count"),
        (
            "from,to,month,count\n0,1,99,3\n",
            "line 2: month is \"99\", it must be a whole number from 0 to 43",
        ),
        ("from,to,month,count\n0,1,3\n", "line 2: the number of fields is \"3\", it must be 4"),
        ("from,to,month,count\n", "has no entries"),
    ] {
        fs::write(folder.join("enron_tensor.csv"), table).unwrap();
        let refused = run(&folder);
        assert_eq!(refused.status.code(), Some(3), "{table}");
        assert!(stderr(&refused).contains(message), "{}", stderr(&refused));
    }
    assert!(!out.exists());
}
