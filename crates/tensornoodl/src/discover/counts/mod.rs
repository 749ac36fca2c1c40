//! Patterns of counts: how many there are at the start, and which ones appear along a stream.
//!
//! ```text
//! hidden.rs    cells that a fit does not see, and is judged by
//! mixture.rs   patterns fitted by expectation-maximization: started with too many, then merged
//! ladder.rs    fits with different numbers of patterns, and the decision between them
//! pool.rs      the fibers of the latest steps, added up by place
//! ```
//!
//! One step of a stream may have a few dozen fibers with a few events each, which tell little. So the fibers of the latest
//! steps are pooled by place, and further patterns are looked for in the pool. A pattern is never removed: one that is
//! not seen any more costs nothing and may come back.

pub(crate) mod hidden;
pub(crate) mod ladder;
pub(crate) mod mixture;
pub(crate) mod pool;

use crate::data::dictionary::Dictionary;
use crate::discover::counts::hidden::{CountFibers, HiddenCells};
use crate::discover::counts::ladder::{Known, Rung, extend, start, test};
use crate::discover::counts::mixture::Mixture;
use crate::discover::counts::pool::Pool;
use crate::discover::params::DiscoverParams;
use crate::parallel::message;
use crate::parallel::team::Team;
use crate::encode::counts::{CountCoder, FeatureRows, PlaceShares, SIGNIFICANCE};

/// State of the search for patterns of counts.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct CountDiscovery {
    pub(crate) params: DiscoverParams,
    pool: Pool,
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

/// Patterns that were found: the new dictionary and its statistics.
pub(crate) struct Growth {
    /// A (n x m), column by column, each with sum 1. The patterns that were known before come first.
    pub(crate) columns: Vec<f64>,
    /// S (n x m), column by column.
    pub(crate) statistics: Vec<f64>,
}

impl Growth {
    fn new(fit: &Mixture, past: &FeatureRows) -> Growth {
        let mut statistics = fit.statistics.columns();
        statistics.iter_mut().zip(past.columns()).for_each(|(s, p)| *s += p);
        Growth { columns: fit.rows.columns(), statistics }
    }
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

    /// The last step in the pool, 0 if there is none.
    pub(crate) fn last_step(&self) -> u64 {
        self.pool.last_step()
    }

    /// Finds the first patterns in the pool. None if the search was stopped, or there are no fibers.
    pub(crate) fn start(&mut self) -> Option<Growth> {
        let fibers = self.pool.fibers();
        if fibers.len() == 0 {
            return None;
        }
        let n = fibers.fibers.rows();
        let count = self.params.max_patterns.filter(|count| *count == self.params.min_patterns);
        let count = count.map(|count| count.min(n).min(fibers.len()));
        let found = start(&fibers, count, self.params.seed, &self.params.stop)?;
        self.new_events = 0.0;
        self.evidence = vec![found.significance; found.fit.patterns()];
        self.rungs = found.rungs;
        let past = FeatureRows::new(n, found.fit.patterns());
        Some(Growth::new(&found.fit, &past))
    }

    /// Looks for patterns beside those of the dictionary, whose statistics are `statistics` (n x m). While the pool has
    /// all fibers of all steps, the known patterns are fitted to it again. None if nothing changes.
    pub(crate) fn grow(&mut self, dictionary: &Dictionary, statistics: &[f64]) -> Option<Growth> {
        let due = self.new_events * pool::TESTS_PER_POOL >= self.pool.events();
        if self.params.stop.is_set() || !(due || self.pool.is_complete()) {
            return None;
        }
        let fibers = self.pool.fibers();
        let n = dictionary.features();
        let rows = FeatureRows::of(dictionary);
        let past = match self.pool.is_complete() {
            true => FeatureRows::new(n, dictionary.patterns()),
            false => past_of_pool(&fibers, &rows, statistics),
        };
        let known = Known { rows, past };
        let most = self.params.max_patterns.map_or(n.saturating_sub(1), |most| most.min(n)).min(fibers.len());
        let further = if due { self.test(&fibers, &known, most) } else { 0 };
        if further == 0 && !self.pool.is_complete() {
            return None;
        }
        let fit = extend(&fibers, &known, further, self.seed());
        self.evidence.resize(fit.patterns(), self.last_significance);
        if further > 0 {
            self.last_significance = 0.0;
        }
        let mut past = FeatureRows::new(n, fit.patterns());
        for feature in 0..n {
            let old = known.past.row(feature);
            past.row_mut(feature)[..dictionary.patterns()].copy_from_slice(&old[..dictionary.patterns()]);
        }
        Some(Growth::new(&fit, &past))
    }

    /// Returns the number of further patterns of the pool. It is 0 unless the test before was significant too, or this
    /// one is twice as significant: a test is made in every step, and chance must not add up.
    fn test(&mut self, fibers: &CountFibers, known: &Known, most: usize) -> usize {
        self.new_events = 0.0;
        if known.rows.patterns() >= most {
            return 0;
        }
        if let Some(count) = self.params.max_patterns.filter(|count| *count == self.params.min_patterns) {
            return count.min(most).saturating_sub(known.rows.patterns());
        }
        self.tests += 1;
        let test = test(fibers, known, most, self.seed(), &self.params.stop);
        let before = std::mem::replace(&mut self.last_significance, test.significance);
        let sure = test.significance >= SIGNIFICANCE
            && (before >= SIGNIFICANCE || test.significance >= 2.0 * SIGNIFICANCE);
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
/// whose hash has enough leading zero bits; returns how many are enough. The result is the same for any number of ranks.
pub(crate) fn gather(team: &dyn Team, own: CountFibers) -> (CountFibers, u32) {
    let zeros_of: Vec<u32> = own.places.iter().map(|place| place.hash().leading_zeros()).collect();
    let cells = |zeros: u32| -> i64 {
        let kept = own.fibers.columns().zip(&zeros_of).filter(|(_, own)| **own >= zeros);
        kept.map(|(column, _)| column.len() as i64).sum()
    };
    let mut counts: Vec<i64> = (0..=u64::BITS).map(cells).collect();
    team.sum(&mut counts);
    let zeros = counts.iter().take_while(|count| **count > pool::MAX_CELLS as i64).count() as u32;
    let mut all = CountFibers::new(own.fibers.rows());
    message::gather(team, pool::keep_places(&own, zeros)).iter().for_each(|fibers| all.append(fibers));
    all.sort();
    (all, zeros)
}
