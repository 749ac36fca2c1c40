//! A step of the counts model: the stages of Alg. 1 with the Kullback-Leibler divergence. `exact.rs` has the same step
//! for the exact model.

use std::borrow::Borrow;
use std::fmt::Display;

use crate::data::codes::{Codes, SolverCounts};
use crate::data::dictionary::Dictionary;
use crate::data::sparse::Sparse;
use crate::data::tensor::{Tensor, check_distinct};
use crate::discover::counts::groups::Groups;
use crate::discover::counts::growth::Growth;
use crate::discover::counts::hidden::CountFibers;
use crate::discover::counts::pool::keep_places;
use crate::discover::counts::{CountDiscovery, SPARE, count_fibers, encode_in_waves, gather};
use crate::discover::params::DiscoverParams;
use crate::encode::counts::CountCoder;
use crate::error::Error;
use crate::learner::common::Common;
use crate::learner::pass::{FAILED, STOPPED};
use crate::learner::retired::Returned;
use crate::learner::sightings::Presence;
use crate::learner::step::{Step, Times, timed};
use crate::parallel::team::{agree, first_error};
use crate::params::{ModelKind, Passes};
use crate::shape::{Place, Shape};
use crate::stop::Stop;
use crate::surprise::judge::{Judge, Surprise};
use crate::surprise::past::StepFibers;
use crate::update::counts::{EventSums, MOST_EVENTS, Statistics};

/// Maximum number of passes over one tensor, unless a number is given.
const MAX_PASSES: usize = 30;

/// A pattern with fewer events than this is empty.
const EMPTY: f64 = 1.0;

/// The events of a pattern are scattered if its features have fewer events than this on the average.
const EVENTS_PER_FEATURE: f64 = 2.0;

/// A step shows a pattern that has at least this share of its usual strength.
const SHOWN: f64 = 0.15;

/// Passes end when the dictionary changes by less than this, relative to its size.
const SETTLED: f64 = 1e-3;

/// State of the counts model.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Counts {
    /// The statistics of all tensors so far.
    pub(crate) statistics: Statistics,
    /// State of the search for patterns.
    pub(crate) discovery: CountDiscovery,
}

/// What a pass over a tensor leaves.
struct Pass {
    sums: EventSums,
    codes: Sparse,
    places: Vec<Place>,
    /// The fibers, for the search.
    fibers: CountFibers,
}

impl Counts {
    /// State before the first tensor.
    pub(crate) fn new(features: usize, discover: DiscoverParams) -> Counts {
        let discovery = CountDiscovery::new(features, discover);
        Counts { statistics: Statistics::new(features), discovery }
    }

    /// Whether all parts fit together. A state from a file may fail this.
    pub(crate) fn is_sound(&self, features: usize, patterns: usize) -> bool {
        self.statistics.is_sound(features, patterns) && self.discovery.is_sound(features, patterns)
    }

    /// One step of Alg. 1 for counts. `parts` returns the parts of the tensor; it is called once for each pass.
    pub(crate) fn step<'t, T, E, I>(
        &mut self,
        common: &mut Common,
        shape: Shape,
        mut parts: impl FnMut() -> I,
    ) -> Result<Step, E>
    where
        T: Borrow<Tensor<'t>>,
        E: From<Error> + Display,
        I: IntoIterator<Item = Result<T, E>>,
    {
        let mut valid = common.check_features(shape);
        let mut times = Times::default();
        let (mut passes, mut moved) = (0, None::<Statistics>);
        let (pass, statistics, dictionary) = loop {
            let dictionary = moved.as_ref().map_or_else(|| common.dictionary.clone(), Statistics::dictionary);
            let shares = moved.as_ref().unwrap_or(&self.statistics).shares();

            // I: X, the codes of the fibers Y under A, and the sums over fibers for III
            let coder = CountCoder::new(&dictionary, &shares);
            let places = self.discovery.place_shares(&coder, common.steps + 1);
            let coder = coder.expecting(places).with_outliers_above(self.discovery.far());
            let parts = std::mem::replace(&mut valid, Ok(())).map_err(E::from).map(|()| parts());
            let pass = timed(&mut times.encode, || self.encode_and_sum(common, &coder, shape, parts))?;

            // III: A explains the events of all tensors so far
            let statistics = self.statistics.add(&pass.sums, common.params.forgetting);
            let next = timed(&mut times.update, || statistics.dictionary());
            passes += 1;
            if was_last(common.params.passes, passes, &next, &dictionary) {
                break (pass, statistics, next);
            }
            moved = Some(statistics);
        };
        // No function below this line can fail.
        let (mean, strengths) = (statistics.mean(), pass.sums.strengths());
        let mut step = Step {
            step: common.steps + 1,
            fibers: pass.sums.fibers(),
            fibers_used: pass.sums.fibers(),
            mean_code_size: pass.sums.mean_code_size(),
            fit: pass.sums.fit(&mean),
            change: relative_change(&dictionary, &common.dictionary),
            activity: shown(common, &pass.sums, &strengths),
            solver_counts: SolverCounts::default(),
            passes,
            found: 0,
            lost: Vec::new(),
            retired: Vec::new(),
            returned: Vec::new(),
            times: Times::default(),
            codes: Codes::at(ModelKind::Counts, pass.codes, pass.places, shape),
        };
        let before = self.patterns_after_forgetting(common);
        self.statistics = statistics;
        common.commit(dictionary, &step, &strengths, self.discovery.pool.steps.len() as f64);
        if self.discovery.last_step() < step.step {
            self.discovery.add(step.step, gather(&*common.team.0, pass.fibers).0);
        } else {
            drop(pass.fibers);
        }
        timed(&mut times.search, || self.discover(common, &before, &pass.sums.activity(), &mut step));
        Ok(Step { times, ..step })
    }

    /// Looks for patterns in the pool, and removes those that are empty or were not seen for long. `before` has the
    /// patterns before the step, and `activity` the number of fibers of the step that have each of them. Patterns in
    /// `step` are numbered as in the dictionary after that.
    fn discover(&mut self, common: &mut Common, before: &Growth, activity: &[usize], step: &mut Step) {
        let (m, forgetting) = (common.dictionary.patterns(), common.params.forgetting);
        if let Some(growth) = self.discovery.grow(&common.dictionary, &self.statistics.patterns, forgetting) {
            self.adopt(common, growth);
        }
        let after = Growth {
            columns: common.dictionary.values().to_vec(),
            statistics: self.statistics.patterns.clone(),
        };
        let mut lost = Vec::new();
        if let Some((growth, old)) = self.discovery.split_changed(before, &after, forgetting) {
            self.adopt(common, growth);
            lost = old;
        }
        step.found = common.dictionary.patterns() - m;
        step.activity.resize(common.dictionary.patterns(), 0);
        if lost.is_empty() {
            lost = self.empty_patterns(common, activity);
        }
        step.returned = self.recognize(common, m);
        step.retired = self.retire(common, &lost);
        lost.extend(&step.retired);
        lost.sort_unstable();
        self.remove(common, &lost);
        step.returned.iter_mut().for_each(|it| it.pattern -= lost.len());
        step.lost = lost;
        for &pattern in step.lost.iter().rev() {
            step.activity.remove(pattern);
        }
        step.codes.renumber(&step.lost, common.dictionary.patterns());
    }

    /// The patterns before a step, with their statistics after forgetting.
    fn patterns_after_forgetting(&self, common: &Common) -> Growth {
        let kept = 1.0 - common.params.forgetting;
        Growth {
            columns: common.dictionary.values().to_vec(),
            statistics: self.statistics.patterns.iter().map(|events| kept * events).collect(),
        }
    }

    /// The patterns without events: other patterns explain all that they explained. While the search still has all
    /// events, these include patterns with a few scattered events. `activity` has the number of fibers of the step that
    /// have each pattern. A given number of patterns is kept.
    fn empty_patterns(&self, common: &Common, activity: &[usize]) -> Vec<usize> {
        let n = common.dictionary.features();
        let columns: Vec<&[f64]> = self.statistics.patterns.chunks_exact(n).collect();
        let total: f64 = self.statistics.patterns.iter().sum();
        let few = SPARE * total / columns.len() as f64;
        let is_empty = |column: &[f64]| {
            let events: f64 = column.iter().sum();
            let scattered = events < few && events < EVENTS_PER_FEATURE * effective_features(column);
            events < EMPTY || scattered && self.discovery.pool.is_complete()
        };
        let lost: Vec<usize> =
            (0..columns.len()).filter(|&i| activity.get(i) == Some(&0) && is_empty(columns[i])).collect();
        if self.discovery.given().is_some() || lost.len() == columns.len() { Vec::new() } else { lost }
    }

    /// Removes patterns, given by increasing number.
    fn remove(&mut self, common: &mut Common, lost: &[usize]) {
        let n = common.dictionary.features();
        common.remove(lost);
        for &pattern in lost.iter().rev() {
            self.statistics.patterns.drain(pattern * n..(pattern + 1) * n);
            self.discovery.evidence.remove(pattern);
        }
    }

    /// Retires the patterns that were not seen for long, except for the `lost` ones, and returns them. They are still in
    /// the dictionary. A given number of patterns is kept.
    fn retire(&self, common: &mut Common, lost: &[usize]) -> Vec<usize> {
        if self.discovery.given().is_some() || self.discovery.pool.is_complete() {
            return Vec::new();
        }
        let n = common.dictionary.features();
        let mut gone = common.gone();
        gone.retain(|pattern| !lost.contains(pattern));
        gone.iter()
            .for_each(|&pattern| common.retire(pattern, &self.statistics.patterns[pattern * n..][..n]));
        gone
    }

    /// Finds retired patterns among the new ones, which are those from number `known` on, and gives them the events that
    /// they had.
    fn recognize(&mut self, common: &mut Common, known: usize) -> Vec<Returned> {
        let n = common.dictionary.features();
        let pairs = common.recognize(known);
        for (it, retired) in &pairs {
            let own = &mut self.statistics.patterns[it.pattern * n..][..n];
            own.iter_mut().zip(&retired.statistics).for_each(|(own, past)| *own += past);
        }
        if !pairs.is_empty() {
            common.dictionary = self.statistics.dictionary();
        }
        pairs.into_iter().map(|(it, _)| it).collect()
    }

    /// Takes the patterns and statistics of a search.
    fn adopt(&mut self, common: &mut Common, growth: Growth) {
        self.statistics.patterns = growth.statistics;
        common.dictionary = Dictionary::with_unit_sums(common.dictionary.features(), growth.columns);
        common.count_patterns();
    }

    /// Finds the first patterns in a tensor. Each rank of the team has a share of its fibers.
    pub(crate) fn find_first_patterns(
        &mut self,
        common: &mut Common,
        tensor: &Tensor<'_>,
    ) -> Result<(), Error> {
        let own = agree(&*common.team.0, count_fibers(tensor))?;
        let (fibers, _) = gather(&*common.team.0, own);
        if fibers.len() == 0 || self.discovery.last_step() > common.steps {
            return Ok(());
        }
        self.discovery.add(common.steps + 1, fibers);
        if let Some(growth) = self.discovery.start() {
            self.adopt(common, growth);
            // The statistics of this tensor are added when it is learned from.
            self.statistics.patterns.fill(0.0);
        }
        Ok(())
    }

    /// Stage I alone.
    pub(crate) fn encode(&self, common: &Common, stop: &Stop, tensor: &Tensor<'_>) -> Result<Codes, Error> {
        let coder = CountCoder::new(&common.dictionary, &self.statistics.shares());
        let places = self.discovery.place_shares(&coder, common.steps + 1);
        let coder = coder.expecting(places);
        let fibers = count_fibers(tensor)?;
        let codes = encode_all(&coder, &fibers, stop);
        Ok(Codes::at(ModelKind::Counts, codes, fibers.places, tensor.shape()))
    }

    /// Looks at all places of a tensor, as if it were the next step. `undamp` returns the count that a value stands
    /// for.
    pub(crate) fn surprises(
        &self,
        common: &Common,
        tensor: &Tensor<'_>,
        undamp: impl Fn(f64) -> f64,
    ) -> Result<Vec<Surprise>, Error> {
        let own = agree(&*common.team.0, count_fibers(tensor))?;
        let pool = &self.discovery.pool;
        if pool.steps.iter().all(|step| step.0 > common.steps) {
            return Ok(Vec::new());
        }
        let (fibers, zeros) = gather(&*common.team.0, own);
        let zeros = zeros.max(pool.zeros);
        let step_fibers = |fibers: CountFibers| {
            let learned = keep_places(fibers, zeros);
            let mut counts = learned.clone();
            counts.fibers.replace(|value| undamp(value).round().max(1.0));
            StepFibers { learned, counts }
        };
        let before = pool.steps.iter().filter(|step| step.0 <= common.steps);
        let steps: Vec<StepFibers> = before.map(|step| step_fibers(step.1.clone())).collect();
        let judge = Judge {
            coder: &CountCoder::new(&common.dictionary, &self.statistics.shares()),
            mean: &self.statistics.mean(),
            seed: self.discovery.params.seed,
            step: common.steps + 1,
        };
        Ok(judge.judge(&steps, &step_fibers(fibers).counts, zeros, &*common.team.0))
    }

    /// The groups of rows and cols that share patterns in the latest steps.
    pub(crate) fn groups(&self, common: &Common) -> Groups {
        let fibers = self.discovery.pooled();
        let length = |index: fn(&Place) -> u32| {
            fibers.places.iter().map(index).max().map_or(0, |last| last as usize + 1)
        };
        let (rows, cols) = (length(|place| place.row), length(|place| place.col));
        let shape = Shape { features: common.dictionary.features(), rows, cols };
        let coder = CountCoder::new(&common.dictionary, &self.statistics.shares());
        // Groups of a run that was stopped are found, too.
        let codes = encode_all(&coder, &fibers, &Stop::default());
        Groups::find(&Codes::at(ModelKind::Counts, codes, fibers.places, shape), self.discovery.params.seed)
    }

    /// Codes all fibers (stage I), and adds up what stage III needs, over all ranks.
    ///
    /// # Errors
    /// The first error of any rank, on all ranks. [`Error::Stopped`] if a rank was stopped.
    fn encode_and_sum<'t, T: Borrow<Tensor<'t>>, E: From<Error> + Display>(
        &self,
        common: &Common,
        coder: &CountCoder,
        shape: Shape,
        parts: Result<impl IntoIterator<Item = Result<T, E>>, E>,
    ) -> Result<Pass, E> {
        let m = common.dictionary.patterns();
        let mut pass = Pass {
            sums: EventSums::new(shape.features, m),
            codes: Sparse::new(m),
            places: Vec::new(),
            fibers: CountFibers::new(shape.features),
        };
        let outcome = parts.and_then(|parts| pass.add_parts(coder, shape, parts, &common.stop));
        let alarm = match &outcome {
            Ok(()) => 0,
            Err(_) if common.stop.is_set() => STOPPED,
            Err(_) => FAILED,
        };
        match pass.sums.sum_over_ranks(&*common.team.0, alarm) {
            0 => Ok(pass),
            STOPPED => Err(Error::Stopped.into()),
            _ => Err(first_error(&*common.team.0, outcome)),
        }
    }
}

impl Pass {
    fn add_parts<'t, T: Borrow<Tensor<'t>>, E: From<Error>>(
        &mut self,
        coder: &CountCoder,
        shape: Shape,
        parts: impl IntoIterator<Item = Result<T, E>>,
        stop: &Stop,
    ) -> Result<(), E> {
        let mut events = 0.0;
        for part in parts {
            let part = part?;
            let part: &Tensor<'_> = part.borrow();
            if part.shape() != shape {
                return Err(Error::OtherShape { part: part.shape(), tensor: shape }.into());
            }
            let fibers = count_fibers(part)?;
            events += fibers.events();
            if events > MOST_EVENTS {
                return Err(Error::TooManyEvents { events }.into());
            }
            for coded in encode_in_waves(coder, &fibers) {
                if stop.is_set() {
                    return Err(Error::Stopped.into());
                }
                self.sums.add(coder, &coded);
                coded.iter().for_each(|coded| self.codes.push(coded.code()));
            }
            self.places.extend_from_slice(&fibers.places);
            match self.fibers.len() {
                0 => self.fibers = fibers,
                _ => self.fibers.append(&fibers),
            }
        }
        Ok(check_distinct(&self.places)?)
    }
}

/// The codes of all fibers, or of some of them if `stop` is set meanwhile.
fn encode_all(coder: &CountCoder, fibers: &CountFibers, stop: &Stop) -> Sparse {
    let mut codes = Sparse::new(coder.rows().patterns());
    for coded in encode_in_waves(coder, fibers).take_while(|_| !stop.is_set()) {
        coded.iter().for_each(|coded| codes.push(coded.code()));
    }
    codes
}

/// For each pattern, the number of fibers that show it, 0 if the pattern is much weaker than usual: stray events look
/// like some pattern, too.
fn shown(common: &Common, sums: &EventSums, strengths: &[f64]) -> Vec<usize> {
    let weak = |(presence, strength): (&Presence, &f64)| *strength < SHOWN * presence.usual;
    let shown = common.presence.iter().zip(strengths).map(|pair| !weak(pair));
    sums.activity().into_iter().zip(shown).map(|(fibers, shown)| if shown { fibers } else { 0 }).collect()
}

/// Whether a pass was the last one over a tensor.
fn was_last(passes: Passes, count: usize, next: &Dictionary, before: &Dictionary) -> bool {
    match passes {
        Passes::Fixed(passes) => count >= passes,
        Passes::Auto | Passes::Exhaust => count >= MAX_PASSES || relative_change(next, before) < SETTLED,
    }
}

/// The effective number of features of events: e to the power of their entropy. 1 without events.
fn effective_features(events: &[f64]) -> f64 {
    let total: f64 = events.iter().sum();
    let term = |&events: &f64| if events > 0.0 { -events / total * (events / total).ln() } else { 0.0 };
    events.iter().map(term).sum::<f64>().exp()
}

/// |A - B|_F / |B|_F, 0 without patterns.
fn relative_change(a: &Dictionary, b: &Dictionary) -> f64 {
    let size: f64 = b.values().iter().map(|value| value * value).sum();
    if size > 0.0 { (a.squared_distance(b) / size).sqrt() } else { 0.0 }
}
