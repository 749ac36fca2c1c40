//! Messages between ranks, without a learner. This test starts itself as the ranks of a job.

#![allow(clippy::unwrap_used)]

mod common;

fn main() {
    #[cfg(feature = "mpi")]
    if std::env::var_os("OMPI_COMM_WORLD_RANK").is_some() {
        return rank::main();
    }
    run_tests!(common::mpi::no_mpi() => [
        jobs::messages_in_pieces,
        jobs::a_panic_ends_the_job,
        jobs::a_rank_that_exits_ends_the_job,
        jobs::a_slow_rank_is_waited_for,
        jobs::a_rank_that_does_not_leave_ends_the_job,
    ])
}

/// The work of a rank, chosen by its first argument.
#[cfg(feature = "mpi")]
mod rank {
    use std::time::Duration;

    use tensornoodl::Team;
    use tensornoodl_mpi::Mpi;

    pub(crate) fn main() {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let (_job, mpi) = tensornoodl_mpi::begin(Duration::from_secs(3)).unwrap();
        let last = mpi.rank() + 1 == mpi.size();
        match words[0].as_str() {
            "pieces" => pieces(mpi.with_most(words[1].parse().unwrap())),
            "panic" if last => panic!("on purpose"),
            "panic-elsewhere" if last => {
                std::thread::spawn(|| panic!("on purpose")).join().unwrap();
            }
            "exit" if last => std::process::exit(words[1].parse().unwrap()),
            "slow" => {
                // Less than patience, and more than half of it.
                std::thread::sleep(Duration::from_secs(if last { 2 } else { 0 }));
                mpi.sum(&mut [1]);
                mpi.sum(&mut [1]);
            }
            // Waits for the end.
            "leave" if !last => {}
            "leave" => std::thread::sleep(Duration::from_secs(60)),
            _ => mpi.sum(&mut [1]),
        }
    }

    /// Makes every kind of exchange and checks what arrives.
    fn pieces(mpi: Mpi) {
        let (rank, size) = (mpi.rank(), mpi.size());
        let mut numbers: Vec<i64> = (0..1000).map(|at| at * (rank as i64 + 1)).collect();
        mpi.sum(&mut numbers);
        let ranks = (size * (size + 1) / 2) as i64;
        assert!(numbers.iter().zip(0..).all(|(number, at)| *number == at * ranks), "sums");
        let mut levels: Vec<i8> = (0..100).map(|at| if at % size == rank { 100 } else { -100 }).collect();
        mpi.max(&mut levels);
        assert_eq!(levels, vec![100; 100]);
        for scale in [0, 1, 100, 5000] {
            let parcel = |from: usize, to: usize| -> Vec<u8> {
                (0..scale * (from + 2 * to)).map(|at| (at * 7 + from * 31 + to * 17) as u8).collect()
            };
            let received = mpi.exchange((0..size).map(|to| parcel(rank, to)).collect());
            let expected: Vec<Vec<u8>> = (0..size).map(|from| parcel(from, rank)).collect();
            assert!(received == expected, "parcels");
            let expected: Vec<Vec<u8>> = (0..size).map(|from| parcel(from, 1)).collect();
            assert!(mpi.gather(parcel(rank, 1)) == expected, "words for all");
        }
        let tensornoodl::parallel::Traffic { exchanges, bytes, .. } = mpi.traffic();
        assert!(exchanges >= 10 && bytes > 8000);
    }
}

mod jobs {
    use std::time::{Duration, Instant};

    use crate::common::mpi::{Ended, Job, launcher, turn};

    fn job(ranks: usize, words: &str, seconds: u64) -> Ended {
        let mut command = launcher(ranks);
        command.arg(std::env::current_exe().unwrap()).args(words.split_whitespace());
        Job::start(command).end(Duration::from_secs(seconds))
    }

    /// Messages that are longer than the limit of MPI are sent in pieces; here the limit is a few elements.
    pub(crate) fn messages_in_pieces() {
        let _turn = turn();
        for (ranks, most) in [(3, 1), (3, 7), (4, 64), (2, 1000), (3, usize::MAX)] {
            let ended = job(ranks, &format!("pieces {most}"), 60);
            assert!(ended.status.success(), "{ranks} ranks, {most}: {}", ended.stderr);
        }
    }

    /// A panic ends the job, on the thread that calls MPI and on another thread.
    pub(crate) fn a_panic_ends_the_job() {
        let _turn = turn();
        for how in ["panic", "panic-elsewhere"] {
            let ended = job(3, how, 10);
            assert_ne!(ended.code(), 0, "{how}");
            assert!(ended.stderr.contains("on purpose"), "{how}: {}", ended.stderr);
            let lines = ended.stderr.matches("noodl: rank 2 of 3 has panicked, which ends the job").count();
            assert_eq!(lines, 1, "{how}: {}", ended.stderr);
        }
    }

    pub(crate) fn a_rank_that_exits_ends_the_job() {
        let _turn = turn();
        for code in [0, 7] {
            let ended = job(3, &format!("exit {code}"), 10);
            assert_ne!(ended.code(), 0, "{code}: {}", ended.stderr);
            // The launcher knows, and says so.
            assert!(ended.stderr.contains("mpirun"), "{code}: {}", ended.stderr);
        }
    }

    /// Ranks wait for one that computes for long, but shorter than their patience.
    pub(crate) fn a_slow_rank_is_waited_for() {
        let _turn = turn();
        let ended = job(3, "slow", 30);
        assert!(ended.status.success() && ended.stderr.is_empty(), "{}", ended.stderr);
    }

    /// MPI's finalization waits without a limit, so a watchdog ends the job after 3 s of patience and 10 s more.
    pub(crate) fn a_rank_that_does_not_leave_ends_the_job() {
        let _turn = turn();
        let begun = Instant::now();
        let ended = job(3, "leave", 20);
        assert_ne!(ended.code(), 0);
        assert!(ended.stderr.contains("a call of MPI has not returned for 13 s"), "{}", ended.stderr);
        assert!(begun.elapsed() > Duration::from_secs(12));
    }
}
