//! Alg. 1 (alg:main_alg_tens): the loop that takes one tensor after the other. Start reading here.
//!
//! ```text
//! for each tensor Z(t):
//!     Y   = its non-zero fibers                     tensor.rs     (mode-1-T, eq:dl)
//!     X   = codes of Y under A(t)                   codes.rs      stage I, fiber.rs for one fiber
//!     B,C = untangled from X, on demand             untangle.rs   stage II
//!     A(t+1) = A(t), moved to explain Y - A X       update.rs     stage III
//! ```

use std::borrow::Borrow;
use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::data::codes::{Codes, SolverCounts};
use crate::data::dictionary::Dictionary;
use crate::data::tensor::Tensor;
use crate::discover::growth::{DiscoverParams, Discovery, Review};
use crate::discover::scale::Scale;
use crate::discover::start::{Start, find_stable, sample};
use crate::discover::unexplained::UnexplainedFibers;
use crate::encode::waves::{Encoding, Space as EncodingSpace};
use crate::error::Error;
use crate::linalg::vector::add_scaled;
use crate::parallel::team::{Team, TeamHandle, agree, first_error};
use crate::params::{Params, Passes, Rule};
use crate::shape::Shape;
use crate::stop::Stop;
use crate::update::sums::{Adaptive, FiberSums, PassWeights, Space as SumSpace, paper_step};

/// Most passes over one tensor with [`Passes::Auto`].
const MOST_PASSES: usize = 20;

/// And with [`Passes::Exhaust`].
const MOST_TO_EXHAUST: usize = 100;

/// What a rank tells the others when its share cannot be learned from.
const STOPPED: i8 = 1;
const FAILED: i8 = 2;

/// Holds the dictionary and learns from one tensor at a time, for ever.
#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Learner {
    dictionary: Dictionary,
    params: Params,
    /// State of the adaptive step; the paper's step has none.
    adaptive: Adaptive,
    /// Of a learner that finds patterns by itself.
    growth: Option<Discovery>,
    /// When each pattern was seen.
    seen: Vec<Sightings>,
    steps: u64,
    #[serde(skip)]
    stop: Stop,
    #[serde(skip)]
    team: TeamHandle,
    #[serde(skip)]
    space: Space,
}

/// Memory to work in, kept because small steps would spend more time on getting it than on anything else.
#[derive(Debug, Default)]
struct Space {
    encoding: EncodingSpace,
    sums: SumSpace,
}

/// When a pattern was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
struct Sightings {
    /// The first and the last step that showed it, 0 if none has, and how many have.
    first: u64,
    last: u64,
    times: u64,
}

impl Sightings {
    /// The probability of a gap as long as it has not been seen, given how often it was seen before; 1 for a pattern that
    /// is hardly known.
    fn chance_of_gap(self, now: u64) -> f64 {
        if self.times < 3 {
            return 1.0;
        }
        // The share of steps that show it is not known: any is as likely as another before the first. The time between
        // sightings counts, not that before the first.
        let (between, sightings) = ((self.last - self.first) as f64, (self.times - 1) as f64);
        let missed = between - sightings;
        (0..now - self.last).map(|i| (missed + 1.0 + i as f64) / (between + 2.0 + i as f64)).product()
    }
}

/// What was worked on before makes no difference.
impl PartialEq for Space {
    fn eq(&self, _: &Space) -> bool {
        true
    }
}

/// What happened to one tensor.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Step {
    /// Number of this step, from 1.
    pub step: u64,
    /// Non-zero fibers of the tensor, p.
    pub fibers: usize,
    /// Non-zero fibers in the sample set of stage III, the paper's p.
    pub fibers_used: usize,
    /// Mean number of patterns in a fiber.
    pub mean_code_size: f64,
    /// |Y - A X|_F / |Y|_F, with A as it was when the fibers were coded.
    pub fit: f64,
    /// |A(t+1) - A(t)|_F / |A(t)|_F.
    pub change: f64,
    /// For every pattern, how many fibers showed it to stage III.
    pub activity: Vec<usize>,
    /// How the fibers were coded.
    pub solver_counts: SolverCounts,
    /// Passes made over the tensor.
    pub passes: usize,
    /// Patterns that the tensor brought to light, the last ones of the dictionary now, to be used from the
    /// next tensor on.
    pub found: usize,
    /// Patterns that are gone, by their old numbers: young ones that the tensor has shown to be none, and those that have
    /// become the same as an older one. The later ones have moved up; codes and activity are numbered as the
    /// dictionary is after the step.
    pub lost: Vec<usize>,
    /// Time spent on the fibers: reading them, stage I, and the sums of stage III.
    pub encode_time: Duration,
    /// Time spent on moving the dictionary by these sums.
    pub update_time: Duration,
    /// Time spent on finding patterns.
    pub search_time: Duration,
    /// The codes that the last pass was made with; [`Codes::untangle`] makes the row and col
    /// factors of them (stage II).
    pub codes: Codes,
}

impl Clone for Learner {
    fn clone(&self) -> Learner {
        let (dictionary, params, adaptive) =
            (self.dictionary.clone(), self.params.clone(), self.adaptive.clone());
        let (growth, seen) = (self.growth.clone(), self.seen.clone());
        let (steps, stop, team) = (self.steps, self.stop.clone(), self.team.clone());
        Learner { dictionary, params, adaptive, growth, seen, steps, stop, team, space: Space::default() }
    }

    /// Keeps the memory that this learner works in.
    fn clone_from(&mut self, other: &Learner) {
        let space = std::mem::take(&mut self.space);
        *self = Learner { space, ..other.clone() };
    }
}

impl Learner {
    /// A learner that starts from A(0).
    pub fn new(start: Dictionary, params: Params) -> Result<Learner, Error> {
        params.check()?;
        let adaptive = Adaptive::new(start.patterns());
        let seen = vec![Sightings::default(); start.patterns()];
        Ok(Learner {
            dictionary: start,
            params,
            adaptive,
            growth: None,
            seen,
            steps: 0,
            stop: Stop::default(),
            team: TeamHandle::default(),
            space: Space::default(),
        })
    }

    /// A learner that starts from nothing and finds its patterns in the data, at the first tensor and
    /// whenever fibers show something new.
    ///
    /// `code_floor` and `tau` are in units of the smallest codes in the data, which are found as well.
    pub fn from_nothing(features: usize, params: Params, grow: DiscoverParams) -> Result<Learner, Error> {
        grow.check()?;
        Shape { features, rows: 1, cols: 1 }.check()?;
        let (stop, growth) = (grow.stop.clone(), Some(Discovery::new(features, grow)));
        Ok(Learner { growth, stop, ..Learner::new(Dictionary::empty(features), params)? })
    }

    /// A learner that goes on from what was found in a tensor, in its units.
    pub fn from_start(start: &Start, params: Params, grow: DiscoverParams) -> Result<Learner, Error> {
        grow.check()?;
        let evidence: Vec<f64> = start.findings.iter().map(|finding| finding.evidence).collect();
        let growth = Discovery::going_on(start.dictionary.features(), grow, start.scale, &evidence);
        Ok(Learner { growth: Some(growth), ..Learner::new(start.dictionary.clone(), params)? })
    }

    /// The learner that a tensor suggests, of which the ranks of a team have shares: it has the patterns that [`find_stable`] finds there. If more tensors follow, as in a stream, it
    /// takes others up as they appear; with the paper's step it never does, and is in the units of the data.
    pub fn from_tensor(
        team: Arc<dyn Team>,
        tensor: &Tensor<'_>,
        params: Params,
        grow: DiscoverParams,
        stream: bool,
    ) -> Result<Learner, Error> {
        agree(&*team, params.check())?;
        let (sample, drawn) = sample(&*team, tensor);
        // All ranks search the same fibers and find the same, unless one is stopped.
        let learner = agree(&*team, Learner::suggested(&sample, params, grow, stream || drawn));
        learner.map(|mut learner| {
            learner.join(team);
            learner
        })
    }

    fn suggested(
        tensor: &Tensor<'_>,
        params: Params,
        grow: DiscoverParams,
        stream: bool,
    ) -> Result<Learner, Error> {
        let found = find_stable(tensor, &grow)?;
        let grow = DiscoverParams { floor: found.floor, ..grow };
        if found.findings.is_empty() {
            let features = tensor.shape().features;
            return match (stream, grow.max_patterns) {
                (true, _) => Learner::from_nothing(features, params, grow),
                (false, None) => Err(Error::NoPattern),
                (false, Some(_)) => Err(Error::NothingShared),
            };
        }
        if params.rule != Rule::Adaptive {
            return Learner::new(found.dictionary, params);
        }
        // One tensor has shown what it has; a stream may bring more, and so may the fibers that were not drawn.
        let max_patterns = if stream { grow.max_patterns } else { Some(found.findings.len()) };
        Learner::from_start(&found, params, DiscoverParams { min_patterns: 0, max_patterns, ..grow })
    }

    /// Whether a learner that comes from elsewhere, such as a file, can go on: [`Error::State`] if not. One that was made
    /// here always can.
    pub fn check(&self) -> Result<(), Error> {
        self.params.check()?;
        let (n, m) = (self.dictionary.features(), self.dictionary.patterns());
        let seen =
            |seen: &Sightings| seen.first <= seen.last && seen.last <= self.steps && seen.times <= self.steps;
        let sound = self.dictionary.is_sound()
            && Shape { features: n, rows: 1, cols: 1 }.check().is_ok()
            && self.adaptive.is_sound(m)
            && self.growth.as_ref().is_none_or(|growth| growth.is_sound(n, m))
            && self.seen.len() == m
            && self.seen.iter().all(seen);
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

    /// Goes on with other parameters.
    pub fn set_params(&mut self, params: Params) -> Result<(), Error> {
        params.check()?;
        self.params = params;
        Ok(())
    }

    /// Lets `stop` end what it does.
    pub fn set_stop(&mut self, stop: Stop) {
        self.growth.iter_mut().for_each(|growth| growth.options.stop = stop.clone());
        self.stop = stop;
    }

    /// Learns as a rank of a team from now on: every tensor is this rank's share of the fibers of one that all of them learn from.
    /// Shares have the shape of the whole, and no place is in two of them; codes stay with the rank, all else is of the whole.
    ///
    /// The same bits come out for a team of any size, and of one. Every rank must have the same learner, and make the same
    /// calls. What is wrong on one of them is an error on all: [`Error::OtherRank`] on the others.
    pub fn join(&mut self, team: Arc<dyn Team>) {
        self.team = TeamHandle(team);
    }

    /// The team it is in.
    pub fn team(&self) -> &Arc<dyn Team> {
        &self.team.0
    }

    /// The parameters in units of the data.
    fn scaled(&self) -> Params {
        let mut params = self.params.clone();
        if let Some(scale) = self.scale() {
            params.code_floor *= scale.floor;
            params.tau *= scale.code;
        }
        params
    }

    /// The units of the data, once patterns were found in it. None if the learner was given its dictionary.
    pub fn scale(&self) -> Option<Scale> {
        self.growth.as_ref().and_then(|growth| growth.scale)
    }

    /// For every pattern, the last step whose tensor showed it; 0 if none has.
    pub fn last_seen(&self) -> Vec<u64> {
        self.seen.iter().map(|seen| seen.last).collect()
    }

    /// Patterns that no tensor has shown for long: given how often each was seen before, chance would bring such a gap
    /// to any of them in one case of a thousand. They are kept all the same.
    pub fn overdue(&self) -> Vec<usize> {
        let rare = 1e-3 / self.seen.len().max(1) as f64;
        let overdue = |pattern: &usize| self.seen[*pattern].chance_of_gap(self.steps) < rare;
        (0..self.seen.len()).filter(overdue).collect()
    }

    /// For every pattern that was found in the data, how clear it was: what its fibers had in common, relative to
    /// the most that chance finds in as many. Empty if the learner was given its dictionary.
    pub fn evidence(&self) -> Vec<f64> {
        self.growth.as_ref().map_or(Vec::new(), Discovery::evidence)
    }

    /// Fibers that no pattern explains, and that wait for others like them.
    pub fn unexplained_fibers(&self) -> usize {
        self.growth.as_ref().map_or(0, Discovery::waiting)
    }

    /// Tensors learned from so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Stage I alone: codes of a tensor under the present dictionary, which stays as it is.
    pub fn encode(&self, tensor: &Tensor<'_>) -> Result<Codes, Error> {
        self.encode_until(&self.stop, tensor)
    }

    /// The same, ended by `stop`: several may encode at a time.
    pub fn encode_until(&self, stop: &Stop, tensor: &Tensor<'_>) -> Result<Codes, Error> {
        self.check_features(tensor.shape())?;
        let params = self.scaled();
        let mut space = EncodingSpace::default();
        let mut encoding = Encoding::new(&self.dictionary, &params, &mut space, stop);
        encoding.add(tensor, None);
        if stop.is_set() { Err(Error::Stopped) } else { Ok(encoding.found().codes(tensor.shape())) }
    }

    /// The way back from codes: the fibers A X, at their places (eq:dl).
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

    /// One step of Alg. 1: codes the tensor (I) and moves the dictionary (III). The factors (II)
    /// do not feed the update and are made on demand: `step.codes.untangle()`.
    ///
    /// A tensor without fibers is a step like any other; it moves nothing.
    pub fn learn(&mut self, tensor: &Tensor<'_>) -> Result<Step, Error> {
        if self.dictionary.patterns() > 0 {
            return self.learn_from(tensor.shape(), || [Ok(tensor)]);
        }
        let team = Arc::clone(&self.team.0);
        agree(&*team, self.check_features(tensor.shape()))?;
        let (before, begun) = (self.clone(), Instant::now());
        let mut found = Vec::new();
        if let Some(growth) = &mut self.growth {
            found = growth.start(&sample(&*team, tensor).0);
        }
        // A rank that is stopped finds nothing, and must not go on alone.
        let mut stopped = [i8::from(self.stop.is_set())];
        team.max(&mut stopped);
        let started = if stopped == [0] { self.extend(found) } else { Err(Error::Stopped) };
        let search_time = begun.elapsed();
        match started.and_then(|_| self.learn_from(tensor.shape(), || [Ok(tensor)])) {
            Ok(mut step) => {
                step.search_time += search_time;
                Ok(step)
            }
            Err(error) => {
                *self = before;
                Err(error)
            }
        }
    }

    /// Adds patterns; returns how many.
    fn extend(&mut self, columns: Vec<f64>) -> Result<usize, Error> {
        let before = self.dictionary.patterns();
        self.dictionary.append(columns)?;
        let new = self.dictionary.patterns() - before;
        self.adaptive.grow(new);
        self.seen.resize(before + new, Sightings::default());
        Ok(new)
    }

    fn check_features(&self, shape: Shape) -> Result<(), Error> {
        shape.check()?;
        let (tensor, dictionary) = (shape.features, self.dictionary.features());
        if tensor == dictionary { Ok(()) } else { Err(Error::Features { tensor, dictionary }) }
    }

    /// The same for a tensor that does not fit into memory: its fibers come in parts, each a tensor of
    /// the same shape with some of the fibers, and are read once. Held are one part, what is held for a
    /// whole tensor too, and twice the codes.
    ///
    /// The larger the parts, the faster, up to some 100,000 fibers. Results have the bits of those of
    /// [`Learner::learn`]. An error of the iterator ends the step and leaves the learner as it was.
    /// Needs [`Passes::Fixed`]`(1)`.
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
        self.learn_from(shape, || parts.take().into_iter().flatten())
    }

    /// `parts` is called once for each pass.
    fn learn_from<'t, T, E, I>(&mut self, shape: Shape, mut parts: impl FnMut() -> I) -> Result<Step, E>
    where
        T: Borrow<Tensor<'t>>,
        E: From<Error> + Display,
        I: IntoIterator<Item = Result<T, E>>,
    {
        let mut wrong = self.check_features(shape).err();
        let number = self.steps + 1;
        let diverged = |_| Error::Diverged { step: number };
        let (mut encode_time, mut update_time) = (Duration::ZERO, Duration::ZERO);
        let params = &self.scaled();
        let Learner { dictionary: origin, adaptive, growth, seen, steps, stop, team, space, .. } = self;
        let team = &*team.0;
        // What the passes over this tensor have made of A(t) so far.
        let mut better: Option<Dictionary> = None;
        let mut frozen = match params.passes {
            Passes::Fixed(1) => PassWeights::Unused,
            _ => PassWeights::Weights(Vec::new()),
        };
        let mut last_fit = f64::INFINITY;
        let mut passes = 0;
        loop {
            passes += 1;
            let begun = Instant::now();
            let dictionary = better.as_ref().unwrap_or(origin);
            let mut encoding = Encoding::new(dictionary, params, &mut space.encoding, stop);
            let unexplained = growth
                .as_ref()
                .map(|growth| UnexplainedFibers::new(shape.features, growth.scale, &growth.young()));
            let mut sums = FiberSums::new(dictionary, params, &mut frozen, &mut space.sums, unexplained);
            let coded = match wrong.take() {
                Some(error) => Err(error.into()),
                None => encoding.add_parts(shape, parts(), &mut sums),
            };
            let mut found = encoding.found();
            let alarm = match &coded {
                Ok(()) => 0,
                Err(_) if stop.is_set() => STOPPED,
                Err(_) => FAILED,
            };
            match sums.add_up(team, &mut found, alarm) {
                0 => {}
                STOPPED => return Err(Error::Stopped.into()),
                _ => return Err(first_error(team, coded)),
            }
            encode_time += begun.elapsed();

            let begun = Instant::now();
            let (moved, state, settled) = match params.rule {
                Rule::Paper { eta_a } => (paper_step(&sums, eta_a).map_err(diverged)?, None, false),
                Rule::Adaptive => {
                    let pass = adaptive.step(origin, &sums, params.forgetting).map_err(diverged)?;
                    (pass.moved, Some(pass.state), pass.settled)
                }
            };
            update_time += begun.elapsed();

            let last = match params.passes {
                Passes::Fixed(asked) => passes == asked,
                Passes::Auto => settled || passes == MOST_PASSES,
                Passes::Exhaust => {
                    let before = std::mem::replace(&mut last_fit, found.fit());
                    (settled && last_fit > 0.75 * before) || passes == MOST_TO_EXHAUST
                }
            };
            if !last {
                // A further pass of the paper's step goes on from here; of the adaptive one, it starts
                // again from A(t) with better codes, so that nothing is learned twice.
                let mut next = if state.is_some() { origin.clone() } else { dictionary.clone() };
                next.replace(&moved);
                drop(sums);
                better = Some(next);
                continue;
            }
            let mut step = Step {
                step: number,
                fibers: found.nonzero,
                fibers_used: sums.fibers_used,
                mean_code_size: found.mean_code_size(),
                fit: found.fit(),
                change: 0.0,
                activity: sums.activity(),
                solver_counts: found.solver_counts,
                passes,
                found: 0,
                lost: Vec::new(),
                encode_time,
                update_time,
                search_time: Duration::ZERO,
                codes: found.codes(shape),
            };
            let unexplained = sums.unexplained.take();
            drop(sums);
            let unexplained = unexplained.map(|unexplained| unexplained.gather(team));
            // |A(t)|_F^2 is the number of patterns.
            let relative = |square: f64| (square / origin.patterns().max(1) as f64).sqrt();
            match better.filter(|_| state.is_none()) {
                Some(mut next) => {
                    next.replace(&moved);
                    step.change = relative(next.squared_distance(origin));
                    *origin = next;
                }
                None => {
                    // An empty sum of floats is -0.
                    step.change = relative(0.0 + moved.squares_from(origin).iter().sum::<f64>());
                    origin.replace(&moved);
                }
            }
            *adaptive = state.unwrap_or_else(|| adaptive.clone());
            *steps = number;
            for (seen, _) in seen.iter_mut().zip(&step.activity).filter(|(_, fibers)| **fibers > 0) {
                seen.first = if seen.times == 0 { number } else { seen.first };
                (seen.last, seen.times) = (number, seen.times + 1);
            }
            if let (Some(growth), Some(unexplained)) = (growth, unexplained) {
                let begun = Instant::now();
                let Review { turned, lost } = growth.review(origin, &step, &unexplained);
                for (pattern, column) in turned {
                    origin.set_pattern(pattern, column)?;
                    adaptive.forget(pattern);
                }
                origin.remove(&lost);
                adaptive.remove(&lost);
                lost.iter().rev().for_each(|&pattern| {
                    seen.remove(pattern);
                });
                let found = growth.grow(origin, unexplained);
                step.found = self.extend(found)?;
                // Numbered as in the dictionary from now on.
                let patterns = self.dictionary.patterns();
                step.codes.renumber(&lost, patterns);
                lost.iter().rev().for_each(|&pattern| {
                    step.activity.remove(pattern);
                });
                step.activity.resize(patterns, 0);
                step.lost = lost;
                step.search_time = begun.elapsed();
            }
            return Ok(step);
        }
    }
}
