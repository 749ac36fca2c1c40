//! `noodl show`: a model on the terminal.

use std::io::{self, Write};
use std::ops::Range;
use std::path::PathBuf;

use tensornoodl_cli::plot::sparkline;
use tensornoodl_data::{Axis, Model};

const EXAMPLES: &str = "\
Examples:
  noodl show mail.safetensors
  noodl show mail.safetensors --pattern 2 --top 20
  noodl show shots.safetensors --at 2018-W51 --like 'James Harden'";

/// Show the patterns of a model: a line for each, and who takes part.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct Args {
    /// A model file.
    model: PathBuf,
    /// Only this pattern, from 1.
    #[arg(long)]
    pattern: Option<usize>,
    /// Show who takes part in the step with this label [default: over all steps].
    #[arg(long, value_name = "LABEL")]
    at: Option<String>,
    /// Only the rows that are most like this one: that take part in the same patterns.
    #[arg(long, value_name = "ROW", conflicts_with = "pattern")]
    like: Option<String>,
    /// So many rows and cols of each.
    #[arg(long, default_value_t = 5)]
    top: usize,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let model = Model::load(&args.model)?;
    let patterns = model.learner.dictionary().patterns();
    if args.pattern.is_some_and(|pattern| !(1..=patterns).contains(&pattern)) {
        return Err(tensornoodl::Error::Parameter {
            name: "pattern",
            value: args.pattern.unwrap_or(0).to_string(),
            rule: format!("from 1 to {patterns}"),
        }
        .into());
    }
    let mut out = io::stdout().lock();
    let card = &model.card;
    let learned = &card.steps[..card.history.len()];
    let steps = match &args.at {
        Some(label) => {
            let at = place(label, learned, "at")?;
            at..at + 1
        }
        None => 0..learned.len(),
    };
    if let Some(row) = &args.like {
        let alike = alike(&model, steps, place(row, &card.rows, "like")?);
        for (row, cosine) in alike.into_iter().take(args.top) {
            writeln!(out, "{cosine:.3}  {}", card.rows[row])?;
        }
        return Ok(());
    }
    writeln!(
        out,
        "{patterns} patterns over {} ({} features), {} rows, {} cols, {} of {} steps learned",
        card.query.feature,
        card.features.len(),
        card.rows.len(),
        card.cols.len(),
        card.history.len(),
        card.steps.len()
    )?;
    if steps.end == learned.len() && (0..patterns).any(|pattern| model.groups(pattern).len() > 1) {
        writeln!(
            out,
            "A pattern may be shared by several groups that have nothing else in common; each is given with its share of the \
             pattern{}{}.",
            if card.history.len() > 1 { " in the last step" } else { "" },
            if card.row_groups.is_empty() {
                ""
            } else {
                ", what most of its members are known to be, and how many are not / members"
            }
        )?;
    }
    for pattern in (0..patterns).filter(|pattern| args.pattern.is_none_or(|only| only == pattern + 1)) {
        let values = model.learner.dictionary().pattern(pattern);
        writeln!(out, "\npattern {}", pattern + 1)?;
        match &card.query.feature {
            Axis::Grid(grid) => {
                for row in values.chunks(grid.cells.0).rev() {
                    writeln!(out, "  {}", row.iter().map(|value| shade(*value, values)).collect::<String>())?;
                }
            }
            _ => writeln!(out, "  {}  {}", sparkline(values, 60), peaks(values, &card.features))?,
        }
        let names = |leading: Vec<(usize, f64)>, labels: &[String]| {
            let one = |(index, weight): &(usize, f64)| format!("{} {weight:.2}", labels[*index]);
            leading.iter().take(args.top).map(one).collect::<Vec<_>>().join(", ")
        };
        let rows = model.leading_in(steps.clone(), pattern, |factors| &factors.rows);
        let cols = model.leading_in(steps.clone(), pattern, |factors| &factors.cols);
        writeln!(out, "  rows  {}", names(rows, &card.rows))?;
        writeln!(out, "  cols  {}", names(cols, &card.cols))?;
        // They are of the last step.
        let groups = if steps.end == learned.len() { model.groups(pattern) } else { Vec::new() };
        // One group that holds all of it is what was just said.
        if groups.len() < 2 && groups.iter().all(|group| group.known.is_none()) {
            continue;
        }
        for (at, group) in (1..).zip(groups) {
            let known = group
                .known
                .map_or(String::new(), |known| format!("{} {}/{}: ", known.name, known.others, known.size));
            let some = |members: &[(usize, f64)], labels: &[String]| {
                let names = members.iter().take(args.top.min(3)).map(|(index, _)| labels[*index].as_str());
                let dots = if members.len() > args.top.min(3) { ", ..." } else { "" };
                names.collect::<Vec<_>>().join(", ") + dots
            };
            let share = 100.0 * group.share;
            let (rows, cols) = (some(&group.rows, &card.rows), some(&group.cols, &card.cols));
            writeln!(out, "  group {at}, {share:.0} %  {known}{rows} with {cols}")?;
        }
    }
    Ok(())
}

/// Where a label is.
fn place(label: &str, labels: &[String], name: &'static str) -> anyhow::Result<usize> {
    labels.iter().position(|known| known == label).ok_or_else(|| {
        let some: Vec<&str> = labels.iter().take(3).map(String::as_str).collect();
        let rule = format!("one of the model: {}, ...", some.join(", "));
        tensornoodl::Error::Parameter { name, value: label.into(), rule }.into()
    })
}

/// Other rows, and the cosine of their weights in all patterns and steps with those of this row, most alike first.
fn alike(model: &Model, steps: Range<usize>, row: usize) -> Vec<(usize, f64)> {
    let patterns = model.learner.dictionary().patterns();
    // Of each pattern in each step: the sign of its factors is free, but the same for all of its rows.
    let mut weights = vec![vec![0.0; patterns * steps.len()]; model.card.rows.len()];
    for (at, factors) in model.factors[steps].iter().enumerate() {
        for (pattern, column) in factors.rows.columns().enumerate() {
            column.iter().for_each(|&(row, weight)| weights[row as usize][at * patterns + pattern] = weight);
        }
    }
    let dot = |a: usize, b: usize| weights[a].iter().zip(&weights[b]).map(|(a, b)| a * b).sum::<f64>();
    let others = (0..weights.len()).filter(|other| *other != row && dot(*other, *other) > 0.0);
    let mut alike: Vec<(usize, f64)> = others
        .filter(|_| dot(row, row) > 0.0)
        .map(|other| (other, dot(row, other) / (dot(row, row) * dot(other, other)).sqrt()))
        .collect();
    alike.sort_by(|a, b| b.1.total_cmp(&a.1));
    alike
}

/// The features that stand out, up and down.
fn peaks(values: &[f64], names: &[String]) -> String {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*b].abs().total_cmp(&values[*a].abs()));
    order.truncate(3);
    let named = |word: &str, up: bool| {
        let names: Vec<&str> =
            order.iter().filter(|at| (values[**at] >= 0.0) == up).map(|at| names[*at].as_str()).collect();
        (!names.is_empty()).then(|| format!("{word} at {}", names.join(", ")))
    };
    [named("most", true), named("least", false)].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn shade(value: f64, all: &[f64]) -> &'static str {
    let most = all.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
    match value / most {
        share if share > 0.66 => "██",
        share if share > 0.33 => "▓▓",
        share if share > 0.1 => "▒▒",
        share if share < -0.33 => "──",
        _ => "··",
    }
}
