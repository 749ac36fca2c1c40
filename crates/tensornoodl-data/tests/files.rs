//! Files on disk: how they are opened, and how they are replaced.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use tensornoodl_data::tns::{Layout, open, read};
use tensornoodl_data::{Error, files};

/// A new, empty folder.
fn folder(name: &str) -> PathBuf {
    let folder = common::place(&format!("files-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).unwrap();
    folder
}

/// The names of the files in a folder, in order.
fn names(folder: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<String> = fs::read_dir(folder).unwrap().map(name).collect();
    names.sort();
    names
}

#[test]
fn gzip_files_are_decompressed() {
    let path = folder("gzip").join("x.tns.gz");
    let mut gzip = flate2::write::GzEncoder::new(fs::File::create(&path).unwrap(), Default::default());
    gzip.write_all(b"1 2 3 4\n").unwrap();
    gzip.finish().unwrap();
    let entries = read(open(&path).unwrap(), "x.tns.gz", &Layout::default()).unwrap();
    assert_eq!((entries.len(), entries.shape().to_string().as_str()), (1, "1 x 2 x 3"));
    // A truncated file.
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 6]).unwrap();
    let error = read(open(&path).unwrap(), "x.tns.gz", &Layout::default()).unwrap_err();
    assert!(matches!(error, Error::Read { .. }), "{error}");
    fs::remove_file(&path).unwrap();
    assert!(matches!(open(&path), Err(Error::Read { .. })));
}

#[test]
fn writing_leaves_other_files_alone() {
    let folder = folder("others");
    let path = folder.join("model");
    let other = folder.join("model.part");
    fs::write(&other, "somebody else's").unwrap();
    files::check(&path).unwrap();
    assert_eq!(names(&folder), ["model.part"]);
    for content in ["one", "another"] {
        files::write(&path, content).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), content);
        files::check(&path).unwrap();
    }
    assert_eq!(fs::read_to_string(&other).unwrap(), "somebody else's");
    assert_eq!(names(&folder), ["model", "model.part"]);
}

#[test]
fn concurrent_writers_leave_one_whole_file() {
    let folder = folder("writers");
    let path = folder.join("model");
    let content = |writer: usize| vec![b'a' + writer as u8; 100_000 + writer];
    for _ in 0..20 {
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let path = &path;
                scope.spawn(move || files::write(path, content(writer)).unwrap());
            }
        });
        let found = fs::read(&path).unwrap();
        assert!((0..4).any(|writer| found == content(writer)), "{} bytes", found.len());
        assert_eq!(names(&folder), ["model"]);
    }
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let folder = folder("refused");
    let long = folder.join("x".repeat(300));
    let trailing = PathBuf::from(format!("{}/new/", folder.display()));
    for path in [folder.clone(), folder.join("no/folder/x"), long, trailing] {
        for error in [files::check(&path).unwrap_err(), files::write(&path, "x").unwrap_err()] {
            let message = error.to_string();
            assert!(matches!(error, Error::Write { .. }), "{message}");
            assert!(message.starts_with(&format!("cannot write {}: ", path.display())), "{message}");
            assert!(!message.contains(".noodl-"), "{message}");
        }
    }
    assert!(names(&folder).is_empty());
}

#[test]
fn no_output_is_an_input_or_another_output() {
    let folder = folder("apart");
    let (table, model) = (folder.join("table"), folder.join("model"));
    fs::write(&table, "").unwrap();
    let same = folder.join("../files-apart/table");
    files::apart(&[&table], &[&model]).unwrap();
    assert!(files::apart(&[&table], &[&same]).is_err());
    assert!(files::apart(&[&table], &[&model, &model]).is_err());
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_new_file_has_the_usual_permissions_and_an_old_one_keeps_its_own() {
        let folder = folder("permissions");
        let (usual, path) = (folder.join("usual"), folder.join("model"));
        fs::write(&usual, "").unwrap();
        files::write(&path, "new").unwrap();
        assert_eq!(mode(&path), mode(&usual));
        for kept in [0o600, 0o640, 0o664] {
            fs::set_permissions(&path, fs::Permissions::from_mode(kept)).unwrap();
            files::write(&path, "replaced").unwrap();
            assert_eq!(mode(&path), kept);
        }
    }

    /// Hard links, symbolic links and a link to a file that does not exist yet are found out.
    #[test]
    fn a_link_is_the_file_that_it_leads_to() {
        let folder = folder("links");
        let [table, hard, soft, new, dangling] =
            ["table", "hard", "soft", "new", "dangling"].map(|name| folder.join(name));
        fs::write(&table, "").unwrap();
        fs::hard_link(&table, &hard).unwrap();
        std::os::unix::fs::symlink("table", &soft).unwrap();
        std::os::unix::fs::symlink("new", &dangling).unwrap();
        for link in [&hard, &soft] {
            let error = files::apart(&[&table], &[link]).unwrap_err().to_string();
            let expected = format!("it is the same file as {}, which this command needs", table.display());
            assert!(error.contains(&expected), "{error}");
        }
        assert!(files::apart(&[], &[&new, &dangling]).is_err());
        files::apart(&[&table], &[&new]).unwrap();
    }

    /// A link stays, and the file that it leads to gets the content, also through a chain and where there is no file yet.
    #[test]
    fn links_are_kept() {
        let folder = folder("kept");
        fs::create_dir(folder.join("store")).unwrap();
        let [first, second, new] = ["first", "second", "new"].map(|name| folder.join(name));
        fs::write(folder.join("store/model"), "old").unwrap();
        for (link, target) in [(&first, "second"), (&second, "store/model"), (&new, "store/new")] {
            std::os::unix::fs::symlink(target, link).unwrap();
        }
        for link in [&first, &new] {
            files::check(link).unwrap();
            files::write(link, "content").unwrap();
            assert!(fs::symlink_metadata(link).unwrap().is_symlink());
        }
        assert!(fs::symlink_metadata(&second).unwrap().is_symlink());
        for name in ["model", "new"] {
            assert_eq!(fs::read_to_string(folder.join("store").join(name)).unwrap(), "content");
        }
        assert_eq!(names(&folder.join("store")), ["model", "new"]);
        let circle = folder.join("circle");
        std::os::unix::fs::symlink("circle", &circle).unwrap();
        assert!(files::write(&circle, "").is_err());
    }

    /// One process at a time holds the lock of a file, by any of its names; others are told who.
    #[test]
    fn a_lock_names_its_holder() {
        use tensornoodl_data::Lock;
        let folder = folder("lock");
        let (path, link) = (folder.join("model"), folder.join("link"));
        std::os::unix::fs::symlink("model", &link).unwrap();
        let held = Lock::take(&path).unwrap().unwrap();
        for name in [&path, &link] {
            let error = Lock::take(name).unwrap_err().to_string();
            let holder = format!("it is in use by process {} on ", std::process::id());
            assert!(error.contains(&holder) && error.contains(" since 20"), "{error}");
        }
        drop(held);
        assert_eq!(names(&folder), ["link"]);
        // The file of a killed process is free.
        fs::write(folder.join(".model.lock"), "noodl: process 1 on there since then\n").unwrap();
        drop(Lock::take(&path).unwrap().unwrap());
        assert_eq!(names(&folder), ["link"]);
        // Files of others are neither changed nor followed.
        let own = folder.join("own");
        fs::write(&own, "").unwrap();
        std::os::unix::fs::symlink("own", folder.join(".model.lock")).unwrap();
        assert!(Lock::take(&path).unwrap_err().to_string().contains("is no lock of noodl"));
        assert_eq!(fs::read_to_string(&own).unwrap(), "");
        fs::remove_file(folder.join(".model.lock")).unwrap();
        fs::write(folder.join(".model.lock"), "my notes").unwrap();
        assert!(Lock::take(&path).is_err());
        assert_eq!(fs::read_to_string(folder.join(".model.lock")).unwrap(), "my notes");
        assert!(Lock::take(Path::new("/dev/null")).unwrap().is_none());
    }

    /// A lock never makes a file at the end of a link, waits for no pipe, and deletes no file that has taken its place.
    #[test]
    fn a_lock_leaves_other_files_alone() {
        use tensornoodl_data::Lock;
        let folder = folder("lock-others");
        let (path, lock) = (folder.join("model"), folder.join(".model.lock"));
        std::os::unix::fs::symlink("nowhere", &lock).unwrap();
        assert!(Lock::take(&path).unwrap_err().to_string().contains("is no lock of noodl"));
        assert_eq!(names(&folder), [".model.lock"]);
        fs::remove_file(&lock).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&lock).status().unwrap().success());
        assert!(Lock::take(&path).unwrap_err().to_string().contains("is no lock of noodl"));
        fs::remove_file(&lock).unwrap();
        let held = Lock::take(&path).unwrap().unwrap();
        files::write(&lock, "a page").unwrap();
        drop(held);
        assert_eq!(fs::read_to_string(&lock).unwrap(), "a page");
    }

    /// Long names have locks, too.
    #[test]
    fn a_long_name_has_a_lock() {
        use tensornoodl_data::Lock;
        let folder = folder("lock-long");
        let [one, two] = ["1", "2"].map(|end| folder.join("n".repeat(249) + end));
        let held = Lock::take(&one).unwrap().unwrap();
        assert!(Lock::take(&one).unwrap_err().to_string().contains("it is in use by process"));
        drop((Lock::take(&two).unwrap().unwrap(), held));
        assert!(names(&folder).is_empty());
    }

    #[test]
    fn devices_and_pipes_are_written_to_directly() {
        let null = Path::new("/dev/null");
        files::check(null).unwrap();
        files::write(null, "gone").unwrap();
        assert!(!fs::metadata(null).unwrap().is_file());
        files::apart(&[null], &[null, null]).unwrap();
        let pipe = folder("pipe").join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read_to_string(pipe).unwrap()
        });
        files::write(&pipe, "through").unwrap();
        assert_eq!(reader.join().unwrap(), "through");
    }
}
