//! Times of work, and their median.

use std::time::Instant;

/// Returns the seconds that some work takes.
pub(crate) fn seconds<T>(work: impl FnOnce() -> T) -> f64 {
    let begun = Instant::now();
    work();
    begun.elapsed().as_secs_f64()
}

/// Returns the median of at least one value.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
