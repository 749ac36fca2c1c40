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
