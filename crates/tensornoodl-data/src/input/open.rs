//! Opens files, and unpacks those that gzip has packed.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use crate::error::Error;

/// How what gzip packs begins.
pub(crate) const GZIP: &[u8] = &[0x1f, 0x8b];

/// Opens a file, `-` for standard input; what is compressed by gzip is unpacked.
pub fn open(path: &Path) -> Result<Box<dyn BufRead>, Error> {
    let cannot_read = |error| Error::Read { file: path.display().to_string(), error };
    let raw: Box<dyn Read> = match path.to_str() {
        Some("-") => Box::new(io::stdin()),
        _ => Box::new(File::open(path).map_err(cannot_read)?),
    };
    let mut raw = BufReader::with_capacity(1 << 16, raw);
    let packed = raw.fill_buf().map_err(cannot_read)?.starts_with(GZIP);
    Ok(if packed { Box::new(BufReader::new(MultiGzDecoder::new(raw))) } else { Box::new(raw) })
}
