//! The covariance of fibers: its directions, and the energy of the fibers along each.
//!
//! Symbols: n is the number of features, Y the fibers (n x count), M = Y Y' (n x n).
//!
//! Where fibers are fewer than features, M has no more directions than there are fibers. They are found in the space of
//! the fibers: Y'Y (count x count) has the same energies, and Y w / |Y w| is a direction of M if w is one of Y'Y. This
//! takes memory for n count numbers instead of n n, and a time that grows with n count^2 instead of n^3.

use crate::linalg::decompose::eigen;
use crate::linalg::product::{add_product, transposed_product};

/// Directions with less than this part of the largest energy are left out where fibers are fewer than features: the
/// energy there is rounding.
const ROUNDING: f64 = 1e-9;

/// The directions of the covariance of fibers.
pub(crate) struct Spectrum {
    /// Sum of the squares of the fibers along each direction, increasing.
    pub(crate) energies: Vec<f64>,
    /// Orthonormal directions, n values each. All others have no energy.
    pub(crate) directions: Vec<f64>,
}

impl Spectrum {
    /// All n directions of Y Y' (n x n). None if an entry is not finite.
    pub(crate) fn of_moment(moment: &[f64], n: usize) -> Option<Spectrum> {
        let (energies, directions) = eigen(moment, n)?;
        Some(Spectrum { energies, directions })
    }

    /// The directions that fibers Y span, given the fibers (n values each). None if a value is not finite.
    pub(crate) fn of_fibers(fibers: &[f64], n: usize) -> Option<Spectrum> {
        let count = fibers.len() / n;
        let (mut energies, mut weights) = eigen(&gram(fibers, n), count)?;
        let least = ROUNDING * energies.last().copied().unwrap_or(0.0);
        let left_out = energies.partition_point(|&energy| energy <= least);
        energies.drain(..left_out);
        weights.drain(..left_out * count);
        for (w, energy) in weights.chunks_exact_mut(count.max(1)).zip(&energies) {
            w.iter_mut().for_each(|w| *w /= energy.sqrt());
        }
        let mut directions = vec![0.0; n * energies.len()];
        if !energies.is_empty() {
            add_product(&mut directions, fibers, &weights, n);
        }
        Some(Spectrum { energies, directions })
    }
}

/// Returns Y'Y (count x count), given the fibers Y (n values each).
fn gram(fibers: &[f64], n: usize) -> Vec<f64> {
    let count = fibers.len() / n;
    let mut gram = vec![0.0; count * count];
    if count > 0 {
        transposed_product(&mut gram, fibers, fibers, n);
    }
    gram
}

/// Returns Y Y' (n x n), given the fibers Y (n values each).
pub(crate) fn moment(fibers: &[f64], n: usize) -> Vec<f64> {
    // Y Y' is the transposed product of Y' with itself.
    let count = fibers.len() / n;
    let mut rows = vec![0.0; fibers.len()];
    for (f, y) in fibers.chunks_exact(n).enumerate() {
        y.iter().enumerate().for_each(|(feature, y)| rows[feature * count + f] = *y);
    }
    gram(&rows, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_in_the_space_of_the_fibers_are_those_of_the_moment() {
        // Three fibers of eight features; the third is the sum of the others.
        let mut fibers: Vec<f64> = (0..16).map(|at| f64::from(at * at % 7) - 2.5).collect();
        let third: Vec<f64> = (0..8).map(|at| fibers[at] + fibers[8 + at]).collect();
        fibers.extend(third);
        let few = Spectrum::of_fibers(&fibers, 8).unwrap();
        let all = Spectrum::of_moment(&moment(&fibers, 8), 8).unwrap();
        assert_eq!((few.energies.len(), all.energies.len()), (2, 8));
        for (at, energy) in few.energies.iter().enumerate() {
            assert!((energy - all.energies[6 + at]).abs() < 1e-9 * energy);
            let (few, all) = (&few.directions[8 * at..][..8], &all.directions[8 * (6 + at)..][..8]);
            let cosine: f64 = few.iter().zip(all).map(|(a, b)| a * b).sum();
            assert!((cosine.abs() - 1.0).abs() < 1e-9, "{cosine}");
        }
        assert!(all.energies[..6].iter().all(|energy| energy.abs() < 1e-9));
    }
}
