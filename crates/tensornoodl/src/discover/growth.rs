//! The dictionary grows: from nothing, and whenever fibers show what it does not explain.
//!
//! One tensor never shows every pattern, and a pattern that the dictionary lacks would pull its
//! neighbours away. So fibers that are not explained teach nothing (`update.rs`); they are pooled, and
//! searched for what they share (`search.rs`).

use crate::data::dictionary::Dictionary;
use crate::data::tensor::Tensor;
use crate::discover::null::NullModel;
use crate::discover::scale::Scale;
use crate::discover::search::Search;
use crate::discover::unexplained::Unexplained;
use crate::discover::unit_fibers::Fibers;
use crate::error::Error;
use crate::learner::Step;
use crate::params::{AtLeast, Below, within};
use crate::stop::Stop;

/// Fibers that a search holds at a time, and that wait for others like them, at most.
pub(crate) const MOST_FIBERS: usize = 16_384;

/// Fibers that tell their usual noise.
const ENOUGH: usize = 50;

/// How a dictionary grows.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct DiscoverParams {
    /// So many patterns are taken from the first tensor even if chance finds as clear ones, as long as they explain
    /// something. 0: none but clear ones.
    pub min_patterns: usize,
    /// It has so many patterns at most: those of the first tensor that explain most, then the clearest. None: four times as
    /// many as features, more than the theory allows for (A.4).
    pub max_patterns: Option<usize>,
    /// Fibers shorter than this are not searched. 0: all are.
    pub floor: f64,
    /// Of the random numbers that choose where to look.
    pub seed: u64,
    /// Ends the first search.
    #[serde(skip)]
    pub stop: Stop,
}

impl DiscoverParams {
    pub(crate) fn check(&self) -> Result<(), Error> {
        within("floor", self.floor, AtLeast(0.0), Below(f64::INFINITY))?;
        let most = self.max_patterns.unwrap_or(usize::MAX);
        within("max_patterns", most as f64, AtLeast(self.min_patterns.max(1) as f64), Below(f64::INFINITY))
    }
}

/// Fibers waiting to be explained, and what is known of the data.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Discovery {
    n: usize,
    pub(crate) options: DiscoverParams,
    /// None before the first pattern.
    pub(crate) scale: Option<Scale>,
    null: NullModel,
    pool: Fibers,
    /// Fibers that came since the last search, and how many it takes for the next.
    fresh: usize,
    patience: usize,
    /// One for each pattern.
    records: Vec<PatternRecord>,
    /// Fibers of all tensors.
    fibers: usize,
}

/// What is known of one pattern.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
struct PatternRecord {
    /// What its fibers had in common when it was found, relative to the most that chance found.
    evidence: f64,
    /// Tensors since then, and fibers of them that showed it.
    age: u64,
    fibers: usize,
    /// While it is young, some fibers that show it.
    young: Option<Young>,
}

/// Fibers that show a young pattern.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
struct Young {
    /// Some of those it was found in.
    founders: Fibers,
    /// One each of the latest tensors. Fibers of one tensor share rows and cols, and meet the same patterns.
    later: Fibers,
}

/// Tensors that a young pattern is remembered from, if there is room for so many.
const MOST_LATER: usize = 32;

/// At this age a pattern is no longer young.
const GROWN: u64 = 64;

impl Discovery {
    /// Whether its parts fit together.
    pub(crate) fn is_sound(&self, n: usize, patterns: usize) -> bool {
        let young = |young: &Young| young.founders.is_sound(n) && young.later.is_sound(n);
        self.n == n
            && self.options.check().is_ok()
            && self.scale.is_none_or(|scale| scale.is_sound(n))
            && self.null.is_sound(n)
            && self.pool.is_sound(n)
            && self.records.len() == patterns
            && self
                .records
                .iter()
                .all(|life| life.young.as_ref().is_none_or(young) && !life.evidence.is_nan())
    }

    pub(crate) fn new(n: usize, options: DiscoverParams) -> Discovery {
        let (null, pool) = (NullModel::new(n, options.seed), Fibers::new(n));
        Discovery {
            n,
            options,
            scale: None,
            null,
            pool,
            fresh: 0,
            patience: 1,
            records: Vec::new(),
            fibers: 0,
        }
    }

    /// Goes on with patterns that were found before, each with its evidence.
    pub(crate) fn going_on(
        n: usize,
        options: DiscoverParams,
        scale: Option<Scale>,
        evidence: &[f64],
    ) -> Discovery {
        let life = |&evidence: &f64| PatternRecord { evidence, age: GROWN, fibers: 0, young: None };
        Discovery { scale, records: evidence.iter().map(life).collect(), ..Discovery::new(n, options) }
    }

    /// Number of fibers that wait for others like them.
    pub(crate) fn waiting(&self) -> usize {
        self.pool.len()
    }

    /// Evidence of each pattern.
    pub(crate) fn evidence(&self) -> Vec<f64> {
        self.records.iter().map(|life| life.evidence).collect()
    }

    fn search(&self, known: &[f64], scale: Option<Scale>) -> Search {
        let known = known.iter().map(|&a| a as f32).collect();
        let most = self.options.max_patterns.unwrap_or(4 * self.n);
        Search::new(self.n, known, scale, most, self.options.seed)
    }

    /// The first patterns, from a whole tensor, column by column.
    pub(crate) fn start(&mut self, tensor: &Tensor<'_>) -> Vec<f64> {
        let p = tensor.fibers();
        let every = p.div_ceil(MOST_FIBERS).max(1);
        let mut sample = std::mem::replace(&mut self.pool, Fibers::new(self.n));
        let waiting = sample.len();
        let mut fresh = Fibers::new(self.n);
        (0..p).step_by(every).for_each(|fiber| fresh.push(tensor, fiber));
        fresh.keep_longer(self.options.floor);
        sample.take_new(&fresh);
        self.null.add(&sample);
        let mut search = self.search(&[], None);
        // The first patterns compete with each other, later ones find the room that is left.
        search.most = search.most.max(4 * self.n);
        search.least = self.options.min_patterns;
        search.stop = self.options.stop.clone();
        let mut left = search.run(&sample, &mut self.null);
        if search.stop.is_set() {
            return Vec::new();
        }
        if search.measure(&sample).is_some() {
            // The others; what they leave unexplained joins the sample.
            let others: Vec<usize> = (0..p).filter(|fiber| fiber % every != 0).collect();
            let mut more = Fibers::new(self.n);
            for some in others.chunks(MOST_FIBERS) {
                let mut fibers = Fibers::new(self.n);
                some.iter().for_each(|&fiber| fibers.push(tensor, fiber));
                fibers.keep_longer(self.options.floor);
                let mut unexplained = search.unexplained(&fibers);
                unexplained.truncate(MOST_FIBERS - more.len());
                more.take(&fibers, &unexplained);
            }
            sample.take_new(&more);
            left = search.run(&sample, &mut self.null);
            self.scale = search.measure(&sample);
        }
        if self.options.max_patterns.is_some_and(|most| search.count() > most) {
            search.keep_strongest(&sample, self.options.max_patterns.unwrap_or_default());
            left = search.unexplained(&sample);
            self.scale = search.measure(&sample);
        }
        // Those of the tensor will be met again when it is learned from.
        left.retain(|&fiber| fiber < waiting);
        self.end(search, &sample, &left)
    }

    /// New patterns, from fibers that the dictionary does not explain.
    pub(crate) fn grow(&mut self, dictionary: &Dictionary, unexplained: Unexplained) -> Vec<f64> {
        self.listen(unexplained.rests);
        let mut unexplained = unexplained.fibers;
        unexplained.keep_longer(self.options.floor);
        let waiting = self.pool.len();
        self.pool.take_new(&unexplained);
        self.fresh += self.pool.len() - waiting;
        self.pool.keep_last(MOST_FIBERS);
        if self.fresh < self.patience || self.pool.len() < 2 {
            return Vec::new();
        }
        self.fresh = 0;
        self.null.add(&unexplained);
        let mut search = self.search(dictionary.values(), self.scale);
        let pool = std::mem::replace(&mut self.pool, Fibers::new(self.n));
        let left = search.run(&pool, &mut self.null);
        if self.scale.is_none() {
            self.scale = search.measure(&pool);
        }
        let found = self.end(search, &pool, &left);
        // Many that stay unexplained would be searched in vain again and again.
        self.patience = if found.is_empty() { 1 + self.pool.len() / 8 } else { 1 };
        found
    }

    /// The noise, from what is left of the fibers of a tensor.
    fn listen(&mut self, mut rests: Vec<f64>) {
        let middle = rests.len() / 2;
        if let Some(scale) = &mut self.scale
            && rests.len() >= ENOUGH
        {
            scale.noise = *rests.select_nth_unstable_by(middle, f64::total_cmp).1;
        }
    }

    /// Keeps what is left, and hands out what was found.
    fn end(&mut self, search: Search, fibers: &Fibers, left: &[usize]) -> Vec<f64> {
        self.pool = Fibers::new(self.n);
        self.pool.take(fibers, left);
        let found = search.found();
        let new = search.evidence.len() - found.len() / self.n;
        for (&evidence, founders) in search.evidence[new..].iter().zip(search.founders(fibers)) {
            let mut young = Young { founders: Fibers::new(self.n), later: Fibers::new(self.n) };
            young.founders.take(fibers, &founders);
            self.records.push(PatternRecord {
                evidence: evidence as f64,
                age: 0,
                fibers: 0,
                young: Some(young),
            });
        }
        found
    }

    /// Which patterns are young.
    pub(crate) fn young(&self) -> Vec<bool> {
        self.records.iter().map(|life| life.young.is_some()).collect()
    }

    /// A tensor later, young patterns are looked at again: those that turn out to be none, because others explain by
    /// now what they were found in, and those that turn out to be sums of two.
    pub(crate) fn review(
        &mut self,
        dictionary: &Dictionary,
        step: &Step,
        unexplained: &Unexplained,
    ) -> Review {
        self.fibers += step.fibers;
        for (life, fibers) in self.records.iter_mut().zip(&step.activity) {
            life.fibers += fibers;
        }
        let most_later = (MOST_FIBERS / self.records.len().max(1)).min(MOST_LATER);
        for (at, &pattern) in unexplained.shown.iter().enumerate() {
            if let Some(young) = &mut self.records[pattern].young {
                young.later.take_one(&unexplained.showing, at);
                young.later.keep_last(most_later);
            }
        }
        let (mut all, mut patterns) = (Fibers::new(self.n), Vec::new());
        let (mut later, mut met) = (Fibers::new(self.n), Vec::new());
        for (pattern, life) in self.records.iter_mut().enumerate() {
            life.age += 1;
            for young in life.young.iter().filter(|_| life.age.is_power_of_two()) {
                all.take_all(&young.founders);
                all.take_all(&young.later);
                patterns.resize(all.len(), pattern);
                later.take_all(&young.later);
                met.resize(later.len(), pattern);
            }
            if life.age >= GROWN {
                life.young = None;
            }
        }
        let mut review = Review::default();
        if step.step.is_power_of_two() || step.step.is_multiple_of(GROWN) {
            review.lost = twins(dictionary);
        }
        // Of two twins each explains what the other was found in; the young are looked at when one of them is gone.
        if !review.lost.is_empty() {
            review.lost.iter().rev().for_each(|&pattern| drop(self.records.remove(pattern)));
            return review;
        }
        if patterns.is_empty() {
            return review;
        }
        let search = self.search(dictionary.values(), self.scale);
        let confirmed = search.confirms(&all, &patterns);
        let rate = |life: &PatternRecord| life.fibers.max(1) as f64 / self.fibers.max(1) as f64;
        let rates: Vec<f64> = self.records.iter().map(rate).collect();
        review.turned = search.swaps(&later, &met, &rates);
        review.turned.retain(|turned| confirmed[turned.0]);
        patterns.dedup();
        review.lost.extend(patterns.into_iter().filter(|&pattern| !confirmed[pattern]));
        // What they are now, and what their partners are, is looked at again soon.
        if !review.turned.is_empty() {
            self.records.iter_mut().filter(|life| life.young.is_some()).for_each(|life| life.age = 0);
        }
        // Their fibers wait again.
        for &pattern in review.lost.iter().rev() {
            if let Some(young) = self.records.remove(pattern).young {
                self.pool.take_new(&young.founders);
                self.pool.take_new(&young.later);
            }
        }
        review
    }
}

/// What became of young patterns.
#[derive(Default)]
pub(crate) struct Review {
    /// Sums, and what they should be.
    pub(crate) turned: Vec<(usize, Vec<f64>)>,
    /// Those that are none, by increasing number.
    pub(crate) lost: Vec<usize>,
}

/// Patterns nearer to each other than this cosine are one.
const TWINS: f64 = 0.98;

/// Patterns that have become the same as an older one.
fn twins(dictionary: &Dictionary) -> Vec<usize> {
    let (m, gram) = (dictionary.patterns(), dictionary.gram());
    let mut twins = Vec::new();
    for i in 0..m {
        let older = |l: &usize| gram[i * m + l].abs() > TWINS && !twins.contains(l);
        if (0..i).any(|l| older(&l)) {
            twins.push(i);
        }
    }
    twins
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_twins_the_older_stays() {
        let unit = |at: usize| (0..4).map(|i| f64::from(u8::from(i == at))).collect::<Vec<f64>>();
        let near = vec![0.0, 1.0, 0.1, 0.0];
        let far = vec![0.0, 1.0, 0.5, 0.0];
        let columns = [unit(0), unit(1), near, unit(0), far].concat();
        assert_eq!(twins(&Dictionary::from_columns(4, columns).unwrap()), [2, 3]);
    }
}
