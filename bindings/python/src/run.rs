//! Long work: without the interpreter's lock, on as many threads as asked for, and ended by Ctrl-C.

use std::collections::HashMap;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use tensornoodl::Stop;

use crate::mistake;

/// How long Ctrl-C waits at most before work is told.
const PATIENCE: Duration = Duration::from_millis(20);

/// Does the work on `jobs` threads, 0 for all cores. Other threads of Python go on meanwhile; Ctrl-C sets `stop`, and becomes a
/// `KeyboardInterrupt` once the work has ended.
pub(crate) fn run<T: Send>(
    py: Python<'_>,
    jobs: usize,
    stop: &Stop,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    let pool = pool(jobs)?;
    let (done, mut waiting) = mpsc::channel::<()>();
    let mut interrupt = None;
    // Signals come to the thread that called, so the work is done on others.
    let result = thread::scope(|scope| {
        let worker = scope.spawn(move || {
            let _done = done;
            pool.install(work)
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
        stop.clear();
        return Err(interrupt);
    }
    result.map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        mistake(text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic"))
    })
}

/// Threads are made once for each number of them and process: those of a parent process do not live in its children.
fn pool(jobs: usize) -> PyResult<Arc<ThreadPool>> {
    static POOLS: Mutex<Option<HashMap<(u32, usize), Arc<ThreadPool>>>> = Mutex::new(None);
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    let pools = pools.get_or_insert_default();
    let key = (std::process::id(), jobs);
    if let Some(pool) = pools.get(&key) {
        return Ok(Arc::clone(pool));
    }
    // A pool of the parent would wait for its threads for ever.
    let parents: Vec<(u32, usize)> = pools.keys().copied().filter(|known| known.0 != key.0).collect();
    parents.iter().filter_map(|key| pools.remove(key)).for_each(std::mem::forget);
    let pool = ThreadPoolBuilder::new().num_threads(jobs).build().map_err(mistake)?;
    Ok(Arc::clone(pools.entry(key).or_insert(Arc::new(pool))))
}
