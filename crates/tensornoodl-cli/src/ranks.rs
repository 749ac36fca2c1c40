//! One process, or a rank of many: what `mpirun` and `srun` start.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::anyhow;
use tensornoodl::Team;
#[cfg(feature = "mpi")]
use tensornoodl::parallel::MAX_RANKS;

/// How long the ranks wait for one that does not come, in seconds, unless `NOODL_PATIENCE` says otherwise. What they compute between
/// two exchanges must not differ by more: shares are of the same size, and most of a step is of the same cost for all.
#[cfg(feature = "mpi")]
const PATIENCE: u64 = 300;

/// The team, and what keeps it together.
pub(crate) struct Ranks {
    pub(crate) team: Arc<dyn Team>,
    #[cfg(feature = "mpi")]
    mpi: Option<(tensornoodl_mpi::Job, Arc<tensornoodl_mpi::Mpi>)>,
}

/// Where launchers say how many ranks they have started, and which this is: Open MPI's; those of MPICH, its kin, and Flux; MVAPICH's;
/// and Slurm, of steps alone. A script or a shell in a job of many tasks is none of them.
const LAUNCHERS: [[&str; 2]; 4] = [
    ["OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"],
    ["PMI_SIZE", "PMI_RANK"],
    ["MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"],
    ["SLURM_STEP_NUM_TASKS", "SLURM_PROCID"],
];

/// What a launcher says of this process.
#[derive(Clone, Copy)]
struct Started {
    /// How many ranks there are, unless it does not say.
    count: Option<usize>,
    rank: usize,
}

impl std::fmt::Display for Started {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.count {
            Some(count) => write!(f, "it was started {count} times at once"),
            None => write!(f, "it was started as a rank of a job"),
        }
    }
}

/// Whether this is one of many, as a launcher says.
fn started() -> Option<Started> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<usize>().ok();
    let sizes = LAUNCHERS.map(|[size, rank]| number(size).map(|size| (size, number(rank).unwrap_or(0))));
    match sizes.iter().flatten().find(|(size, _)| *size > 1) {
        Some(&(count, rank)) => Some(Started { count: Some(count), rank }),
        None if sizes.iter().flatten().count() > 0 => None,
        // PMIx alone, which other launchers build on, keeps the number to itself.
        None => number("PMIX_RANK").map(|rank| Started { count: None, rank }),
    }
}

/// Whether another rank speaks for this one, before they are a team. It is given the time to: launchers end all ranks when one has failed.
pub(crate) fn is_silent() -> bool {
    let silent = started().is_some_and(|started| started.rank > 0);
    if silent {
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
    silent
}

impl Ranks {
    /// Finds out. `spread` says whether the command can be spread over ranks, `threaded` whether it makes its threads itself.
    pub(crate) fn begin(spread: bool, threaded: bool) -> anyhow::Result<Ranks> {
        let Some(started) = started() else {
            return Ok(Ranks::alone());
        };
        if !spread {
            return Err(anyhow!("{started}; of noodl, learn, recover and bench ranks are for that"));
        }
        Ranks::join(started, threaded)
    }

    #[cfg(not(feature = "mpi"))]
    fn alone() -> Ranks {
        Ranks { team: Arc::new(tensornoodl::parallel::Solo) }
    }

    #[cfg(not(feature = "mpi"))]
    fn join(started: Started, _threaded: bool) -> anyhow::Result<Ranks> {
        Err(anyhow!(
            "{started}, and this noodl was built without MPI: the copies would overwrite each other's files. Build it with: \
             cargo build --release --features mpi"
        ))
    }

    #[cfg(feature = "mpi")]
    fn alone() -> Ranks {
        Ranks { team: Arc::new(tensornoodl::parallel::Solo), mpi: None }
    }

    #[cfg(feature = "mpi")]
    fn join(started: Started, threaded: bool) -> anyhow::Result<Ranks> {
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
            return Err(anyhow!("{started}; at most {MAX_RANKS} ranks can add up what they have"));
        }
        if let Some(count) = started.count.filter(|count| *count != mpi.size()) {
            return Err(anyhow!(
                "{count} ranks were started, by another MPI than this noodl was built with: it knows of {}",
                mpi.size()
            ));
        }
        let threads = settle(&*mpi)?;
        if std::env::var_os("RAYON_NUM_THREADS").is_none() && !threaded {
            rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?;
        }
        Ok(Ranks { team: Arc::clone(&mpi) as Arc<dyn Team>, mpi: Some((job, mpi)) })
    }

    /// The end of a command that failed, here or `elsewhere`. If all ranks leave, the first one where it failed says why, and all have its
    /// exit code; if others stay, this one says why and ends them.
    pub(crate) fn fail(&self, code: u8, elsewhere: bool, complain: impl FnOnce(&str)) -> ExitCode {
        let prefix = match self.team.size() {
            1 => String::new(),
            _ => format!("rank {}: ", self.team.rank()),
        };
        #[cfg(feature = "mpi")]
        if let Some((_, mpi)) = &self.mpi {
            let word = u64::from(code) | u64::from(elsewhere) << 8;
            if let Some(words) = mpi.farewell(0, word) {
                let first = words.iter().position(|word| word >> 8 == 0).unwrap_or(0);
                if first == mpi.rank() {
                    complain(&prefix);
                }
                // Launchers end all ranks when one has gone with a code: nobody goes before it is said.
                let code = words[first] as u8;
                return match mpi.farewell(1, 0) {
                    Some(_) => ExitCode::from(code),
                    None => mpi.abort(code.into()),
                };
            }
            complain(&prefix);
            mpi.abort(code.into());
        }
        let _ = elsewhere;
        complain(&prefix);
        ExitCode::from(code)
    }
}

/// Whether all ranks are of the same kind, and how many threads this one should have: ranks that may use the same cores of a
/// machine share them.
#[cfg(feature = "mpi")]
fn settle(team: &dyn Team) -> anyhow::Result<usize> {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let command: Vec<String> = std::iter::once(env!("CARGO_PKG_VERSION").into()).chain(words).collect();
    let other = |theirs: &Vec<u8>| theirs != command.join("\0").as_bytes();
    if let Some(rank) = team.gather(command.join("\0").into_bytes()).iter().position(other) {
        return Err(anyhow!(
            "rank {rank} is another noodl than rank {}, or was told other words",
            team.rank()
        ));
    }
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let status = read("/proc/self/status");
    let cores = status.lines().find(|line| line.starts_with("Cpus_allowed_list")).unwrap_or_default();
    let own = read("/proc/sys/kernel/random/boot_id") + cores;
    let sharing = team.gather(own.clone().into_bytes()).iter().filter(|its| **its == own.as_bytes()).count();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Ok((cores / sharing.max(1)).max(1))
}
