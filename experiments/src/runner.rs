//! Many cells: each finished one is kept in a file of its own, so that a run that was killed goes on.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cell::{Cell, MethodName, Outcome, Recovered, run};

/// Cells, methods, and where their outcomes are kept.
#[derive(Debug, Clone)]
pub struct Work {
    /// The streams.
    pub cells: Vec<Cell>,
    /// The methods; TensorNOODL with the paper's step is always among them, for the number of tensors.
    pub methods: Vec<MethodName>,
    /// The folder.
    pub folder: PathBuf,
}

/// What happened during the work.
pub enum Event<'a> {
    /// So much of the work is done, from 0 to 1.
    Done(f64),
    /// One more outcome.
    Finished(&'a Outcome),
}

/// What can go wrong.
#[derive(Debug)]
pub enum Failure {
    /// A method refused.
    Method(tensornoodl::Error),
    /// A file cannot be read or written.
    File(PathBuf, io::Error),
    /// A file holds something else.
    Content(PathBuf, serde_json::Error),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Method(error) => error.fmt(f),
            Failure::File(path, error) => write!(f, "{}: {error}", path.display()),
            Failure::Content(path, error) => {
                write!(
                    f,
                    "{} does not hold an outcome: {error}; remove it to run its cell again",
                    path.display()
                )
            }
        }
    }
}

impl std::error::Error for Failure {}

impl Work {
    /// Outcomes that are there already, and all others, computed `jobs` at a time. An outcome is kept as soon as it is
    /// there.
    pub fn run(&self, jobs: usize, told: impl Fn(Event<'_>) + Sync) -> Result<Vec<Outcome>, Failure> {
        let kept = self.folder.join("cells");
        fs::create_dir_all(&kept).map_err(|error| Failure::File(kept.clone(), error))?;
        let methods = self.all_methods();
        let total: f64 = self.cells.iter().map(|cell| cost(*cell)).sum::<f64>() * methods.len() as f64;
        // Large ones first: the last to finish should be small.
        let mut cells = self.cells.clone();
        cells.sort_by(|a, b| cost(*b).total_cmp(&cost(*a)));
        let (queue, done) = (Mutex::new(cells.into_iter()), Mutex::new((0.0, Vec::new())));
        let work = || -> Result<(), Failure> {
            loop {
                let Some(cell) = queue.lock().ok().and_then(|mut queue| queue.next()) else { return Ok(()) };
                let mut steps = None;
                for &method in &methods {
                    let outcome = self.one(&kept, cell, method, steps)?;
                    steps = steps.or(Some(outcome.steps));
                    if let Ok(mut done) = done.lock() {
                        done.0 += cost(cell);
                        told(Event::Finished(&outcome));
                        told(Event::Done(done.0 / total));
                        done.1.push(outcome);
                    }
                }
            }
        };
        let threads = (rayon::current_num_threads() / jobs.max(1)).max(1);
        std::thread::scope(|scope| {
            let jobs: Vec<_> = (0..jobs.max(1))
                .map(|_| {
                    scope.spawn(|| match rayon::ThreadPoolBuilder::new().num_threads(threads).build() {
                        Ok(pool) => pool.install(work),
                        Err(error) => Err(Failure::File(PathBuf::from("threads"), io::Error::other(error))),
                    })
                })
                .collect();
            jobs.into_iter()
                .try_for_each(|job| job.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })?;
        let (_, outcomes) = done.into_inner().unwrap_or_default();
        Ok(outcomes)
    }

    /// Only the outcomes that are there already.
    pub fn kept(&self) -> Result<Vec<Outcome>, Failure> {
        let kept = self.folder.join("cells");
        let mut outcomes = Vec::new();
        for &cell in &self.cells {
            let paths = self.all_methods().into_iter().map(|method| path(&kept, cell, method));
            for path in paths.filter(|path| path.exists()) {
                outcomes.push(read(&path)?);
            }
        }
        Ok(outcomes)
    }

    /// TensorNOODL with the paper's step first.
    fn all_methods(&self) -> Vec<MethodName> {
        let asked = |method: &MethodName| *method == MethodName::Noodl || self.methods.contains(method);
        MethodName::ALL.into_iter().filter(asked).collect()
    }

    fn one(
        &self,
        kept: &Path,
        cell: Cell,
        method: MethodName,
        steps: Option<u64>,
    ) -> Result<Outcome, Failure> {
        let path = path(kept, cell, method);
        let steps = if method.is_noodl() { None } else { steps };
        keep(&path, || run(cell, method, steps, |_, _| ()))
    }
}

fn path(kept: &Path, cell: Cell, method: MethodName) -> PathBuf {
    let Cell { alpha, size, patterns, seed } = cell;
    kept.join(format!("{alpha}-{size}-{patterns}-{seed}-{}.json", method.name()))
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T, Failure> {
    let text = fs::read_to_string(path).map_err(|error| Failure::File(path.to_owned(), error))?;
    serde_json::from_str(&text).map_err(|error| Failure::Content(path.to_owned(), error))
}

/// What a file holds, or else what `work` gives, which is then kept there.
pub fn keep<T: Serialize + DeserializeOwned>(
    path: &Path,
    work: impl FnOnce() -> Result<T, tensornoodl::Error>,
) -> Result<T, Failure> {
    if path.exists() {
        return read(path);
    }
    let outcome = work().map_err(Failure::Method)?;
    let text = serde_json::to_string(&outcome).map_err(|error| Failure::Content(path.to_owned(), error))?;
    write(path, &text).map_err(|error| Failure::File(path.to_owned(), error))?;
    Ok(outcome)
}

/// Writes aside, then renames.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let aside = path.with_extension("part");
    fs::write(&aside, text)?;
    fs::rename(aside, path)
}

/// About how much work a cell is, in products of fibers and patterns.
fn cost(cell: Cell) -> f64 {
    let Cell { alpha, size, patterns, .. } = cell;
    let codes = alpha * alpha * patterns as f64;
    let fibers = (size * size) as f64 * (1.0 - (-codes).exp());
    (fibers + 1000.0) * patterns as f64
}

/// A line of a table: the means over the seeds of one cell and method.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// alpha = beta.
    pub alpha: f64,
    /// J = K.
    pub size: usize,
    /// m.
    pub patterns: usize,
    /// Which method.
    pub method: MethodName,
    /// How many seeds.
    pub seeds: usize,
    /// Mean number of tensors.
    pub steps: f64,
    /// The fewest and the most, over the seeds.
    pub steps_range: (u64, u64),
    /// Mean number of tensors until every pattern had appeared.
    pub coverage_step: Option<f64>,
    /// Mean relative error of A.
    pub error_a: f64,
    /// The least and the largest, over the seeds.
    pub error_a_range: (f64, f64),
    /// Mean relative error of the method's own codes.
    pub error_x: f64,
    /// Whether their signs and supports are exact for all seeds.
    pub support: bool,
    /// The same for Lasso codes with the best of ten lambdas, chosen by the truth.
    pub lasso_oracle_error_x: Option<f64>,
    /// Whether exact for all seeds.
    pub lasso_oracle_support: Option<bool>,
    /// The same for Lasso codes with a lambda chosen without the truth.
    pub lasso_honest_error_x: Option<f64>,
    /// Whether exact for all seeds.
    pub lasso_honest_support: Option<bool>,
    /// Mean time of one tensor.
    pub seconds_per_step: f64,
    /// The paper's numbers.
    pub paper_steps: Option<f64>,
    /// Its error of A.
    pub paper_error_a: Option<f64>,
    /// Its error of X.
    pub paper_error_x: Option<f64>,
}

/// Means over seeds, in the order of the paper's tables.
pub fn lines(outcomes: &[Outcome]) -> Vec<Line> {
    let paper = crate::table::paper();
    let mut keys = HashSet::new();
    let mut lines = Vec::new();
    for outcome in outcomes {
        let key = |outcome: &Outcome| {
            let Cell { alpha, size, patterns, .. } = outcome.cell;
            (alpha.to_bits(), size, patterns, outcome.method.name())
        };
        if !keys.insert(key(outcome)) {
            continue;
        }
        let same: Vec<&Outcome> = outcomes.iter().filter(|other| key(other) == key(outcome)).collect();
        let mean = |of: &dyn Fn(&Outcome) -> Option<f64>| {
            let values: Vec<f64> = same.iter().filter_map(|outcome| of(outcome)).collect();
            (values.len() == same.len()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        let all_exact = |of: &dyn Fn(&Outcome) -> Option<Recovered>| {
            of(outcome).map(|_| same.iter().all(|outcome| of(outcome).is_some_and(|codes| codes.support)))
        };
        let steps = same.iter().map(|outcome| outcome.steps);
        let errors = same.iter().map(|outcome| outcome.error_a);
        let Cell { alpha, size, patterns, .. } = outcome.cell;
        let row = paper.iter().find(|row| {
            (row.alpha, row.size, row.patterns) == (alpha, size, patterns)
                && Some(row.method) == outcome.method.in_paper()
        });
        lines.push(Line {
            alpha,
            size,
            patterns,
            method: outcome.method,
            seeds: same.len(),
            steps: mean(&|outcome| Some(outcome.steps as f64)).unwrap_or(0.0),
            steps_range: (steps.clone().min().unwrap_or(0), steps.max().unwrap_or(0)),
            coverage_step: mean(&|outcome| outcome.coverage_step.map(|step| step as f64)),
            error_a: mean(&|outcome| Some(outcome.error_a)).unwrap_or(f64::NAN),
            error_a_range: (errors.clone().fold(f64::INFINITY, f64::min), errors.fold(0.0, f64::max)),
            error_x: mean(&|outcome| Some(outcome.own.error_x)).unwrap_or(f64::NAN),
            support: same.iter().all(|outcome| outcome.own.support),
            lasso_oracle_error_x: mean(&|outcome| outcome.lasso_oracle.map(|lasso| lasso.error_x)),
            lasso_oracle_support: all_exact(&|outcome| outcome.lasso_oracle),
            lasso_honest_support: all_exact(&|outcome| outcome.lasso_honest),
            lasso_honest_error_x: mean(&|outcome| outcome.lasso_honest.map(|lasso| lasso.error_x)),
            seconds_per_step: mean(&|outcome| Some(outcome.seconds_per_step)).unwrap_or(0.0),
            paper_steps: row.map(|row| row.steps),
            paper_error_a: row.map(|row| row.error_a),
            paper_error_x: row.map(|row| row.error_x),
        });
    }
    let order = |line: &Line| {
        let method = MethodName::ALL.iter().position(|method| *method == line.method);
        (line.alpha.to_bits(), line.size, line.patterns, method)
    };
    lines.sort_by_key(order);
    lines
}
