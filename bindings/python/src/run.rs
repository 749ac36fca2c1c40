//! Long computations: they release the interpreter lock, run on a given number of threads, and end on Ctrl-C.

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError, RwLock, TryLockError};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use tensornoodl::Stop;

use crate::errors::internal_error;

/// Thread pools by process id and number of threads.
type Pools = HashMap<(u32, usize), Arc<ThreadPool>>;

/// Time between two checks for Ctrl-C.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(20);

/// Runs `work` with a pool of `jobs` threads; 0 means one thread for each core. Other threads of Python continue
/// meanwhile. Ctrl-C sets `stop`, and raises `KeyboardInterrupt` once the work has ended.
///
/// `work` must take its locks outside of the pool: a thread of the pool that waits for a part of its work may start
/// other work, which would wait for a lock that the thread itself holds.
///
/// # Errors
///
/// `KeyboardInterrupt` after Ctrl-C, and `RuntimeError` if `work` panics.
pub(crate) fn run<T: Send>(
    py: Python<'_>,
    jobs: usize,
    stop: &Stop,
    work: impl FnOnce(&ThreadPool) -> T + Send,
) -> PyResult<T> {
    let pool = pool(jobs)?;
    // The worker never sends: the channel is closed when it ends.
    let (open, mut closed) = mpsc::channel::<()>();
    let mut interrupt = None;
    // Python handles signals on the calling thread, so the work runs on another one.
    let result = thread::scope(|scope| {
        let worker = scope.spawn(move || {
            let _open = open;
            work(&pool)
        });
        loop {
            let ended;
            (closed, ended) = py.detach(move || {
                let ended = closed.recv_timeout(SIGNAL_INTERVAL) != Err(RecvTimeoutError::Timeout);
                (closed, ended)
            });
            if ended {
                break;
            }
            if let Err(error) = py.check_signals() {
                stop.set();
                interrupt = Some(error);
            }
        }
        py.detach(move || worker.join())
    });
    if let Some(interrupt) = interrupt {
        return Err(interrupt);
    }
    result.map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        internal_error(text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic"))
    })
}

/// Reads a value that threads share. It waits while another thread changes the value; Ctrl-C ends the waiting.
pub(crate) fn read<T, R>(
    py: Python<'_>,
    value: &RwLock<T>,
    view: impl FnOnce(&T) -> PyResult<R>,
) -> PyResult<R>
where
    T: Sync + Send,
{
    loop {
        match value.try_read() {
            Ok(value) => return view(&value),
            Err(TryLockError::Poisoned(error)) => return Err(internal_error(error)),
            Err(TryLockError::WouldBlock) => {
                py.detach(|| thread::sleep(Duration::from_millis(1)));
                py.check_signals()?;
            }
        }
    }
}

/// Largest number of threads for each core; more threads would only wait for each other.
const MOST_THREADS_PER_CORE: usize = 4;

/// Returns the pool of `jobs` threads. Each process creates its pools once, because threads do not survive a fork.
fn pool(jobs: usize) -> PyResult<Arc<ThreadPool>> {
    static POOLS: Mutex<Option<Pools>> = Mutex::new(None);
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    let pools = pools.get_or_insert_default();
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let key = (std::process::id(), jobs.min(MOST_THREADS_PER_CORE * cores));
    if let Some(pool) = pools.get(&key) {
        return Ok(Arc::clone(pool));
    }
    // Dropping a pool of the parent process would wait for threads that do not exist here.
    let parents: Vec<(u32, usize)> = pools.keys().copied().filter(|known| known.0 != key.0).collect();
    parents.iter().filter_map(|key| pools.remove(key)).for_each(std::mem::forget);
    let pool = ThreadPoolBuilder::new().num_threads(key.1).build().map_err(internal_error)?;
    Ok(Arc::clone(pools.entry(key).or_insert(Arc::new(pool))))
}
