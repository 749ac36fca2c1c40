//! `noodl init`: the patterns of one tensor, from nothing, and what speaks for them.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde_json::{Value, json};
use tensornoodl::discover::pairs::{self, Pairs};
use tensornoodl::discover::{self, Evidence, Repeat, Start};
use tensornoodl::recovery::Census;
use tensornoodl::{Dictionary, DiscoverParams, Error};

use crate::plot;
use crate::progress::Spinner;
use crate::source::{self, Source};
use crate::svg;
use tensornoodl_data::files;

const EXAMPLES: &str = "\
Examples:
  noodl init mail.tns --feature 3 --row 1 --col 2 --recipe log2,scale,center --evidence
  noodl init mail.tns --patterns 4 -o patterns.csv        four patterns, whatever chance says
  noodl init --synthetic patterns=300,noise=0.3           compared with what was planted
  noodl init --synthetic --method pairs                   the paper's start, for comparison

A pattern is believed if its fibers have more in common than any that chance finds in as many. Where data follows the
model only roughly, how many there are is a judgement: --evidence shows what each further pattern explains of fibers
that it was not found in, and whether other draws of the data lead to the same ones.";

/// Find the patterns of a tensor and how many there are, and say why.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct Args {
    #[command(flatten)]
    source: source::Args,
    /// So many patterns, whatever chance says [default: all that are clearer than chance].
    #[arg(long, value_name = "N")]
    patterns: Option<usize>,
    /// Shorter fibers are not searched: a length, or auto, which searches all where the data follows the model,
    /// and where not, those above half the length that splits the energy.
    #[arg(long, default_value = "auto", value_name = "LENGTH|auto")]
    floor: Floor,
    /// How patterns are found.
    #[arg(long, value_enum, default_value_t = Method::Search)]
    method: Method,
    /// Look again: with other random numbers, in parts of the data, in both halves of it.
    #[arg(long)]
    evidence: bool,
    /// Draw the evidence into this SVG file.
    #[arg(long, value_name = "FILE", requires = "evidence")]
    picture: Option<PathBuf>,
    /// Write the patterns into this CSV file, a column for each.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Seed of all random draws.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Write one JSON object.
    #[arg(long)]
    json: bool,
    /// Show no progress.
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Method {
    /// What unexplained fibers share, against chance.
    Search,
    /// Pairs of fibers that share one pattern (Arora and others, 2015).
    Pairs,
}

#[derive(Clone, Copy)]
struct Floor(Option<f64>);

impl FromStr for Floor {
    type Err = String;
    fn from_str(text: &str) -> Result<Floor, String> {
        match (text, text.parse()) {
            ("auto", _) => Ok(Floor(None)),
            (_, Ok(length)) => Ok(Floor(Some(length))),
            _ => Err("it must be a length or auto".into()),
        }
    }
}

impl Args {
    /// What the core does not know of.
    fn check(&self) -> Result<(), Error> {
        let wrong = |name, value: &str, rule: &str| {
            Err(Error::Parameter { name, value: value.into(), rule: rule.into() })
        };
        if self.patterns == Some(0) {
            return wrong("patterns", "0", "at least 1");
        }
        let searching = self.patterns.is_some() || self.floor.0.is_some() || self.evidence;
        if self.method == Method::Pairs && searching {
            return wrong("method", "pairs", "search with --patterns, --floor or --evidence");
        }
        Ok(())
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    for path in args.picture.iter().chain(&args.output) {
        files::check(path)?;
    }
    args.check()?;
    let source = args.source.load()?;
    let report = match args.method {
        Method::Search => search(args, &source)?,
        Method::Pairs => by_pairs(args, &source)?,
    };
    if let Some(path) = args.output.iter().find(|_| report.dictionary().patterns() > 0) {
        files::write(path, csv(report.dictionary()))?;
    }
    if let (Some(path), Report::Search { start, evidence: Some(evidence), .. }) = (&args.picture, &report) {
        let picture = svg::ladder(&evidence.held_out, start.findings.len(), &source.name);
        files::write(path, &picture)?;
    }
    let mut stdout = io::stdout().lock();
    if args.json {
        serde_json::to_writer(&mut stdout, &record(&source, &report)?)?;
        writeln!(stdout)?;
    } else {
        write!(stdout, "{}", report.words(args, &source)?)?;
    }
    Ok(())
}

/// What came out.
enum Report {
    Search { start: Start, evidence: Option<Evidence>, time: Duration, grow: DiscoverParams },
    Pairs { found: pairs::Found, time: Duration },
}

fn search(args: &Args, source: &Source) -> anyhow::Result<Report> {
    let Args { patterns, floor: Floor(floor), seed, .. } = *args;
    let grow = DiscoverParams {
        min_patterns: patterns.unwrap_or(0),
        max_patterns: patterns,
        min_length: floor.unwrap_or(0.0),
        seed,
        ..DiscoverParams::default()
    };
    let spinner = Spinner::new("looking for patterns", args.quiet || args.json);
    let begun = Instant::now();
    let start = match floor {
        Some(_) => discover::find(&source.tensor, &grow)?,
        None => discover::find_stable(&source.tensor, &grow)?,
    };
    let time = begun.elapsed();
    let grow = DiscoverParams { min_length: start.min_length, ..grow };
    let evidence = match args.evidence {
        true => Some(discover::evidence(&source.tensor, &start, &grow, |share| spinner.done(share))?),
        false => None,
    };
    spinner.finish();
    Ok(Report::Search { start, evidence, time, grow })
}

fn by_pairs(args: &Args, source: &Source) -> anyhow::Result<Report> {
    let spinner = Spinner::new("drawing pairs of fibers", args.quiet || args.json);
    let begun = Instant::now();
    let pairs = Pairs { seed: args.seed, ..Pairs::new(source.tensor.shape().features) };
    let found = pairs::find(&source.tensor, &pairs)?;
    spinner.finish();
    Ok(Report::Pairs { found, time: begun.elapsed() })
}

fn csv(dictionary: &Dictionary) -> String {
    let (n, m) = (dictionary.features(), dictionary.patterns());
    let line = |cells: Vec<String>| cells.join(",") + "\n";
    let mut text = line((1..=m).map(|i| format!("pattern {i}")).collect());
    for feature in 0..n {
        text += &line((0..m).map(|i| dictionary.pattern(i)[feature].to_string()).collect());
    }
    text
}

impl Report {
    fn dictionary(&self) -> &Dictionary {
        match self {
            Report::Search { start, .. } => &start.dictionary,
            Report::Pairs { found, .. } => &found.dictionary,
        }
    }

    fn census(&self, source: &Source) -> anyhow::Result<Option<Census>> {
        let Some(truth) = &source.truth else { return Ok(None) };
        Ok(Some(Census::new(self.dictionary(), truth.planted.true_dictionary(), &truth.shown)?))
    }

    /// Writing to a string cannot fail.
    fn words(&self, args: &Args, source: &Source) -> anyhow::Result<String> {
        let mut text =
            format!("{}: {}, {} fibers\n\n", source.name, source.tensor.shape(), source.tensor.fibers());
        match self {
            Report::Search { start, evidence, time, grow } => {
                text += &found(start, grow, args, *time, source.tensor.fibers());
                if let Some(evidence) = evidence {
                    text += &in_words(evidence, start.findings.len());
                }
            }
            Report::Pairs { found, time } => {
                let _ = writeln!(
                    text,
                    "found     {} patterns in {:.1} s: {} of {} pairs of fibers led to one direction, {} hits a pattern",
                    found.hits.len(),
                    time.as_secs_f64(),
                    found.accepted,
                    found.pairs,
                    match (found.hits.last(), found.hits.first()) {
                        (Some(least), Some(most)) => format!("{least} to {most}"),
                        _ => "no".into(),
                    }
                );
            }
        }
        if let Some(census) = self.census(source)? {
            let _ = writeln!(
                text,
                "planted   {} patterns in two fibers or more: {} of all are found, {} spurious",
                census.seen, census.found, census.spurious
            );
        }
        let files = args.output.iter().filter(|_| self.dictionary().patterns() > 0).chain(&args.picture);
        for path in files {
            let _ = writeln!(text, "written   {}", path.display());
        }
        Ok(text)
    }
}

/// Three digits, whatever the size.
fn short(value: f64) -> String {
    if (1e-2..1e4).contains(&value.abs()) { format!("{value:.3}") } else { format!("{value:.2e}") }
}

/// Patterns shown one by one.
const MOST_SHOWN: usize = 20;

fn found(start: &Start, grow: &DiscoverParams, args: &Args, time: Duration, fibers: usize) -> String {
    let mut text = String::new();
    let count = start.findings.len();
    let unclear = start.findings.iter().filter(|finding| finding.evidence <= 1.0).count();
    let (Floor(floor), percent) = (args.floor, |share: f64| 100.0 * share);
    let _ = write!(text, "found     {count} patterns in {:.2} s, ", time.as_secs_f64());
    text += &match (grow.max_patterns, unclear) {
        (None, _) if count == 0 => "nothing that fibers share is clearer than chance\n".to_owned(),
        (None, _) => "each clearer than any that chance finds\n".to_owned(),
        (Some(asked), _) if count < asked => {
            format!(
                "{asked} were asked for; no more are shared by two fibers that the others do not explain\n"
            )
        }
        (Some(_), 0) => "as asked, all clearer than any that chance finds\n".to_owned(),
        (Some(_), unclear) => format!("as asked; {unclear} of them no clearer than what chance finds\n"),
    };
    if floor.is_none() && start.min_length > 0.0 {
        text += "          The patterns of all fibers would leave more than a tenth of the energy: the data follows the\n\
                \x20         model only roughly. ";
        if start.fibers < fibers {
            let _ = write!(
                text,
                "Short fibers would make patterns of their own, so only the {} of\n          {fibers} of length {} or more were searched; \
                 --floor 0 searches all.\n          ",
                start.fibers,
                short(start.min_length)
            );
        }
        text += if grow.max_patterns.is_none() {
            "Patterns had to come again in four of five searches.\n"
        } else {
            "\n"
        };
    }
    let _ = writeln!(
        text,
        "explains  {:.1} % of the energy, {} of {} fibers to the noise",
        percent(start.energy),
        start.explained,
        start.fibers
    );
    if let Some(scale) = start.scale {
        let _ = writeln!(
            text,
            "scale     codes from {} on, noise of length {} in a fiber",
            short(scale.code),
            short(scale.noise)
        );
    }
    if count > 0 {
        let _ = writeln!(text, "\n     #  clearness  fibers  energy  pattern");
    }
    for (i, finding) in start.findings.iter().enumerate().take(MOST_SHOWN) {
        let _ = writeln!(
            text,
            "  {:>4} {:>10.2} {:>7} {:>6.2}%  {}",
            i + 1,
            finding.evidence,
            finding.fibers,
            percent(finding.energy),
            plot::sparkline(start.dictionary.pattern(i), 44)
        );
    }
    if count > MOST_SHOWN {
        let _ = writeln!(text, "   and {} more", count - MOST_SHOWN);
    }
    text + "\n"
}

fn in_words(evidence: &Evidence, count: usize) -> String {
    let mut text =
        String::from("patterns  explain of the other half               the other half agrees on\n");
    let mut before = 0.0;
    let top = evidence.held_out.iter().map(|rung| rung.energy).fold(1e-9, f64::max);
    // The first rungs, those around the number taken, and the last.
    let near = |patterns: usize| patterns <= 12 || patterns.abs_diff(count) <= 3;
    let last = evidence.held_out.len().saturating_sub(1);
    let mut skipped = false;
    for (at, rung) in evidence.held_out.iter().enumerate() {
        if !near(rung.patterns) && at != last {
            skipped = true;
            continue;
        }
        if std::mem::take(&mut skipped) {
            text += "       …\n";
        }
        let bar = "━".repeat((24.0 * rung.energy / top).round().max(0.0) as usize);
        let mark = if rung.patterns == count { "<- taken" } else { "" };
        let _ = writeln!(
            text,
            "{:>8}  {:>5.1} % {:>+6.1}  {bar:<24} {:>8} of {} {mark}",
            rung.patterns,
            100.0 * rung.energy,
            100.0 * (rung.energy - before),
            rung.agree,
            rung.patterns
        );
        before = rung.energy;
    }
    if evidence.held_out.last().is_none_or(|rung| rung.patterns < count) {
        let _ = writeln!(text, "{count:>8}  <- taken; neither half has so many by itself");
    }
    let list = |agains: &[Repeat]| {
        let each = agains.iter().map(|again| format!("{} of {}", again.agree, again.patterns));
        each.collect::<Vec<_>>().join(", ")
    };
    let _ = writeln!(
        text,
        "\nagain     found in either half: {} and {} patterns\n\
        \x20         the same fibers, other random numbers: {}\n\
        \x20         seven tenths of the fibers: {}\n\
        \x20         (patterns found again, of those found there; a cosine of 0.9 is the same)\n",
        evidence.halves[0],
        evidence.halves[1],
        list(&evidence.seeds),
        list(&evidence.samples)
    );
    text
}

/// The same for programs.
fn record(source: &Source, report: &Report) -> anyhow::Result<Value> {
    let shape = source.tensor.shape();
    let mut record = json!({
        "type": "init",
        "features": shape.features,
        "rows": shape.rows,
        "cols": shape.cols,
        "fibers": source.tensor.fibers(),
        "patterns": report.dictionary().patterns(),
    });
    let more = match report {
        Report::Search { start, evidence, time, .. } => json!({
            "method": "search",
            "seconds": time.as_secs_f64(),
            "floor": start.min_length,
            "fibers_searched": start.fibers,
            "fibers_explained": start.explained,
            "energy": start.energy,
            "scale": start.scale.map(|scale| {
                json!({ "code": scale.code, "code_floor": scale.floor, "noise": scale.noise })
            }),
            "findings": start.findings.iter().map(|finding| {
                json!({ "evidence": finding.evidence, "fibers": finding.fibers, "energy": finding.energy })
            }).collect::<Vec<_>>(),
            "evidence": evidence.as_ref().map(|evidence| {
                let again = |again: &Repeat| json!({ "patterns": again.patterns, "agree": again.agree });
                json!({
                    "ladder": evidence.held_out.iter().map(|rung| {
                        json!({ "patterns": rung.patterns, "energy": rung.energy, "agree": rung.agree })
                    }).collect::<Vec<_>>(),
                    "halves": evidence.halves,
                    "seeds": evidence.seeds.iter().map(again).collect::<Vec<_>>(),
                    "samples": evidence.samples.iter().map(again).collect::<Vec<_>>(),
                })
            }),
        }),
        Report::Pairs { found, time } => json!({
            "method": "pairs",
            "seconds": time.as_secs_f64(),
            "pairs": found.pairs,
            "accepted": found.accepted,
            "hits": found.hits,
        }),
    };
    let truth = report.census(source)?.map(|census| {
        json!({
            "patterns_seen": census.seen,
            "patterns_found": census.found,
            "spurious": census.spurious,
        })
    });
    if let Some(record) = record.as_object_mut() {
        let parts = [Some(more), truth].into_iter().flatten();
        record.extend(parts.filter_map(|part| part.as_object().cloned()).flatten());
    }
    Ok(record)
}
