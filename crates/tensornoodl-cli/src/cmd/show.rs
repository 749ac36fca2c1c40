//! `noodl show`: prints a model.

use std::io::{self, Write};
use std::ops::Range;
use std::path::PathBuf;

use tensornoodl_cli::ladder;
use tensornoodl_cli::model::{self, write_verdict};
use tensornoodl_cli::output::{make_plain, plain};
use tensornoodl_cli::plot::sparkline;
use tensornoodl_cli::program::wrong;
use tensornoodl_data::{Archived, Axis, Card, Group, Model, error_text};

/// Groups with a smaller share of a pattern are only counted.
const LEAST_SHARE: f64 = 0.01;

const EXAMPLES: &str = "\
Examples:
  noodl show mail.safetensors
  noodl show mail.safetensors --pattern 2 --top 20
  noodl show mail.safetensors --evidence
  noodl show shots.safetensors --at 2018-W51 --like 'James Harden'";

/// Show the patterns of a model, and who takes part in each.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct Args {
    /// A model file.
    model: PathBuf,
    /// Show only this pattern, from 1.
    #[arg(long, value_name = "N")]
    pattern: Option<usize>,
    /// Show who takes part in the step with this label [default: all steps together].
    #[arg(long, value_name = "LABEL")]
    at: Option<String>,
    /// Show the rows that are most similar to this row: those that take part in the same patterns.
    #[arg(long, value_name = "ROW", conflicts_with = "pattern")]
    like: Option<String>,
    /// Show the evidence for the number of patterns instead of the patterns.
    #[arg(long, conflicts_with_all = ["pattern", "at", "like"])]
    evidence: bool,
    /// Number of rows and cols to show for each pattern.
    #[arg(long, default_value_t = 5, value_name = "N")]
    top: usize,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let mut model = model::load(&args.model)?;
    make_plain(&mut model);
    let patterns = model.learner.dictionary().patterns();
    if let Some(pattern) = args.pattern.filter(|pattern| !(1..=patterns).contains(pattern)) {
        return Err(wrong("pattern", pattern, &format!("from 1 to {patterns}")).into());
    }
    let mut out = io::stdout().lock();
    let card = &model.card;
    if args.evidence {
        return Ok(out.write_all(ladder::evidence_words(&model).as_bytes())?);
    }
    let learned = &card.steps[..card.history.len()];
    let steps = match &args.at {
        Some(label) => {
            let at = index_of(label, learned, "at")?;
            at..at + 1
        }
        None => 0..learned.len(),
    };
    if let Some(row) = &args.like {
        let similar = similar_rows(&model, steps, index_of(row, &card.rows, "like")?);
        for (row, cosine) in similar.into_iter().take(args.top) {
            writeln!(out, "{cosine:.3}  {}", card.rows[row])?;
        }
        return Ok(());
    }
    // The model has the groups of the last step only, or of the latest ones.
    let has_groups = steps.end == learned.len();
    write_head(&mut out, &model, has_groups)?;
    write_verdict(&mut out, &model)?;
    let errors = model.errors();
    if errors.iter().any(Option::is_some) {
        let what = "± is the expected distance of a pattern from the true one, relative to the length of the pattern.";
        writeln!(out, "{what}")?;
    }
    for pattern in (0..patterns).filter(|pattern| args.pattern.is_none_or(|only| only == pattern + 1)) {
        write_pattern(&mut out, &model, (pattern, errors[pattern]), steps.clone(), args.top)?;
        let groups = if has_groups { model.groups(pattern) } else { Vec::new() };
        // A single group without a name repeats the rows and cols above.
        if groups.len() > 1 || groups.iter().any(|group| group.known.is_some()) {
            let top = if args.pattern.is_some() { args.top } else { args.top.min(3) };
            write_groups(&mut out, card, groups, top)?;
        }
    }
    if args.pattern.is_none() {
        write_retired(&mut out, &model)?;
    }
    Ok(())
}

/// Prints the patterns that retired.
fn write_retired(out: &mut impl Write, model: &Model) -> io::Result<()> {
    let retired: Vec<&Archived> = model.archive().iter().filter(|it| it.retired).collect();
    if !retired.is_empty() {
        writeln!(out, "\nretired patterns, which return when they are seen again:")?;
    }
    for it in retired {
        let name = if it.identity.name.is_empty() {
            String::new()
        } else {
            format!(" ({})", plain(&it.identity.name))
        };
        let (first, last) = (&model.card.steps[it.first], &model.card.steps[it.last]);
        let peaks = peaks(&it.pattern, &model.card.features);
        writeln!(out, "  identity {}{name}, seen from {first} to {last}, {peaks}", it.identity.id)?;
    }
    Ok(())
}

fn write_head(out: &mut impl Write, model: &Model, has_groups: bool) -> io::Result<()> {
    let (card, patterns) = (&model.card, model.learner.dictionary().patterns());
    writeln!(
        out,
        "{patterns} patterns over {} ({} features), {} rows, {} cols, {} of {} steps learned",
        plain(&card.query.feature.to_string()),
        card.features.len(),
        card.rows.len(),
        card.cols.len(),
        card.history.len(),
        card.steps.len()
    )?;
    if has_groups && (0..patterns).any(|pattern| model.groups(pattern).len() > 1) {
        let stream = card.history.len() > 1;
        let known = if card.row_groups.is_empty() {
            ""
        } else {
            ", the known group of most of its members, and the number of other members / all members"
        };
        if model.all_groups().is_some() {
            let steps = if stream { " in the latest steps" } else { "" };
            writeln!(
                out,
                "A group has the same number in all patterns that it shares; it is given with its share of the events of \
                 the pattern{steps}{known}."
            )?;
        } else {
            let step = if stream { " in the last step" } else { "" };
            writeln!(
                out,
                "Several groups that have nothing else in common may share a pattern; each is given with its share of the \
                 pattern{step}{known}."
            )?;
        }
    }
    Ok(())
}

/// Prints a pattern with its error, and the rows and cols that take part in it most.
fn write_pattern(
    out: &mut impl Write,
    model: &Model,
    (pattern, error): (usize, Option<f64>),
    steps: Range<usize>,
    top: usize,
) -> io::Result<()> {
    let card = &model.card;
    let values = model.learner.dictionary().pattern(pattern);
    let not_seen = model.not_seen(pattern).map_or(String::new(), |words| format!(", {words}"));
    let error = error.map_or(String::new(), |error| format!(", ± {}", error_text(error)));
    writeln!(out, "\npattern {}{not_seen}{error}", pattern + 1)?;
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
        leading.iter().take(top).map(one).collect::<Vec<_>>().join(", ")
    };
    let rows = model.leading_in(steps.clone(), pattern, |factors| &factors.rows);
    let cols = model.leading_in(steps, pattern, |factors| &factors.cols);
    writeln!(out, "  rows  {}", names(rows, &card.rows))?;
    writeln!(out, "  cols  {}", names(cols, &card.cols))
}

/// Prints the groups that share a pattern, with at most `top` members each.
fn write_groups(out: &mut impl Write, card: &Card, groups: Vec<Group>, top: usize) -> io::Result<()> {
    let first = |members: &[(usize, f64)], labels: &[String]| {
        let names = members.iter().take(top).map(|(index, _)| labels[*index].as_str());
        let dots = if members.len() > top { ", ..." } else { "" };
        names.collect::<Vec<_>>().join(", ") + dots
    };
    let (large, small): (Vec<Group>, Vec<Group>) =
        groups.into_iter().partition(|group| group.share >= LEAST_SHARE);
    for group in large {
        let known = group
            .known
            .map_or(String::new(), |known| format!("{} {}/{}: ", known.name, known.others, known.size));
        let (number, share) = (group.number, 100.0 * group.share);
        let (rows, cols) = (first(&group.rows, &card.rows), first(&group.cols, &card.cols));
        writeln!(out, "  group {number}, {share:.0} %  {known}{rows} with {cols}")?;
    }
    if !small.is_empty() {
        let share: f64 = small.iter().map(|group| group.share).sum();
        let (many, verb) = if small.len() == 1 { ("", "has") } else { ("s", "have together") };
        writeln!(out, "  {} other group{many} {verb} {:.1} %", small.len(), 100.0 * share)?;
    }
    Ok(())
}

/// Returns the index of a label.
fn index_of(label: &str, labels: &[String], name: &'static str) -> anyhow::Result<usize> {
    let label = &*plain(label);
    labels.iter().position(|known| known == label).ok_or_else(|| {
        let first: Vec<&str> = labels.iter().take(3).map(String::as_str).collect();
        wrong(name, label, &format!("one of the model: {}, ...", first.join(", "))).into()
    })
}

/// Returns the other rows with the cosine of their weights and those of this row over all patterns and steps, most
/// similar first.
fn similar_rows(model: &Model, steps: Range<usize>, row: usize) -> Vec<(usize, f64)> {
    let rows = model.card.rows.len();
    // Inner products of the weights of each row with those of this row, and with themselves. A row has a weight for each
    // pattern in each step: the sign of a factor is arbitrary, but equal for all of its rows.
    let (mut products, mut squares) = (vec![0.0; rows], vec![0.0; rows]);
    for column in model.factors[steps].iter().flat_map(|factors| factors.rows.columns()) {
        let own = column.iter().find(|(other, _)| *other as usize == row).map_or(0.0, |(_, weight)| *weight);
        for &(other, weight) in column {
            products[other as usize] += own * weight;
            squares[other as usize] += weight * weight;
        }
    }
    let others = (0..rows).filter(|other| *other != row && squares[*other] > 0.0 && squares[row] > 0.0);
    let cosine = |other: usize| products[other] / (squares[row] * squares[other]).sqrt();
    let mut similar: Vec<(usize, f64)> = others.map(|other| (other, cosine(other))).collect();
    similar.sort_by(|a, b| b.1.total_cmp(&a.1));
    similar
}

/// Names the three features that are farthest from zero, above and below.
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
