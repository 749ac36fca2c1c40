//! `noodl demo`: the method on two built-in examples, a planted stream and a table with names.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anstyle::{AnsiColor, Style};
use anyhow::anyhow;
use clap::{Args as _, FromArgMatches};
use tensornoodl::metrics::Matching;
use tensornoodl::parallel::Solo;
use tensornoodl::recovery::Recovery;
use tensornoodl::synthetic::{Plan, Planted};
use tensornoodl::{Dictionary, Factors, Params, Rule, Sparse, Team};
use tensornoodl_cli::output;
use tensornoodl_cli::plot::{self, Curve};
use tensornoodl_cli::progress::{Goal, Progress};
use tensornoodl_data::{MEMBER, Model, files};

use crate::cmd::learn;
use crate::sample_company::{self, Group, PEOPLE};

const EXAMPLES: &str = "\
Examples:
  noodl demo
  noodl demo -o company

The demo takes about two seconds. Its first part learns planted patterns back to the last digit. Its second part writes the \
e-mail of an invented company to mail.csv, learns the model mail.safetensors from it as noodl learn does, and makes the page \
mail.html about the model.";

/// See it work: plant 150 patterns in a stream and learn them back, then find the groups in a year of e-mail.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct Args {
    /// Folder of the table, the model and the page; files of an earlier demo are replaced.
    #[arg(long, short, value_name = "FOLDER", default_value = "noodl-demo")]
    output: PathBuf,
    /// Number of threads, at least 1 [default: all cores]. Results do not depend on it.
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Show no progress.
    #[arg(long, short)]
    quiet: bool,
}

/// Errors up to this size are rounding errors.
const EXACT: f64 = 1e-15;
/// The relative error of A at which the paper stops.
const PAPER_TOLERANCE: f64 = 1e-10;
/// The paper's step size for 150 patterns.
const PAPER_ETA_A: f64 = 40.0;
const MAX_STEPS: u64 = 200;

/// A pattern stands for a group if the cosine of the pattern and the rhythm of the group is at least this.
const FOUND: f64 = 0.9;

const BOLD: Style = Style::new().bold();
const CYAN: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Cyan))).bold();
const DIM: Style = Style::new().dimmed();

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let begun = Instant::now();
    let files = Files::new(&args.output)?;
    recovery(args.quiet)?;
    names(&files)?;
    writeln!(
        output::styled(),
        "\n{DIM}{:.1} s in all; noodl-lab recover --help plants other sizes, sparsities and noise{DIM:#}",
        begun.elapsed().as_secs_f64()
    )?;
    Ok(())
}

/// The files that the demo writes.
struct Files {
    table: PathBuf,
    model: PathBuf,
    page: PathBuf,
}

impl Files {
    /// Makes the folder and checks that all files can be written, before any work.
    fn new(folder: &Path) -> anyhow::Result<Files> {
        let cannot =
            |error| anyhow!("cannot write {}: {error}; --output names another folder", folder.display());
        fs::create_dir_all(folder).map_err(cannot)?;
        // The name of a folder that begins with a dash must not be taken for an option of learn.
        let dash = folder.as_os_str().as_encoded_bytes().starts_with(b"-");
        let folder = if dash { Path::new(".").join(folder) } else { folder.to_owned() };
        let [table, model, page] =
            ["mail.csv", "mail.safetensors", "mail.html"].map(|name| folder.join(name));
        for path in [&table, &model, &page] {
            files::check(path)?;
        }
        Ok(Files { table, model, page })
    }

    /// Returns the arguments of `noodl learn`.
    fn arguments(&self) -> Vec<OsString> {
        let axes = "--feature weekhour(time) --row from --col to --step month(time)";
        let mut arguments = vec![self.table.clone().into_os_string()];
        arguments.extend(axes.split(' ').map(OsString::from));
        arguments.extend([
            "-o".into(),
            self.model.clone().into(),
            "--report".into(),
            self.page.clone().into(),
        ]);
        arguments
    }

    /// Returns the command that learns the model, as one types it.
    fn command(&self, program: &str) -> String {
        let arguments = self.arguments().into_iter().map(|word| word.to_string_lossy().into_owned());
        learn::typed([program.to_owned(), "learn".into()].into_iter().chain(arguments))
    }
}

/// Plants patterns in a stream and learns them back, with the adaptive step and with the paper's.
fn recovery(quiet: bool) -> anyhow::Result<()> {
    let plan = Plan::default();
    let mut out = output::styled();
    writeln!(
        out,
        "{BOLD}TensorNOODL{BOLD:#}: {} patterns of length {} are hidden in a stream of sparse tensors.\n\
         Each tensor is {} x {} x {}: every row and every col takes part in a few patterns,\n\
         different ones in each tensor. The learner gets only the tensors and a rough guess of the patterns.\n",
        plan.patterns, plan.features, plan.features, plan.rows, plan.cols
    )?;
    let planted = Planted::new(plan)?;
    let (ours, errors) = by_adaptive_step(&mut out, &planted)?;
    let paper_errors = by_paper_step(planted, quiet)?;
    let curves = [
        Curve {
            label: "the paper's step (eta_a 40), with the same tensors",
            glyph: '·',
            style: Style::new().fg_color(Some(AnsiColor::Yellow.into())),
            errors: &paper_errors,
        },
        Curve { label: "the adaptive step, the default", glyph: '●', style: CYAN, errors: &errors },
    ];
    writeln!(out, "\n{BOLD}error of the patterns over tensors seen{BOLD:#}\n{}", plot::convergence(&curves))?;
    write_outcome(&mut out, &ours, &errors, &paper_errors)
}

/// Learns until the errors are rounding errors, with a line for each tensor. Returns the errors of A at the start and
/// after each tensor.
fn by_adaptive_step(out: &mut impl Write, planted: &Planted) -> anyhow::Result<(Recovery, Vec<f64>)> {
    writeln!(out, "{BOLD} tensor   fibers   in a fiber   error of the patterns   supports{BOLD:#}")?;
    let start = planted.paper_distance();
    writeln!(out, "{:>7}{:>34.1e}   {}", 0, start, bar(start))?;
    let mut recovery = Recovery::new(planted.clone(), start, Params::default())?;
    let mut errors = vec![start];
    while errors.len() as u64 <= MAX_STEPS && errors[errors.len() - 1] > EXACT {
        let now = recovery.advance()?;
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
    Ok((recovery, errors))
}

/// Learns as the paper does, up to its tolerance. Returns the errors of A at the start and after each tensor.
fn by_paper_step(planted: Planted, quiet: bool) -> anyhow::Result<Vec<f64>> {
    let start = planted.paper_distance();
    let rule = Rule::Paper { eta_a: PAPER_ETA_A };
    let mut recovery = Recovery::new(planted, start, Params { rule, ..Params::default() })?;
    let mut errors = vec![start];
    let goal = Goal { tolerance: PAPER_TOLERANCE, max_steps: MAX_STEPS };
    let mut progress = Progress::new(goal, quiet);
    while errors.len() as u64 <= MAX_STEPS && errors[errors.len() - 1] > PAPER_TOLERANCE {
        let now = recovery.advance()?;
        errors.push(now.error_a);
        progress.step(&now);
    }
    progress.finish();
    Ok(errors)
}

/// Compares what was planted with what was found.
fn write_outcome(
    out: &mut impl Write,
    ours: &Recovery,
    errors: &[f64],
    paper_errors: &[f64],
) -> anyhow::Result<()> {
    let outcome = ours.outcome()?;
    let (learned, truth) = (ours.learner().dictionary(), ours.planted().true_dictionary());
    let distances = Matching::new(learned, truth)?.distances(learned, truth);
    let found = distances.iter().filter(|distance| **distance <= PAPER_TOLERANCE).count();
    let tensors = |errors: &[f64]| match errors.iter().position(|error| *error <= PAPER_TOLERANCE) {
        Some(tensors) => format!("{tensors} tensors"),
        None => format!("more than {MAX_STEPS} tensors"),
    };
    writeln!(
        out,
        "{BOLD}planted{BOLD:#}   {} patterns; new rows and cols for each of {} tensors\n\
         {BOLD}found{BOLD:#}     {found} of {} patterns: relative error {:.1e} of the patterns, {:.1e} of the codes,\n          \
         {:.1e} of the row factors, {:.1e} of the col factors; {}\n\
         {BOLD}needed{BOLD:#}    {} to {PAPER_TOLERANCE:.0e}; the paper's step {}; by tensor {} all patterns had appeared\n\
         {BOLD}time{BOLD:#}      {:.2} s of learning",
        ours.planted().plan().patterns,
        outcome.steps,
        distances.len(),
        outcome.error_a,
        outcome.error_x,
        outcome.error_b,
        outcome.error_c,
        if outcome.support { "every sign and support is right" } else { "some supports are wrong" },
        tensors(errors),
        tensors(paper_errors),
        outcome.coverage_step.map_or("none".into(), |step| step.to_string()),
        outcome.learn_time.as_secs_f64(),
    )?;
    Ok(())
}

/// Learns from a table with names who belongs together, and when.
fn names(files: &Files) -> anyhow::Result<()> {
    let mut out = output::styled();
    let groups = sample_company::groups();
    let table = sample_company::mail(&groups);
    files::write(&files.table, &table)?;
    write_introduction(&mut out, &groups, &table)?;
    let planted = groups.iter().flat_map(|group| group.rhythm.iter().copied()).collect();
    let planted = Dictionary::from_columns(7 * 24, planted)?;
    let model = learn_months(&mut out, files, &groups, &planted, &table)?;
    compare(&mut out, &groups, &planted, &model)?;
    write_files(&mut out, files)
}

fn write_introduction(out: &mut impl Write, groups: &[Group], table: &str) -> io::Result<()> {
    let hours: Vec<String> = groups.iter().map(|group| format!("{} ({})", group.name, group.when)).collect();
    let lines: Vec<String> = table.lines().step_by(60_000).map(|line| format!("  {line}\n")).collect();
    writeln!(
        out,
        "\n{BOLD}Now with names{BOLD:#}: a year of e-mail of an invented company, {} mails among {} people.\n\n{}\n{}\n",
        grouped(table.lines().count() - 1),
        PEOPLE.len(),
        lines.concat(),
        wrapped(&format!(
            "{} groups write at their own hours of the week: {}. Some mail is sent at other hours, and some between any two \
             people. The learner does not know who belongs to which group, how many groups there are, or that there are any. \
             It reads one month after the other:",
            groups.len(),
            hours.join(", ")
        ))
    )
}

/// Runs `noodl learn` on the table, with a line for each month.
fn learn_months(
    out: &mut impl Write,
    files: &Files,
    groups: &[Group],
    planted: &Dictionary,
    table: &str,
) -> anyhow::Result<Model> {
    writeln!(out, "{BOLD}  month     mails   pairs   explained            patterns{BOLD:#}")?;
    let arguments = files.arguments();
    let command = learn::Args::augment_args(clap::Command::new("learn").no_binary_name(true));
    let matches = command.try_get_matches_from(arguments.iter().chain([&"--quiet".into()]))?;
    let args = learn::Args::from_arg_matches(&matches)?;
    let alone: Arc<dyn Team> = Arc::new(Solo);
    learn::learn(&args, &alone, &files.command("noodl"), |step, model| {
        let (label, record) = (&model.card.steps[step], &model.card.history[step]);
        let share = record.explained();
        let new = (record.patterns.saturating_sub(record.found)..record.patterns).filter(|_| step > 0);
        let named = |pattern: usize| {
            let (group, cosine) =
                nearest(model.learner.dictionary().with_unit_lengths().pattern(pattern), planted);
            let name = if cosine >= FOUND { groups[group].name } else { "nothing that was planted" };
            format!("   {CYAN}new: {name}{CYAN:#}")
        };
        writeln!(
            out,
            "  {label}{:>8}{:>8}{:>10.0} %  {}{:>9}{}",
            grouped(table.lines().filter(|line| line.starts_with(label)).count()),
            record.fibers,
            100.0 * share,
            full(share),
            record.patterns,
            new.map(named).collect::<String>()
        )
    })
}

/// Says which files were written, and how to make them again.
fn write_files(out: &mut impl Write, files: &Files) -> anyhow::Result<()> {
    let program = std::env::args_os().next();
    let program = program.map_or("noodl".into(), |name| name.to_string_lossy().into_owned());
    let show = learn::typed([program.clone(), "show".into(), files.model.display().to_string()]);
    let absolute =
        |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.into()).display().to_string();
    writeln!(
        out,
        "\n{BOLD}Written{BOLD:#}   {}\n          {}\n          {}\n\n\
         {BOLD}Look at{BOLD:#}   {CYAN}{}{CYAN:#} in a browser: every pattern, who takes part, month by month\n          \
         {CYAN}{show}{CYAN:#} for the patterns in the terminal\n\n\
         This command learns the same model, to the bit, from the table:\n\n{CYAN}{}{CYAN:#}\n\n\
         For your own table, choose three columns: what a pattern extends over (--feature),\n\
         who takes part (--row), and with whom (--col).",
        absolute(&files.table),
        absolute(&files.model),
        absolute(&files.page),
        files.page.display(),
        files.command(&program).replace(" --step", " \\\n  --step").replace(" --report", " \\\n  --report")
    )?;
    Ok(())
}

/// Prints planted and found groups side by side.
fn compare(
    out: &mut impl Write,
    groups: &[Group],
    planted: &Dictionary,
    model: &Model,
) -> anyhow::Result<()> {
    let found = &model.learner.dictionary().with_unit_lengths();
    let matching = Matching::new(found, planted)?;
    let days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"].map(|day| format!("{day:<7}")).concat();
    writeln!(out, "\n{BOLD}{:<24}{days}   from      to  cosine{BOLD:#}", "")?;
    let (mut cosines, mut right, mut wrong, mut all) = (Vec::new(), 0, 0, 0);
    for (i, (group, pattern)) in groups.iter().zip(&matching.found).enumerate() {
        let both = [&group.senders, &group.receivers];
        writeln!(
            out,
            "{BOLD}{:<15}{BOLD:#}planted  {DIM}{}{DIM:#}{:>7}{:>8}",
            group.name,
            week(planted.pattern(i)),
            both[0].len(),
            both[1].len()
        )?;
        all += both[0].len() + both[1].len();
        let Some(pattern) = *pattern else {
            writeln!(out, "{:<15}not found", "")?;
            continue;
        };
        let members = |of: fn(&Factors) -> &Sparse| {
            let mut leading = model.leading(pattern, of);
            let most = leading.first().map_or(0.0, |first| first.1.abs());
            leading.retain(|one| one.1.abs() >= MEMBER * most);
            leading
        };
        let (rows, cols) = (members(|factors| &factors.rows), members(|factors| &factors.cols));
        let mut counts = Vec::new();
        for (leading, names, group) in [(rows, &model.card.rows, both[0]), (cols, &model.card.cols, both[1])]
        {
            let is_member = |name: &str| group.iter().any(|person| PEOPLE[*person] == name);
            let of_group = leading.iter().filter(|one| is_member(&names[one.0])).count();
            let others = leading.len() - of_group;
            counts.push(if others == 0 { of_group.to_string() } else { format!("{of_group} +{others}") });
            (right, wrong) = (right + of_group, wrong + others);
        }
        let like = cosine(found.pattern(pattern), planted.pattern(i));
        writeln!(
            out,
            "  {:<13}found    {CYAN}{}{CYAN:#}{:>7}{:>8}{like:>8.3}",
            format!("pattern {}", pattern + 1),
            week(found.pattern(pattern)),
            counts[0],
            counts[1]
        )?;
        cosines.extend((like >= FOUND).then_some(like));
    }
    let background = (0..found.patterns()).filter(|pattern| is_background(found.pattern(*pattern))).count();
    writeln!(
        out,
        "\n{BOLD}planted{BOLD:#}   {} groups of {all} senders and receivers\n\
         {BOLD}found{BOLD:#}     {} of {} groups, with a cosine of {:.3} or more; {right} of {all} senders and receivers\n\
         {BOLD}too many{BOLD:#}  {wrong} people, {} patterns",
        groups.len(),
        cosines.len(),
        groups.len(),
        cosines.iter().copied().fold(1.0, f64::min),
        found.patterns().saturating_sub(cosines.len() + background)
    )?;
    if background > 0 {
        writeln!(out, "{BOLD}beside{BOLD:#}    {background} pattern of the mail that is sent at any hour")?;
    }
    Ok(())
}

/// Whether a pattern extends over a quarter of the week or more: the mail at any hour, between any two people.
fn is_background(pattern: &[f64]) -> bool {
    let most = pattern.iter().copied().fold(0.0, f64::max);
    4 * pattern.iter().filter(|value| **value > most / 10.0).count() >= pattern.len()
}

fn cosine(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Returns the index of the planted rhythm that is most similar to a pattern, and the cosine of both.
fn nearest(pattern: &[f64], planted: &Dictionary) -> (usize, f64) {
    let cosines = (0..planted.patterns()).map(|group| (group, cosine(pattern, planted.pattern(group))));
    cosines.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_default()
}

/// Draws a week as a sparkline for each day, with four hours in a cell.
fn week(rhythm: &[f64]) -> String {
    let cells: Vec<char> = plot::sparkline(rhythm, 7 * 6).chars().collect();
    cells.chunks(6).map(|day| day.iter().chain([&' ']).collect::<String>()).collect()
}

/// Returns a number with commas between thousands, such as 171,234.
fn grouped(number: usize) -> String {
    match number {
        0..1000 => number.to_string(),
        _ => format!("{},{:03}", grouped(number / 1000), number % 1000),
    }
}

/// Breaks a text into lines of at most 96 characters.
fn wrapped(text: &str) -> String {
    let (mut lines, mut width) = (String::new(), 0);
    for word in text.split(' ') {
        let length = word.chars().count();
        let fits = width + 1 + length <= 96;
        lines += if width == 0 {
            ""
        } else if fits {
            " "
        } else {
            "\n"
        };
        lines += word;
        width = if fits { width + 1 + length } else { length };
    }
    lines
}

/// Draws a share from 0 to 1 as a bar of twelve cells.
fn full(share: f64) -> String {
    let cells = (12.0 * share.clamp(0.0, 1.0)).round() as usize;
    format!("{}{}", "█".repeat(cells), "░".repeat(12 - cells))
}

/// Draws an error as a bar of twelve cells, on a logarithmic scale from 1 (full) to 1e-16 (empty).
fn bar(error: f64) -> String {
    full(1.0 + error.max(1e-16).log10() / 16.0)
}
