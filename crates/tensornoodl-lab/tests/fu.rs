//! Planted groups are found, also behind an outlying slab, and a sweep is what the formulas say.

#![allow(clippy::unwrap_used)]

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tensornoodl_lab::methods::{Entry, Fu, fu, fu_from};

const SHAPE: [usize; 3] = [30, 25, 12];

/// Columns with a third of their entries, from 0.5 to 1.5.
fn sparse_columns(rng: &mut ChaCha8Rng, length: usize, groups: usize) -> Vec<f64> {
    let mut draw = |_| if rng.random::<f64>() < 0.35 { 0.5 + rng.random::<f64>() } else { 0.0 };
    (0..length * groups).map(&mut draw).collect()
}

fn random(seed: u64, groups: usize) -> [Vec<f64>; 3] {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    SHAPE.map(|length| (0..length * groups).map(|_| rng.random()).collect())
}

/// The model at a place.
fn value(factors: &[Vec<f64>; 3], shape: [usize; 3], groups: usize, at: [usize; 3]) -> f64 {
    (0..groups).map(|i| (0..3).map(|axis| factors[axis][i * shape[axis] + at[axis]]).product::<f64>()).sum()
}

fn places([n, j, k]: [usize; 3]) -> impl Iterator<Item = [usize; 3]> {
    (0..n * j * k).map(move |at| [at / (j * k), at / k % j, at % k])
}

fn planted(groups: usize) -> ([Vec<f64>; 3], Vec<Entry>) {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let factors = SHAPE.map(|length| sparse_columns(&mut rng, length, groups));
    let entries = places(SHAPE).map(|at| (at, value(&factors, SHAPE, groups, at)));
    let entries = entries.filter(|entry| entry.1 != 0.0).collect();
    (factors, entries)
}

/// The planted tensor with one month of noise.
fn with_outlier(entries: &[Entry], slab: usize) -> Vec<Entry> {
    let mut rng = ChaCha8Rng::seed_from_u64(8);
    let mut all: Vec<Entry> = entries.iter().copied().filter(|(at, _)| at[2] != slab).collect();
    let noise = places(SHAPE).filter(|at| at[2] == slab).map(|at| (at, 20.0 * rng.random::<f64>()));
    all.extend(noise);
    all
}

/// Of each true column, the cosine with the found one that is nearest; the smallest.
fn cosine(found: &[f64], truth: &[f64], length: usize) -> f64 {
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    let unit = |x: &[f64], y: &[f64]| dot(x, y) / (dot(x, x) * dot(y, y)).sqrt().max(f64::MIN_POSITIVE);
    let nearest = |t: &[f64]| found.chunks_exact(length).map(|f| unit(f, t)).fold(0.0, f64::max);
    truth.chunks_exact(length).map(nearest).fold(1.0, f64::min)
}

fn options() -> Fu {
    Fu { groups: 4, p: 0.5, lambda: 1e-4, starts: 10, ..Fu::default() }
}

#[test]
fn planted_groups_are_found() {
    let (truth, entries) = planted(4);
    let fit = fu(&entries, SHAPE, &options()).unwrap();
    for axis in 0..3 {
        let cosine = cosine(&fit.factors[axis], &truth[axis], SHAPE[axis]);
        assert!(cosine > 0.99, "axis {axis}: {cosine}");
        assert!(fit.factors[axis].iter().all(|x| *x >= 0.0));
    }
    let again = fu(&entries, SHAPE, &options()).unwrap();
    assert_eq!((again.factors, again.objective), (fit.factors, fit.objective));
}

#[test]
fn an_outlying_slab_loses_its_weight() {
    let (truth, entries) = planted(4);
    let (slab, entries) = (5, with_outlier(&entries, 5));
    let worst = |fit: &tensornoodl_lab::methods::FuFit| {
        (0..2).map(|axis| cosine(&fit.factors[axis], &truth[axis], SHAPE[axis])).fold(1.0, f64::min)
    };
    let robust = fu(&entries, SHAPE, &options()).unwrap();
    let least = (0..SHAPE[2]).filter(|k| *k != slab).map(|k| robust.weights[k]).fold(f64::INFINITY, f64::min);
    assert!(robust.weights[slab] < 0.01 * least, "{:?}", robust.weights);
    assert!(worst(&robust) > 0.99, "{}", worst(&robust));
    let plain = fu(&entries, SHAPE, &Fu { p: 2.0, ..options() }).unwrap();
    assert!(plain.weights.iter().all(|weight| *weight == 1.0));
    assert!(worst(&plain) < 0.9, "{}", worst(&plain));
}

#[test]
fn the_objective_never_rises() {
    let (_, entries) = planted(4);
    let entries = with_outlier(&entries, 5);
    for (p, sparse) in [(0.5, [true, false, false]), (1.0, [true, true, false]), (2.0, [false, true, true])] {
        // With a small eps, a slab that fits has a weight that makes its rounding visible.
        let options = Fu { p, sparse, eps: 1.0, lambda: 0.01, most_sweeps: 1, tolerance: 0.0, ..options() };
        let (mut factors, mut before) = (random(3, 4), f64::INFINITY);
        for sweep in 0..60 {
            let fit = fu_from(&entries, SHAPE, factors, &options).unwrap();
            assert!(
                fit.objective <= before * (1.0 + 1e-12),
                "p {p}, sweep {sweep}: {before} {}",
                fit.objective
            );
            (factors, before) = (fit.factors, fit.objective);
        }
    }
}

/// One sweep on the whole tensor: every entry of a factor in turn is put to where the weighted residual tells.
fn twin(z: &[Entry], shape: [usize; 3], mut factors: [Vec<f64>; 3], options: &Fu) -> [Vec<f64>; 3] {
    let rest = |factors: &[Vec<f64>; 3], at: [usize; 3]| {
        let z = z.iter().find(|entry| entry.0 == at).map_or(0.0, |entry| entry.1);
        z - value(factors, shape, options.groups, at)
    };
    let weight = |k: usize| {
        let energy: f64 = places(shape).filter(|at| at[2] == k).map(|at| rest(&factors, at).powi(2)).sum();
        options.p / 2.0 * (energy + options.eps).powf(options.p / 2.0 - 1.0)
    };
    let weights: Vec<f64> = (0..shape[2]).map(weight).collect();
    for axis in 0..3 {
        for i in (0..10).flat_map(|_| 0..options.groups) {
            for row in 0..shape[axis] {
                let own = i * shape[axis] + row;
                let (mut slope, mut curvature) = (0.0, 0.0);
                for at in places(shape).filter(|at| at[axis] == row) {
                    let others = (0..3).filter(|other| *other != axis);
                    let x: f64 = others.map(|other| factors[other][i * shape[other] + at[other]]).product();
                    slope += weights[at[2]] * x * (rest(&factors, at) + x * factors[axis][own]);
                    curvature += weights[at[2]] * x * x;
                }
                let lambda = options.lambda;
                let (l1, ridge) = if options.sparse[axis] { (lambda / 2.0, 0.0) } else { (0.0, lambda) };
                factors[axis][own] = f64::max(0.0, (slope - l1) / (curvature + ridge));
            }
        }
    }
    factors
}

#[test]
fn a_sweep_is_what_the_formulas_say() {
    let shape = [4, 3, 5];
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let start = shape.map(|length| (0..length * 2).map(|_| rng.random()).collect::<Vec<f64>>());
    let entries: Vec<Entry> = places(shape)
        .filter(|at| (at[0] + 2 * at[1] + at[2]) % 3 == 0)
        .collect::<Vec<_>>()
        .into_iter()
        .map(|at| (at, 3.0 * rng.random::<f64>()))
        .collect();
    for sparse in [[true, false, false], [true, true, false], [false, true, true]] {
        let options = Fu { groups: 2, p: 0.7, lambda: 0.05, sparse, most_sweeps: 1, ..Fu::default() };
        let found = fu_from(&entries, shape, start.clone(), &options).unwrap();
        let twin = twin(&entries, shape, start.clone(), &options);
        // Scale is moved between the factors afterwards; the terms stay.
        let (mut apart, mut zeros) = (0.0, 0);
        for (i, at) in (0..2).flat_map(|i| places(shape).map(move |at| (i, at))) {
            let term = |factors: &[Vec<f64>; 3]| {
                (0..3).map(|axis| factors[axis][i * shape[axis] + at[axis]]).product::<f64>()
            };
            apart = f64::max(apart, (term(&found.factors) - term(&twin)).abs());
            zeros += usize::from(term(&twin) == 0.0);
        }
        assert!(apart < 1e-12 && zeros > 0 && zeros < 120, "{sparse:?}: {apart:e}, {zeros} zeros");
        // Degree times penalty is the same for the three columns of a group.
        let slope = |axis: usize| {
            let column = &found.factors[axis][..shape[axis]];
            if sparse[axis] { column.iter().sum() } else { 2.0 * column.iter().map(|x| x * x).sum::<f64>() }
        };
        assert!((slope(0) - slope(1)).abs() < 1e-12 && (slope(0) - slope(2)).abs() < 1e-12);
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |options: Fu| fu(&[([0, 0, 0], 1.0)], [2, 2, 2], &options).unwrap_err().to_string();
    assert!(refused(Fu { p: 0.0, ..options() }).contains("p is 0"));
    assert!(refused(Fu { starts: 0, ..options() }).contains("starts is 0"));
    assert!(refused(Fu { groups: 0, ..options() }).contains("groups is 0"));
    let outside = fu(&[([0, 2, 0], 1.0)], [2, 2, 2], &options()).unwrap_err().to_string();
    assert!(outside.contains("outside the shape 2 x 2 x 2"), "{outside}");
    assert!(fu_from(&[], [2, 2, 2], [vec![], vec![], vec![]], &options()).is_err());
}
