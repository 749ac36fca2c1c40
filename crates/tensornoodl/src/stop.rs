//! A flag that ends long work from outside.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that ends long work, such as [`Learner::learn`](crate::Learner::learn), from another thread or a signal handler.
///
/// All clones share one flag. The work looks at the flag between two waves of fibers and between two rounds of a search; it
/// returns [`Error::Stopped`](crate::Error::Stopped) then and leaves everything as it was before the call.
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

/// All flags are equal: learners are compared by what they know, not by who may stop them.
impl PartialEq for Stop {
    fn eq(&self, _: &Stop) -> bool {
        true
    }
}
