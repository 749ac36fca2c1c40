//! `noodl-lab recover`: plants a factorization, learns it back, and measures the errors.

use std::io::{self, StdoutLock, Write};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use anyhow::anyhow;
use clap::ValueEnum;
use serde::Serialize;
use tensornoodl::parallel::Traffic;
use tensornoodl::recovery::{self, Outcome, Recovery};
use tensornoodl::synthetic::{Plan, Planted, Values};
use tensornoodl::{Error, Learner, Params, Passes, Rule, Samples, Solver, Team};
use tensornoodl_cli::memory;
use tensornoodl_cli::planted::values;
use tensornoodl_cli::plot::{self, Curve};
use tensornoodl_cli::program::{NotConverged, wrong};
use tensornoodl_cli::progress::{Goal, Progress};

const EXAMPLES: &str = "\
Examples:
  noodl-lab recover                                       the stream of noodl demo, to an error of 1e-10
  noodl-lab recover --rule paper --eta-a 40               with the paper's step
  noodl-lab recover --noise 0.1 --max-steps 60            noise, compared with least squares with the true codes
  noodl-lab recover --start data                          from nothing: no A(0), no number of patterns, no scale
  noodl-lab recover --row-values subgaussian:0.5 --json   codes that are not +-1, a JSON line for each tensor

The summary, and the last line of --json, are about the last tensor, factorized with the final dictionary.";

/// Plant a factorization, learn it back from a stream of tensors, and measure the errors.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct Args {
    /// Number of features n, the length of a pattern.
    #[arg(long, default_value_t = 300, value_name = "N", help_heading = "What is planted")]
    features: usize,
    /// Number of patterns, m.
    #[arg(long, default_value_t = 150, value_name = "M", help_heading = "What is planted")]
    patterns: usize,
    /// Rows of each tensor, J.
    #[arg(long, default_value_t = 100, help_heading = "What is planted")]
    rows: usize,
    /// Cols of each tensor, K.
    #[arg(long, default_value_t = 100, help_heading = "What is planted")]
    cols: usize,
    /// Probability that an entry of the row factor B is not zero, above 0 and at most 1.
    #[arg(long, default_value_t = 0.05, help_heading = "What is planted")]
    alpha: f64,
    /// Probability that an entry of the col factor C is not zero, above 0 and at most 1.
    #[arg(long, default_value_t = 0.05, help_heading = "What is planted")]
    beta: f64,
    /// Distribution of the values of B: rademacher (+-1), or subgaussian:C with magnitudes of at least C.
    #[arg(long, default_value = "rademacher", value_name = "LAW", help_heading = "What is planted")]
    row_values: Law,
    /// Distribution of the values of C: rademacher (+-1), or subgaussian:C with magnitudes of at least C.
    #[arg(long, default_value = "rademacher", value_name = "LAW", help_heading = "What is planted")]
    col_values: Law,
    /// Expected length (Euclidean norm) of the Gaussian noise of each fiber; a pattern has length 1.
    #[arg(long, default_value_t = 0.0, help_heading = "What is planted")]
    noise: f64,
    /// Factor that all values are multiplied by, including noise.
    #[arg(long, default_value_t = 1.0, help_heading = "What is planted")]
    scale: f64,
    /// Number of patterns that are absent before tensor --late-step; these are the last ones.
    #[arg(long, default_value_t = 0, value_name = "N", help_heading = "What is planted")]
    late: usize,
    /// Number of the tensor at which the late patterns appear, from 1.
    #[arg(long, default_value_t = 1, value_name = "STEP", help_heading = "What is planted")]
    late_step: u64,
    /// Seed of all random draws.
    #[arg(long, default_value_t = 42, help_heading = "What is planted")]
    seed: u64,
    /// Start near the true dictionary (near), or without a dictionary (data): the patterns, their number and all
    /// parameters are then found in the data.
    #[arg(long, value_enum, default_value_t = StartFrom::Near, help_heading = "Method")]
    start: StartFrom,
    /// Distance of each column of A(0) from the true column, at least 0 and below 2 [default: 2/ln n, at most 1].
    #[arg(long, value_name = "DISTANCE", help_heading = "Method")]
    start_distance: Option<f64>,
    /// Update rule of the dictionary: the adaptive step, or the paper's step [default: adaptive; paper with --eta-a].
    #[arg(long, value_enum, help_heading = "Method")]
    rule: Option<UpdateRule>,
    /// The former name of --rule.
    #[arg(long, hide = true)]
    step: Option<String>,
    /// Step size of the paper's step, above 0 [default: 40, the paper's for 150 and 300 patterns].
    #[arg(long, help_heading = "Method")]
    eta_a: Option<f64>,
    /// Solver for the codes: direct computes the limit of iterative hard thresholding (IHT), iht iterates.
    #[arg(long, value_enum, default_value_t = CodeSolver::Direct, help_heading = "Method")]
    solver: CodeSolver,
    /// Passes over each tensor: a number, or auto for as many as reduce the error.
    #[arg(long, default_value = "1", value_name = "N|auto", help_heading = "Method")]
    passes: PassCount,
    /// Fibers to learn from: all, or the independent ones at row = col, as in the theory.
    #[arg(long, value_enum, default_value_t = SampleSet::All, help_heading = "Method")]
    samples: SampleSet,
    /// Smallest magnitude of a true code [default: what --row-values, --col-values and --scale imply]. With --start
    /// data, in units of the smallest code found.
    #[arg(long, help_heading = "Method")]
    code_floor: Option<f64>,
    /// Step size of IHT.
    #[arg(long, default_value_t = Params::default().eta_x, help_heading = "Method")]
    eta_x: f64,
    /// Threshold of IHT [default: 0.1 times --scale]. With --start data, in units of the smallest code found.
    #[arg(long, help_heading = "Method")]
    tau: Option<f64>,
    /// Maximum number of iterations of IHT.
    #[arg(long, default_value_t = Params::default().iht_steps, value_name = "N", help_heading = "Method")]
    iht_steps: usize,
    /// IHT stops when the relative change is at most this; with 0 it makes all iterations.
    #[arg(long, default_value = "1e-14", value_name = "TOLERANCE", help_heading = "Method")]
    code_tolerance: f64,
    /// Share of the past that the adaptive rule forgets with every tensor, at least 0 and below 1; for patterns that
    /// drift.
    #[arg(long, default_value_t = 0.0, value_name = "SHARE", help_heading = "Method")]
    forgetting: f64,
    /// Stop when the relative error of A is at most this; at least 0 and below 1.
    #[arg(long, default_value = "1e-10", help_heading = "Run")]
    tolerance: f64,
    /// Stop after this many tensors.
    #[arg(long, default_value_t = 1000, value_name = "N", help_heading = "Run")]
    max_steps: u64,
    /// Number of threads, at least 1 [default: all cores]. Results do not depend on it.
    #[arg(long, value_name = "N", help_heading = "Run")]
    pub(crate) threads: Option<usize>,
    /// Write a JSON object for each tensor and one for the outcome.
    #[arg(long, help_heading = "Run")]
    json: bool,
    /// Exit with code 4 if the tolerance is not reached.
    #[arg(long, help_heading = "Run")]
    strict: bool,
    /// Show no progress: no bar on a terminal, and no JSON lines on stderr elsewhere.
    #[arg(long, short, help_heading = "Run")]
    quiet: bool,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum StartFrom {
    Near,
    Data,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum UpdateRule {
    Adaptive,
    Paper,
}

#[derive(Clone, Copy, ValueEnum)]
enum CodeSolver {
    Direct,
    Iht,
}

#[derive(Clone, Copy, ValueEnum)]
enum SampleSet {
    All,
    Independent,
}

#[derive(Clone, Copy)]
struct PassCount(Passes);

impl FromStr for PassCount {
    type Err = String;
    fn from_str(text: &str) -> Result<PassCount, String> {
        match (text, text.parse()) {
            ("auto", _) => Ok(PassCount(Passes::Auto)),
            (_, Ok(passes)) => Ok(PassCount(Passes::Fixed(passes))),
            _ => Err("it must be a number or auto".into()),
        }
    }
}

#[derive(Clone, Copy)]
struct Law(Values);

impl FromStr for Law {
    type Err = String;
    fn from_str(text: &str) -> Result<Law, String> {
        values(text).map(Law)
    }
}

impl Args {
    fn plan(&self) -> Plan {
        Plan {
            features: self.features,
            patterns: self.patterns,
            rows: self.rows,
            cols: self.cols,
            alpha: self.alpha,
            beta: self.beta,
            row_values: self.row_values.0,
            col_values: self.col_values.0,
            noise: self.noise,
            scale: self.scale,
            late: self.late,
            late_step: self.late_step,
            seed: self.seed,
        }
    }

    fn params(&self) -> Result<Params, Error> {
        let rule = match (self.rule, self.eta_a) {
            (Some(UpdateRule::Paper), None) => Rule::Paper { eta_a: 40.0 },
            (Some(UpdateRule::Paper) | None, Some(eta_a)) => Rule::Paper { eta_a },
            (Some(UpdateRule::Adaptive) | None, None) => Rule::Adaptive,
            (Some(UpdateRule::Adaptive), Some(eta_a)) => {
                return Err(wrong("eta_a", eta_a, "left out with --rule adaptive, which has no step size"));
            }
        };
        Ok(Params {
            rule,
            solver: match self.solver {
                CodeSolver::Direct => Solver::Direct,
                CodeSolver::Iht => Solver::Iht,
            },
            samples: match self.samples {
                SampleSet::All => Samples::All,
                SampleSet::Independent => Samples::Independent,
            },
            passes: self.passes.0,
            code_floor: self.code_floor.unwrap_or(match self.start {
                StartFrom::Near => self.scale * self.row_values.0.floor() * self.col_values.0.floor(),
                StartFrom::Data => Params::default().code_floor,
            }),
            eta_x: self.eta_x,
            tau: self.tau.unwrap_or(match self.start {
                StartFrom::Near => self.scale * Params::default().tau,
                StartFrom::Data => Params::default().tau,
            }),
            iht_steps: self.iht_steps,
            code_tolerance: self.code_tolerance,
            forgetting: self.forgetting,
        })
    }

    /// Checks the options that the core does not know of.
    fn check(&self) -> Result<(), Error> {
        if let Some(step) = &self.step {
            return Err(wrong("step", step, "left out: the update rule is --rule paper"));
        }
        if !(self.tolerance >= 0.0 && self.tolerance < 1.0) {
            return Err(wrong("tolerance", self.tolerance, "at least 0 and below 1"));
        }
        if let (StartFrom::Data, Some(distance)) = (self.start, self.start_distance) {
            return Err(wrong("start_distance", distance, "left out with --start data"));
        }
        if self.max_steps == 0 {
            return Err(wrong("max_steps", 0, "at least 1"));
        }
        Ok(())
    }
}

pub(crate) fn run(args: &Args, team: &Arc<dyn Team>) -> anyhow::Result<()> {
    args.check()?;
    let begun = Instant::now();
    let (recovery, start_error) = args.recovery(team)?;
    let mut run = Run { args, team, recovery, errors: vec![start_error], search_seconds: None };
    let mut stdout = io::stdout().lock();
    run.learn(&mut stdout)?;
    let outcome = run.recovery.outcome()?;
    let converged = outcome.error_a <= args.tolerance;
    if team.rank() == 0 {
        run.report(stdout, &outcome, converged, begun.elapsed())?;
    }
    if args.strict && !converged { Err(anyhow!(NotConverged)) } else { Ok(()) }
}

impl Args {
    /// Plants the stream. Returns the recovery before its first tensor, and the error of A at its start.
    fn recovery(&self, team: &Arc<dyn Team>) -> anyhow::Result<(Recovery, f64)> {
        let plan = self.plan();
        plan.check()?;
        // Each rank plants its share of a tensor.
        let share = Plan { cols: plan.cols.div_ceil(team.size()), ..plan.clone() };
        memory::check_all(&**team, share.bytes())?;
        let planted = Planted::new(plan)?;
        let distance = self.start_distance.unwrap_or_else(|| planted.paper_distance());
        let (mut recovery, start_error) = match self.start {
            StartFrom::Near => (Recovery::new(planted, distance, self.params()?)?, distance),
            // Without patterns, the relative error of A is 1.
            StartFrom::Data => (Recovery::from_nothing(planted, self.params()?)?, 1.0),
        };
        recovery.join(Arc::clone(team));
        Ok((recovery, start_error))
    }
}

/// A run, from its first tensor to its report.
struct Run<'a> {
    args: &'a Args,
    team: &'a Arc<dyn Team>,
    recovery: Recovery,
    /// Relative errors of A: at the start, and after each tensor.
    errors: Vec<f64>,
    /// Seconds of the first search for patterns, with `--start data`.
    search_seconds: Option<f64>,
}

impl Run<'_> {
    /// Learns from one tensor after the other until the tolerance or the maximum number of steps is reached. At least
    /// one tensor is learned: without it there are no codes and no factors to measure.
    fn learn(&mut self, stdout: &mut StdoutLock<'_>) -> anyhow::Result<()> {
        let (args, speaks) = (self.args, self.team.rank() == 0);
        let goal = Goal { tolerance: args.tolerance, max_steps: args.max_steps };
        let mut progress = Progress::new(goal, args.quiet || args.json || !speaks);
        while self.errors.len() == 1
            || self.errors.len() as u64 <= args.max_steps
                && self.errors.last().is_none_or(|error| *error > args.tolerance)
        {
            let before = self.team.traffic();
            let now = self.recovery.advance()?;
            let traffic = self.team.traffic() - before;
            self.errors.push(now.error_a);
            if args.start == StartFrom::Data {
                self.search_seconds.get_or_insert(now.step.times.search.as_secs_f64());
            }
            if args.json && speaks {
                let traffic = (self.team.size() > 1).then_some(traffic);
                let record = StepRecord::new(&now, self.recovery.learner(), traffic);
                serde_json::to_writer(&mut *stdout, &record)?;
                writeln!(stdout)?;
            }
            progress.step(&now);
        }
        progress.finish();
        Ok(())
    }

    /// Writes the outcome: one JSON object, or a plot and a summary.
    fn report(
        &self,
        mut stdout: StdoutLock<'static>,
        outcome: &Outcome,
        converged: bool,
        time: Duration,
    ) -> anyhow::Result<()> {
        if self.args.json {
            let record = OutcomeRecord::new(outcome, time, converged, self.search_seconds);
            serde_json::to_writer(&mut stdout, &record)?;
            writeln!(stdout)?;
            return Ok(());
        }
        let mut stdout = anstream::AutoStream::auto(stdout);
        let style = Style::new().fg_color(Some(AnsiColor::Cyan.into())).bold();
        let curve = Curve { label: "error of A", glyph: '●', style, errors: &self.errors };
        let summary = summary(outcome, self.recovery.learner(), converged, time, self.search_seconds);
        write!(stdout, "{}\n{summary}", plot::convergence(&[curve]))?;
        Ok(())
    }
}

/// Returns the outcome in words.
fn summary(
    outcome: &Outcome,
    learner: &Learner,
    converged: bool,
    total: Duration,
    search_seconds: Option<f64>,
) -> String {
    let verdict = if converged { "recovered" } else { "stopped" };
    let support = if outcome.support { "signs and supports exact" } else { "signs or supports differ" };
    let coverage = match outcome.coverage_step {
        Some(step) => format!("every pattern had appeared by tensor {step}"),
        None => "not every pattern has appeared yet".into(),
    };
    let oracle = match outcome.oracle_error_a {
        Some(oracle) => format!(
            "  oracle        {oracle:.1e}   least squares with the true codes; ours is {:.3} times as large\n",
            outcome.error_a / oracle
        ),
        None => String::new(),
    };
    let patterns = match search_seconds {
        Some(seconds) => format!(
            "  patterns      {} found of {} seen in two fibers or more, {} spurious; {seconds:.2} s for the first search\n",
            outcome.pattern_counts.found, outcome.pattern_counts.seen, outcome.pattern_counts.spurious
        ),
        None => String::new(),
    };
    let mut open = String::new();
    if learner.unexplained_fibers() > 0 {
        open += &format!(
            "  unexplained   {} fibers that no pattern explains are kept until similar fibers come\n",
            learner.unexplained_fibers()
        );
    }
    if !learner.overdue().is_empty() {
        open += &format!(
            "  overdue       {} patterns have not appeared for a long time; they are kept\n",
            learner.overdue().len()
        );
    }
    format!(
        "{verdict} after {} tensors; {coverage}\n\
         {patterns}{open}\
        \x20 dictionary A  {:.1e}   relative error\n\
         {oracle}\
        \x20 codes X       {:.1e}   {support}, {:.2} patterns in a fiber\n\
        \x20 row factor B  {:.1e}   up to scale\n\
        \x20 col factor C  {:.1e}   up to scale\n\
        \x20 time          {:.2} s, of which {:.2} s learning\n",
        outcome.steps,
        outcome.error_a,
        outcome.error_x,
        outcome.mean_code_size,
        outcome.error_b,
        outcome.error_c,
        total.as_secs_f64(),
        outcome.learn_time.as_secs_f64(),
    )
}

/// One tensor, as JSON. Users read these names and this order.
#[derive(Serialize)]
struct StepRecord {
    r#type: &'static str,
    step: u64,
    error_a: f64,
    error_x: f64,
    support: bool,
    fit: f64,
    change: f64,
    fibers: usize,
    fibers_used: usize,
    mean_code_size: f64,
    patterns_active: usize,
    patterns: usize,
    patterns_found: usize,
    patterns_seen: usize,
    spurious: usize,
    waiting: usize,
    overdue: usize,
    direct: usize,
    iht: usize,
    unsettled: usize,
    passes: usize,
    encode_seconds: f64,
    update_seconds: f64,
    search_seconds: f64,
    /// With several ranks: the exchanges of this rank and the bytes it sent, including those that measure the errors.
    #[serde(skip_serializing_if = "Option::is_none")]
    exchanges: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sent_bytes: Option<u64>,
}

impl StepRecord {
    fn new(progress: &recovery::Progress, learner: &Learner, traffic: Option<Traffic>) -> StepRecord {
        let step = &progress.step;
        StepRecord {
            r#type: "step",
            step: step.step,
            error_a: progress.error_a,
            error_x: progress.error_x,
            support: progress.support,
            fit: step.fit,
            change: step.change,
            fibers: step.fibers,
            fibers_used: step.fibers_used,
            mean_code_size: step.mean_code_size,
            patterns_active: step.activity.iter().filter(|count| **count > 0).count(),
            patterns: step.activity.len(),
            patterns_found: progress.pattern_counts.found,
            patterns_seen: progress.pattern_counts.seen,
            spurious: progress.pattern_counts.spurious,
            waiting: learner.unexplained_fibers(),
            overdue: learner.overdue().len(),
            direct: step.solver_counts.direct,
            iht: step.solver_counts.iht,
            unsettled: step.solver_counts.unconverged,
            passes: step.passes,
            encode_seconds: step.times.encode.as_secs_f64(),
            update_seconds: step.times.update.as_secs_f64(),
            search_seconds: step.times.search.as_secs_f64(),
            exchanges: traffic.map(|traffic| traffic.exchanges),
            sent_bytes: traffic.map(|traffic| traffic.bytes),
        }
    }
}

/// The outcome, as JSON. Users read these names and this order.
#[derive(Serialize)]
struct OutcomeRecord {
    r#type: &'static str,
    steps: u64,
    error_a: f64,
    error_x: f64,
    support: bool,
    error_b: f64,
    error_c: f64,
    support_b: bool,
    support_c: bool,
    /// What the learner expects `error_a` to be. Null where it has no error bars, for example without noise.
    expected_error_a: Option<f64>,
    /// Share of the codes of the last tensor that are certain. Null with the paper's step.
    certain_codes: Option<f64>,
    coverage_step: Option<u64>,
    mean_code_size: f64,
    patterns_found: usize,
    patterns_seen: usize,
    spurious: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    init_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    oracle_error_a: Option<f64>,
    seconds: f64,
    learn_seconds: f64,
    converged: bool,
}

impl OutcomeRecord {
    fn new(outcome: &Outcome, seconds: Duration, converged: bool, search: Option<f64>) -> OutcomeRecord {
        OutcomeRecord {
            r#type: "outcome",
            steps: outcome.steps,
            error_a: outcome.error_a,
            error_x: outcome.error_x,
            support: outcome.support,
            error_b: outcome.error_b,
            error_c: outcome.error_c,
            support_b: outcome.supports_b_c.0,
            support_c: outcome.supports_b_c.1,
            expected_error_a: outcome.expected_error_a,
            certain_codes: outcome.certain_codes,
            coverage_step: outcome.coverage_step,
            mean_code_size: outcome.mean_code_size,
            patterns_found: outcome.pattern_counts.found,
            patterns_seen: outcome.pattern_counts.seen,
            spurious: outcome.pattern_counts.spurious,
            init_seconds: search,
            oracle_error_a: outcome.oracle_error_a,
            seconds: seconds.as_secs_f64(),
            learn_seconds: outcome.learn_time.as_secs_f64(),
            converged,
        }
    }
}
