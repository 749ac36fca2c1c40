//! Whether two dictionaries have the same patterns, and what patterns of one half of the data explain of the other
//! half.

use rand::SeedableRng;
use rand::seq::index;
use rand_chacha::ChaCha8Rng;

use crate::data::dictionary::Dictionary;
use crate::data::tensor::Tensor;
use crate::discover::params::DiscoverParams;
use crate::discover::start::{Start, coverage, find};
use crate::discover::unexplained::MAX_FIBERS;
use crate::error::Error;
use crate::linalg::product::transposed_product;

/// Two patterns count as the same if their absolute cosine is at least this.
const SAME: f64 = 0.9;

/// Maximum number of fibers of a half or a sample.
pub(crate) const MAX_SAMPLE: usize = 2 * MAX_FIBERS;

/// Number of patterns that are tested beyond the significant ones.
pub(crate) const BEYOND: usize = 8;

/// Data follows the model closely if patterns explain at least this share of the energy, and if at least this share
/// of the explained fibers needs only a few patterns.
pub(crate) const CLOSE: f64 = 0.9;

/// Minimum share of the held-out energy that a further pattern must explain.
pub(crate) const WORTH: f64 = 0.01;

/// What the first patterns of one half of the fibers explain of the other half.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct HeldOut {
    /// Number of patterns, the first ones of each half.
    pub patterns: usize,
    /// Share of the energy of the other half that the patterns explain, 0 to 1.
    pub energy: f64,
    /// Number of the patterns of the first half that the second half has too.
    pub agree: usize,
}

/// Splits the fibers at random into two halves of at most [`MAX_SAMPLE`] fibers each.
pub(crate) fn halves(tensor: &Tensor<'_>, rng: &mut ChaCha8Rng) -> [Tensor<'static>; 2] {
    let p = tensor.fibers();
    let shuffled = index::sample(rng, p, p.min(2 * MAX_SAMPLE)).into_vec();
    let (left, right) = shuffled.split_at(shuffled.len() / 2);
    [part_of(tensor, left.to_vec()), part_of(tensor, right.to_vec())]
}

/// Measures what the first patterns of either half explain of the other half. `found` has the patterns of each half.
pub(crate) fn held_out(halves: &[Tensor<'_>; 2], found: &[Start], patterns: usize) -> HeldOut {
    let (mut energy, mut residual) = (0.0, 0.0);
    let first = |start: &Start| start.dictionary.first(patterns);
    for (half, other) in [(0, 1), (1, 0)] {
        // All fibers count, however short.
        let coverage = coverage(&halves[other], first(&found[half]).values(), found[half].scale, 0.0);
        energy += coverage.energy;
        residual += coverage.residual_energy;
    }
    let agree = agreeing(&first(&found[0]), &first(&found[1]));
    let energy = if energy > 0.0 { 1.0 - residual / energy } else { 0.0 };
    HeldOut { patterns, energy, agree }
}

/// Returns the number of patterns that searches of both halves of the fibers find, and the share of the energy of the
/// other half that these patterns explain. A pattern counts only if it explains at least [`WORTH`] of that energy.
pub(crate) fn agreed(tensor: &Tensor<'_>, params: &DiscoverParams) -> Result<(usize, f64), Error> {
    let halves = halves(tensor, &mut ChaCha8Rng::seed_from_u64(params.seed ^ 0x6861_6c66));
    let params = DiscoverParams { min_patterns: BEYOND, ..params.clone() };
    let found = [find(&halves[0], &params)?, find(&halves[1], &params)?];
    let (mut taken, mut before) = (0, 0.0);
    for patterns in 1..=found[0].findings.len().min(found[1].findings.len()) {
        let held_out = held_out(&halves, &found, patterns);
        // Patterns of equal energy come in any order, so the first few patterns of the halves may differ although more
        // patterns agree.
        if held_out.agree == patterns && held_out.energy >= before + WORTH * (patterns - taken) as f64 {
            (taken, before) = (patterns, held_out.energy);
        }
    }
    Ok((taken, before))
}

/// The tensor with only some of its fibers.
pub(crate) fn part_of(tensor: &Tensor<'_>, mut fibers: Vec<usize>) -> Tensor<'static> {
    fibers.sort_unstable();
    tensor.gather(&fibers)
}

/// Number of patterns of a dictionary that the other dictionary has too.
pub(crate) fn agreeing(dictionary: &Dictionary, other: &Dictionary) -> usize {
    shared(dictionary, other).into_iter().filter(|shared| *shared).count()
}

/// For every pattern of a dictionary, whether the other dictionary has it too.
pub(crate) fn shared(dictionary: &Dictionary, other: &Dictionary) -> Vec<bool> {
    let (n, m, count) = (dictionary.features(), dictionary.patterns(), other.patterns());
    let mut cosines = vec![0.0; m * count];
    if m * count > 0 {
        transposed_product(&mut cosines, other.values(), dictionary.values(), n);
    }
    (0..m).map(|i| cosines[i * count..][..count].iter().any(|c| c.abs() >= SAME)).collect()
}
