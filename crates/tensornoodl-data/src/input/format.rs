//! Recognizes the format of a file.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::Error;

/// A file format that can be read as a table.
#[derive(Clone, Copy)]
pub(crate) enum Format {
    Npy,
    Npz,
    Tns,
    Parquet,
    Csv,
}

/// The first bytes of a Parquet file.
const PARQUET: &[u8] = b"PAR1";

/// Whether a file is an array according to its name: .npy, .npz, .tns or .tns.gz. Its columns are
/// [`ARRAY_COLUMNS`](crate::table::ARRAY_COLUMNS).
pub fn is_array(path: &Path) -> bool {
    matches!(by_name(path), Format::Npy | Format::Npz | Format::Tns)
}

/// Returns the format of a file, from its name and from its first bytes.
///
/// # Errors
/// [`Error::Read`] if the file cannot be opened.
pub(crate) fn recognize(path: &Path) -> Result<Format, Error> {
    Ok(match by_name(path) {
        Format::Csv if is_parquet(path)? => Format::Parquet,
        format => format,
    })
}

/// Returns the format that the extension of the name stands for. Any other extension stands for CSV.
fn by_name(path: &Path) -> Format {
    let name = path.to_string_lossy().to_ascii_lowercase();
    match name.rsplit_once('.') {
        Some((_, "npy")) => Format::Npy,
        Some((_, "npz")) => Format::Npz,
        Some((_, "tns")) => Format::Tns,
        Some((stem, "gz")) if stem.ends_with(".tns") => Format::Tns,
        Some((_, "parquet")) => Format::Parquet,
        _ => Format::Csv,
    }
}

/// Whether the file starts with the bytes of Parquet. A pipe can be read only once, so it is not looked into.
fn is_parquet(path: &Path) -> Result<bool, Error> {
    let look = || {
        if path.as_os_str() == "-" || !path.metadata()?.is_file() {
            return Ok(false);
        }
        let mut start = Vec::new();
        File::open(path)?.take(PARQUET.len() as u64).read_to_end(&mut start)?;
        Ok(start == PARQUET)
    };
    look().map_err(|error| Error::Read { file: path.display().to_string(), error })
}
