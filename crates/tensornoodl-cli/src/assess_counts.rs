//! What `check` does with one tensor of counts: verdicts on what the model needs, and the ladder of numbers of patterns.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use serde_json::json;
use tensornoodl::assumptions::Verdict;
use tensornoodl::count_assumptions::{self, CountReport};
use tensornoodl::{DiscoverParams, Learner, Params, Passes};
use tensornoodl_data::{Evidence, Rung, files};

use crate::assess::{Options, Record, Source, csv, write_assumptions};
use crate::ladder;
use crate::plot::sparkline;
use crate::program::wrong;
use crate::progress::Spinner;

/// At most this many patterns are printed, a line for each.
const MOST_SHOWN: usize = 20;

impl Options {
    /// Assesses a tensor of counts, and prints and writes the results.
    ///
    /// # Errors
    /// If an option belongs to the exact model, the search fails, or a result cannot be written.
    pub fn run_counts(&self, source: &Source) -> anyhow::Result<()> {
        if self.min_length.0.is_some() {
            return Err(wrong(
                "min_length",
                "given",
                "left out with the counts model, which uses all places",
            )
            .into());
        }
        let spinner = Spinner::new("looking for patterns, several times", self.is_quiet());
        let begun = Instant::now();
        let report = count_assumptions::check(&source.tensor, &self.discover_params())?;
        let time = begun.elapsed();
        let evidence = if self.evidence { Some(self.ladder(source, &report)?) } else { None };
        spinner.finish();
        let dictionary = report.learner.dictionary();
        if let Some(path) = &self.patterns_out {
            files::write(path, csv(dictionary))?;
        }
        if let (Some(path), Some(evidence)) = (&self.picture, &evidence) {
            files::write(path, tensornoodl_report::ladder(evidence, dictionary.patterns(), &source.name))?;
        }
        let mut stdout = io::stdout().lock();
        if self.json {
            return self.write_records(&mut stdout, source, &report, evidence.as_ref(), time);
        }
        write_head(&mut anstream::AutoStream::auto(&mut stdout), source, &report)?;
        if self.reports_patterns() {
            self.write_patterns(&mut stdout, &report, time)?;
        }
        if let Some(evidence) = &evidence {
            write!(stdout, "\n{}", ladder::words(evidence, dictionary.patterns(), self.patterns.is_some()))?;
        }
        for path in self.outputs() {
            writeln!(stdout, "written   {}", path.display())?;
        }
        Ok(())
    }

    /// Returns the ladder of the number of patterns. With a given number of patterns, the search for their number is made
    /// here.
    fn ladder(&self, source: &Source, report: &CountReport) -> anyhow::Result<Evidence> {
        let mut rungs: Vec<Rung> = report.learner.ladder().iter().map(Rung::from).collect();
        if rungs.is_empty() {
            let params = Params { passes: Passes::Fixed(1), ..Params::default() };
            let discover = DiscoverParams { min_patterns: 0, max_patterns: None, ..self.discover_params() };
            let mut learner = Learner::for_counts(source.tensor.shape().features, params, discover)?;
            learner.learn(&source.tensor)?;
            rungs = learner.ladder().iter().map(Rung::from).collect();
        }
        Ok(Evidence { rungs, stability: None })
    }

    fn write_records(
        &self,
        out: &mut impl Write,
        source: &Source,
        report: &CountReport,
        evidence: Option<&Evidence>,
        time: Duration,
    ) -> anyhow::Result<()> {
        for line in &report.assumptions {
            writeln!(out, "{}", serde_json::to_string(&Record::new(line))?)?;
        }
        if self.reports_patterns() {
            let (shape, patterns) = (source.tensor.shape(), report.learner.dictionary().patterns());
            let record = json!({
                "type": "patterns",
                "model": "counts",
                "features": shape.features,
                "rows": shape.rows,
                "cols": shape.cols,
                "fibers": source.tensor.fibers(),
                "patterns": patterns,
                "seconds": time.as_secs_f64(),
                "explained": report.explained,
                "evidence": evidence.map(|evidence| ladder::record(evidence, patterns, self.patterns.is_some())),
            });
            writeln!(out, "{record}")?;
        }
        Ok(())
    }

    fn write_patterns(&self, out: &mut impl Write, report: &CountReport, time: Duration) -> io::Result<()> {
        let dictionary = report.learner.dictionary();
        let count = dictionary.patterns();
        let asked = match self.patterns {
            Some(asked) if asked > count => format!("; {asked} were asked for"),
            Some(_) => ", as asked".into(),
            None => String::new(),
        };
        writeln!(out, "\nfound     {count} patterns in {:.2} s{asked}", time.as_secs_f64())?;
        for pattern in 0..count.min(MOST_SHOWN) {
            writeln!(out, "  {:>4}  {}", pattern + 1, sparkline(dictionary.pattern(pattern), 60))?;
        }
        if count > MOST_SHOWN {
            writeln!(out, "   and {} more", count - MOST_SHOWN)?;
        }
        Ok(())
    }
}

/// Prints the verdicts.
fn write_head(out: &mut impl Write, source: &Source, report: &CountReport) -> io::Result<()> {
    writeln!(out, "{}: {}, {} fibers", source.name, source.tensor.shape(), source.tensor.fibers())?;
    let sentence = match report.assumptions.iter().map(|line| line.verdict).max() {
        Some(Verdict::Good) => "The data fits the counts model.",
        Some(Verdict::Fair) => "The data fits the counts model roughly.",
        _ => "The data does not fit the counts model in all respects; see what to do.",
    };
    writeln!(out, "{sentence}\n")?;
    write_assumptions(out, &report.assumptions)
}
