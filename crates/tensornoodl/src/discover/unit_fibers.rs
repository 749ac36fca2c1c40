//! Fibers as the search sees them: scaled to unit length, in single precision.

use std::collections::HashSet;

use crate::data::tensor::Tensor;

/// Number of fibers whose products are computed together.
pub(crate) const BLOCK: usize = 128;

/// Fibers scaled to unit length, in single precision, column by column, with the norm of each.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct UnitFibers {
    pub(crate) n: usize,
    pub(crate) values: Vec<f32>,
    pub(crate) lengths: Vec<f64>,
    /// A hash of the place and the values of each fiber. It identifies a fiber that comes again because the same
    /// tensor is learned from twice.
    hashes: Vec<u64>,
}

impl UnitFibers {
    pub(crate) fn new(n: usize) -> UnitFibers {
        UnitFibers { n, values: Vec::new(), lengths: Vec::new(), hashes: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Whether all parts fit together, for n features. Fibers from a file may fail this.
    pub(crate) fn is_sound(&self, n: usize) -> bool {
        let count = self.lengths.len();
        self.n == n
            && self.values.len() == n * count
            && self.hashes.len() == count
            && self.values.iter().all(|value| value.is_finite())
            && self.lengths.iter().all(|length| length.is_finite())
    }

    /// Appends a fiber of a tensor, scaled to unit length. A fiber of zeros is left out.
    pub(crate) fn push(&mut self, tensor: &Tensor<'_>, fiber: usize) {
        let (y, place) = (tensor.fiber(fiber), tensor.places()[fiber]);
        let length = crate::linalg::vector::dot(y, y).sqrt();
        if length > 0.0 {
            self.values.extend(y.iter().map(|y| (y / length) as f32));
            self.lengths.push(length);
            // A variant of the Fowler-Noll-Vo hash that takes 64 bits at a time.
            let words = [place.row.into(), place.col.into()].into_iter().chain(y.iter().map(|y| y.to_bits()));
            let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x100_0000_01b3).rotate_left(23);
            self.hashes.push(words.fold(0xcbf2_9ce4_8422_2325, mix));
        }
    }

    /// A single fiber of a tensor.
    pub(crate) fn one(tensor: &Tensor<'_>, fiber: usize) -> UnitFibers {
        let mut one = UnitFibers::new(tensor.shape().features);
        one.push(tensor, fiber);
        one
    }

    /// Appends some fibers of `others`.
    pub(crate) fn take(&mut self, others: &UnitFibers, fibers: &[usize]) {
        for &fiber in fibers {
            self.values.extend_from_slice(others.get(fiber));
            self.lengths.push(others.lengths[fiber]);
            self.hashes.push(others.hashes[fiber]);
        }
    }

    /// Keeps only the last `count` fibers.
    pub(crate) fn keep_last(&mut self, count: usize) {
        let first = self.len().saturating_sub(count);
        self.values.drain(..first * self.n);
        self.lengths.drain(..first);
        self.hashes.drain(..first);
    }

    /// Keeps only the fibers with a norm of at least `length`.
    pub(crate) fn keep_longer(&mut self, length: f64) {
        if self.lengths.iter().any(|own| *own < length) {
            let all = std::mem::replace(self, UnitFibers::new(self.n));
            let long: Vec<usize> = (0..all.len()).filter(|&fiber| all.lengths[fiber] >= length).collect();
            self.take(&all, &long);
        }
    }

    /// Appends all fibers of `others`.
    pub(crate) fn take_all(&mut self, others: &UnitFibers) {
        self.values.extend_from_slice(&others.values);
        self.lengths.extend_from_slice(&others.lengths);
        self.hashes.extend_from_slice(&others.hashes);
    }

    /// Appends a fiber of `others`, unless it is here already.
    pub(crate) fn take_one(&mut self, others: &UnitFibers, fiber: usize) {
        if !self.hashes.contains(&others.hashes[fiber]) {
            self.take(others, &[fiber]);
        }
    }

    /// Appends the fibers of `others` that are not here yet, each once.
    pub(crate) fn take_new(&mut self, others: &UnitFibers) {
        let mut here: HashSet<u64> = self.hashes.iter().copied().collect();
        let new: Vec<usize> = (0..others.len()).filter(|&f| here.insert(others.hashes[f])).collect();
        self.take(others, &new);
    }

    pub(crate) fn get(&self, fiber: usize) -> &[f32] {
        &self.values[fiber * self.n..][..self.n]
    }

    /// Number of entries of a fiber that differ from its median. The median is 0 in a sparse fiber, and another value
    /// in a centered one.
    pub(crate) fn entries(&self, fiber: usize) -> usize {
        let mut values = self.get(fiber).to_vec();
        let median = *values.select_nth_unstable_by(self.n / 2, f32::total_cmp).1;
        values.iter().filter(|value| **value != median).count()
    }
}

/// Returns the inner product <x, y>.
pub(crate) fn dot(x: &[f32], y: &[f32]) -> f32 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

/// Scales a vector to unit length. Returns false if its norm is zero or not finite.
pub(crate) fn normalise(x: &mut [f32]) -> bool {
    let length = dot(x, x).sqrt();
    x.iter_mut().for_each(|x| *x /= length);
    length > 0.0 && length.is_finite()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::shape::{Place, Shape};

    pub(crate) fn fibers(columns: &[&[f64]]) -> UnitFibers {
        let n = columns[0].len();
        let places = (0..columns.len()).map(|row| Place { row: row as u32, col: 0 }).collect();
        let shape = Shape { features: n, rows: columns.len(), cols: 1 };
        let tensor = Tensor::trusted(shape, columns.concat(), places);
        let mut fibers = UnitFibers::new(n);
        (0..columns.len()).for_each(|fiber| fibers.push(&tensor, fiber));
        fibers
    }

    #[test]
    fn fibers_are_told_apart_by_place_and_value() {
        let mut some = fibers(&[&[3.0, 4.0], &[3.0, 4.0], &[0.0, 0.0], &[1.0, 0.0]]);
        assert_eq!((some.len(), &some.lengths[..], some.get(1)), (3, &[5.0, 5.0, 1.0][..], &[0.6, 0.8][..]));
        some.take_new(&fibers(&[&[3.0, 4.0], &[3.0, 4.5]]));
        assert_eq!(some.len(), 4, "the first is here already, the second is another one");
        some.keep_last(1);
        assert_eq!((some.len(), some.lengths[0]), (1, (9.0_f64 + 4.5 * 4.5).sqrt()));
    }
}
