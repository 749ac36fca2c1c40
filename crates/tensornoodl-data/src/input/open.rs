//! Opens files, and decompresses gzip.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use crate::error::Error;

/// The first bytes of gzip data.
pub(crate) const GZIP: &[u8] = &[0x1f, 0x8b];

/// Opens a file for reading. The path `-` is standard input; gzip data is decompressed, whatever the name of the file.
///
/// # Errors
/// [`Error::Read`] if the file cannot be opened.
pub fn open(path: &Path) -> Result<Box<dyn BufRead>, Error> {
    let cannot_read = |error| Error::Read { file: path.display().to_string(), error };
    let raw: Box<dyn Read> = match path.to_str() {
        Some("-") => Box::new(io::stdin()),
        _ => Box::new(File::open(path).map_err(cannot_read)?),
    };
    let mut raw = BufReader::with_capacity(1 << 16, raw);
    let compressed = raw.fill_buf().map_err(cannot_read)?.starts_with(GZIP);
    Ok(if compressed { Box::new(BufReader::new(MultiGzDecoder::new(raw))) } else { Box::new(raw) })
}
