//! The report of one step.

use std::time::{Duration, Instant};

use crate::data::codes::{Codes, SolverCounts};
use crate::learner::retired::Returned;

/// What happened to one tensor.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Step {
    /// Number of this step, from 1.
    pub step: u64,
    /// Number of non-zero fibers of the tensor.
    pub fibers: usize,
    /// Number of non-zero fibers in the sample set of stage III: p in (eq:emp_grad_est).
    pub fibers_used: usize,
    /// Mean number of patterns in a fiber.
    pub mean_code_size: f64,
    /// |Y - A X|_F / |Y|_F, with the dictionary that the fibers were coded with.
    pub fit: f64,
    /// |A(t+1) - A(t)|_F / |A(t)|_F.
    pub change: f64,
    /// For every pattern, the number of fibers that stage III learned from and that show the pattern. For counts, it is 0
    /// if the pattern is much weaker than usual: stray events look like some pattern, too.
    pub activity: Vec<usize>,
    /// How many fibers each solver coded.
    pub solver_counts: SolverCounts,
    /// Number of passes over the tensor.
    pub passes: usize,
    /// Number of new patterns that were found in the tensor. They are the last ones of the dictionary, and are used
    /// from the next tensor on.
    pub found: usize,
    /// Patterns that were removed, by their numbers before the step: patterns on probation that other patterns now
    /// explain, patterns that have become equal to an older pattern, and patterns that retired. Patterns after a
    /// removed one have moved up.
    /// `codes` and `activity` have the numbering of the dictionary after the step.
    pub lost: Vec<usize>,
    /// Those of the lost patterns that retired, because no step has shown them for long. They are kept, the last ones
    /// of [`Learner::retired`](crate::Learner::retired).
    pub retired: Vec<usize>,
    /// Those of the new patterns that had retired before.
    pub returned: Vec<Returned>,
    /// Time spent on the parts of the step.
    pub times: Times,
    /// The codes of the last pass. [`Codes::untangle`] computes the row and col factors from the codes (stage II).
    pub codes: Codes,
}

/// Time spent on the parts of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Times {
    /// Reading the fibers, stage I, and the sums of stage III.
    pub encode: Duration,
    /// Moving the dictionary by the sums of stage III.
    pub update: Duration,
    /// Finding patterns.
    pub search: Duration,
}

/// Runs some work and adds the time that it took to `total`.
pub(crate) fn timed<T>(total: &mut Duration, work: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let result = work();
    *total += begun.elapsed();
    result
}
