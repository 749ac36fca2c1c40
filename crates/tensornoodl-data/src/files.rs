//! Files appear whole or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::error::Error;

fn aside(path: &Path) -> PathBuf {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".part");
    aside.into()
}

/// Whether a file can be written here, before the work whose result it is to hold.
pub fn check(path: &Path) -> Result<(), Error> {
    if path.is_dir() {
        return Err(cannot_write(path, io::ErrorKind::IsADirectory.into()));
    }
    let aside = aside(path);
    fs::write(&aside, "").and_then(|()| fs::remove_file(&aside)).map_err(|error| cannot_write(path, error))
}

/// Writes aside, makes sure it is on the disk, then renames.
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), Error> {
    let aside = aside(path);
    let whole = || {
        let mut file = File::create(&aside)?;
        file.write_all(content.as_ref())?;
        file.sync_all()?;
        fs::rename(&aside, path)
    };
    whole().map_err(|error| {
        let _ = fs::remove_file(&aside);
        cannot_write(path, error)
    })
}

fn cannot_write(path: &Path, error: io::Error) -> Error {
    Error::Write { file: path.display().to_string(), error }
}
