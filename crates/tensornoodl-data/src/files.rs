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

/// A device or a pipe, such as /dev/null: it is written to, and never replaced.
fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|it| !it.is_file() && !it.is_dir())
}

/// Whether a file can be written here, before the work whose result it is to hold.
pub fn check(path: &Path) -> Result<(), Error> {
    if path.is_dir() {
        return Err(cannot_write(path, io::ErrorKind::IsADirectory.into()));
    }
    if is_special(path) {
        return Ok(());
    }
    let aside = aside(path);
    fs::write(&aside, "").and_then(|()| fs::remove_file(&aside)).map_err(|error| cannot_write(path, error))
}

/// Whether no file is to be written over one that is read, or over another that is written.
pub fn apart(inputs: &[&Path], outputs: &[&Path]) -> Result<(), Error> {
    // What is not there yet has no true name.
    let name = |path: &Path| fs::canonicalize(path).or_else(|_| std::path::absolute(path));
    let mut taken: Vec<PathBuf> = inputs.iter().filter_map(|path| name(path).ok()).collect();
    for path in outputs.iter().filter(|path| !is_special(path)) {
        let name = name(path).map_err(|error| cannot_write(path, error))?;
        if taken.contains(&name) {
            return Err(cannot_write(
                path,
                io::Error::other("this command needs that file for something else"),
            ));
        }
        taken.push(name);
    }
    Ok(())
}

/// Writes aside, makes sure it is on the disk, then renames.
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), Error> {
    if is_special(path) {
        return fs::write(path, content).map_err(|error| cannot_write(path, error));
    }
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
