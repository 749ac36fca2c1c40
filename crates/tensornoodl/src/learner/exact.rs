//! A step of the exact model: Alg. 1 of the paper (alg:main_alg_tens). `counts.rs` has the same step for counts.

use crate::data::codes::Codes;
use crate::data::dictionary::UnitVector;
use crate::data::tensor::Tensor;
use crate::discover::growth::{Discovery, Review};
use crate::discover::sample::sample;
use crate::discover::scale::Scale;
use crate::discover::unexplained::{Unexplained, UnexplainedFibers};
use crate::encode::waves::{Encoded, Encoding, NoSink, Scratch as EncodeScratch};
use crate::error::Error;
use crate::learner::common::Common;
use crate::learner::pass::{Pass, PassCounter, Scratch};
use crate::learner::step::{Step, Times, timed};
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
    #[serde(skip)]
    pub(crate) scratch: Scratch,
}

impl Clone for Exact {
    /// The copy gets scratch memory of its own.
    fn clone(&self) -> Exact {
        let (adaptive, discovery) = (self.adaptive.clone(), self.discovery.clone());
        Exact { adaptive, discovery, scratch: Scratch::default() }
    }
}

impl Exact {
    /// State for a dictionary with this many patterns.
    pub(crate) fn new(patterns: usize, discovery: Option<Discovery>) -> Exact {
        Exact { adaptive: Adaptive::new(patterns), discovery, scratch: Scratch::default() }
    }

    /// Whether all parts fit together. A state from a file may fail this.
    pub(crate) fn is_sound(&self, features: usize, patterns: usize) -> bool {
        let sound = |discovery: &Discovery| discovery.is_sound(features, patterns);
        self.adaptive.is_sound(patterns) && self.discovery.as_ref().is_none_or(sound)
    }

    /// The units of the data, once patterns were found in it.
    pub(crate) fn scale(&self) -> Option<Scale> {
        self.discovery.as_ref().and_then(|discovery| discovery.scale)
    }

    /// The parameters, with `code_floor` and `tau` multiplied by the units of the data.
    fn params_in_units_of_data(&self, params: &Params) -> Params {
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
        common.commit(update.dictionary, &step);
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
            times: Times::default(),
            codes: encoded.codes(shape),
        }
    }

    /// Starts to collect the fibers that the dictionary does not explain, if it grows.
    fn collect_unexplained(&self, shape: Shape) -> Option<UnexplainedFibers> {
        let discovery = self.discovery.as_ref()?;
        Some(UnexplainedFibers::new(shape.features, discovery.scale, &discovery.on_probation()))
    }

    /// Looks at the patterns on probation again, and finds new patterns in the unexplained fibers. Patterns in `step`
    /// are numbered as in the dictionary after that.
    fn discover(&mut self, common: &mut Common, unexplained: Unexplained, step: &mut Step) {
        let Some(discovery) = &mut self.discovery else { return };
        let Review { replaced, lost } =
            discovery.review(&common.dictionary, step.step, step.fibers, &step.activity, &unexplained);
        for (i, pattern) in &replaced {
            common.dictionary.set(*i, pattern);
            self.adaptive.forget(*i);
        }
        common.dictionary.remove(&lost);
        self.adaptive.remove(&lost);
        let found = discovery.grow(&common.dictionary, unexplained);
        for &pattern in lost.iter().rev() {
            common.sightings.remove(pattern);
            step.activity.remove(pattern);
        }
        step.found = self.append(common, &found);
        step.codes.renumber(&lost, common.dictionary.patterns());
        step.activity.resize(common.dictionary.patterns(), 0);
        step.lost = lost;
    }

    /// Finds the first patterns in a tensor. Each rank of the team has a share of its fibers.
    pub(crate) fn find_first_patterns(&mut self, common: &mut Common, tensor: &Tensor<'_>) {
        let mut found = Vec::new();
        if let Some(discovery) = &mut self.discovery {
            found = discovery.start(&sample(&*common.team.0, tensor).0);
        }
        if !common.stop.is_set() {
            self.append(common, &found);
        }
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
