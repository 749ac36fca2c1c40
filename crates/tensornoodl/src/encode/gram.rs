//! Gram matrices: inner products of the patterns of two dictionaries.
//!
//! ```text
//! G = A'D (m x m)    for dictionaries A (n x m) and D (n x m), in most places D = A
//! G_il = <A_i, D_l>  at most 1 in magnitude, because patterns have unit length
//! ```
//!
//! G is computed in pieces of fixed width, in parallel if asked for, so that its bits do not depend on the number of
//! threads.

use rayon::prelude::*;

use crate::data::dictionary::Dictionary;
use crate::linalg::product::transposed_product;
use crate::linalg::vector::with_simd;

/// Number of columns of G in one piece.
const PIECE: usize = 64;

/// G = A'D, in double and in single precision.
pub(super) struct Gram {
    values: Vec<f64>,
    single: Vec<f32>,
    /// The largest magnitude off the diagonal of each column.
    largest: Vec<f64>,
}

/// One piece of G: its columns in double precision, in single precision, their largest magnitudes off the diagonal, and
/// the columns of D that they belong to.
type Piece<'a> = (((&'a mut [f64], &'a mut [f32]), &'a mut [f64]), &'a [f64]);

impl Gram {
    /// Computes A'D, on all threads of the pool or on this one.
    pub(super) fn new(a: &Dictionary, d: &Dictionary, in_parallel: bool) -> Gram {
        let (n, m) = (a.features(), a.patterns());
        let (mut values, mut single, mut largest) = (vec![0.0; m * m], vec![0.0; m * m], vec![0.0; m]);
        let compute = |(piece, (((values, single), largest), patterns)): (usize, Piece<'_>)| {
            transposed_product(values, a.values(), patterns, n);
            single.iter_mut().zip(values.iter()).for_each(|(single, &value)| *single = value as f32);
            for (at, (largest, column)) in largest.iter_mut().zip(values.chunks_exact(m)).enumerate() {
                let largest_of = |part: &[f64]| part.iter().fold(0.0, |a: f64, g| a.max(g.abs()));
                let diagonal = piece * PIECE + at;
                *largest = largest_of(&column[..diagonal]).max(largest_of(&column[diagonal + 1..]));
            }
        };
        let pieces: Vec<(usize, Piece<'_>)> = values
            .chunks_mut(m * PIECE)
            .zip(single.chunks_mut(m * PIECE))
            .zip(largest.chunks_mut(PIECE))
            .zip(d.values().chunks(n * PIECE))
            .enumerate()
            .collect();
        if in_parallel {
            pieces.into_par_iter().for_each(compute);
        } else {
            pieces.into_iter().for_each(compute);
        }
        Gram { values, single, largest }
    }

    /// Column `pattern` of G.
    pub(super) fn column(&self, pattern: u32) -> &[f64] {
        let m = self.largest.len();
        &self.values[pattern as usize * m..][..m]
    }

    /// Column `pattern` of G in single precision.
    pub(super) fn single(&self, pattern: u32) -> &[f32] {
        let m = self.largest.len();
        &self.single[pattern as usize * m..][..m]
    }

    /// The largest magnitude off the diagonal of column `pattern`.
    pub(super) fn largest(&self, pattern: u32) -> f64 {
        self.largest[pattern as usize]
    }

    /// Computes scores = G_S x / unit in single precision, for a code x with support S.
    pub(super) fn scores(&self, scores: &mut [f32], code: &[(u32, f64)], unit: f64) {
        scores.fill(0.0);
        for &(i, x) in code {
            let x = (x / unit) as f32;
            let column = self.single(i);
            with_simd(
                #[inline(always)]
                || scores.iter_mut().zip(column).for_each(|(score, g)| *score += x * g),
            );
        }
    }
}

/// Adds one entry x of a code to gradient = d - G_S x and to coupling_i = |G_iS|^2: gradient -= x g and coupling +=
/// g^2, for the column g of G that belongs to the entry.
pub(super) fn add_column<T: Copy + Into<f64>>(
    gradient: &mut [f64],
    coupling: &mut [f64],
    x: f64,
    column: &[T],
) {
    with_simd(
        #[inline(always)]
        || {
            for ((gradient, coupling), &g) in gradient.iter_mut().zip(coupling).zip(column) {
                let g: f64 = g.into();
                *gradient -= x * g;
                *coupling += g * g;
            }
        },
    );
}
