//! Learning from a tensor in parts: the result of the whole tensor, and a tensor ten times larger than the memory used.
//!
//! All checks are in one test, because the peak of memory is measured for the whole process.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use tensornoodl::synthetic::{Plan, Planted};
use tensornoodl::{Dictionary, Error, Learner, Params, Passes, Place, Shape, Tensor};

const MEGABYTE: u64 = 1_000_000;

/// The peak of memory of this process in bytes, if the system reports it.
fn peak() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(1024 * line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()?)
}

#[test]
fn a_tensor_in_parts_gives_the_result_of_the_whole_in_little_memory() {
    a_step_ten_times_larger_than_the_memory();
    parts_give_the_result_of_the_whole();
    bad_parts_leave_the_learner_unchanged();
}

/// Must run first, while the process is small.
fn a_step_ten_times_larger_than_the_memory() {
    let allowed = 100 * MEGABYTE;
    let (n, m, rows, cols) = (500, 40, 512, 500);
    let plan = Plan { features: n, patterns: m, ..Plan::default() };
    let planted = Planted::new(plan).unwrap();
    let truth = planted.true_dictionary();
    let shape = Shape { features: n, rows, cols };
    // Every place has a fiber. The col determines two patterns; every second row contains both, the others the first
    // only.
    let code = |row: usize, col: usize| -> Vec<(u32, f64)> {
        let (first, second) = (col % m, (col + 1 + col / m % 7) % m);
        let sign = if row.is_multiple_of(3) { -1.0 } else { 1.0 };
        let mut code = vec![(first as u32, sign)];
        if row.is_multiple_of(2) {
            code.push((second as u32, 1.5));
        }
        code.sort_by_key(|entry| entry.0);
        code
    };
    let mut bytes = 0;
    let mut learner = Learner::new(planted.start(0.05).unwrap(), Params::default()).unwrap();
    let parts = (0..cols).step_by(8).map(|first| {
        let (mut values, mut places) = (Vec::new(), Vec::new());
        for col in first..(first + 8).min(cols) {
            for row in 0..rows {
                places.push(Place { row: row as u32, col: col as u32 });
                let mut y = vec![0.0; n];
                for (i, x) in code(row, col) {
                    truth.pattern(i as usize).iter().zip(&mut y).for_each(|(a, y)| *y += x * a);
                }
                values.extend(y);
            }
        }
        bytes += size_of_val(values.as_slice()) as u64;
        Tensor::from_fibers(shape, values, places)
    });
    let step = learner.learn_parts(shape, parts).unwrap();
    assert_eq!(step.fibers, rows * cols);
    assert!(bytes > 10 * allowed);
    for (column, place) in step.codes.matrix().columns().zip(step.codes.places()) {
        let code = code(place.row as usize, place.col as usize);
        assert!(column.iter().map(|entry| entry.0).eq(code.iter().map(|entry| entry.0)), "{place}");
    }
    match peak() {
        Some(peak) => {
            println!("{} MB of fibers, peak of memory {} MB", bytes / MEGABYTE, peak / MEGABYTE);
            assert!(peak < allowed, "{} MB", peak / MEGABYTE);
        }
        None => println!("skipped: the system does not report the peak of memory"),
    }
}

/// Cuts a tensor into parts of `size` fibers.
fn cut<'a>(tensor: &'a Tensor<'_>, size: usize) -> impl Iterator<Item = Result<Tensor<'a>, Error>> {
    let n = tensor.shape().features;
    let parts = tensor.values().chunks(n * size).zip(tensor.places().chunks(size));
    parts.map(|(values, places)| Tensor::from_fibers(tensor.shape(), values, places))
}

fn farthest(a: &Dictionary, b: &Dictionary) -> f64 {
    a.values().iter().zip(b.values()).fold(0.0, |far: f64, (a, b)| far.max((a - b).abs()))
}

fn parts_give_the_result_of_the_whole() {
    let plan = Plan { patterns: 120, rows: 150, cols: 160, noise: 0.01, ..Plan::default() };
    let planted = Planted::new(plan).unwrap();
    let start = Learner::new(planted.start(0.3).unwrap(), Params::default()).unwrap();
    for size in [1000, 5000, 100_000] {
        let (mut whole, mut parts) = (start.clone(), start.clone());
        for t in 1..=2 {
            let tensor = planted.tensor(t).tensor;
            let a = whole.learn(&tensor).unwrap();
            let b = parts.learn_parts(tensor.shape(), cut(&tensor, size)).unwrap();
            assert_eq!((a.fibers, a.fibers_used, a.activity), (b.fibers, b.fibers_used, b.activity));
            for (a, b) in a.codes.matrix().columns().zip(b.codes.matrix().columns()) {
                let near = |(a, b): (&(u32, f64), &(u32, f64))| a.0 == b.0 && (a.1 - b.1).abs() < 1e-12;
                assert!(a.len() == b.len() && a.iter().zip(b).all(near), "{a:?} {b:?}");
            }
            assert_eq!(a.codes.places(), b.codes.places());
            assert!(farthest(whole.dictionary(), parts.dictionary()) < 1e-12);
        }
    }
}

fn bad_parts_leave_the_learner_unchanged() {
    let planted = Planted::new(Plan { features: 20, patterns: 10, ..Plan::default() }).unwrap();
    let tensor = planted.tensor(1).tensor;
    let shape = tensor.shape();
    let mut learner = Learner::new(planted.start(0.3).unwrap(), Params::default()).unwrap();
    let before = learner.clone();

    let broken = cut(&tensor, 10).take(3).chain([Err(Error::DuplicatePlace(Place { row: 7, col: 7 }))]);
    let error = learner.learn_parts(shape, broken).unwrap_err().to_string();
    assert!(error.contains("row 7, col 7"), "{error}");
    let twice = cut(&tensor, 10).chain(cut(&tensor, 10).take(1));
    assert!(matches!(learner.learn_parts(shape, twice), Err(Error::DuplicatePlace(_))));
    let other = Shape { rows: shape.rows + 1, ..shape };
    let error = learner.learn_parts(other, cut(&tensor, 10)).unwrap_err().to_string();
    assert_eq!(error, "a part has the shape 20 x 100 x 100, its tensor has 20 x 101 x 100");
    let wrong = Shape { features: 21, ..shape };
    assert!(matches!(learner.learn_parts(wrong, cut(&tensor, 10)), Err(Error::Features { .. })));
    assert_eq!(learner, before);

    let params = Params { passes: Passes::Auto, ..Params::default() };
    let mut learner = Learner::new(planted.start(0.3).unwrap(), params).unwrap();
    let error = learner.learn_parts(shape, cut(&tensor, 10)).unwrap_err().to_string();
    assert_eq!(error, "passes is auto, it must be 1 for a tensor in parts, which is read only once");

    // A failed step does not change the next one.
    let (mut learner, mut fresh) = (before.clone(), before);
    let _ = learner.learn_parts(shape, cut(&tensor, 10).take(3).chain([Err(Error::Shape(other))]));
    learner.learn(&tensor).unwrap();
    fresh.learn(&tensor).unwrap();
    assert_eq!(learner, fresh);
}
