//! Threads of one process that act as the ranks of a team.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::parallel::team::Team;

/// Runs the same work on so many ranks, each a thread of this process, and returns what each of them makes.
///
/// # Panics
/// If one of them does: the others would wait for it for ever.
pub fn run_ranks<T: Send>(size: usize, work: impl Fn(&ThreadRank) -> T + Sync) -> Vec<T> {
    let table = Arc::new(Table::default());
    let member = |rank| ThreadRank { rank, size, table: Arc::clone(&table) };
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
pub struct ThreadRank {
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

impl ThreadRank {
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
