//! The card of a pattern: its picture, its share of the energy, and the rows and cols that take part in it.

use serde::Serialize;
use tensornoodl::{Factors, ModelKind};
use tensornoodl_data::{Model, error_text};

use crate::pictures;

/// Largest number of rows, and of cols, on the card of a pattern.
pub(crate) const MOST_MEMBERS: usize = 12;

/// Largest number of rows, and of cols, that the card names for each group.
const MOST_NAMES: usize = 8;

/// Groups with a smaller share of a pattern are not on the card.
const LEAST_SHARE: f64 = 0.01;

/// What the card of one pattern shows.
#[derive(Serialize)]
pub(crate) struct Pattern {
    /// Number of the pattern, from 1.
    number: usize,
    /// Since when the pattern has not been seen, in words. Empty if it is still seen.
    not_seen: String,
    /// Its expected distance from the true pattern, in percent of its length. Empty if it is not known.
    error: String,
    /// Sum over all steps of the squared codes of the pattern. For counts, the number of its events.
    pub(crate) energy: f64,
    /// Share of the pattern in the explained energy, or in the events, in percent.
    share: String,
    /// Share of the pattern that its leading group holds, in percent, mean over the steps in which the pattern occurs.
    /// Not for counts.
    rank_one: String,
    /// SVG of the pattern over the features.
    picture: String,
    /// SVG of the strength of the leading rows with the leading cols.
    block: String,
    rows: Vec<Member>,
    cols: Vec<Member>,
    groups: Vec<Group>,
    /// s2/s1: the second singular value of the last step over the first. Empty if there is only one group.
    second: String,
}

/// Rows and cols that share a pattern in the last step.
#[derive(Serialize)]
struct Group {
    /// Number of the group, from 1.
    number: usize,
    share: String,
    rows: Vec<String>,
    cols: Vec<String>,
    /// Number of members that are not named.
    more: usize,
    /// Name of the known group that most members belong to, and "members outside of it / all members", as the paper
    /// writes it.
    known: Option<(String, String)>,
}

/// A row or col that takes part in a pattern.
#[derive(Serialize, Clone)]
struct Member {
    name: String,
    weight: f64,
    /// Magnitude of the weight relative to the largest one, in percent.
    percent: f64,
}

/// Returns the cards of all patterns, in the order of the dictionary.
pub(crate) fn patterns(model: &Model) -> Vec<Pattern> {
    let energies: Vec<f64> =
        (0..model.learner.dictionary().patterns()).map(|pattern| energy(model, pattern)).collect();
    let total = energies.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    let errors = model.errors();
    let of_pattern = |(pattern, energy): (usize, &f64)| Pattern {
        error: errors[pattern].map_or(String::new(), |error| error_text(100.0 * error)),
        ..card(model, pattern, *energy, total)
    };
    energies.iter().enumerate().map(of_pattern).collect()
}

/// Returns the mean of those values that are positive, or 0 if none is.
pub(crate) fn mean_of_positive(values: impl Iterator<Item = f64>) -> f64 {
    let positive: Vec<f64> = values.filter(|value| *value > 0.0).collect();
    positive.iter().sum::<f64>() / positive.len().max(1) as f64
}

/// Returns the energy of a pattern over all steps. For counts, the number of its events.
fn energy(model: &Model, pattern: usize) -> f64 {
    let squared_norm = |column: &[(u32, f64)]| column.iter().map(|entry| entry.1 * entry.1).sum::<f64>();
    let sum = |column: &[(u32, f64)]| column.iter().map(|entry| entry.1).sum::<f64>();
    let of_step = |factors: &Factors| match factors.rank_one.get(pattern) {
        Some(share) if *share > 0.0 => {
            let (row, col) = (factors.rows.column(pattern), factors.cols.column(pattern));
            match model.learner.kind() {
                // The factors are those of the leading group, which holds only this share of the pattern.
                ModelKind::Exact => squared_norm(row) * squared_norm(col) / share,
                ModelKind::Counts => sum(row) * sum(col),
            }
        }
        _ => 0.0,
    };
    model.factors.iter().map(of_step).sum()
}

/// Returns the card of a pattern with this energy, without its error; `total` is the energy of all patterns.
fn card(model: &Model, pattern: usize, energy: f64, total: f64) -> Pattern {
    let (card, number) = (&model.card, pattern + 1);
    let rows = model.leading(pattern, |factors| &factors.rows);
    let cols = model.leading(pattern, |factors| &factors.cols);
    let (top_rows, top_cols) = (top(&rows), top(&cols));
    let rank_one =
        mean_of_positive(model.factors.iter().filter_map(|factors| factors.rank_one.get(pattern).copied()));
    Pattern {
        number,
        not_seen: model.not_seen(pattern).unwrap_or_default(),
        error: String::new(),
        energy,
        share: format!("{:.0} %", 100.0 * energy / total),
        rank_one: match model.learner.kind() {
            ModelKind::Exact => format!("{:.0} %", 100.0 * rank_one),
            ModelKind::Counts => String::new(),
        },
        picture: pictures::pattern(
            model.learner.dictionary().pattern(pattern),
            card,
            &format!("Pattern {number}"),
        ),
        block: pictures::block(
            &strengths(model, pattern, top_rows, top_cols),
            &names(top_rows, &card.rows),
            &names(top_cols, &card.cols),
            &format!("Pattern {number}: strength by row and col"),
        ),
        rows: members(top_rows, &card.rows),
        cols: members(top_cols, &card.cols),
        groups: groups(model, pattern),
        second: second_over_first(model, pattern).map_or(String::new(), |ratio| format!("{ratio:.2}")),
    }
}

fn top(leading: &[(usize, f64)]) -> &[(usize, f64)] {
    &leading[..leading.len().min(MOST_MEMBERS)]
}

/// Returns the strength of each row with each col in a pattern, summed over the steps, row by row.
fn strengths(model: &Model, pattern: usize, rows: &[(usize, f64)], cols: &[(usize, f64)]) -> Vec<f64> {
    let entry = |column: &[(u32, f64)], index: usize| {
        column.iter().find(|entry| entry.0 as usize == index).map_or(0.0, |entry| entry.1)
    };
    let strength = |row: usize, col: usize| -> f64 {
        let with_pattern = model.factors.iter().filter(|factors| pattern < factors.rows.cols());
        with_pattern
            .map(|factors| {
                entry(factors.rows.column(pattern), row) * entry(factors.cols.column(pattern), col)
            })
            .sum()
    };
    rows.iter().flat_map(|row| cols.iter().map(|col| strength(row.0, col.0))).collect()
}

fn names(members: &[(usize, f64)], labels: &[String]) -> Vec<String> {
    members.iter().map(|(index, _)| labels[*index].clone()).collect()
}

/// Returns the members with their names. The first one must be the strongest.
fn members(leading: &[(usize, f64)], labels: &[String]) -> Vec<Member> {
    let largest = leading.first().map_or(1.0, |first| first.1.abs()).max(f64::MIN_POSITIVE);
    let member = |(index, weight): &(usize, f64)| Member {
        name: labels[*index].clone(),
        weight: *weight,
        percent: (100.0 * weight.abs() / largest).round(),
    };
    leading.iter().map(member).collect()
}

/// Returns the groups that share a pattern in the last step; none if there is a single group of which nothing is known,
/// because the lists of the card show that one already.
fn groups(model: &Model, pattern: usize) -> Vec<Group> {
    let card = &model.card;
    let groups = model.groups(pattern);
    if groups.len() < 2 && groups.iter().all(|group| group.known.is_none()) {
        return Vec::new();
    }
    let first = |members: &[(usize, f64)], labels: &[String]| {
        names(&members[..members.len().min(MOST_NAMES)], labels)
    };
    let group = |group: tensornoodl_data::Group| Group {
        number: group.number,
        share: format!("{:.0} %", 100.0 * group.share),
        rows: first(&group.rows, &card.rows),
        cols: first(&group.cols, &card.cols),
        more: group.rows.len().saturating_sub(MOST_NAMES) + group.cols.len().saturating_sub(MOST_NAMES),
        known: group.known.map(|known| (known.name, format!("{}/{}", known.others, known.size))),
    };
    groups.into_iter().filter(|group| group.share >= LEAST_SHARE).map(group).collect()
}

/// Returns s2/s1, the second singular value of a pattern in the last step over the first, or `None` if there is no
/// second group. Counts have no singular values.
fn second_over_first(model: &Model, pattern: usize) -> Option<f64> {
    match model.groups(pattern).as_slice() {
        _ if model.learner.kind() == ModelKind::Counts => None,
        [first, second, ..] => Some((second.share / first.share).sqrt()),
        _ => None,
    }
}
