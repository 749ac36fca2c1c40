//! Patterns of counts: how many there are at the start, and which ones appear along a stream.
//!
//! ```text
//! hidden.rs    cells that a fit does not see, and is judged by
//! mixture.rs   patterns fitted by expectation-maximization: started with too many, then merged
//! ladder.rs    fits with different numbers of patterns, and the decision between them
//! pool.rs      the fibers of the latest steps, added up by place
//! growth.rs    patterns and their statistics after a search
//! changed.rs   patterns that a step changes beyond recognition
//! groups.rs    groups of rows and cols that share patterns
//! damping.rs   whether the counts are damped
//! ```
//!
//! One step of a stream may have a few dozen fibers with a few events each, which tell little. So the fibers of the latest
//! steps are pooled by place, and further patterns are looked for in the pool. A pattern is removed only if it has no
//! events, or if it was not seen for long: then it is kept, and may return (`learner/retired.rs`).

pub(crate) mod changed;
pub(crate) mod damping;
pub(crate) mod groups;
pub(crate) mod growth;
pub(crate) mod hidden;
pub(crate) mod ladder;
pub(crate) mod mixture;
pub(crate) mod pool;

use rayon::prelude::*;

use crate::data::dictionary::Dictionary;
use crate::data::sparse::Sparse;
use crate::data::tensor::Tensor;
use crate::discover::counts::changed::Split;
use crate::discover::counts::growth::Growth;
use crate::discover::counts::hidden::{CountFibers, HiddenCells};
use crate::discover::counts::ladder::{Known, Rung, extend, start, test};
use crate::discover::counts::mixture::Mixture;
use crate::discover::counts::pool::Pool;
use crate::discover::outliers::far;
use crate::discover::params::DiscoverParams;
use crate::encode::counts::{self, CountCoder, FeatureRows, PlaceShares};
use crate::error::Error;
use crate::parallel::message;
use crate::parallel::team::Team;
use crate::update::counts::{CodedFiber, EventSums, MOST_EVENTS, Statistics};

/// The significance of all decisions of the counts model, in standard errors.
pub const SIGNIFICANCE: f64 = counts::SIGNIFICANCE;

/// A pattern with less than this part of an even share of the events is spare: it is looked for again if the number of
/// patterns is given.
pub(crate) const SPARE: f64 = 0.01;

/// Maximum number of iterations that fit patterns to the fibers of the pool after a search.
const REFINE_ITERATIONS: usize = 6;

/// These iterations end when the patterns change by less than this, relative to their size.
const REFINED: f64 = 1e-3;

/// Number of fibers that are coded at a time.
const WAVE: usize = 1 << 12;

/// State of the search for patterns of counts.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct CountDiscovery {
    pub(crate) params: DiscoverParams,
    pub(crate) pool: Pool,
    /// Number of events that joined the pool since the last test.
    new_events: f64,
    /// The significance of the last test, in standard errors. A finding must come twice.
    last_significance: f64,
    /// Number of tests so far: each hides other cells.
    tests: u64,
    /// For each pattern, the significance of the test that found it.
    pub(crate) evidence: Vec<f64>,
    /// The ladder of the last decision.
    pub(crate) rungs: Vec<Rung>,
}

/// The significance that the latest of this many tests must reach, in standard errors: [`SIGNIFICANCE`] for the first
/// one, and slowly more, because chance has an opportunity in every test. Tests after each other share most of their
/// events, so the square root of their number counts.
fn least_significance(tests: u64) -> f64 {
    (SIGNIFICANCE * SIGNIFICANCE + (tests.max(1) as f64).ln()).sqrt()
}

/// Some columns of a matrix with n rows.
fn select(n: usize, rows: &FeatureRows, columns: &[usize]) -> FeatureRows {
    let all = rows.columns();
    FeatureRows::from_columns(
        n,
        &columns.iter().flat_map(|&at| &all[at * n..][..n]).copied().collect::<Vec<_>>(),
    )
}

impl CountDiscovery {
    /// State before the first tensor.
    pub(crate) fn new(features: usize, params: DiscoverParams) -> CountDiscovery {
        CountDiscovery {
            params,
            pool: Pool::new(features),
            new_events: 0.0,
            last_significance: 0.0,
            tests: 0,
            evidence: Vec::new(),
            rungs: Vec::new(),
        }
    }

    /// Whether all parts fit together, for n features and this many patterns. A state from a file may fail this.
    pub(crate) fn is_sound(&self, features: usize, patterns: usize) -> bool {
        self.params.check().is_ok()
            && self.pool.is_sound(features)
            && self.new_events.is_finite()
            && self.evidence.len() == patterns
    }

    /// Takes the fibers of step number `step` into the pool.
    pub(crate) fn add(&mut self, step: u64, fibers: CountFibers) {
        self.new_events += fibers.events();
        self.pool.add(step, fibers);
    }

    /// The number of events above which a fiber of a step is an outlier.
    pub(crate) fn far(&self) -> f64 {
        far(self.pool.steps().flat_map(CountFibers::sizes).collect())
    }

    /// What the fibers of steps before `step` in the pool lead to expect at each place.
    pub(crate) fn place_shares(&self, coder: &CountCoder, step: u64) -> PlaceShares {
        let mut shares = PlaceShares::default();
        if coder.rows().patterns() > 0 {
            let fibers = self.pool.fibers_before(step);
            for (place, fiber) in fibers.places.iter().zip(fibers.fibers.columns()) {
                shares.add(*place, &coder.soft(*place, fiber)[..coder.rows().patterns()]);
            }
        }
        shares
    }

    /// The fibers of the latest steps, added up by place and ordered by place.
    pub(crate) fn pooled(&self) -> CountFibers {
        self.pool.fibers()
    }

    /// The last step in the pool, 0 if there is none.
    pub(crate) fn last_step(&self) -> u64 {
        self.pool.last_step()
    }

    /// Finds the first patterns in the pool. None if the search was stopped, or there are no fibers.
    pub(crate) fn start(&mut self) -> Option<Growth> {
        let fibers = self.pool.fibers().bounded();
        if fibers.len() == 0 {
            return None;
        }
        let n = fibers.fibers.rows();
        let count = self.given().map(|count| count.min(n).min(fibers.len()));
        let found = start(fibers, count, usize::MAX, self.params.seed, &self.params.stop)?;
        self.new_events = 0.0;
        self.evidence = vec![found.significance; found.fit.patterns()];
        self.rungs = found.rungs;
        let m = found.fit.patterns();
        let growth = Growth::new(&found.fit, &FeatureRows::new(n, m));
        drop(found.fit);
        Some(self.refine(growth, &vec![0.0; n * m], 0.0))
    }

    /// The number of patterns, if it is given.
    pub(crate) fn given(&self) -> Option<usize> {
        self.params.max_patterns.filter(|count| *count == self.params.min_patterns)
    }

    /// The patterns of the dictionary that are looked for again: where their number is given, those that have next to no
    /// events. The first steps of a stream may have nothing for them, and a later one may have.
    fn spares(&self, n: usize, statistics: &[f64]) -> Vec<usize> {
        let events: Vec<f64> = statistics.chunks_exact(n).map(|column| column.iter().sum()).collect();
        let least = SPARE * events.iter().sum::<f64>() / events.len().max(1) as f64;
        (0..events.len()).filter(|at| self.given().is_some() && events[*at] < least).collect()
    }

    /// Looks for patterns beside those of the dictionary, whose statistics are `statistics` (n x m). While the pool has
    /// all fibers of all steps, the known patterns are fitted to it again. None if nothing changes.
    ///
    /// The search is not stopped: it is the end of a step, and a step without it would leave other patterns.
    pub(crate) fn grow(
        &mut self,
        dictionary: &Dictionary,
        statistics: &[f64],
        forgetting: f64,
    ) -> Option<Growth> {
        let due = self.new_events * pool::TESTS_PER_POOL >= self.pool.events();
        if !(due || self.pool.is_complete()) {
            return None;
        }
        let fibers = self.pool.fibers().bounded();
        let (n, m) = (dictionary.features(), dictionary.patterns());
        let rows = FeatureRows::of(dictionary);
        let past = match self.pool.is_complete() {
            true => FeatureRows::new(n, m),
            false => past_of_pool(&fibers, &rows, statistics),
        };
        let most = self.params.max_patterns.map_or(n.saturating_sub(1), |most| most.min(n)).min(fibers.len());
        let spares = if due && m <= most { self.spares(n, statistics) } else { Vec::new() };
        let kept: Vec<usize> = (0..m).filter(|pattern| !spares.contains(pattern)).collect();
        let known = Known { rows: select(n, &rows, &kept), past: select(n, &past, &kept) };
        let further = if due { self.test(&fibers, &known, most) } else { 0 };
        if further == 0 && !self.pool.is_complete() {
            return None;
        }
        let known_now = Growth { columns: dictionary.values().to_vec(), statistics: statistics.to_vec() };
        // What earlier steps than those of the pool have in the statistics.
        let mut past = vec![0.0; n * m];
        if !self.pool.is_complete() {
            let own = self.pool_statistics(&known_now, forgetting);
            past = statistics.iter().zip(&own.patterns).map(|(all, own)| (all - own).max(0.0)).collect();
        }
        if further == 0 {
            drop(fibers);
            return Some(self.refine(known_now, &past, forgetting));
        }
        let fit = extend(&fibers, &known, further, self.seed());
        self.evidence.resize(fit.patterns(), self.last_significance);
        self.last_significance = 0.0;
        spares.iter().for_each(|spare| past[spare * n..][..n].fill(0.0));
        past.resize(n * fit.patterns(), 0.0);
        let mut known_past = FeatureRows::new(n, fit.patterns());
        for feature in 0..n {
            known_past.row_mut(feature)[..kept.len()].copy_from_slice(&known.past.row(feature)[..kept.len()]);
        }
        let growth = Growth::new(&fit, &known_past).in_places(n, &kept);
        drop((fit, fibers));
        Some(self.refine(growth, &past, forgetting))
    }

    /// Splits patterns that a step changed beyond recognition, given all patterns before and after it: see
    /// [`changed::split`]. Returns the patterns after that, and the numbers of the old patterns that there is no room
    /// for, because the number of patterns is given or bounded. None if all patterns are recognized.
    pub(crate) fn split_changed(
        &mut self,
        before: &Growth,
        after: &Growth,
        forgetting: f64,
    ) -> Option<(Growth, Vec<usize>)> {
        let n = self.pool.features();
        let Split { mut growth, changed, evidence } = changed::split(n, before, after)?;
        self.evidence.extend(evidence);
        let most = self.params.max_patterns.unwrap_or(usize::MAX).min(n);
        let room = most.saturating_sub(after.columns.len() / n).min(changed.len());
        if self.pool.is_complete() {
            let past = vec![0.0; growth.columns.len()];
            growth = self.refine(growth, &past, forgetting);
        }
        Some((growth, changed[room..].to_vec()))
    }

    /// Fits patterns to the fibers of the pool by the codes and sums that a step makes. `past` (n x m) is what earlier
    /// steps have in the statistics.
    fn refine(&self, mut growth: Growth, past: &[f64], forgetting: f64) -> Growth {
        for _ in 0..REFINE_ITERATIONS {
            let mut statistics = self.pool_statistics(&growth, forgetting);
            statistics.patterns.iter_mut().zip(past).for_each(|(own, past)| *own += past);
            let columns = statistics.dictionary().values().to_vec();
            let (change, size) = growth
                .columns
                .iter()
                .zip(&columns)
                .fold((0.0, 0.0), |(change, size), (a, b)| (change + (a - b) * (a - b), size + b * b));
            growth = Growth { columns, statistics: statistics.patterns };
            if change < REFINED * REFINED * size {
                break;
            }
        }
        growth
    }

    /// The statistics of the fibers in the pool. In each step, a place is expected to have what the steps before it
    /// in the pool had in its row and col.
    fn pool_statistics(&self, patterns: &Growth, forgetting: f64) -> Statistics {
        let n = self.pool.features();
        let m = patterns.columns.len() / n;
        let dictionary = Dictionary::with_unit_sums(n, patterns.columns.clone());
        let before = Statistics { patterns: patterns.statistics.clone(), features: vec![0.0; n] };
        let mut statistics = Statistics { patterns: vec![0.0; n * m], features: vec![0.0; n] };
        let mut places = PlaceShares::default();
        let far = self.far();
        for fibers in self.pool.steps() {
            let coder = CountCoder::new(&dictionary, &before.shares()).expecting(places.clone());
            let coder = coder.with_outliers_above(far);
            let mut sums = EventSums::new(n, m);
            let mut own = fibers.places.iter();
            for coded in encode_in_waves(&coder, fibers) {
                sums.add(&coder, &coded);
                coded.iter().zip(&mut own).for_each(|(coded, place)| places.add(*place, &coded.mean_code(m)));
            }
            statistics = statistics.add(&sums, forgetting);
        }
        statistics
    }

    /// Returns the number of further patterns of the pool. It is 0 unless the test before was significant too, or this
    /// one is twice as significant as it must be ([`least_significance`]): a test is made in every step, and chance must
    /// not add up.
    fn test(&mut self, fibers: &CountFibers, known: &Known, most: usize) -> usize {
        self.new_events = 0.0;
        if known.rows.patterns() >= most {
            return 0;
        }
        if let Some(count) = self.given() {
            return count.min(most).saturating_sub(known.rows.patterns());
        }
        self.tests += 1;
        let test = test(fibers, known, most, self.seed());
        let before = std::mem::replace(&mut self.last_significance, test.significance);
        let least = least_significance(self.tests);
        let sure = test.significance >= least && (before >= least || test.significance >= 2.0 * least);
        if !sure {
            return 0;
        }
        self.rungs = test.rungs;
        test.further
    }

    /// The seed of the present test.
    fn seed(&self) -> u64 {
        self.params.seed.wrapping_add(self.tests.wrapping_mul(0x5851_f42d_4c95_7f2d))
    }
}

/// The statistics without the part that the fibers of the pool have in them.
fn past_of_pool(fibers: &CountFibers, rows: &FeatureRows, statistics: &[f64]) -> FeatureRows {
    let cells = HiddenCells::none(fibers);
    let n = cells.features;
    let mut fit = Mixture::with_past(&cells, rows.clone(), FeatureRows::from_columns(n, statistics));
    fit.iterate(&cells, ladder::WARM_ITERATIONS);
    let mut past = FeatureRows::from_columns(n, statistics);
    for feature in 0..n {
        let own = fit.statistics.row(feature);
        past.row_mut(feature).iter_mut().zip(own).for_each(|(p, s)| *p = (*p - s).max(0.0));
    }
    past
}

/// Gathers the fibers of all ranks on every rank, ordered by place. If they have too many cells, only places are taken
/// whose hash has enough leading zero bits; returns how many are enough. The result is the same for any number of
/// ranks.
pub(crate) fn gather(team: &dyn Team, own: CountFibers) -> (CountFibers, u32) {
    let features = own.fibers.rows();
    let zeros_of: Vec<u32> = own.places.iter().map(|place| place.hash().leading_zeros()).collect();
    let cells = |zeros: u32| -> i64 {
        let kept = own.fibers.columns().zip(&zeros_of).filter(|(_, own)| **own >= zeros);
        kept.map(|(column, _)| column.len() as i64).sum()
    };
    let mut counts: Vec<i64> = (0..=u64::BITS).map(cells).collect();
    team.sum(&mut counts);
    let zeros = counts.iter().take_while(|count| **count > pool::MAX_CELLS as i64).count() as u32;
    let mut parts = message::gather(team, pool::keep_places(own, zeros)).into_iter();
    let mut all = parts.next().unwrap_or_else(|| CountFibers::new(features));
    parts.for_each(|part| all.append(&part));
    all.sort();
    (all, zeros)
}

/// Codes fibers, some thousands at a time, so that memory holds the codes of few of them on all supports.
pub(crate) fn encode_in_waves<'a>(
    coder: &'a CountCoder,
    fibers: &'a CountFibers,
) -> impl Iterator<Item = Vec<CodedFiber<'a>>> {
    let encode = move |at: usize| CodedFiber::new(coder, fibers.places[at], fibers.fibers.column(at));
    (0..fibers.len()).step_by(WAVE).map(move |start| {
        let wave = start..fibers.len().min(start + WAVE);
        wave.into_par_iter().with_min_len(64).map(encode).collect()
    })
}

/// The fibers of a tensor that have events.
///
/// # Errors
/// [`Error::NotACount`] if a value is negative.
pub(crate) fn count_fibers(tensor: &Tensor<'_>) -> Result<CountFibers, Error> {
    let cells = tensor.sparse().map_or(0, Sparse::nnz);
    let mut fibers = CountFibers::with_capacity(tensor.shape().features, tensor.fibers(), cells);
    let mut column: Vec<(u32, f64)> = Vec::new();
    for (at, &place) in tensor.places().iter().enumerate() {
        column.clear();
        column.extend(tensor.entries(at));
        if let Some(&(feature, value)) = column.iter().find(|entry| entry.1 < 0.0 || entry.1 > MOST_EVENTS) {
            return Err(Error::NotACount { feature: feature as usize, place, value });
        }
        if !column.is_empty() {
            fibers.fibers.push(&column);
            fibers.places.push(place);
        }
    }
    Ok(fibers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_patterns_take_the_numbers_that_are_left() {
        let growth = |values: &[f64]| Growth { columns: values.to_vec(), statistics: values.to_vec() };
        let moved = growth(&[1.0, 2.0, 3.0, 4.0]).in_places(1, &[1, 3]);
        assert_eq!((moved.columns, moved.statistics), (vec![3.0, 1.0, 4.0, 2.0], vec![3.0, 1.0, 4.0, 2.0]));
        let same = growth(&[1.0, 2.0, 3.0]).in_places(1, &[0, 1]);
        assert_eq!(same.columns, [1.0, 2.0, 3.0]);
    }

    #[test]
    fn many_tests_must_be_more_significant_than_one() {
        assert_eq!(least_significance(1), SIGNIFICANCE);
        assert!((least_significance(52) - 3.19).abs() < 0.01 && least_significance(100_000) < 4.3);
    }

    #[test]
    fn only_patterns_without_events_are_spare() {
        let given = DiscoverParams { min_patterns: 3, max_patterns: Some(3), ..DiscoverParams::default() };
        let statistics = [50.0, 40.0, 0.1, 0.1, 5.0, 5.0];
        assert_eq!(CountDiscovery::new(2, given).spares(2, &statistics), [1]);
        assert!(CountDiscovery::new(2, DiscoverParams::default()).spares(2, &statistics).is_empty());
    }
}
