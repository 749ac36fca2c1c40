//! What the programs `noodl` and `noodl-lab` share: how a program starts and ends, tables, models and planted tensors
//! on the command line, the assessment of a tensor, progress, plots, and checks of memory.

#![forbid(unsafe_code)]

pub mod assess;
mod assess_counts;
pub mod ladder;
pub mod memory;
pub mod model;
pub mod output;
pub mod planted;
pub mod plot;
pub mod program;
pub mod progress;
mod ranks;
pub mod run;
pub mod signals;
pub mod svg;
pub mod table;
