//! A flag that ends long work from outside.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that ends long work, such as [`Learner::learn`](crate::Learner::learn), from another thread or a signal
/// handler.
///
/// All clones share one flag. The work checks the flag between two waves of fibers, and between two rounds of the
/// search for the first patterns. If the flag is set, the work returns [`Error::Stopped`](crate::Error::Stopped) and
/// leaves everything as it was before.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Sets the flag: work that uses it ends.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the flag is set.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Uses an existing flag, such as the one that a signal handler sets.
impl From<Arc<AtomicBool>> for Stop {
    fn from(flag: Arc<AtomicBool>) -> Stop {
        Stop(flag)
    }
}

/// All flags are equal: the stop flag is ignored when learners are compared.
impl PartialEq for Stop {
    fn eq(&self, _: &Stop) -> bool {
        true
    }
}
