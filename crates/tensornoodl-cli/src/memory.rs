//! Refuses work that cannot fit before it starts, instead of being killed in the middle of it.

use anyhow::ensure;
use tensornoodl::Team;
use tensornoodl::parallel::agree;

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

/// The same for the ranks of a team, each with needs of its own: an error on all if one of their machines has too little.
pub(crate) fn check_all(team: &dyn Team, bytes: f64) -> anyhow::Result<()> {
    let machine = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let all = team.gather([&bytes.to_le_bytes(), &machine[..]].concat());
    let here = all.iter().filter_map(|own| own.split_first_chunk()).filter(|(_, its)| *its == machine);
    agree(team, check(here.map(|(bytes, _)| f64::from_le_bytes(*bytes)).sum()))
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
