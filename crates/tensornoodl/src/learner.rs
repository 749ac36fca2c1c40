//! Alg. 1 (alg:main_alg_tens): the loop that takes one tensor after the other. Start reading here, at
//! [`Learner::step`].
//!
//! ```text
//! for each tensor Z(t):
//!     Y      = its non-zero fibers                data/tensor.rs            (mode-1-T, eq:dl)
//!     X      = codes of Y under A(t)              encode/       stage I     (alg:coeff_init, alg:coeff_iht)
//!     B, C   = untangled from X, on demand        untangle/     stage II    (algo:KRP_algo)
//!     A(t+1) = A(t), moved to explain Y - A X     update/       stage III   (eq:emp_grad_est, eq:apx_grad)
//!     new patterns in fibers unexplained by A     discover/     ours; the paper starts near A*
//! ```
//!
//! The whole method in plain dense code, without what makes it fast, is `tests/plain/method.rs`, and
//! `tests/plain/counts.rs` is a step of the counts model.

mod build;
mod certain;
mod common;
mod counts;
mod errors;
mod exact;
pub(crate) mod pass;
pub(crate) mod polish;
pub(crate) mod retired;
mod sightings;
mod step;

use std::borrow::Borrow;
use std::fmt::Display;
use std::sync::Arc;

pub use crate::learner::retired::Returned;
pub use crate::learner::step::{Step, Times};

use crate::data::codes::Codes;
use crate::data::dictionary::Dictionary;
use crate::data::tensor::Tensor;
use crate::discover::counts::groups::Groups;
use crate::discover::counts::ladder::Rung;
use crate::discover::growth::Discovery;
use crate::discover::scale::Scale;
use crate::error::Error;
use crate::learner::common::Common;
use crate::learner::counts::Counts;
use crate::learner::exact::Exact;
use crate::learner::pass::Scratch;
use crate::learner::sightings::{Presence, Sightings};
use crate::learner::step::timed;
use crate::linalg::vector::add_scaled;
use crate::parallel::team::{Team, TeamHandle, agree};
use crate::params::{ModelKind, Params, Passes};
use crate::shape::Shape;
use crate::stop::Stop;
use crate::surprise::judge::Surprise;
use crate::untangle::factors::Factors;
use crate::update::adaptive::Adaptive;

/// Holds the dictionary and learns from one tensor at a time.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Learner {
    common: Common,
    method: Method,
}

/// The state of one of the two models.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
enum Method {
    Exact(Box<Exact>),
    Counts(Box<Counts>),
}

impl Learner {
    /// Makes a learner of the exact model that starts from the dictionary A(0).
    ///
    /// # Errors
    /// [`Error::Parameter`] for a parameter outside its range.
    pub fn new(start: Dictionary, params: Params) -> Result<Learner, Error> {
        params.check()?;
        let exact = Exact::new(start.patterns(), None);
        Ok(Learner { common: Common::new(start, params), method: Method::Exact(Box::new(exact)) })
    }

    /// The model that this learner has.
    pub fn kind(&self) -> ModelKind {
        match self.method {
            Method::Exact(_) => ModelKind::Exact,
            Method::Counts(_) => ModelKind::Counts,
        }
    }

    /// Learns from one tensor: one step of Alg. 1. It codes the tensor (stage I) and moves the dictionary (stage III).
    /// The factors (stage II) are not needed for the update and are made on demand: `step.codes.untangle()`.
    ///
    /// A tensor without fibers is a valid step; it moves nothing.
    ///
    /// # Errors
    /// [`Error::Features`] for a tensor of another number of features; [`Error::Diverged`]; [`Error::Stopped`]; the
    /// error of another rank as [`Error::OtherRank`]. The learner is then unchanged.
    pub fn learn(&mut self, tensor: &Tensor<'_>) -> Result<Step, Error> {
        if self.common.dictionary.patterns() > 0 && !self.begins_again() {
            return self.step(tensor.shape(), || [Ok(tensor)]);
        }
        let mut next = self.clone();
        let mut times = Times::default();
        timed(&mut times.search, || next.find_first_patterns(tensor))?;
        let mut step = next.step(tensor.shape(), || [Ok::<_, Error>(tensor)])?;
        step.times.search += times.search;
        *self = next;
        Ok(step)
    }

    /// Learns from a tensor that does not fit into memory. Its fibers come in parts and are read once. Each part is a
    /// tensor of the shape of the whole with some of its fibers; no place is in two parts. Memory holds one part, the
    /// codes of the whole tensor twice, and the dictionary with the sums of stage III.
    ///
    /// Larger parts are faster, up to about 100,000 fibers. The results have the same bits as those of
    /// [`Learner::learn`] on the whole tensor, if the learner has patterns. A learner without patterns searches for
    /// patterns after the parts were read, and not before as [`Learner::learn`] does.
    ///
    /// # Errors
    /// An error of the iterator; [`Error::Parameter`] unless there is one pass ([`Passes::Fixed`]`(1)`); the errors of
    /// [`Learner::learn`]. The learner is then unchanged.
    ///
    /// ```
    /// # use tensornoodl::{Dictionary, Error, Learner, Params, Place, Shape, Tensor};
    /// # fn main() -> Result<(), Error> {
    /// # let start = Dictionary::from_columns(3, vec![1.0, 0.1, 0.0, 0.0, 0.1, 1.0])?;
    /// let mut learner = Learner::new(start, Params::default())?;
    /// let shape = Shape { features: 3, rows: 5, cols: 1000 };
    /// let parts = (0..1000).map(|col| {
    ///     let fiber = vec![1.0, 0.0, 0.0];
    ///     Tensor::from_fibers(shape, fiber, vec![Place { row: col % 5, col }])
    /// });
    /// assert_eq!(learner.learn_parts(shape, parts)?.fibers, 1000);
    /// # Ok(())
    /// # }
    /// ```
    pub fn learn_parts<'t, E: From<Error> + Display>(
        &mut self,
        shape: Shape,
        parts: impl IntoIterator<Item = Result<Tensor<'t>, E>>,
    ) -> Result<Step, E> {
        if self.common.params.passes != Passes::Fixed(1) {
            let value = match self.common.params.passes {
                Passes::Fixed(passes) => passes.to_string(),
                Passes::Auto | Passes::Exhaust => "auto".into(),
            };
            let rule = "1 for a tensor in parts, which is read only once".into();
            return Err(Error::Parameter { name: "passes", value, rule }.into());
        }
        let mut parts = Some(parts);
        self.step(shape, || parts.take().into_iter().flatten())
    }

    /// One step of Alg. 1 (alg:main_alg_tens). `parts` returns the parts of the tensor; it is called once for each
    /// pass.
    fn step<'t, T, E, I>(&mut self, shape: Shape, parts: impl FnMut() -> I) -> Result<Step, E>
    where
        T: Borrow<Tensor<'t>>,
        E: From<Error> + Display,
        I: IntoIterator<Item = Result<T, E>>,
    {
        match &mut self.method {
            Method::Exact(exact) => exact.step(&mut self.common, shape, parts),
            Method::Counts(counts) => counts.step(&mut self.common, shape, parts),
        }
    }

    /// Whether the first patterns are searched for in the next tensor although there are patterns, because they explain
    /// little.
    fn begins_again(&self) -> bool {
        match &self.method {
            Method::Exact(exact) => exact.begins_again(),
            Method::Counts(_) => false,
        }
    }

    /// Finds the first patterns in a tensor. Each rank of the team has a share of its fibers.
    fn find_first_patterns(&mut self, tensor: &Tensor<'_>) -> Result<(), Error> {
        let team = Arc::clone(&self.common.team.0);
        agree(&*team, self.common.check_features(tensor.shape()))?;
        match &mut self.method {
            Method::Exact(exact) => exact.find_first_patterns(&mut self.common, tensor)?,
            Method::Counts(counts) => counts.find_first_patterns(&mut self.common, tensor)?,
        }
        // A rank that is stopped finds no patterns, so all ranks must stop with it.
        let mut stopped = [i8::from(self.common.stop.is_set())];
        team.max(&mut stopped);
        if stopped == [0] { Ok(()) } else { Err(Error::Stopped) }
    }

    /// Encodes a tensor under the present dictionary: stage I alone. The dictionary does not change.
    ///
    /// # Errors
    /// [`Error::Features`] for a tensor of another number of features; [`Error::Stopped`].
    pub fn encode(&self, tensor: &Tensor<'_>) -> Result<Codes, Error> {
        self.encode_until(&self.common.stop, tensor)
    }

    /// Encodes a tensor as [`Learner::encode`] does, and ends early when `stop` is set. Several threads may encode at
    /// the same time, each with its own stop flag.
    ///
    /// # Errors
    /// [`Error::Features`] for a tensor of another number of features; [`Error::Stopped`].
    pub fn encode_until(&self, stop: &Stop, tensor: &Tensor<'_>) -> Result<Codes, Error> {
        self.common.check_features(tensor.shape())?;
        let codes = match &self.method {
            Method::Exact(exact) => exact.encode(&self.common, stop, tensor),
            Method::Counts(counts) => counts.encode(&self.common, stop, tensor)?,
        };
        if stop.is_set() { Err(Error::Stopped) } else { Ok(codes) }
    }

    /// Returns how unlikely the total and the shape of each place of a tensor of counts are as those of the next
    /// step, the worst place first; [`significant`](crate::significant) tells which ones are too unlikely for
    /// chance. `undamp` returns the count that a value stands for, if the learner learns from damped counts; else it
    /// returns the value.
    ///
    /// Places with events are looked at, and places at which 3 or more events are expected; if the latest steps or the
    /// tensor have more than 131,072 cells that are not empty, a sample of these places. The number of events of a
    /// place is compared with that of all places, so the tensor must have all events of the step. If the learner has
    /// learned from the tensor already, p-values are too large. Empty before the first step. The learner does not
    /// change.
    ///
    /// # Errors
    /// [`Error::NeedsCounts`] for the exact model; [`Error::Features`] for a tensor of another number of features;
    /// [`Error::NotACount`] if a value is negative; the error of another rank as [`Error::OtherRank`].
    pub fn surprises(
        &self,
        tensor: &Tensor<'_>,
        undamp: impl Fn(f64) -> f64,
    ) -> Result<Vec<Surprise>, Error> {
        let Method::Counts(counts) = &self.method else { return Err(Error::NeedsCounts) };
        agree(&**self.team(), self.common.check_features(tensor.shape()))?;
        counts.surprises(&self.common, tensor, undamp)
    }

    /// Decodes codes: returns the fibers A X at their places (eq:dl).
    ///
    /// # Errors
    /// [`Error::Patterns`] for codes of another number of patterns.
    pub fn decode(&self, codes: &Codes) -> Result<Tensor<'static>, Error> {
        let (rows, cols) = codes.rows_and_cols();
        let (features, patterns) = (self.common.dictionary.features(), self.common.dictionary.patterns());
        if codes.matrix().rows() != patterns {
            return Err(Error::Patterns { codes: codes.matrix().rows(), dictionary: patterns });
        }
        let mut values = vec![0.0; features * codes.places().len()];
        for (fiber, code) in values.chunks_exact_mut(features).zip(codes.matrix().columns()) {
            code.iter().for_each(|&(i, x)| add_scaled(fiber, x, self.common.dictionary.pattern(i as usize)));
        }
        Ok(Tensor::trusted(Shape { features, rows, cols }, values, codes.places().to_vec()))
    }

    /// Checks that all parts of a learner fit together. A learner that was deserialized may fail this check; a
    /// learner that was made by this crate passes it.
    ///
    /// # Errors
    /// [`Error::State`], or [`Error::Parameter`] for a parameter outside its range.
    pub fn check(&self) -> Result<(), Error> {
        let common = &self.common;
        common.params.check()?;
        // A dictionary without features cannot even be asked for its patterns.
        let valid = match self.method {
            Method::Exact(_) => common.dictionary.is_sound(),
            Method::Counts(_) => common.dictionary.has_unit_sums(),
        };
        if !valid {
            return Err(Error::State);
        }
        let (n, m) = (common.dictionary.features(), common.dictionary.patterns());
        let (state, statistics) = match &self.method {
            Method::Exact(exact) => (exact.is_sound(n, m), 0),
            Method::Counts(counts) => (counts.is_sound(n, m), n),
        };
        let sound = state
            && Shape { features: n, rows: 1, cols: 1 }.check().is_ok()
            && common.sightings.len() == m
            && common.presence.len() == m
            && common.sightings.iter().all(|sightings| sightings.is_sound(common.steps))
            && common.presence.iter().all(Presence::is_sound)
            && common.retired.iter().all(|it| it.is_sound(n, statistics, common.steps));
        if sound { Ok(()) } else { Err(Error::State) }
    }

    /// The dictionary as it is now.
    pub fn dictionary(&self) -> &Dictionary {
        &self.common.dictionary
    }

    /// The parameters.
    pub fn params(&self) -> &Params {
        &self.common.params
    }

    /// Replaces the parameters for all later steps.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a parameter outside its range; the parameters then stay as they were.
    pub fn set_params(&mut self, params: Params) -> Result<(), Error> {
        params.check()?;
        self.common.params = params;
        Ok(())
    }

    /// Forgets at which places the events of the latest steps were, because the rows and cols of later tensors are
    /// others. Patterns stay. It has no effect on the exact model.
    pub fn forget_places(&mut self) {
        if let Method::Counts(counts) = &mut self.method {
            counts.discovery.pool.clear();
        }
    }

    /// Makes `stop` the flag that ends learning and encoding early.
    pub fn set_stop(&mut self, stop: Stop) {
        match &mut self.method {
            Method::Exact(exact) => {
                exact.discovery.iter_mut().for_each(|discovery| discovery.params.stop = stop.clone());
            }
            Method::Counts(counts) => counts.discovery.params.stop = stop.clone(),
        }
        self.common.stop = stop;
    }

    /// Makes this learner a rank of a team: from now on every tensor is this rank's share of the fibers of a tensor
    /// that all ranks learn from. Shares have the shape of the whole, and no place is in two of them. Codes stay with
    /// the rank; all other results are those of the whole tensor.
    ///
    /// The results have the same bits for a team of any size. Every rank must have the same learner, and make the same
    /// calls in the same order. An error on one rank is an error on all: the others get [`Error::OtherRank`].
    pub fn join(&mut self, team: Arc<dyn Team>) {
        self.common.team = TeamHandle(team);
    }

    /// The team that this learner is in: a team of one, unless it joined another.
    pub fn team(&self) -> &Arc<dyn Team> {
        &self.common.team.0
    }

    /// The units of the data, once patterns were found in it. None if the learner was given its dictionary, and
    /// for counts, whose unit is an event.
    pub fn scale(&self) -> Option<Scale> {
        match &self.method {
            Method::Exact(exact) => exact.scale(),
            Method::Counts(_) => None,
        }
    }

    /// For every pattern, the last step whose tensor showed it; 0 if none has.
    pub fn last_seen(&self) -> Vec<u64> {
        self.common.sightings.iter().map(|sightings| sightings.last).collect()
    }

    /// Patterns that no tensor has shown for an unusually long time: given how often each pattern was seen before,
    /// the probability that chance produces such a gap for any pattern is below 1/1000. These patterns are still in
    /// the dictionary.
    pub fn overdue(&self) -> Vec<usize> {
        let rare = 1e-3 / self.common.sightings.len().max(1) as f64;
        let overdue =
            |pattern: &usize| self.common.sightings[*pattern].chance_of_gap(self.common.steps) < rare;
        (0..self.common.sightings.len()).filter(overdue).collect()
    }

    /// The patterns that retired, because no step had shown them for many times their usual gap between sightings, in
    /// the order in which they left the dictionary. A retired pattern returns when a search finds it again. A learner
    /// whose number of patterns was given retires none.
    pub fn retired(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        self.common.retired.iter().map(|it| &it.pattern[..])
    }

    /// For every pattern that was found in the data, its evidence: the similarity of the fibers that it was found in,
    /// relative to the largest one that chance produces in as many fibers. Empty if the learner was given its
    /// dictionary. For counts: how significantly the patterns that were found together predict hidden cells, in standard
    /// errors.
    pub fn evidence(&self) -> Vec<f64> {
        match &self.method {
            Method::Exact(exact) => exact.discovery.as_ref().map_or(Vec::new(), Discovery::evidence),
            Method::Counts(counts) => counts.discovery.evidence.clone(),
        }
    }

    /// Number of fibers that no pattern explains, and that are kept for later searches.
    pub fn unexplained_fibers(&self) -> usize {
        match &self.method {
            Method::Exact(exact) => exact.discovery.as_ref().map_or(0, Discovery::pooled),
            Method::Counts(_) => 0,
        }
    }

    /// The ladder of the last decision on the number of patterns of counts: what each further pattern adds to the
    /// prediction of hidden cells. Empty for the exact model, and if the number was given.
    pub fn ladder(&self) -> &[Rung] {
        match &self.method {
            Method::Exact(_) => &[],
            Method::Counts(counts) => &counts.discovery.rungs,
        }
    }

    /// The groups of rows and cols that share patterns of counts in the latest steps. The exact model has none.
    ///
    /// `factors` are those of the last step. Groups are found in the pool of fibers of the latest steps, in which a
    /// large tensor has only some of its fibers. Rows and cols of the last step that are not in the pool join the
    /// groups of the patterns that they take part in.
    ///
    /// All ranks of a team have the same pool, so that each of them finds the groups of all, without messages.
    pub fn groups(&self, factors: &Factors) -> Groups {
        let mut groups = match &self.method {
            Method::Exact(_) => Groups::none(self.common.dictionary.patterns()),
            Method::Counts(counts) => counts.groups(&self.common),
        };
        groups.join(factors);
        groups
    }

    /// Number of tensors learned from so far.
    pub fn steps(&self) -> u64 {
        self.common.steps
    }
}

/// The layout of a learner in model files of format 2, which had no counts model.
#[derive(Debug, serde::Deserialize)]
pub struct ExactLearner {
    dictionary: Dictionary,
    params: Params,
    adaptive: Adaptive,
    discovery: Option<Discovery>,
    sightings: Vec<Sightings>,
    steps: u64,
}

impl From<ExactLearner> for Learner {
    fn from(it: ExactLearner) -> Learner {
        let exact = Exact {
            adaptive: it.adaptive,
            discovery: it.discovery,
            again: None,
            scratch: Scratch::default(),
        };
        let presence = vec![Presence::default(); it.sightings.len()];
        let (sightings, steps) = (it.sightings, it.steps);
        let common = Common { sightings, presence, steps, ..Common::new(it.dictionary, it.params) };
        Learner { common, method: Method::Exact(Box::new(exact)) }
    }
}
