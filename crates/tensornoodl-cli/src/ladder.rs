//! The ladder of numbers of patterns of a counts model, in words and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};
use tensornoodl::discover::SIGNIFICANCE;
use tensornoodl_data::{Evidence, Model};

/// Returns a line for each number of patterns with its gain, and why this number was taken. `given` says whether a user
/// asked for it.
pub fn words(evidence: &Evidence, taken: usize, given: bool) -> String {
    let mut text = String::from("patterns  gain in the log-likelihood of hidden events, ± standard error\n");
    let most = evidence.rungs.iter().map(|rung| rung.gain).fold(1e-9, f64::max);
    for (at, rung) in evidence.rungs.iter().enumerate() {
        let mark = if rung.patterns == taken { "  <- taken" } else { "" };
        // Writing to a string cannot fail.
        let _ = match at {
            0 => writeln!(text, "{:>8}  {:>19}  {:<24}{mark}", rung.patterns, "", ""),
            _ => {
                let bar = "━".repeat((24.0 * rung.gain / most).round().max(0.0) as usize);
                writeln!(
                    text,
                    "{:>8}  {:>+9.1} ± {:<7.1}  {bar:<24}{mark}",
                    rung.patterns, rung.gain, rung.error
                )
            }
        };
    }
    let text: String = text.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    format!("{text}\n{}.\n", reason(evidence, taken, given))
}

fn reason(evidence: &Evidence, taken: usize, given: bool) -> String {
    if given {
        format!("{taken} patterns are taken, because they were asked for")
    } else {
        evidence.reason(taken)
    }
}

/// Returns the ladder as JSON. `given` says whether a user asked for this number of patterns.
pub fn record(evidence: &Evidence, taken: usize, given: bool) -> Value {
    json!({
        "ladder": evidence.rungs,
        "taken": taken,
        "significance": SIGNIFICANCE,
        "reason": reason(evidence, taken, given),
    })
}

/// Returns the evidence that a model keeps, in words.
pub fn evidence_words(model: &Model) -> String {
    let taken = model.learner.dictionary().patterns();
    let evidence = model.evidence.clone().unwrap_or_default();
    let mut text = match evidence.rungs.is_empty() {
        true => format!("The model keeps no ladder: {}.\n", no_ladder(model)),
        false => words(&evidence, taken, false),
    };
    if let Some(stability) = &evidence.stability {
        let _ = writeln!(text, "{}", stability.sentence());
    }
    text
}

/// Says why a model has no ladder.
fn no_ladder(model: &Model) -> &'static str {
    match model.card.kind.as_str() {
        "counts" => "the number of its patterns was given",
        _ => "it is an exact model; noodl check --model exact --evidence measures the evidence in the table",
    }
}
