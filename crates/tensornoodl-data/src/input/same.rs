//! Checks that all ranks of a team see the same file.
//!
//! Every rank hashes the same bytes, and the ranks compare the hashes: all bytes of a file of up to 256 MB, and 1,024
//! blocks of 256 KB of a larger file. The blocks do not depend on the number of ranks or on what a rank reads, so one
//! check fits all formats.
//!
//! Two other ways were weighed. If every rank hashes the whole of any file, reading no longer gets faster with more
//! ranks. If every rank also hashes the share of another rank, a large file is read only twice, but a difference is
//! noticed only if that other rank sees another file; ranks of one host see the same file. It also needs shares of
//! bytes, and Parquet has none.

use std::ops::Range;
use std::path::Path;

use tensornoodl::Team;
use tensornoodl::parallel::{agree, gather};

use crate::error::Error;
use crate::input::share::{Opened, chunks};

/// Length of a block in bytes.
const BLOCK: u64 = 1 << 18;

/// An odd number whose multiples are spread evenly: 2^64 over the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Number of blocks of a large file. A spinning disk finds them in about ten seconds.
const BLOCKS: u64 = 1 << 10;

/// Checks that all ranks see the same file. All ranks call this function together. One rank alone reads nothing.
///
/// # Errors
/// [`Error::Differs`] on all ranks if two ranks see different files. If one rank cannot read the file, or if it is a
/// pipe or a device, all ranks return an error.
pub(crate) fn check(team: &dyn Team, path: &Path) -> Result<(), Error> {
    if team.size() == 1 {
        return Ok(());
    }
    let all = gather(team, agree(team, fingerprint(path))?);
    match all.iter().position(|other| *other != all[0]) {
        None => Ok(()),
        Some(rank) => {
            Err(Error::Differs { file: path.display().to_string(), rank, lengths: [all[0].0, all[rank].0] })
        }
    }
}

/// Returns the length of a file and a hash of its bytes.
fn fingerprint(path: &Path) -> Result<(u64, u32), Error> {
    let Opened { mut file, length, .. } = Opened::new(path)?;
    let mut hasher = crc32fast::Hasher::new();
    for block in blocks(length) {
        chunks(&mut file, block, |bytes| {
            hasher.update(bytes);
            None::<()>
        })
        .map_err(|error| Error::Read { file: path.display().to_string(), error })?;
    }
    Ok((length, hasher.finalize()))
}

/// Returns the ranges of bytes that are hashed. A large file is divided into [`BLOCKS`] equal parts, and each part has
/// a block at a place that depends on nothing but its number. The first and the last block are the ends of the
/// file.
fn blocks(length: u64) -> Vec<Range<u64>> {
    if length <= BLOCK * BLOCKS {
        return std::iter::once(0..length).collect();
    }
    let cut = |part: u64| (u128::from(length) * u128::from(part) / u128::from(BLOCKS)) as u64;
    let block = |part: u64| {
        let free = cut(part + 1) - cut(part) - BLOCK;
        let start = match part {
            0 => 0,
            part if part + 1 == BLOCKS => length - BLOCK,
            part => cut(part) + part.wrapping_mul(SPREAD) % (free + 1),
        };
        start..start + BLOCK
    };
    (0..BLOCKS).map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Seek, SeekFrom, Write};

    #[test]
    fn blocks_are_apart_and_in_all_parts() {
        let small = BLOCK * BLOCKS;
        for length in [0, 1, small] {
            assert_eq!((blocks(length).len(), &blocks(length)[0]), (1, &(0..length)));
        }
        for length in [small + 1, 3 * small + 77, 1 << 40, u64::MAX] {
            let blocks = blocks(length);
            assert_eq!((blocks[0].start, blocks[1023].end), (0, length));
            assert!(blocks.windows(2).all(|pair| pair[0].end <= pair[1].start), "{length}");
            assert_eq!(blocks.iter().map(|block| block.end - block.start).sum::<u64>(), small);
            // So every stretch that is longer than two parts has a byte of a block.
            let longest = blocks.windows(2).map(|pair| pair[1].start - pair[0].end).max().unwrap();
            assert!(longest < length / 512, "{length}");
        }
    }

    /// The file has a hole of zeros, so it takes no room on the disk.
    #[test]
    fn large_files_differ_at_their_ends_and_in_long_stretches() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("large");
        let length = BLOCK * BLOCKS * 2;
        let with = |at: u64, bytes: &[u8]| {
            let mut file = File::create(&path).unwrap();
            file.set_len(length).unwrap();
            file.seek(SeekFrom::Start(at)).unwrap();
            file.write_all(bytes).unwrap();
            fingerprint(&path).unwrap()
        };
        let zeros = with(0, &[]);
        assert_eq!(zeros.0, length);
        for (at, bytes) in [(0, 1), (length - 1, 1), (length / 3, length / 512)] {
            assert_ne!(with(at, &vec![1; bytes as usize]), zeros, "{at}");
        }
    }
}
