//! `noodl learn`: from a table of events to a model.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::anyhow;
use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::{SIGINT, SIGTERM};
use tensornoodl::discover::search_bytes;
use tensornoodl::parallel::agree;
use tensornoodl::{DiscoverParams, Error, Learner, Params, Passes, Rule, Stop, Team, Tensor};
use tensornoodl_cli::memory;
use tensornoodl_cli::program::Interrupted;
use tensornoodl_cli::progress::Spinner;
use tensornoodl_cli::table::TableArgs;
use tensornoodl_data::{Error as DataError, Events, Model, Query, Recipe, files, table};

const EXAMPLES: &str = "\
Examples:
  noodl learn mail.csv --feature 'month(time)' --row from --col to --recipe log2,scale,center -o mail.safetensors
  noodl learn shots.csv --feature 'grid(x,y,12x10)' --row player --col opponent --step 'week(date)' -o shots.safetensors
  noodl learn new.csv --feature 'grid(x,y,12x10)' --row player --col opponent --step 'week(date)' \\
    --start-model shots.safetensors -o new.safetensors
  noodl learn tensor.npy -o tensor.safetensors     an array n x J x K: features, rows, cols
  mpirun -n 4 noodl learn mail.csv ...             four ranks, each with a share (built with --features mpi; docs/cluster.md)

Without --step there is one tensor, and passes are made over it until it has nothing more to tell. Ctrl-C writes the model first; --resume goes on with it, and
ends in the same bits as if nothing had happened.";

/// Learn the patterns of a table of events, and who takes part in them.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct Args {
    #[command(flatten)]
    table: TableArgs,
    /// What is done to each tensor first: log2, scale, center, with commas between.
    #[arg(long, default_value = "")]
    recipe: String,
    /// The model file to write.
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Write a page about it, too.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// How many patterns: a number, or auto to let the data speak.
    #[arg(long, default_value = "auto")]
    patterns: Count,
    /// Go on from the patterns of this model.
    #[arg(long, value_name = "MODEL", conflicts_with = "patterns")]
    start_model: Option<PathBuf>,
    /// Passes over each tensor: a number, or auto, as long as they help [default: 1; without --step auto, or 100 for the
    /// paper's step].
    #[arg(long)]
    passes: Option<Count>,
    /// Use the paper's step with this step size instead of the adaptive one; no patterns are found or lost on the way, and
    /// tau and the code floor are in the units of the data.
    #[arg(long)]
    eta_a: Option<f64>,
    /// Step size of iterative hard thresholding.
    #[arg(long, default_value_t = Params::default().eta_x)]
    eta_x: f64,
    /// Smallest code that is kept, in units of the smallest codes of the data.
    #[arg(long, default_value_t = Params::default().tau)]
    tau: f64,
    /// The paper's C: codes start from scores of at least half of it; units as for tau.
    #[arg(long, default_value_t = Params::default().code_floor)]
    code_floor: f64,
    /// What is forgotten with every tensor, for patterns that drift.
    #[arg(long, default_value_t = 0.0)]
    forgetting: f64,
    /// Write the model after every so many steps, too.
    #[arg(long, value_name = "STEPS")]
    checkpoint_every: Option<usize>,
    /// Go on with the model that is there.
    #[arg(long)]
    resume: bool,
    /// Seed of the search for patterns.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Number of threads, at least 1 [default: all cores]. Results do not depend on it.
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// A JSON line for each step, on standard output.
    #[arg(long)]
    json: bool,
    /// Show no progress.
    #[arg(long, short)]
    quiet: bool,
}

/// A number, or auto.
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
        // One tensor is all there is.
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

    fn learner(
        &self,
        team: &Arc<dyn Team>,
        events: &Events,
        tensor: &Tensor<'_>,
        stop: Stop,
    ) -> anyhow::Result<Learner> {
        let params = self.params(events)?;
        if let Some(path) = &self.start_model {
            let start = load(&**team, path)?;
            // The paper's step has no state to go on with.
            return match params.rule {
                Rule::Adaptive => {
                    let mut learner = start.learner;
                    learner.set_params(params)?;
                    Ok(learner)
                }
                Rule::Paper { .. } => Ok(Learner::new(start.learner.dictionary().clone(), params)?),
            };
        }
        let Count(patterns) = self.patterns;
        let grow = DiscoverParams {
            min_patterns: patterns.unwrap_or(0),
            max_patterns: patterns,
            seed: self.seed,
            stop,
            ..DiscoverParams::default()
        };
        Learner::from_tensor(Arc::clone(team), tensor, params, grow, events.steps.is_some()).map_err(|error| match error {
            Error::NoPattern => anyhow!(
                "no pattern of {} is clearer than chance in most of five searches; --patterns N takes the N clearest",
                self.table.name()
            ),
            error => error.into(),
        })
    }
}

pub(crate) fn run(args: &Args, team: &Arc<dyn Team>) -> anyhow::Result<()> {
    // The program may stand anywhere; what it was told counts.
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let command = typed(std::iter::once("noodl".into()).chain(words));
    let speaks = team.rank() == 0;
    let model = learn(args, team, &command, |step, model| {
        if args.json && speaks {
            let (label, record) = (&model.card.steps[step], &model.card.history[step]);
            let line = serde_json::json!({ "type": "step", "label": label, "record": record });
            writeln!(io::stdout().lock(), "{line}")?;
        }
        Ok(())
    })?;
    if !args.json && speaks {
        let patterns = model.learner.dictionary().patterns();
        let fit = model.card.history.last().map_or(f64::NAN, |record| record.fit);
        let (many, verb) = if patterns == 1 { ("", "explains") } else { ("s", "explain") };
        let what = if model.card.history.len() > 1 { "the last step" } else { "it" };
        writeln!(
            io::stdout().lock(),
            "{patterns} pattern{many} in {} {verb} {:.1} % of {what} (relative error {fit:.3})\nwritten to {}",
            args.table.name(),
            100.0 * (1.0 - fit * fit),
            args.output.display()
        )?;
    }
    Ok(())
}

/// A command as one types it: what a shell would not take as it is stands in quotes.
pub(crate) fn typed(words: impl IntoIterator<Item = String>) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_+./,:=@%".contains(c);
    let quoted = |word: String| match word.chars().all(plain) && !word.is_empty() {
        true => word,
        false => format!("'{}'", word.replace('\'', r"'\''")),
    };
    words.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// Learns and writes all files; `each` is called after every step, with its number from 0.
pub(crate) fn learn(
    args: &Args,
    team: &Arc<dyn Team>,
    command: &str,
    mut each: impl FnMut(usize, &Model) -> io::Result<()>,
) -> anyhow::Result<Model> {
    let outputs: Vec<&Path> = args.report.iter().chain([&args.output]).map(PathBuf::as_path).collect();
    files::apart(&[args.table.path()], &outputs)?;
    // The first rank writes, for all.
    let writes = team.rank() == 0;
    let check = || outputs.iter().try_for_each(|path| files::check(path));
    agree(&**team, if writes { check() } else { Ok(()) })?;
    if args.checkpoint_every == Some(0) {
        let (name, value, rule) = ("checkpoint_every", "0".into(), "at least 1".into());
        return Err(Error::Parameter { name, value, rule }.into());
    }
    let recipe: Recipe = args.recipe.parse()?;
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // A second one ends it at once.
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&flag))?;
        signal_hook::flag::register(signal, Arc::clone(&flag))?;
    }
    let stop = Stop::from(flag);
    let quiet = args.quiet || args.json || !writes;
    let spinner = Spinner::new("reading", quiet);
    let start = args.start_model.as_deref().map(|path| load(&**team, path)).transpose()?;
    let mut query = args.table.query()?;
    if let (Some(path), Some(start)) = (&args.start_model, &start) {
        if start.card.recipe != recipe {
            return Err(anyhow!(
                "{} was learned with the recipe {}; its patterns are of no use for another",
                path.display(),
                if start.card.recipe.to_string().is_empty() {
                    "''".into()
                } else {
                    start.card.recipe.to_string()
                }
            ));
        }
        query.feature = query.feature.with_bounds_of(&start.card.query.feature);
    }
    let mut events = table::read_share(args.table.path(), query.clone(), team)?;
    let query = events.resolve(query);
    spinner.finish();
    // The tensor, and what is made of it by the recipe.
    memory::check_all(&**team, 2.0 * events.bytes() + search_bytes(events.shape().features))?;
    let mut model = if args.resume && exists(&**team, &args.output) {
        resumed(&**team, args, &events, &query, &recipe)?
    } else {
        if let (Some(path), Some(start)) = (&args.start_model, &start) {
            align(&**team, &mut events, start, path)?;
        }
        let spinner = Spinner::new("looking for patterns", quiet);
        let tensor = recipe.apply_in(&**team, agree(&**team, events.tensor(0))?)?;
        let learner = args.learner(team, &events, &tensor, stop.clone());
        let learner = learner.map_err(|error| match error.downcast_ref() {
            Some(Error::Stopped) => Interrupted { step: 0, output: args.output.clone() }.into(),
            _ => error,
        })?;
        spinner.finish();
        Model::new(learner, &events, recipe, &args.table.name(), query, command, args.seed)
    };
    if model.card.features != events.features.names {
        let names = model.card.features.clone();
        events.align(&names);
    }
    let steps = events.steps();
    let style =
        ProgressStyle::with_template("{bar:32.cyan/dim} {pos} of {len} steps  {msg}  {elapsed}, left {eta}");
    let bar = if quiet || steps == 1 { ProgressBar::hidden() } else { ProgressBar::new(steps as u64) };
    let bar = bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let first = model.card.history.len();
    if first == steps && !quiet {
        let output = args.output.display();
        writeln!(io::stderr(), "noodl: {output} has learned from all steps already, nothing is left to do")?;
    }
    model.learner.set_stop(stop);
    model.learner.join(Arc::clone(team));
    let save = |model: &Model| agree(&**team, if writes { model.save(&args.output) } else { Ok(()) });
    for step in first..steps {
        let tensor = model.card.recipe.apply_in(&**team, agree(&**team, events.tensor(step))?)?;
        match model.learn(&tensor) {
            Err(tensornoodl_data::Error::Tensor(Error::Stopped)) => {
                // Nothing new is not worth the model that may be there.
                if step > first {
                    save(&model)?;
                }
                return Err(Interrupted { step, output: args.output.clone() }.into());
            }
            learned => learned?,
        };
        let record = &model.card.history[step];
        bar.set_position(step as u64 + 1);
        bar.set_message(format!(
            "{}: {} patterns, fit {:.3}",
            model.card.steps[step], record.patterns, record.fit
        ));
        each(step, &model)?;
        if args.checkpoint_every.is_some_and(|every| (step + 1) % every == 0) {
            save(&model)?;
        }
    }
    bar.finish_and_clear();
    save(&model)?;
    if let Some(path) = args.report.as_ref().filter(|_| writes) {
        files::write(path, tensornoodl_report::html(&model)?)?;
    }
    Ok(model)
}

/// A file as the first rank has it, for all.
fn load(team: &dyn Team, path: &Path) -> anyhow::Result<Model> {
    let read = || fs::read(path).map_err(|error| DataError::Read { file: path.display().to_string(), error });
    let own = agree(team, if team.rank() == 0 { read() } else { Ok(Vec::new()) })?;
    let bytes = team.gather(own).swap_remove(0);
    Ok(Model::from_bytes(&bytes, &path.display().to_string())?)
}

/// Whether it has one.
fn exists(team: &dyn Team, path: &Path) -> bool {
    let mut exists = [i8::from(team.rank() == 0 && path.exists())];
    team.max(&mut exists);
    exists[0] > 0
}

/// The model that is there, if it is of the same table and query.
fn resumed(
    team: &dyn Team,
    args: &Args,
    events: &Events,
    query: &Query,
    recipe: &Recipe,
) -> anyhow::Result<Model> {
    let path = &args.output;
    let mut model = load(team, path)?;
    let card = &model.card;
    let steps = events.steps.as_ref().map_or(vec!["all".to_owned()], |steps| steps.names.clone());
    let same = card.query == *query
        && card.recipe == *recipe
        && *model.learner.params() == args.params(events)?
        && card.rows == events.rows.names
        && card.cols == events.cols.names
        && card.seed == args.seed
        && steps.starts_with(&card.steps[..card.history.len()])
        // With steps that are new there are rows that are new.
        && (card.steps != steps || card.tally == events.tally);
    if same {
        model.card.steps = steps;
        Ok(model)
    } else {
        Err(anyhow!(
            "{} was learned from another table or in another way; leave --resume out to begin anew",
            path.display()
        ))
    }
}

/// Takes the features of the model to start from.
fn align(team: &dyn Team, events: &mut Events, start: &Model, path: &Path) -> anyhow::Result<()> {
    let mut counts = [events.cells() as i64, 0];
    counts[1] = events.align(&start.card.features) as i64;
    team.sum(&mut counts);
    let [cells, lost] = counts;
    if lost > 0 && lost < cells && team.rank() == 0 {
        writeln!(
            io::stderr(),
            "noodl: {lost} of {cells} cells have features that {} does not know; they are left out",
            path.display()
        )?;
    }
    if lost == cells {
        return Err(anyhow!(
            "{} knows none of the features of this table: it has {}, ...",
            path.display(),
            start.card.features.first().map_or("", String::as_str)
        ));
    }
    Ok(())
}
