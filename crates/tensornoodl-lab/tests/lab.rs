//! The program `noodl-lab`, run as a user would.

#![allow(clippy::unwrap_used)]

#[path = "../../tensornoodl-cli/tests/common/mod.rs"]
mod common;

use std::fs;
use std::process::{Command, Stdio};

use common::{folder, lab, program, stderr, stdout};
use serde_json::Value;

/// The JSON lines of a run that must succeed.
fn json(args: &str) -> Vec<Value> {
    let output = lab(args);
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
        let counts = ["direct", "iht", "unsettled"].map(|solver| step[solver].as_u64().unwrap());
        assert_eq!(counts.iter().sum::<u64>(), step["fibers"].as_u64().unwrap());
    }
    assert_eq!(outcome["type"], "outcome");
    assert_eq!(outcome["steps"], steps.len());
    assert_eq!(outcome["converged"], true);
    assert_eq!(outcome["support"], true);
    for error in ["error_a", "error_x", "error_b", "error_c"] {
        assert!(outcome[error].as_f64().unwrap() <= 1e-10, "{outcome}");
    }
    assert_eq!((&outcome["support_b"], &outcome["support_c"]), (&true.into(), &true.into()), "{outcome}");
    assert!(outcome["certain_codes"].as_f64().unwrap() > 0.9, "{outcome}");
    assert_eq!(outcome["expected_error_a"], Value::Null, "there are no error bars without noise");
    let coverage = outcome["coverage_step"].as_u64().unwrap();
    assert!(coverage >= 1 && coverage <= steps.len() as u64);
    assert!(outcome["mean_code_size"].as_f64().unwrap() >= 1.0);
    assert!(outcome["seconds"].as_f64().unwrap() > 0.0);
    assert!(outcome.get("oracle_error_a").is_none(), "without noise there is nothing to compare with");
}

#[test]
fn recover_compares_expected_with_true_errors() {
    let plan = "recover --json --features 100 --patterns 30 --rows 40 --cols 40 --max-steps 12";
    let outcome = |more: &str| json(&format!("{plan} {more}")).pop().unwrap();
    let noisy = outcome("--noise 0.1");
    let ratio = noisy["expected_error_a"].as_f64().unwrap() / noisy["error_a"].as_f64().unwrap();
    assert!((0.8..1.25).contains(&ratio), "{ratio} {noisy}");
    assert!(noisy["certain_codes"].as_f64().unwrap() > 0.9, "{noisy}");
    assert_eq!((&noisy["support_b"], &noisy["support_c"]), (&true.into(), &true.into()), "{noisy}");
    // A start that is too far away ends in wrong patterns, whose supports are wrong.
    let far = outcome("--start-distance 1.3");
    assert_eq!((&far["support_b"], &far["support_c"]), (&false.into(), &false.into()), "{far}");
    let paper = outcome("--rule paper --eta-a 10 --noise 0.1");
    assert_eq!((&paper["expected_error_a"], &paper["certain_codes"]), (&Value::Null, &Value::Null));
}

#[test]
fn every_option_of_recover_reaches_the_method() {
    let small = "recover --json --features 100 --patterns 30 --rows 40 --cols 50 --alpha 0.1 --beta 0.08";
    let outcome = |more: &str| json(&format!("{small} {more}")).pop().unwrap();
    let plain = outcome("");
    assert_eq!(plain["converged"], true);
    for more in [
        "--rule paper --eta-a 10",
        "--rule paper --eta-a 10 --solver iht",
        "--passes auto",
        "--passes 3",
        "--samples independent",
        "--row-values subgaussian:0.7 --col-values subgaussian:0.9",
        "--start-distance 0.1",
        "--seed 7",
        "--alpha 0.2",
        "--features 120",
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
    let output = lab("recover --patterns 60");
    let text = stdout(&output);
    for part in ["recovered after", "dictionary A", "signs and supports exact", "error of A", "1e-"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    let text = stdout(&lab("recover --patterns 60 --noise 0.2 --max-steps 3"));
    assert!(text.contains("stopped after 3 tensors") && text.contains("oracle"), "{text}");
}

#[test]
fn strict_makes_missing_the_tolerance_an_error() {
    let output = lab("recover --patterns 60 --max-steps 1 --strict");
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(stderr(&output), "noodl-lab: not converged within --max-steps\n");
    assert!(lab("recover --patterns 60 --max-steps 1").status.success());
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
        ("recover --rule adaptive --eta-a 5", "eta_a is 5, it must be left out with --rule adaptive"),
        ("recover --eta-a nan", "eta_a is NaN, it must be above 0 and finite"),
        ("recover --rule paper --eta-a nan", "eta_a is NaN, it must be above 0 and finite"),
        ("recover --rule paper --passes auto", "passes is auto, it must be a number with the paper's step"),
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
            "recover --rule fast",
            "invalid value 'fast' for '--rule <RULE>' ([possible values: adaptive, paper])",
        ),
        (
            "recover --patern 3",
            "unexpected argument '--patern' found (tip: a similar argument exists: '--patterns'); see noodl-lab recover --help",
        ),
        ("recover --step paper", "step is paper, it must be left out: the update rule is --rule paper"),
        ("recover --rows many", "invalid value 'many' for '--rows <ROWS>'"),
        ("recovery", "unrecognized subcommand 'recovery' (tip: a similar subcommand exists: 'recover')"),
    ];
    for (args, message) in cases {
        let output = lab(args);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{args}: {text}");
        assert!(text.starts_with(&format!("noodl-lab: {message}")), "{args}: {text}");
        assert_eq!(text.lines().count(), 1, "{args}: {text}");
        assert!(output.stdout.is_empty(), "{args}");
    }
}

#[test]
fn too_large_for_any_machine_is_refused() {
    for size in
        ["--features 4000000000 --patterns 4000000000", "--patterns 3000000", "--rows 5000000 --cols 5000000"]
    {
        let output = lab(&format!("recover {size}"));
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.starts_with("noodl-lab: this needs about") && text.lines().count() == 1, "{text}");
    }
}

#[test]
fn a_closed_pipe_is_not_a_failure() {
    let mut child = Command::new(program("noodl-lab"))
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
#[cfg_attr(not(target_os = "linux"), ignore = "no /dev/full")]
fn output_that_cannot_be_written_is_a_failure() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(program("noodl-lab"));
    let output =
        command.args(["recover", "--json", "-q"]).stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).starts_with("noodl-lab: cannot write the output: "), "{}", stderr(&output));
}

#[test]
fn bench_limit_tells_times_of_a_first_and_a_late_step() {
    let output = lab("bench limit --patterns 40 --rows 60 --cols 60 --threads 2 --repeats 2 --json");
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

    let words = stdout(&lab("bench limit --patterns 20 --rows 20 --cols 20 --repeats 1"));
    assert!(words.contains("first step: ") && words.contains("late step: ") && words.contains("one step"));
    for (args, message) in [
        ("bench limit --threads 0", "noodl-lab: threads is 0, it must be at least 1\n"),
        ("bench scaling --repeats 0", "noodl-lab: repeats is 0, it must be at least 1\n"),
    ] {
        let output = lab(args);
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
    let words = stdout(&lab("recover --start data --patterns 30"));
    assert!(words.contains("30 found of 30 seen in two fibers or more, 0 spurious"), "{words}");
    let refused = lab("recover --start data --start-distance 0.3");
    let message = "noodl-lab: start_distance is 0.3, it must be left out with --start data\n";
    assert_eq!((refused.status.code(), stderr(&refused).as_str()), (Some(2), message));
}

#[test]
fn bench_scaling_fits_exponents_and_draws_them() {
    let folder = folder("bench_scaling_fits_exponents_and_draws_them");
    let picture = folder.join("scaling.svg");
    let early = lab("bench scaling --repeats 1000000 --picture no/where.svg");
    let message = "noodl-lab: cannot write no/where.svg: No such file or directory (os error 2)\n";
    assert_eq!((early.status.code(), stderr(&early).as_str()), (Some(1), message));
    let output = lab(&format!("bench scaling --repeats 1 --json --picture {}", picture.display()));
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
fn bench_start_compares_with_the_naive() {
    let cells =
        json("bench start --code-sizes 1.5 --fibers 600 --noise 0.3 --repeats 1 --patterns 40 --json");
    let score = |at: usize| cells[at]["score"].as_f64().unwrap();
    assert_eq!(cells.len(), 6);
    assert!(score(0) > 0.95 && score(3) > 0.95, "{cells:?}");
    assert!(score(1) < 0.95 && score(2) < score(0), "{cells:?}");
    let output = lab("bench start --code-sizes 0.5");
    assert_eq!((output.status.code(), stderr(&output).contains("code_sizes is 0.5")), (Some(2), true));
}

#[test]
fn planted_tensors_are_checked() {
    let plan = "patterns=30,rows=60,cols=60,alpha=0.1,beta=0.1";
    let lines = json(&format!("check --synthetic {plan},noise=0.2 --evidence --json"));
    let (found, checks) = lines.split_last().unwrap();
    assert!(checks.len() >= 9 && checks.iter().all(|line| line["type"] == "check"));
    assert_eq!(found["type"], "patterns");
    assert_eq!((&found["patterns_found"], &found["spurious"]), (&found["patterns_seen"], &0.into()));
    let rungs = found["evidence"]["ladder"].as_array().unwrap();
    assert!(rungs.len() >= 20 && found["evidence"]["seeds"].as_array().unwrap().len() == 4);
    assert!(found["scale"]["noise"].as_f64().unwrap() > 0.1);

    let folder = folder("planted_tensors_are_checked");
    let (patterns, picture) = (folder.join("a.csv"), folder.join("ladder.svg"));
    let words = stdout(&lab(&format!(
        "check --synthetic {plan} --evidence --picture {} --patterns-out {}",
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
    let asked = json("check --synthetic patterns=30,rows=50,cols=50 --patterns 4 --json").pop().unwrap();
    assert_eq!(asked["patterns"], 4);
}

#[test]
fn the_start_of_the_paper_finds_planted_patterns() {
    let plan = "patterns=5,features=50,rows=40,cols=40,alpha=0.1,beta=0.1";
    let pairs = &json(&format!("pairs --synthetic {plan} --json"))[0];
    // Pairs that share a rare pattern are rarer still.
    assert!(pairs["patterns_found"].as_u64() >= Some(4) && pairs["spurious"] == 0, "{pairs}");
    assert!(pairs["hits"].as_array().unwrap().iter().all(|hits| hits.as_u64().unwrap() >= 3));
    let words = stdout(&lab(&format!("pairs --synthetic {plan}")));
    assert!(words.contains("hits a pattern") && words.contains("0 spurious"), "{words}");
}

#[test]
fn wrong_plans_are_refused() {
    for (args, code, says) in [
        ("check --synthetic patterns=10,rows=1,cols=1", 3, "has 0 fibers that are not zero"),
        ("check --synthetic features=1000000,patterns=10", 1, "GB of memory"),
        ("check --synthetic noise=loud", 2, "noise is \"loud\", it must be a number"),
        ("pairs --synthetic colour=3", 2, "is none of features, patterns"),
        ("check --synthetic alpha=2", 2, "alpha is 2"),
        ("check --synthetic --picture x.svg", 2, "--evidence"),
    ] {
        let output = lab(args);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{args}: {message}");
        assert!(message.contains(says) && message.lines().count() == 1, "{args}: {message}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn help_of_the_laboratory_names_every_command() {
    for args in
        ["--help", "recover --help", "bench limit --help", "bench scaling --help", "paper --help", "help"]
    {
        let output = lab(args);
        assert!(output.status.success() && output.stderr.is_empty(), "{args}");
        assert!(stdout(&output).contains("Usage: noodl-lab"), "{args}");
    }
    let help = stdout(&lab("--help"));
    for part in ["recover", "check", "pairs", "bench", "paper", "Examples:", "Exit codes:"] {
        assert!(help.contains(part), "{part}");
    }
    assert!(stdout(&lab("--version")).starts_with("noodl-lab "));
}
