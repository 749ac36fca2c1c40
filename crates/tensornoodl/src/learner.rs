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
//! The whole method in plain dense code, without what makes it fast, is `tests/plain/method.rs`.

mod build;
pub(crate) mod pass;
mod sightings;
mod step;

use std::borrow::Borrow;
use std::fmt::Display;
use std::sync::Arc;

pub use crate::learner::step::{Step, Times};

use crate::data::codes::Codes;
use crate::data::dictionary::{Dictionary, UnitVector};
use crate::data::tensor::Tensor;
use crate::discover::growth::{Discovery, Review};
use crate::discover::sample::sample;
use crate::discover::scale::Scale;
use crate::discover::unexplained::{Unexplained, UnexplainedFibers};
use crate::encode::waves::{Encoded, Encoding, NoSink, Scratch as EncodeScratch};
use crate::error::Error;
use crate::learner::pass::{Pass, PassCounter, Scratch};
use crate::learner::sightings::Sightings;
use crate::learner::step::timed;
use crate::linalg::vector::add_scaled;
use crate::parallel::team::{Team, TeamHandle, agree};
use crate::params::{Params, Passes};
use crate::shape::Shape;
use crate::stop::Stop;
use crate::update;
use crate::update::Update;
use crate::update::adaptive::Adaptive;
use crate::update::sums::PassWeights;

/// Holds the dictionary and learns from one tensor at a time.
#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Learner {
    dictionary: Dictionary,
    params: Params,
    /// State of the adaptive step. The paper's step has none.
    adaptive: Adaptive,
    /// State of the search for new patterns. `None` if the number of patterns is fixed.
    discovery: Option<Discovery>,
    /// When each pattern was seen.
    sightings: Vec<Sightings>,
    steps: u64,
    #[serde(skip)]
    stop: Stop,
    #[serde(skip)]
    team: TeamHandle,
    #[serde(skip)]
    scratch: Scratch,
}

impl Clone for Learner {
    /// The copy gets scratch memory of its own.
    fn clone(&self) -> Learner {
        let (dictionary, params, adaptive) =
            (self.dictionary.clone(), self.params.clone(), self.adaptive.clone());
        let (discovery, sightings) = (self.discovery.clone(), self.sightings.clone());
        let (steps, stop, team) = (self.steps, self.stop.clone(), self.team.clone());
        let scratch = Scratch::default();
        Learner { dictionary, params, adaptive, discovery, sightings, steps, stop, team, scratch }
    }

    /// Keeps the scratch memory of this learner.
    fn clone_from(&mut self, other: &Learner) {
        let scratch = std::mem::take(&mut self.scratch);
        *self = Learner { scratch, ..other.clone() };
    }
}

impl Learner {
    /// Makes a learner that starts from the dictionary A(0).
    ///
    /// # Errors
    /// [`Error::Parameter`] for a parameter outside its range.
    pub fn new(start: Dictionary, params: Params) -> Result<Learner, Error> {
        params.check()?;
        Ok(Learner {
            params,
            adaptive: Adaptive::new(start.patterns()),
            discovery: None,
            sightings: vec![Sightings::default(); start.patterns()],
            dictionary: start,
            steps: 0,
            stop: Stop::default(),
            team: TeamHandle::default(),
            scratch: Scratch::default(),
        })
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
        if self.dictionary.patterns() > 0 {
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
        if self.params.passes != Passes::Fixed(1) {
            let value = match self.params.passes {
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
    fn step<'t, T, E, I>(&mut self, shape: Shape, mut parts: impl FnMut() -> I) -> Result<Step, E>
    where
        T: Borrow<Tensor<'t>>,
        E: From<Error> + Display,
        I: IntoIterator<Item = Result<T, E>>,
    {
        let mut valid = self.check_features(shape);
        let diverged = |_| Error::Diverged { step: self.steps + 1 };
        let params = &self.params_in_units_of_data();
        let pass = Pass { params, team: &*self.team.0, stop: &self.stop, shape };
        let (mut weights, mut passes) = (PassWeights::new(params.passes), PassCounter::new(params.passes));
        let mut times = Times::default();
        // A(t) as the passes over this tensor have moved it so far.
        let mut moved: Option<Update> = None;
        let (encoded, update, unexplained) = loop {
            let a = moved.as_ref().map_or(&self.dictionary, |update| &update.dictionary);
            let mut unexplained = self.collect_unexplained(shape);

            // I: X, the codes of the fibers Y under A, and the sums over fibers for III (alg:coeff_init, alg:coeff_iht)
            let parts = std::mem::replace(&mut valid, Ok(())).map(|()| parts());
            let encoded = timed(&mut times.encode, || {
                pass.encode_and_sum(a, parts, &mut self.scratch, &mut weights, unexplained.as_mut())
            })?;

            // III: A moves to explain Y - A X (eq:emp_grad_est, eq:apx_grad)
            let update = timed(&mut times.update, || {
                update::step(&self.dictionary, a, &self.scratch.sums, &self.adaptive, params)
            });
            let update = update.map_err(diverged)?;

            if passes.was_last(encoded.fit(), update.settled) {
                break (encoded, update, unexplained);
            }
            moved = Some(update);
        };
        // No function below this line can fail.
        let unexplained = unexplained.map(|unexplained| unexplained.gather(pass.team));
        let mut step = self.report(encoded, &update, shape, passes.count);
        self.commit(update, &step);
        if let Some(unexplained) = unexplained {
            timed(&mut times.search, || self.discover(unexplained, &mut step));
        }
        Ok(Step { times, ..step })
    }

    /// Makes the report of a step, before patterns are found or lost.
    fn report(&self, encoded: Encoded, update: &Update, shape: Shape, passes: usize) -> Step {
        let sums = &self.scratch.sums;
        Step {
            step: self.steps + 1,
            fibers: encoded.nonzero,
            fibers_used: sums.fibers_used,
            mean_code_size: encoded.mean_code_size(),
            fit: encoded.fit(),
            // |A(t)|_F^2 is the number of patterns. An empty sum of floats is -0.
            change: ((0.0 + update.squared_change) / self.dictionary.patterns().max(1) as f64).sqrt(),
            activity: sums.activity(),
            solver_counts: encoded.solver_counts,
            passes,
            found: 0,
            lost: Vec::new(),
            times: Times::default(),
            codes: encoded.codes(shape),
        }
    }

    /// Makes A(t+1) the dictionary, and counts the step.
    fn commit(&mut self, update: Update, step: &Step) {
        self.dictionary = update.dictionary;
        self.adaptive = update.adaptive;
        self.steps = step.step;
        let shown = self.sightings.iter_mut().zip(&step.activity).filter(|(_, fibers)| **fibers > 0);
        shown.for_each(|(sightings, _)| sightings.add(step.step));
    }

    /// Starts to collect the fibers that the dictionary does not explain, if it grows.
    fn collect_unexplained(&self, shape: Shape) -> Option<UnexplainedFibers> {
        let discovery = self.discovery.as_ref()?;
        Some(UnexplainedFibers::new(shape.features, discovery.scale, &discovery.on_probation()))
    }

    /// Looks at the patterns on probation again, and finds new patterns in the unexplained fibers. Patterns in `step`
    /// are numbered as in the dictionary after that.
    fn discover(&mut self, unexplained: Unexplained, step: &mut Step) {
        let Some(discovery) = &mut self.discovery else { return };
        let Review { replaced, lost } =
            discovery.review(&self.dictionary, step.step, step.fibers, &step.activity, &unexplained);
        for (i, pattern) in &replaced {
            self.dictionary.set(*i, pattern);
            self.adaptive.forget(*i);
        }
        self.dictionary.remove(&lost);
        self.adaptive.remove(&lost);
        let found = discovery.grow(&self.dictionary, unexplained);
        for &pattern in lost.iter().rev() {
            self.sightings.remove(pattern);
            step.activity.remove(pattern);
        }
        step.found = self.append(&found);
        step.codes.renumber(&lost, self.dictionary.patterns());
        step.activity.resize(self.dictionary.patterns(), 0);
        step.lost = lost;
    }

    /// Finds the first patterns in a tensor. Each rank of the team has a share of its fibers.
    fn find_first_patterns(&mut self, tensor: &Tensor<'_>) -> Result<(), Error> {
        let team = Arc::clone(&self.team.0);
        agree(&*team, self.check_features(tensor.shape()))?;
        let mut found = Vec::new();
        if let Some(discovery) = &mut self.discovery {
            found = discovery.start(&sample(&*team, tensor).0);
        }
        // A rank that is stopped finds no patterns, so all ranks must stop with it.
        let mut stopped = [i8::from(self.stop.is_set())];
        team.max(&mut stopped);
        if stopped != [0] {
            return Err(Error::Stopped);
        }
        self.append(&found);
        Ok(())
    }

    /// Appends patterns, given column by column, each finite and not zero. Returns how many.
    fn append(&mut self, columns: &[f64]) -> usize {
        let before = self.dictionary.patterns();
        let columns = columns.chunks_exact(self.dictionary.features());
        let patterns: Vec<UnitVector> =
            columns.filter_map(|column| UnitVector::new(column.to_vec())).collect();
        patterns.iter().for_each(|pattern| self.dictionary.push(pattern));
        self.adaptive.append(patterns.len());
        self.sightings.resize(before + patterns.len(), Sightings::default());
        patterns.len()
    }

    /// Encodes a tensor under the present dictionary: stage I alone. The dictionary does not change.
    ///
    /// # Errors
    /// [`Error::Features`] for a tensor of another number of features; [`Error::Stopped`].
    pub fn encode(&self, tensor: &Tensor<'_>) -> Result<Codes, Error> {
        self.encode_until(&self.stop, tensor)
    }

    /// Encodes a tensor as [`Learner::encode`] does, and ends early when `stop` is set. Several threads may encode at
    /// the same time, each with its own stop flag.
    ///
    /// # Errors
    /// [`Error::Features`] for a tensor of another number of features; [`Error::Stopped`].
    pub fn encode_until(&self, stop: &Stop, tensor: &Tensor<'_>) -> Result<Codes, Error> {
        self.check_features(tensor.shape())?;
        let params = self.params_in_units_of_data();
        let mut scratch = EncodeScratch::default();
        let mut encoding = Encoding::new(&self.dictionary, &params, &mut scratch, stop);
        encoding.add(tensor, &mut NoSink);
        if stop.is_set() { Err(Error::Stopped) } else { Ok(encoding.finish().codes(tensor.shape())) }
    }

    /// Decodes codes: returns the fibers A X at their places (eq:dl).
    ///
    /// # Errors
    /// [`Error::Patterns`] for codes of another number of patterns.
    pub fn decode(&self, codes: &Codes) -> Result<Tensor<'static>, Error> {
        let (rows, cols) = codes.rows_and_cols();
        let (features, patterns) = (self.dictionary.features(), self.dictionary.patterns());
        if codes.matrix().rows() != patterns {
            return Err(Error::Patterns { codes: codes.matrix().rows(), dictionary: patterns });
        }
        let mut values = vec![0.0; features * codes.places().len()];
        for (fiber, code) in values.chunks_exact_mut(features).zip(codes.matrix().columns()) {
            code.iter().for_each(|&(i, x)| add_scaled(fiber, x, self.dictionary.pattern(i as usize)));
        }
        Ok(Tensor::trusted(Shape { features, rows, cols }, values, codes.places().to_vec()))
    }

    /// Checks that all parts of a learner fit together. A learner that was deserialized may fail this check; a
    /// learner that was made by this crate passes it.
    ///
    /// # Errors
    /// [`Error::State`], or [`Error::Parameter`] for a parameter outside its range.
    pub fn check(&self) -> Result<(), Error> {
        self.params.check()?;
        // A dictionary without features cannot even be asked for its patterns.
        if !self.dictionary.is_sound() {
            return Err(Error::State);
        }
        let (n, m) = (self.dictionary.features(), self.dictionary.patterns());
        let sound = Shape { features: n, rows: 1, cols: 1 }.check().is_ok()
            && self.adaptive.is_sound(m)
            && self.discovery.as_ref().is_none_or(|discovery| discovery.is_sound(n, m))
            && self.sightings.len() == m
            && self.sightings.iter().all(|sightings| sightings.is_sound(self.steps));
        if sound { Ok(()) } else { Err(Error::State) }
    }

    /// The dictionary as it is now.
    pub fn dictionary(&self) -> &Dictionary {
        &self.dictionary
    }

    /// The parameters.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Replaces the parameters for all later steps.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a parameter outside its range; the parameters then stay as they were.
    pub fn set_params(&mut self, params: Params) -> Result<(), Error> {
        params.check()?;
        self.params = params;
        Ok(())
    }

    /// Makes `stop` the flag that ends learning and encoding early.
    pub fn set_stop(&mut self, stop: Stop) {
        self.discovery.iter_mut().for_each(|discovery| discovery.params.stop = stop.clone());
        self.stop = stop;
    }

    /// Makes this learner a rank of a team: from now on every tensor is this rank's share of the fibers of a tensor
    /// that all ranks learn from. Shares have the shape of the whole, and no place is in two of them. Codes stay with
    /// the rank; all other results are those of the whole tensor.
    ///
    /// The results have the same bits for a team of any size. Every rank must have the same learner, and make the same
    /// calls in the same order. An error on one rank is an error on all: the others get [`Error::OtherRank`].
    pub fn join(&mut self, team: Arc<dyn Team>) {
        self.team = TeamHandle(team);
    }

    /// The team that this learner is in: a team of one, unless it joined another.
    pub fn team(&self) -> &Arc<dyn Team> {
        &self.team.0
    }

    /// The parameters, with `code_floor` and `tau` multiplied by the units of the data.
    fn params_in_units_of_data(&self) -> Params {
        let mut params = self.params.clone();
        if let Some(scale) = self.scale() {
            params.code_floor *= scale.floor;
            params.tau *= scale.code;
        }
        params
    }

    /// The units of the data, once patterns were found in it. None if the learner was given its dictionary.
    pub fn scale(&self) -> Option<Scale> {
        self.discovery.as_ref().and_then(|discovery| discovery.scale)
    }

    /// For every pattern, the last step whose tensor showed it; 0 if none has.
    pub fn last_seen(&self) -> Vec<u64> {
        self.sightings.iter().map(|sightings| sightings.last).collect()
    }

    /// Patterns that no tensor has shown for an unusually long time: given how often each pattern was seen before,
    /// the probability that chance produces such a gap for any pattern is below 1/1000. These patterns stay in the
    /// dictionary.
    pub fn overdue(&self) -> Vec<usize> {
        let rare = 1e-3 / self.sightings.len().max(1) as f64;
        let overdue = |pattern: &usize| self.sightings[*pattern].chance_of_gap(self.steps) < rare;
        (0..self.sightings.len()).filter(overdue).collect()
    }

    /// For every pattern that was found in the data, its evidence: the similarity of the fibers that it was found in,
    /// relative to the largest one that chance produces in as many fibers. Empty if the learner was given its
    /// dictionary.
    pub fn evidence(&self) -> Vec<f64> {
        self.discovery.as_ref().map_or(Vec::new(), Discovery::evidence)
    }

    /// Number of fibers that no pattern explains, and that are kept for later searches.
    pub fn unexplained_fibers(&self) -> usize {
        self.discovery.as_ref().map_or(0, Discovery::pooled)
    }

    /// Number of tensors learned from so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    fn check_features(&self, shape: Shape) -> Result<(), Error> {
        shape.check()?;
        let (tensor, dictionary) = (shape.features, self.dictionary.features());
        if tensor == dictionary { Ok(()) } else { Err(Error::Features { tensor, dictionary }) }
    }
}
