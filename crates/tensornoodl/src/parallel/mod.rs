//! Teams of ranks: who shares the work, how ranks exchange messages, and sums that do not depend on the order.

pub(crate) mod exact_sum;
pub(crate) mod message;
pub(crate) mod team;
pub(crate) mod threads;

pub use exact_sum::ExactSum;
pub use message::{exchange, gather};
pub use team::{MAX_RANKS, Solo, Team, Traffic, agree, get, put, rank_range};
pub use threads::{ThreadRank, run_ranks};
