//! The patterns of one tensor, found from nothing.
//!
//! The paper is given A(0) and m (A.2). On data that follows the model, both can be found: [`find`] returns all
//! patterns that are more significant than chance. For data that follows the model only roughly, see `stable.rs`.

use crate::data::dictionary::{Dictionary, UnitVector};
use crate::data::tensor::Tensor;
use crate::discover::growth::Discovery;
use crate::discover::null::MAX_COVARIANCE_FIBERS;
use crate::discover::params::DiscoverParams;
use crate::discover::scale::Scale;
use crate::discover::search::{Coverage, Search};
use crate::discover::unexplained::MAX_FIBERS;
use crate::discover::unit_fibers::UnitFibers;
use crate::error::Error;

/// Patterns found in a tensor, ordered by decreasing explained energy.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Start {
    /// The patterns; there may be none.
    pub dictionary: Dictionary,
    /// What is known about each pattern.
    pub findings: Vec<Finding>,
    /// The units of the data. `None` if there is no pattern, or if no fiber is explained.
    pub scale: Option<Scale>,
    /// Number of fibers of the tensor that are at least `min_length` long.
    pub fibers: usize,
    /// Number of these fibers that the patterns explain.
    pub explained: usize,
    /// Number of explained fibers that need only a few patterns: at most half as many as the fiber has entries, and at
    /// most sqrt(n) / 2, which is the order of the theory (A.4). A fiber with a single entry does not count, because it
    /// needs a pattern of its own.
    pub few: usize,
    /// Share of the energy of the whole tensor that the patterns explain, 0 to 1.
    pub energy: f64,
    /// Fibers with a norm below this were not searched.
    pub min_length: f64,
}

/// What is known about one pattern.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Finding {
    /// The similarity of the fibers that the pattern was found in, relative to the largest one that chance produces
    /// in as many fibers. Above 1, the pattern is significant.
    pub evidence: f64,
    /// Number of fibers that show the pattern.
    pub fibers: usize,
    /// Share of the energy of the whole tensor that the pattern explains, 0 to 1.
    pub energy: f64,
}

/// Finds the patterns of a tensor from nothing.
///
/// # Errors
/// [`Error::Parameter`] for a parameter outside its range, [`Error::Stopped`] if `params.stop` ended the search.
pub fn find(tensor: &Tensor<'_>, params: &DiscoverParams) -> Result<Start, Error> {
    params.check()?;
    let mut discovery = Discovery::new(tensor.shape().features, params.clone());
    let columns = discovery.start(tensor);
    if params.stop.is_set() {
        return Err(Error::Stopped);
    }
    Start::new(tensor, &columns, &discovery.evidence(), discovery.scale, params.min_length)
}

/// Returns the number of bytes that a search of some fibers holds besides the fibers: copies of them in single
/// precision, the null fibers, and the covariance with its directions. The covariance is a matrix of n x n numbers, or
/// one of fibers x fibers where these are fewer.
pub fn search_bytes(features: usize, fibers: usize) -> f64 {
    let (n, fibers) = (features as f64, fibers as f64);
    let (searched, counted) = (fibers.min(MAX_FIBERS as f64), fibers.min(MAX_COVARIANCE_FIBERS as f64));
    let covariance = if counted < n { 3.0 * n * counted + 5.0 * counted * counted } else { 5.0 * n * n };
    8.0 * covariance + 4.0 * 6.0 * n * searched
}

impl Start {
    /// Measures what some patterns, given column by column with the evidence of each, explain of a tensor.
    ///
    /// # Errors
    /// [`Error::Pattern`] for a pattern that is zero or not finite.
    pub(crate) fn new(
        tensor: &Tensor<'_>,
        columns: &[f64],
        evidence: &[f64],
        scale: Option<Scale>,
        min_length: f64,
    ) -> Result<Start, Error> {
        let n = tensor.shape().features;
        let coverage = coverage(tensor, columns, scale, min_length);
        // Fibers shorter than `min_length` count for the energy of the tensor.
        let energy: f64 = tensor.values().iter().map(|y| y * y).sum();
        let share = |explained: f64| if energy > 0.0 { explained / energy } else { 0.0 };
        let mut order: Vec<usize> = (0..evidence.len()).collect();
        order.sort_by(|&a, &b| coverage.energies[b].total_cmp(&coverage.energies[a]));
        let mut dictionary = Dictionary::empty(n);
        for &i in &order {
            let unit = UnitVector::new(columns[i * n..][..n].to_vec());
            dictionary.push(&unit.ok_or(Error::Pattern { pattern: i, norm: f64::NAN })?);
        }
        let finding = |&i: &usize| Finding {
            evidence: evidence[i],
            fibers: coverage.shown[i],
            energy: share(coverage.energies[i]),
        };
        Ok(Start {
            dictionary,
            findings: order.iter().map(finding).collect(),
            scale,
            fibers: coverage.fibers,
            explained: coverage.explained,
            few: coverage.few,
            energy: share(0.0 + coverage.energies.iter().sum::<f64>()),
            min_length,
        })
    }
}

/// Measures what patterns, given column by column, explain of all fibers that are at least `min_length` long.
pub(crate) fn coverage(
    tensor: &Tensor<'_>,
    columns: &[f64],
    scale: Option<Scale>,
    min_length: f64,
) -> Coverage {
    let n = tensor.shape().features;
    let search = Search::new(n, columns.iter().map(|&a| a as f32).collect(), scale, 0, 0);
    let all: Vec<usize> = (0..tensor.fibers()).collect();
    let mut sum = search.coverage(&UnitFibers::new(n));
    for chunk in all.chunks(MAX_FIBERS) {
        let mut fibers = UnitFibers::new(n);
        chunk.iter().for_each(|&fiber| fibers.push(tensor, fiber));
        fibers.keep_longer(min_length);
        sum.add(&search.coverage(&fibers));
    }
    sum
}
