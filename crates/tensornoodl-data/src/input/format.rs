//! Which format a file has.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::Error;

/// Whether a file is an array, as its name says: .npy, .npz, .tns or .tns.gz. Its columns are [`ARRAY_COLUMNS`].
pub fn is_array(path: &Path) -> bool {
    matches!(kind(path), Kind::Npy | Kind::Npz | Kind::Tns)
}

/// What a file is.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Npy,
    Npz,
    Tns,
    Parquet,
    Csv,
}

/// As its name says: what has no other is CSV.
fn kind(path: &Path) -> Kind {
    let name = path.to_string_lossy().to_ascii_lowercase();
    match name.rsplit_once('.') {
        Some((_, "npy")) => Kind::Npy,
        Some((_, "npz")) => Kind::Npz,
        Some((_, "tns")) => Kind::Tns,
        Some((rest, "gz")) if rest.ends_with(".tns") => Kind::Tns,
        Some((_, "parquet")) => Kind::Parquet,
        _ => Kind::Csv,
    }
}

/// And as a look into it says.
pub(crate) fn seen(path: &Path) -> Result<Kind, Error> {
    Ok(match kind(path) {
        Kind::Csv if is_parquet(path)? => Kind::Parquet,
        kind => kind,
    })
}

const PARQUET: &[u8] = b"PAR1";

/// Whether it begins as Parquet does. A pipe has only one reading in it, and is CSV.
fn is_parquet(path: &Path) -> Result<bool, Error> {
    let look = || {
        if path.as_os_str() == "-" {
            return Ok(false);
        }
        if !path.metadata()?.is_file() {
            return Ok(false);
        }
        let mut file = File::open(path)?;
        let mut start = Vec::new();
        Read::by_ref(&mut file).take(PARQUET.len() as u64).read_to_end(&mut start)?;
        Ok(start == PARQUET)
    };
    look().map_err(|error| Error::Read { file: path.display().to_string(), error })
}
