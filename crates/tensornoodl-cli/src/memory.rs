//! Refuses work that cannot fit before it starts, instead of being killed in the middle of it.

use anyhow::ensure;

/// An error if this many bytes are more than the machine has free.
pub(crate) fn check(bytes: f64) -> anyhow::Result<()> {
    // Where the system does not tell, only what no machine can address is refused.
    let free = available().unwrap_or(isize::MAX as f64);
    let gigabytes = |bytes: f64| bytes / 1e9;
    ensure!(
        bytes <= free,
        "this needs about {:.1} GB of memory, {:.1} GB are free; take fewer rows, cols, patterns or features",
        gigabytes(bytes),
        gigabytes(free)
    );
    Ok(())
}

/// Free memory in bytes, as Linux tells it.
fn available() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: f64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(1024.0 * kibibytes)
}

/// The most memory that this process has held so far, in bytes, as Linux tells it.
pub(crate) fn peak() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(1024 * kibibytes)
}
