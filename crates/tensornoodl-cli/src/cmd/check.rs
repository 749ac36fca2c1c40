//! `noodl check`: does the data fit the theory?

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use tensornoodl::assumptions::{self, Checkup, Line, Verdict};
use tensornoodl::{DiscoverParams, Shape};

use crate::progress::Spinner;
use crate::source::{self, Source};

const EXAMPLES: &str = "\
Examples:
  noodl check mail.tns --feature 3 --row 1 --col 2 --recipe log2,scale,center
  noodl check --synthetic                         the demo's stream
  noodl check --synthetic noise=1                 too much noise, and what it looks like
  noodl check --synthetic patterns=300,alpha=0.15,beta=0.15 --json

The theory's bounds are orders of magnitude; constants are those of the paper's experiments.";

/// Measure the assumptions of the theory on data: a verdict on each, and what to do.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct Args {
    #[command(flatten)]
    source: source::Args,
    /// Seed of all random draws.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Write a JSON object for each line.
    #[arg(long)]
    json: bool,
    /// Show no progress.
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let source = args.source.load()?;
    let spinner = Spinner::new("looking for patterns, several times", args.quiet || args.json);
    let checkup =
        assumptions::check(&source.tensor, &DiscoverParams { seed: args.seed, ..DiscoverParams::default() })?;
    spinner.finish();
    let mut stdout = io::stdout().lock();
    if args.json {
        for line in &checkup.lines {
            serde_json::to_writer(&mut stdout, &Record::new(line))?;
            writeln!(stdout)?;
        }
        return Ok(());
    }
    write_words(&mut anstream::AutoStream::auto(stdout), &source, &checkup)?;
    Ok(())
}

fn write_words(out: &mut impl Write, source: &Source, checkup: &Checkup) -> io::Result<()> {
    let (shape, start): (Shape, _) = (source.tensor.shape(), &checkup.start);
    writeln!(out, "{}: {shape}, {} fibers", source.name, source.tensor.fibers())?;
    let worst = checkup.lines.iter().map(|line| line.verdict).max();
    writeln!(
        out,
        "{}\n",
        match worst {
            Some(Verdict::Good) => "The data fits the theory.",
            Some(Verdict::Fair) => "The data fits the theory roughly.",
            _ => "The data does not fit the theory in all respects; see what to do.",
        }
    )?;
    for line in &checkup.lines {
        let style = Style::new().fg_color(Some(color(line.verdict).into())).bold();
        writeln!(out, "  {style}{:<4}{style:#}  {:<12} {}", word(line.verdict), line.name, line.says)?;
        if !line.advice.is_empty() {
            writeln!(out, "{:21}-> {}", "", line.advice)?;
        }
    }
    if start.min_length > 0.0 {
        writeln!(
            out,
            "\nPatterns were looked for in the {} fibers of length {:.2e} or more; noodl init says why.",
            start.fibers, start.min_length
        )?;
    }
    Ok(())
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Good => "good",
        Verdict::Fair => "fair",
        Verdict::Poor => "poor",
    }
}

fn color(verdict: Verdict) -> AnsiColor {
    match verdict {
        Verdict::Good => AnsiColor::Green,
        Verdict::Fair => AnsiColor::Yellow,
        Verdict::Poor => AnsiColor::Red,
    }
}

#[derive(Serialize)]
struct Record<'a> {
    r#type: &'static str,
    name: &'a str,
    value: f64,
    bound: f64,
    verdict: &'a str,
    says: &'a str,
    advice: &'a str,
}

impl Record<'_> {
    fn new(line: &Line) -> Record<'_> {
        Record {
            r#type: "check",
            name: line.name,
            value: line.value,
            bound: line.bound,
            verdict: word(line.verdict),
            says: &line.says,
            advice: line.advice,
        }
    }
}
