//! Runs of many cells. Each finished outcome is kept in its own file, so that a run that was killed can go on.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tensornoodl_data::files;

use crate::paper::cell::{Cell, MethodName, Outcome, Recovered, TOLERANCE, run};

/// Cells, methods, and where their outcomes are kept.
#[derive(Debug, Clone)]
pub struct Work {
    /// The streams.
    pub cells: Vec<Cell>,
    /// The methods. TensorNOODL with the paper's update rule is always run: it sets the number of tensors.
    pub methods: Vec<MethodName>,
    /// The folder of the outcomes.
    pub folder: PathBuf,
}

/// News from a run.
pub enum Event<'a> {
    /// The share of the work that is done, from 0 to 1.
    Done(f64),
    /// One more outcome.
    Finished(&'a Outcome),
}

/// The reason why a run ended early.
#[derive(Debug)]
pub enum Failure {
    /// A method refused its input.
    Method(tensornoodl::Error),
    /// A file or folder cannot be read or made.
    File(PathBuf, io::Error),
    /// A file cannot be written.
    Write(tensornoodl_data::Error),
    /// A file does not hold an outcome.
    Content(PathBuf, serde_json::Error),
    /// A file holds the outcome of another cell or method.
    Another(PathBuf),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Method(error) => error.fmt(f),
            Failure::Write(error) => error.fmt(f),
            Failure::File(path, error) => write!(f, "{}: {error}", path.display()),
            Failure::Another(path) => {
                write!(
                    f,
                    "{} holds the outcome of another cell; remove it to run its cell again",
                    path.display()
                )
            }
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
    /// Reads the outcomes that are kept already and computes all others, `jobs` cells at a time. Each outcome is kept
    /// as soon as it is known.
    ///
    /// # Errors
    /// The first failure, which ends the run.
    pub fn run(&self, jobs: usize, told: impl Fn(Event<'_>) + Sync) -> Result<Vec<Outcome>, Failure> {
        for cell in &self.cells {
            cell.plan().check().map_err(Failure::Method)?;
        }
        // Broken files are reported now, not after an hour of work.
        self.kept()?;
        let kept = self.folder.join("cells");
        fs::create_dir_all(&kept).map_err(|error| Failure::File(kept.clone(), error))?;
        let methods = self.all_methods();
        // Large cells come first, so that the last ones to finish are small.
        let mut cells = self.cells.clone();
        cells.sort_by(|a, b| cost(*b).total_cmp(&cost(*a)));
        let missing =
            |cell: &Cell| methods.iter().filter(|method| !path(&kept, *cell, **method).exists()).count();
        let work: Vec<f64> = cells.iter().map(|cell| cost(*cell) * missing(cell) as f64).collect();
        let total: f64 = work.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        let done = Mutex::new(vec![0.0; cells.len()]);
        let outcomes = by_jobs(jobs, cells.len(), |at| {
            let (cell, mut outcomes, mut before) = (cells[at], Vec::new(), 0.0);
            let mut steps = None;
            for &method in &methods {
                let path = path(&kept, cell, method);
                let is_new = !path.exists();
                let share = |share: f64| {
                    if let Ok(mut done) = done.lock() {
                        done[at] = before + cost(cell) * share;
                        told(Event::Done(done.iter().sum::<f64>() / total));
                    }
                };
                let most = if method.is_noodl() { None } else { steps };
                let outcome = keep(&path, || {
                    run(cell, method, most, |step, error| {
                        // The share of the decades of error, or of the tensors.
                        share(
                            most.map_or(error.log10() / TOLERANCE.log10(), |most| step as f64 / most as f64)
                                .clamp(0.0, 1.0),
                        );
                    })
                })?;
                if is_new {
                    share(1.0);
                    before += cost(cell);
                }
                let outcome = own(outcome, cell, method, path)?;
                told(Event::Finished(&outcome));
                steps = steps.or(Some(outcome.steps));
                outcomes.push(outcome);
            }
            Ok(outcomes)
        })?;
        Ok(outcomes.into_iter().flatten().collect())
    }

    /// Reads the outcomes that are kept already.
    ///
    /// # Errors
    /// If a file cannot be read or holds something else.
    pub fn kept(&self) -> Result<Vec<Outcome>, Failure> {
        let kept = self.folder.join("cells");
        let mut outcomes = Vec::new();
        for &cell in &self.cells {
            for method in self.all_methods() {
                let path = path(&kept, cell, method);
                if path.exists() {
                    outcomes.push(own(read(&path)?, cell, method, path)?);
                }
            }
        }
        Ok(outcomes)
    }

    /// Returns all methods to run, TensorNOODL with the paper's update rule first.
    fn all_methods(&self) -> Vec<MethodName> {
        let asked = |method: &MethodName| *method == MethodName::Noodl || self.methods.contains(method);
        MethodName::ALL.into_iter().filter(asked).collect()
    }
}

fn path(kept: &Path, cell: Cell, method: MethodName) -> PathBuf {
    let Cell { alpha, size, patterns, seed } = cell;
    kept.join(format!("{alpha}-{size}-{patterns}-{seed}-{}.json", method.name()))
}

/// Checks that an outcome belongs to a cell and a method.
fn own(outcome: Outcome, cell: Cell, method: MethodName, path: PathBuf) -> Result<Outcome, Failure> {
    if (outcome.cell, outcome.method) == (cell, method) { Ok(outcome) } else { Err(Failure::Another(path)) }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T, Failure> {
    let text = fs::read_to_string(path).map_err(|error| Failure::File(path.to_owned(), error))?;
    serde_json::from_str(&text).map_err(|error| Failure::Content(path.to_owned(), error))
}

/// Calls `work` for 0 .. count, `jobs` at a time, each with an equal share of the threads. Returns the results in
/// order.
///
/// # Errors
/// The first failure, which ends the work.
pub fn by_jobs<T: Send>(
    jobs: usize,
    count: usize,
    work: impl Fn(usize) -> Result<T, Failure> + Sync,
) -> Result<Vec<T>, Failure> {
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let jobs = jobs.clamp(1, count.max(1));
    let threads = (rayon::current_num_threads() / jobs).max(1);
    let job = || {
        let mut results = Vec::new();
        while !failed.load(Ordering::Relaxed) {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count {
                break;
            }
            let result = work(at).inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
            results.push((at, result));
        }
        Ok(results)
    };
    let mut results = std::thread::scope(|scope| {
        let spawn = |_| {
            scope.spawn(|| match rayon::ThreadPoolBuilder::new().num_threads(threads).build() {
                Ok(pool) => pool.install(job),
                Err(error) => Err(Failure::File(PathBuf::from("threads"), io::Error::other(error))),
            })
        };
        let handles: Vec<_> = (0..jobs).map(spawn).collect();
        let join = |handle: ScopedJoinHandle<'_, Result<Vec<(usize, T)>, Failure>>| {
            handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        handles.into_iter().map(join).collect::<Result<Vec<_>, Failure>>()
    })?
    .into_iter()
    .flatten()
    .collect::<Vec<_>>();
    results.sort_by_key(|result| result.0);
    Ok(results.into_iter().map(|result| result.1).collect())
}

/// Returns what a file holds; if there is no file, calls `work` and keeps its result in the file.
///
/// # Errors
/// If the file cannot be read or written, or `work` fails.
pub fn keep<T: Serialize + DeserializeOwned>(
    path: &Path,
    work: impl FnOnce() -> Result<T, tensornoodl::Error>,
) -> Result<T, Failure> {
    if path.exists() {
        return read(path);
    }
    let outcome = work().map_err(Failure::Method)?;
    let text = serde_json::to_string(&outcome).map_err(|error| Failure::Content(path.to_owned(), error))?;
    files::write(path, &text).map_err(Failure::Write)?;
    Ok(outcome)
}

/// Returns about how much work a cell is, in products of fibers and patterns.
fn cost(cell: Cell) -> f64 {
    let Cell { alpha, size, patterns, .. } = cell;
    let codes = alpha * alpha * patterns as f64;
    let fibers = (size * size) as f64 * (1.0 - (-codes).exp());
    (fibers + 1000.0) * patterns as f64
}

/// A line of a table: the means over the seeds of one cell and method.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// The probability alpha = beta that an entry of a row or col factor is not zero.
    pub alpha: f64,
    /// The number of rows and of cols, J = K.
    pub size: usize,
    /// The number of patterns, m.
    pub patterns: usize,
    /// The method.
    pub method: MethodName,
    /// The number of seeds.
    pub seeds: usize,
    /// Mean number of tensors.
    pub steps: f64,
    /// The smallest and the largest number of tensors over the seeds.
    pub steps_range: (u64, u64),
    /// Whether the error of A reached 1e-10 for all seeds. Always true for methods that are not NOODL.
    pub converged: bool,
    /// Mean number of tensors until every pattern had appeared.
    pub coverage_step: Option<f64>,
    /// Mean relative error of A.
    pub error_a: f64,
    /// The smallest and the largest error of A over the seeds.
    pub error_a_range: (f64, f64),
    /// Mean relative error of the method's own codes.
    pub error_x: f64,
    /// Whether signs and supports of the method's own codes are exact for all seeds.
    pub support: bool,
    /// Mean relative error of Lasso codes with the best of ten lambdas, chosen by the truth.
    pub lasso_oracle_error_x: Option<f64>,
    /// Whether signs and supports of these Lasso codes are exact for all seeds, with the lambda chosen by the truth.
    pub lasso_oracle_support: Option<bool>,
    /// Mean relative error of Lasso codes with a lambda chosen without the truth.
    pub lasso_honest_error_x: Option<f64>,
    /// Whether signs and supports of Lasso codes are exact for all seeds, with the lambda chosen without the truth.
    pub lasso_honest_support: Option<bool>,
    /// Mean time of one tensor, in seconds.
    pub seconds_per_step: f64,
    /// The number of tensors in the paper.
    pub paper_steps: Option<f64>,
    /// The error of A in the paper.
    pub paper_error_a: Option<f64>,
    /// The error of X in the paper.
    pub paper_error_x: Option<f64>,
}

/// Returns the means over seeds, in the order of the paper's tables.
pub fn lines(outcomes: &[Outcome]) -> Vec<Line> {
    let paper = crate::paper::table::paper();
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
            let codes: Vec<Recovered> = same.iter().filter_map(|outcome| of(outcome)).collect();
            (codes.len() == same.len()).then(|| codes.iter().all(|codes| codes.support))
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
            converged: same.iter().all(|outcome| outcome.converged),
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
