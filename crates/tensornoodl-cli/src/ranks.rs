//! One process, or a rank of many: what `mpirun` and `srun` start.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::anyhow;
use tensornoodl::Team;
#[cfg(feature = "mpi")]
use tensornoodl::parallel::{MAX_RANKS, gather};

use crate::program::Program;

/// Default of `NOODL_PATIENCE`: the seconds that ranks wait for a rank that does not take part in an exchange. Ranks
/// compute for about equally long between two exchanges, because their shares have the same size.
#[cfg(feature = "mpi")]
const PATIENCE: u64 = 300;

/// The team of ranks, and the MPI job that connects them.
pub(crate) struct Ranks {
    pub(crate) team: Arc<dyn Team>,
    #[cfg(feature = "mpi")]
    mpi: Option<(tensornoodl_mpi::Job, Arc<tensornoodl_mpi::Mpi>)>,
}

/// Environment variables in which launchers tell the number of ranks and the rank of this process: Open MPI; MPICH
/// and its relatives, and Flux; MVAPICH; Slurm. Slurm's variables are those of a step, because a script or a shell in
/// a job of many tasks is no rank.
const LAUNCHERS: [[&str; 2]; 4] = [
    ["OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"],
    ["PMI_SIZE", "PMI_RANK"],
    ["MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"],
    ["SLURM_STEP_NUM_TASKS", "SLURM_PROCID"],
];

/// What a launcher tells this process.
#[derive(Clone, Copy)]
struct Launch {
    /// The number of ranks. None if the launcher does not tell it.
    count: Option<usize>,
    rank: usize,
}

impl std::fmt::Display for Launch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.count {
            Some(count) => write!(f, "it was started {count} times at once"),
            None => write!(f, "it was started as a rank of a job"),
        }
    }
}

/// Returns what a launcher tells this process, if it is one of several ranks.
fn launch() -> Option<Launch> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<usize>().ok();
    let sizes = LAUNCHERS.map(|[size, rank]| number(size).map(|size| (size, number(rank).unwrap_or(0))));
    match sizes.iter().flatten().find(|(size, _)| *size > 1) {
        Some(&(count, rank)) => Some(Launch { count: Some(count), rank }),
        None if sizes.iter().flatten().count() > 0 => None,
        // PMIx alone, which other launchers build on, does not tell the number of ranks.
        None => number("PMIX_RANK").map(|rank| Launch { count: None, rank }),
    }
}

/// Whether another rank reports errors for this one before the ranks are connected.
///
/// A silent rank waits for a second: launchers end all ranks as soon as one has failed, and the first rank must have
/// written its message by then.
pub(crate) fn is_silent() -> bool {
    let silent = launch().is_some_and(|launch| launch.rank > 0);
    if silent {
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
    silent
}

/// Starts the threads of this process; None stands for all cores. This thread is one of them, because each thread has
/// memory of its own that others cannot use.
fn start_threads(threads: Option<usize>) -> anyhow::Result<()> {
    if let Some(threads) = threads {
        rayon::ThreadPoolBuilder::new().num_threads(threads).use_current_thread().build_global()?;
    }
    Ok(())
}

impl Ranks {
    /// Connects the ranks if a launcher started several, and starts the threads.
    ///
    /// # Errors
    /// If several ranks were started and the command cannot use them, the program was built without MPI, or MPI fails.
    pub(crate) fn begin<P: Program>(program: &P) -> anyhow::Result<Ranks> {
        match launch() {
            None => {
                start_threads(program.threads())?;
                Ok(Ranks::alone())
            }
            Some(launch) if program.runs_as_ranks() => Ranks::connect::<P>(launch, program.threads()),
            Some(launch) => Err(anyhow!("{launch}; {}", P::RANK_COMMANDS)),
        }
    }

    #[cfg(not(feature = "mpi"))]
    fn alone() -> Ranks {
        Ranks { team: Arc::new(tensornoodl::parallel::Solo) }
    }

    #[cfg(not(feature = "mpi"))]
    fn connect<P: Program>(launch: Launch, _: Option<usize>) -> anyhow::Result<Ranks> {
        Err(anyhow!(
            "{launch}, and this {} was built without MPI: the copies would overwrite each other's files. Build it with: \
             cargo build --release --features mpi",
            P::NAME
        ))
    }

    #[cfg(feature = "mpi")]
    fn alone() -> Ranks {
        Ranks { team: Arc::new(tensornoodl::parallel::Solo), mpi: None }
    }

    #[cfg(feature = "mpi")]
    fn connect<P: Program>(launch: Launch, threads: Option<usize>) -> anyhow::Result<Ranks> {
        let patience = match std::env::var("NOODL_PATIENCE") {
            Ok(text) => {
                text.parse().ok().filter(|seconds| (1..=1_000_000).contains(seconds)).ok_or_else(|| {
                    anyhow!("NOODL_PATIENCE is {text:?}, it must be a number of seconds from 1 to 1000000")
                })?
            }
            Err(_) => PATIENCE,
        };
        let (job, mpi) = tensornoodl_mpi::begin(std::time::Duration::from_secs(patience))
            .map_err(|error| anyhow!(error))?;
        let mpi = Arc::new(mpi);
        if mpi.size() > MAX_RANKS {
            return Err(anyhow!(
                "{launch}; use at most {MAX_RANKS} ranks, because the sums over ranks have no room for more"
            ));
        }
        if let Some(count) = launch.count.filter(|count| *count != mpi.size()) {
            return Err(anyhow!(
                "{count} ranks were started, but the MPI library that this {} was built with sees {}; use the mpirun of that library",
                P::NAME,
                mpi.size()
            ));
        }
        check_same_command::<P>(&*mpi)?;
        let shared = cores_per_rank(&*mpi);
        let shared = std::env::var_os("RAYON_NUM_THREADS").is_none().then_some(shared);
        start_threads(threads.or(shared))?;
        Ok(Ranks { team: Arc::clone(&mpi) as Arc<dyn Team>, mpi: Some((job, mpi)) })
    }

    /// Ends a command that failed on this rank, or on another one (`other_rank`).
    ///
    /// If all ranks have failed, the first rank that found the error reports it, and all ranks return its exit code.
    /// If some ranks are still working, this rank reports its error and ends them.
    pub(crate) fn fail(&self, code: u8, other_rank: bool, complain: impl FnOnce(&str)) -> ExitCode {
        let prefix = match self.team.size() {
            1 => String::new(),
            _ => format!("rank {}: ", self.team.rank()),
        };
        #[cfg(feature = "mpi")]
        if let Some((_, mpi)) = &self.mpi {
            // Eight bits for the exit code, and one for an error that another rank found.
            let own = u64::from(code) | u64::from(other_rank) << 8;
            if let Some(all) = mpi.farewell(0, own) {
                let first = all.iter().position(|status| status >> 8 == 0).unwrap_or(0);
                if first == mpi.rank() {
                    complain(&prefix);
                }
                // Launchers end all ranks when one exits with a code, so no rank exits before the message is written.
                let code = match all[first] as u8 {
                    // Only some of the ranks may have got the signal, and the others have the lowest code.
                    129.. => all.iter().map(|status| *status as u8).max().unwrap_or(1),
                    code => code,
                };
                return match mpi.farewell(1, 0) {
                    Some(_) => ExitCode::from(code),
                    None => mpi.abort(code.into()),
                };
            }
            complain(&prefix);
            mpi.abort(code.into());
        }
        let _ = other_rank;
        complain(&prefix);
        ExitCode::from(code)
    }
}

/// Checks that all ranks run the same version with the same arguments.
#[cfg(feature = "mpi")]
fn check_same_command<P: Program>(team: &dyn Team) -> anyhow::Result<()> {
    let arguments = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let command: Vec<String> = std::iter::once(env!("CARGO_PKG_VERSION").into()).chain(arguments).collect();
    match gather(team, command.clone()).iter().position(|other| *other != command) {
        None => Ok(()),
        Some(rank) => {
            let (own, name) = (team.rank(), P::NAME);
            Err(anyhow!(
                "rank {rank} has another version of {name} or other arguments than rank {own}; start all ranks alike"
            ))
        }
    }
}

/// Returns how many threads this rank should have: the ranks that may use the same cores of a machine share them.
#[cfg(feature = "mpi")]
fn cores_per_rank(team: &dyn Team) -> usize {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let status = read("/proc/self/status");
    let cores = status.lines().find(|line| line.starts_with("Cpus_allowed_list")).unwrap_or_default();
    let own = read("/proc/sys/kernel/random/boot_id") + cores;
    let sharing = gather(team, own.clone()).iter().filter(|other| **other == own).count();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (cores / sharing.max(1)).max(1)
}
