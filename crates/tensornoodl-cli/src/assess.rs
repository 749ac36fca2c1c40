//! What `check` does with one tensor: it measures the assumptions of the theory, and reports patterns and the
//! evidence for them.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use serde_json::{Value, json};
use tensornoodl::assumptions::{self, Assumption, AssumptionReport, Verdict};
use tensornoodl::discover::{self, Evidence, Repeat, Start};
use tensornoodl::recovery::PatternCounts;
use tensornoodl::synthetic::Planted;
use tensornoodl::{Dictionary, DiscoverParams, Tensor};
use tensornoodl_data::files;

use crate::program::wrong;
use crate::progress::Spinner;
use crate::{plot, svg};

/// Options of the programs' commands `check`.
#[derive(clap::Args)]
pub struct Options {
    /// Report the patterns, and search again for the evidence for their number: with other random numbers, in parts
    /// of the fibers, and in both halves of the fibers.
    #[arg(long, help_heading = "Patterns")]
    pub(crate) evidence: bool,
    /// Take this many patterns, the clearest ones first [default: all patterns that are clearer than chance].
    #[arg(long, value_name = "N", help_heading = "Patterns")]
    pub(crate) patterns: Option<usize>,
    /// Search only fibers of at least this length (Euclidean norm, in the units of the data). With auto, all fibers
    /// are searched if the data follows the model; otherwise those longer than half the length above which fibers
    /// hold half of the energy.
    #[arg(long, default_value = "auto", value_name = "LENGTH|auto", help_heading = "Patterns")]
    pub(crate) min_length: MinLength,
    /// Write the patterns to this CSV file: a column for each pattern, a line for each feature.
    #[arg(long, value_name = "FILE", help_heading = "Patterns")]
    pub(crate) patterns_out: Option<PathBuf>,
    /// Draw the evidence into this SVG file.
    #[arg(long, value_name = "FILE", requires = "evidence", help_heading = "Patterns")]
    pub(crate) picture: Option<PathBuf>,
    /// Seed of all random draws.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Number of threads, at least 1 [default: all cores]. Results do not depend on it.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Write a JSON object for each assumption, and one for the patterns if they are reported.
    #[arg(long)]
    pub(crate) json: bool,
    /// Show no progress.
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// The value of `--min-length`; None stands for auto.
#[derive(Clone, Copy)]
pub(crate) struct MinLength(pub(crate) Option<f64>);

impl FromStr for MinLength {
    type Err = String;
    fn from_str(text: &str) -> Result<MinLength, String> {
        match (text, text.parse()) {
            ("auto", _) => Ok(MinLength(None)),
            (_, Ok(length)) => Ok(MinLength(Some(length))),
            _ => Err("it must be a length or auto".into()),
        }
    }
}

/// A tensor to assess.
pub struct Source {
    /// The tensor.
    pub tensor: Tensor<'static>,
    /// Where the tensor is from, for messages.
    pub name: String,
    /// What was planted in the tensor, if anything.
    pub truth: Option<Truth>,
}

/// What was planted in a tensor.
pub struct Truth {
    /// The planted patterns.
    pub planted: Planted,
    /// For each pattern, the number of fibers that show it.
    pub shown: Vec<usize>,
}

impl Source {
    /// Checks that the tensor has enough fibers to search.
    ///
    /// # Errors
    /// If fewer than two fibers are not zero: a pattern is what fibers share.
    pub fn check(&self) -> Result<(), tensornoodl_data::Error> {
        // The squares of still smaller values are zero.
        let is_not_zero = |fiber: &usize| self.tensor.fiber(*fiber).iter().any(|y| y * y > 0.0);
        let fibers = (0..self.tensor.fibers()).filter(is_not_zero).take(2).count();
        match fibers {
            2 => Ok(()),
            _ => Err(tensornoodl_data::Error::Few { file: self.name.clone(), fibers }),
        }
    }

    /// Counts the planted patterns that a dictionary has found. None if nothing was planted.
    ///
    /// # Errors
    /// If the dictionary has another number of features than the planted one.
    pub fn pattern_counts(
        &self,
        dictionary: &Dictionary,
    ) -> Result<Option<PatternCounts>, tensornoodl::Error> {
        let counts =
            |truth: &Truth| PatternCounts::new(dictionary, truth.planted.true_dictionary(), &truth.shown);
        self.truth.as_ref().map(counts).transpose()
    }
}

impl Options {
    /// The value of `--threads`.
    pub fn threads(&self) -> Option<usize> {
        self.threads
    }

    /// Whether only the results are printed.
    pub fn is_quiet(&self) -> bool {
        self.quiet || self.json
    }

    /// The files to write.
    pub fn outputs(&self) -> Vec<&Path> {
        self.patterns_out.iter().chain(&self.picture).map(PathBuf::as_path).collect()
    }

    /// Checks the options before any work.
    ///
    /// # Errors
    /// If a value is out of range or a file cannot be written.
    pub fn check(&self) -> anyhow::Result<()> {
        self.outputs().into_iter().try_for_each(files::check)?;
        if self.patterns == Some(0) {
            return Err(wrong("patterns", 0, "at least 1").into());
        }
        Ok(())
    }

    /// Whether patterns are reported, and not only the assumptions.
    pub(crate) fn reports_patterns(&self) -> bool {
        self.evidence || self.patterns.is_some() || self.min_length.0.is_some() || self.patterns_out.is_some()
    }

    pub(crate) fn discover_params(&self) -> DiscoverParams {
        DiscoverParams {
            min_patterns: self.patterns.unwrap_or(0),
            max_patterns: self.patterns,
            min_length: self.min_length.0.unwrap_or(0.0),
            seed: self.seed,
            ..DiscoverParams::default()
        }
    }

    /// Assesses a tensor, and prints and writes the results.
    ///
    /// # Errors
    /// If the search fails or a result cannot be written.
    pub fn run(&self, source: &Source) -> anyhow::Result<()> {
        let spinner = Spinner::new("looking for patterns, several times", self.quiet || self.json);
        let begun = Instant::now();
        let checkup = assumptions::check(&source.tensor, &self.discover_params())?;
        let time = begun.elapsed();
        let report = match self.reports_patterns() {
            true => Some(self.search(source, &checkup, time, &spinner)?),
            false => None,
        };
        spinner.finish();
        if let Some(report) = &report {
            self.write_files(source, report)?;
        }
        let mut stdout = io::stdout().lock();
        if self.json {
            for line in &checkup.assumptions {
                writeln!(stdout, "{}", serde_json::to_string(&Record::new(line))?)?;
            }
            if let Some(report) = &report {
                writeln!(stdout, "{}", report.record(source)?)?;
            }
            return Ok(());
        }
        write_checkup(&mut anstream::AutoStream::auto(&mut stdout), source, &checkup, report.is_none())?;
        if let Some(report) = &report {
            write!(stdout, "\n{}", report.words(self, source)?)?;
        }
        Ok(())
    }

    /// Returns the patterns that the checkup found, or searches again for a given `--min-length`, and measures the
    /// evidence.
    fn search(
        &self,
        source: &Source,
        checkup: &AssumptionReport,
        time: Duration,
        spinner: &Spinner,
    ) -> anyhow::Result<Report> {
        let begun = Instant::now();
        let params = self.discover_params();
        let (start, time) = match self.min_length.0 {
            // The checkup may raise a minimum length. The length that the user gave is used here as it is.
            Some(_) => (discover::find(&source.tensor, &params)?, begun.elapsed()),
            None => (checkup.start.clone(), time),
        };
        let params = DiscoverParams { min_length: start.min_length, ..params };
        let evidence = match self.evidence {
            true => Some(discover::evidence(&source.tensor, &start, &params, |share| spinner.done(share))?),
            false => None,
        };
        Ok(Report { start, evidence, time })
    }

    fn write_files(&self, source: &Source, report: &Report) -> anyhow::Result<()> {
        if let Some(path) = self.patterns_out.iter().find(|_| report.start.dictionary.patterns() > 0) {
            files::write(path, csv(&report.start.dictionary))?;
        }
        if let (Some(path), Some(evidence)) = (&self.picture, &report.evidence) {
            files::write(path, svg::ladder(&evidence.held_out, report.start.findings.len(), &source.name))?;
        }
        Ok(())
    }
}

/// Prints the verdict on each assumption. With `hint`, a last line points to `--evidence` if short fibers were not
/// searched.
fn write_checkup(
    out: &mut impl Write,
    source: &Source,
    checkup: &AssumptionReport,
    hint: bool,
) -> io::Result<()> {
    let start = &checkup.start;
    writeln!(out, "{}: {}, {} fibers", source.name, source.tensor.shape(), source.tensor.fibers())?;
    let worst = checkup.assumptions.iter().map(|line| line.verdict).max();
    let sentence = match worst {
        Some(Verdict::Good) => "The data fits the theory.",
        Some(Verdict::Fair) => "The data fits the theory roughly.",
        _ => "The data does not fit the theory in all respects; see what to do.",
    };
    writeln!(out, "{sentence}\n")?;
    write_assumptions(out, &checkup.assumptions)?;
    if start.min_length > 0.0 && hint {
        writeln!(
            out,
            "\nPatterns were looked for in the {} fibers of length {:.2e} or more; --evidence tells the reason.",
            start.fibers, start.min_length
        )?;
    }
    Ok(())
}

/// Prints a line for each assumption, and what to do about those that do not hold.
pub(crate) fn write_assumptions(out: &mut impl Write, assumptions: &[Assumption]) -> io::Result<()> {
    for line in assumptions {
        let style = Style::new().fg_color(Some(color(line.verdict).into())).bold();
        writeln!(out, "  {style}{:<4}{style:#}  {:<12} {}", word(line.verdict), line.name, line.explanation)?;
        if !line.advice.is_empty() {
            writeln!(out, "{:21}-> {}", "", line.advice)?;
        }
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

/// One assumption, as JSON.
#[derive(Serialize)]
pub(crate) struct Record<'a> {
    r#type: &'static str,
    name: &'a str,
    value: f64,
    bound: f64,
    verdict: &'a str,
    says: &'a str,
    advice: &'a str,
}

impl Record<'_> {
    pub(crate) fn new(line: &Assumption) -> Record<'_> {
        Record {
            r#type: "check",
            name: line.name,
            value: line.value,
            bound: line.bound,
            verdict: word(line.verdict),
            says: &line.explanation,
            advice: line.advice,
        }
    }
}

/// Returns a dictionary as CSV: a column for each pattern, a line for each feature.
pub fn csv(dictionary: &Dictionary) -> String {
    let (n, m) = (dictionary.features(), dictionary.patterns());
    let line = |cells: Vec<String>| cells.join(",") + "\n";
    let mut text = line((1..=m).map(|i| format!("pattern {i}")).collect());
    for feature in 0..n {
        text += &line((0..m).map(|i| dictionary.pattern(i)[feature].to_string()).collect());
    }
    text
}

/// Returns the sentence that compares found patterns with planted ones.
pub fn counts_words(counts: &PatternCounts) -> String {
    format!(
        "planted   {} patterns in two fibers or more: {} of all are found, {} spurious\n",
        counts.seen, counts.found, counts.spurious
    )
}

/// Returns the counts that compare found patterns with planted ones, as JSON.
pub fn counts_record(counts: &PatternCounts) -> Value {
    json!({ "patterns_seen": counts.seen, "patterns_found": counts.found, "spurious": counts.spurious })
}

/// Patterns, and the evidence for their number.
struct Report {
    start: Start,
    evidence: Option<Evidence>,
    /// Time of the search, without the evidence.
    time: Duration,
}

/// At most this many patterns are printed, a line for each.
const MOST_SHOWN: usize = 20;

impl Report {
    fn words(&self, options: &Options, source: &Source) -> anyhow::Result<String> {
        let mut text = self.found(options, source.tensor.fibers());
        if let Some(evidence) = &self.evidence {
            text += &evidence_words(evidence, self.start.findings.len());
        }
        if let Some(counts) = source.pattern_counts(&self.start.dictionary)? {
            text += &counts_words(&counts);
        }
        let patterns = options.patterns_out.iter().filter(|_| self.start.dictionary.patterns() > 0);
        for path in patterns.chain(&options.picture) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "written   {}", path.display());
        }
        Ok(text)
    }

    /// How many patterns were found and why not more, what they explain, and a line for each.
    fn found(&self, options: &Options, fibers: usize) -> String {
        let start = &self.start;
        let percent = |share: f64| 100.0 * share;
        let count = start.findings.len();
        let mut text = format!("found     {count} patterns in {:.2} s, ", self.time.as_secs_f64());
        text += &self.number(options.patterns);
        if options.min_length.0.is_none() && start.min_length > 0.0 {
            text += &self.short_fibers(options.patterns.is_none(), fibers);
        }
        let _ = writeln!(
            text,
            "explains  {:.1} % of the energy, {} of {} fibers to the noise",
            percent(start.energy),
            start.explained,
            start.fibers
        );
        if let Some(scale) = start.scale {
            let (code, noise) = (short(scale.code), short(scale.noise));
            let _ = writeln!(text, "scale     codes from {code} on, noise of length {noise} in a fiber");
        }
        if count > 0 {
            text += "\n     #  clearness  fibers  energy  pattern\n";
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

    /// Says what the number of patterns rests on.
    fn number(&self, asked: Option<usize>) -> String {
        let count = self.start.findings.len();
        let unclear = self.start.findings.iter().filter(|finding| finding.evidence <= 1.0).count();
        match (asked, unclear) {
            (None, _) if count == 0 => "nothing that fibers share is clearer than chance\n".to_owned(),
            (None, _) => "each clearer than any that chance finds\n".to_owned(),
            (Some(asked), _) if count < asked => format!(
                "{asked} were asked for; no more are shared by two fibers that the others do not explain\n"
            ),
            (Some(_), 0) => "as asked, all clearer than any that chance finds\n".to_owned(),
            (Some(_), unclear) => format!("as asked; {unclear} of them no clearer than what chance finds\n"),
        }
    }

    /// Says why only long fibers were searched.
    fn short_fibers(&self, stable: bool, fibers: usize) -> String {
        let mut text = String::from(
            "          The patterns of all fibers would leave more than a tenth of the energy: the data follows the\n\
             \x20         model only roughly. ",
        );
        if self.start.fibers < fibers {
            let _ = write!(
                text,
                "Short fibers would make patterns of their own, so only the {} of\n          {fibers} of length {} or more were \
                 searched; --min-length 0 searches all.\n          ",
                self.start.fibers,
                short(self.start.min_length)
            );
        }
        text + if stable { "Patterns had to be found in four of five searches.\n" } else { "\n" }
    }

    /// The report as JSON.
    fn record(&self, source: &Source) -> anyhow::Result<Value> {
        let (shape, start) = (source.tensor.shape(), &self.start);
        let findings = start.findings.iter().map(|finding| {
            json!({ "evidence": finding.evidence, "fibers": finding.fibers, "energy": finding.energy })
        });
        let mut record = json!({
            "type": "patterns",
            "features": shape.features,
            "rows": shape.rows,
            "cols": shape.cols,
            "fibers": source.tensor.fibers(),
            "patterns": start.dictionary.patterns(),
            "seconds": self.time.as_secs_f64(),
            "min_length": start.min_length,
            "fibers_searched": start.fibers,
            "fibers_explained": start.explained,
            "energy": start.energy,
            "scale": start.scale.map(|scale| {
                json!({ "code": scale.code, "code_floor": scale.floor, "noise": scale.noise })
            }),
            "findings": findings.collect::<Vec<_>>(),
            "evidence": self.evidence.as_ref().map(evidence_record),
        });
        let counts = source.pattern_counts(&start.dictionary)?;
        if let (Some(record), Some(counts)) = (record.as_object_mut(), counts.as_ref().map(counts_record)) {
            record.extend(counts.as_object().cloned().unwrap_or_default());
        }
        Ok(record)
    }
}

fn evidence_record(evidence: &Evidence) -> Value {
    let repeats = |repeats: &[Repeat]| -> Vec<Value> {
        let one = |repeat: &Repeat| json!({ "patterns": repeat.patterns, "agree": repeat.agree });
        repeats.iter().map(one).collect()
    };
    let ladder = evidence
        .held_out
        .iter()
        .map(|rung| json!({ "patterns": rung.patterns, "energy": rung.energy, "agree": rung.agree }));
    json!({
        "ladder": ladder.collect::<Vec<_>>(),
        "halves": evidence.halves,
        "seeds": repeats(&evidence.seeds),
        "samples": repeats(&evidence.samples),
    })
}

/// A number with three digits, whatever its size.
fn short(value: f64) -> String {
    if (1e-2..1e4).contains(&value.abs()) { format!("{value:.3}") } else { format!("{value:.2e}") }
}

fn evidence_words(evidence: &Evidence, count: usize) -> String {
    let mut text = ladder_words(evidence, count);
    let list = |repeats: &[Repeat]| {
        let each = repeats.iter().map(|repeat| format!("{} of {}", repeat.agree, repeat.patterns));
        each.collect::<Vec<_>>().join(", ")
    };
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "\nagain     found in either half: {} and {} patterns\n\
        \x20         all fibers, other random numbers: {}\n\
        \x20         seven tenths of the fibers: {}\n\
        \x20         (patterns found again, of the patterns found there; patterns with a cosine of 0.9 or more count as equal)\n",
        evidence.halves[0],
        evidence.halves[1],
        list(&evidence.seeds),
        list(&evidence.samples)
    );
    text
}

/// The table of what each further pattern explains of the other half of the fibers.
fn ladder_words(evidence: &Evidence, count: usize) -> String {
    let mut text =
        String::from("patterns  explain of the other half               the other half agrees on\n");
    let mut before = 0.0;
    let top = evidence.held_out.iter().map(|rung| rung.energy).fold(1e-9, f64::max);
    // The first rungs, those around the number taken, and the last one are shown.
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
        let _ = writeln!(text, "{count:>8}  <- taken; each half alone has fewer patterns");
    }
    text
}
