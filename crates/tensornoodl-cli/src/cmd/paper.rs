//! `noodl paper`: the paper's experiments, run again.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use clap::{Subcommand, ValueEnum};
use experiments::{Cell, Event, Line, MethodName, Outcome, Work, lines};
use indicatif::{ProgressBar, ProgressStyle};
use tensornoodl::Error;

use crate::files;
use crate::svg::{self, Chart, Series};

/// Run the paper's experiments again, its numbers beside ours.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Table(TableArgs),
    Figure(FigureArgs),
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
    /// Methods: noodl, adaptive, arora-b, arora-u, mairal [default: all]. The first is always there.
    #[arg(long, value_parser = method, value_delimiter = ',')]
    methods: Vec<MethodName>,
    /// Seeds, the paper's by default.
    #[arg(long, value_delimiter = ',', default_values_t = [42, 26, 91])]
    seeds: Vec<u64>,
    #[command(flatten)]
    run: RunArgs,
}

/// How cells are run, and where they are kept.
#[derive(clap::Args)]
struct RunArgs {
    /// Cells at a time; each gets its share of the cores.
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Folder of the results and of the finished cells.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Show no progress.
    #[arg(long, short)]
    quiet: bool,
}

const FIGURE_EXAMPLES: &str = "\
Examples:
  noodl paper figure samples --out results
  noodl paper figure convergence --j 100 --m 150 --out results      smaller than the paper's, in a minute

Cells that results has from noodl paper table are used, the others are run and kept there.";

/// The figures: tensors needed over the number of patterns, or errors over tensors.
#[derive(clap::Args)]
#[command(after_help = FIGURE_EXAMPLES, args_override_self = true)]
struct FigureArgs {
    /// Which.
    #[arg(value_enum)]
    which: Figure,
    /// alpha = beta, a panel for each.
    #[arg(long, value_delimiter = ',', default_values_t = [0.005, 0.01, 0.05])]
    alpha: Vec<f64>,
    /// J = K [default: 100, 300 and 500 for samples, 500 for convergence].
    #[arg(long, value_delimiter = ',')]
    j: Vec<usize>,
    /// Number of patterns [default: 50 to 600 for samples, 450 for convergence].
    #[arg(long, value_delimiter = ',')]
    m: Vec<usize>,
    /// Seeds [default: 42, 26 and 91 for samples, 26 for convergence].
    #[arg(long, value_delimiter = ',')]
    seeds: Vec<u64>,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Figure {
    /// Tensors needed over the number of patterns (Fig. num_T).
    Samples,
    /// Errors over tensors, of all methods (Fig. lin_T).
    Convergence,
}

fn method(text: &str) -> Result<MethodName, String> {
    let names = MethodName::ALL.map(MethodName::name).join(", ");
    let known = MethodName::ALL.into_iter().find(|method| method.name() == text);
    known.ok_or_else(|| format!("it must be one of {names}"))
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.what {
        What::Table(args) => table(args),
        What::Figure(args) => figure(args),
    }
}

/// Every cell of the grid.
fn grid(alpha: &[f64], j: &[usize], m: &[usize], seeds: &[u64], jobs: usize) -> anyhow::Result<Vec<Cell>> {
    let wrong =
        |name, value: String, rule: &str| Err(anyhow!(Error::Parameter { name, value, rule: rule.into() }));
    if let Some(alpha) = alpha.iter().find(|alpha| !(**alpha > 0.0 && **alpha <= 1.0)) {
        return wrong("alpha", alpha.to_string(), "above 0 and at most 1");
    }
    if jobs == 0 {
        return wrong("jobs", "0".into(), "at least 1");
    }
    let mut cells = Vec::new();
    for &alpha in alpha {
        for &size in j {
            for &patterns in m {
                cells.extend(seeds.iter().map(|&seed| Cell { alpha, size, patterns, seed }));
            }
        }
    }
    Ok(cells)
}

fn outcomes(work: &Work, run: &RunArgs) -> anyhow::Result<Vec<Outcome>> {
    let progress = Progress::new(run.quiet);
    let outcomes =
        work.run(run.jobs, |event| progress.tell(&event)).map_err(|failure| anyhow!("{failure}"))?;
    progress.finish();
    Ok(outcomes)
}

fn table(args: &TableArgs) -> anyhow::Result<()> {
    let cells = grid(&args.alpha, &args.j, &args.m, &args.seeds, args.run.jobs)?;
    let methods = if args.methods.is_empty() { MethodName::ALL.to_vec() } else { args.methods.clone() };
    let work = Work { cells, methods, folder: args.run.out.clone() };
    let lines = lines(&outcomes(&work, &args.run)?);
    files::write(&args.run.out.join("table.csv"), &csv(&lines))?;
    files::write(&args.run.out.join("table.md"), &markdown(&lines))?;
    files::write(&args.run.out.join("table.json"), &(serde_json::to_string_pretty(&lines)? + "\n"))?;
    let mut stdout = io::stdout().lock();
    write!(stdout, "{}\nwritten to {}\n", markdown(&lines), args.run.out.display())?;
    Ok(())
}

fn figure(args: &FigureArgs) -> anyhow::Result<()> {
    fn or<T: Clone>(given: &[T], usual: &[T]) -> Vec<T> {
        if given.is_empty() { usual.to_vec() } else { given.to_vec() }
    }
    let samples = args.which == Figure::Samples;
    let j = or(&args.j, if samples { &[100, 300, 500] } else { &[500] });
    let m = or(&args.m, if samples { &[50, 150, 300, 450, 600] } else { &[450] });
    let seeds = or(&args.seeds, if samples { &[42, 26, 91] } else { &[26] });
    let methods = if samples { vec![MethodName::Adaptive] } else { MethodName::ALL.to_vec() };
    let cells = grid(&args.alpha, &j, &m, &seeds, args.run.jobs)?;
    let work = Work { cells, methods, folder: args.run.out.clone() };
    let outcomes = outcomes(&work, &args.run)?;
    let list = |values: &[u64]| values.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let as_u64 = |values: &[usize]| values.iter().map(|&value| value as u64).collect::<Vec<_>>();
    let caption = vec![
        format!("n = 300; J = K = {}; m = {}; seeds {}", list(&as_u64(&j)), list(&as_u64(&m)), list(&seeds)),
        format!("noodl paper figure {} --out DIR", if samples { "samples" } else { "convergence" }),
    ];
    let (name, picture) = if samples {
        ("samples.svg", svg::charts(&samples_charts(&args.alpha, &j, &lines(&outcomes)), 3, &caption))
    } else {
        (
            "convergence.svg",
            svg::charts(&convergence_charts(&args.alpha, &outcomes), args.alpha.len(), &caption),
        )
    };
    let path = args.run.out.join(name);
    files::write(&path, &picture)?;
    writeln!(io::stdout().lock(), "written to {}", path.display())?;
    Ok(())
}

/// Tensors needed over m: ours with both steps, the paper's as points on dashed lines.
fn samples_charts(alphas: &[f64], sizes: &[usize], lines: &[Line]) -> Vec<Chart> {
    let mut charts = Vec::new();
    for &alpha in alphas {
        let mut series = Vec::new();
        for (color, &size) in sizes.iter().enumerate() {
            let here = |method: MethodName| {
                lines.iter().filter(move |line| (line.alpha, line.size, line.method) == (alpha, size, method))
            };
            let line = |name: String, points: Vec<(f64, f64)>, dashes: &'static str| Series {
                name,
                points,
                marked: true,
                color,
                dashes,
            };
            let m = |line: &Line| line.patterns as f64;
            let ours = here(MethodName::Noodl).map(|line| (m(line), line.steps)).collect();
            let paper =
                here(MethodName::Noodl).filter_map(|line| Some((m(line), line.paper_steps?))).collect();
            let adaptive = here(MethodName::Adaptive).map(|line| (m(line), line.steps)).collect();
            series.push(line(format!("J = {size}, the paper's step"), ours, ""));
            series.push(line(format!("J = {size}, in the paper"), paper, "7 4"));
            series.push(line(format!("J = {size}, adaptive step"), adaptive, "2 3"));
        }
        charts.push(Chart {
            title: format!("alpha = beta = {alpha}"),
            x_label: "patterns m",
            y_label: "tensors to 1e-10",
            logarithmic: false,
            series: series.into_iter().filter(|series| !series.points.is_empty()).collect(),
        });
    }
    charts
}

fn long_name(method: MethodName) -> &'static str {
    match method {
        MethodName::Noodl => "TensorNOODL, the paper's step",
        MethodName::Adaptive => "TensorNOODL, adaptive step",
        MethodName::AroraB => "Arora(b)",
        MethodName::AroraU => "Arora(u)",
        MethodName::Mairal => "Mairal",
    }
}

/// First row: error of A of all methods; second row: error of A and X and fit of TensorNOODL.
fn convergence_charts(alphas: &[f64], outcomes: &[Outcome]) -> Vec<Chart> {
    let numbered = |from: usize, values: &[f64]| {
        (from..).zip(values).map(|(step, &value)| (step as f64, value)).collect::<Vec<_>>()
    };
    let chart = |title: String, y_label: &'static str, series: Vec<Series>| Chart {
        title,
        x_label: "tensors",
        y_label,
        logarithmic: true,
        series,
    };
    let line = |color: usize, name: &str, points: Vec<(f64, f64)>| Series {
        name: name.into(),
        points,
        marked: false,
        color,
        dashes: "",
    };
    let mut charts = Vec::new();
    for &alpha in alphas {
        let all = outcomes.iter().filter(|outcome| outcome.cell.alpha == alpha);
        let mut of_method: Vec<&Outcome> = all.collect();
        of_method.sort_by_key(|outcome| MethodName::ALL.iter().position(|method| *method == outcome.method));
        let series = of_method
            .iter()
            .enumerate()
            .map(|(color, outcome)| line(color, long_name(outcome.method), numbered(0, &outcome.errors)));
        charts.push(chart(format!("alpha = beta = {alpha}"), "error of A", series.collect()));
    }
    for &alpha in alphas {
        let noodl = |outcome: &&Outcome| outcome.cell.alpha == alpha && outcome.method == MethodName::Noodl;
        let Some(outcome) = outcomes.iter().find(noodl) else { continue };
        let series = vec![
            line(0, "error of A", numbered(0, &outcome.errors)),
            line(1, "error of X", numbered(1, &outcome.errors_x)),
            line(2, "fit", numbered(1, &outcome.fits)),
        ];
        charts.push(chart(format!("TensorNOODL, the paper's step, {alpha}"), "relative error", series));
    }
    charts
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
