//! `noodl paper`: the paper's experiments, run again.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use clap::{Subcommand, ValueEnum};
use experiments::{Cell, Event, Line, MethodName, Work, lines};
use indicatif::{ProgressBar, ProgressStyle};
use tensornoodl::Error;

use crate::files;

/// Run the paper's experiments again, its numbers beside ours.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Table(TableArgs),
}

const TABLE_EXAMPLES: &str = "\
Examples:
  noodl paper table --alpha 0.05 --j 100 --out results
  noodl paper table --j 100,300 --m 50,150 --methods noodl,adaptive --seeds 42 --out results

Each finished cell is kept in results/cells; a run that was stopped goes on where it was. The methods that are compared
with take as many tensors as TensorNOODL with the paper's step, as in the paper. Their codes are judged twice: their own,
and Lasso codes with the best of ten lambdas, chosen by the truth as in the paper, and with one chosen without it.";

/// The tables: errors of A and X, supports, tensors needed and time, for every cell and method.
#[derive(clap::Args)]
#[command(after_help = TABLE_EXAMPLES, args_override_self = true)]
struct TableArgs {
    /// alpha = beta.
    #[arg(long, value_delimiter = ',', default_values_t = [0.005, 0.01, 0.05])]
    alpha: Vec<f64>,
    /// J = K.
    #[arg(long, value_delimiter = ',', default_values_t = [100, 300, 500])]
    j: Vec<usize>,
    /// Number of patterns.
    #[arg(long, value_delimiter = ',', default_values_t = [50, 150, 300, 450, 600])]
    m: Vec<usize>,
    /// Methods beside TensorNOODL with the paper's step.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Name::ALL)]
    methods: Vec<Name>,
    /// Seeds, the paper's by default.
    #[arg(long, value_delimiter = ',', default_values_t = [42, 26, 91])]
    seeds: Vec<u64>,
    /// Cells at a time; each gets its share of the cores.
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Folder of the results: table.csv, table.md, table.json, and the finished cells.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Show no progress.
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Name {
    Noodl,
    Adaptive,
    AroraB,
    AroraU,
    Mairal,
}

impl Name {
    const ALL: [Name; 5] = [Name::Noodl, Name::Adaptive, Name::AroraB, Name::AroraU, Name::Mairal];

    fn method(self) -> MethodName {
        match self {
            Name::Noodl => MethodName::Noodl,
            Name::Adaptive => MethodName::Adaptive,
            Name::AroraB => MethodName::AroraB,
            Name::AroraU => MethodName::AroraU,
            Name::Mairal => MethodName::Mairal,
        }
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.method().name())
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.what {
        What::Table(args) => table(args),
    }
}

fn table(args: &TableArgs) -> anyhow::Result<()> {
    let wrong =
        |name, value: String, rule: &str| Err(anyhow!(Error::Parameter { name, value, rule: rule.into() }));
    if let Some(alpha) = args.alpha.iter().find(|alpha| !(**alpha > 0.0 && **alpha <= 1.0)) {
        return wrong("alpha", alpha.to_string(), "above 0 and at most 1");
    }
    if args.jobs == 0 {
        return wrong("jobs", "0".into(), "at least 1");
    }
    let mut cells = Vec::new();
    for &alpha in &args.alpha {
        for &size in &args.j {
            for &patterns in &args.m {
                cells.extend(args.seeds.iter().map(|&seed| Cell { alpha, size, patterns, seed }));
            }
        }
    }
    let methods = args.methods.iter().map(|name| name.method()).collect();
    let work = Work { cells, methods, folder: args.out.clone() };
    let progress = Progress::new(args.quiet);
    let outcomes =
        work.run(args.jobs, |event| progress.tell(&event)).map_err(|failure| anyhow!("{failure}"))?;
    progress.finish();
    let lines = lines(&outcomes);
    files::write(&args.out.join("table.csv"), &csv(&lines))?;
    files::write(&args.out.join("table.md"), &markdown(&lines))?;
    files::write(&args.out.join("table.json"), &(serde_json::to_string_pretty(&lines)? + "\n"))?;
    let mut stdout = io::stdout().lock();
    write!(stdout, "{}\nwritten to {}\n", markdown(&lines), args.out.display())?;
    Ok(())
}

/// A bar with the time left on a terminal, JSON lines elsewhere.
struct Progress {
    bar: Option<ProgressBar>,
    lines: bool,
    last_line: Mutex<Option<Instant>>,
}

impl Progress {
    fn new(quiet: bool) -> Progress {
        let terminal = io::stderr().is_terminal();
        let bar = (terminal && !quiet).then(|| {
            let style =
                ProgressStyle::with_template("{bar:32.cyan/dim} {percent} %  {msg}  {elapsed}, left {eta}");
            ProgressBar::new(10_000).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Progress { bar, lines: !terminal && !quiet, last_line: Mutex::new(None) }
    }

    fn tell(&self, event: &Event<'_>) {
        match (event, &self.bar) {
            (Event::Done(share), Some(bar)) => bar.set_position((10_000.0 * share) as u64),
            (Event::Finished(outcome), Some(bar)) => bar.set_message(format!(
                "J {} m {} alpha {} {}: {:.1e}",
                outcome.cell.size,
                outcome.cell.patterns,
                outcome.cell.alpha,
                outcome.method.name(),
                outcome.error_a
            )),
            (Event::Done(share), None) if self.lines => {
                let Ok(mut last) = self.last_line.lock() else { return };
                if last.is_none_or(|last| last.elapsed() > Duration::from_secs(1)) {
                    *last = Some(Instant::now());
                    let line = serde_json::json!({ "type": "progress", "done": share });
                    // If nobody reads it, the results are still written.
                    let _ = writeln!(io::stderr(), "{line}");
                }
            }
            _ => {}
        }
    }

    fn finish(&self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}

fn csv(lines: &[Line]) -> String {
    let mut text = String::from(
        "alpha,J,m,method,seeds,T,paper_T,coverage,error_a,paper_error_a,error_x,support,lasso_oracle_error_x,\
         paper_error_x,lasso_oracle_support,lasso_honest_error_x,seconds_per_step\n",
    );
    let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:e}"));
    for line in lines {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{},{},{},{},{},{:.2},{},{},{:e},{},{:e},{},{},{},{},{},{:e}",
            line.alpha,
            line.size,
            line.patterns,
            line.method.name(),
            line.seeds,
            line.steps,
            line.paper_steps.map_or(String::new(), |steps| steps.to_string()),
            line.coverage_step.map_or(String::new(), |step| format!("{step:.2}")),
            line.error_a,
            number(line.paper_error_a),
            line.error_x,
            line.support,
            number(line.lasso_oracle_error_x),
            number(line.paper_error_x),
            line.lasso_oracle_support.map_or(String::new(), |support| support.to_string()),
            number(line.lasso_honest_error_x),
            line.seconds_per_step
        );
    }
    text
}

fn markdown(lines: &[Line]) -> String {
    let mut text = String::from(
        "| alpha, J, m | method | T | the paper's T | error of A | the paper's | ratio | own X, support | Lasso X (oracle), support | \
         the paper's X | Lasso X (honest) | ms per tensor |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    let short = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.1e}"));
    let yes = |support: bool| if support { "Y" } else { "N" };
    for line in lines {
        let lasso = match (line.lasso_oracle_error_x, line.lasso_oracle_support) {
            (Some(error), Some(support)) => format!("{error:.1e}, {}", yes(support)),
            _ => "-".into(),
        };
        let _ = writeln!(
            text,
            "| {}, {}, {} | {} | {:.1} | {} | {:.1e} | {} | {} | {:.1e}, {} | {lasso} | {} | {} | {:.2} |",
            line.alpha,
            line.size,
            line.patterns,
            line.method.name(),
            line.steps,
            line.paper_steps.map_or("-".into(), |steps| steps.to_string()),
            line.error_a,
            short(line.paper_error_a),
            line.paper_error_a.map_or("-".into(), |paper| format!("{:.2}", line.error_a / paper)),
            line.error_x,
            yes(line.support),
            short(line.paper_error_x),
            short(line.lasso_honest_error_x),
            1e3 * line.seconds_per_step
        );
    }
    text
}
