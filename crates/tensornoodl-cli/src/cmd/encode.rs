//! `noodl encode`: the codes of another table for the patterns of a model, or what is surprising in it.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use tensornoodl::ModelKind;
use tensornoodl_cli::output::{cell, note, plain};
use tensornoodl_cli::{memory, model};
use tensornoodl_data::{Events, Lookup, Model, Query, Surprising, SurprisingFeature, files, table};

const EXAMPLES: &str = "\
Examples:
  noodl encode mail.safetensors new-mail.csv > codes.csv
  cat new-mail.csv | noodl encode mail.safetensors - -o codes.csv
  noodl encode mail.safetensors new-mail.csv --surprise

The table is counted with the axes, filters and recipe of the model. The model does not change.

For the exact model, the column certain tells whether the place has exactly these patterns with these signs, if the data follows the \
model and the patterns are as close to the true ones as expected (docs/recovery.md).

Spreadsheets run a cell that begins with = + - or @ as a formula. A label that begins so and is not a number therefore gets an \
apostrophe before it; --raw writes it as it is.";

/// Write the codes of a table: which patterns each row and col shows together, and how strongly.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct Args {
    /// A model file.
    model: PathBuf,
    /// A table with the columns that the model was learned from; - for CSV from standard input.
    table: PathBuf,
    /// Names for rows and cols from a second table: its file, its column of labels, and its column of names.
    #[arg(long, value_name = "FILE(LABEL,NAME)")]
    names: Option<String>,
    /// Show the most surprising places instead: how many events they have and how many are expected, the p-values of
    /// this number and of the features, and the features that are too many. -o writes all places as CSV. It needs the
    /// counts model, and a table that the model has not learned from.
    #[arg(long)]
    surprise: bool,
    /// Write labels as they are, also those that a spreadsheet would run as formulas.
    #[arg(long)]
    raw: bool,
    /// The file to write [default: standard output].
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Number of threads, at least 1 [default: all cores]. Results do not depend on it.
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let outputs: Vec<&Path> = args.output.iter().map(PathBuf::as_path).collect();
    // Files that a model names are not opened: the model may come from somebody else.
    let names: Option<Lookup> = args.names.as_deref().map(str::parse).transpose()?;
    let mut inputs: Vec<&Path> = vec![&args.model, &args.table];
    inputs.extend(names.as_ref().map(Lookup::path));
    files::apart(&inputs, &outputs)?;
    outputs.iter().try_for_each(|path| files::check(path))?;
    let model = model::load(&args.model)?;
    if args.surprise && model.learner.kind() == ModelKind::Exact {
        return Err(anyhow!(
            "--surprise needs the counts model, and {} has the exact one; if the cells count events, learn again with --model counts",
            args.model.display()
        ));
    }
    // Features that the model does not have are left out, however many they are.
    let query = Query { names, groups: None, max_features: Some(usize::MAX), ..model.card.query.clone() };
    let mut events = table::read(&args.table, query)?;
    let cells = events.cells();
    let lost = events.align(&model.card.features);
    if lost == cells {
        return Err(anyhow!("{} has none of the features of {}", args.table.display(), args.model.display()));
    }
    if lost > 0 {
        note(&format!(
            "{lost} of {cells} cells have features that the model does not know; they are left out"
        ));
    }
    memory::check(2.0 * events.bytes())?;
    if args.surprise {
        check_places(args, &model, &events)?;
    }
    match (&args.output, args.surprise) {
        (Some(path), true) => files::write(path, &surprise_csv(&surprises(&model, &events)?, args.raw)?)?,
        (None, true) => write_surprises(&surprises(&model, &events)?, &mut io::stdout().lock())?,
        (Some(path), false) => files::write(path, &codes(&model, &events, args.raw)?)?,
        (None, false) => write_codes(&codes(&model, &events, args.raw)?, &mut io::stdout().lock())?,
    }
    Ok(())
}

/// Checks that the model knows rows and cols of the table.
fn check_places(args: &Args, model: &Model, events: &Events) -> anyhow::Result<()> {
    if model.knows(&events.rows.names, &events.cols.names) {
        return Ok(());
    }
    Err(anyhow!(
        "{} knows no row or no col of {}, so nothing can be expected there; use the same --names as for learn",
        args.model.display(),
        args.table.display()
    ))
}

/// Returns the label of a step.
fn label(events: &Events, step: usize) -> &str {
    events.steps.as_ref().map_or("all", |steps| steps.names[step].as_str())
}

/// Writes codes to standard output. On a terminal, labels are made plain.
fn write_codes(csv: &[u8], out: &mut (impl Write + IsTerminal)) -> io::Result<()> {
    if !out.is_terminal() {
        return out.write_all(csv);
    }
    String::from_utf8_lossy(csv).lines().try_for_each(|line| writeln!(out, "{}", plain(line)))
}

/// Returns a label as a cell of CSV, or as it is.
fn text_cell(text: &str, raw: bool) -> Cow<'_, str> {
    if raw { text.into() } else { cell(text) }
}

/// Returns the codes of all steps as CSV. If the model can tell which codes are certain, the last column does, and a note
/// has their share.
fn codes(model: &Model, events: &Events, raw: bool) -> anyhow::Result<Vec<u8>> {
    let mut text = csv::Writer::from_writer(Vec::new());
    let (mut fibers, mut sure) = (0_usize, None);
    for step in 0..events.steps() {
        let tensor = model.card.recipe.apply(events.tensor(step)?)?;
        let codes = model.learner.encode(&tensor)?;
        let certain = model.learner.certain_codes(&tensor, &codes)?;
        if step == 0 {
            let titles = ["step", "row", "col", "pattern", "code", "certain"];
            text.write_record(&titles[..if certain.is_some() { 6 } else { 5 }])?;
        }
        if let Some(certain) = &certain {
            fibers += certain.len();
            *sure.get_or_insert(0) += certain.iter().filter(|certain| **certain).count();
        }
        for (fiber, (place, code)) in codes.places().iter().zip(codes.matrix().columns()).enumerate() {
            let (row, col) = (&events.rows.names[place.row as usize], &events.cols.names[place.col as usize]);
            let certain = certain.as_ref().map(|certain| certain[fiber].to_string());
            for (pattern, value) in code {
                let [step, row, col] = [label(events, step), row, col].map(|text| text_cell(text, raw));
                let (pattern, value) = ((pattern + 1).to_string(), value.to_string());
                let fields = [&*step, &*row, &*col, &pattern, &value];
                text.write_record(fields.into_iter().chain(certain.as_deref()))?;
            }
        }
    }
    if let Some(sure) = sure {
        let share = 100.0 * sure as f64 / fibers.max(1) as f64;
        note(&format!("the codes of {share:.1} % of the places are certain"));
    }
    text.into_inner().map_err(|error| anyhow!("{error}"))
}

/// Returns the places of all steps, the smallest p-value first, each with the label of its step.
fn surprises<'e>(model: &Model, events: &'e Events) -> anyhow::Result<Vec<(&'e str, Surprising)>> {
    let mut all = Vec::new();
    for step in 0..events.steps() {
        let tensor = model.card.recipe.apply(events.tensor(step)?)?;
        let places = model.surprises(&tensor, &events.rows.names, &events.cols.names)?;
        all.extend(places.into_iter().map(|it| (label(events, step), it)));
    }
    all.sort_by(|a, b| a.1.p().total_cmp(&b.1.p()));
    Ok(all)
}

/// The titles of the columns of surprises.
const TITLES: [&str; 8] = ["step", "row", "col", "events", "expected", "p_total", "p_shape", "too_many"];

/// Returns the values of the columns of a surprise. p-values have two digits, and expected numbers one after the point.
fn fields(step: &str, it: &Surprising) -> [String; 8] {
    let p = |p: f64| if p < 0.01 { format!("{p:.1e}") } else { format!("{p:.2}") };
    let number = |x: f64| if x < 0.05 { "<0.1".into() } else { format!("{x:.1}") };
    let feature = |it: &SurprisingFeature| format!("{} {} ({})", it.feature, it.events, number(it.expected));
    let features: Vec<String> = it.features.iter().map(feature).collect();
    [
        step.into(),
        it.row.clone(),
        it.col.clone(),
        it.events.to_string(),
        number(it.expected),
        p(it.p_total),
        p(it.p_shape),
        features.join("; "),
    ]
}

/// Returns surprises as CSV. The last column tells which ones are significant.
fn surprise_csv(all: &[(&str, Surprising)], raw: bool) -> anyhow::Result<Vec<u8>> {
    let mut text = csv::Writer::from_writer(Vec::new());
    text.write_record(TITLES.into_iter().chain(["significant"]))?;
    for (step, it) in all {
        let significant = it.significant.to_string();
        let mut fields = fields(step, it);
        for at in [0, 1, 2, 7] {
            fields[at] = text_cell(&fields[at], raw).into_owned();
        }
        text.write_record(fields.into_iter().chain([significant]))?;
    }
    text.into_inner().map_err(|error| anyhow!("{error}"))
}

/// Number of places that are shown, if not more are significant.
const SHOWN: usize = 10;

/// Writes the worst surprises as a table for people.
fn write_surprises(all: &[(&str, Surprising)], out: &mut impl Write) -> anyhow::Result<()> {
    let significant = all.iter().filter(|it| it.1.significant).count();
    let shown = all.iter().take(SHOWN).chain(all.iter().skip(SHOWN).filter(|it| it.1.significant));
    let mut lines = vec![TITLES.map(|title| title.replace('_', " "))];
    lines.extend(shown.map(|(step, it)| {
        let mut fields = fields(step, it).map(|field| plain(&field).into_owned());
        fields[0].insert_str(0, if it.significant { "* " } else { "  " });
        fields
    }));
    lines[0][0].insert_str(0, "  ");
    let widths: [usize; 8] =
        std::array::from_fn(|at| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0));
    for line in &lines {
        let mut text = String::new();
        for (at, (field, width)) in line.iter().zip(widths).enumerate() {
            // Numbers are aligned at the right.
            text += &if (3..7).contains(&at) {
                format!("{field:>width$}  ")
            } else {
                format!("{field:<width$}  ")
            };
        }
        writeln!(out, "{}", text.trim_end())?;
    }
    let count = all.len();
    match significant {
        0 => writeln!(out, "\nNone of the {count} places is too unlikely for chance.")?,
        _ => writeln!(out, "\nPlaces with * are too unlikely for chance: {significant} of {count}.")?,
    }
    Ok(())
}
