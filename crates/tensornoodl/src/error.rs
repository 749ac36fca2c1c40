//! Everything that can be wrong with what a caller hands in.

use crate::shape::{Place, Shape};

/// What was wrong, with the offending value and the rule it broke.
///
/// Slow convergence is not an error: [`Step`](crate::Step) tells it. A learner that returned an
/// error is unchanged.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A parameter outside its range.
    #[error("{name} is {value}, it must be {rule}")]
    Parameter {
        /// Name of the parameter, as in the program and the documentation.
        name: &'static str,
        /// The value given.
        value: String,
        /// The values allowed.
        rule: String,
    },
    /// An axis of length zero, or one too long to index.
    #[error("the shape is {0}: every axis must have 1 to 4294967295 entries")]
    Shape(Shape),
    /// A tensor entry outside the shape.
    #[error("entry {entry} is at feature {feature}, row {row}, col {col}, outside the shape {shape}")]
    OutOfBounds {
        /// Position of the entry in the input.
        entry: usize,
        /// Its feature index.
        feature: usize,
        /// Its row index.
        row: usize,
        /// Its col index.
        col: usize,
        /// The shape of the tensor.
        shape: Shape,
    },
    /// A value that is NaN, infinite, or too large to be squared and added up.
    #[error("the value at feature {feature} of {place} is {value:?}: values must be finite, at most 1e100")]
    NotFinite {
        /// Feature index.
        feature: usize,
        /// Where the fiber stands.
        place: Place,
        /// The value.
        value: f64,
    },
    /// Lengths that do not fit together.
    #[error("{what}: {got} values given, {expected} needed")]
    Length {
        /// Which input.
        what: &'static str,
        /// Its length.
        got: usize,
        /// The length that fits.
        expected: usize,
    },
    /// The same place given twice.
    #[error("{0} is given twice: a place has one fiber")]
    DuplicatePlace(Place),
    /// A fiber placed outside the shape.
    #[error("{place} is outside the shape {shape}")]
    PlaceOutOfBounds {
        /// The place.
        place: Place,
        /// The shape of the tensor.
        shape: Shape,
    },
    /// A pattern that cannot be scaled to unit length.
    #[error("pattern {pattern} has norm {norm}: a pattern must be finite and not zero")]
    Pattern {
        /// Which column of the dictionary.
        pattern: usize,
        /// Its norm.
        norm: f64,
    },
    /// A learner whose parts do not fit together.
    #[error("this is not the state of a learner: its parts do not fit together")]
    State,
    /// A tensor whose feature axis does not fit the dictionary.
    #[error("the tensor has {tensor} features, the dictionary has {dictionary}")]
    Features {
        /// Features of the tensor.
        tensor: usize,
        /// Features of the dictionary.
        dictionary: usize,
    },
    /// A part of a tensor that is not of the tensor's shape.
    #[error("a part has the shape {part}, its tensor has {tensor}")]
    OtherShape {
        /// Shape of the part.
        part: Shape,
        /// Shape of the tensor.
        tensor: Shape,
    },
    /// A tensor in which nothing stands out.
    #[error(
        "no pattern is clearer than chance in most of five searches; asked for a number of patterns, it takes the clearest"
    )]
    NoPattern,
    /// A tensor in which nothing is shared, whatever is asked for.
    #[error(
        "no two fibers share anything that a pattern could be: asked for patterns, there is none to take"
    )]
    NothingShared,
    /// Codes that are not of the dictionary.
    #[error("the codes are of {codes} patterns, the dictionary has {dictionary}")]
    Patterns {
        /// Patterns of the codes.
        codes: usize,
        /// Patterns of the dictionary.
        dictionary: usize,
    },
    /// Work that was ended from outside; nothing has changed.
    #[error("it was stopped")]
    Stopped,
    /// Something is wrong on another rank of the team.
    #[error("rank {rank} failed: {cause}")]
    OtherRank {
        /// Which one.
        rank: usize,
        /// What it says.
        cause: String,
    },
    /// A step that left the range of numbers. The dictionary is as it was before.
    #[error(
        "step {step} would have made a pattern zero or not finite and was not taken; \
         with the paper's step, try a smaller eta_a"
    )]
    Diverged {
        /// The step, from 1.
        step: u64,
    },
}
