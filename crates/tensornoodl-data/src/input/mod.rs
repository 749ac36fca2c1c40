//! Reads files: opens them, recognizes their format, and yields their rows.
//!
//! A reader calls a function of type [`row::Push`] with the fields of each row. A reader does not know what the rows
//! are counted into.

pub(crate) mod arrow;
pub(crate) mod csv;
pub(crate) mod format;
pub(crate) mod npy;
pub(crate) mod open;
pub(crate) mod parquet;
pub(crate) mod row;
pub(crate) mod same;
pub(crate) mod share;
pub(crate) mod time;
pub mod tns;
