//! Writes files atomically: a reader finds the old file or the whole new file, never a part of one.
//!
//! The content goes to a temporary file with a unique name in the folder of the target, such as `.noodl-k3Xp9Q.tmp`,
//! and a rename puts the temporary file in place. A process that is killed in the middle can leave a temporary file
//! behind; nobody reads it, and it can be deleted. File and folder are on the disk when a function returns.

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
        temporary_file(&follow(path)?)?.close()
    };
    writable().map_err(|error| cannot_write(path, error))
}

/// Standard output, for [`apart`]: a command that prints must not write a file there.
pub const STDOUT: &str = "/dev/stdout";

/// Checks that no output is one of the inputs, and that no two outputs are the same file, whatever their names are: links
/// to one file are the same file. The input `-` is standard input. Devices such as /dev/null may be used twice.
///
/// # Errors
/// [`Error::Write`] with the first output that is used twice.
pub fn apart(inputs: &[&Path], outputs: &[&Path]) -> Result<(), Error> {
    let source = |path: &Path| if path.as_os_str() == "-" { "/dev/stdin".into() } else { path.to_owned() };
    let mut taken: Vec<(&Path, Identity)> =
        inputs.iter().filter_map(|path| Some((*path, Identity::of(&source(path)).ok()?))).collect();
    for path in outputs.iter().filter(|path| !is_device(path)) {
        let own = Identity::of(path).map_err(|error| cannot_write(path, error))?;
        if let Some((other, _)) = taken.iter().find(|(_, other)| *other == own) {
            let what = match path == other {
                true => "this command needs that file for something else".into(),
                false => format!("it is the same file as {}, which this command needs, too", other.display()),
            };
            return Err(cannot_write(path, io::Error::other(what + "; give another name")));
        }
        taken.push((path, own));
    }
    Ok(())
}

/// What two paths have in common if and only if they lead to the same file.
#[derive(PartialEq)]
enum Identity {
    /// The device and the number of a file that exists.
    #[cfg(unix)]
    Number(u64, u64),
    /// The full path without links.
    Path(PathBuf),
}

impl Identity {
    fn of(path: &Path) -> io::Result<Identity> {
        let target = follow(path)?;
        #[cfg(unix)]
        if let Ok(it) = fs::metadata(&target) {
            use std::os::unix::fs::MetadataExt;
            return Ok(Identity::Number(it.dev(), it.ino()));
        }
        // A file that does not exist yet cannot be canonicalized, but its folder can.
        let full_name = fs::canonicalize(&target).or_else(|_| match target.file_name() {
            Some(name) => Ok(fs::canonicalize(folder(&target))?.join(name)),
            None => std::path::absolute(&target),
        });
        full_name.or_else(|_: io::Error| std::path::absolute(&target)).map(Identity::Path)
    }
}

/// The largest number of links that are followed, as in Linux.
const MAX_LINKS: usize = 40;

/// Returns the path that symbolic links lead to. There need not be a file.
pub(crate) fn follow(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&path) {
            Ok(target) => path = folder(&path).join(target),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

/// Returns the folder of a file.
pub(crate) fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Writes `content` to `path`, and replaces the file that is there.
///
/// A new file has the permissions that the umask of the process gives; a file that is replaced keeps its permissions. A
/// symbolic link stays, and the file that it leads to is replaced. A device or a pipe is written to directly. Several
/// processes can write to one path at a time: the path then holds the whole content of one of them.
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
    let target = follow(path)?;
    let mut file = temporary_file(&target)?;
    // The error of `NamedTempFile::write_all` would name the temporary file.
    file.as_file_mut().write_all(content)?;
    if let Ok(replaced) = fs::metadata(&target) {
        file.as_file().set_permissions(replaced.permissions())?;
    }
    file.as_file().sync_all()?;
    file.persist(&target)?;
    sync_folder(folder(&target))
}

/// Waits until the names in a folder are on the disk, where folders can be opened and the file system knows this.
fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder).map(|folder| folder.sync_all()) {
        Ok(Err(error))
            if !matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) =>
        {
            Err(error)
        }
        _ => Ok(()),
    }
}

/// Creates a temporary file in the folder of `path`. It is deleted when it is dropped.
fn temporary_file(path: &Path) -> io::Result<NamedTempFile> {
    // `Builder::tempfile_in` would create files that only their owner can read.
    tempfile::Builder::new()
        .prefix(".noodl-")
        .suffix(".tmp")
        .make_in(folder(path), |path| File::create_new(path))
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
pub fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|it| !it.is_file() && !it.is_dir())
}

#[cfg(unix)]
fn is_device(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    fs::metadata(path).is_ok_and(|it| it.file_type().is_char_device() || it.file_type().is_block_device())
}

#[cfg(not(unix))]
fn is_device(path: &Path) -> bool {
    is_special(path)
}

pub(crate) fn cannot_write(path: &Path, error: io::Error) -> Error {
    Error::Write { file: path.display().to_string(), error }
}
