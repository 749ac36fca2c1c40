//! The real program, run as a user would.

#![allow(clippy::unwrap_used, clippy::print_stderr, clippy::print_stdout)]

mod common;

use std::fs;
use std::process::{Command, Stdio};

use assert_cmd::cargo::cargo_bin;
use common::{folder, noodl, stderr, stdout};
use serde_json::Value;

/// The JSON lines of a run that must succeed.
fn json(args: &str) -> Vec<Value> {
    let output = noodl(args);
    assert!(output.status.success(), "{args}: {}", stderr(&output));
    stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn recover_writes_a_line_for_each_tensor_and_an_outcome() {
    let lines = json("recover --json --patterns 60 --rows 50 --cols 60");
    let (outcome, steps) = lines.split_last().unwrap();
    for (at, step) in steps.iter().enumerate() {
        assert_eq!(step["type"], "step");
        assert_eq!(step["step"], at + 1);
        let roads = ["direct", "iht", "unsettled"].map(|road| step[road].as_u64().unwrap());
        assert_eq!(roads.iter().sum::<u64>(), step["fibers"].as_u64().unwrap());
    }
    assert_eq!(outcome["type"], "outcome");
    assert_eq!(outcome["steps"], steps.len());
    assert_eq!(outcome["converged"], true);
    assert_eq!(outcome["support"], true);
    for error in ["error_a", "error_x", "error_b", "error_c"] {
        assert!(outcome[error].as_f64().unwrap() <= 1e-10, "{outcome}");
    }
    let coverage = outcome["coverage_step"].as_u64().unwrap();
    assert!(coverage >= 1 && coverage <= steps.len() as u64);
    assert!(outcome["mean_code_size"].as_f64().unwrap() >= 1.0);
    assert!(outcome["seconds"].as_f64().unwrap() > 0.0);
    assert!(outcome.get("oracle_error_a").is_none(), "without noise there is nothing to compare with");
}

#[test]
fn every_option_of_recover_reaches_the_method() {
    let small = "recover --json --n 100 --patterns 30 --rows 40 --cols 50 --alpha 0.1 --beta 0.08";
    let outcome = |more: &str| json(&format!("{small} {more}")).pop().unwrap();
    let plain = outcome("");
    assert_eq!(plain["converged"], true);
    for more in [
        "--step paper --eta-a 10",
        "--step paper --eta-a 10 --solver iht",
        "--passes auto",
        "--passes 3",
        "--samples independent",
        "--row-values subgaussian:0.7 --col-values subgaussian:0.9",
        "--start-distance 0.1",
        "--seed 7",
        "--alpha 0.2",
        "--n 120",
        "--code-floor 0.3",
    ] {
        let outcome = outcome(more);
        assert_eq!(outcome["converged"], true, "{more}");
        assert_ne!(outcome["error_a"], plain["error_a"], "{more} changed nothing");
    }
    let iht = |more: &str| outcome(&format!("--max-steps 1 --solver iht --iht-steps 5 {more}"));
    let plain = iht("");
    for more in ["--eta-x 0.1", "--tau 1.2", "--iht-steps 6"] {
        assert_ne!(iht(more)["error_x"], plain["error_x"], "{more} changed nothing");
    }
    let stopped = outcome("--max-steps 1");
    assert_eq!((&stopped["steps"], &stopped["converged"]), (&1.into(), &false.into()));
    assert_eq!(outcome("--start-distance 0")["steps"], 1, "one tensor at least");
    let loose = outcome("--tolerance 0.2");
    assert_eq!((&loose["steps"], &loose["converged"]), (&1.into(), &true.into()));
    let noisy = outcome("--noise 0.1 --max-steps 20");
    let ratio = noisy["error_a"].as_f64().unwrap() / noisy["oracle_error_a"].as_f64().unwrap();
    assert!(ratio < 1.1, "{noisy}");
}

#[test]
fn results_do_not_depend_on_threads() {
    let run = |threads: usize| {
        let mut lines = json(&format!("recover --json --max-steps 3 --threads {threads}"));
        lines
            .iter_mut()
            .for_each(|line| line.as_object_mut().unwrap().retain(|key, _| !key.ends_with("seconds")));
        lines
    };
    assert_eq!(run(1), run(2));
    assert_eq!(run(1), run(4));
}

#[test]
fn recover_says_in_words_what_it_found() {
    let output = noodl("recover --patterns 60");
    let text = stdout(&output);
    for part in ["recovered after", "dictionary A", "signs and supports exact", "error of A", "1e-"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    let text = stdout(&noodl("recover --patterns 60 --noise 0.2 --max-steps 3"));
    assert!(text.contains("stopped after 3 tensors") && text.contains("oracle"), "{text}");
}

#[test]
fn strict_makes_missing_the_tolerance_an_error() {
    let output = noodl("recover --patterns 60 --max-steps 1 --strict");
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(stderr(&output), "noodl: not converged within --max-steps\n");
    assert!(noodl("recover --patterns 60 --max-steps 1").status.success());
}

#[test]
fn bad_input_is_refused_in_one_line() {
    let cases = [
        ("recover --alpha 1.5", "alpha is 1.5, it must be above 0 and at most 1"),
        ("recover --alpha nan", "alpha is NaN, it must be above 0 and at most 1"),
        ("recover --alpha 1e300", "alpha is 1e300, it must be above 0 and at most 1"),
        ("recover --code-tolerance 1", "code_tolerance is 1, it must be at least 0 and below 1"),
        ("recover --beta 0", "beta is 0, it must be above 0 and at most 1"),
        ("recover --patterns 0", "patterns is 0, it must be at least 1 and at most 4294967295"),
        ("recover --eta-a nan", "eta_a is NaN, it must be left out unless --step paper is given"),
        ("recover --step paper --eta-a nan", "eta_a is NaN, it must be above 0 and finite"),
        ("recover --step paper --passes auto", "passes is auto, it must be a number with the paper's step"),
        ("recover --noise -1", "unexpected argument '-1' found"),
        ("recover --noise=-1", "noise is -1, it must be at least 0 and finite"),
        ("recover --tolerance 1", "tolerance is 1, it must be at least 0 and below 1"),
        ("recover --max-steps 0", "max_steps is 0, it must be at least 1"),
        ("recover --threads 0", "threads is 0, it must be at least 1"),
        ("recover --start-distance 3", "start_distance is 3, it must be at least 0 and below 2"),
        ("recover --tau nan", "tau is NaN, it must be above 0 and finite"),
        (
            "recover --row-values cauchy",
            "invalid value 'cauchy' for '--row-values <LAW>': it must be rademacher",
        ),
        (
            "recover --passes some",
            "invalid value 'some' for '--passes <N|auto>': it must be a number or auto",
        ),
        (
            "recover --step fast",
            "invalid value 'fast' for '--step <STEP>' ([possible values: adaptive, paper])",
        ),
        (
            "recover --patern 3",
            "unexpected argument '--patern' found (tip: a similar argument exists: '--patterns'); see noodl recover --help",
        ),
        ("recover --rows many", "invalid value 'many' for '--rows <ROWS>'"),
        ("demos", "unrecognized subcommand 'demos' (tip: a similar subcommand exists: 'demo')"),
        ("completions klingon", "invalid value 'klingon' for '<SHELL>'"),
    ];
    for (args, message) in cases {
        let output = noodl(args);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{args}: {text}");
        assert!(text.starts_with(&format!("noodl: {message}")), "{args}: {text}");
        assert_eq!(text.lines().count(), 1, "{args}: {text}");
        assert!(output.stdout.is_empty(), "{args}");
    }
}

#[test]
fn too_large_for_any_machine_is_refused() {
    for size in
        ["--n 4000000000 --patterns 4000000000", "--patterns 3000000", "--rows 5000000 --cols 5000000"]
    {
        let output = noodl(&format!("recover {size}"));
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.starts_with("noodl: this needs about") && text.lines().count() == 1, "{text}");
    }
}

#[test]
fn a_closed_pipe_is_not_a_failure() {
    let mut child = Command::new(cargo_bin!("noodl"))
        .args(["recover", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(output.stderr.is_empty(), "{}", stderr(&output));
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let Ok(full) = fs::OpenOptions::new().write(true).open("/dev/full") else {
        return eprintln!("skipped: no /dev/full on this system");
    };
    let mut command = Command::new(cargo_bin!("noodl"));
    let output =
        command.args(["recover", "--json", "-q"]).stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).starts_with("noodl: cannot write the output: "), "{}", stderr(&output));
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
fn bench_limit_tells_times_of_a_first_and_a_late_step() {
    let output = noodl("bench limit --patterns 40 --rows 60 --cols 60 --threads 2 --repeats 2 --json");
    assert!(output.status.success(), "{}", stderr(&output));
    let lines: Vec<Value> = stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    for (line, at) in lines.iter().zip(["first", "late"]) {
        assert_eq!(line["at"], at);
        let number = |key: &str| line[key].as_f64().unwrap_or_else(|| panic!("{key} of {line}"));
        for key in ["product_f64_seconds", "product_f32_seconds", "read_seconds", "step_seconds"] {
            assert!(number(key) > 0.0, "{key}");
        }
        assert!(number("untangle_seconds") > 0.0 && number("speedup") > 0.0);
        assert_eq!(number("ratio"), number("step_seconds") / number("product_f64_seconds"));
        assert!((0.0..=1.0).contains(&number("fallback_share")));
        // n values and a place for each fiber.
        assert_eq!(number("input_bytes"), number("fibers") * (300.0 * 8.0 + 8.0));
        assert!(number("peak_rss_bytes") > number("input_bytes"));
    }
    assert!(lines[0]["error_a"].as_f64().unwrap() > 0.3 && lines[1]["error_a"].as_f64().unwrap() < 1e-6);

    let words = stdout(&noodl("bench limit --patterns 20 --rows 20 --cols 20 --repeats 1"));
    assert!(words.contains("first step: ") && words.contains("late step: ") && words.contains("one step"));
    for (args, message) in [
        ("bench limit --threads 0", "noodl: threads is 0, it must be at least 1\n"),
        ("bench growth --repeats 0", "noodl: repeats is 0, it must be at least 1\n"),
    ] {
        let output = noodl(args);
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(2), message), "{args}");
    }
}

#[test]
fn recover_starts_from_nothing() {
    let lines =
        json("recover --start data --patterns 30 --scale 1000 --late 5 --late-step 4 --max-steps 12 --json");
    let count = |line: &Value, key: &str| line[key].as_u64().unwrap_or_else(|| panic!("{key}: {line}"));
    let census = |line: &Value| ["patterns_found", "patterns_seen", "spurious"].map(|key| count(line, key));
    let [found, seen, spurious] = census(&lines[0]);
    assert!(found == seen && seen <= 25 && spurious == 0, "{}", lines[0]);
    assert!(census(&lines[2])[0] <= 25 && count(&lines[3], "patterns") == 30, "{} {}", lines[2], lines[3]);
    let outcome = lines.last().unwrap();
    assert_eq!(census(outcome), [30, 30, 0]);
    assert!(outcome["converged"] == true && outcome["init_seconds"].as_f64().unwrap() > 0.0, "{outcome}");
    let words = stdout(&noodl("recover --start data --patterns 30"));
    assert!(words.contains("30 found of 30 seen in two fibers or more, 0 spurious"), "{words}");
    let refused = noodl("recover --start data --start-distance 0.3");
    let message = "noodl: start_distance is 0.3, it must be left out with --start data\n";
    assert_eq!((refused.status.code(), stderr(&refused).as_str()), (Some(2), message));
}

#[test]
fn bench_growth_fits_exponents_and_draws_them() {
    let folder = folder("bench_growth_fits_exponents_and_draws_them");
    let picture = folder.join("growth.svg");
    let early = noodl("bench growth --repeats 1000000 --picture no/where.svg");
    let message = "noodl: cannot write no/where.svg: No such file or directory (os error 2)\n";
    assert_eq!((early.status.code(), stderr(&early).as_str()), (Some(1), message));
    let output = noodl(&format!("bench growth --repeats 1 --json --picture {}", picture.display()));
    assert!(output.status.success(), "{}", stderr(&output));
    let lines: Vec<Value> = stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let exponents: Vec<&Value> = lines.iter().filter(|line| line["type"] == "exponent").collect();
    assert_eq!((lines.len(), exponents.len()), (8 * 6, 8));
    assert!(exponents.iter().all(|line| line["exponent"].as_f64().unwrap().is_finite()));
    let svg = fs::read_to_string(&picture).unwrap();
    assert_eq!((svg.matches("<polyline").count(), svg.matches("<circle").count()), (8, 40));
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing half written is left");
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

#[test]
fn bench_start_compares_with_the_naive() {
    let cells = json("bench start --sizes 1.5 --fibers 600 --noise 0.3 --seeds 1 --patterns 40 --json");
    let score = |at: usize| cells[at]["score"].as_f64().unwrap();
    assert_eq!(cells.len(), 6);
    assert!(score(0) > 0.95 && score(3) > 0.95, "{cells:?}");
    assert!(score(1) < 0.95 && score(2) < score(0), "{cells:?}");
    let output = noodl("bench start --sizes 0.5");
    assert_eq!((output.status.code(), stderr(&output).contains("sizes is 0.5")), (Some(2), true));
}
