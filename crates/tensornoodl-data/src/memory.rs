//! Memory that this process may still take: work that does not fit is refused before it starts, instead of being killed in
//! the middle of it.
//!
//! The memory is the least of what the machine has, what each control group of the process allows, and what the limits of
//! the process (`ulimit -v` and `ulimit -d`) allow. Control groups and limits are read from the files of Linux.

use std::fs;
use std::path::Path;

use sysinfo::{MemoryRefreshKind, System};

use crate::error::Error;

/// Fewer bytes are never refused. As many are kept free for all that is too small to be checked.
const SMALL: u64 = 32 << 20;

/// Checks that this many bytes of memory are free.
///
/// # Errors
/// [`Error::Memory`] if fewer bytes are free for this process.
pub fn check(bytes: f64) -> Result<(), Error> {
    if bytes < SMALL as f64 {
        return Ok(());
    }
    // Where the system does not tell, only what no machine can address is refused.
    let free = free().map_or(isize::MAX as f64, |free| free.saturating_sub(SMALL) as f64);
    if bytes <= free { Ok(()) } else { Err(Error::Memory { needed: bytes, free }) }
}

/// Returns the peak memory of this process so far, in bytes, as Linux tells it. None on other systems.
pub fn peak() -> Option<u64> {
    Some(1024 * number_after(&fs::read_to_string("/proc/self/status").ok()?, "VmHWM:")?)
}

/// Watches memory that grows while a table is read.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    held: usize,
    checked: usize,
}

impl Watch {
    /// Adds bytes to what is held. Now and then checks that as much as is held is free, because a table takes twice its
    /// size while it grows.
    ///
    /// # Errors
    /// [`Error::Memory`] if less is free.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Error> {
        self.held += bytes;
        if self.held - self.checked < SMALL as usize {
            return Ok(());
        }
        self.checked = self.held;
        check(self.held as f64)
    }
}

/// Returns the free memory in bytes. None if the system does not tell.
fn free() -> Option<u64> {
    let mut system = System::new();
    system.refresh_memory_specifics(MemoryRefreshKind::nothing().with_ram());
    let machine = Some(system.available_memory()).filter(|_| system.total_memory() > 0);
    let read = |name: &str| fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
    let groups = free_in_groups(&read("cgroup"), Path::new("/sys/fs/cgroup"));
    let limits = free_in_limits(&read("limits"), &read("status"));
    machine.into_iter().chain(groups).chain(limits).min()
}

/// Returns what each control group allows, from the list of the groups of a process and the folder of all groups.
fn free_in_groups(list: &str, root: &Path) -> Vec<u64> {
    let mut free = Vec::new();
    for line in list.lines() {
        // Such as 0::/user/job in version 2, and 4:memory:/user/job in version 1.
        let mut parts = line.splitn(3, ':').skip(1);
        let (kind, group) = (parts.next().unwrap_or(""), parts.next().unwrap_or("").trim_start_matches('/'));
        let (root, limit, held) = match kind {
            "" => (root.to_owned(), "memory.max", "anon "),
            _ if kind.split(',').any(|kind| kind == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes", "total_rss ")
            }
            _ => continue,
        };
        // A group also obeys the limits of the groups that it is in. A container sees its own group as the root.
        for folder in root.join(group).ancestors().take_while(|folder| folder.starts_with(&root)) {
            let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
            // The cache of files counts as used memory, too, but can be freed; the memory of processes cannot.
            if let (Ok(limit), Some(held)) =
                (read(limit).trim().parse::<u64>(), number_after(&read("memory.stat"), held))
            {
                free.push(limit.saturating_sub(held));
            }
        }
    }
    free
}

/// Returns what the limits of a process allow, from the texts of its limits and of its status.
fn free_in_limits(limits: &str, status: &str) -> Vec<u64> {
    let free = [("Max address space", "VmSize:"), ("Max data size", "VmData:")].map(|(limit, held)| {
        Some(number_after(limits, limit)?.saturating_sub(1024 * number_after(status, held)?))
    });
    free.into_iter().flatten().collect()
}

/// Returns the number that follows a name at the start of a line.
fn number_after(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_groups_of_a_process_count() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("user/memory.max", "900\n");
        write("user/memory.stat", "anon 300\nfile 500\n");
        write("user/job/memory.max", "max\n");
        write("user/job/memory.stat", "anon 200\n");
        assert_eq!(free_in_groups("0::/user/job\n", root.path()), [600]);
        write("user/job/memory.max", "500\n");
        assert_eq!(free_in_groups("0::/user/job\n", root.path()), [300, 600]);
        write("memory/memory.limit_in_bytes", "70\n");
        write("memory/memory.stat", "rss 1\ntotal_rss 90\n");
        assert_eq!(free_in_groups("5:cpu:/\n4:hugetlb,memory:/not/here\n0::/\n", root.path()), [0]);
        assert_eq!(free_in_groups("", root.path()), [0_u64; 0]);
    }

    #[test]
    fn limits_of_the_process_count() {
        let limits = "Max data size             unlimited   unlimited   bytes\n\
                      Max address space         1048576     unlimited   bytes\n";
        let status = "VmPeak:\t    900 kB\nVmSize:\t    24 kB\nVmData:\t    10 kB\n";
        assert_eq!(free_in_limits(limits, status), [1_048_576 - 24 * 1024]);
        assert_eq!(free_in_limits("", status), [0_u64; 0]);
    }

    #[test]
    fn what_no_machine_has_is_refused() {
        assert!(
            check(1e18).unwrap_err().to_string().starts_with("this needs about 1000000000.00 GB of memory")
        );
        assert!(check(1e6).is_ok());
    }
}
