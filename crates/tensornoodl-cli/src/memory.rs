//! Refuses work that does not fit into memory before it starts, instead of being killed in the middle of it.

use anyhow::ensure;
use sysinfo::{MemoryRefreshKind, System};
use tensornoodl::Team;
use tensornoodl::parallel::{agree, gather};

/// Checks that this many bytes of memory are free.
///
/// # Errors
/// If `bytes` is more than the machine and the control group of this process have free.
pub fn check(bytes: f64) -> anyhow::Result<()> {
    // Where the system does not tell, only what no machine can address is refused.
    let free = free().unwrap_or(isize::MAX as f64);
    let gigabytes = |bytes: f64| bytes / 1e9;
    ensure!(
        bytes <= free,
        "this needs about {:.1} GB of memory, {:.1} GB are free; take fewer rows, cols, patterns or features",
        gigabytes(bytes),
        gigabytes(free)
    );
    Ok(())
}

/// Checks that the memory of each machine holds what the ranks on it need; `bytes` is what this rank needs.
///
/// # Errors
/// On all ranks if one of their machines has too little memory.
pub fn check_all(team: &dyn Team, bytes: f64) -> anyhow::Result<()> {
    let machine = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let all = gather(team, (bytes, machine.clone()));
    let here = all.iter().filter(|(_, other)| *other == machine);
    agree(team, check(here.map(|(bytes, _)| bytes).sum()))
}

/// Returns the free memory in bytes: of the machine, or of the control group if that has less. None if the system
/// does not tell.
fn free() -> Option<f64> {
    let mut system = System::new();
    system.refresh_memory_specifics(MemoryRefreshKind::nothing().with_ram());
    let machine = Some(system.available_memory()).filter(|_| system.total_memory() > 0);
    // The cache of files counts as used memory of a control group, but can be freed; only the memory of processes
    // cannot.
    let group = system.cgroup_limits().map(|limits| limits.total_memory.saturating_sub(limits.rss));
    machine.into_iter().chain(group).min().map(|bytes| bytes as f64)
}

/// Returns the peak memory of this process so far, in bytes, as Linux tells it. None on other systems.
pub fn peak() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(1024 * kibibytes)
}
