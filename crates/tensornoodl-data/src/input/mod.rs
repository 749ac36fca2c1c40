//! Reads files: opens them, recognizes their format, and yields their rows.
//!
//! Every reader calls a function of type [`Push`](row::Push) for each row, and knows nothing of what is counted.

pub(crate) mod arrow;
pub(crate) mod csv;
pub(crate) mod format;
pub(crate) mod npy;
pub(crate) mod open;
pub(crate) mod parquet;
pub(crate) mod row;
pub(crate) mod share;
pub(crate) mod time;
pub mod tns;
