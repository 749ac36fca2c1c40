//! Evidence for a number of patterns: what each further pattern explains of fibers that it was not found in, and
//! whether halves of the data, samples of it and other random numbers lead to the same patterns.

use rand::seq::index;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::data::tensor::Tensor;
use crate::discover::held_out::{BEYOND, HeldOut, MAX_SAMPLE, agreeing, halves, held_out, part_of};
use crate::discover::params::DiscoverParams;
use crate::discover::stable::REPEATS;
use crate::discover::start::{Start, find};
use crate::error::Error;

/// Evidence for a number of patterns.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Evidence {
    /// What the first 1, 2, ... patterns of one half of the fibers explain of the other half, up to a few more patterns
    /// than were found.
    pub held_out: Vec<HeldOut>,
    /// Number of patterns that a search of each half of the fibers finds.
    pub halves: [usize; 2],
    /// Searches of the same fibers with other random numbers.
    pub seeds: Vec<Repeat>,
    /// Searches of random samples of seven tenths of the fibers.
    pub samples: Vec<Repeat>,
}

/// The result of a repeated search.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Repeat {
    /// Number of patterns that the search found.
    pub patterns: usize,
    /// Number of patterns of the first search that this search found too.
    pub agree: usize,
}

/// Measures the evidence for the patterns in `start`. `progress` is called with the share of the work that is done,
/// from 0 to 1.
///
/// # Errors
/// [`Error::Parameter`] for a parameter outside its range, [`Error::Stopped`] if `params.stop` ended the search.
pub fn evidence(
    tensor: &Tensor<'_>,
    start: &Start,
    params: &DiscoverParams,
    mut progress: impl FnMut(f64),
) -> Result<Evidence, Error> {
    let params = &DiscoverParams { min_length: start.min_length, ..params.clone() };
    let parts = (2 * REPEATS + 4) as f64;
    let mut part = 0.0;
    let mut next = || {
        part += 1.0;
        progress(part / parts);
    };
    let mut rng = ChaCha8Rng::seed_from_u64(params.seed ^ 0x6576_6964);
    let repeat = |tensor: &Tensor<'_>, params: &DiscoverParams| {
        let other = find(tensor, params)?.dictionary;
        Ok::<Repeat, Error>(Repeat { patterns: other.patterns(), agree: agreeing(&start.dictionary, &other) })
    };
    let (mut seeds, mut samples) = (Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        seeds.push(repeat(tensor, &DiscoverParams { seed: rng.random(), ..params.clone() })?);
        next();
    }
    let p = tensor.fibers();
    for _ in 0..REPEATS {
        let sample = index::sample(&mut rng, p, (7 * p / 10).min(MAX_SAMPLE)).into_vec();
        samples.push(repeat(&part_of(tensor, sample), params)?);
        next();
    }
    let halves = halves(tensor, &mut rng);
    let mut found = Vec::new();
    for half in &halves {
        found.push(find(half, params)?);
        next();
    }
    let counts = [found[0].findings.len(), found[1].findings.len()];
    // A few patterns beyond the significant ones show whether they would still help.
    if params.max_patterns.is_none() {
        let further = |count: usize| DiscoverParams { min_patterns: count + BEYOND, ..params.clone() };
        for (at, half) in halves.iter().enumerate() {
            found[at] = find(half, &further(counts[at]))?;
            next();
        }
    }
    let top = found[0].findings.len().max(found[1].findings.len());
    let numbers = numbers_to_try(top, start.findings.len());
    let held_out = numbers.into_iter().map(|patterns| held_out(&halves, &found, patterns)).collect();
    progress(1.0);
    Ok(Evidence { held_out, halves: counts, seeds, samples })
}

/// Numbers of patterns from 1 to `top`: one by one at first, then in larger steps. `taken` and `top` are among them.
fn numbers_to_try(top: usize, taken: usize) -> Vec<usize> {
    let mut numbers: Vec<usize> =
        [top, taken].into_iter().filter(|number| (1..=top).contains(number)).collect();
    let mut next = 1;
    while next < top {
        numbers.push(next);
        next += (next / 12).max(1);
    }
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}
