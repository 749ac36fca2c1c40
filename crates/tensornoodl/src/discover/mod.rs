//! Patterns from nothing: how a dictionary is found in data, and how it grows along a stream.

pub(crate) mod composites;
pub(crate) mod growth;
pub(crate) mod null;
pub mod pairs;
pub(crate) mod scale;
pub(crate) mod search;
pub(crate) mod start;
pub(crate) mod unexplained;
pub(crate) mod unit_fibers;

pub use start::{
    Evidence, Finding, HeldOut, Repeat, Start, energy_floor, evidence, find, find_stable, search_bytes,
};
