//! Models: patterns, factors and labels, how they are learned, and the file that holds them.

pub(crate) mod arrays;
pub(crate) mod card;
pub(crate) mod choice;
pub(crate) mod damping;
pub(crate) mod errors;
pub(crate) mod evidence;
pub(crate) mod factors;
pub(crate) mod file;
pub(crate) mod group_arrays;
pub(crate) mod groups;
pub(crate) mod identity;
pub(crate) mod learn;
pub(crate) mod repeat;
pub(crate) mod stability;
pub(crate) mod surprising;
pub(crate) mod verdict;
