//! Fibers that a growing dictionary does not explain.
//!
//! A fiber that shows a pattern which the dictionary lacks would pull the neighbouring patterns away. Such fibers are
//! left out of the update, and are kept for the search (`growth.rs`). If there are too many, a sample is kept: the
//! fibers whose places have the smallest hashes. So the sample depends neither on the order of the fibers nor on the
//! rank that has them.

use serde::{Deserialize, Serialize};

use crate::data::tensor::Tensor;
use crate::discover::scale::Scale;
use crate::discover::unit_fibers::UnitFibers;
use crate::encode::waves::Wave;
use crate::parallel::message::gather;
use crate::parallel::team::Team;

/// Maximum number of fibers that a search holds at a time, and that are kept for later searches.
pub(crate) const MAX_FIBERS: usize = 16_384;

/// Collects the unexplained fibers of one tensor on one rank.
pub(crate) struct UnexplainedFibers {
    n: usize,
    /// The units of the data. `None` if they are not known yet; no fiber counts as explained then.
    scale: Option<Scale>,
    fibers: HashSample<UnitFibers>,
    /// Residual norms of the fibers that have a code.
    residuals: HashSample<f64>,
    /// For each pattern on probation, one fiber that shows it. None for other patterns.
    examples: Vec<Option<Example>>,
}

/// A fiber that shows a pattern on probation, and the hash of its place. None if no fiber has shown the pattern.
type Example = Option<(u64, UnitFibers)>;

/// Unexplained fibers of one tensor, gathered from all ranks.
pub(crate) struct Unexplained {
    pub(crate) fibers: UnitFibers,
    /// Residual norms of fibers that have a code.
    pub(crate) residuals: Vec<f64>,
    /// A fiber for each pattern on probation that was shown.
    pub(crate) examples: UnitFibers,
    /// The pattern that each of `examples` shows.
    pub(crate) patterns: Vec<usize>,
}

/// The message that every rank sends to all others.
#[derive(Serialize, Deserialize)]
struct Message {
    fibers: Vec<(u64, UnitFibers)>,
    residuals: Vec<(u64, f64)>,
    /// Pattern, hash of the place, fiber.
    examples: Vec<(usize, u64, UnitFibers)>,
}

/// A sample of at most [`MAX_FIBERS`] items: those whose hash begins with a number of zero bits that grows as needed.
struct HashSample<T> {
    /// Number of leading zero bits that a hash must have.
    zeros: u32,
    items: Vec<(u64, T)>,
}

impl<T> HashSample<T> {
    fn new() -> HashSample<T> {
        HashSample { zeros: 0, items: Vec::new() }
    }

    /// Adds an item, unless its hash has too few leading zero bits.
    fn add(&mut self, hash: u64, item: impl FnOnce() -> T) {
        if hash.leading_zeros() >= self.zeros {
            self.items.push((hash, item()));
            while self.items.len() > MAX_FIBERS {
                self.require(self.zeros + 1);
            }
        }
    }

    /// Keeps only items whose hash has at least this many leading zero bits.
    fn require(&mut self, zeros: u32) {
        self.zeros = zeros;
        self.items.retain(|item| item.0.leading_zeros() >= zeros);
    }

    /// Returns, for each number of leading zero bits, how many items have at least this number. A count above
    /// [`MAX_FIBERS`] means that such items were left out and are not known.
    fn counts(&self) -> Vec<i64> {
        let count = |zeros| self.items.iter().filter(|item| item.0.leading_zeros() >= zeros).count() as i64;
        let unknown = MAX_FIBERS as i64 + 1;
        (0..=u64::BITS).map(|zeros| if zeros < self.zeros { unknown } else { count(zeros) }).collect()
    }

    /// Keeps at most [`MAX_FIBERS`] items over all ranks, given the counts summed over all ranks.
    fn limit(&mut self, counts: &[i64]) {
        let zeros = counts.iter().take_while(|count| **count > MAX_FIBERS as i64).count();
        self.require(self.zeros.max(zeros as u32));
    }
}

impl UnexplainedFibers {
    /// Starts an empty collection. `on_probation[i]` says whether an example of pattern i is wanted.
    pub(crate) fn new(n: usize, scale: Option<Scale>, on_probation: &[bool]) -> UnexplainedFibers {
        let examples = on_probation.iter().map(|wanted| wanted.then_some(None)).collect();
        UnexplainedFibers { n, scale, fibers: HashSample::new(), residuals: HashSample::new(), examples }
    }

    /// Collects the unexplained fibers of a wave, and returns for each fiber of the wave whether it is unexplained.
    pub(crate) fn add(&mut self, wave: &Wave<'_>) -> Vec<bool> {
        let mut unexplained = Vec::new();
        for block in wave.blocks {
            let codes = block.fibers.iter().zip(block.update_codes.columns());
            let energies = block.energies.iter().zip(&block.update_residual_energies);
            for ((&fiber, code), (&energy, &residual)) in codes.zip(energies) {
                unexplained.push(self.add_fiber(wave.tensor, fiber, code, energy, residual));
            }
        }
        unexplained
    }

    fn add_fiber(
        &mut self,
        tensor: &Tensor<'_>,
        fiber: usize,
        code: &[(u32, f64)],
        energy: f64,
        residual: f64,
    ) -> bool {
        let hash = tensor.places()[fiber].hash();
        if !code.is_empty() {
            self.residuals.add(hash, || residual.sqrt());
        }
        for &(pattern, _) in code {
            let first = |known: &Example| known.as_ref().is_none_or(|known| hash < known.0);
            if let Some(example) = self.examples[pattern as usize].as_mut().filter(|known| first(known)) {
                *example = Some((hash, UnitFibers::one(tensor, fiber)));
            }
        }
        let explained = self.scale.is_some_and(|scale| scale.explains(energy.sqrt(), residual.sqrt()));
        let unexplained = energy > 0.0 && !explained;
        if unexplained {
            self.fibers.add(hash, || UnitFibers::one(tensor, fiber));
        }
        unexplained
    }

    /// Gathers the fibers of all ranks, ordered by the hashes of their places.
    pub(crate) fn gather(mut self, team: &dyn Team) -> Unexplained {
        let mut counts = [self.fibers.counts(), self.residuals.counts()].concat();
        team.sum(&mut counts);
        let (of_fibers, of_residuals) = counts.split_at(counts.len() / 2);
        self.fibers.limit(of_fibers);
        self.residuals.limit(of_residuals);
        let examples = self.examples.iter_mut().enumerate().filter_map(|(pattern, example)| {
            let (hash, fiber) = example.take().flatten()?;
            Some((pattern, hash, fiber))
        });
        let own = Message {
            examples: examples.collect(),
            fibers: self.fibers.items,
            residuals: self.residuals.items,
        };
        merge(self.n, gather(team, own))
    }
}

/// Puts the messages of all ranks together, ordered by hash. Of several examples of a pattern the one with the smallest
/// hash is kept.
fn merge(n: usize, messages: Vec<Message>) -> Unexplained {
    let (mut fibers, mut residuals, mut examples) = (Vec::new(), Vec::new(), Vec::new());
    for message in messages {
        fibers.extend(message.fibers);
        residuals.extend(message.residuals);
        examples.extend(message.examples);
    }
    fibers.sort_by_key(|fiber| fiber.0);
    residuals.sort_by_key(|residual| residual.0);
    examples.sort_by_key(|example| (example.0, example.1));
    examples.dedup_by_key(|example| example.0);
    let mut unexplained = Unexplained {
        fibers: UnitFibers::new(n),
        residuals: residuals.into_iter().map(|residual| residual.1).collect(),
        examples: UnitFibers::new(n),
        patterns: Vec::new(),
    };
    fibers.iter().for_each(|(_, fiber)| unexplained.fibers.take_all(fiber));
    for (pattern, _, fiber) in &examples {
        unexplained.examples.take_all(fiber);
        unexplained.patterns.push(*pattern);
    }
    unexplained
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Place;

    #[test]
    fn the_sample_does_not_depend_on_the_order() {
        let places =
            |from: u32, to: u32| (from..to).map(|at| Place { row: at % 1000, col: at / 1000 }.hash());
        let many = 5 * MAX_FIBERS as u32;
        let mut forward = HashSample::new();
        places(0, many).for_each(|hash| forward.add(hash, || hash));
        let mut backward = HashSample::new();
        places(0, many).collect::<Vec<u64>>().into_iter().rev().for_each(|hash| backward.add(hash, || hash));
        assert_eq!((forward.zeros, forward.items.len()), (backward.zeros, backward.items.len()));
        assert!(forward.items.len() > MAX_FIBERS / 4, "{} are few", forward.items.len());
        // Two ranks.
        let (mut some, mut others) = (HashSample::new(), HashSample::new());
        places(0, many / 3).for_each(|hash| some.add(hash, || hash));
        places(many / 3, many).for_each(|hash| others.add(hash, || hash));
        let counts: Vec<i64> = some.counts().iter().zip(others.counts()).map(|(a, b)| a + b).collect();
        some.limit(&counts);
        others.limit(&counts);
        let sorted = |sample: &[HashSample<u64>]| {
            let mut hashes: Vec<u64> =
                sample.iter().flat_map(|sample| sample.items.iter().map(|t| t.0)).collect();
            hashes.sort_unstable();
            hashes
        };
        assert_eq!(sorted(&[some, others]), sorted(&[forward]));
    }
}
