//! `noodl-lab paper figure`: the paper's figures.

use std::io::{self, Write};

use clap::ValueEnum;
use tensornoodl_cli::program::wrong;
use tensornoodl_data::files;
use tensornoodl_lab::paper::{Line, MethodName, Outcome, Work, lines};

use crate::charts::{self, Chart, Series};
use crate::cmd::paper::grid::{
    ALPHAS, PATTERNS, RunArgs, SEEDS, SIZES, check_outputs, grid, outcomes, title,
};
use crate::png;

const EXAMPLES: &str = "\
Examples:
  noodl-lab paper figure samples --output results
  noodl-lab paper figure convergence --rows 100 --patterns 150 --output results      smaller than the paper's, in a minute

Cells that noodl-lab paper table has kept in results are used; the others are run and kept there.";

/// Draw a figure: tensors needed over the number of patterns, or errors over tensors.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct Args {
    /// The figure.
    #[arg(value_enum)]
    pub(crate) which: Figure,
    /// Values of alpha = beta, above 0 and at most 1, with a panel for each.
    #[arg(long, value_delimiter = ',', default_values_t = ALPHAS)]
    pub(crate) alpha: Vec<f64>,
    /// Numbers of rows J; each tensor has as many cols K [default: 100, 300 and 500 for samples, 500 for convergence].
    #[arg(long, value_delimiter = ',')]
    pub(crate) rows: Vec<usize>,
    /// Numbers of patterns, m [default: 50 to 600 for samples, 450 for convergence].
    #[arg(long, value_delimiter = ',')]
    pub(crate) patterns: Vec<usize>,
    /// Seeds of the streams [default: 42, 26 and 91 for samples, 26 for convergence].
    #[arg(long, value_delimiter = ',')]
    pub(crate) seeds: Vec<u64>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(crate) enum Figure {
    /// Tensors needed over the number of patterns (Fig. num_T).
    Samples,
    /// Errors over tensors, of all methods (Fig. lin_T).
    Convergence,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    fn or<T: Clone>(given: &[T], usual: &[T]) -> Vec<T> {
        if given.is_empty() { usual.to_vec() } else { given.to_vec() }
    }
    let samples = args.which == Figure::Samples;
    let j = or(&args.rows, if samples { &SIZES } else { &[500] });
    let m = or(&args.patterns, if samples { &PATTERNS } else { &[450] });
    let seeds = or(&args.seeds, if samples { &SEEDS } else { &[26] });
    if !samples && j.len() * m.len() * seeds.len() != 1 {
        let rule = "one value each: the figure shows one stream for each alpha";
        return Err(wrong("rows, patterns and seeds", "a list", rule).into());
    }
    let methods = if samples { vec![MethodName::Adaptive] } else { MethodName::ALL.to_vec() };
    let methods = methods.into_iter().filter(|method| *method != MethodName::Matrix).collect();
    let cells = grid(&args.alpha, &j, &m, &seeds, args.run.jobs)?;
    let name = if samples { "samples" } else { "convergence" };
    check_outputs(&args.run.output, &[&format!("{name}.svg"), &format!("{name}.png")])?;
    let work = Work { cells, methods, folder: args.run.output.clone() };
    let outcomes = outcomes(&work, &args.run)?;
    let list = |separator: &str| {
        let join = |values: Vec<String>| values.join(separator);
        (
            join(args.alpha.iter().map(f64::to_string).collect()),
            join(j.iter().map(usize::to_string).collect()),
            join(m.iter().map(usize::to_string).collect()),
            join(seeds.iter().map(u64::to_string).collect()),
        )
    };
    let what = if samples {
        "Tensors until the relative error of A is 1e-10, mean over seeds"
    } else {
        "Relative errors (Frobenius) after each tensor; the others take as many tensors as TensorNOODL with the paper's step"
    };
    let (alpha, sizes, patterns, drawn) = list(", ");
    let mut caption = vec![format!(
        "{what}. n = 300; alpha = beta = {alpha}; J = K = {sizes}; m = {patterns}; seeds {drawn}."
    )];
    let (alpha, sizes, patterns, drawn) = list(",");
    caption.push(format!(
        "noodl-lab paper figure {name} --alpha {alpha} --rows {sizes} --patterns {patterns} --seeds {drawn} -o DIR"
    ));
    let (panels, in_row) = if samples {
        (samples_charts(&args.alpha, &j, &lines(&outcomes)), j.len())
    } else {
        (convergence_charts(&args.alpha, &outcomes), args.alpha.len())
    };
    let picture = charts::charts(&panels, in_row, &caption);
    let (svg, png) =
        (args.run.output.join(format!("{name}.svg")), args.run.output.join(format!("{name}.png")));
    files::write(&svg, &picture)?;
    files::write(&png, png::render(&picture)?)?;
    writeln!(io::stdout().lock(), "written to {} and {}", svg.display(), png.display())?;
    Ok(())
}

/// Draws the tensors needed over m, a panel for each J: with both update rules, and the paper's numbers dashed.
fn samples_charts(alphas: &[f64], sizes: &[usize], lines: &[Line]) -> Vec<Chart> {
    let mut charts = Vec::new();
    for &size in sizes {
        let mut series = Vec::new();
        for (color, &alpha) in alphas.iter().enumerate() {
            let here = |method: MethodName| {
                lines.iter().filter(move |line| (line.alpha, line.size, line.method) == (alpha, size, method))
            };
            let line = |name: &str, points: Vec<(f64, f64)>, dashes: &'static str| Series {
                name: format!("{alpha}, {name}"),
                points,
                marked: true,
                color,
                dashes,
            };
            let m = |line: &Line| line.patterns as f64;
            let reached = |line: &&Line| line.converged;
            let ours = here(MethodName::Noodl).filter(reached).map(|line| (m(line), line.steps)).collect();
            let paper =
                here(MethodName::Noodl).filter_map(|line| Some((m(line), line.paper_steps?))).collect();
            let adaptive =
                here(MethodName::Adaptive).filter(reached).map(|line| (m(line), line.steps)).collect();
            series.push(line("the paper's step", ours, ""));
            series.push(line("in the paper", paper, "7 4"));
            series.push(line("adaptive step", adaptive, "2 3"));
        }
        charts.push(Chart {
            title: format!("J = K = {size}"),
            x_label: "patterns m",
            y_label: "tensors to 1e-10",
            logarithmic: false,
            series: series.into_iter().filter(|series| !series.points.is_empty()).collect(),
        });
    }
    charts
}

/// Draws errors over tensors: the error of A of all methods in the first row, errors of A and X and the fit of
/// TensorNOODL in the second.
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
            .map(|(color, outcome)| line(color, title(outcome.method), numbered(0, &outcome.errors)));
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
