//! `noodl-lab paper table`: the paper's tables.

use std::fmt::Write as _;
use std::io::{self, Write};

use anyhow::anyhow;
use tensornoodl_lab::paper::{Line, MethodName, Work, lines};

use crate::cmd::paper::grid::{
    ALPHAS, PATTERNS, RunArgs, SEEDS, SIZES, check_outputs, failed, grid, outcomes, title,
};
use tensornoodl_data::files;

const EXAMPLES: &str = "\
Examples:
  noodl-lab paper table --alpha 0.05 --rows 100 --output results
  noodl-lab paper table --rows 100,300 --patterns 50,150 --methods noodl,adaptive --seeds 42 --output results

Each finished cell is kept in the folder cells of the output folder; a run that was stopped continues with the cells that are missing. As in the paper, the other methods get \
as many tensors as TensorNOODL needs with the paper's update rule. Three kinds of their codes are measured: their own, Lasso codes with \
the best of ten lambdas, chosen by the truth as in the paper, and Lasso codes with a lambda chosen without the truth.";

/// Make the tables: errors of A and X, supports, tensors needed and time, for every cell and method.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct Args {
    /// Values of alpha = beta, above 0 and at most 1.
    #[arg(long, value_delimiter = ',', default_values_t = ALPHAS)]
    pub(crate) alpha: Vec<f64>,
    /// Numbers of rows J; each tensor has as many cols K.
    #[arg(long, value_delimiter = ',', default_values_t = SIZES)]
    pub(crate) rows: Vec<usize>,
    /// Numbers of patterns, m.
    #[arg(long, value_delimiter = ',', default_values_t = PATTERNS)]
    pub(crate) patterns: Vec<usize>,
    /// Methods: noodl, adaptive, matrix, arora-b, arora-u, mairal [default: all but matrix]. The method
    /// noodl is always run, because it sets the number of tensors for the others.
    #[arg(long, value_parser = method, value_delimiter = ',')]
    pub(crate) methods: Vec<MethodName>,
    /// Seeds of the streams.
    #[arg(long, value_delimiter = ',', default_values_t = SEEDS)]
    pub(crate) seeds: Vec<u64>,
    /// Run no cell: make the tables from the finished cells in the folder of the results.
    #[arg(long)]
    pub(crate) kept: bool,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

fn method(text: &str) -> Result<MethodName, String> {
    let names = MethodName::ALL.map(MethodName::name).join(", ");
    let known = MethodName::ALL.into_iter().find(|method| method.name() == text);
    known.ok_or_else(|| format!("it must be one of {names}"))
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let cells = grid(&args.alpha, &args.rows, &args.patterns, &args.seeds, args.run.jobs)?;
    // NOODL for matrices has the same bits as TensorNOODL, only without B and C, so it is run on demand only.
    let usual = || MethodName::ALL.into_iter().filter(|method| *method != MethodName::Matrix).collect();
    let methods = if args.methods.is_empty() { usual() } else { args.methods.clone() };
    check_outputs(&args.run.output, &["table.csv", "table.md", "table.json"])?;
    let work = Work { cells, methods, folder: args.run.output.clone() };
    let outcomes = if args.kept { work.kept().map_err(failed)? } else { outcomes(&work, &args.run)? };
    if outcomes.is_empty() {
        return Err(anyhow!(
            "{} has none of these cells; leave --kept out to run them",
            args.run.output.display()
        ));
    }
    let lines = lines(&outcomes);
    files::write(&args.run.output.join("table.csv"), csv(&lines))?;
    files::write(&args.run.output.join("table.md"), markdown(&lines))?;
    files::write(&args.run.output.join("table.json"), serde_json::to_string_pretty(&lines)? + "\n")?;
    let mut stdout = io::stdout().lock();
    write!(stdout, "{}\nwritten to {}\n", markdown(&lines), args.run.output.display())?;
    Ok(())
}

fn csv(lines: &[Line]) -> String {
    let mut text = String::from(
        "alpha,J,m,method,seeds,T,least_T,most_T,paper_T,coverage,error_a,least_error_a,most_error_a,paper_error_a,error_x,support,\
         lasso_oracle_error_x,lasso_oracle_support,paper_error_x,lasso_honest_error_x,lasso_honest_support,\
         seconds_per_step\n",
    );
    let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:e}"));
    let exact = |support: Option<bool>| support.map_or(String::new(), |support| support.to_string());
    for line in lines {
        let fields = [
            line.alpha.to_string(),
            line.size.to_string(),
            line.patterns.to_string(),
            line.method.name().to_string(),
            line.seeds.to_string(),
            format!("{:.2}", line.steps),
            line.steps_range.0.to_string(),
            line.steps_range.1.to_string(),
            line.paper_steps.map_or(String::new(), |steps| steps.to_string()),
            line.coverage_step.map_or(String::new(), |step| format!("{step:.2}")),
            number(Some(line.error_a)),
            number(Some(line.error_a_range.0)),
            number(Some(line.error_a_range.1)),
            number(line.paper_error_a),
            number(Some(line.error_x)),
            line.support.to_string(),
            number(line.lasso_oracle_error_x),
            exact(line.lasso_oracle_support),
            number(line.paper_error_x),
            number(line.lasso_honest_error_x),
            exact(line.lasso_honest_support),
            number(Some(line.seconds_per_step)),
        ];
        text.push_str(&fields.join(","));
        text.push('\n');
    }
    text
}

fn short(value: Option<f64>) -> String {
    value.map_or("-".into(), |value| format!("{value:.1e}"))
}

/// Returns an error of X, and Y or N for an exact or other support.
fn codes(error_x: Option<f64>, support: Option<bool>) -> String {
    match (error_x, support) {
        (Some(error_x), Some(support)) => format!("{error_x:.1e} {}", if support { "Y" } else { "N" }),
        _ => "-".into(),
    }
}

/// Returns two tables for every alpha: TensorNOODL with both update rules, and the other methods.
fn markdown(lines: &[Line]) -> String {
    let mut text = String::new();
    let mut alphas: Vec<f64> = lines.iter().map(|line| line.alpha).collect();
    alphas.dedup();
    for alpha in alphas {
        let here = || lines.iter().filter(|line| line.alpha == alpha);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "### alpha = beta = {alpha}\n\n\
             | J = K | m | T, paper's step | in the paper | ratio | T, adaptive | coverage | error of A | in the paper | \
             error of X | in the paper | support | seeds |\n\
             | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
        );
        for line in here().filter(|line| line.method == MethodName::Noodl) {
            let same = |other: &&Line| {
                (other.size, other.patterns, other.method) == (line.size, line.patterns, MethodName::Adaptive)
            };
            let adaptive = here().find(same);
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                line.size,
                line.patterns,
                steps(line),
                line.paper_steps.map_or("-".into(), |steps| steps.to_string()),
                line.paper_steps.map_or("-".into(), |paper| format!("{:.2}", line.steps / paper)),
                adaptive.map_or("-".into(), steps),
                line.coverage_step.map_or("-".into(), |step| format!("{step:.1}")),
                short(Some(line.error_a)),
                short(line.paper_error_a),
                short(Some(line.error_x)),
                short(line.paper_error_x),
                if line.support { "Y" } else { "N" },
                line.seeds,
            );
        }
        let others: Vec<&Line> =
            here().filter(|line| ![MethodName::Noodl, MethodName::Adaptive].contains(&line.method)).collect();
        if !others.is_empty() {
            let _ = writeln!(
                text,
                "\n| J = K | m | method | error of A | in the paper | ratio | X, own codes | X, Lasso, oracle | \
                 in the paper | X, Lasso, honest | seeds |\n\
                 | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
            );
        }
        for line in others {
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                line.size,
                line.patterns,
                title(line.method),
                error_a(line),
                short(line.paper_error_a),
                line.paper_error_a.map_or("-".into(), |paper| ratio(line.error_a / paper)),
                codes(Some(line.error_x), Some(line.support)),
                codes(line.lasso_oracle_error_x, line.lasso_oracle_support),
                short(line.paper_error_x),
                codes(line.lasso_honest_error_x, line.lasso_honest_support),
                line.seeds,
            );
        }
        text.push('\n');
    }
    text + &ratios(lines) + &supports(lines) + &times(lines)
}

/// Returns the mean error, and in brackets the range where the errors of the seeds differ by more than [`SCATTER`].
fn error_a(line: &Line) -> String {
    match line.error_a_range {
        (least, most) if most > SCATTER * least => {
            format!("{:.1e} ({least:.1e} to {most:.1e})", line.error_a)
        }
        _ => format!("{:.1e}", line.error_a),
    }
}

/// The range is given where the largest error is more than this times the smallest.
const SCATTER: f64 = 4.0;

/// Returns the mean number of tensors, and in brackets the range where the seeds differ.
fn steps(line: &Line) -> String {
    match line.steps_range {
        (_, most) if !line.converged => format!("not in {most}"),
        (least, most) if least == most => least.to_string(),
        (least, most) => format!("{:.1} ({least} to {most})", line.steps),
    }
}

fn ratio(ratio: f64) -> String {
    if ratio < 0.1 { format!("{ratio:.4}") } else { format!("{ratio:.2}") }
}

/// Returns the time of one tensor for each method, if all lines belong to one cell: times of different runs cannot be
/// compared.
fn times(lines: &[Line]) -> String {
    let cell = |line: &Line| (line.alpha.to_bits(), line.size, line.patterns);
    let Some(first) = lines.first().filter(|first| lines.iter().all(|line| cell(line) == cell(first))) else {
        return String::new();
    };
    let mut text = String::from("\n| method | ms per tensor | over the first |\n| --- | --- | --- |\n");
    for line in lines {
        let _ = writeln!(
            text,
            "| {} | {:.1} | {:.2} |",
            title(line.method),
            1e3 * line.seconds_per_step,
            line.seconds_per_step / first.seconds_per_step
        );
    }
    text
}

/// Compares the number of tensors with the paper's, over all cells.
fn ratios(lines: &[Line]) -> String {
    let mut ratios: Vec<f64> = lines
        .iter()
        .filter(|line| line.method == MethodName::Noodl)
        .filter_map(|line| Some(line.steps / line.paper_steps?))
        .collect();
    ratios.sort_by(f64::total_cmp);
    let (Some(least), Some(most)) = (ratios.first(), ratios.last()) else { return String::new() };
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    format!(
        "Tensors with the paper's step over the paper's, {} cells: {mean:.3} on the average, from {least:.2} to {most:.2}.\n",
        ratios.len()
    )
}

/// Counts the cells in which each kind of codes has the exact support.
fn supports(lines: &[Line]) -> String {
    let mut text = String::new();
    let methods = MethodName::ALL.into_iter().filter(|method| !method.is_noodl());
    for method in methods {
        let here: Vec<&Line> = lines.iter().filter(|line| line.method == method).collect();
        let count = |exact: &dyn Fn(&Line) -> bool| here.iter().filter(|line| exact(line)).count();
        if !here.is_empty() {
            let _ = writeln!(
                text,
                "\n{}: the support is exact, for all seeds, with its own codes in {} of {} cells, with the Lasso codes \
                 of the oracle's lambda in {}, with those of the honest one in {}.",
                title(method),
                count(&|line| line.support),
                here.len(),
                count(&|line| line.lasso_oracle_support == Some(true)),
                count(&|line| line.lasso_honest_support == Some(true)),
            );
        }
    }
    text
}
