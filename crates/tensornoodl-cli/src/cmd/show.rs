//! `noodl show`: a model on the terminal.

use std::io::{self, Write};
use std::path::PathBuf;

use tensornoodl_data::{Axis, Model};

const EXAMPLES: &str = "\
Examples:
  noodl show mail.safetensors
  noodl show mail.safetensors --pattern 2 --top 20";

/// Show the patterns of a model: a line for each, and who takes part.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct Args {
    /// A model file.
    model: PathBuf,
    /// Only this pattern, from 1.
    #[arg(long)]
    pattern: Option<usize>,
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
    for pattern in (0..patterns).filter(|pattern| args.pattern.is_none_or(|only| only == pattern + 1)) {
        let values = model.learner.dictionary().pattern(pattern);
        writeln!(out, "\npattern {}", pattern + 1)?;
        match &card.query.feature {
            Axis::Grid(grid) => {
                for row in values.chunks(grid.cells.0).rev() {
                    writeln!(out, "  {}", row.iter().map(|value| shade(*value, values)).collect::<String>())?;
                }
            }
            _ => writeln!(out, "  {}  {}", spark(values), peaks(values, &card.features))?,
        }
        let names = |leading: Vec<(usize, f64)>, labels: &[String]| {
            let one = |(index, weight): &(usize, f64)| format!("{} {weight:.2}", labels[*index]);
            leading.iter().take(args.top).map(one).collect::<Vec<_>>().join(", ")
        };
        writeln!(out, "  rows  {}", names(model.leading(pattern, |factors| &factors.rows), &card.rows))?;
        writeln!(out, "  cols  {}", names(model.leading(pattern, |factors| &factors.cols), &card.cols))?;
    }
    Ok(())
}

/// Lower and higher bars, at most 60 of them.
fn spark(values: &[f64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let (low, high) =
        (values.iter().copied().fold(0.0, f64::min), values.iter().copied().fold(0.0, f64::max));
    let bars = values.len().min(60);
    let mean = |bar: usize| {
        let part = &values[bar * values.len() / bars..(bar + 1) * values.len() / bars];
        part.iter().sum::<f64>() / part.len() as f64
    };
    let height =
        |value: f64| if high > low { (7.0 * (value - low) / (high - low)).round() as usize } else { 0 };
    (0..bars).map(|bar| BARS[height(mean(bar)).min(7)]).collect()
}

/// The features that stand out.
fn peaks(values: &[f64], names: &[String]) -> String {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*b].abs().total_cmp(&values[*a].abs()));
    let name = |at: &usize| format!("{}{}", if values[*at] < 0.0 { "-" } else { "" }, names[*at]);
    format!("most at {}", order.iter().take(3).map(name).collect::<Vec<_>>().join(", "))
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
