//! The patterns of a tensor that may follow the model only roughly.
//!
//! If data follows the model, every fiber that is not noise is a mix of patterns, and all patterns are found. Other
//! data has two problems. Many short fibers look alike because they have few entries: each kind of short fiber would
//! become a pattern, until there are as many patterns as features, which explain any data. And patterns that are
//! hardly more significant than chance depend on the random numbers of the search. So only long fibers are searched,
//! and only patterns that repeated searches find are kept.

use crate::data::dictionary::{Dictionary, UnitVector};
use crate::data::tensor::Tensor;
use crate::discover::held_out::{CLOSE, agreed, agreeing, shared};
use crate::discover::outliers::without_outliers;
use crate::discover::params::DiscoverParams;
use crate::discover::start::{Start, find};
use crate::discover::trilinear::find_together;
use crate::error::Error;

/// Number of further searches with other random numbers.
pub(crate) const REPEATS: u64 = 4;

/// Number of searches, out of the first one and [`REPEATS`] further ones, that have to find a pattern.
const MIN_SEARCHES: usize = 4;

/// Finds the patterns of a tensor that may follow the model only roughly. Outliers are left out: a few fibers that are
/// far longer than all others.
///
/// If the tensor is dense and has no negative values but noise, and few patterns explain it together with their rows
/// and cols, these are the result (`trilinear.rs`), unless the parameters say how many patterns there are. Otherwise
/// the fibers are searched.
///
/// If the patterns that [`find`] finds explain nine tenths of the energy, and nine of ten explained fibers need only
/// a few patterns, they are the result. Otherwise only fibers longer than the [`energy_floor`] are searched, and this
/// length becomes the unit of codes. Unless `max_patterns` is given, only stable patterns are kept: patterns that
/// four of five searches find. If the stable patterns explain less than nine tenths of the energy, the patterns that
/// both halves of the fibers have replace them, provided that these explain nine tenths of the energy or that there
/// is no stable pattern.
///
/// # Errors
/// [`Error::Parameter`] for a parameter outside its range, [`Error::Stopped`] if `params.stop` ended the search.
pub fn find_stable(tensor: &Tensor<'_>, params: &DiscoverParams) -> Result<Start, Error> {
    let tensor = &without_outliers(tensor);
    if params.max_patterns.is_none()
        && let Some(together) = find_together(tensor, params)?
    {
        return Ok(together);
    }
    let all = find(tensor, params)?;
    if all.energy >= CLOSE && all.few as f64 >= CLOSE * all.explained as f64 {
        return Ok(all);
    }
    let params = DiscoverParams { min_length: energy_floor(tensor).max(params.min_length), ..params.clone() };
    let long = find(tensor, &params)?;
    let mut start = if params.max_patterns.is_some() { long } else { repeated(long, tensor, &params)? };
    // With few features, random fibers are similar to each other, and no pattern is significant. Patterns that both
    // halves of the fibers have, and that explain the other half, are accepted nevertheless.
    if params.max_patterns.is_none() && start.energy < CLOSE {
        let (count, energy) = agreed(tensor, &params)?;
        if count > 0 && (energy >= CLOSE || start.findings.is_empty()) {
            let exactly = DiscoverParams { min_patterns: count, max_patterns: Some(count), ..params.clone() };
            start = find(tensor, &exactly)?;
        }
    }
    if let Some(scale) = &mut start.scale {
        // Codes begin at half the floor (C/2), so that the many short fibers are not learned from either.
        (scale.code, scale.floor) = (params.min_length, params.min_length);
    }
    Ok(start)
}

/// Keeps only the patterns that most searches find. The searches are `first` and further ones with other random
/// numbers.
fn repeated(first: Start, tensor: &Tensor<'_>, params: &DiscoverParams) -> Result<Start, Error> {
    let (n, min_length) = (first.dictionary.features(), first.min_length);
    let mut searches = vec![first];
    for seed in 1..=REPEATS {
        searches.push(find(tensor, &DiscoverParams { seed: params.seed ^ seed << 32, ..params.clone() })?);
    }
    let (mut kept, mut evidence) = (Dictionary::empty(n), Vec::new());
    for search in &searches {
        let known = shared(&search.dictionary, &kept);
        for i in (0..known.len()).filter(|&i| !known[i]) {
            let Some(pattern) = UnitVector::new(search.dictionary.pattern(i).to_vec()) else { continue };
            let mut alone = Dictionary::empty(n);
            alone.push(&pattern);
            let times = searches.iter().filter(|other| agreeing(&alone, &other.dictionary) == 1).count();
            if times >= MIN_SEARCHES {
                kept.push(&pattern);
                evidence.push(search.findings[i].evidence);
            }
        }
    }
    // The scale is that of the first search that found patterns.
    let scale = searches.iter().find_map(|search| search.scale).filter(|_| !evidence.is_empty());
    Start::new(tensor, kept.values(), &evidence, scale, min_length)
}

/// Returns half of the fiber length above which fibers hold half of the energy, in the units of the data.
pub fn energy_floor(tensor: &Tensor<'_>) -> f64 {
    let energy = |fiber: usize| tensor.fiber(fiber).iter().map(|y| y * y).sum::<f64>();
    let mut energies: Vec<f64> = (0..tensor.fibers()).map(energy).collect();
    energies.sort_by(|a, b| b.total_cmp(a));
    let half = energies.iter().sum::<f64>() / 2.0;
    let mut sum = 0.0;
    let middle = energies.iter().find(|&&energy| {
        sum += energy;
        sum >= half
    });
    middle.map_or(0.0, |energy| energy.sqrt() / 2.0)
}
