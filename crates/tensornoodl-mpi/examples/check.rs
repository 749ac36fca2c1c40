//! `mpirun -n 3 check [MOST]`: every exchange with messages of `MOST` elements at most, and whether what arrives is right.

use std::time::Duration;

use tensornoodl::Team;

fn main() -> Result<(), String> {
    let (_job, mpi) = tensornoodl_mpi::begin(Duration::from_secs(20))?;
    let most = std::env::args().nth(1).and_then(|most| most.parse().ok());
    let mpi = mpi.with_most(most.unwrap_or(usize::MAX));
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
    }
    let (calls, bytes) = mpi.sent();
    assert!(calls >= 10 && bytes > 8000);
    Ok(())
}
