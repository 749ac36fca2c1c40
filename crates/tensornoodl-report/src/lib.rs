//! A model as one HTML page that needs no network: what was found, how healthy it is, a card for each pattern.

#![forbid(unsafe_code)]

mod pictures;

use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment};
use serde::Serialize;
use tensornoodl::Factors;
use tensornoodl_data::{Card, Model, Recipe};

/// What went wrong with the page itself; it is a mistake of ours.
pub type Error = minijinja::Error;

/// Rows and cols of a card.
const SHOWN: usize = 12;

/// Numbers of factors over steps that the page carries, at most: it should stay small.
const MOST_NUMBERS: usize = 40_000;

/// Rows that can be looked for, at most.
const MOST_ROWS: usize = 5_000;

/// All that the template shows.
#[derive(Serialize)]
struct Page<'m> {
    table: &'m str,
    sentence: String,
    events: String,
    card: &'m Card,
    used: String,
    lights: Vec<Light>,
    patterns: Vec<Pattern>,
    stream: bool,
    steps: &'m [String],
    convergence: String,
    moments: Vec<Vec<Moment>>,
    row_names: Vec<&'m str>,
    row_weights: Vec<&'m [f64]>,
    pattern_values: Vec<Vec<f64>>,
}

/// What a piece of a page shows.
#[derive(Serialize)]
struct Cards<'m> {
    sentence: String,
    patterns: Vec<&'m Pattern>,
    more: usize,
}

#[derive(Serialize)]
struct Pattern {
    number: usize,
    energy: f64,
    share: String,
    rank_one: String,
    picture: String,
    block: String,
    rows: Vec<Member>,
    cols: Vec<Member>,
    groups: Vec<Group>,
    /// The second singular value over the first.
    second: String,
}

/// Rows and cols that share a pattern in the last step.
#[derive(Serialize)]
struct Group {
    share: String,
    rows: Vec<String>,
    cols: Vec<String>,
    more: usize,
    /// What they are known to be, and how many are not, as the paper writes it.
    known: Option<(String, String)>,
}

#[derive(Serialize, Clone)]
struct Member {
    name: String,
    weight: f64,
    /// Of the largest, in percent.
    percent: f64,
}

#[derive(Serialize)]
struct Light {
    /// good, look or bad.
    state: &'static str,
    name: &'static str,
    text: String,
    advice: &'static str,
}

/// For one pattern in one step: numbers of labels and factors.
#[derive(Serialize)]
struct Moment {
    rows: Vec<(usize, f64)>,
    cols: Vec<(usize, f64)>,
}

/// The page.
pub fn html(model: &Model) -> Result<String, Error> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.add_template("page", include_str!("page.html"))?;
    let card = &model.card;
    let stream = card.history.len() > 1;
    let fits: Vec<f64> = card.history.iter().map(|record| 1.0 - record.fit * record.fit).collect();
    let learned = &card.steps[..card.history.len()];
    let table = table_name(card);
    let weights = weights(model);
    let dictionary = model.learner.dictionary();
    let page = Page {
        table,
        sentence: sentence(model, table),
        card,
        used: grouped(card.tally.used()),
        events: grouped(card.tally.events),
        lights: lights(model),
        patterns: patterns(model),
        stream,
        steps: learned,
        convergence: pictures::over_steps(&fits, learned, "Share of the energy explained, by step"),
        moments: if stream { moments(model) } else { Vec::new() },
        row_names: weights.iter().map(|row| card.rows[row.0].as_str()).collect(),
        row_weights: weights.iter().map(|row| row.1.as_slice()).collect(),
        pattern_values: (0..dictionary.patterns())
            .map(|pattern| dictionary.pattern(pattern).iter().copied().map(rounded).collect())
            .collect(),
    };
    environment.get_template("page")?.render(Serde(&page))
}

/// Those patterns that hold most, as a piece of a page: small pictures, and the first names of each.
pub fn cards(model: &Model, most: usize) -> Result<String, Error> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.add_template("cards", include_str!("cards.html"))?;
    let all = patterns(model);
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by(|&a, &b| all[b].energy.total_cmp(&all[a].energy));
    let cards = Cards {
        sentence: sentence(model, table_name(&model.card)),
        more: order.len().saturating_sub(most),
        patterns: order.iter().take(most).map(|&i| &all[i]).collect(),
    };
    environment.get_template("cards")?.render(Serde(&cards))
}

/// The table, without its folder.
fn table_name(card: &Card) -> &str {
    card.table.rsplit(['/', '\\']).next().unwrap_or(&card.table)
}

/// Four digits are enough to look at.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

/// 12345 as 12,345.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let comma = |(at, digit): (usize, char)| {
        let comma = at > 0 && (digits.len() - at).is_multiple_of(3);
        [comma.then_some(','), Some(digit)].into_iter().flatten().collect::<String>()
    };
    digits.chars().enumerate().map(comma).collect()
}

fn sentence(model: &Model, table: &str) -> String {
    let (card, count) = (&model.card, model.learner.dictionary().patterns());
    let patterns = if count == 1 { "One pattern".into() } else { format!("{count} patterns") };
    let steps = match card.history.len() {
        0 | 1 => String::new(),
        steps => format!(", in {steps} steps"),
    };
    let verb = if count == 1 { "explains" } else { "explain" };
    format!(
        "{patterns} over {} features {verb} {:.0} % of what {} rows do with {} cols in {table}{steps}.",
        card.features.len(),
        100.0 * explained(model),
        card.rows.len(),
        card.cols.len()
    )
}

/// Share of the energy, mean over steps by fibers.
fn explained(model: &Model) -> f64 {
    let (sum, fibers) = model.card.history.iter().fold((0.0, 0.0), |(sum, fibers), record| {
        (sum + (1.0 - record.fit * record.fit) * record.fibers as f64, fibers + record.fibers as f64)
    });
    if fibers > 0.0 { sum / fibers } else { 0.0 }
}

fn members(leading: &[(usize, f64)], names: &[String]) -> Vec<Member> {
    let most = leading.first().map_or(1.0, |first| first.1.abs()).max(f64::MIN_POSITIVE);
    let member = |(index, weight): &(usize, f64)| Member {
        name: names[*index].clone(),
        weight: *weight,
        percent: (100.0 * weight.abs() / most).round(),
    };
    leading.iter().take(SHOWN).map(member).collect()
}

fn patterns(model: &Model) -> Vec<Pattern> {
    let (card, dictionary) = (&model.card, model.learner.dictionary());
    let energy: Vec<f64> = (0..dictionary.patterns())
        .map(|i| {
            let squares = |factors: &Factors| {
                let norm = |column: &[(u32, f64)]| column.iter().map(|entry| entry.1 * entry.1).sum::<f64>();
                // The leading group holds its share of the pattern.
                match factors.rank_one.get(i) {
                    Some(share) if *share > 0.0 => {
                        norm(factors.rows.column(i)) * norm(factors.cols.column(i)) / share
                    }
                    _ => 0.0,
                }
            };
            model.factors.iter().map(squares).sum()
        })
        .collect();
    let all = energy.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    (0..dictionary.patterns())
        .map(|i| {
            let rows = model.leading(i, |factors| &factors.rows);
            let cols = model.leading(i, |factors| &factors.cols);
            let (top_rows, top_cols) = (&rows[..rows.len().min(SHOWN)], &cols[..cols.len().min(SHOWN)]);
            let with = |row: usize, col: usize| -> f64 {
                let here = model.factors.iter().filter(|factors| i < factors.rows.cols());
                let at = |column: &[(u32, f64)], index: usize| {
                    column.iter().find(|entry| entry.0 as usize == index).map_or(0.0, |entry| entry.1)
                };
                here.map(|factors| at(factors.rows.column(i), row) * at(factors.cols.column(i), col)).sum()
            };
            let block: Vec<f64> =
                top_rows.iter().flat_map(|row| top_cols.iter().map(|col| with(row.0, col.0))).collect();
            let names = |leading: &[(usize, f64)], names: &[String]| -> Vec<String> {
                leading.iter().map(|(index, _)| names[*index].clone()).collect()
            };
            let shares: Vec<f64> = model
                .factors
                .iter()
                .filter_map(|factors| factors.rank_one.get(i).copied().filter(|share| *share > 0.0))
                .collect();
            let rank_one = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
            let number = i + 1;
            Pattern {
                number,
                energy: energy[i],
                share: format!("{:.0} %", 100.0 * energy[i] / all),
                rank_one: format!("{:.0} %", 100.0 * rank_one),
                picture: pictures::pattern(dictionary.pattern(i), card, &format!("Pattern {number}")),
                block: pictures::block(
                    &block,
                    &names(top_rows, &card.rows),
                    &names(top_cols, &card.cols),
                    &format!("Pattern {number}: who with whom"),
                ),
                rows: members(&rows, &card.rows),
                cols: members(&cols, &card.cols),
                groups: groups(model, i),
                second: second(model, i).map_or(String::new(), |second| format!("{second:.2}")),
            }
        })
        .collect()
}

/// Names of a group that are shown.
const NAMED: usize = 8;

fn groups(model: &Model, pattern: usize) -> Vec<Group> {
    let card = &model.card;
    let groups = model.groups(pattern);
    // One group that holds all of it is what the card shows.
    if groups.len() < 2 && groups.iter().all(|group| group.known.is_none()) {
        return Vec::new();
    }
    let group = |group: tensornoodl_data::Group| {
        let names = |members: &[(usize, f64)], labels: &[String]| -> Vec<String> {
            members.iter().take(NAMED).map(|(index, _)| labels[*index].clone()).collect()
        };
        Group {
            share: format!("{:.0} %", 100.0 * group.share),
            rows: names(&group.rows, &card.rows),
            cols: names(&group.cols, &card.cols),
            more: group.rows.len().saturating_sub(NAMED) + group.cols.len().saturating_sub(NAMED),
            known: group.known.map(|known| (known.name, format!("{}/{}", known.others, known.size))),
        }
    };
    groups.into_iter().map(group).collect()
}

/// s2/s1 of a pattern in the last step, if there is a second group at all.
fn second(model: &Model, pattern: usize) -> Option<f64> {
    match model.groups(pattern).as_slice() {
        [first, second, ..] => Some((second.share / first.share).sqrt()),
        _ => None,
    }
}

/// Factors over steps, as many as the page can carry.
fn moments(model: &Model) -> Vec<Vec<Moment>> {
    let lists = 2 * model.factors.len() * model.learner.dictionary().patterns();
    let most = (MOST_NUMBERS / lists.max(1)).clamp(3, SHOWN);
    let top = |column: &[(u32, f64)]| {
        let mut list: Vec<(usize, f64)> =
            column.iter().map(|(index, value)| (*index as usize, rounded(*value))).collect();
        list.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
        list.truncate(most);
        list
    };
    let moment = |factors: &Factors, i: usize| Moment {
        rows: top(factors.rows.column(i)),
        cols: top(factors.cols.column(i)),
    };
    model
        .factors
        .iter()
        .map(|factors| (0..factors.rows.cols()).map(|i| moment(factors, i)).collect())
        .collect()
}

/// For the most active rows, how strongly each takes part in each pattern. Without signs, which are free in each step.
fn weights(model: &Model) -> Vec<(usize, Vec<f64>)> {
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

/// Where a value stands: good, worth a look, or bad.
fn state(value: f64, good: f64, bad: f64) -> &'static str {
    let (value, good, bad) = if good > bad { (value, good, bad) } else { (-value, -good, -bad) };
    if value >= good {
        "good"
    } else if value >= bad {
        "look"
    } else {
        "bad"
    }
}

fn lights(model: &Model) -> Vec<Light> {
    let (dictionary, history) = (model.learner.dictionary(), &model.card.history);
    let explained = explained(model);
    let change = history.last().map_or(0.0, |record| record.change);
    let largest = dictionary.incoherence() / (dictionary.features() as f64).sqrt();
    let shares: Vec<f64> = model
        .factors
        .iter()
        .flat_map(|factors| factors.rank_one.iter().copied())
        .filter(|share| *share > 0.0)
        .collect();
    let rank_one = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
    let overdue = model.learner.overdue().len();
    let mut lights = vec![
        Light {
            state: state(explained, 0.8, 0.4),
            name: "Explained",
            text: format!("{:.0} % of the energy", 100.0 * explained),
            advice: if model.card.recipe == Recipe::default() {
                "Low: the data has more in it than these patterns. Try more patterns, a recipe such as log2,scale,center, or fewer \
                 features."
            } else {
                "Low: the data has more in it than these patterns. Try more patterns, or fewer features."
            },
        },
        Light {
            state: state(largest, 0.5, 0.9),
            name: "Apart",
            text: format!("the two most similar patterns have a cosine of {largest:.2}"),
            advice: "Patterns that are nearly the same share their rows and cols by chance: try fewer patterns, and the recipe center \
                     if it was not used.",
        },
        Light {
            state: state(rank_one, 0.8, 0.4),
            name: "One group each",
            text: format!(
                "the leading group of a pattern holds {:.0} % of it on the average",
                100.0 * rank_one
            ),
            advice: "Low: several groups share a pattern (s2/s1 in its card is near 1), which the model does not have. The patterns \
                     are right all the same; look at all groups of a card, not only at the first.",
        },
        Light {
            state: if overdue == 0 { "good" } else { "look" },
            name: "Alive",
            text: if overdue == 0 {
                "every pattern is still seen".into()
            } else {
                format!("{overdue} patterns have not been seen for long")
            },
            advice: "A pattern that is not seen any more may be of the past.",
        },
    ];
    // One tensor is learned from in one step, which moves the patterns as far as it does.
    if history.len() > 1 {
        lights.push(Light {
            // A tenth is a cosine of 0.995.
            state: state(change, 0.1, 0.3),
            name: "Settled",
            text: format!("the last step moved the patterns by {:.2} %", 100.0 * change),
            advice: "Still moving: more passes or more steps.",
        });
    }
    lights
}
