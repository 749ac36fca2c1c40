//! Writes files atomically: a reader finds the old file or the whole new file, never a part of one.
//!
//! The content goes to a temporary file with a unique name in the folder of the target, such as `.noodl-k3Xp9Q.tmp`,
//! and a rename puts the temporary file in place. A process that is killed in the middle can leave a temporary file
//! behind; nobody reads it, and it can be deleted.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::Error;

/// Checks that a file can be written at `path`, before the work whose result it will hold. Leaves nothing behind.
///
/// # Errors
/// [`Error::Write`] if `path` is a folder, or if no file can be created in its folder.
pub fn check(path: &Path) -> Result<(), Error> {
    if is_special(path) {
        return Ok(());
    }
    let writable = || {
        check_name(path)?;
        temporary_file(path)?.close()
    };
    writable().map_err(|error| cannot_write(path, error))
}

/// Checks that no output is one of the inputs, and that no two outputs are the same file.
///
/// # Errors
/// [`Error::Write`] with the first output that is used twice.
pub fn apart(inputs: &[&Path], outputs: &[&Path]) -> Result<(), Error> {
    // A file that does not exist yet cannot be canonicalized.
    let full_name = |path: &Path| fs::canonicalize(path).or_else(|_| std::path::absolute(path));
    let mut taken: Vec<PathBuf> = inputs.iter().filter_map(|path| full_name(path).ok()).collect();
    for path in outputs.iter().filter(|path| !is_special(path)) {
        let name = full_name(path).map_err(|error| cannot_write(path, error))?;
        if taken.contains(&name) {
            let error = io::Error::other("this command needs that file for something else");
            return Err(cannot_write(path, error));
        }
        taken.push(name);
    }
    Ok(())
}

/// Writes `content` to `path`, and replaces the file that is there.
///
/// A new file has the permissions that the umask of the process gives; a file that is replaced keeps its permissions.
/// A device or a pipe is written to directly. Several processes can write to one path at a time: the path then holds
/// the whole content of one of them.
///
/// # Errors
/// [`Error::Write`] if the operating system refuses. The file that was there is then unchanged.
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), Error> {
    let content = content.as_ref();
    let written = if is_special(path) { fs::write(path, content) } else { replace(path, content) };
    written.map_err(|error| cannot_write(path, error))
}

fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    check_name(path)?;
    let mut file = temporary_file(path)?;
    // The error of `NamedTempFile::write_all` would name the temporary file.
    file.as_file_mut().write_all(content)?;
    if let Ok(replaced) = fs::metadata(path) {
        file.as_file().set_permissions(replaced.permissions())?;
    }
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// Creates a temporary file in the folder of `path`. It is deleted when it is dropped.
fn temporary_file(path: &Path) -> io::Result<NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // `Builder::tempfile_in` would create files that only their owner can read.
    tempfile::Builder::new().prefix(".noodl-").suffix(".tmp").make_in(folder, |path| File::create_new(path))
}

/// Refuses names that no file can have: those of folders, and those that are too long.
fn check_name(path: &Path) -> io::Result<()> {
    let is_folder = path.as_os_str().to_string_lossy().ends_with(std::path::is_separator);
    if is_folder || path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Whether the path is a device or a pipe, such as /dev/null. Those are written to and never replaced.
fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|it| !it.is_file() && !it.is_dir())
}

fn cannot_write(path: &Path, error: io::Error) -> Error {
    Error::Write { file: path.display().to_string(), error }
}
