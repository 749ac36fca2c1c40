//! One process, or a rank of many: what `mpirun` and `srun` start.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::anyhow;
use tensornoodl::Team;

/// How long the ranks wait for one that does not come, in seconds, unless `NOODL_PATIENCE` says otherwise.
#[cfg(feature = "mpi")]
const PATIENCE: u64 = 300;

/// The team, and what keeps it together.
pub(crate) struct Ranks {
    pub(crate) team: Arc<dyn Team>,
    #[cfg(feature = "mpi")]
    mpi: Option<(tensornoodl_mpi::Job, Arc<tensornoodl_mpi::Mpi>)>,
}

/// Ranks that a launcher has started, as it says.
fn started() -> Option<usize> {
    // Of Open MPI, MPICH and its kin, and Slurm, which says so to those that it starts as a step alone.
    let names = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"];
    let count = |name: &&str| std::env::var(name).ok()?.parse().ok().filter(|count| *count > 1);
    names.iter().find_map(count)
}

/// Whether a launcher has started others, the first of which speaks for all.
pub(crate) fn is_silent() -> bool {
    let names = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"];
    started().is_some()
        && names.iter().find_map(|name| std::env::var(name).ok()).is_some_and(|rank| rank != "0")
}

impl Ranks {
    /// Finds out. `spread` says whether the command can be spread over ranks.
    pub(crate) fn begin(spread: bool) -> anyhow::Result<Ranks> {
        let Some(count) = started() else {
            return Ok(Ranks::alone());
        };
        if !spread {
            return Err(anyhow!(
                "it was started {count} times at once; of noodl, learn and recover are for that"
            ));
        }
        Ranks::join(count)
    }

    #[cfg(not(feature = "mpi"))]
    fn alone() -> Ranks {
        Ranks { team: Arc::new(tensornoodl::team::Solo) }
    }

    #[cfg(not(feature = "mpi"))]
    fn join(count: usize) -> anyhow::Result<Ranks> {
        Err(anyhow!(
            "it was started {count} times at once, and this noodl was built without MPI: the copies would overwrite each other's \
             files. Build it with: cargo build --release --features mpi"
        ))
    }

    #[cfg(feature = "mpi")]
    fn alone() -> Ranks {
        Ranks { team: Arc::new(tensornoodl::team::Solo), mpi: None }
    }

    #[cfg(feature = "mpi")]
    fn join(count: usize) -> anyhow::Result<Ranks> {
        let patience = match std::env::var("NOODL_PATIENCE") {
            Ok(text) => text.parse().ok().filter(|seconds| *seconds > 0).ok_or_else(|| {
                anyhow!("NOODL_PATIENCE is {text:?}, it must be a number of seconds above 0")
            })?,
            Err(_) => PATIENCE,
        };
        let (job, mpi) = tensornoodl_mpi::begin(std::time::Duration::from_secs(patience))
            .map_err(|error| anyhow!(error))?;
        let mpi = Arc::new(mpi);
        if mpi.size() != count {
            return Err(anyhow!(
                "{count} ranks were started, by another MPI than this noodl was built with: it knows of {}",
                mpi.size()
            ));
        }
        // Ranks on one machine share its cores.
        if std::env::var_os("RAYON_NUM_THREADS").is_none() {
            let here = std::env::var("OMPI_COMM_WORLD_LOCAL_SIZE").ok().and_then(|here| here.parse().ok());
            let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
            let threads = (cores / here.unwrap_or(1).max(1)).max(1);
            rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?;
        }
        Ok(Ranks { team: Arc::clone(&mpi) as Arc<dyn Team>, mpi: Some((job, mpi)) })
    }

    /// The end of a command that failed, here or `elsewhere`: no other rank waits for this one.
    pub(crate) fn fail(&self, code: u8, elsewhere: bool, complain: impl FnOnce(&str)) -> ExitCode {
        let prefix = match self.team.size() {
            1 => String::new(),
            _ => format!("rank {}: ", self.team.rank()),
        };
        // Whoever knows why says so, and ends the others: the one where it failed, and if that is all of them, the first.
        let turn = u64::from(self.team.rank() > 0) + 2 * u64::from(elsewhere);
        std::thread::sleep(std::time::Duration::from_secs(turn));
        complain(&prefix);
        #[cfg(feature = "mpi")]
        if let Some((_, mpi)) = &self.mpi {
            mpi.abort(code.into());
        }
        ExitCode::from(code)
    }
}
