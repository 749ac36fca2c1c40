//! Errors of this crate: invalid input, work that was stopped, and steps that diverge.

use crate::shape::{Place, Shape};

/// An error, with the value that caused it and the rule that the value breaks.
///
/// A learner that returned an error is unchanged. Slow convergence is not an error: see [`Step`](crate::Step).
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A parameter is out of its range.
    #[error("{name} is {value}, it must be {rule}")]
    Parameter {
        /// The name of the parameter, as in the program and the documentation.
        name: &'static str,
        /// The value given.
        value: String,
        /// The values allowed.
        rule: String,
    },
    /// An axis has length zero, or is too long to be indexed with 32 bits.
    #[error("the shape is {0}: every axis must have 1 to 4294967295 entries")]
    Shape(Shape),
    /// An entry of a tensor is outside the shape.
    #[error("entry {entry} is at feature {feature}, row {row}, col {col}, outside the shape {shape}")]
    OutOfBounds {
        /// The position of the entry in the input, from 0.
        entry: usize,
        /// The feature index of the entry.
        feature: usize,
        /// The row index of the entry.
        row: usize,
        /// The col index of the entry.
        col: usize,
        /// The shape of the tensor.
        shape: Shape,
    },
    /// A value is NaN, infinite, or too large to be squared and added up.
    #[error("the value at feature {feature} of {place} is {value:?}: values must be finite, at most 1e100")]
    NotFinite {
        /// The feature index of the value.
        feature: usize,
        /// The place of the fiber.
        place: Place,
        /// The value.
        value: f64,
    },
    /// An input has the wrong length.
    #[error("{what}: {got} values given, {expected} needed")]
    Length {
        /// The name of the input.
        what: &'static str,
        /// The length of the input.
        got: usize,
        /// The length needed.
        expected: usize,
    },
    /// Two fibers have the same place.
    #[error("{0} is given twice: a place has one fiber")]
    DuplicatePlace(Place),
    /// A fiber is placed outside the shape.
    #[error("{place} is outside the shape {shape}")]
    PlaceOutOfBounds {
        /// The place.
        place: Place,
        /// The shape of the tensor.
        shape: Shape,
    },
    /// A pattern cannot be scaled to unit length.
    #[error("pattern {pattern} has norm {norm}: a pattern must be finite and not zero")]
    Pattern {
        /// The number of the pattern, from 0.
        pattern: usize,
        /// The norm of the pattern.
        norm: f64,
    },
    /// The parts of a learner that was deserialized do not fit together.
    #[error(
        "the state of the learner is damaged: its parts do not fit together; \
         use an earlier checkpoint, or learn again"
    )]
    State,
    /// A tensor and the dictionary have different numbers of features.
    #[error("the tensor has {tensor} features, the dictionary has {dictionary}")]
    Features {
        /// The number of features of the tensor.
        tensor: usize,
        /// The number of features of the dictionary.
        dictionary: usize,
    },
    /// A part of a tensor has another shape than the tensor.
    #[error("a part has the shape {part}, its tensor has {tensor}")]
    OtherShape {
        /// The shape of the part.
        part: Shape,
        /// The shape of the tensor that the part belongs to.
        tensor: Shape,
    },
    /// A value cannot be a number of events.
    #[error(
        "the value at feature {feature} of {place} is {value}: the counts model needs values from 0 to 2.7e11; \
         use the exact model"
    )]
    NotACount {
        /// The feature index of the value.
        feature: usize,
        /// The place of the fiber.
        place: Place,
        /// The value.
        value: f64,
    },
    /// The exact model was asked for what only the counts model has.
    #[error(
        "surprise needs the counts model, and this model is exact; learn from a table of counts with --model counts"
    )]
    NeedsCounts,
    /// A tensor has more events than sums of counts can hold.
    #[error(
        "the tensor has {events:e} events: the counts model takes at most 2.7e11; use a smaller unit or the exact model"
    )]
    TooManyEvents {
        /// The number of events.
        events: f64,
    },
    /// Several groups share a pattern, so that one pair of factors cannot stand for them.
    #[error(
        "several groups share pattern {}: its leading group holds {:.0} % of it, and a polish needs at least half; \
         learn without the polish",
        pattern + 1,
        100.0 * share
    )]
    SeveralGroups {
        /// The number of the pattern, from 0.
        pattern: usize,
        /// The share of the pattern that its factors hold.
        share: f64,
    },
    /// No pattern of a tensor is significant.
    #[error(
        "no significant pattern found; use a number of patterns (--patterns N) to accept the N strongest"
    )]
    NoPattern,
    /// A number of patterns is given, but no two fibers of a tensor have anything in common.
    #[error("no two fibers share anything that could be a pattern; use a tensor with more fibers")]
    NothingShared,
    /// Codes and the dictionary have different numbers of patterns.
    #[error(
        "the codes have {codes} patterns, the dictionary has {dictionary}; \
         use the dictionary that the codes were computed with"
    )]
    Patterns {
        /// The number of patterns of the codes.
        codes: usize,
        /// The number of patterns of the dictionary.
        dictionary: usize,
    },
    /// The work was ended by a [`Stop`](crate::Stop); nothing has changed.
    #[error("the work was stopped; nothing has changed")]
    Stopped,
    /// Another rank of the team has an error.
    #[error("rank {rank} failed: {cause}")]
    OtherRank {
        /// The number of the rank, from 0.
        rank: usize,
        /// The error message of the rank.
        cause: String,
    },
    /// A step would have made a pattern zero or not finite. The dictionary is as it was before.
    #[error(
        "step {step} would have made a pattern zero or not finite and was not taken; \
         with the paper's step, try a smaller eta_a"
    )]
    Diverged {
        /// The number of the step, from 1.
        step: u64,
    },
}
