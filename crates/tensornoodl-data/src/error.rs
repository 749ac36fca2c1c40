//! What can be wrong with a file.

/// What was wrong, where, and which rule it broke.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A line that cannot be read.
    #[error("{file}, line {line}: {what} is {value:?}, it must be {rule}")]
    Line {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// Which part of the line.
        what: &'static str,
        /// What stands there.
        value: String,
        /// What may stand there.
        rule: String,
    },
    /// A file that has too little to look at.
    #[error(
        "{file} has {fibers} fibers that are not zero, at least 2 are needed: patterns are what fibers share"
    )]
    Few {
        /// The file.
        file: String,
        /// Its fibers.
        fibers: usize,
    },
    /// A file without entries.
    #[error("{0} has no entries")]
    Empty(String),
    /// A file that cannot be read.
    #[error("cannot read {file}: {error}")]
    Read {
        /// The file.
        file: String,
        /// What the system says.
        error: std::io::Error,
    },
    /// A name that no action has.
    #[error("the recipe has {0:?}, actions are log2, scale, center")]
    Action(String),
    /// A value that an action cannot take.
    #[error(
        "log2 met the value {value} at feature {feature} of {place} (counted from 0): it needs values above 0"
    )]
    Logarithm {
        /// The value.
        value: f64,
        /// Feature index.
        feature: usize,
        /// Where the fiber stands.
        place: tensornoodl::Place,
    },
    /// The core refuses the tensor.
    #[error(transparent)]
    Tensor(#[from] tensornoodl::Error),
}
