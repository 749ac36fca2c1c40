//! One file per command: its help, its arguments, its `run`.

pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod pairs;
pub(crate) mod paper;
pub(crate) mod recover;
