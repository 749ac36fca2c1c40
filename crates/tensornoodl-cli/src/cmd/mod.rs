//! One file per command: its help, its arguments, its `run`.

pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod encode;
pub(crate) mod export;
pub(crate) mod growth;
pub(crate) mod init;
pub(crate) mod learn;
pub(crate) mod paper;
pub(crate) mod recover;
pub(crate) mod report;
pub(crate) mod show;
pub(crate) mod spread;
pub(crate) mod starts;
pub(crate) mod stats;
