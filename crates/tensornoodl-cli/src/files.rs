//! Files appear whole or not at all.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::anyhow;

fn aside(path: &Path) -> PathBuf {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".part");
    aside.into()
}

fn cannot_write(path: &Path, error: io::Error) -> anyhow::Error {
    anyhow!("cannot write {}: {error}", path.display())
}

/// Whether a file can be written here, before the work whose result it is to hold.
pub(crate) fn check(path: &Path) -> anyhow::Result<()> {
    if path.is_dir() {
        return Err(cannot_write(path, io::ErrorKind::IsADirectory.into()));
    }
    let aside = aside(path);
    fs::write(&aside, "").and_then(|()| fs::remove_file(&aside)).map_err(|error| cannot_write(path, error))
}

/// Writes aside, then renames.
pub(crate) fn write(path: &Path, content: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let aside = aside(path);
    fs::write(&aside, content).and_then(|()| fs::rename(&aside, path)).map_err(|error| {
        let _ = fs::remove_file(&aside);
        cannot_write(path, error)
    })
}
