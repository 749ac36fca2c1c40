//! Teams of ranks: processes or threads that work on one stream together, each with a share of every tensor's fibers.
//!
//! All ranks hold the same dictionary, with the same bits. Each rank computes sums over its own fibers, the sums of all
//! ranks are added (`exact_sum.rs`), and each rank updates its dictionary with the totals. The algorithm calls only the
//! trait [`Team`], and is the same for one rank ([`Solo`]) and for many.

use std::fmt::{Debug, Display};
use std::ops::{Range, Sub};
use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;

/// How the ranks of a team communicate. All ranks must make the same calls in the same order.
pub trait Team: Debug + Send + Sync {
    /// The number of this rank, from 0.
    fn rank(&self) -> usize;
    /// The number of ranks in the team.
    fn size(&self) -> usize;
    /// Replaces every number by its sum over all ranks.
    fn sum(&self, numbers: &mut [i64]);
    /// Replaces every number by its maximum over all ranks.
    fn max(&self, numbers: &mut [i8]);
    /// Sends `parcels[r]` to rank r and returns what every rank sent to this one, ordered by rank.
    fn exchange(&self, parcels: Vec<Vec<u8>>) -> Vec<Vec<u8>>;
    /// Sends `own` to every rank and returns what every rank sent, ordered by rank.
    fn gather(&self, own: Vec<u8>) -> Vec<Vec<u8>> {
        self.exchange(vec![own; self.size()])
    }
    /// What this rank has sent so far; all zero if the team does not count.
    fn traffic(&self) -> Traffic {
        Traffic::default()
    }
}

/// The amount of communication of one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Number of exchanges with the other ranks.
    pub exchanges: u64,
    /// Number of bytes sent to the other ranks.
    pub bytes: u64,
    /// Time spent in exchanges, including waiting for other ranks.
    pub time: Duration,
}

impl Sub for Traffic {
    type Output = Traffic;

    fn sub(self, before: Traffic) -> Traffic {
        Traffic {
            exchanges: self.exchanges - before.exchanges,
            bytes: self.bytes - before.bytes,
            time: self.time.saturating_sub(before.time),
        }
    }
}

/// The team that a learner works in. All handles are equal: the team is ignored when learners are compared.
#[derive(Debug, Clone)]
pub(crate) struct TeamHandle(pub(crate) Arc<dyn Team>);

impl Default for TeamHandle {
    fn default() -> TeamHandle {
        TeamHandle(Arc::new(Solo))
    }
}

impl PartialEq for TeamHandle {
    fn eq(&self, _: &TeamHandle) -> bool {
        true
    }
}

/// The largest number of ranks in a team: the sums of more ranks could overflow the integers in which they are sent.
pub const MAX_RANKS: usize = 2048;

/// Makes an error on one rank an error on all ranks.
///
/// All ranks must call this function.
///
/// # Errors
/// If any rank has an error, the first rank that has one returns its own error, and all other ranks return
/// [`Error::OtherRank`].
pub fn agree<T, E: From<Error> + Display>(team: &dyn Team, outcome: Result<T, E>) -> Result<T, E> {
    let mut alarm = [i8::from(outcome.is_err())];
    team.max(&mut alarm);
    if alarm[0] == 0 { outcome } else { Err(first_error(team, outcome)) }
}

/// Returns the error of the first rank that has one: the error itself on that rank, [`Error::OtherRank`] on the others.
///
/// All ranks must call this function, and at least one of them with an error.
pub(crate) fn first_error<T, E: From<Error> + Display>(team: &dyn Team, outcome: Result<T, E>) -> E {
    let own = outcome.as_ref().map_or_else(|error| error.to_string(), |_| String::new());
    let causes = team.gather(own.into_bytes());
    let rank = causes.iter().position(|cause| !cause.is_empty()).unwrap_or(0);
    match outcome {
        Err(error) if rank == team.rank() => error,
        _ => Error::OtherRank { rank, cause: String::from_utf8_lossy(&causes[rank]).into_owned() }.into(),
    }
}

/// Returns the share of this rank in `count` items that are split evenly: ranks have consecutive ranges.
pub fn rank_range(team: &dyn Team, count: u64) -> Range<u64> {
    let cut = |rank: usize| (u128::from(count) * rank as u128 / team.size() as u128) as u64;
    cut(team.rank())..cut(team.rank() + 1)
}

/// A team of one rank.
#[derive(Debug, Clone, Copy, Default)]
pub struct Solo;

impl Team for Solo {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn sum(&self, _: &mut [i64]) {}

    fn max(&self, _: &mut [i8]) {}

    fn exchange(&self, parcels: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        parcels
    }
}
