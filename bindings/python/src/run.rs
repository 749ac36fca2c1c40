//! Long work: without the interpreter's lock, on as many threads as asked for, and ended by Ctrl-C.

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError, RwLock, TryLockError};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use tensornoodl::Stop;

use crate::mistake;

/// By process and number of threads.
type Pools = HashMap<(u32, usize), Arc<ThreadPool>>;

/// How long Ctrl-C waits at most before work is told.
const PATIENCE: Duration = Duration::from_millis(20);

/// Does the work, which is given `jobs` threads, 0 for all cores. Other threads of Python go on meanwhile; Ctrl-C sets `stop`, and
/// becomes a `KeyboardInterrupt` once the work has ended.
///
/// Locks are taken before the threads are entered: a thread that waits there for a part of its work may take up other work, which
/// would wait for the lock that it holds itself.
pub(crate) fn run<T: Send>(
    py: Python<'_>,
    jobs: usize,
    stop: &Stop,
    work: impl FnOnce(&ThreadPool) -> T + Send,
) -> PyResult<T> {
    let pool = pool(jobs)?;
    let (done, mut waiting) = mpsc::channel::<()>();
    let mut interrupt = None;
    // Signals come to the thread that called, so the work is done on others.
    let result = thread::scope(|scope| {
        let worker = scope.spawn(move || {
            let _done = done;
            work(&pool)
        });
        loop {
            let ended;
            (waiting, ended) = py.detach(move || {
                let ended = waiting.recv_timeout(PATIENCE) != Err(RecvTimeoutError::Timeout);
                (waiting, ended)
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
        mistake(text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic"))
    })
}

/// A value that threads share; what reads it waits for what changes it, and Ctrl-C ends the waiting.
pub(crate) fn read<T, R>(
    py: Python<'_>,
    value: &RwLock<T>,
    look: impl FnOnce(&T) -> PyResult<R>,
) -> PyResult<R>
where
    T: Sync + Send,
{
    loop {
        match value.try_read() {
            Ok(value) => return look(&value),
            Err(TryLockError::Poisoned(error)) => return Err(mistake(error)),
            Err(TryLockError::WouldBlock) => {
                py.detach(|| thread::sleep(Duration::from_millis(1)));
                py.check_signals()?;
            }
        }
    }
}

/// Most threads for each core: more only wait for each other.
const MOST_PER_CORE: usize = 4;

/// Threads are made once for each number of them and process: those of a parent process do not live in its children.
fn pool(jobs: usize) -> PyResult<Arc<ThreadPool>> {
    static POOLS: Mutex<Option<Pools>> = Mutex::new(None);
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    let pools = pools.get_or_insert_default();
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let key = (std::process::id(), jobs.min(MOST_PER_CORE * cores));
    if let Some(pool) = pools.get(&key) {
        return Ok(Arc::clone(pool));
    }
    // A pool of the parent would wait for its threads for ever.
    let parents: Vec<(u32, usize)> = pools.keys().copied().filter(|known| known.0 != key.0).collect();
    parents.iter().filter_map(|key| pools.remove(key)).for_each(std::mem::forget);
    let pool = ThreadPoolBuilder::new().num_threads(key.1).build().map_err(mistake)?;
    Ok(Arc::clone(pools.entry(key).or_insert(Arc::new(pool))))
}
