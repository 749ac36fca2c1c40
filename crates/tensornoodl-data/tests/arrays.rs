//! Arrays that are read as tables: the files of NumPy and FROSTT become tensors.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::io::Write;

use common::{array_query, place, query};
use ndarray_npy::{NpzWriter, WriteNpyExt};
use tensornoodl_data::{Events, Query, table};

/// An array of 3 features x 2 rows x 4 cols. Feature 1 and col 2 have no entries.
fn values() -> ndarray::Array3<f64> {
    let mut values = ndarray::Array3::zeros((3, 2, 4));
    values[[0, 0, 1]] = 2.0;
    values[[2, 0, 1]] = -3.0;
    values[[2, 1, 3]] = 5.0;
    values[[0, 1, 0]] = 7.0;
    values
}

fn check(events: &Events, what: &str) {
    assert_eq!(events.features.names, ["0", "1", "2"], "{what}");
    assert_eq!(
        (&events.rows.names[..], &events.cols.names[..]),
        (&["0", "1"].map(str::to_owned)[..], &["0", "1", "3"].map(str::to_owned)[..]),
        "{what}"
    );
    let tensor = events.tensor(0).unwrap();
    let places: Vec<(u32, u32)> = tensor.places().iter().map(|place| (place.row, place.col)).collect();
    assert_eq!(places, [(1, 0), (0, 1), (1, 2)], "{what}");
    assert_eq!(tensor.values(), [7.0, 0.0, 0.0, 2.0, 0.0, -3.0, 0.0, 0.0, 5.0], "{what}");
    assert_eq!(events.tally.events, 4, "{what}");
}

fn read_npy(name: &str, array: &impl WriteNpyExt, query: Query) -> Events {
    let path = place(name);
    array.write_npy(fs::File::create(&path).unwrap()).unwrap();
    table::read(&path, query).unwrap()
}

#[test]
fn an_array_of_numpy_is_a_tensor() {
    let values = values();
    check(&read_npy("f8.npy", &values, array_query()), "f8");
    check(&read_npy("f4.npy", &values.mapv(|v| v as f32), array_query()), "f4");
    check(&read_npy("i8.npy", &values.mapv(|v| v as i64), array_query()), "i8");
    check(&read_npy("i4.npy", &values.mapv(|v| v as i32), array_query()), "i4");
    check(&read_npy("i2.npy", &values.mapv(|v| v as i16), array_query()), "i2");
    check(&read_npy("i1.npy", &values.mapv(|v| v as i8), array_query()), "i1");
    let events = read_npy("u8.npy", &values.mapv(|v| v.abs() as u64), array_query());
    assert_eq!(events.sum(), 17.0);
    assert_eq!(read_npy("b1.npy", &values.mapv(|v| v != 0.0), array_query()).sum(), 4.0);
    // Fortran order: the first axis varies fastest.
    let mut fortran =
        ndarray::Array3::from_shape_vec(ndarray::ShapeBuilder::f((3, 2, 4)), vec![0.0; 24]).unwrap();
    fortran.assign(&values);
    check(&read_npy("fortran.npy", &fortran, array_query()), "Fortran");
    let text = fs::read(place("fortran.npy")).unwrap();
    assert!(String::from_utf8_lossy(&text).contains("'fortran_order': True"));
    // Permuted axes, and a filter on the values.
    let permuted =
        Query { filters: vec!["value>0".parse().unwrap()], ..query("bin(3,1)", "bin(1,1)", "bin(2,1)") };
    let events = read_npy("permuted.npy", &values, Query { value: array_query().value, ..permuted });
    assert_eq!((events.shape().to_string(), events.sum()), ("4 x 2 x 2".into(), 14.0));
}

#[test]
fn values_keep_their_bits() {
    let value = std::f64::consts::PI * 1e-280;
    let events = read_npy("pi.npy", &ndarray::Array3::from_elem((1, 1, 1), value), array_query());
    assert_eq!(events.sum().to_bits(), value.to_bits());
}

#[test]
fn an_npz_archive_has_one_array_or_fibers_and_places() {
    let path = place("one.npz");
    for compressed in [false, true] {
        let file = fs::File::create(&path).unwrap();
        let mut npz = if compressed { NpzWriter::new_compressed(file) } else { NpzWriter::new(file) };
        npz.add_array("z", &values()).unwrap();
        npz.finish().unwrap();
        check(&table::read(&path, array_query()).unwrap(), "one array");
    }
    let fibers = ndarray::arr2(&[[2.0, 0.0, -3.0], [0.0, 0.0, 5.0], [7.0, 0.0, 0.0]]);
    let places = ndarray::arr2(&[[0_i32, 1], [1, 3], [1, 0]]);
    for fortran in [false, true] {
        let mut npz = NpzWriter::new(fs::File::create(&path).unwrap());
        let (mut fibers, mut places) = (fibers.clone(), places.clone());
        if fortran {
            // Arrays in Fortran order, with the values of the arrays above.
            fibers = fibers.t().as_standard_layout().into_owned().reversed_axes();
            places = places.t().as_standard_layout().into_owned().reversed_axes();
        }
        npz.add_array("fibers", &fibers).unwrap();
        npz.add_array("places", &places).unwrap();
        npz.add_array("labels", &ndarray::arr1(&[1_u8])).unwrap();
        npz.finish().unwrap();
        check(&table::read(&path, array_query()).unwrap(), "fibers and places");
    }
}

#[test]
fn a_tns_file_is_a_table() {
    let text = "# feature row col value\n0 0 1 2\n2 0 1 -3\n2 1 3 4\n2 1 3 1\n0 1 0 7\n";
    let path = place("table.tns");
    fs::write(&path, text.replace("2 1 3 4\n2 1 3 1\n", "2 1 3 5\n")).unwrap();
    check(&table::read(&path, array_query()).unwrap(), "tns");
    let path = place("TABLE.TNS.GZ");
    let mut gzip = flate2::write::GzEncoder::new(fs::File::create(&path).unwrap(), Default::default());
    gzip.write_all(text.as_bytes()).unwrap();
    gzip.finish().unwrap();
    let events = table::read(&path, array_query()).unwrap();
    // Entries at one position are added.
    assert_eq!((events.sum(), events.cells(), events.tally.events), (11.0, 4, 5));
    assert!(table::is_array(&path) && !table::is_array(&place("table.csv.gz")));
}
