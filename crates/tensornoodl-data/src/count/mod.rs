//! Counts the rows of a table into the cells of tensors, as a query says.

pub(crate) mod axis;
pub(crate) mod bins;
pub(crate) mod calendar;
pub(crate) mod cells;
pub(crate) mod collector;
pub(crate) mod counter;
pub(crate) mod events;
pub(crate) mod filter;
pub(crate) mod grid;
pub(crate) mod labels;
pub(crate) mod lookup;
pub(crate) mod query;
pub(crate) mod recipe;
pub(crate) mod stretch;
pub mod table;
pub(crate) mod tally;
