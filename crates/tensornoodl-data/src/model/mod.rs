//! Models: patterns, factors and labels, how they are learned, and the file that holds them.

pub(crate) mod card;
pub(crate) mod choice;
pub(crate) mod file;
pub(crate) mod groups;
pub(crate) mod learn;
