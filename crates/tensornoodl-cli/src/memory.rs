//! Refuses work of several ranks that does not fit into the memory of their machines.

use tensornoodl::Team;
use tensornoodl::parallel::{agree, gather};
use tensornoodl_data::Error;

pub use tensornoodl_data::memory::{check, peak};

/// Checks that the memory of each machine holds what the ranks on it need; `bytes` is what this rank needs.
///
/// # Errors
/// On all ranks if one of their machines has too little memory.
pub fn check_all(team: &dyn Team, bytes: f64) -> Result<(), Error> {
    let machine = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let all = gather(team, (bytes, machine.clone()));
    let here = all.iter().filter(|(_, other)| *other == machine);
    agree(team, check(here.map(|(bytes, _)| bytes).sum()))
}
