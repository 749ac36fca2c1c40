//! Files appear whole or not at all.

use std::fs;
use std::io;
use std::path::Path;

/// Writes aside, then renames.
pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".part");
    fs::write(&aside, text).and_then(|()| fs::rename(&aside, path)).inspect_err(|_| {
        let _ = fs::remove_file(&aside);
    })
}
