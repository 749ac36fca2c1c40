//! Files on disk.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Write;
use std::path::Path;

use tensornoodl_data::Error;
use tensornoodl_data::tns::{Layout, open, read};

#[test]
fn packed_files_are_unpacked() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("x.tns.gz");
    let mut packed = flate2::write::GzEncoder::new(fs::File::create(&path).unwrap(), Default::default());
    packed.write_all(b"1 2 3 4\n").unwrap();
    packed.finish().unwrap();
    let entries = read(open(&path).unwrap(), "x.tns.gz", &Layout::default()).unwrap();
    assert_eq!((entries.len(), entries.shape().to_string().as_str()), (1, "1 x 2 x 3"));
    // A file that ends in the middle.
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 6]).unwrap();
    let error = read(open(&path).unwrap(), "x.tns.gz", &Layout::default()).unwrap_err();
    assert!(matches!(error, Error::Read { .. }), "{error}");
    fs::remove_file(&path).unwrap();
    assert!(matches!(open(&path), Err(Error::Read { .. })));
}
