//! A model as a single HTML page that works without a network: a summary, the health of the model, and a card for each
//! pattern.

#![forbid(unsafe_code)]

mod health;
mod pattern;
mod pictures;

use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment};
use serde::Serialize;
use tensornoodl::Factors;
use tensornoodl_data::{Card, Evidence, Model, Warning};

use crate::health::{Light, lights};
use crate::pattern::{MOST_MEMBERS, Pattern, patterns};

/// Error in rendering a template. The templates are part of this crate, so an error is a bug of this crate.
pub type Error = minijinja::Error;

/// Approximate largest number of factor entries that the page carries for its step slider. It bounds the size of the
/// page.
const MOST_ENTRIES: usize = 40_000;

/// Largest number of rows in the search for similar rows.
const MOST_ROWS: usize = 5_000;

/// The script of the page.
const SCRIPT: &str = include_str!("page.js");

/// The hash of [`SCRIPT`], by which a browser knows that it may run. It runs no other script.
const SCRIPT_HASH: &str = "sha256-Z5WTyn5RHd0RKSOF4ueqOkTRNfNC4m7ouOsZAKUgojQ=";

/// Which labels of rows and cols a page carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageLabels {
    /// All labels.
    All,
    /// Only the labels that the page shows. There is no search for similar rows then, and no table of all rows.
    Shown,
}

/// Values that `page.html` shows.
#[derive(Serialize)]
struct Page<'m> {
    table: &'m str,
    sentence: String,
    events: String,
    card: &'m Card,
    used: String,
    warnings: Vec<Warning>,
    news: Vec<String>,
    lights: Vec<Light>,
    /// SVG of the ladder of numbers of patterns. Empty if the model has none.
    ladder: String,
    reason: String,
    stability: String,
    /// What the explained share is a share of.
    measure: &'static str,
    patterns: Vec<Pattern>,
    stream: bool,
    steps: &'m [String],
    convergence: String,
    moments: Vec<Vec<StepFactors>>,
    /// The labels that `moments` counts in.
    rows: Vec<&'m str>,
    cols: Vec<&'m str>,
    row_names: Vec<&'m str>,
    row_weights: Vec<&'m [f64]>,
    pattern_values: Vec<Vec<f64>>,
    script: &'static str,
    script_hash: &'static str,
}

/// Values that `cards.html` shows.
#[derive(Serialize)]
struct Cards<'m> {
    sentence: String,
    patterns: Vec<&'m Pattern>,
    more: usize,
}

/// The strongest row and col factors of one pattern in one step: indices of labels, and factors.
#[derive(Serialize)]
struct StepFactors {
    rows: Vec<(usize, f64)>,
    cols: Vec<(usize, f64)>,
}

/// Returns the page about a model, with all labels.
///
/// # Errors
///
/// If the template cannot be rendered, which is a bug of this crate.
pub fn html(model: &Model) -> Result<String, Error> {
    html_with(model, PageLabels::All)
}

/// Returns the page about a model.
///
/// # Errors
///
/// If the template cannot be rendered, which is a bug of this crate.
pub fn html_with(model: &Model, labels: PageLabels) -> Result<String, Error> {
    let card = &model.card;
    let stream = card.history.len() > 1;
    let explained: Vec<f64> = card.history.iter().map(|record| record.explained()).collect();
    let learned = &card.steps[..card.history.len()];
    let table = table_name(card);
    let weights = if labels == PageLabels::All { row_weights(model) } else { Vec::new() };
    let mut moments = if stream { step_factors(model) } else { Vec::new() };
    let (mut rows, mut cols) = (texts(&card.rows), texts(&card.cols));
    if labels == PageLabels::Shown {
        keep_shown(&mut rows, moments.iter_mut().flatten().flat_map(|it| &mut it.rows).collect());
        keep_shown(&mut cols, moments.iter_mut().flatten().flat_map(|it| &mut it.cols).collect());
    }
    let dictionary = model.learner.dictionary();
    let rungs = model.evidence.as_ref().filter(|evidence| !evidence.rungs.is_empty());
    let stability = model.evidence.as_ref().and_then(|evidence| evidence.stability.as_ref());
    let page = Page {
        table,
        sentence: sentence(model, table),
        card,
        used: with_commas(card.tally.used()),
        events: with_commas(card.tally.events),
        warnings: model.warnings(),
        news: model.news(),
        lights: lights(model),
        ladder: rungs.map_or(String::new(), |evidence| ladder(evidence, dictionary.patterns(), table)),
        reason: rungs.map_or(String::new(), |evidence| evidence.reason(dictionary.patterns())),
        stability: stability.map_or(String::new(), |stability| stability.sentence()),
        measure: model.measure(),
        patterns: patterns(model),
        stream,
        steps: learned,
        convergence: pictures::over_steps(
            &explained,
            learned,
            &format!("Share of the {} explained, by step", model.measure()),
        ),
        moments,
        rows,
        cols,
        row_names: weights.iter().map(|row| card.rows[row.0].as_str()).collect(),
        row_weights: weights.iter().map(|row| row.1.as_slice()).collect(),
        pattern_values: (0..dictionary.patterns())
            .map(|pattern| dictionary.pattern(pattern).iter().copied().map(rounded).collect())
            .collect(),
        script: SCRIPT,
        script_hash: SCRIPT_HASH,
    };
    render(include_str!("page.html"), &page)
}

fn texts(labels: &[String]) -> Vec<&str> {
    labels.iter().map(String::as_str).collect()
}

/// Keeps the labels that members name by their indices, and gives the members the new indices.
fn keep_shown(labels: &mut Vec<&str>, members: Vec<&mut (usize, f64)>) {
    let mut new_index = vec![None; labels.len()];
    let mut kept = Vec::new();
    for member in members {
        let index = *new_index[member.0].get_or_insert_with(|| {
            kept.push(labels[member.0]);
            kept.len() - 1
        });
        member.0 = index;
    }
    *labels = kept;
}

/// Returns the `most` patterns with the largest energy as an HTML fragment: a small picture of each, and its leading
/// rows and cols.
///
/// # Errors
///
/// If the template cannot be rendered, which is a bug of this crate.
pub fn cards(model: &Model, most: usize) -> Result<String, Error> {
    let all = patterns(model);
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by(|&a, &b| all[b].energy.total_cmp(&all[a].energy));
    let cards = Cards {
        sentence: sentence(model, table_name(&model.card)),
        more: order.len().saturating_sub(most),
        patterns: order.iter().take(most).map(|&i| &all[i]).collect(),
    };
    render(include_str!("cards.html"), &cards)
}

/// Returns a picture, as SVG, of what each number of patterns gains over the number before it, with its standard error.
/// `taken` is the number that was taken, and `name` names the data.
pub fn ladder(evidence: &Evidence, taken: usize, name: &str) -> String {
    pictures::ladder(evidence, taken, &format!("{name}: gain in the log-likelihood of hidden events"))
}

fn render(template: &'static str, values: &impl Serialize) -> Result<String, Error> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.add_template("template", template)?;
    environment.get_template("template")?.render(Serde(values))
}

/// Returns the name of the table without its folder.
fn table_name(card: &Card) -> &str {
    card.table.rsplit(['/', '\\']).next().unwrap_or(&card.table)
}

/// Rounds to four significant digits, which keeps the page small.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

/// Formats a number with commas between thousands: 12345 becomes 12,345.
fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let comma = |(at, digit): (usize, char)| {
        let comma = at > 0 && (digits.len() - at).is_multiple_of(3);
        [comma.then_some(','), Some(digit)].into_iter().flatten().collect::<String>()
    };
    digits.chars().enumerate().map(comma).collect()
}

/// Returns the sentence at the top of the page.
fn sentence(model: &Model, table: &str) -> String {
    let (card, count) = (&model.card, model.learner.dictionary().patterns());
    let patterns = if count == 1 { "One pattern".into() } else { format!("{count} patterns") };
    let steps = match card.history.len() {
        0 | 1 => String::new(),
        steps => format!(", {steps} steps"),
    };
    let verb = if count == 1 { "explains" } else { "explain" };
    format!(
        "{patterns} over {} features {verb} {:.0} % of the {} of {table} ({} rows x {} cols{steps}).",
        card.features.len(),
        100.0 * model.explained(),
        model.measure(),
        card.rows.len(),
        card.cols.len()
    )
}

/// Returns the strongest factors of each step and pattern, about [`MOST_ENTRIES`] in total.
fn step_factors(model: &Model) -> Vec<Vec<StepFactors>> {
    let lists = 2 * model.factors.len() * model.learner.dictionary().patterns();
    let most = (MOST_ENTRIES / lists.max(1)).clamp(3, MOST_MEMBERS);
    let strongest = |column: &[(u32, f64)]| {
        let mut list: Vec<(usize, f64)> =
            column.iter().map(|(index, value)| (*index as usize, rounded(*value))).collect();
        list.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
        list.truncate(most);
        list
    };
    let of_pattern = |factors: &Factors, pattern: usize| StepFactors {
        rows: strongest(factors.rows.column(pattern)),
        cols: strongest(factors.cols.column(pattern)),
    };
    let of_step =
        |factors: &Factors| (0..factors.rows.cols()).map(|pattern| of_pattern(factors, pattern)).collect();
    model.factors.iter().map(of_step).collect()
}

/// Returns how strongly each row takes part in each pattern, for the [`MOST_ROWS`] most active rows: index of the
/// row, and a magnitude for each pattern. Signs are left out, because they are arbitrary in each step.
fn row_weights(model: &Model) -> Vec<(usize, Vec<f64>)> {
    let count = model.learner.dictionary().patterns();
    let mut weights = vec![vec![0.0; count]; model.card.rows.len()];
    let leading = (0..count).map(|pattern| model.leading(pattern, |factors| &factors.rows));
    for (pattern, members) in leading.enumerate() {
        members.into_iter().for_each(|(row, weight)| weights[row][pattern] = rounded(weight.abs()));
    }
    let mut rows: Vec<(usize, Vec<f64>)> =
        weights.into_iter().enumerate().filter(|(_, row)| row.iter().any(|weight| *weight != 0.0)).collect();
    let activity = |row: &(usize, Vec<f64>)| row.1.iter().map(|weight| weight * weight).sum::<f64>();
    rows.sort_by(|a, b| activity(b).total_cmp(&activity(a)));
    rows.truncate(MOST_ROWS);
    rows.sort_by_key(|row| row.0);
    rows
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;
    use sha2::{Digest, Sha256};

    use super::*;

    #[test]
    fn the_hash_is_that_of_the_script() {
        let hash = format!("sha256-{}", BASE64_STANDARD.encode(Sha256::digest(SCRIPT)));
        assert_eq!(SCRIPT_HASH, hash, "put this hash into SCRIPT_HASH");
    }

    #[test]
    fn only_shown_labels_are_kept() {
        let mut labels = vec!["a", "b", "c", "d"];
        let mut members = [(3, 0.5), (1, 0.2), (3, 0.1)];
        keep_shown(&mut labels, members.iter_mut().collect());
        assert_eq!(labels, ["d", "b"]);
        assert_eq!(members.map(|member| member.0), [0, 1, 0]);
    }
}
