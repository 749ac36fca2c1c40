//! Surprise: how unlikely the total and the shape of a place are in a step of a stream of counts, given all earlier steps.
//!
//! ```text
//! judge.rs     looks at all places of a step
//! past.rs      what each place had in earlier steps, and what it leads to expect
//! total.rs     the law of the number of events of a place
//! shape.rs     the law of their features
//! calibration.rs   p-values are calibrated by those of the latest steps
//! chance.rs    tails of the negative binomial distribution
//! ```
//!
//! A p-value is the probability that a step in which nothing is unusual brings a total, or a shape, that is as unlikely.
//! If nothing is unusual, p-values are uniform between 0 and 1. They are mid-p-values: half of the probability of what was
//! observed counts. Both laws know that events come in bursts and that places change; how much is estimated from the
//! stream itself.

pub(crate) mod calibration;
pub(crate) mod chance;
pub(crate) mod judge;
pub(crate) mod past;
pub(crate) mod shape;
pub(crate) mod total;

pub use judge::{Excess, Surprise};
