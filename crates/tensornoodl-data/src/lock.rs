//! Locks the output of a long run: a second run with the same output is refused, and told who holds the lock.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::files::{cannot_write, folder, follow, is_special};

/// The first words of a lock file. A file with other content is somebody's own and is not touched.
const MARK: &str = "noodl: ";

/// The largest number of bytes of a lock file that are read.
const MAX_BYTES: u64 = 300;

/// How often to try again if the file of a lock is deleted at the moment in which it is opened.
const TRIES: usize = 100;

/// The right of this process to write a file. Other processes are refused until it is dropped.
///
/// The lock is held on a hidden file beside the target, such as `.mail.safetensors.lock`, which names the process. The
/// operating system releases it when the process ends in any way; the file is then free for the next run.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    file: File,
}

impl Lock {
    /// Locks the file at `path`. None for a device or a pipe, and where the file system has no locks.
    ///
    /// # Errors
    /// [`Error::Write`] if another process holds the lock, or if no lock can be made.
    pub fn take(path: &Path) -> Result<Option<Lock>, Error> {
        if is_special(path) {
            return Ok(None);
        }
        lock(path).map_err(|error| cannot_write(path, error))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Whoever opened the file in the meantime finds that it is gone, and makes a new one. A file that cannot be
        // removed does no harm. Another file that has taken its place is somebody's own.
        if is_at(&self.file, &self.path).unwrap_or(false) {
            let _ = fs::remove_file(&self.path);
        }
        let _ = self.file.unlock();
    }
}

fn lock(path: &Path) -> io::Result<Option<Lock>> {
    let target = follow(path)?;
    let path = folder(&target).join(lock_name(&target));
    for _ in 0..TRIES {
        let (mut file, writable) = match open(&path) {
            Ok(opened) => opened,
            Err(error) if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) => {
                // Another process has made or deleted the file in between, or the folder is missing.
                fs::metadata(folder(&path))?;
                continue;
            }
            Err(error) => return Err(error),
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(in_use(&mut file)),
            Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Interrupted => continue,
            Err(TryLockError::Error(error)) if has_no_locks(&error) => {
                if writable && is_at(&file, &path)? && content(&mut file)?.is_empty() {
                    fs::remove_file(&path)?;
                }
                return Ok(None);
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // The process that held the lock before may have deleted the file, and a link leads to a file of somebody else.
        if !is_at(&file, &path)? {
            continue;
        }
        let text = content(&mut file)?;
        if !text.is_empty() && !text.starts_with(MARK) {
            return Err(in_the_way(&path));
        }
        // What another user's process left behind is replaced where the folder allows it. It is a lock in any case.
        if !writable && fs::remove_file(&path).is_ok() {
            continue;
        }
        // A lock without a name, as on a full disk, is a lock.
        let _ = name(&mut file);
        return Ok(Some(Lock { path, file }));
    }
    Err(in_the_way(&path))
}

/// The length from which a name is shortened, in bytes. Most file systems allow 255.
const LONG: usize = 200;

/// Returns the name of the lock file for a file.
fn lock_name(target: &Path) -> OsString {
    let name = target.file_name().unwrap_or_default();
    let mut lock = OsString::from(".");
    match name.len() {
        ..LONG => lock.push(name),
        _ => lock.push(format!("{:08x}", crc32fast::hash(name.as_encoded_bytes()))),
    }
    lock.push(".lock");
    lock
}

/// Opens the file of a lock, or creates it, and returns whether it can be written. A link is not followed.
fn open(path: &Path) -> io::Result<(File, bool)> {
    let options = || File::options().read(true).write(true).to_owned();
    let opened = match fs::symlink_metadata(path) {
        Ok(it) if !it.is_file() => return Err(in_the_way(path)),
        Ok(_) => options().open(path),
        Err(_) => options().create_new(true).open(path),
    };
    match opened {
        // Another user's lock can be read.
        Err(error) if error.kind() == ErrorKind::PermissionDenied && path.exists() => {
            Ok((File::open(path)?, false))
        }
        opened => Ok((opened?, true)),
    }
}

/// Whether the file system says that it has no locks, as NFS without a lock service does.
fn has_no_locks(error: &io::Error) -> bool {
    let no_lock_service = if cfg!(target_os = "linux") { 37 } else { 77 };
    error.kind() == ErrorKind::Unsupported || error.raw_os_error() == Some(no_lock_service)
}

/// Writes into the file of a lock who holds it.
fn name(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{MARK}{}", holder())
}

fn in_the_way(path: &Path) -> io::Error {
    let path = path.display();
    io::Error::other(format!(
        "{path} is in the way and is no lock of noodl; move it away, or give another name"
    ))
}

/// Says who this process is, and since when.
fn holder() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_else(|_| "this machine".into());
    let since = jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M:%S UTC");
    format!("process {} on {} since {since}", std::process::id(), host.trim())
}

fn content(file: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the error for a lock that another process holds. The process may not have written its name yet.
fn in_use(file: &mut File) -> io::Error {
    let text = content(file).unwrap_or_default();
    let holder = text.strip_prefix(MARK).and_then(|text| text.lines().next()).unwrap_or("another process");
    io::Error::other(format!("it is in use by {holder}; wait until that run ends, or give another name"))
}

/// Whether the path still names this file, without following a link.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let own = file.metadata()?;
        Ok(fs::symlink_metadata(path).is_ok_and(|it| (it.dev(), it.ino()) == (own.dev(), own.ino())))
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        Ok(!path.is_symlink())
    }
}
