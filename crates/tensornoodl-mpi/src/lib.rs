//! The team of an MPI job: `mpirun` or `srun` start as many processes, and this is how they speak to each other.
//!
//! MPI is called from the thread that began, and does not block as a rule: every exchange is begun, then asked for until it is
//! done. So a rank that does not come ends the job after a while instead of holding it up for ever, and is named. Calls that do
//! block, because a link is cut or a launcher is gone, are ended by a second thread, which does nothing else.

#![forbid(unsafe_code)]

use std::fmt;
use std::io::Write;
use std::os::unix::process::{CommandExt, parent_id};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use mpi::collective::SystemOperation;
use mpi::datatype::{Partition, PartitionMut};
use mpi::environment::Universe;
use mpi::point_to_point::{Destination, Source};
use mpi::request::{Request, Scope, StaticScope};
use mpi::topology::{Communicator, SimpleCommunicator};
use mpi::traits::CommunicatorCollectives;
use mpi::{Count, Rank, Threading};
use tensornoodl::Team;
use tensornoodl::parallel::Traffic;

/// Most elements of one message: MPI counts them in 32 bits.
const MOST: usize = Count::MAX as usize;

/// A rank of an MPI job.
pub struct Mpi {
    rank: usize,
    size: usize,
    thread: ThreadId,
    patience: Duration,
    watch: Arc<Watch>,
    most: usize,
    /// Exchanges so far.
    calls: AtomicU64,
    bytes: AtomicU64,
    nanos: AtomicU64,
}

/// What a rank is told that waits for long: which exchange another one waits in.
const WAITING: i32 = 7;

/// Tags of farewells.
const FAREWELL_TAGS: i32 = 8;

/// How long a rank that leaves waits for the others to leave with it.
const LEAVING: Duration = Duration::from_secs(3);

/// What a rank that gives up has more than patience: for the others to say so first, and for MPI to end them all.
const GRACE: Duration = Duration::from_secs(10);

/// How long an abort may take that cannot reach the others.
const FAREWELL: Duration = Duration::from_secs(5);

/// Keeps the job alive: MPI ends with it.
pub struct Job {
    watch: Arc<Watch>,
    #[expect(dead_code, reason = "it ends when it is dropped")]
    universe: Universe,
}

impl Drop for Job {
    fn drop(&mut self) {
        // The end waits for all ranks, as an exchange does.
        self.watch.stay();
    }
}

/// Knows whether the first thread is inside MPI, and ends the process if it stays there.
#[derive(Debug)]
struct Watch {
    /// Odd while it is inside; never the same twice.
    turn: AtomicU64,
    /// Milliseconds that it may stay.
    most: AtomicU64,
}

/// Leaves when it is dropped.
struct Inside<'a>(&'a Watch);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.turn.fetch_add(1, Ordering::Relaxed);
    }
}

impl Watch {
    /// How often it looks. It counts looks and not hours: those that a whole job is suspended for are nobody's fault.
    const TICK: Duration = Duration::from_millis(100);

    fn begin(patience: Duration) -> Arc<Watch> {
        let most = (patience + GRACE).as_millis() as u64;
        let watch = Arc::new(Watch { turn: AtomicU64::new(0), most: AtomicU64::new(most) });
        let eyes = Arc::clone(&watch);
        thread::spawn(move || eyes.look());
        watch
    }

    fn enter(&self) -> Inside<'_> {
        self.turn.fetch_add(1, Ordering::Relaxed);
        Inside(self)
    }

    /// Enters, wherever it is, and does not leave again.
    fn stay(&self) {
        let turn = self.turn.load(Ordering::Relaxed);
        self.turn.store((turn + 2) | 1, Ordering::Relaxed);
    }

    fn look(&self) -> ! {
        let (mut turn, mut waited) = (0, Duration::ZERO);
        loop {
            thread::sleep(Watch::TICK);
            let now = self.turn.load(Ordering::Relaxed);
            waited = if now == turn && now % 2 == 1 { waited + Watch::TICK } else { Duration::ZERO };
            turn = now;
            if waited >= Duration::from_millis(self.most.load(Ordering::Relaxed)) {
                tell(format_args!("MPI has not come back for {} s; this rank ends", waited.as_secs()));
                see_to_the_launcher();
                std::process::abort();
            }
        }
    }
}

/// Begins, once in a process and on its first thread. A rank that does not come to an exchange for `patience` ends the job. It must be
/// longer than what ranks compute between two exchanges may differ by: one that computes cannot be told from one that hangs.
///
/// From now on a panic ends the job as well; unwinding would wait for the others for ever.
pub fn begin(patience: Duration) -> Result<(Job, Mpi), String> {
    let watch = Watch::begin(patience);
    let begun = {
        let _inside = watch.enter();
        mpi::initialize_with_threading(Threading::Funneled)
    };
    let (universe, threading) = begun.ok_or("MPI has begun already")?;
    if threading < Threading::Funneled {
        return Err("this MPI does not allow for threads (MPI_THREAD_FUNNELED)".into());
    }
    let world = universe.world();
    let (rank, size) = (world.rank() as usize, world.size() as usize);
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        usual(panic);
        tell(format_args!("rank {rank} of {size} has panicked, which ends the job"));
        // Whichever thread it was: only the first one may speak to MPI.
        std::process::abort();
    }));
    let mpi = Mpi {
        rank,
        size,
        thread: thread::current().id(),
        patience,
        watch: Arc::clone(&watch),
        most: MOST,
        calls: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        nanos: AtomicU64::new(0),
    };
    Ok((Job { watch, universe }, mpi))
}

/// One line, if anyone listens.
fn tell(line: fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "noodl: {line}");
}

/// When ranks do not come because a host is cut off, Open MPI's launcher waits for its helper there, and the helper for it, for a quarter
/// of an hour after all ranks have ended. So a process that outlives this one asks the parent of it to end, if it has not by then.
fn see_to_the_launcher() {
    let script = "sleep 10; case $(cat /proc/$0/comm) in mpirun|mpiexec|orterun|orted|prterun|prted) \
                  kill -TERM $0; sleep 3; kill -KILL $0;; esac";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, &parent_id().to_string()]);
    // Nothing of it is the job's: not the group, the variables, or the pipes that the launcher listens to.
    shell.process_group(0).env_clear().envs(std::env::vars_os().filter(|(name, _)| name == "PATH"));
    let _ = shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
}

impl fmt::Debug for Mpi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {}", self.rank, self.size)
    }
}

impl Mpi {
    /// With messages of so many elements at most, for tests.
    pub fn with_most(self, most: usize) -> Mpi {
        Mpi { most: most.clamp(1, MOST), ..self }
    }

    /// Tells all others that this rank leaves, with some word, and hears theirs; none if they do not leave, too. There may be several
    /// rounds, from 0. In whatever exchange the others are, it is not disturbed.
    pub fn farewell(&self, round: i32, word: u64) -> Option<Vec<u64>> {
        let (world, tag) = (self.world(), FAREWELL_TAGS + round);
        let mut words = vec![None; self.size];
        words[self.rank] = Some(word);
        (0..self.size).filter(|&to| to != self.rank).for_each(|to| post(&world, to, word, tag));
        let begun = Instant::now();
        while words.contains(&None) && begun.elapsed() < LEAVING {
            while let Some((from, word)) = posted(&world, tag) {
                words[from] = Some(word);
            }
            thread::sleep(Duration::from_micros(100));
        }
        words.into_iter().collect()
    }

    /// Ends the job, all ranks of it, with this exit code.
    pub fn abort(&self, code: i32) -> ! {
        self.watch.most.store(FAREWELL.as_millis() as u64, Ordering::Relaxed);
        self.watch.stay();
        self.world().abort(code)
    }

    fn world(&self) -> SimpleCommunicator {
        assert_eq!(thread::current().id(), self.thread, "only the thread that began speaks to MPI");
        SimpleCommunicator::world()
    }

    /// Waits for an exchange that was begun.
    fn wait<'a, D: ?Sized, S: Scope<'a>>(
        &self,
        world: &SimpleCommunicator,
        call: u64,
        mut request: Request<'a, D, S>,
    ) {
        let (mut waited, mut looked) = (Duration::ZERO, Instant::now());
        let mut told = false;
        let mut here = vec![false; self.size];
        here[self.rank] = true;
        loop {
            match request.test() {
                Ok(_) => return,
                Err(pending) => request = pending,
            }
            // As long as it takes between two looks: more is time in which this rank was suspended itself.
            let now = Instant::now();
            waited += (now - looked).min(Duration::from_secs(1));
            looked = now;
            // The others are near as a rule; then cores are for those that work.
            match waited.as_micros() {
                0..50 => std::hint::spin_loop(),
                50..2000 => thread::yield_now(),
                _ => thread::sleep(Duration::from_micros(100)),
            }
            if waited < self.patience / 2 {
                continue;
            }
            if !std::mem::replace(&mut told, true) {
                self.say(world, call);
            }
            self.listen(world, call, &mut here);
            // Who is missing is known to the first two; the others leave it to them.
            let grace = if self.rank < 2 { Duration::ZERO } else { Duration::from_secs(2) };
            if waited >= self.patience + grace {
                self.give_up(call, &here);
            }
        }
    }

    /// Tells the first two ranks that this one waits.
    fn say(&self, world: &SimpleCommunicator, call: u64) {
        (0..self.size.min(2)).filter(|&to| to != self.rank).for_each(|to| post(world, to, call, WAITING));
    }

    fn listen(&self, world: &SimpleCommunicator, call: u64, here: &mut [bool]) {
        while let Some((from, their)) = posted(world, WAITING) {
            // Some are through with an exchange that others still wait in; words of long ago do not count.
            here[from] |= their + 1 >= call;
        }
    }

    fn give_up(&self, call: u64, here: &[bool]) -> ! {
        let missing: Vec<String> =
            (0..self.size).filter(|&rank| !here[rank]).map(|rank| rank.to_string()).collect();
        let who = match (self.rank, missing.len()) {
            (2.., _) => "another rank".into(),
            (_, 1) => format!("rank {}", missing[0]),
            _ => format!("ranks {}", missing.join(", ")),
        };
        tell(format_args!(
            "rank {} of {} has waited {} s for {who} in exchange {call}: stopped, stuck, or cut off; the job ends",
            self.rank,
            self.size,
            self.patience.as_secs()
        ));
        see_to_the_launcher();
        self.abort(1)
    }

    /// Makes an exchange, which is told its number.
    fn call(&self, bytes: usize, exchange: impl FnOnce(u64)) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let _inside = self.watch.enter();
        let begun = Instant::now();
        exchange(call);
        self.nanos.fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }

    /// Most bytes for each rank in one message to all.
    fn piece(&self) -> u64 {
        (self.most / self.size).max(1) as u64
    }

    fn reduce<T: mpi::traits::Equivalence + Copy>(&self, numbers: &mut [T], with: SystemOperation) {
        let world = self.world();
        let own = numbers.to_vec();
        for (own, all) in own.chunks(self.most).zip(numbers.chunks_mut(self.most)) {
            self.call(size_of_val(own), |call| {
                mpi::request::scope(|scope| {
                    let request = world.immediate_all_reduce_into(scope, own, all, with);
                    self.wait(&world, call, request);
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
            exchanges: self.calls.load(Ordering::Relaxed),
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
        assert_eq!(parcels.len(), self.size, "a parcel for every rank");
        let world = self.world();
        let lengths: Vec<u64> = parcels.iter().map(|parcel| parcel.len() as u64).collect();
        let mut theirs = vec![0_u64; self.size];
        self.call(8 * self.size, |call| {
            mpi::request::scope(|scope| {
                let request = world.immediate_all_to_all_into(scope, &lengths[..], &mut theirs[..]);
                self.wait(&world, call, request);
            });
        });
        // Rounds of pieces whose sum can be counted; as many for everyone.
        let piece = self.piece();
        let longest = lengths.iter().chain(&theirs).max().copied().unwrap_or(0);
        let mut rounds = [longest.div_ceil(piece)];
        self.reduce(&mut rounds, SystemOperation::max());
        let mut received = empty(&theirs);
        for round in 0..rounds[0] {
            let (send, send_starts) = layout(&lengths, piece, round);
            let (receive, receive_starts) = layout(&theirs, piece, round);
            let mut out = message(0);
            parcels.iter().for_each(|parcel| out.extend_from_slice(part(parcel, piece, round)));
            let mut into = message(receive.iter().sum());
            let all = Partition::new(&out[..], &send[..], &send_starts[..]);
            let mut mine = PartitionMut::new(&mut into[..], &receive[..], &receive_starts[..]);
            self.call(out.len(), |call| {
                mpi::request::scope(|scope| {
                    let request = world.immediate_all_to_all_varcount_into(scope, &all, &mut mine);
                    self.wait(&world, call, request);
                });
            });
            take(&mut received, &into, &receive, &receive_starts);
        }
        received
    }

    fn gather(&self, own: Vec<u8>) -> Vec<Vec<u8>> {
        let world = self.world();
        let length = own.len() as u64;
        let mut lengths = vec![0_u64; self.size];
        self.call(8, |call| {
            mpi::request::scope(|scope| {
                let request = world.immediate_all_gather_into(scope, &length, &mut lengths[..]);
                self.wait(&world, call, request);
            });
        });
        let piece = self.piece();
        let longest = lengths.iter().max().copied().unwrap_or(0);
        let mut received = empty(&lengths);
        for round in 0..longest.div_ceil(piece) {
            let (receive, starts) = layout(&lengths, piece, round);
            let mut out = message(0);
            out.extend_from_slice(part(&own, piece, round));
            let mut into = message(receive.iter().sum());
            let mut all = PartitionMut::new(&mut into[..], &receive[..], &starts[..]);
            self.call(out.len(), |call| {
                mpi::request::scope(|scope| {
                    let request = world.immediate_all_gather_varcount_into(scope, &out[..], &mut all);
                    self.wait(&world, call, request);
                });
            });
            take(&mut received, &into, &receive, &starts);
        }
        received
    }
}

/// Sends a word. Nobody asks what becomes of it: the job is about to end, or it arrives.
fn post(world: &SimpleCommunicator, to: usize, word: u64, tag: i32) {
    let word: &'static u64 = Box::leak(Box::new(word));
    let to = world.process_at_rank(to as Rank);
    std::mem::forget(to.immediate_send_with_tag(StaticScope, word, tag));
}

/// A word that has arrived, and from whom.
fn posted(world: &SimpleCommunicator, tag: i32) -> Option<(usize, u64)> {
    let from = world.any_process().immediate_probe_with_tag(tag)?.source_rank();
    let (word, _) = world.process_at_rank(from).receive_with_tag(tag);
    Some((from as usize, word))
}

/// Memory for so many bytes, and some if there are none: the address of nothing is 1, which says something else to Open MPI (MPI_IN_PLACE).
fn message(bytes: Count) -> Vec<u8> {
    let mut message = Vec::with_capacity(1.max(bytes as usize));
    message.resize(bytes as usize, 0);
    message
}

/// Room for parcels of these lengths.
fn empty(lengths: &[u64]) -> Vec<Vec<u8>> {
    lengths.iter().map(|length| Vec::with_capacity(*length as usize)).collect()
}

/// The piece of a parcel that goes in this round.
fn part(parcel: &[u8], piece: u64, round: u64) -> &[u8] {
    let from = (round * piece).min(parcel.len() as u64) as usize;
    &parcel[from..parcel.len().min(from + piece as usize)]
}

/// How long the pieces of this round are, and where each begins.
fn layout(lengths: &[u64], piece: u64, round: u64) -> (Vec<Count>, Vec<Count>) {
    let count = |length: &u64| length.saturating_sub(round * piece).min(piece) as Count;
    let counts: Vec<Count> = lengths.iter().map(count).collect();
    let starts = counts.iter().scan(0, |sum, count| Some(std::mem::replace(sum, *sum + count))).collect();
    (counts, starts)
}

/// Puts pieces to those that came before.
fn take(received: &mut [Vec<u8>], pieces: &[u8], counts: &[Count], starts: &[Count]) {
    for ((parcel, count), start) in received.iter_mut().zip(counts).zip(starts) {
        parcel.extend_from_slice(&pieces[*start as usize..][..*count as usize]);
    }
}
