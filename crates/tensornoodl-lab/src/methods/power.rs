//! The tensor power method with clustering, for one tensor: Anandkumar, Ge and Janzamin, "Learning overcomplete
//! latent variable models through tensor methods" (2015), and with truncation Sun, Lu, Liu and Cheng, "Provable
//! sparse tensor decomposition" (2017).
//!
//! Rank-1 terms are refined from many starts,
//!
//! ```text
//! a <- Z(., b, c) / |.|,   b <- Z(a, ., c) / |.|,   c <- Z(a, b, .) / |.|
//! ```
//!
//! With truncation, all but the largest entries of b and c are set to zero after each update. Of the refined terms,
//! the strongest is taken and similar ones are dropped, until m terms are taken. Where factors are not orthogonal
//! this leaves a bias, which the first method removes by coordinate descent (the authors call it "removing the
//! residual").

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tensornoodl::Tensor;

use crate::methods::cp::Cp;
use crate::methods::linear::{add, dot, entrywise, normalize};

/// Options of the power method.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Power {
    /// Number of starts: one half is random, the other half is the leading singular pair of Z(theta, ., .) for a
    /// random theta.
    pub starts: usize,
    /// Number of sweeps over the three factors.
    pub sweeps: usize,
    /// Number of entries of a row factor and of a col factor that truncation keeps. None for no truncation.
    pub kept: Option<(usize, usize)>,
    /// Number of sweeps of coordinate descent that remove the residual.
    pub residual_sweeps: usize,
    /// Seed of the starts.
    pub seed: u64,
}

/// Terms whose patterns have a larger cosine count as equal. Only A is compared: patterns are incoherent, but sparse
/// row and col factors of different patterns may coincide.
const SIMILAR: f64 = 0.5;

/// Number of sweeps for the singular pairs of the starts.
const SINGULAR_SWEEPS: usize = 10;

/// Factorizes one tensor into at most `patterns` terms.
pub fn power(tensor: &Tensor<'_>, patterns: usize, options: Power) -> Cp {
    let shape = tensor.shape();
    let mut rng = ChaCha8Rng::seed_from_u64(options.seed);
    let mut draw = |count: usize| (0..count).map(|_| rng.random::<f64>() - 0.5).collect::<Vec<f64>>();
    let starts = options.starts;
    let mut tries = Cp {
        shape,
        features: draw(shape.features * starts),
        rows: draw(shape.rows * starts),
        cols: draw(shape.cols * starts),
    };
    tries.normalize_all();
    // Every second start becomes the singular pair of Z(theta, ., .), where theta is the random a of the start.
    let scores = tries.scores(tensor);
    for _ in 0..SINGULAR_SWEEPS {
        let along = tries.along_rows(tensor, &scores);
        every_second(&mut tries.rows, &along, shape.rows);
        let along = tries.along_cols(tensor, &scores);
        every_second(&mut tries.cols, &along, shape.cols);
    }
    for _ in 0..options.sweeps {
        tries.features = tries.along_features(tensor);
        normalize(&mut tries.features, shape.features);
        let scores = tries.scores(tensor);
        tries.rows = tries.along_rows(tensor, &scores);
        truncate(&mut tries.rows, shape.rows, options.kept.map(|kept| kept.0));
        normalize(&mut tries.rows, shape.rows);
        tries.cols = tries.along_cols(tensor, &scores);
        truncate(&mut tries.cols, shape.cols, options.kept.map(|kept| kept.1));
        normalize(&mut tries.cols, shape.cols);
    }
    let mut cp = strongest(tensor, &tries, patterns);
    for _ in 0..options.residual_sweeps {
        remove_residual(tensor, &mut cp);
    }
    cp
}

/// Replaces every second column by a new one of length one.
fn every_second(factor: &mut [f64], new: &[f64], length: usize) {
    for (column, new) in factor.chunks_exact_mut(length).zip(new.chunks_exact(length)).step_by(2) {
        column.copy_from_slice(new);
        normalize(column, length);
    }
}

/// Keeps the largest entries of every column.
fn truncate(factor: &mut [f64], length: usize, kept: Option<usize>) {
    let Some(kept) = kept.filter(|kept| *kept < length) else { return };
    for column in factor.chunks_exact_mut(length) {
        let mut order: Vec<usize> = (0..length).collect();
        order.select_nth_unstable_by(kept, |&a, &b| {
            column[b].abs().total_cmp(&column[a].abs()).then(a.cmp(&b))
        });
        order[kept..].iter().for_each(|&at| column[at] = 0.0);
    }
}

/// Returns the strongest terms that are not similar to each other. Their row factors get the strength.
fn strongest(tensor: &Tensor<'_>, tries: &Cp, patterns: usize) -> Cp {
    let shape = tries.shape;
    let along = tries.along_features(tensor);
    let a = |i: usize| &tries.features[i * shape.features..][..shape.features];
    let strength: Vec<f64> =
        (0..tries.patterns()).map(|i| dot(a(i), &along[i * shape.features..][..shape.features])).collect();
    let mut order: Vec<usize> = (0..strength.len()).collect();
    order.sort_by(|&i, &l| strength[l].abs().total_cmp(&strength[i].abs()));
    let mut taken: Vec<usize> = Vec::new();
    for i in order {
        if taken.len() < patterns && taken.iter().all(|&other| dot(a(i), a(other)).abs() <= SIMILAR) {
            taken.push(i);
        }
    }
    let mut cp = Cp { shape, features: Vec::new(), rows: Vec::new(), cols: Vec::new() };
    for i in taken {
        cp.features.extend_from_slice(a(i));
        cp.rows.extend(tries.rows[i * shape.rows..][..shape.rows].iter().map(|b| strength[i] * b));
        cp.cols.extend_from_slice(&tries.cols[i * shape.cols..][..shape.cols]);
    }
    cp
}

/// Makes one sweep in which every column of every factor becomes optimal for given other columns.
fn remove_residual(tensor: &Tensor<'_>, cp: &mut Cp) {
    let shape = cp.shape;
    let (along, v) = (cp.along_features(tensor), entrywise(&cp.gram_rows(), &cp.gram_cols()));
    descend(&mut cp.features, shape.features, &along, &v);
    normalize(&mut cp.features, shape.features);
    let scores = cp.scores(tensor);
    let (along, v) = (cp.along_cols(tensor, &scores), entrywise(&cp.gram_features(), &cp.gram_rows()));
    descend(&mut cp.cols, shape.cols, &along, &v);
    normalize(&mut cp.cols, shape.cols);
    let (along, v) = (cp.along_rows(tensor, &scores), entrywise(&cp.gram_features(), &cp.gram_cols()));
    descend(&mut cp.rows, shape.rows, &along, &v);
}

/// Replaces every column by (M_i - sum over l != i of V_li F_l) / V_ii.
fn descend(factor: &mut [f64], length: usize, along: &[f64], v: &[f64]) {
    let m = factor.len() / length;
    for i in 0..m {
        let mut next = along[i * length..][..length].to_vec();
        for l in (0..m).filter(|l| *l != i) {
            add(&mut next, -v[i * m + l], &factor[l * length..][..length]);
        }
        if v[i * m + i] > 0.0 {
            let column = &mut factor[i * length..][..length];
            column.iter_mut().zip(&next).for_each(|(old, new)| *old = new / v[i * m + i]);
        }
    }
}
