//! Warnings about a model, in the words of Python.

use tensornoodl_data::{Model, Warning, WarningKind};

/// What remedies name as the program `noodl` spells it, and as Python does.
const SPELLINGS: [(&str, &str); 5] = [
    ("--patterns ", "n_patterns="),
    ("--model counts", "model='counts'"),
    ("without --step", "one tensor instead of a stream"),
    (
        "noodl check --model exact --evidence shows what each number explains",
        "1 - fit**2 in history_ is what it explains",
    ),
    ("noodl compare", "tensornoodl.match"),
];

/// Returns what is doubtful about a model, and what to try: two sentences each.
pub(crate) fn warnings(model: &Model) -> Vec<String> {
    model.warnings().iter().map(sentences).collect()
}

/// Returns the warnings of [`warnings`] that are about the stability of the patterns.
pub(crate) fn instabilities(model: &Model) -> Vec<String> {
    let of_stability = |it: &Warning| matches!(it.kind, WarningKind::Seeds | WarningKind::Halves);
    model.warnings().into_iter().filter(of_stability).map(|it| sentences(&it)).collect()
}

fn sentences(warning: &Warning) -> String {
    let spelled = |text: String, (theirs, ours): &(&str, &str)| text.replace(theirs, ours);
    format!("{}. {}.", warning.text, SPELLINGS.iter().fold(warning.remedy.clone(), spelled))
}
