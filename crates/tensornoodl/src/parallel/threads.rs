//! Threads of one process that act as the ranks of a team.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::parallel::team::Team;

/// Runs `work` on a team of `size` ranks, each a thread of this process, and returns what each rank returns.
///
/// # Panics
/// If one of the ranks panics: the other ranks panic too instead of waiting for it.
pub fn run_ranks<T: Send>(size: usize, work: impl Fn(&ThreadRank) -> T + Sync) -> Vec<T> {
    let table = Arc::new(Table::default());
    let member = |rank| ThreadRank { rank, size, table: Arc::clone(&table) };
    std::thread::scope(|scope| {
        let ranks: Vec<_> = (0..size)
            .map(|rank| {
                let (member, work) = (member(rank), &work);
                scope.spawn(move || {
                    let _guard = PanicGuard(&member.table);
                    work(&member)
                })
            })
            .collect();
        let ends: Vec<std::thread::Result<T>> = ranks.into_iter().map(|rank| rank.join()).collect();
        ends.into_iter().map(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// A rank that is a thread of this process. A clone is a handle to the same rank.
#[derive(Debug, Clone)]
pub struct ThreadRank {
    rank: usize,
    size: usize,
    table: Arc<Table>,
}

/// Shared memory in which the ranks leave their parcels for each other.
#[derive(Debug, Default)]
struct Table {
    round: Mutex<Round>,
    changed: Condvar,
}

/// The state of one exchange.
#[derive(Debug, Default)]
struct Round {
    /// Number of exchanges before this one.
    number: u64,
    /// `parcels[r][s]` is sent by rank r to rank s; `None` until rank r has arrived.
    parcels: Vec<Option<Vec<Vec<u8>>>>,
    /// Number of ranks that have taken their parcels.
    taken: usize,
    /// Whether a rank has panicked.
    broken: bool,
}

/// Tells the other ranks when this one panics.
struct PanicGuard<'a>(&'a Table);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().broken = true;
            self.0.changed.notify_all();
        }
    }
}

impl Table {
    fn lock(&self) -> MutexGuard<'_, Round> {
        self.round.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a condition holds.
    ///
    /// # Panics
    /// If another rank has panicked.
    fn wait<'a>(
        &self,
        round: MutexGuard<'a, Round>,
        until: impl Fn(&Round) -> bool,
    ) -> MutexGuard<'a, Round> {
        let waits = |round: &mut Round| !until(round) && !round.broken;
        let round = self.changed.wait_while(round, waits).unwrap_or_else(PoisonError::into_inner);
        assert!(!round.broken, "another rank has panicked");
        round
    }
}

impl ThreadRank {
    /// Replaces every number by the fold of its values on all ranks, from rank 0 on.
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

impl Team for ThreadRank {
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
        let mut round = self.table.lock();
        round.parcels.resize(self.size, None);
        round.parcels[self.rank] = Some(parcels);
        self.table.changed.notify_all();
        let number = round.number;
        let complete = |round: &Round| round.parcels.iter().all(Option::is_some) || round.number > number;
        round = self.table.wait(round, complete);
        let take = |from: &mut Option<Vec<Vec<u8>>>| {
            from.as_mut().map_or_else(Vec::new, |parcels| std::mem::take(&mut parcels[self.rank]))
        };
        let received = round.parcels.iter_mut().map(take).collect();
        round.taken += 1;
        if round.taken == self.size {
            *round = Round { number: number + 1, ..Round::default() };
            self.table.changed.notify_all();
        } else {
            drop(self.table.wait(round, |round| round.number > number));
        }
        received
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::team::rank_range;

    #[test]
    fn parcels_arrive() {
        for size in 1..5 {
            let all = run_ranks(size, |team| {
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
                (numbers, largest, rank_range(team, 10))
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
        run_ranks(3, |team| {
            assert!(team.rank() != 0, "this one");
            team.sum(&mut [1]);
        });
    }
}
