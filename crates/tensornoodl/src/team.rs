//! Ranks that work on one stream together, each with a share of every tensor's fibers.
//!
//! All of them hold the same dictionary, to the bit: each adds up over its share, the sums of all are added up
//! (`totals.rs`), and each moves its dictionary by them. The seam is this trait; the algorithm is the same for one.

use std::fmt::{Debug, Display};
use std::ops::{Range, Sub};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::Error;
pub use crate::totals::Sum;

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
pub(crate) struct Member(pub(crate) Arc<dyn Team>);

impl Default for Member {
    fn default() -> Member {
        Member(Arc::new(Solo))
    }
}

impl PartialEq for Member {
    fn eq(&self, _: &Member) -> bool {
        true
    }
}

/// Most ranks of a team: as many as the words that sums are sent in have room for.
pub const MOST_RANKS: usize = 2048;

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
        _ => Error::Elsewhere { rank, cause: String::from_utf8_lossy(&causes[rank]).into_owned() }.into(),
    }
}

/// The share of a rank in `count` things that are spread evenly.
pub fn share(team: &dyn Team, count: u64) -> Range<u64> {
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

/// Runs the same work on so many ranks, each a thread of this process, and returns what each of them makes.
///
/// # Panics
/// If one of them does: the others would wait for it for ever.
pub fn together<T: Send>(size: usize, work: impl Fn(&Together) -> T + Sync) -> Vec<T> {
    let table = Arc::new(Table::default());
    let member = |rank| Together { rank, size, table: Arc::clone(&table) };
    std::thread::scope(|scope| {
        let ranks: Vec<_> = (0..size)
            .map(|rank| {
                let (member, work) = (member(rank), &work);
                scope.spawn(move || {
                    let _leave = Leave(&member.table);
                    work(&member)
                })
            })
            .collect();
        let ends: Vec<std::thread::Result<T>> = ranks.into_iter().map(|rank| rank.join()).collect();
        ends.into_iter().map(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// A rank that is a thread of this process. Clones are the same rank.
#[derive(Debug, Clone)]
pub struct Together {
    rank: usize,
    size: usize,
    table: Arc<Table>,
}

/// Where ranks lay down what they have for the others.
#[derive(Debug, Default)]
struct Table {
    laid: Mutex<Laid>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Laid {
    round: u64,
    /// From whom, for whom.
    parcels: Vec<Option<Vec<Vec<u8>>>>,
    taken: usize,
    /// A rank that panics is missed by all.
    broken: bool,
}

struct Leave<'a>(&'a Table);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().broken = true;
            self.0.changed.notify_all();
        }
    }
}

impl Table {
    fn lock(&self) -> MutexGuard<'_, Laid> {
        self.laid.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, laid: MutexGuard<'a, Laid>, until: impl Fn(&Laid) -> bool) -> MutexGuard<'a, Laid> {
        let waits = |laid: &mut Laid| !until(laid) && !laid.broken;
        let laid = self.changed.wait_while(laid, waits).unwrap_or_else(PoisonError::into_inner);
        assert!(!laid.broken, "another rank has panicked");
        laid
    }
}

impl Together {
    /// Folds the numbers of all ranks.
    fn fold<T: Copy, const N: usize>(
        &self,
        numbers: &mut [T],
        write: fn(T) -> [u8; N],
        read: fn([u8; N]) -> T,
        with: fn(T, T) -> T,
    ) {
        let own: Vec<u8> = numbers.iter().flat_map(|&number| write(number)).collect();
        for (rank, theirs) in self.gather(own).iter().enumerate() {
            let theirs = theirs.as_chunks().0.iter().map(|bytes| read(*bytes));
            numbers.iter_mut().zip(theirs).for_each(|(a, b)| *a = if rank == 0 { b } else { with(*a, b) });
        }
    }
}

impl Team for Together {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn sum(&self, numbers: &mut [i64]) {
        self.fold(numbers, i64::to_le_bytes, i64::from_le_bytes, |a, b| a + b);
    }

    fn max(&self, numbers: &mut [i8]) {
        self.fold(numbers, i8::to_le_bytes, i8::from_le_bytes, i8::max);
    }

    fn exchange(&self, parcels: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        assert_eq!(parcels.len(), self.size, "a parcel for every rank");
        let mut laid = self.table.lock();
        laid.parcels.resize(self.size, None);
        laid.parcels[self.rank] = Some(parcels);
        self.table.changed.notify_all();
        let round = laid.round;
        laid = self.table.wait(laid, |laid| laid.parcels.iter().all(Option::is_some) || laid.round > round);
        let take = |from: &mut Option<Vec<Vec<u8>>>| {
            from.as_mut().map_or_else(Vec::new, |parcels| std::mem::take(&mut parcels[self.rank]))
        };
        let received = laid.parcels.iter_mut().map(take).collect();
        laid.taken += 1;
        if laid.taken == self.size {
            *laid = Laid { round: round + 1, ..Laid::default() };
            self.table.changed.notify_all();
        } else {
            drop(self.table.wait(laid, |laid| laid.round > round));
        }
        received
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parcels_arrive() {
        for size in 1..5 {
            let all = together(size, |team| {
                let (rank, size) = (team.rank(), team.size());
                for round in 0..20 {
                    let parcels = (0..size).map(|to| vec![rank as u8, to as u8, round]).collect();
                    let received = team.exchange(parcels);
                    let expected: Vec<Vec<u8>> =
                        (0..size).map(|from| vec![from as u8, rank as u8, round]).collect();
                    assert_eq!(received, expected);
                }
                let mut numbers = [1, rank as i64];
                team.sum(&mut numbers);
                let mut largest = [-(rank as i8), rank as i8];
                team.max(&mut largest);
                (numbers, largest, share(team, 10))
            });
            let ranks = size as i64;
            let mut next = 0;
            for (numbers, largest, share) in all {
                assert_eq!(numbers, [ranks, ranks * (ranks - 1) / 2]);
                assert_eq!(largest, [0, ranks as i8 - 1]);
                assert_eq!(share.start, next);
                next = share.end;
            }
            assert_eq!(next, 10);
        }
    }

    #[test]
    #[should_panic(expected = "this one")]
    fn a_panic_is_not_waited_for() {
        together(3, |team| {
            assert!(team.rank() != 0, "this one");
            team.sum(&mut [1]);
        });
    }
}
