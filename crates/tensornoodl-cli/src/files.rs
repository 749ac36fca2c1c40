//! Files appear whole or not at all.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

fn aside(path: &Path) -> PathBuf {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".part");
    aside.into()
}

/// Whether a file can be written here, before the work whose result it is to hold.
pub(crate) fn check(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let aside = aside(path);
    fs::write(&aside, "").and_then(|()| fs::remove_file(&aside))
}

/// Writes aside, then renames.
pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    let aside = aside(path);
    fs::write(&aside, text).and_then(|()| fs::rename(&aside, path)).inspect_err(|_| {
        let _ = fs::remove_file(&aside);
    })
}
