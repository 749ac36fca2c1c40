//! A step of the exact model: Alg. 1 of the paper (alg:main_alg_tens). `counts.rs` has the same step for counts.

use crate::data::codes::Codes;
use crate::data::dictionary::UnitVector;
use crate::data::tensor::Tensor;
use crate::discover::growth::{Discovery, Review};
use crate::discover::outliers::without_outliers;
use crate::discover::params::DiscoverParams;
use crate::discover::sample::sample;
use crate::discover::scale::Scale;
use crate::discover::stable::find_stable;
use crate::discover::start::coverage;
use crate::discover::unexplained::{Unexplained, UnexplainedFibers};
use crate::encode::waves::{Encoded, Encoding, NoSink, Scratch as EncodeScratch};
use crate::error::Error;
use crate::learner::common::Common;
use crate::learner::pass::{Pass, PassCounter, Scratch};
use crate::learner::retired::Returned;
use crate::learner::step::{Step, Times, timed};
use crate::parallel::team::agree;
use crate::params::Params;
use crate::shape::Shape;
use crate::stop::Stop;
use crate::update;
use crate::update::Update;
use crate::update::adaptive::Adaptive;
use crate::update::sums::PassWeights;
use std::borrow::Borrow;
use std::fmt::Display;

/// State of the exact model: Gaussian noise, codes by iterative hard thresholding, and the guarantees of the paper.
#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Exact {
    /// State of the adaptive step. The paper's step has none.
    pub(crate) adaptive: Adaptive,
    /// State of the search for new patterns. `None` if the number of patterns is fixed.
    pub(crate) discovery: Option<Discovery>,
    /// Whether a stream begins again. `None` if it does not.
    pub(crate) again: Option<Again>,
    #[serde(skip)]
    pub(crate) scratch: Scratch,
}

impl Clone for Exact {
    /// The copy gets scratch memory of its own.
    fn clone(&self) -> Exact {
        let (adaptive, discovery) = (self.adaptive.clone(), self.discovery.clone());
        Exact { adaptive, discovery, again: self.again, scratch: Scratch::default() }
    }
}

/// Patterns that explain a smaller part of the energy of a step explain little of it.
const LITTLE: f64 = 1.0 / 3.0;

/// A stream begins again if that explains this many times as much.
const FAR_MORE: f64 = 2.0;

/// A stream whose first tensor says little about the others begins again with a later one: the units of the data are
/// estimated again, and the first patterns are searched for in them.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Again {
    /// Fibers with a norm below this are never searched.
    pub(crate) min_length: f64,
    /// Number of the latest steps, one after the other, that the patterns explain little of.
    pub(crate) little: u64,
}

impl Again {
    /// Whether the stream begins again with the next tensor: after 1, 2, 4, 8, ... steps that are hardly explained.
    fn is_due(&self) -> bool {
        self.little.is_power_of_two()
    }
}

impl Exact {
    /// State for a dictionary with this many patterns.
    pub(crate) fn new(patterns: usize, discovery: Option<Discovery>) -> Exact {
        Exact { adaptive: Adaptive::new(patterns), discovery, again: None, scratch: Scratch::default() }
    }

    /// Whether all parts fit together. A state from a file may fail this.
    pub(crate) fn is_sound(&self, features: usize, patterns: usize) -> bool {
        let sound = |discovery: &Discovery| discovery.is_sound(features, patterns);
        let valid = |again: &Again| again.min_length.is_finite() && again.min_length >= 0.0;
        self.adaptive.is_sound(patterns)
            && self.discovery.as_ref().is_none_or(sound)
            && self.again.as_ref().is_none_or(valid)
    }

    /// The units of the data, once patterns were found in it.
    pub(crate) fn scale(&self) -> Option<Scale> {
        self.discovery.as_ref().and_then(|discovery| discovery.scale)
    }

    /// The parameters, with `code_floor` and `tau` multiplied by the units of the data.
    pub(crate) fn params_in_units_of_data(&self, params: &Params) -> Params {
        let mut params = params.clone();
        if let Some(scale) = self.scale() {
            params.code_floor *= scale.floor;
            params.tau *= scale.code;
        }
        params
    }

    /// One step of Alg. 1 (alg:main_alg_tens). `parts` returns the parts of the tensor; it is called once for each
    /// pass.
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
        let diverged = |_| Error::Diverged { step: common.steps + 1 };
        let params = &self.params_in_units_of_data(&common.params);
        let noise = self.discovery.as_ref().map_or(0.0, Discovery::shortest_noise);
        let pass = Pass { params, team: &*common.team.0, stop: &common.stop, shape, noise };
        let (mut weights, mut passes) = (PassWeights::new(params.passes), PassCounter::new(params.passes));
        let mut times = Times::default();
        // A(t) as the passes over this tensor have moved it so far.
        let mut moved: Option<Update> = None;
        let (encoded, update, unexplained) = loop {
            let a = moved.as_ref().map_or(&common.dictionary, |update| &update.dictionary);
            let mut unexplained = self.collect_unexplained(shape);

            // I: X, the codes of the fibers Y under A, and the sums over fibers for III (alg:coeff_init, alg:coeff_iht)
            let parts = std::mem::replace(&mut valid, Ok(())).map(|()| parts());
            let encoded = timed(&mut times.encode, || {
                pass.encode_and_sum(a, parts, &mut self.scratch, &mut weights, unexplained.as_mut())
            })?;

            // III: A moves to explain Y - A X (eq:emp_grad_est, eq:apx_grad)
            let update = timed(&mut times.update, || {
                update::step(&common.dictionary, a, &self.scratch.sums, &self.adaptive, params)
            });
            let update = update.map_err(diverged)?;

            if passes.was_last(encoded.fit(), update.settled) {
                break (encoded, update, unexplained);
            }
            moved = Some(update);
        };
        // No function below this line can fail.
        let unexplained = unexplained.map(|unexplained| unexplained.gather(pass.team));
        let mut step = self.report(common, encoded, &update, shape, passes.count);
        self.adaptive = update.adaptive;
        if let Some(again) = self.again.as_mut().filter(|_| step.fibers > 0) {
            again.little = if 1.0 - step.fit.powi(2) < LITTLE { again.little + 1 } else { 0 };
        }
        let strengths: Vec<f64> = step.activity.iter().map(|fibers| *fibers as f64).collect();
        common.commit(update.dictionary, &step, &strengths, 0.0);
        if let Some(unexplained) = unexplained {
            timed(&mut times.search, || self.discover(common, unexplained, &mut step));
        }
        Ok(Step { times, ..step })
    }

    /// Makes the report of a step, before patterns are found or lost.
    fn report(
        &self,
        common: &Common,
        encoded: Encoded,
        update: &Update,
        shape: Shape,
        passes: usize,
    ) -> Step {
        let sums = &self.scratch.sums;
        Step {
            step: common.steps + 1,
            fibers: encoded.nonzero,
            fibers_used: sums.fibers_used,
            mean_code_size: encoded.mean_code_size(),
            fit: encoded.fit(),
            // |A(t)|_F^2 is the number of patterns. An empty sum of floats is -0.
            change: ((0.0 + update.squared_change) / common.dictionary.patterns().max(1) as f64).sqrt(),
            activity: sums.activity(),
            solver_counts: encoded.solver_counts,
            passes,
            found: 0,
            lost: Vec::new(),
            retired: Vec::new(),
            returned: Vec::new(),
            times: Times::default(),
            codes: encoded.codes(shape),
        }
    }

    /// Starts to collect the fibers that the dictionary does not explain, if it grows.
    fn collect_unexplained(&self, shape: Shape) -> Option<UnexplainedFibers> {
        let discovery = self.discovery.as_ref()?;
        Some(UnexplainedFibers::new(shape.features, discovery.scale, &discovery.on_probation()))
    }

    /// Looks at the patterns on probation again, finds new patterns in the unexplained fibers, and retires patterns
    /// that were not seen for long. Patterns in `step` are numbered as in the dictionary after that.
    fn discover(&mut self, common: &mut Common, unexplained: Unexplained, step: &mut Step) {
        let Some(discovery) = &mut self.discovery else { return };
        let Review { replaced, mut lost } =
            discovery.review(&common.dictionary, step.step, step.fibers, &step.activity, &unexplained);
        for (i, pattern) in &replaced {
            common.dictionary.set(*i, pattern);
            self.adaptive.forget(*i);
        }
        // The numbers before the step of the patterns that stay.
        let mut numbers: Vec<usize> = (0..common.dictionary.patterns()).collect();
        numbers.retain(|number| !lost.contains(number));
        common.remove(&lost);
        self.adaptive.remove(&lost);
        let found = discovery.grow(&common.dictionary, unexplained);
        let bounded = discovery.params.max_patterns.is_some();
        let known = numbers.len();
        step.found = self.append(common, &found);
        step.returned = self.recognize(common, known);
        // A number of patterns that was asked for is kept.
        let gone = if bounded { Vec::new() } else { common.gone() };
        gone.iter().for_each(|&pattern| common.retire(pattern, &[]));
        self.remove(common, &gone);
        step.returned.iter_mut().for_each(|it| it.pattern -= gone.len());
        step.retired = gone.iter().map(|&pattern| numbers[pattern]).collect();
        lost.extend(&step.retired);
        lost.sort_unstable();
        for &pattern in lost.iter().rev() {
            step.activity.remove(pattern);
        }
        step.codes.renumber(&lost, common.dictionary.patterns());
        step.activity.resize(common.dictionary.patterns(), 0);
        step.lost = lost;
    }

    /// Removes patterns, given by increasing number.
    fn remove(&mut self, common: &mut Common, lost: &[usize]) {
        common.remove(lost);
        self.adaptive.remove(lost);
        self.discovery.iter_mut().for_each(|discovery| discovery.remove(lost));
    }

    /// Finds retired patterns among the new ones, which are those from number `known` on, and takes them as they were
    /// when they retired.
    fn recognize(&mut self, common: &mut Common, known: usize) -> Vec<Returned> {
        let pairs = common.recognize(known);
        for (it, retired) in &pairs {
            if let Some(pattern) = UnitVector::new(retired.pattern.clone()) {
                common.dictionary.set(it.pattern, &pattern);
            }
        }
        pairs.into_iter().map(|(it, _)| it).collect()
    }

    /// Finds the first patterns in a tensor. Each rank of the team has a share of its fibers.
    pub(crate) fn find_first_patterns(
        &mut self,
        common: &mut Common,
        tensor: &Tensor<'_>,
    ) -> Result<(), Error> {
        let Some(discovery) = &mut self.discovery else { return Ok(()) };
        let sample = sample(&*common.team.0, tensor).0;
        if let Some(again) = self.again.filter(Again::is_due) {
            let params = DiscoverParams { min_length: again.min_length, ..discovery.params.clone() };
            let start = agree(&*common.team.0, find_stable(&sample, &params))?;
            if start.scale.is_some() && start.energy > FAR_MORE * explained(common, discovery, &sample) {
                let evidence = start.findings.iter().map(|finding| finding.evidence);
                let (scale, min_length) = (start.scale, start.min_length);
                let (now, new) = (&common.dictionary, &start.dictionary);
                let found = discovery.begin_again(now, new, evidence, scale, min_length);
                self.append(common, &found);
                return Ok(());
            }
        }
        if common.dictionary.patterns() == 0 {
            let found = discovery.start(&sample);
            if !common.stop.is_set() {
                self.append(common, &found);
            }
        }
        Ok(())
    }

    /// Whether the first patterns are searched for in the next tensor although there are patterns.
    pub(crate) fn begins_again(&self) -> bool {
        self.again.is_some_and(|again| again.is_due())
    }

    /// Appends patterns, given column by column, each finite and not zero. Returns how many.
    fn append(&mut self, common: &mut Common, columns: &[f64]) -> usize {
        let columns = columns.chunks_exact(common.dictionary.features());
        let patterns: Vec<UnitVector> =
            columns.filter_map(|column| UnitVector::new(column.to_vec())).collect();
        patterns.iter().for_each(|pattern| common.dictionary.push(pattern));
        self.adaptive.append(patterns.len());
        common.count_patterns();
        patterns.len()
    }

    /// Stage I alone.
    pub(crate) fn encode(&self, common: &Common, stop: &Stop, tensor: &Tensor<'_>) -> Codes {
        let params = self.params_in_units_of_data(&common.params);
        let mut scratch = EncodeScratch::default();
        let mut encoding = Encoding::new(&common.dictionary, &params, &mut scratch, stop);
        encoding.add(tensor, &mut NoSink);
        encoding.finish().codes(tensor.shape())
    }
}

/// The share of the energy of a tensor, without its outliers, that the dictionary explains.
fn explained(common: &Common, discovery: &Discovery, tensor: &Tensor<'_>) -> f64 {
    let tensor = without_outliers(tensor);
    let coverage =
        coverage(&tensor, common.dictionary.values(), discovery.scale, discovery.params.min_length);
    if coverage.energy > 0.0 { coverage.energies.iter().sum::<f64>() / coverage.energy } else { 0.0 }
}
