//! Ranks that work on one stream together, each with a share of every tensor's fibers.
//!
//! All of them hold the same dictionary, to the bit: each adds up over its share, the sums of all are added up
//! (`totals.rs`), and each moves its dictionary by them. The seam is this trait; the algorithm is the same for one.

use std::fmt::{Debug, Display};
use std::ops::{Range, Sub};
use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;

/// How the ranks of a team speak to each other. All of them make the same calls in the same order.
pub trait Team: Debug + Send + Sync {
    /// Which one this is, from 0.
    fn rank(&self) -> usize;
    /// How many there are.
    fn size(&self) -> usize;
    /// Every number becomes the sum over all ranks.
    fn sum(&self, numbers: &mut [i64]);
    /// Every number becomes the largest of all ranks.
    fn max(&self, numbers: &mut [i8]);
    /// Hands a parcel to every rank and returns those that every rank had for this one.
    fn exchange(&self, parcels: Vec<Vec<u8>>) -> Vec<Vec<u8>>;
    /// What every rank has to say, for all of them.
    fn gather(&self, own: Vec<u8>) -> Vec<Vec<u8>> {
        self.exchange(vec![own; self.size()])
    }
    /// What it has sent so far, if anyone counts.
    fn traffic(&self) -> Traffic {
        Traffic::default()
    }
}

/// What a rank has sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Exchanges with the others.
    pub exchanges: u64,
    /// Bytes that it had for them.
    pub bytes: u64,
    /// Time that they took, waiting for others included.
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

/// Parcels are words, written
pub fn put(parcel: &mut Vec<u8>, word: u64) {
    parcel.extend_from_slice(&word.to_le_bytes());
}

/// and read one by one. A parcel that ends too early is of another program.
pub fn get(parcel: &mut &[u8]) -> u64 {
    let (word, rest) = parcel.split_first_chunk().expect("a parcel has all of its words");
    *parcel = rest;
    u64::from_le_bytes(*word)
}

/// Many things, after their number.
pub(crate) fn put_all<T>(parcel: &mut Vec<u8>, things: &[T], one: impl Fn(&mut Vec<u8>, &T)) {
    put(parcel, things.len() as u64);
    things.iter().for_each(|thing| one(parcel, thing));
}

/// The team that a learner is in. Who works on it makes no difference to what it is.
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

/// Most ranks of a team: as many as the words that sums are sent in have room for.
pub const MAX_RANKS: usize = 2048;

/// All ranks go on, or none: what is wrong on one of them is an error on all.
pub fn agree<T, E: From<Error> + Display>(team: &dyn Team, outcome: Result<T, E>) -> Result<T, E> {
    let mut alarm = [i8::from(outcome.is_err())];
    team.max(&mut alarm);
    if alarm[0] == 0 { outcome } else { Err(blame(team, outcome)) }
}

/// The error of the first rank that has one: itself there, told of on the others. All ranks ask, because one has.
pub(crate) fn blame<T, E: From<Error> + Display>(team: &dyn Team, outcome: Result<T, E>) -> E {
    let own = outcome.as_ref().map_or_else(|error| error.to_string(), |_| String::new());
    let causes = team.gather(own.into_bytes());
    let rank = causes.iter().position(|cause| !cause.is_empty()).unwrap_or(0);
    match outcome {
        Err(error) if rank == team.rank() => error,
        _ => Error::OtherRank { rank, cause: String::from_utf8_lossy(&causes[rank]).into_owned() }.into(),
    }
}

/// The share of a rank in `count` things that are spread evenly.
pub fn rank_range(team: &dyn Team, count: u64) -> Range<u64> {
    let cut = |rank: usize| (u128::from(count) * rank as u128 / team.size() as u128) as u64;
    cut(team.rank())..cut(team.rank() + 1)
}

/// A team of one.
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
