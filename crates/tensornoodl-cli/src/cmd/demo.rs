//! `noodl demo`: the main job on an embedded default, no arguments, no files.

use std::io::Write;
use std::time::Instant;

use anstyle::{AnsiColor, Style};
use tensornoodl::metrics::Matching;
use tensornoodl::recovery::Recovery;
use tensornoodl::synthetic::{Plan, Planted};
use tensornoodl::{Params, Rule};

use crate::plot::{self, Curve};
use crate::progress::{Goal, Progress};

/// See it work: plant 150 patterns in a stream of tensors, learn them back, look at the result.
#[derive(clap::Args)]
pub(crate) struct Args {}

/// Errors of this size are rounding.
const EXACT: f64 = 1e-15;
/// Where the paper stops.
const PAPER_TOLERANCE: f64 = 1e-10;
/// The paper's step size for 150 patterns.
const PAPER_ETA_A: f64 = 40.0;
const MAX_STEPS: u64 = 200;

pub(crate) fn run(_: &Args) -> anyhow::Result<()> {
    let begun = Instant::now();
    let plan = Plan::default();
    let bold = Style::new().bold();
    let ours_style = Style::new().fg_color(Some(AnsiColor::Cyan.into())).bold();
    let paper_style = Style::new().fg_color(Some(AnsiColor::Yellow.into()));
    let mut out = anstream::stdout();
    writeln!(
        out,
        "{bold}TensorNOODL{bold:#}: {} patterns of length {} are hidden in a stream of sparse tensors.\n\
         Each tensor is {} x {} x {}: every row and every col takes part in a few patterns,\n\
         other ones each time. Given are only the tensors and a rough guess of the patterns.\n",
        plan.patterns, plan.features, plan.features, plan.rows, plan.cols
    )?;

    writeln!(out, "{bold} tensor   fibers   in a fiber   error of the patterns   supports{bold:#}")?;
    let planted = Planted::new(plan)?;
    let start = planted.paper_distance();
    writeln!(out, "{:>7}{:>34.1e}   {}", 0, start, bar(start))?;
    let mut ours = Recovery::new(planted.clone(), start, Params::default())?;
    let mut errors = vec![start];
    while errors.len() as u64 <= MAX_STEPS && errors[errors.len() - 1] > EXACT {
        let now = ours.advance()?;
        writeln!(
            out,
            "{:>7}{:>9}{:>13.2}{:>12.1e}   {:<15}{}",
            now.step.step,
            now.step.fibers,
            now.step.mean_code_size,
            now.error_a,
            bar(now.error_a),
            if now.support { "exact" } else { "not yet" }
        )?;
        errors.push(now.error_a);
    }

    let rule = Rule::Paper { eta_a: PAPER_ETA_A };
    let mut paper = Recovery::new(planted, start, Params { rule, ..Params::default() })?;
    let mut paper_errors = vec![start];
    let goal = Goal { tolerance: PAPER_TOLERANCE, max_steps: MAX_STEPS };
    let mut progress = Progress::new(goal, false);
    while paper_errors.len() as u64 <= MAX_STEPS && paper_errors[paper_errors.len() - 1] > PAPER_TOLERANCE {
        let now = paper.advance()?;
        paper_errors.push(now.error_a);
        progress.step(&now)?;
    }
    progress.finish();

    let ours_label = "the adaptive step, the default";
    let paper_label = "the paper's step (eta_a 40), the same tensors";
    let curves = [
        Curve { label: paper_label, glyph: '·', style: paper_style, errors: &paper_errors },
        Curve { label: ours_label, glyph: '●', style: ours_style, errors: &errors },
    ];
    writeln!(out, "\n{bold}error of the patterns over tensors seen{bold:#}\n{}", plot::convergence(&curves))?;

    let outcome = ours.outcome()?;
    let truth = ours.planted().true_dictionary();
    let distances =
        Matching::new(ours.learner().dictionary(), truth)?.distances(ours.learner().dictionary(), truth);
    let found = distances.iter().filter(|distance| **distance <= PAPER_TOLERANCE).count();
    let reached = |errors: &[f64]| errors.iter().position(|error| *error <= PAPER_TOLERANCE);
    let tensors = |errors: &[f64]| match reached(errors) {
        Some(tensors) => format!("{tensors} tensors"),
        None => format!("more than {MAX_STEPS} tensors"),
    };
    writeln!(
        out,
        "{bold}planted{bold:#}   {} patterns; new rows and cols for each of {} tensors\n\
         {bold}found{bold:#}     {found} of {} patterns: relative error {:.1e} of the patterns, {:.1e} of the codes,\n          \
         {:.1e} of the row factors, {:.1e} of the col factors; {}\n\
         {bold}needed{bold:#}    {} to {PAPER_TOLERANCE:.0e}; the paper's step {}; by tensor {} all patterns had appeared\n\
         {bold}time{bold:#}      {:.2} s of learning, {:.2} s in all\n\n\
         Next: {ours_style}noodl recover --help{ours_style:#} plants other sizes, sparsities and noise.",
        ours.planted().plan().patterns,
        outcome.steps,
        distances.len(),
        outcome.error_a,
        outcome.error_x,
        outcome.error_b,
        outcome.error_c,
        if outcome.support { "every sign and support is right" } else { "some supports are wrong" },
        tensors(&errors),
        tensors(&paper_errors),
        outcome.coverage_step.map_or("none".into(), |step| step.to_string()),
        outcome.learn_time.as_secs_f64(),
        begun.elapsed().as_secs_f64(),
    )?;
    Ok(())
}

/// Twelve cells, from an error of 1 (all full) to rounding (empty).
fn bar(error: f64) -> String {
    let cells = (12.0 * (1.0 + error.max(1e-16).log10() / 16.0)).round() as usize;
    format!("{}{}", "█".repeat(cells), "░".repeat(12 - cells.min(12)))
}
