//! `noodl-lab recover`: plant a factorization, learn it back, say how near it came.

use std::io::{self, Write};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use anyhow::anyhow;
use clap::ValueEnum;
use serde::Serialize;
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
  noodl-lab recover                                       the demo's stream, to 1e-10
  noodl-lab recover --rule paper --eta-a 40               with the paper's step
  noodl-lab recover --noise 0.1 --max-steps 60            noise, compared with one who knows the codes
  noodl-lab recover --start data                          from nothing: no A(0), no number of patterns, no scale
  noodl-lab recover --row-values subgaussian:0.5 --json   codes that are not +-1, a line for each tensor

The last line of --json, and the summary, are of the last tensor factorized with the final dictionary.";

/// Plant a factorization, learn it back from a stream of tensors, and measure the errors.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct Args {
    /// Length of a pattern, n.
    #[arg(long, default_value_t = 300, help_heading = "What is planted")]
    features: usize,
    /// Number of patterns, m.
    #[arg(long, default_value_t = 150, help_heading = "What is planted")]
    patterns: usize,
    /// Rows of each tensor, J.
    #[arg(long, default_value_t = 100, help_heading = "What is planted")]
    rows: usize,
    /// Cols of each tensor, K.
    #[arg(long, default_value_t = 100, help_heading = "What is planted")]
    cols: usize,
    /// Probability that an entry of the row factor B is not zero.
    #[arg(long, default_value_t = 0.05, help_heading = "What is planted")]
    alpha: f64,
    /// Probability that an entry of the col factor C is not zero.
    #[arg(long, default_value_t = 0.05, help_heading = "What is planted")]
    beta: f64,
    /// Values of B: rademacher (+-1), or subgaussian:C with magnitudes of at least C.
    #[arg(long, default_value = "rademacher", value_name = "LAW", help_heading = "What is planted")]
    row_values: Law,
    /// Values of C: rademacher (+-1), or subgaussian:C with magnitudes of at least C.
    #[arg(long, default_value = "rademacher", value_name = "LAW", help_heading = "What is planted")]
    col_values: Law,
    /// Expected length of the Gaussian noise added to each fiber.
    #[arg(long, default_value_t = 0.0, help_heading = "What is planted")]
    noise: f64,
    /// Factor that everything is multiplied by, noise too.
    #[arg(long, default_value_t = 1.0, help_heading = "What is planted")]
    scale: f64,
    /// Number of patterns, the last ones, that are absent at first.
    #[arg(long, default_value_t = 0, help_heading = "What is planted")]
    late: usize,
    /// Tensor at which they appear.
    #[arg(long, default_value_t = 1, value_name = "STEP", help_heading = "What is planted")]
    late_step: u64,
    /// Seed of all random draws.
    #[arg(long, default_value_t = 42, help_heading = "What is planted")]
    seed: u64,
    /// Start from a dictionary near the true one, or from nothing: patterns, their number and all parameters
    /// are found in the data.
    #[arg(long, value_enum, default_value_t = From::Near, help_heading = "Method")]
    start: From,
    /// Distance of each column of A(0) from the true one [default: 2/ln n, at most 1].
    #[arg(long, value_name = "DISTANCE", help_heading = "Method")]
    start_distance: Option<f64>,

    /// How the dictionary moves.
    #[arg(long, value_enum, default_value_t = UpdateRule::Adaptive, help_heading = "Method")]
    rule: UpdateRule,
    /// Step size of the paper's step [default: 40, the paper's for 150 and 300 patterns].
    #[arg(long, help_heading = "Method")]
    eta_a: Option<f64>,
    /// How the codes are found.
    #[arg(long, value_enum, default_value_t = CodeSolver::Direct, help_heading = "Method")]
    solver: CodeSolver,
    /// Passes over each tensor: a number, or auto for as many as help.
    #[arg(long, default_value = "1", value_name = "N|auto", help_heading = "Method")]
    passes: PassCount,
    /// Fibers to learn from: all, or the independent ones at row = col as in the theory.
    #[arg(long, value_enum, default_value_t = SampleSet::All, help_heading = "Method")]
    samples: SampleSet,
    /// Smallest magnitude of a true code [default: what the laws of the values imply]. With --start data, in units
    /// of what is found.
    #[arg(long, help_heading = "Method")]
    code_floor: Option<f64>,
    /// Step size of iterative hard thresholding.
    #[arg(long, default_value_t = Params::default().eta_x, help_heading = "Method")]
    eta_x: f64,
    /// Threshold of iterative hard thresholding [default: 0.1 times --scale]. With --start data, in units of the
    /// smallest code found.
    #[arg(long, help_heading = "Method")]
    tau: Option<f64>,
    /// Most steps of iterative hard thresholding.
    #[arg(long, default_value_t = Params::default().iht_steps, help_heading = "Method")]
    iht_steps: usize,
    /// Iterative hard thresholding stops at a relative change of at most this; with 0 it makes all steps.
    #[arg(long, default_value = "1e-14", value_name = "TOLERANCE", help_heading = "Method")]
    code_tolerance: f64,

    /// Share of what was learned that every tensor makes the adaptive step forget, for patterns that drift.
    #[arg(long, default_value_t = 0.0, help_heading = "Method")]
    forgetting: f64,

    /// Stop once the relative error of A is at most this.
    #[arg(long, default_value = "1e-10", help_heading = "Run")]
    tolerance: f64,
    /// Stop after this many tensors.
    #[arg(long, default_value_t = 1000, help_heading = "Run")]
    max_steps: u64,
    /// Number of threads, at least 1 [default: all cores]. Results do not depend on it.
    #[arg(long, value_name = "N", help_heading = "Run")]
    pub(crate) threads: Option<usize>,
    /// Write a JSON object for each tensor and one for the outcome.
    #[arg(long, help_heading = "Run")]
    json: bool,
    /// Exit with 4 if the tolerance is not reached.
    #[arg(long, help_heading = "Run")]
    strict: bool,
    /// Show no progress: no bar, and no JSON lines where stderr is not a terminal.
    #[arg(long, short, help_heading = "Run")]
    quiet: bool,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum From {
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
            (UpdateRule::Paper, eta_a) => Rule::Paper { eta_a: eta_a.unwrap_or(40.0) },
            (UpdateRule::Adaptive, None) => Rule::Adaptive,
            (UpdateRule::Adaptive, Some(eta_a)) => {
                return Err(wrong("eta_a", eta_a, "left out unless --rule paper is given"));
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
                From::Near => self.scale * self.row_values.0.floor() * self.col_values.0.floor(),
                From::Data => Params::default().code_floor,
            }),
            eta_x: self.eta_x,
            tau: self.tau.unwrap_or(match self.start {
                From::Near => self.scale * Params::default().tau,
                From::Data => Params::default().tau,
            }),
            iht_steps: self.iht_steps,
            code_tolerance: self.code_tolerance,
            forgetting: self.forgetting,
        })
    }

    /// What the core does not know of.
    fn check(&self) -> Result<(), Error> {
        if !(self.tolerance >= 0.0 && self.tolerance < 1.0) {
            return Err(wrong("tolerance", self.tolerance, "at least 0 and below 1"));
        }
        if let (From::Data, Some(distance)) = (self.start, self.start_distance) {
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
    let plan = args.plan();
    plan.check()?;
    // Of the tensor, this rank makes its share.
    memory::check_all(&**team, Plan { cols: plan.cols.div_ceil(team.size()), ..plan.clone() }.bytes())?;
    let planted = Planted::new(plan)?;
    let distance = args.start_distance.unwrap_or_else(|| planted.paper_distance());
    let (mut recovery, start_error) = match args.start {
        From::Near => (Recovery::new(planted, distance, args.params()?)?, distance),
        // Without patterns, all of A* is missing.
        From::Data => (Recovery::from_nothing(planted, args.params()?)?, 1.0),
    };

    recovery.join(Arc::clone(team));
    let speaks = team.rank() == 0;
    let goal = Goal { tolerance: args.tolerance, max_steps: args.max_steps };
    let mut progress = Progress::new(goal, args.quiet || args.json || !speaks);
    let mut errors = vec![start_error];
    let mut init_seconds = None;
    let mut stdout = io::stdout().lock();
    // At least one tensor: without it there are no codes and no factors to judge.
    while errors.len() == 1
        || errors.len() as u64 <= args.max_steps && errors.last().is_none_or(|error| *error > args.tolerance)
    {
        let before = team.traffic();
        let now = recovery.advance()?;
        let traffic = team.traffic() - before;
        errors.push(now.error_a);
        if args.start == From::Data {
            init_seconds.get_or_insert(now.step.search_time.as_secs_f64());
        }
        if args.json && speaks {
            let mut record = StepRecord::new(&now, recovery.learner());
            record.exchanges = (team.size() > 1).then_some(traffic.exchanges);
            record.sent_bytes = (team.size() > 1).then_some(traffic.bytes);
            serde_json::to_writer(&mut stdout, &record)?;
            writeln!(stdout)?;
        }
        progress.step(&now)?;
    }
    progress.finish();

    let outcome = recovery.outcome()?;
    let seconds = begun.elapsed();
    let converged = outcome.error_a <= args.tolerance;
    if !speaks {
        // The first rank speaks for all.
    } else if args.json {
        serde_json::to_writer(&mut stdout, &OutcomeRecord::new(&outcome, seconds, converged, init_seconds))?;
        writeln!(stdout)?;
    } else {
        let mut stdout = anstream::AutoStream::auto(stdout);
        let style = Style::new().fg_color(Some(AnsiColor::Cyan.into())).bold();
        let curve = Curve { label: "error of A", glyph: '●', style, errors: &errors };
        write!(
            stdout,
            "{}\n{}",
            plot::convergence(&[curve]),
            summary(&outcome, recovery.learner(), converged, seconds, init_seconds)
        )?;
    }
    if args.strict && !converged {
        return Err(anyhow!(NotConverged));
    }
    Ok(())
}

/// The outcome in words.
fn summary(
    outcome: &Outcome,
    learner: &Learner,
    converged: bool,
    total: Duration,
    init_seconds: Option<f64>,
) -> String {
    let verdict = if converged { "recovered" } else { "stopped" };
    let support = if outcome.support { "signs and supports exact" } else { "signs or supports differ" };
    let coverage = match outcome.coverage_step {
        Some(step) => format!("every pattern had appeared by tensor {step}"),
        None => "not every pattern has appeared yet".into(),
    };
    let oracle = match outcome.oracle_error_a {
        Some(oracle) => format!(
            "  oracle        {oracle:.1e}   least squares with the true codes; ours is {:.3} times that\n",
            outcome.error_a / oracle
        ),
        None => String::new(),
    };
    let census = match init_seconds {
        Some(seconds) => format!(
            "  patterns      {} found of {} seen in two fibers or more, {} spurious; {seconds:.2} s for the first search\n",
            outcome.pattern_counts.found, outcome.pattern_counts.seen, outcome.pattern_counts.spurious
        ),
        None => String::new(),
    };
    let mut open = String::new();
    if learner.unexplained_fibers() > 0 {
        open += &format!(
            "  unexplained   {} fibers that no pattern explains wait for others like them\n",
            learner.unexplained_fibers()
        );
    }
    if !learner.overdue().is_empty() {
        open += &format!(
            "  overdue       {} patterns have not been seen for long; they are kept\n",
            learner.overdue().len()
        );
    }
    format!(
        "{verdict} after {} tensors; {coverage}\n\
         {census}{open}\
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
    /// Of a team: exchanges of this rank, and bytes that it had for them, errors measured included.
    #[serde(skip_serializing_if = "Option::is_none")]
    exchanges: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sent_bytes: Option<u64>,
}

impl StepRecord {
    fn new(progress: &recovery::Progress, learner: &Learner) -> StepRecord {
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
            unsettled: step.solver_counts.unsettled,
            passes: step.passes,
            encode_seconds: step.encode_time.as_secs_f64(),
            update_seconds: step.update_time.as_secs_f64(),
            search_seconds: step.search_time.as_secs_f64(),
            exchanges: None,
            sent_bytes: None,
        }
    }
}

#[derive(Serialize)]
struct OutcomeRecord {
    r#type: &'static str,
    steps: u64,
    error_a: f64,
    error_x: f64,
    support: bool,
    error_b: f64,
    error_c: f64,
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
    fn new(outcome: &Outcome, seconds: Duration, converged: bool, init: Option<f64>) -> OutcomeRecord {
        OutcomeRecord {
            r#type: "outcome",
            steps: outcome.steps,
            error_a: outcome.error_a,
            error_x: outcome.error_x,
            support: outcome.support,
            error_b: outcome.error_b,
            error_c: outcome.error_c,
            coverage_step: outcome.coverage_step,
            mean_code_size: outcome.mean_code_size,
            patterns_found: outcome.pattern_counts.found,
            patterns_seen: outcome.pattern_counts.seen,
            spurious: outcome.pattern_counts.spurious,
            init_seconds: init,
            oracle_error_a: outcome.oracle_error_a,
            seconds: seconds.as_secs_f64(),
            learn_seconds: outcome.learn_time.as_secs_f64(),
            converged,
        }
    }
}
