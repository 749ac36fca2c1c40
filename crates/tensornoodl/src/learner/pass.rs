//! One pass over a tensor: stage I codes every fiber, and stage III adds up what it needs of each.

use std::borrow::Borrow;
use std::fmt::Display;

use crate::data::dictionary::Dictionary;
use crate::data::tensor::Tensor;
use crate::discover::unexplained::UnexplainedFibers;
use crate::encode::waves::{Encoded, Encoding, Scratch as EncodeScratch, Wave, WaveSink};
use crate::error::Error;
use crate::parallel::team::{Team, first_error};
use crate::params::{Params, Passes};
use crate::shape::Shape;
use crate::stop::Stop;
use crate::update::sums::{FiberSums, PassWeights};

/// Maximum number of passes over one tensor with [`Passes::Auto`].
const MAX_AUTO: usize = 20;

/// Maximum number of passes over one tensor with [`Passes::Exhaust`].
const MAX_EXHAUST: usize = 100;

/// Alarm of a rank that was stopped.
pub(crate) const STOPPED: i8 = 1;
/// Alarm of a rank whose share cannot be learned from.
pub(crate) const FAILED: i8 = 2;

/// Memory that a learner works in. It is kept between steps: a small step would spend more time on allocating it than
/// on anything else.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) encode: EncodeScratch,
    pub(crate) sums: FiberSums,
}

/// Scratch memory is ignored when learners are compared.
impl PartialEq for Scratch {
    fn eq(&self, _: &Scratch) -> bool {
        true
    }
}

/// Adds up the waves of a pass for stage III, except for the fibers that a growing dictionary does not explain.
pub(crate) struct StageThree<'a> {
    pub(crate) dictionary: &'a Dictionary,
    pub(crate) sums: &'a mut FiberSums,
    pub(crate) weights: &'a mut PassWeights,
    pub(crate) unexplained: Option<&'a mut UnexplainedFibers>,
}

impl WaveSink for StageThree<'_> {
    fn add(&mut self, wave: &Wave<'_>) {
        let unexplained = self.unexplained.as_mut().map(|unexplained| unexplained.add(wave));
        self.sums.add(wave, unexplained.as_deref(), self.weights);
    }

    fn guide(&self) -> Option<Dictionary> {
        self.sums.guide(self.dictionary)
    }
}

/// The inputs of all passes over one tensor.
pub(crate) struct Pass<'a> {
    pub(crate) params: &'a Params,
    pub(crate) team: &'a dyn Team,
    pub(crate) stop: &'a Stop,
    pub(crate) shape: Shape,
    /// The length of the shortest residual that counts as noise.
    pub(crate) noise: f64,
}

impl Pass<'_> {
    /// Codes all fibers under `dictionary` (stage I), and leaves the sums that stage III needs in `scratch.sums`,
    /// added up over all ranks.
    ///
    /// # Errors
    /// The first error of any rank, on all ranks. [`Error::Stopped`] if a rank was stopped.
    pub(crate) fn encode_and_sum<'t, T: Borrow<Tensor<'t>>, E: From<Error> + Display>(
        &self,
        dictionary: &Dictionary,
        parts: Result<impl IntoIterator<Item = Result<T, E>>, Error>,
        scratch: &mut Scratch,
        weights: &mut PassWeights,
        unexplained: Option<&mut UnexplainedFibers>,
    ) -> Result<Encoded, E> {
        scratch.sums.begin(dictionary, self.params, self.noise);
        let mut encoding = Encoding::new(dictionary, self.params, &mut scratch.encode, self.stop);
        let mut sink = StageThree { dictionary, sums: &mut scratch.sums, weights, unexplained };
        let outcome =
            parts.map_err(E::from).and_then(|parts| encoding.add_parts(self.shape, parts, &mut sink));
        let mut encoded = encoding.finish();
        let alarm = match &outcome {
            Ok(()) => 0,
            Err(_) if self.stop.is_set() => STOPPED,
            Err(_) => FAILED,
        };
        match scratch.sums.sum_over_ranks(self.team, &mut encoded, alarm) {
            0 => Ok(encoded),
            STOPPED => Err(Error::Stopped.into()),
            _ => Err(first_error(self.team, outcome)),
        }
    }
}

/// Counts the passes over one tensor and decides when they end.
pub(crate) struct PassCounter {
    passes: Passes,
    pub(crate) count: usize,
    last_fit: f64,
}

impl PassCounter {
    pub(crate) fn new(passes: Passes) -> PassCounter {
        PassCounter { passes, count: 0, last_fit: f64::INFINITY }
    }

    /// Counts a pass with this relative residual, and returns whether it was the last one. `settled` says whether the
    /// gain of a further pass would be small.
    pub(crate) fn was_last(&mut self, fit: f64, settled: bool) -> bool {
        self.count += 1;
        let before = std::mem::replace(&mut self.last_fit, fit);
        match self.passes {
            Passes::Fixed(passes) => self.count == passes,
            Passes::Auto => settled || self.count == MAX_AUTO,
            Passes::Exhaust => (settled && fit > 0.75 * before) || self.count == MAX_EXHAUST,
        }
    }
}
