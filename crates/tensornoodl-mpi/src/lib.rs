//! The team of an MPI job: `mpirun` or `srun` starts several processes, the ranks, and this crate lets them
//! communicate.
//!
//! Only the thread that called [`begin`] calls MPI, and its calls do not block as a rule: every exchange is started,
//! then polled until it is complete. A rank that does not arrive at an exchange therefore ends the job after a while,
//! with a message that names it, instead of blocking the job forever. Calls that block nevertheless, because a link
//! is cut or a launcher is gone, are ended by a second thread, the watchdog.

#![forbid(unsafe_code)]

mod messages;
mod watchdog;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use mpi::collective::SystemOperation;
use mpi::datatype::{Partition, PartitionMut};
use mpi::environment::Universe;
use mpi::request::{Request, Scope};
use mpi::topology::{Communicator, SimpleCommunicator};
use mpi::traits::CommunicatorCollectives;
use mpi::{Count, Threading};
use tensornoodl::Team;
use tensornoodl::parallel::Traffic;

use crate::messages::{append_pieces, buffer, empty_parcels, layout, piece_of, receive_number, send_number};
use crate::watchdog::{Watchdog, end_launcher_later, report};

/// Largest number of elements of one message: MPI counts them in 32 bits.
const MOST_ELEMENTS: usize = Count::MAX as usize;

/// Tag of messages that say which exchange a rank is waiting in.
const WAITING_TAG: i32 = 7;

/// Tag of the first round of farewells; the next rounds have the next tags.
const FAREWELL_TAG: i32 = 8;

/// How long a rank that leaves waits for the others to leave, too.
const FAREWELL_LIMIT: Duration = Duration::from_secs(3);

/// Ranks that collect who waits, and report who is missing.
const REPORTING_RANKS: usize = 2;

/// How much longer than the reporting ranks the other ranks wait before they give up.
const REPORTING_TIME: Duration = Duration::from_secs(2);

/// A rank of an MPI job.
pub struct Mpi {
    rank: usize,
    size: usize,
    /// The only thread that may call MPI.
    thread: ThreadId,
    patience: Duration,
    watchdog: Arc<Watchdog>,
    /// Largest number of elements of one message.
    most_elements: usize,
    /// Number of exchanges so far.
    exchanges: AtomicU64,
    /// Bytes sent so far.
    bytes: AtomicU64,
    /// Time spent in exchanges so far, in nanoseconds.
    nanos: AtomicU64,
}

/// An MPI job; MPI is finalized when this is dropped.
pub struct Job {
    watchdog: Arc<Watchdog>,
    #[expect(dead_code, reason = "MPI is finalized when it is dropped")]
    universe: Universe,
}

impl Drop for Job {
    fn drop(&mut self) {
        // MPI_Finalize waits for all ranks, as an exchange does.
        self.watchdog.enter_for_good();
    }
}

/// Initializes MPI. It must be called once in a process, on its first thread.
///
/// A rank that does not start or does not arrive at an exchange for `patience` ends the job. Choose `patience` longer than the
/// difference in computing time of two ranks between two exchanges: a rank that computes cannot be told from one that
/// hangs.
///
/// From now on, a panic of any thread ends the job, because unwinding would wait for the other ranks forever.
///
/// # Errors
///
/// If MPI is initialized already, or does not support MPI_THREAD_FUNNELED.
pub fn begin(patience: Duration) -> Result<(Job, Mpi), String> {
    let watchdog = Watchdog::start(patience);
    let initialized = {
        // The first call that the watchdog sees: it connects the ranks.
        let _inside = watchdog.enter();
        mpi::initialize_with_threading(Threading::Funneled)
    };
    let (universe, threading) = initialized.ok_or("MPI is initialized already: begin must be called once")?;
    if threading < Threading::Funneled {
        return Err("this MPI library does not support threads (MPI_THREAD_FUNNELED)".into());
    }
    let world = universe.world();
    let (rank, size) = (world.rank() as usize, world.size() as usize);
    abort_on_panic(rank, size);
    let mpi = Mpi {
        rank,
        size,
        thread: thread::current().id(),
        patience,
        watchdog: Arc::clone(&watchdog),
        most_elements: MOST_ELEMENTS,
        exchanges: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        nanos: AtomicU64::new(0),
    };
    Ok((Job { watchdog, universe }, mpi))
}

/// Makes a panic end the process, after the usual message. MPI is not told, because any thread may panic and only the
/// first one may call MPI.
fn abort_on_panic(rank: usize, size: usize) {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        usual(panic);
        report(format_args!("rank {rank} of {size} has panicked, which ends the job"));
        std::process::abort();
    }));
}

impl fmt::Debug for Mpi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {}", self.rank, self.size)
    }
}

impl Mpi {
    /// Limits messages to `most` elements, so that tests can exchange parcels in several pieces.
    pub fn with_most(self, most: usize) -> Mpi {
        Mpi { most_elements: most.clamp(1, MOST_ELEMENTS), ..self }
    }

    /// Tells all other ranks that this one leaves, with a number, and returns the numbers of all ranks, or `None` if
    /// not all of them leave within 3 seconds. Ranks that are in an exchange are not disturbed. Rounds count from 0.
    pub fn farewell(&self, round: i32, number: u64) -> Option<Vec<u64>> {
        let (world, tag) = (self.world(), FAREWELL_TAG + round);
        let mut numbers = vec![None; self.size];
        numbers[self.rank] = Some(number);
        (0..self.size).filter(|&to| to != self.rank).for_each(|to| send_number(&world, to, number, tag));
        let begun = Instant::now();
        while numbers.contains(&None) && begun.elapsed() < FAREWELL_LIMIT {
            while let Some((from, number)) = receive_number(&world, tag) {
                numbers[from] = Some(number);
            }
            thread::sleep(Duration::from_micros(100));
        }
        numbers.into_iter().collect()
    }

    /// Ends all ranks of the job with this exit code.
    pub fn abort(&self, code: i32) -> ! {
        self.watchdog.enter_abort();
        self.world().abort(code)
    }

    fn world(&self) -> SimpleCommunicator {
        assert_eq!(thread::current().id(), self.thread, "only the thread that called begin may call MPI");
        SimpleCommunicator::world()
    }

    /// Waits until an exchange is complete, and ends the job if that takes longer than `patience`.
    fn wait<'a, D: ?Sized, S: Scope<'a>>(
        &self,
        world: &SimpleCommunicator,
        exchange: u64,
        mut request: Request<'a, D, S>,
    ) {
        let (mut waited, mut polled) = (Duration::ZERO, Instant::now());
        let mut announced = false;
        let mut arrived = vec![false; self.size];
        arrived[self.rank] = true;
        loop {
            match request.test() {
                Ok(_) => return,
                Err(pending) => request = pending,
            }
            // Two polls are never a second apart, unless this rank itself was suspended in between.
            let now = Instant::now();
            waited += (now - polled).min(Duration::from_secs(1));
            polled = now;
            // The other ranks usually arrive soon; after that, leave the core to those that compute.
            match waited.as_micros() {
                0..50 => std::hint::spin_loop(),
                50..2000 => thread::yield_now(),
                _ => thread::sleep(Duration::from_micros(100)),
            }
            if waited < self.patience / 2 {
                continue;
            }
            if !std::mem::replace(&mut announced, true) {
                self.announce_waiting(world, exchange);
            }
            self.note_arrived(world, exchange, &mut arrived);
            // Only the reporting ranks know who is missing, so the others let them speak first.
            let grace = if self.rank < REPORTING_RANKS { Duration::ZERO } else { REPORTING_TIME };
            if waited >= self.patience + grace {
                self.give_up(exchange, &arrived);
            }
        }
    }

    /// Tells the reporting ranks that this rank waits in an exchange.
    fn announce_waiting(&self, world: &SimpleCommunicator, exchange: u64) {
        (0..self.size.min(REPORTING_RANKS))
            .filter(|&to| to != self.rank)
            .for_each(|to| send_number(world, to, exchange, WAITING_TAG));
    }

    /// Marks the ranks that have announced that they wait in an exchange.
    fn note_arrived(&self, world: &SimpleCommunicator, exchange: u64, arrived: &mut [bool]) {
        while let Some((from, theirs)) = receive_number(world, WAITING_TAG) {
            // A rank may still be in the exchange before, which this one has completed; older announcements do not
            // count.
            arrived[from] |= theirs + 1 >= exchange;
        }
    }

    /// Reports the missing ranks, and ends the job.
    fn give_up(&self, exchange: u64, arrived: &[bool]) -> ! {
        let missing: Vec<String> =
            (0..self.size).filter(|&rank| !arrived[rank]).map(|rank| rank.to_string()).collect();
        let who = match missing.as_slice() {
            _ if self.rank >= REPORTING_RANKS => "another rank".into(),
            [rank] => format!("rank {rank}"),
            _ => format!("ranks {}", missing.join(", ")),
        };
        report(format_args!(
            "rank {} of {} has waited {} s for {who} in exchange {exchange}: stopped, stuck, or cut off; the job ends",
            self.rank,
            self.size,
            self.patience.as_secs()
        ));
        end_launcher_later();
        self.abort(1)
    }

    /// Performs and counts an exchange in which this rank sends `bytes`. The closure gets the number of the exchange,
    /// from 1.
    fn counted(&self, bytes: usize, perform: impl FnOnce(u64)) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let exchange = self.exchanges.fetch_add(1, Ordering::Relaxed) + 1;
        let _inside = self.watchdog.enter();
        let begun = Instant::now();
        perform(exchange);
        self.nanos.fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }

    /// Returns the largest number of bytes for each rank in one message to all ranks.
    fn piece(&self) -> u64 {
        (self.most_elements / self.size).max(1) as u64
    }

    /// Combines the numbers of all ranks, element by element; every rank gets the result.
    fn reduce<T: mpi::traits::Equivalence + Copy>(&self, numbers: &mut [T], with: SystemOperation) {
        let world = self.world();
        let own = numbers.to_vec();
        for (own, all) in own.chunks(self.most_elements).zip(numbers.chunks_mut(self.most_elements)) {
            self.counted(size_of_val(own), |exchange| {
                mpi::request::scope(|scope| {
                    let request = world.immediate_all_reduce_into(scope, own, all, with);
                    self.wait(&world, exchange, request);
                });
            });
        }
    }
}

impl Team for Mpi {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn traffic(&self) -> Traffic {
        Traffic {
            exchanges: self.exchanges.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            time: Duration::from_nanos(self.nanos.load(Ordering::Relaxed)),
        }
    }

    fn sum(&self, numbers: &mut [i64]) {
        self.reduce(numbers, SystemOperation::sum());
    }

    fn max(&self, numbers: &mut [i8]) {
        self.reduce(numbers, SystemOperation::max());
    }

    fn exchange(&self, parcels: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        assert_eq!(parcels.len(), self.size, "exchange needs one parcel for each rank");
        let world = self.world();
        let lengths: Vec<u64> = parcels.iter().map(|parcel| parcel.len() as u64).collect();
        let mut theirs = vec![0_u64; self.size];
        self.counted(8 * self.size, |exchange| {
            mpi::request::scope(|scope| {
                let request = world.immediate_all_to_all_into(scope, &lengths[..], &mut theirs[..]);
                self.wait(&world, exchange, request);
            });
        });
        // Each round sends one piece of every parcel, so that a message is not too long. All ranks need the same
        // number of rounds.
        let piece = self.piece();
        let longest = lengths.iter().chain(&theirs).max().copied().unwrap_or(0);
        let mut rounds = [longest.div_ceil(piece)];
        self.reduce(&mut rounds, SystemOperation::max());
        let mut received = empty_parcels(&theirs);
        for round in 0..rounds[0] {
            let (send, send_starts) = layout(&lengths, piece, round);
            let (receive, receive_starts) = layout(&theirs, piece, round);
            let mut out = buffer(0);
            parcels.iter().for_each(|parcel| out.extend_from_slice(piece_of(parcel, piece, round)));
            let mut into = buffer(receive.iter().sum());
            let all = Partition::new(&out[..], &send[..], &send_starts[..]);
            let mut mine = PartitionMut::new(&mut into[..], &receive[..], &receive_starts[..]);
            self.counted(out.len(), |exchange| {
                mpi::request::scope(|scope| {
                    let request = world.immediate_all_to_all_varcount_into(scope, &all, &mut mine);
                    self.wait(&world, exchange, request);
                });
            });
            append_pieces(&mut received, &into, &receive, &receive_starts);
        }
        received
    }

    fn gather(&self, own: Vec<u8>) -> Vec<Vec<u8>> {
        let world = self.world();
        let length = own.len() as u64;
        let mut lengths = vec![0_u64; self.size];
        self.counted(8, |exchange| {
            mpi::request::scope(|scope| {
                let request = world.immediate_all_gather_into(scope, &length, &mut lengths[..]);
                self.wait(&world, exchange, request);
            });
        });
        let piece = self.piece();
        let longest = lengths.iter().max().copied().unwrap_or(0);
        let mut received = empty_parcels(&lengths);
        for round in 0..longest.div_ceil(piece) {
            let (receive, starts) = layout(&lengths, piece, round);
            let mut out = buffer(0);
            out.extend_from_slice(piece_of(&own, piece, round));
            let mut into = buffer(receive.iter().sum());
            let mut all = PartitionMut::new(&mut into[..], &receive[..], &starts[..]);
            self.counted(out.len(), |exchange| {
                mpi::request::scope(|scope| {
                    let request = world.immediate_all_gather_varcount_into(scope, &out[..], &mut all);
                    self.wait(&world, exchange, request);
                });
            });
            append_pieces(&mut received, &into, &receive, &starts);
        }
        received
    }
}
