//! `noodl learn`: learns a model from a table of events.

mod begin;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use anyhow::anyhow;
use indicatif::{ProgressBar, ProgressStyle};
use tensornoodl::discover::search_bytes;
use tensornoodl::parallel::agree;
use tensornoodl::{DiscoverParams, Error, Params, Passes, Polish, Rule, Stop, Team, Tensor};
use tensornoodl_cli::memory;
use tensornoodl_cli::model::{write_note, write_verdict};
use tensornoodl_cli::output::{json, note, plain, stdout};
use tensornoodl_cli::program::{FewerPatterns, NothingExplained, wrong};
use tensornoodl_cli::progress::Spinner;
use tensornoodl_cli::signals::Signals;
use tensornoodl_cli::table::TableArgs;
use tensornoodl_data::{
    Error as DataError, Events, Lock, Model, ModelChoice, Query, RecipeChoice, error_text, files, table,
};
use tensornoodl_report::PageLabels;

const EXAMPLES: &str = "\
Examples:
  noodl learn mail.csv --feature 'month(time)' --row from --col to --recipe log2,scale,center -o mail.safetensors
  noodl learn shots.csv --feature 'grid(x,y,12x10)' --row player --col opponent --step 'week(date)' -o shots.safetensors
  noodl learn new.csv --feature 'grid(x,y,12x10)' --row player --col opponent --step 'week(date)' \\
    --start-model shots.safetensors -o new.safetensors
  noodl learn tensor.npy -o tensor.safetensors     an array n x J x K: features, rows, cols
  mpirun -n 4 noodl learn mail.csv ...             four ranks, each with a share of the table (docs/cluster.md)

Without --step the table is one tensor, and the learner passes over it until the patterns no longer improve. Ctrl-C, SIGTERM and SIGHUP \
end the run and write the model of all finished steps; --resume continues the run and gives the same bits as a run that was not interrupted.";

/// Learn the patterns of a table or an array, and who takes part in them.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct Args {
    #[command(flatten)]
    table: TableArgs,
    /// Actions on the values of each tensor, in order: log2, sqrt, presence, scale, center, with commas
    /// between them; '' for none; or auto: counts are damped by sqrt, log2 or presence if that predicts better where
    /// events are, and other values stay as they are.
    #[arg(long, default_value = "auto", value_name = "ACTIONS|auto")]
    recipe: RecipeChoice,
    /// The model file to write.
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Also write an HTML page about the model.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Leave out of the page all labels of rows and cols that it does not show, and with them its search for similar rows.
    #[arg(long, requires = "report")]
    report_shown_only: bool,
    /// The model: counts for cells that count events, exact for the model of the paper, which needs values with Gaussian
    /// noise, or auto: counts if the cells count events, otherwise exact.
    #[arg(long, default_value = "auto", value_name = "auto|counts|exact")]
    model: ModelChoice,
    /// Number of patterns, at least 1, or auto: all patterns that are clearer than chance. If there are fewer than N, the
    /// model is written all the same, and the exit code is 5.
    #[arg(long, default_value = "auto", value_name = "N|auto")]
    patterns: Count,
    /// Start from the patterns of this model, which must have been learned with the same features and recipe.
    #[arg(long, value_name = "MODEL", conflicts_with = "patterns")]
    start_model: Option<PathBuf>,
    /// Passes over each tensor: a number, or auto for as many as reduce the error [default: 1; without --step auto,
    /// or 100 with --eta-a].
    #[arg(long, value_name = "N|auto")]
    passes: Option<Count>,
    /// Use the paper's update rule with this step size, instead of the adaptive rule. The number of patterns then
    /// stays as it is after the first tensor, and --tau and --code-floor are in the units of the data.
    #[arg(long)]
    eta_a: Option<f64>,
    /// Step size of iterative hard thresholding.
    #[arg(long, default_value_t = Params::default().eta_x)]
    eta_x: f64,
    /// Threshold of iterative hard thresholding: the smallest code that is kept, in units of the smallest code of the
    /// data.
    #[arg(long, default_value_t = Params::default().tau)]
    tau: f64,
    /// The paper's C, in units of the smallest code of the data: codes start where |A'y| is at least C/2.
    #[arg(long, default_value_t = Params::default().code_floor)]
    code_floor: f64,
    /// Share of the past that the adaptive rule forgets with every tensor, at least 0 and below 1; for patterns that
    /// drift.
    #[arg(long, default_value_t = 0.0, value_name = "SHARE")]
    forgetting: f64,
    /// Stop along a stream as soon as all patterns are expected to be this close to the true ones, relative to their length:
    /// above 0 and below 1. It needs --step and noise. If the steps end before, the program says so, and the exit code
    /// is 0.
    #[arg(long, value_name = "ERROR", conflicts_with = "eta_a")]
    until: Option<f64>,
    /// Learn again with K other seeds and from two random halves of the places, and say whether the patterns are the same.
    /// It takes K + 2 times as long.
    #[arg(long, value_name = "K", conflicts_with = "start_model")]
    stability: Option<usize>,
    /// After learning, fit patterns, rows and cols together to the table, none of them negative: for one tensor in
    /// which similar patterns occur in the same fibers, such as spectra of mixtures. Negative values count as 0.
    /// With --model counts, values need not be whole numbers then.
    #[arg(long)]
    polish: bool,
    /// Also write the model after every STEPS steps, at least 1.
    #[arg(long, value_name = "STEPS")]
    checkpoint_every: Option<usize>,
    /// Continue the run whose model is in the output file. If there is no such file, begin a new run.
    #[arg(long)]
    resume: bool,
    /// Seed of the search for patterns.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Number of threads, at least 1 [default: all cores]. Results do not depend on it.
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Write a JSON object for each step.
    #[arg(long)]
    json: bool,
    /// Show no progress.
    #[arg(long, short)]
    quiet: bool,
}

/// A number above 0; None stands for auto.
#[derive(Clone, Copy, PartialEq)]
struct Count(Option<usize>);

impl FromStr for Count {
    type Err = String;
    fn from_str(text: &str) -> Result<Count, String> {
        match (text, text.parse()) {
            ("auto", _) => Ok(Count(None)),
            (_, Ok(count)) if count > 0 => Ok(Count(Some(count))),
            _ => Err("it must be a number above 0 or auto".into()),
        }
    }
}

impl Args {
    fn params(&self, events: &Events) -> Result<Params, Error> {
        let usual = match (&events.steps, self.eta_a) {
            (Some(_), _) => Count(Some(1)),
            (None, None) => Count(None),
            (None, Some(_)) => Count(Some(100)),
        };
        // A single tensor gets as many passes as help, because no other tensors follow.
        let auto = if events.steps.is_some() { Passes::Auto } else { Passes::Exhaust };
        let params = Params {
            eta_x: self.eta_x,
            tau: self.tau,
            code_floor: self.code_floor,
            forgetting: self.forgetting,
            rule: self.eta_a.map_or(Rule::Adaptive, |eta_a| Rule::Paper { eta_a }),
            passes: self.passes.unwrap_or(usual).0.map_or(auto, Passes::Fixed),
            ..Params::default()
        };
        params.check().map(|()| params)
    }

    /// The parameters of the search. `of_counts` is the number of patterns of the counts before a recipe; a stream
    /// goes on looking for patterns.
    fn search(&self, events: &Events, of_counts: Option<usize>, seed: u64, stop: Stop) -> DiscoverParams {
        let patterns = self.patterns.0.or(of_counts.filter(|_| events.steps.is_none()));
        DiscoverParams {
            min_patterns: patterns.unwrap_or(0),
            max_patterns: patterns,
            seed,
            stop,
            ..DiscoverParams::default()
        }
    }
}

pub(crate) fn run(args: &Args, team: &Arc<dyn Team>) -> anyhow::Result<()> {
    // The model records the arguments, not the path of the program.
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let command = typed(std::iter::once("noodl".into()).chain(words));
    let speaks = team.rank() == 0;
    let model = learn(args, team, &command, |step, model| {
        if args.json && speaks {
            let (label, record) = (&model.card.steps[step], &model.card.history[step]);
            let mut line = serde_json::json!({ "type": "step", "label": label, "record": record });
            if let Some(fall) = model.fall(step) {
                line["fall"] = serde_json::json!({ "explained": fall.explained, "usual": fall.usual });
            }
            let errors = model.errors();
            if errors.iter().any(Option::is_some) {
                line["errors"] = serde_json::json!(errors);
            }
            writeln!(stdout(), "{}", json(&line))?;
        }
        Ok(())
    })?;
    let shortfall = args.patterns.0.and_then(|asked| model.shortfall(asked));
    if args.json && speaks {
        write_records(&mut stdout(), &model)?;
    }
    if let Some(until) = args.until.filter(|_| speaks) {
        write_until(&mut stdout(), &model, until, args.json)?;
    }
    if !args.json && speaks {
        let patterns = model.learner.dictionary().patterns();
        let last = model.card.history.last();
        let (fit, share) = last.map_or((f64::NAN, f64::NAN), |record| (record.fit, record.explained()));
        let (many, verb) = if patterns == 1 { ("", "explains") } else { ("s", "explain") };
        let what = if model.card.history.len() > 1 { "the last step" } else { "it" };
        writeln!(
            stdout(),
            "{patterns} pattern{many} in {} {verb} {:.1} % of {what} (relative error {fit:.3})\nwritten to {}",
            plain(&args.table.name()),
            100.0 * share,
            plain(&args.output.display().to_string())
        )?;
        write_verdict(&mut stdout(), &model)?;
    }
    // A single pattern of counts is the mean, which explains nothing; it may be what was asked for.
    let nothing = model.nothing().filter(|_| args.patterns.0 != Some(1));
    match (shortfall, nothing) {
        (Some(reason), _) => Err(FewerPatterns(reason).into()),
        (None, Some(reason)) => Err(NothingExplained(reason).into()),
        (None, None) => Ok(()),
    }
}

/// Writes what there is to say about the whole run as JSON: the stability, patterns that are not seen any more, and
/// warnings.
fn write_records(out: &mut impl Write, model: &Model) -> io::Result<()> {
    let evidence = model.evidence.as_ref();
    if let Some(stability) = evidence.and_then(|evidence| evidence.stability.as_ref()) {
        writeln!(out, "{}", serde_json::json!({ "type": "stability", "stability": stability }))?;
    }
    for unseen in model.unseen() {
        let since = unseen.step.map(|step| &model.card.steps[step]);
        let line = serde_json::json!({ "type": "unseen", "pattern": unseen.pattern + 1, "since": since });
        writeln!(out, "{}", json(&line))?;
    }
    for warning in model.warnings() {
        writeln!(out, "{}", json(&serde_json::json!({ "type": "warning", "warning": warning })))?;
    }
    Ok(())
}

/// Whether all patterns of a model are expected to be this close to the true ones.
fn is_sure(model: &Model, until: f64) -> bool {
    matches!(model.least_sure(), Some((_, Some(error))) if error <= until)
}

/// Writes whether `--until` was reached, and with which step; if not, how far the least sure pattern is from it.
fn write_until(out: &mut impl Write, model: &Model, until: f64, as_json: bool) -> io::Result<()> {
    let (learned, steps) = (model.card.history.len(), &model.card.steps);
    let (reached, least) = (is_sure(model, until), model.least_sure());
    let last = learned.checked_sub(1).map(|last| &steps[last]);
    if as_json {
        let (pattern, error) = least.map_or((None, None), |(pattern, error)| (Some(pattern + 1), error));
        let line = serde_json::json!({
            "type": "until", "until": until, "reached": reached, "step": last, "pattern": pattern, "error": error
        });
        return writeln!(out, "{}", json(&line));
    }
    let text = match least {
        Some((_, Some(error))) if reached => format!(
            "all patterns are expected to be within {until} of the true ones after step {}, number {learned} of {}; the \
             largest error is {}",
            last.map_or("", |last| last),
            steps.len(),
            error_text(error)
        ),
        Some((pattern, Some(error))) => format!(
            "--until {until} was not reached: pattern {} is expected to be {} away from the true one, {:.1} times as far",
            pattern + 1,
            error_text(error),
            error / until
        ),
        Some((pattern, None)) => format!(
            "--until {until} was not reached: pattern {} has no error bar, which takes noise and four steps that show the \
             pattern",
            pattern + 1
        ),
        None => format!("--until {until} was not reached: there is no pattern"),
    };
    writeln!(out, "{}", plain(&text))
}

/// Returns a command as one types it in a shell, with quotes where they are needed.
pub(crate) fn typed(words: impl IntoIterator<Item = String>) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_+./,:=@%".contains(c);
    let quoted = |word: String| match word.chars().all(plain) && !word.is_empty() {
        true => word,
        false => format!("'{}'", word.replace('\'', r"'\''")),
    };
    words.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// Learns from a table and writes all files; `each` is called after every step, with the number of the step from 0.
///
/// # Errors
/// If an option is wrong, a file cannot be read or written, no pattern is found, or the run is interrupted.
pub(crate) fn learn(
    args: &Args,
    team: &Arc<dyn Team>,
    command: &str,
    each: impl FnMut(usize, &Model) -> io::Result<()>,
) -> anyhow::Result<Model> {
    let writes = team.rank() == 0;
    let quiet = args.quiet || args.json || !writes;
    let signals = Signals::watch(&args.output, team.size() == 1)?;
    signals.lock(|| check(args, team))?;
    let run = Run { args, team, writes, quiet, signals: &signals };
    let stop = signals.stop().clone();
    let (mut events, query, start) = run.read()?;
    if args.polish && events.steps.is_some() {
        let rule = "left out with --step: rows and cols of a stream change from step to step";
        return Err(wrong("polish", "given", rule).into());
    }
    if let Some(until) = args.until.filter(|_| events.steps.is_none()) {
        let rule = "left out without --step: a single tensor does not tell how sure its patterns are";
        return Err(wrong("until", until, rule).into());
    }
    // Memory for a tensor and for its copy after the recipe, for the search, which has fibers of all ranks, and for the labels
    // in the model, which are copied twice when it is written.
    let fibers = events.fibers() * team.size();
    let bytes =
        2.0 * events.bytes() + search_bytes(events.shape().features, fibers) + 3.0 * events.label_bytes();
    if writes {
        args.table.note_stretch(&events, bytes);
    }
    memory::check_all(&**team, bytes)?;
    let mut model = if args.resume && exists(&**team, &args.output) {
        resumed(&**team, args, &events, &query)?
    } else {
        if let (Some(path), Some(start)) = (&args.start_model, &start) {
            run.align(&mut events, start, path)?;
        }
        let kind = run.choose_model(&mut events, &query, start.as_ref())?;
        let chosen = run.choose_recipe(&events, kind, start.as_ref(), &stop)?;
        let learner = run.first_patterns(&events, &chosen, kind, stop.clone())?;
        let table = args.table.name();
        let mut model = Model::new(learner, &events, chosen.recipe, &table, query, command, args.seed);
        model.evidence = chosen.patterns.map(|patterns| patterns.1);
        model
    };
    // A run that began with another model has left out features that this model does not know, and has said so.
    if model.card.features != events.features.names {
        events.align(&model.card.features);
    }
    model.learner.set_stop(stop.clone());
    model.learner.join(Arc::clone(team));
    run.steps(&mut model, &events, each)?;
    run.save_early(&model)?;
    if args.polish {
        run.polish(&mut model, &events)?;
        run.save_early(&model)?;
    }
    let measured = args.stability.map(|seeds| run.measure_stability(&mut model, &events, seeds, &stop));
    run.save(&model)?;
    measured.transpose()?;
    if let Some(path) = args.report.as_ref().filter(|_| writes) {
        let labels = if args.report_shown_only { PageLabels::Shown } else { PageLabels::All };
        let page = tensornoodl_report::html_with(&model, labels)?;
        signals.write(path, || files::write(path, page))?;
    }
    Ok(model)
}

/// Checks files and options before any work, and locks the model file on the rank that writes it.
fn check(args: &Args, team: &Arc<dyn Team>) -> anyhow::Result<Option<Lock>> {
    let outputs: Vec<&Path> = args.report.iter().chain([&args.output]).map(PathBuf::as_path).collect();
    let inputs = args.table.inputs()?;
    let mut inputs: Vec<&Path> = inputs.iter().chain(&args.start_model).map(PathBuf::as_path).collect();
    inputs.push(Path::new(files::STDOUT));
    files::apart(&inputs, &outputs)?;
    if args.checkpoint_every == Some(0) {
        return Err(wrong("checkpoint_every", 0, "at least 1").into());
    }
    if args.stability == Some(0) {
        return Err(wrong("stability", 0, "at least 1").into());
    }
    if let Some(until) = args.until.filter(|until| !(*until > 0.0 && *until < 1.0)) {
        return Err(wrong("until", until, "above 0 and below 1").into());
    }
    let lock = || {
        outputs.iter().try_for_each(|path| files::check(path))?;
        Lock::take(&args.output)
    };
    Ok(agree(&**team, if team.rank() == 0 { lock() } else { Ok(None) })?)
}

/// One run of `learn`.
struct Run<'a> {
    args: &'a Args,
    team: &'a Arc<dyn Team>,
    /// Whether this rank writes files and messages: the first rank does so for all.
    writes: bool,
    quiet: bool,
    signals: &'a Signals,
}

impl Run<'_> {
    /// Reads this rank's share of the table, and the model to start from. The returned query has the bounds of all
    /// grids.
    fn read(&self) -> anyhow::Result<(Events, Query, Option<Model>)> {
        let args = self.args;
        let spinner = Spinner::new("reading", self.quiet);
        let start = args.start_model.as_deref().map(|path| load(&**self.team, path)).transpose()?;
        let mut query = args.table.query()?;
        if let (Some(path), Some(start)) = (&args.start_model, &start) {
            if args.recipe != RecipeChoice::Auto && args.recipe.given() != start.card.recipe {
                return Err(anyhow!(
                    "{} was learned with the recipe '{}'; its patterns fit no other recipe, so give this one with --recipe",
                    path.display(),
                    start.card.recipe
                ));
            }
            query.feature = query.feature.with_bounds_of(&start.card.query.feature);
        }
        let events = table::read_share(args.table.path(), query.clone(), self.team)?;
        args.params(&events)?;
        let query = events.resolve(query);
        spinner.finish();
        Ok((events, query, start))
    }

    /// Fits patterns, rows and cols together to the table, and says how well. A model whose patterns are shared by
    /// several groups stays as it is.
    fn polish(&self, model: &mut Model, events: &Events) -> anyhow::Result<()> {
        let tensor = model.card.recipe.apply_in(&**self.team, agree(&**self.team, events.tensor(0))?)?;
        let spinner = Spinner::new("polishing", self.quiet);
        let polished = model.polish(&tensor);
        spinner.finish();
        let polish = match polished {
            Err(DataError::Tensor(error @ Error::SeveralGroups { .. })) => {
                if self.writes {
                    note(&format!("not polished: {error}"));
                }
                return Ok(());
            }
            polished => polished?,
        };
        let explained = 1.0 - polish.fit * polish.fit;
        if self.args.json && self.writes {
            let Polish { sweeps, negative, .. } = polish;
            let line = serde_json::json!({
                "type": "polish", "sweeps": sweeps, "explained": explained, "negative": negative
            });
            writeln!(stdout(), "{line}")?;
        } else if !self.quiet {
            let (sweeps, share) = (polish.sweeps, 100.0 * explained);
            note(&format!(
                "polished in {sweeps} sweeps; patterns, rows and cols together explain {share:.2} % of the table"
            ));
            if polish.negative > 0.0 {
                let negative = 100.0 * polish.negative;
                note(&format!("{negative:.1} % of the values are negative; they count as 0"));
            }
        }
        Ok(())
    }

    /// Learns from all steps that the model has not learned from yet, or until it is as sure as `--until` says, with
    /// checkpoints.
    fn steps(
        &self,
        model: &mut Model,
        events: &Events,
        mut each: impl FnMut(usize, &Model) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        let (first, steps) = (model.card.history.len(), events.steps());
        let bar = self.bar(steps);
        if first == steps && !self.quiet {
            let output = self.args.output.display();
            note(&format!("{output} has learned from all steps already; there is nothing to do"));
        }
        let mut late = false;
        for step in first..steps {
            if self.args.until.is_some_and(|until| is_sure(model, until)) {
                break;
            }
            let tensor = agree(&**self.team, events.tensor(step))?;
            let tensor = model.card.recipe.apply_in(&**self.team, tensor)?;
            match model.learn(&tensor) {
                Err(DataError::Tensor(Error::Stopped)) => {
                    // If no step was learned, an existing model is not overwritten.
                    if step > first {
                        self.save(model)?;
                    }
                    return Err(self.interrupted(step));
                }
                learned => learned?,
            };
            self.signals.learned();
            let record = &model.card.history[step];
            let label = &model.card.steps[step];
            bar.set_position(step as u64 + 1);
            let label = plain(label);
            bar.set_message(format!("{label}: {} patterns, fit {:.3}", record.patterns, record.fit));
            each(step, model)?;
            if late || self.args.checkpoint_every.is_some_and(|every| (step + 1) % every == 0) {
                late = !self.checkpoint(model, late);
            }
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// Learns again with other seeds and from halves of the places, and adds the result to the evidence of the model.
    fn measure_stability(
        &self,
        model: &mut Model,
        events: &Events,
        seeds: usize,
        stop: &Stop,
    ) -> anyhow::Result<()> {
        let spinner = Spinner::new("learning again", self.quiet);
        let (kind, recipe, steps) =
            (model.learner.kind(), model.card.recipe.clone(), model.card.history.len());
        let mut done = 0.0;
        let begin = |seed: u64, of_counts: Option<usize>, tensor: &Tensor<'_>| {
            spinner.done(done / (seeds + 2) as f64);
            done += 1.0;
            let search = self.args.search(events, of_counts, seed, stop.clone());
            let mut learner = self.args.begin(self.team, events, kind, tensor, search)?;
            learner.join(Arc::clone(self.team));
            Ok(learner)
        };
        let tensor = |step: usize| recipe.apply_in(&**self.team, agree(&**self.team, events.tensor(step))?);
        model.measure_stability(seeds, self.args.polish, begin, tensor).map_err(|error| match error {
            DataError::Tensor(Error::Stopped) => self.interrupted(steps),
            error => error.into(),
        })?;
        spinner.finish();
        Ok(())
    }

    /// Returns the progress bar, which is hidden if the run is quiet or has one step.
    fn bar(&self, steps: usize) -> ProgressBar {
        let template = "{bar:32.cyan/dim} {pos} of {len} steps  {msg}  {elapsed}, left {eta}";
        let hidden = self.quiet || steps == 1;
        let bar = if hidden { ProgressBar::hidden() } else { ProgressBar::new(steps as u64) };
        bar.with_style(
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
        )
    }

    /// Writes the model on the first rank. An error there is an error on all ranks.
    fn save(&self, model: &Model) -> anyhow::Result<()> {
        self.signals.save(model.card.history.len(), || {
            let saved = if self.writes { model.save(&self.args.output) } else { Ok(()) };
            Ok(agree(&**self.team, saved)?)
        })
    }

    /// Writes the model before the work goes on. A pipe takes only the final model.
    fn save_early(&self, model: &Model) -> anyhow::Result<()> {
        if files::is_special(&self.args.output) { Ok(()) } else { self.save(model) }
    }

    /// Writes the model in the middle of a run, and returns whether that was possible. If not, the run goes on, and the
    /// next step tries again. `late` says that the step before has failed already; this is told once.
    fn checkpoint(&self, model: &Model, late: bool) -> bool {
        let saved = self.save_early(model);
        if let Err(error) = &saved
            && self.writes
            && !late
        {
            note(&format!("no checkpoint: {error}; the run goes on and tries again after the next step"));
        }
        saved.is_ok()
    }

    fn interrupted(&self, step: usize) -> anyhow::Error {
        self.signals.interrupted(step).into()
    }
}

/// Reads a model on the first rank and sends it to all ranks.
fn load(team: &dyn Team, path: &Path) -> anyhow::Result<Model> {
    let read = || fs::read(path).map_err(|error| DataError::Read { file: path.display().to_string(), error });
    let own = agree(team, if team.rank() == 0 { read() } else { Ok(Vec::new()) })?;
    let bytes = team.gather(own).swap_remove(0);
    let model = Model::from_bytes(&bytes, &path.display().to_string())?;
    if team.rank() == 0 {
        write_note(&model, path);
    }
    Ok(model)
}

/// Whether the file exists for the first rank.
fn exists(team: &dyn Team, path: &Path) -> bool {
    let mut exists = [i8::from(team.rank() == 0 && path.exists())];
    team.max(&mut exists);
    exists[0] > 0
}

/// Reads the model in the output file and checks that it was learned from this table in this way.
fn resumed(team: &dyn Team, args: &Args, events: &Events, query: &Query) -> anyhow::Result<Model> {
    let path = &args.output;
    let mut model = load(team, path)?;
    let card = &model.card;
    let steps = events.steps.as_ref().map_or(vec!["all".to_owned()], |steps| steps.names.clone());
    let same = card.query == *query
        && (args.recipe == RecipeChoice::Auto || card.recipe == args.recipe.given())
        && *model.learner.params() == args.params(events)?
        && card.rows == events.rows.names
        && card.cols == events.cols.names
        && card.seed == args.seed
        && steps.starts_with(&card.steps[..card.history.len()])
        // New steps have new rows, so the counts are compared only without them.
        && (card.steps != steps || card.tally == events.tally);
    let unknown = events.features.names.iter().find(|name| !card.features.contains(name));
    if let Some(name) = unknown.filter(|_| same && args.start_model.is_none()) {
        return Err(anyhow!(
            "the table has the feature {name:?} now, which {} does not know; leave --resume out to begin a new run",
            path.display()
        ));
    }
    if same {
        model.card.steps = steps;
        Ok(model)
    } else {
        Err(anyhow!(
            "{} was learned from another table or in another way; leave --resume out to begin a new run",
            path.display()
        ))
    }
}
