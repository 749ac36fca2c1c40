//! Teams of ranks: how the work is shared, typed messages between ranks, and order-independent sums.

pub(crate) mod exact_sum;
pub(crate) mod message;
pub(crate) mod team;
pub(crate) mod threads;

pub use exact_sum::ExactSum;
pub use message::{exchange, gather};
pub use team::{MAX_RANKS, Solo, Team, Traffic, agree, rank_range};
pub use threads::{ThreadRank, run_ranks};
