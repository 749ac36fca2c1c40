//! `noodl stats`: the shape of a table, before anything is learned from it.

use std::io::{self, Write};
use std::time::Instant;

use serde::Serialize;
use tensornoodl::discover::search_bytes;
use tensornoodl_cli::output::plain;
use tensornoodl_cli::progress::Spinner;
use tensornoodl_cli::table::TableArgs;
use tensornoodl_data::{Events, Labels, Tally};

const EXAMPLES: &str = "\
Examples:
  noodl stats mail.csv --feature 'month(time)' --row from --col to --where 'from!=@to'
  noodl stats shots.csv.gz --feature 'grid(x,y,12x10)' --row player --col opponent --step 'week(date)' --keep-rows 100
  noodl stats tensor.npy";

/// Show the shape of a table or an array, how sparse it is, and what is left out.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct Args {
    #[command(flatten)]
    table: TableArgs,
    /// Number of threads, at least 1 [default: all cores]. Results do not depend on it.
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Write one JSON object.
    #[arg(long)]
    json: bool,
    /// Show no progress.
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Serialize)]
struct Stats<'a> {
    table: String,
    features: usize,
    rows: usize,
    cols: usize,
    steps: usize,
    cells: usize,
    fibers: usize,
    /// Share of all places that have a fiber, from 0 to 1, over all steps.
    share_of_places: f64,
    cells_per_fiber: f64,
    sum: f64,
    tally: &'a Tally,
    used: u64,
    seconds: f64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let begun = Instant::now();
    let spinner = Spinner::new("reading", args.quiet || args.json);
    let events = args.table.read();
    spinner.finish();
    let events = events?;
    let shape = events.shape();
    args.table.note_stretch(&events, 2.0 * events.bytes() + search_bytes(shape.features, events.fibers()));
    let places = shape.rows as f64 * shape.cols as f64 * events.steps() as f64;
    let stats = Stats {
        table: args.table.name(),
        features: shape.features,
        rows: shape.rows,
        cols: shape.cols,
        steps: events.steps(),
        cells: events.cells(),
        fibers: events.fibers(),
        share_of_places: events.fibers() as f64 / places,
        cells_per_fiber: events.cells() as f64 / events.fibers() as f64,
        sum: events.sum(),
        tally: &events.tally,
        used: events.tally.used(),
        seconds: begun.elapsed().as_secs_f64(),
    };
    let mut stdout = io::stdout().lock();
    if args.json {
        writeln!(stdout, "{}", serde_json::to_string(&stats)?)?;
    } else {
        tell(&mut stdout, &stats, &events)?;
    }
    Ok(())
}

fn tell(out: &mut impl Write, stats: &Stats<'_>, events: &Events) -> io::Result<()> {
    let Stats { features, rows, cols, steps, .. } = *stats;
    let of_steps = if events.steps.is_some() { format!(", in {steps} steps") } else { String::new() };
    let table = plain(&stats.table);
    writeln!(out, "{table}: {features} features x {rows} rows x {cols} cols{of_steps}\n")?;
    let axes =
        [("feature", Some(&events.features)), ("row", Some(&events.rows)), ("col", Some(&events.cols))];
    for (name, labels) in axes.into_iter().chain([("step", events.steps.as_ref())]) {
        if let Some(labels) = labels {
            writeln!(out, "{name:<9} {:<24} {}", plain(&labels.axis.to_string()), plain(&ends(labels)))?;
        }
    }
    writeln!(
        out,
        "\nfibers    {} of {} places have events ({:.2} %), {:.1} features each",
        stats.fibers,
        rows as u128 * cols as u128 * steps as u128,
        100.0 * stats.share_of_places,
        stats.cells_per_fiber
    )?;
    writeln!(out, "cells     {}, which add up to {}", stats.cells, round(stats.sum))?;
    let tally = stats.tally;
    writeln!(out, "events    {} of {} used", stats.used, tally.events)?;
    let left_out = [
        (tally.filtered, "filtered out".to_owned()),
        (tally.missing, "have no value where one is needed".into()),
        (tally.outside, "outside the grid".into()),
        (tally.dropped, format!("of {} rows that were not kept", tally.dropped_labels)),
    ];
    for (count, why) in left_out.into_iter().filter(|(count, _)| *count > 0) {
        writeln!(out, "          {count} {why}")?;
    }
    Ok(())
}

/// Returns the first and the last labels of an axis.
fn ends(labels: &Labels) -> String {
    match &labels.names[..] {
        names if names.len() <= 4 => names.join(", "),
        [first, second, .., last] => format!("{first}, {second}, ... {last}"),
        _ => String::new(),
    }
}

fn round(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.3}") }
}
