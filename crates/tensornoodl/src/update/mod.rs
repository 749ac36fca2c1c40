//! Stage III: moves the dictionary (eq:emp_grad_est, eq:apx_grad).
//!
//! ```text
//! sums.rs            sums over the fibers of a tensor
//! second_moment.rs   E, the weighted second moment of the codes
//! paper.rs           the paper's gradient step
//! adaptive.rs        recursive least squares, the default
//! counts.rs          online expectation-maximization, for counts
//! ```
//!
//! With the rules of the exact model, the columns that moved are scaled to unit length afterwards, and a pattern that no fiber shows does
//! not move.

pub(crate) mod adaptive;
pub(crate) mod counts;
pub(crate) mod paper;
pub(crate) mod second_moment;
pub(crate) mod sums;

use crate::data::dictionary::Dictionary;
use crate::error::Error;
use crate::params::{Params, Rule};
use crate::update::adaptive::Adaptive;
use crate::update::paper::paper_step;
use crate::update::sums::FiberSums;

/// The dictionary after one pass of stage III.
pub(crate) struct Update {
    pub(crate) dictionary: Dictionary,
    /// State of the adaptive step after the pass.
    pub(crate) adaptive: Adaptive,
    /// |A(t+1) - A(t)|_F^2.
    pub(crate) squared_change: f64,
    /// Whether the gain of a further pass would be small. Always false for the paper's step, which does not estimate
    /// it.
    pub(crate) settled: bool,
}

/// Moves the dictionary by the sums over the fibers of a tensor, with the rule in `params`.
///
/// `origin` is A(t). The fibers were coded with `coded_with`: A(t) in the first pass over a tensor, and the
/// dictionary that the pass before returned in a further pass. A further pass of the paper's step moves `coded_with`.
/// A further pass of the adaptive step starts again from A(t) with better codes, so that no fiber is counted twice.
///
/// # Errors
/// A pattern that becomes zero or not finite.
pub(crate) fn step(
    origin: &Dictionary,
    coded_with: &Dictionary,
    sums: &FiberSums,
    adaptive: &Adaptive,
    params: &Params,
) -> Result<Update, Error> {
    match params.rule {
        Rule::Paper { eta_a } => {
            let mut dictionary = coded_with.clone();
            dictionary.replace(&paper_step(coded_with, sums, eta_a)?);
            let squared_change = dictionary.squared_distance(origin);
            Ok(Update { dictionary, adaptive: adaptive.clone(), squared_change, settled: false })
        }
        Rule::Adaptive => {
            let step = adaptive.step(origin, coded_with, sums, params.forgetting)?;
            let squared_change = step.moved.squares_from(origin).iter().sum();
            let mut dictionary = origin.clone();
            dictionary.replace(&step.moved);
            Ok(Update { dictionary, adaptive: step.state, squared_change, settled: step.settled })
        }
    }
}
