//! `noodl demo`: the main job on two embedded defaults, no arguments: a planted stream, and a table with names.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
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
use tensornoodl_cli::plot::{self, Curve};
use tensornoodl_cli::progress::{Goal, Progress};
use tensornoodl_data::{MEMBER, Model, files};

use crate::cmd::learn;
use crate::sample_company::{self, Group, PEOPLE};

const EXAMPLES: &str = "\
Examples:
  noodl demo
  noodl demo -o company

It takes about two seconds. The first part shows that planted patterns come back to the last digit. The second writes \
the e-mail of a firm that never was to mail.csv, learns from it as noodl learn would, into mail.safetensors, and makes a \
page about it, mail.html.";

/// See it work: plant 150 patterns in a stream and learn them back, then find the groups in a year of e-mail.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct Args {
    /// The folder for the table, the model and the page about it; those of an earlier demo are replaced.
    #[arg(long, short, value_name = "FOLDER", default_value = "noodl-demo")]
    output: PathBuf,
}

/// Errors of this size are rounding.
const EXACT: f64 = 1e-15;
/// Where the paper stops.
const PAPER_TOLERANCE: f64 = 1e-10;
/// The paper's step size for 150 patterns.
const PAPER_ETA_A: f64 = 40.0;
const MAX_STEPS: u64 = 200;

/// A pattern stands for a group if it is as much like its rhythm.
const FOUND: f64 = 0.9;

const BOLD: Style = Style::new().bold();
const CYAN: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Cyan))).bold();
const DIM: Style = Style::new().dimmed();

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let begun = Instant::now();
    let out = Out::new(&args.output)?;
    recovery()?;
    names(&out)?;
    writeln!(
        anstream::stdout(),
        "\n{DIM}{:.1} s in all; noodl-lab recover --help plants other sizes, sparsities and noise{DIM:#}",
        begun.elapsed().as_secs_f64()
    )?;
    Ok(())
}

/// The files that are written.
struct Out {
    table: PathBuf,
    model: PathBuf,
    page: PathBuf,
}

impl Out {
    /// Whether they can be written is known before any work.
    fn new(folder: &Path) -> anyhow::Result<Out> {
        let cannot =
            |error| anyhow!("cannot write {}: {error}; --output names another folder", folder.display());
        fs::create_dir_all(folder).map_err(cannot)?;
        // A folder whose name begins with a dash is no option of learn.
        let dash = folder.as_os_str().as_encoded_bytes().starts_with(b"-");
        let folder = if dash { Path::new(".").join(folder) } else { folder.to_owned() };
        let [table, model, page] =
            ["mail.csv", "mail.safetensors", "mail.html"].map(|name| folder.join(name));
        for path in [&table, &model, &page] {
            files::check(path)?;
        }
        Ok(Out { table, model, page })
    }

    /// What `noodl learn` is told.
    fn words(&self) -> Vec<OsString> {
        let axes = "--feature weekhour(time) --row from --col to --step month(time) --recipe log2";
        let mut words = vec![self.table.clone().into_os_string()];
        words.extend(axes.split(' ').map(OsString::from));
        words.extend(["-o".into(), self.model.clone().into(), "--report".into(), self.page.clone().into()]);
        words
    }
}

/// Planted patterns come back.
fn recovery() -> anyhow::Result<()> {
    let plan = Plan::default();
    let bold = BOLD;
    let ours_style = CYAN;
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
         {bold}time{bold:#}      {:.2} s of learning",
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
    )?;
    Ok(())
}

/// The same on a table with names: who belongs together, and when?
fn names(to: &Out) -> anyhow::Result<()> {
    let mut out = anstream::stdout();
    let groups = sample_company::groups();
    let table = sample_company::mail(&groups);
    files::write(&to.table, &table)?;
    let hours: Vec<String> = groups.iter().map(|group| format!("{} ({})", group.name, group.when)).collect();
    let some: Vec<String> = table.lines().step_by(60_000).map(|line| format!("  {line}\n")).collect();
    writeln!(
        out,
        "\n{BOLD}Now with names{BOLD:#}: a year of e-mail of a firm that never was, {} mails among {} people.\n\n{}\n{}\n",
        grouped(table.lines().count() - 1),
        PEOPLE.len(),
        some.concat(),
        wrapped(&format!(
            "{} groups write at hours of the week that are their own: {}. Some mail is sent at other hours, some between any \
             two. The learner is not told who belongs to which group, how many there are, or that there are any. It reads one \
             month after the other:",
            groups.len(),
            hours.join(", ")
        ))
    )?;

    let planted = groups.iter().flat_map(|group| group.rhythm.iter().copied()).collect();
    let planted = Dictionary::from_columns(7 * 24, planted)?;
    writeln!(out, "{BOLD}  month     mails   pairs   explained            patterns{BOLD:#}")?;
    let words = to.words();
    let command = learn::Args::augment_args(clap::Command::new("learn").no_binary_name(true));
    let matches = command.try_get_matches_from(words.iter().chain([&"--quiet".into()]))?;
    let args = learn::Args::from_arg_matches(&matches)?;
    let typed = |program: &str| {
        let words = words.iter().map(|word| word.to_string_lossy().into_owned());
        learn::typed([program.to_owned(), "learn".into()].into_iter().chain(words))
    };
    let alone: Arc<dyn Team> = Arc::new(Solo);
    let model = learn::learn(&args, &alone, &typed("noodl"), |step, model| {
        let (label, record) = (&model.card.steps[step], &model.card.history[step]);
        let share = 1.0 - record.fit * record.fit;
        let new = (record.patterns.saturating_sub(record.found)..record.patterns).filter(|_| step > 0);
        let like = |pattern: usize| {
            let (group, cosine) = nearest(model.learner.dictionary().pattern(pattern), &planted);
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
            new.map(like).collect::<String>()
        )
    })?;
    compare(&mut out, &groups, &planted, &model)?;

    let program =
        std::env::args_os().next().map_or("noodl".into(), |name| name.to_string_lossy().into_owned());
    let show = learn::typed([program.clone(), "show".into(), to.model.display().to_string()]);
    let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.into()).display().to_string();
    writeln!(
        out,
        "\n{BOLD}Written{BOLD:#}   {}\n          {}\n          {}\n\n\
         {BOLD}Look at{BOLD:#}   {CYAN}{}{CYAN:#} in a browser: every pattern, who takes part, month by month\n          \
         {CYAN}{show}{CYAN:#} for the same in the terminal\n\n\
         The same model, to the bit, from the table:\n\n{CYAN}{}{CYAN:#}\n\n\
         Your own table needs no more: what a pattern extends over, who takes part, and with whom.",
        whole(&to.table),
        whole(&to.model),
        whole(&to.page),
        to.page.display(),
        typed(&program).replace(" --step", " \\\n  --step").replace(" --report", " \\\n  --report")
    )?;
    Ok(())
}

/// Planted and found, side by side.
fn compare(
    out: &mut impl Write,
    groups: &[Group],
    planted: &Dictionary,
    model: &Model,
) -> anyhow::Result<()> {
    let found = model.learner.dictionary();
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
    writeln!(
        out,
        "\n{BOLD}planted{BOLD:#}   {} groups of {all} senders and receivers\n\
         {BOLD}found{BOLD:#}     {} of {} groups, with a cosine of {:.3} or more; {right} of {all} senders and receivers\n\
         {BOLD}too many{BOLD:#}  {wrong} people, {} patterns",
        groups.len(),
        cosines.len(),
        groups.len(),
        cosines.iter().copied().fold(1.0, f64::min),
        found.patterns() - cosines.len()
    )?;
    Ok(())
}

fn cosine(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The planted rhythm that a pattern is most like.
fn nearest(pattern: &[f64], planted: &Dictionary) -> (usize, f64) {
    let cosines = (0..planted.patterns()).map(|group| (group, cosine(pattern, planted.pattern(group))));
    cosines.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_default()
}

/// A sparkline for each day, four hours to a cell.
fn week(rhythm: &[f64]) -> String {
    let cells: Vec<char> = plot::sparkline(rhythm, 7 * 6).chars().collect();
    cells.chunks(6).map(|day| day.iter().chain([&' ']).collect::<String>()).collect()
}

/// 171234 as 171,234.
fn grouped(number: usize) -> String {
    match number {
        0..1000 => number.to_string(),
        _ => format!("{},{:03}", grouped(number / 1000), number % 1000),
    }
}

/// Words in lines of a terminal.
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

/// Twelve cells, as many full as the share.
fn full(share: f64) -> String {
    let cells = (12.0 * share.clamp(0.0, 1.0)).round() as usize;
    format!("{}{}", "█".repeat(cells), "░".repeat(12 - cells))
}

/// Twelve cells, from an error of 1 (all full) to rounding (empty).
fn bar(error: f64) -> String {
    full(1.0 + error.max(1e-16).log10() / 16.0)
}
