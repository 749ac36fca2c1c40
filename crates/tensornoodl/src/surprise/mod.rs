//! Surprise: how unlikely the total and the shape of a place are in a step of counts, given the steps before it.
//!
//! ```text
//! past.rs      what the latest steps lead to expect at a place
//! total.rs     the law of the number of events of a place
//! shape.rs     the law of their features
//! judge.rs     looks at all places of a step
//! chance.rs    tails of the negative binomial distribution
//! ```
//!
//! A p-value is the probability that a step in which nothing is unusual brings a total, or a shape, that is as unlikely.
//! If nothing is unusual, p-values are uniform between 0 and 1, up to the steps that numbers of events have. They are
//! mid-p-values: half of the probability of what was observed counts. The past is the pool of the latest steps, which a
//! learner has anyway. How much totals and shapes vary is estimated from the same steps and from the step that is judged.

pub(crate) mod chance;
pub(crate) mod judge;
pub(crate) mod past;
pub(crate) mod shape;
pub(crate) mod total;

pub use judge::{Excess, Surprise, significant};
