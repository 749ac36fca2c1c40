//! The paper's experiments: its tables, the cells they are made of, and the runs that fill them.

mod batch;
mod cell;
mod runner;
mod table;

pub use batch::{BatchMethod, BatchOutcome, run_batch};
pub use cell::{Cell, MethodName, Outcome, Recovered, run};
pub use runner::{Event, Failure, Line, Work, by_jobs, keep, lines};
pub use table::{PaperRow, eta_a, paper};
