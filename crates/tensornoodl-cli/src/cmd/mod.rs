//! One file per command: its help, its arguments, its `run`.

pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod encode;
pub(crate) mod export;
pub(crate) mod learn;
pub(crate) mod report;
pub(crate) mod show;
pub(crate) mod stats;
