//! How a dictionary grows: from nothing, and whenever fibers contain patterns that it lacks.
//!
//! One tensor never shows every pattern, and a pattern that the dictionary lacks would pull its neighbours away. So
//! fibers that are not explained are left out of the update (`unexplained.rs`). They are pooled, and searched for
//! patterns that they share (`search.rs`). A new pattern is on probation for some tensors: if other patterns come to
//! explain the fibers that it was found in, it is removed.

use crate::data::dictionary::{Dictionary, UnitVector};
use crate::data::tensor::Tensor;
use crate::discover::null::NullModel;
use crate::discover::params::DiscoverParams;
use crate::discover::scale::Scale;
use crate::discover::search::Search;
use crate::discover::unexplained::{MAX_FIBERS, Unexplained};
use crate::discover::unit_fibers::UnitFibers;
use crate::linalg::vector::dot;

/// Minimum number of residuals from which the noise is estimated.
const MIN_RESIDUALS: usize = 50;

/// Maximum number of fibers that are kept of later tensors for each pattern on probation.
const MAX_LATER: usize = 32;

/// Number of tensors after which the probation of a pattern ends.
const PROBATION: u64 = 64;

/// Two patterns with an absolute cosine above this are one pattern.
const SAME_PATTERN: f64 = 0.98;

/// State of a growing dictionary: unexplained fibers, and what is known about the data and each pattern.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Discovery {
    n: usize,
    pub(crate) params: DiscoverParams,
    /// The units of the data. None before the first pattern.
    pub(crate) scale: Option<Scale>,
    null: NullModel,
    /// Unexplained fibers, kept for later searches.
    pool: UnitFibers,
    /// Number of fibers that joined the pool since the last search.
    new_fibers: usize,
    /// Number of new fibers that the next search needs.
    fibers_for_search: usize,
    records: Vec<PatternRecord>,
    /// Number of fibers of all tensors so far.
    fibers: usize,
}

/// What is known about one pattern.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
struct PatternRecord {
    /// The similarity of the fibers that the pattern was found in, relative to the largest one that chance produced.
    evidence: f64,
    /// Number of tensors since the pattern was found.
    age: u64,
    /// Number of fibers of these tensors that showed the pattern.
    fibers: usize,
    /// Fibers that show the pattern, while it is on probation.
    probation: Option<Probation>,
}

impl PatternRecord {
    fn new(evidence: f64, probation: Option<Probation>) -> PatternRecord {
        let age = if probation.is_some() { 0 } else { PROBATION };
        PatternRecord { evidence, age, fibers: 0, probation }
    }
}

/// Fibers that show a pattern on probation.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
struct Probation {
    /// Some of the fibers that the pattern was found in. A pattern without founders is not lost.
    founders: UnitFibers,
    /// One fiber of each of the latest tensors. Only one, because fibers of one tensor share rows and cols, and
    /// therefore have the same other patterns.
    later: UnitFibers,
}

/// The result of a review of the patterns on probation.
#[derive(Default)]
pub(crate) struct Review {
    /// Patterns that were sums of two, and the patterns that replace them.
    pub(crate) replaced: Vec<(usize, UnitVector)>,
    /// Patterns to remove, by increasing number.
    pub(crate) lost: Vec<usize>,
}

impl Discovery {
    /// State of a dictionary without patterns.
    pub(crate) fn new(n: usize, params: DiscoverParams) -> Discovery {
        let (null, pool) = (NullModel::new(n, params.seed), UnitFibers::new(n));
        let records = Vec::new();
        Discovery {
            n,
            params,
            scale: None,
            null,
            pool,
            new_fibers: 0,
            fibers_for_search: 1,
            records,
            fibers: 0,
        }
    }

    /// State of a dictionary whose patterns were found before, with the evidence of each. In data that follows the model
    /// they are on probation without founders, if there is no bound of their number: later tensors may show that they
    /// are mixed, but they are not lost.
    pub(crate) fn with_patterns(
        n: usize,
        params: DiscoverParams,
        scale: Option<Scale>,
        evidence: &[f64],
    ) -> Discovery {
        let reviewed = params.min_length == 0.0 && params.max_patterns.is_none();
        let probation =
            || reviewed.then(|| Probation { founders: UnitFibers::new(n), later: UnitFibers::new(n) });
        let records = evidence.iter().map(|&evidence| PatternRecord::new(evidence, probation())).collect();
        Discovery { scale, records, ..Discovery::new(n, params) }
    }

    /// Whether all parts fit together, for n features and this many patterns. A state from a file may fail this.
    pub(crate) fn is_sound(&self, n: usize, patterns: usize) -> bool {
        let fits = |probation: &Probation| probation.founders.is_sound(n) && probation.later.is_sound(n);
        let sound =
            |record: &PatternRecord| record.probation.as_ref().is_none_or(fits) && !record.evidence.is_nan();
        self.n == n
            && self.params.check().is_ok()
            && self.scale.is_none_or(|scale| scale.is_sound(n))
            && self.null.is_sound(n)
            && self.pool.is_sound(n)
            && self.records.len() == patterns
            && self.records.iter().all(sound)
    }

    /// Number of unexplained fibers that are kept for later searches.
    pub(crate) fn pooled(&self) -> usize {
        self.pool.len()
    }

    /// The length of the shortest residual that counts as noise. It is 0 for data that follows the model: each fiber
    /// shows its own noise, however short. Other data has fibers of few events, which a pattern of a single feature
    /// fits exactly. Without a bound such fibers would outweigh all others, and patterns would shrink to single
    /// features.
    pub(crate) fn shortest_noise(&self) -> f64 {
        self.scale.filter(|_| self.params.min_length > 0.0).map_or(0.0, |scale| scale.noise)
    }

    /// Evidence of each pattern.
    pub(crate) fn evidence(&self) -> Vec<f64> {
        self.records.iter().map(|record| record.evidence).collect()
    }

    /// For each pattern, whether it is on probation.
    pub(crate) fn on_probation(&self) -> Vec<bool> {
        self.records.iter().map(|record| record.probation.is_some()).collect()
    }

    /// Forgets patterns, given by increasing number, because they left the dictionary.
    pub(crate) fn remove(&mut self, patterns: &[usize]) {
        patterns.iter().rev().for_each(|&pattern| drop(self.records.remove(pattern)));
    }

    fn search(&self, known: &[f64], scale: Option<Scale>) -> Search {
        let known = known.iter().map(|&a| a as f32).collect();
        let most = self.params.max_patterns.unwrap_or(4 * self.n);
        Search::new(self.n, known, scale, most, self.params.seed)
    }

    /// A search without known patterns.
    fn first_search(&self) -> Search {
        let mut search = self.search(&[], None);
        // The first patterns compete with each other. The limit is applied to the strongest ones afterwards.
        search.max_patterns = search.max_patterns.max(4 * self.n);
        search.min_patterns = self.params.min_patterns;
        search.stop = self.params.stop.clone();
        search
    }

    /// Finds the first patterns in a whole tensor, and returns them column by column. Each pattern is finite and not
    /// zero. Returns no patterns if the search was stopped.
    pub(crate) fn start(&mut self, tensor: &Tensor<'_>) -> Vec<f64> {
        let every = tensor.fibers().div_ceil(MAX_FIBERS).max(1);
        let mut sample = std::mem::replace(&mut self.pool, UnitFibers::new(self.n));
        let pooled = sample.len();
        sample.take_new(&self.long_fibers(tensor, (0..tensor.fibers()).step_by(every)));
        self.null.add(&sample);
        let mut search = self.first_search();
        let mut unexplained = search.run(&sample, &mut self.null);
        // Data that follows the model only roughly has fibers of single events, which patterns of one feature explain
        // with one code.
        let exact = self.params.min_length == 0.0;
        if let Some(mut null) = self.null.without_common_part().filter(|_| exact) {
            let mut other = self.first_search();
            let others = other.run(&sample, &mut null);
            if other.is_simpler(&search, &sample) {
                (search, unexplained, self.null) = (other, others, null);
            }
        }
        if search.stop.is_set() {
            return Vec::new();
        }
        if search.estimate_scale(&sample).is_some() {
            // Fibers outside the sample that are not explained join it for a second run.
            sample.take_new(&self.unexplained_outside(tensor, every, &search));
            unexplained = search.run(&sample, &mut self.null);
            self.scale = search.estimate_scale(&sample);
        }
        if let Some(most) = self.params.max_patterns.filter(|&most| search.count() > most) {
            search.keep_strongest(&sample, most);
            unexplained = search.unexplained(&sample);
            self.scale = search.estimate_scale(&sample);
        }
        self.null.keep_common_part();
        // The fibers of this tensor are seen again when it is learned from, so only older ones stay in the pool.
        unexplained.retain(|&fiber| fiber < pooled);
        self.finish_search(search, &sample, &unexplained)
    }

    /// Takes the units of a new start, and those of its patterns that the dictionary does not have: returns them column
    /// by column. `evidence` is that of each pattern.
    pub(crate) fn begin_again(
        &mut self,
        dictionary: &Dictionary,
        start: &Dictionary,
        evidence: impl Iterator<Item = f64>,
        scale: Option<Scale>,
        min_length: f64,
    ) -> Vec<f64> {
        self.params.min_length = min_length;
        self.scale = scale;
        self.pool.keep_longer(min_length);
        let mut found = Vec::new();
        for (pattern, evidence) in start.values().chunks_exact(self.n).zip(evidence) {
            let mut known = dictionary.values().chunks_exact(self.n);
            if known.all(|known| dot(pattern, known).abs() <= SAME_PATTERN) {
                found.extend_from_slice(pattern);
                self.records.push(PatternRecord::new(evidence, None));
            }
        }
        found
    }

    /// Some fibers of a tensor, without those that are shorter than `min_length`.
    fn long_fibers(&self, tensor: &Tensor<'_>, numbers: impl Iterator<Item = usize>) -> UnitFibers {
        let mut fibers = UnitFibers::new(self.n);
        numbers.for_each(|fiber| fibers.push(tensor, fiber));
        fibers.keep_longer(self.params.min_length);
        fibers
    }

    /// Fibers of a tensor that a search has not seen, because only every `every`-th was in its sample, and that its
    /// patterns do not explain: at most [`MAX_FIBERS`].
    fn unexplained_outside(&self, tensor: &Tensor<'_>, every: usize, search: &Search) -> UnitFibers {
        let others: Vec<usize> = (0..tensor.fibers()).filter(|fiber| fiber % every != 0).collect();
        let mut collected = UnitFibers::new(self.n);
        for chunk in others.chunks(MAX_FIBERS) {
            let fibers = self.long_fibers(tensor, chunk.iter().copied());
            let mut unexplained = search.unexplained(&fibers);
            unexplained.truncate(MAX_FIBERS - collected.len());
            collected.take(&fibers, &unexplained);
        }
        collected
    }

    /// Finds new patterns in fibers that the dictionary does not explain, and returns them column by column. Each is
    /// finite and not zero.
    pub(crate) fn grow(&mut self, dictionary: &Dictionary, unexplained: Unexplained) -> Vec<f64> {
        self.measure_noise(unexplained.residuals);
        let mut fibers = unexplained.fibers;
        fibers.keep_longer(self.params.min_length);
        let pooled = self.pool.len();
        self.pool.take_new(&fibers);
        self.new_fibers += self.pool.len() - pooled;
        self.pool.keep_last(MAX_FIBERS);
        if self.new_fibers < self.fibers_for_search || self.pool.len() < 2 {
            return Vec::new();
        }
        self.new_fibers = 0;
        self.null.add(&fibers);
        let mut search = self.search(dictionary.values(), self.scale);
        let pool = std::mem::replace(&mut self.pool, UnitFibers::new(self.n));
        let unexplained = search.run(&pool, &mut self.null);
        if self.scale.is_none() {
            self.scale = search.estimate_scale(&pool);
        }
        let found = self.finish_search(search, &pool, &unexplained);
        // A large pool that stays unexplained is not searched again before it has grown by an eighth.
        self.fibers_for_search = if found.is_empty() { 1 + self.pool.len() / 8 } else { 1 };
        found
    }

    /// Estimates the noise as the median residual norm of a tensor.
    fn measure_noise(&mut self, mut residuals: Vec<f64>) {
        let middle = residuals.len() / 2;
        if let Some(scale) = &mut self.scale
            && residuals.len() >= MIN_RESIDUALS
        {
            scale.noise = *residuals.select_nth_unstable_by(middle, f64::total_cmp).1;
        }
    }

    /// Keeps the unexplained fibers in the pool, and returns the patterns that were found, now on probation. A pattern
    /// that cannot be scaled to unit length is left out.
    fn finish_search(&mut self, search: Search, fibers: &UnitFibers, unexplained: &[usize]) -> Vec<f64> {
        self.pool = UnitFibers::new(self.n);
        self.pool.take(fibers, unexplained);
        let columns = search.new_patterns();
        let first = search.evidence.len() - columns.len() / self.n;
        let founders = search.strongest_fibers(fibers);
        let mut found = Vec::new();
        for ((&evidence, founders), column) in
            search.evidence[first..].iter().zip(founders).zip(columns.chunks_exact(self.n))
        {
            if UnitVector::new(column.to_vec()).is_none() {
                continue;
            }
            found.extend_from_slice(column);
            let mut probation =
                Probation { founders: UnitFibers::new(self.n), later: UnitFibers::new(self.n) };
            probation.founders.take(fibers, &founders);
            self.records.push(PatternRecord::new(evidence as f64, Some(probation)));
        }
        found
    }

    /// Reviews the patterns on probation, after tensor number `step` with this many fibers.
    ///
    /// `activity` has the number of fibers that showed each pattern. A pattern is lost if other patterns now explain
    /// the fibers that it was found in as well as it does, or if it has become equal to an older pattern. It is
    /// replaced if it turns out to be the sum of two patterns.
    pub(crate) fn review(
        &mut self,
        dictionary: &Dictionary,
        step: u64,
        fibers: usize,
        activity: &[usize],
        unexplained: &Unexplained,
    ) -> Review {
        self.fibers += fibers;
        for (record, fibers) in self.records.iter_mut().zip(activity) {
            record.fibers += fibers;
        }
        self.keep_examples(unexplained);
        let due = self.probation_due();
        if step.is_power_of_two() || step.is_multiple_of(PROBATION) {
            let lost = duplicates(dictionary);
            // Each of two equal patterns explains the fibers of the other, so patterns on probation are only reviewed
            // after one of the two was removed.
            if !lost.is_empty() {
                self.remove(&lost);
                return Review { lost, ..Review::default() };
            }
        }
        let nothing = due.patterns.is_empty() && due.later_patterns.is_empty();
        if nothing { Review::default() } else { self.decide(dictionary, due) }
    }

    /// Keeps one fiber of this tensor for every pattern on probation that it showed.
    fn keep_examples(&mut self, unexplained: &Unexplained) {
        let most = (MAX_FIBERS / self.records.len().max(1)).min(MAX_LATER);
        for (at, &pattern) in unexplained.patterns.iter().enumerate() {
            if let Some(probation) = &mut self.records[pattern].probation {
                probation.later.take_one(&unexplained.examples, at);
                probation.later.keep_last(most);
            }
        }
    }

    /// Ages all patterns by one tensor, and collects the fibers of the patterns that are due for review: those on
    /// probation whose age is a power of two.
    fn probation_due(&mut self) -> Due {
        let mut due = Due {
            fibers: UnitFibers::new(self.n),
            patterns: Vec::new(),
            later: UnitFibers::new(self.n),
            later_patterns: Vec::new(),
        };
        for (pattern, record) in self.records.iter_mut().enumerate() {
            record.age += 1;
            for probation in record.probation.iter().filter(|_| record.age.is_power_of_two()) {
                if probation.founders.len() > 0 {
                    due.fibers.take_all(&probation.founders);
                    due.fibers.take_all(&probation.later);
                    due.patterns.resize(due.fibers.len(), pattern);
                }
                due.later.take_all(&probation.later);
                due.later_patterns.resize(due.later.len(), pattern);
            }
            if record.age >= PROBATION {
                record.probation = None;
            }
        }
        due
    }

    /// The fibers that are kept of later tensors for all patterns on probation, each once.
    fn later_fibers(&self) -> UnitFibers {
        let (mut all, mut once) = (UnitFibers::new(self.n), UnitFibers::new(self.n));
        self.records.iter().flat_map(|record| &record.probation).for_each(|kept| all.take_all(&kept.later));
        once.take_new(&all);
        once
    }

    /// Decides which of the patterns that are due stay, are replaced, or are lost.
    fn decide(&mut self, dictionary: &Dictionary, due: Due) -> Review {
        let mut search = self.search(dictionary.values(), self.scale);
        // Any pattern may turn out to be mixed.
        search.fixed = 0;
        let confirmed = search.confirmed(&due.fibers, &due.patterns);
        let rate = |record: &PatternRecord| record.fibers.max(1) as f64 / self.fibers.max(1) as f64;
        let rates: Vec<f64> = self.records.iter().map(rate).collect();
        let mut review = Review::default();
        // A fiber that shows one of the true patterns of a mixture may be far from all patterns of the dictionary.
        search.any_cosine = true;
        let mut doubtful = due.patterns.clone();
        doubtful.dedup();
        for (pattern, column) in search.composite_replacements(&due.later, &due.later_patterns, &rates) {
            if (confirmed[pattern] || !doubtful.contains(&pattern))
                && let Some(column) = UnitVector::new(column)
            {
                review.replaced.push((pattern, column));
            }
        }
        let mut maybe_mixed = [&due.patterns[..], &due.later_patterns].concat();
        maybe_mixed.sort_unstable();
        maybe_mixed.dedup();
        // Data that follows the model only roughly has fibers of single events, which a pattern of one feature explains
        // with one code.
        if review.replaced.is_empty()
            && self.params.min_length == 0.0
            && let Some((pattern, column)) = search.simpler(&self.later_fibers(), &maybe_mixed)
            && let Some(column) = UnitVector::new(column)
        {
            review.replaced.push((pattern, column));
        }
        search.any_cosine = false;
        doubtful.retain(|&pattern| !confirmed[pattern]);
        review.lost = search.dispensable(&due.fibers, &due.patterns, &doubtful);
        // A replaced pattern changes what other patterns explain: all patterns on probation are reviewed again soon.
        if !review.replaced.is_empty() {
            let on_probation = self.records.iter_mut().filter(|record| record.probation.is_some());
            on_probation.for_each(|record| record.age = 0);
        }
        // The fibers of lost patterns return to the pool.
        for &pattern in review.lost.iter().rev() {
            if let Some(probation) = self.records.remove(pattern).probation {
                self.pool.take_new(&probation.founders);
                self.pool.take_new(&probation.later);
            }
        }
        review
    }
}

/// Patterns on probation that are due for review after a tensor, with the fibers that show them.
struct Due {
    /// All fibers that are kept for the patterns that have founders.
    fibers: UnitFibers,
    /// The pattern of each of `fibers`.
    patterns: Vec<usize>,
    /// Those of `fibers` that came from tensors after the one that the pattern was found in.
    later: UnitFibers,
    /// The pattern of each of `later`.
    later_patterns: Vec<usize>,
}

/// Returns the patterns that have become equal to an older pattern, by increasing number.
fn duplicates(dictionary: &Dictionary) -> Vec<usize> {
    let (m, gram) = (dictionary.patterns(), dictionary.gram());
    let mut duplicates = Vec::new();
    for i in 0..m {
        let same = |l: &usize| gram[i * m + l].abs() > SAME_PATTERN && !duplicates.contains(l);
        if (0..i).any(|l| same(&l)) {
            duplicates.push(i);
        }
    }
    duplicates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_equal_patterns_the_older_one_stays() {
        let unit = |at: usize| (0..4).map(|i| f64::from(u8::from(i == at))).collect::<Vec<f64>>();
        let near = vec![0.0, 1.0, 0.1, 0.0];
        let far = vec![0.0, 1.0, 0.5, 0.0];
        let columns = [unit(0), unit(1), near, unit(0), far].concat();
        assert_eq!(duplicates(&Dictionary::from_columns(4, columns).unwrap()), [2, 3]);
    }
}
