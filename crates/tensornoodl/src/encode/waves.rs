//! Stage I for a whole tensor: its fibers are coded in waves of blocks (alg:coeff_init, alg:coeff_iht).
//!
//! Every fiber is read once. Fibers are taken in waves that are spread evenly over the tensor, so that the rows and
//! cols of one wave show which patterns to expect in the next (`screen.rs`). A wave is cut into blocks, which are
//! coded in parallel (`block.rs`, `fiber.rs`). Each coded wave is handed to a [`WaveSink`], where stage III adds it
//! up. Waves and blocks have fixed sizes and are put together in order, so that results do not depend on the number
//! of threads.

use std::borrow::Borrow;

use rayon::prelude::*;

use crate::data::codes::{Codes, SolverCounts};
use crate::data::dictionary::Dictionary;
use crate::data::sparse::Sparse;
use crate::data::tensor::{Tensor, check_distinct};
use crate::encode::block::{Block, BlockCoder, Screening};
use crate::encode::fiber::{Coder, Work};
use crate::encode::screen::PatternsByPlace;
use crate::error::Error;
use crate::linalg::vector::to_single;
use crate::parallel::exact_sum::ExactSums;
use crate::params::{ModelKind, Params, Solver};
use crate::shape::{Place, Shape};
use crate::stop::Stop;

/// Fibers per block: enough for a matrix product at full speed, few enough to share among threads.
const BLOCK: usize = 128;

/// Minimum number of fibers per wave. The residuals of a wave are held in memory until stage III has read them.
const WAVE: usize = 2048;

/// Maximum number of waves per tensor. The more blocks a wave has, the more threads find work.
const MAX_WAVES: usize = 32;

/// Number of neighbouring fibers that stay together in a wave, so that memory is read in runs.
const RUN: usize = 8;

/// Tensors whose product A'Y has fewer multiplications than this are coded on the calling thread: starting threads
/// would take longer.
const SMALL_PRODUCT: usize = 16_000_000;

/// Receives the coded waves of a tensor in order. Stage III adds them up; encoding alone ignores them.
pub(crate) trait WaveSink: Send {
    /// Takes the next wave.
    fn add(&mut self, wave: &Wave<'_>);

    /// Returns a dictionary that explains the fibers better than A does, if the waves so far determine one. It is only
    /// used to propose codes (`fiber.rs`).
    fn guide(&self) -> Option<Dictionary>;
}

/// Ignores all waves: for encoding without learning.
pub(crate) struct NoSink;

impl WaveSink for NoSink {
    fn add(&mut self, _: &Wave<'_>) {}

    fn guide(&self) -> Option<Dictionary> {
        None
    }
}

/// A wave of coded fibers.
pub(crate) struct Wave<'a> {
    /// The tensor, or the part of it, that the fibers are in.
    pub(crate) tensor: &'a Tensor<'a>,
    /// Number of fibers in earlier parts of the tensor.
    pub(crate) offset: usize,
    pub(crate) blocks: &'a [Block],
    /// Column q (n rows) is y - A x of the q-th fiber of the wave, with the codes that stage III uses.
    pub(crate) residuals: &'a [f64],
}

/// Stage I of one tensor, whole or in parts.
pub(crate) struct Encoding<'a> {
    coder: Coder<'a>,
    scratch: &'a mut Scratch,
    /// The first screening to try.
    first: Screening,
    /// Patterns that rows and cols have shown, for tensors of more than one wave.
    by_place: Option<PatternsByPlace>,
    /// Whether `by_place` may propose codes.
    proposing: bool,
    encoded: Encoded,
    /// No further wave begins once this is set.
    stop: &'a Stop,
}

/// The result of stage I, and sums over its fibers.
pub(crate) struct Encoded {
    /// Column q is the code of fiber `fibers[q]`.
    codes: Sparse,
    fibers: Vec<usize>,
    places: Vec<Place>,
    /// Number of fibers that are not zero.
    pub(crate) nonzero: usize,
    /// Number of entries of all codes.
    code_entries: usize,
    /// |Y|_F^2 and |Y - A X|_F^2.
    energy: ExactSums,
    pub(crate) solver_counts: SolverCounts,
}

/// The large arrays of an [`Encoding`], kept from tensor to tensor.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// A in single precision.
    single: Vec<f32>,
    /// Residuals of a wave (n x fibers).
    residuals: Vec<f64>,
}

impl Encoded {
    fn new(patterns: usize) -> Encoded {
        Encoded {
            codes: Sparse::new(patterns),
            fibers: Vec::new(),
            places: Vec::new(),
            nonzero: 0,
            code_entries: 0,
            energy: ExactSums::new(2, 1),
            solver_counts: SolverCounts::default(),
        }
    }

    /// Appends the codes of a wave, and notes the patterns of each place in `by_place`.
    fn append(&mut self, wave: &Wave<'_>, mut by_place: Option<&mut PatternsByPlace>) {
        for block in wave.blocks {
            if let Some(by_place) = &mut by_place {
                for (&fiber, code) in block.fibers.iter().zip(block.codes.columns()) {
                    let place = wave.tensor.places()[fiber];
                    code.iter().for_each(|&(pattern, _)| by_place.add(place, pattern));
                }
            }
            self.codes.append(&block.codes);
            self.fibers.extend(block.fibers.iter().map(|fiber| wave.offset + fiber));
            self.nonzero += block.energies.iter().filter(|energy| **energy > 0.0).count();
            self.code_entries += block.codes.nnz();
            self.energy.column(0).add_all(&block.energies);
            self.energy.column(1).add_all(&block.residual_energies);
            self.solver_counts.add(block.solver_counts);
        }
    }

    /// Mean number of patterns in a fiber.
    pub(crate) fn mean_code_size(&self) -> f64 {
        self.code_entries as f64 / self.nonzero.max(1) as f64
    }

    /// |Y - A X|_F / |Y|_F.
    pub(crate) fn fit(&self) -> f64 {
        let (energy, residual) = (self.energy.get(0, 0), self.energy.get(1, 0));
        if energy > 0.0 { (residual / energy).sqrt() } else { 0.0 }
    }

    /// The sums and counts that are added over the ranks of a team. Codes stay with the rank that has the fiber.
    pub(crate) fn sums(&mut self) -> (&mut ExactSums, [&mut usize; 6]) {
        let SolverCounts { direct, predicted, iht, unconverged } = &mut self.solver_counts;
        (&mut self.energy, [&mut self.nonzero, &mut self.code_entries, direct, predicted, iht, unconverged])
    }

    /// The codes of all fibers, in the order of the fibers.
    pub(crate) fn codes(self, shape: Shape) -> Codes {
        let mut column = vec![0; self.fibers.len()];
        self.fibers.iter().enumerate().for_each(|(at, &fiber)| column[fiber] = at);
        Codes::at(ModelKind::Exact, self.codes.gather(&column), self.places, shape)
    }
}

impl<'a> Encoding<'a> {
    /// Begins to encode a tensor under `dictionary`.
    pub(crate) fn new(
        dictionary: &'a Dictionary,
        params: &'a Params,
        scratch: &'a mut Scratch,
        stop: &'a Stop,
    ) -> Encoding<'a> {
        scratch.single.resize(dictionary.values().len(), 0.0);
        to_single(&mut scratch.single, dictionary.values(), 1.0);
        let first = match params.solver {
            Solver::Direct => Screening::Places,
            Solver::Iht => Screening::Double,
        };
        Encoding {
            coder: Coder::new(dictionary, params),
            scratch,
            first,
            by_place: None,
            proposing: false,
            encoded: Encoded::new(dictionary.patterns()),
            stop,
        }
    }

    /// Encodes a tensor that comes in parts of the same shape, and hands every wave to `sink`.
    ///
    /// # Errors
    /// The errors of `parts`; a part of another shape; a place that is in two parts; [`Error::Stopped`].
    pub(crate) fn add_parts<'t, T: Borrow<Tensor<'t>>, E: From<Error>>(
        &mut self,
        shape: Shape,
        parts: impl IntoIterator<Item = Result<T, E>>,
        sink: &mut impl WaveSink,
    ) -> Result<(), E> {
        let mut count = 0;
        for part in parts {
            let part = part?;
            let part: &Tensor<'_> = part.borrow();
            if part.shape() != shape {
                return Err(Error::OtherShape { part: part.shape(), tensor: shape }.into());
            }
            self.add(part, sink);
            count += 1;
        }
        if self.stop.is_set() {
            return Err(Error::Stopped.into());
        }
        if count > 1 {
            check_distinct(&self.encoded.places)?;
        }
        Ok(())
    }

    /// Encodes the fibers of a tensor, or of its next part, and hands every wave to `sink`.
    pub(crate) fn add(&mut self, tensor: &Tensor<'_>, sink: &mut impl WaveSink) {
        let (n, p) = (tensor.shape().features, tensor.fibers());
        let small = n * self.coder.dictionary.patterns() * p < SMALL_PRODUCT;
        if small {
            self.waves(tensor, small, sink);
        } else {
            // All waves run inside the thread pool, so that its threads are woken once and not for every wave.
            rayon::scope(|_| self.waves(tensor, small, sink));
        }
    }

    fn waves(&mut self, tensor: &Tensor<'_>, small: bool, sink: &mut impl WaveSink) {
        let p = tensor.fibers();
        let runs = p.div_ceil(RUN);
        let waves = (runs * RUN).div_ceil(WAVE).min(MAX_WAVES);
        let patterns = self.coder.dictionary.patterns();
        if waves > 1 && patterns > 0 {
            self.coder.prepare();
            if self.by_place.is_none() && self.first <= Screening::Places {
                self.by_place = PatternsByPlace::new(tensor.shape(), patterns, size_of_val(tensor.values()));
            }
        }
        let offset = self.encoded.places.len();
        self.encoded.places.extend_from_slice(tensor.places());
        for wave in 0..waves {
            // The first waves are smaller, because rows and cols show most of their patterns there.
            let pieces = match wave {
                _ if waves == 1 => 1,
                0 => 4,
                1 => 2,
                _ => 1,
            };
            for piece in 0..pieces {
                if self.stop.is_set() {
                    return;
                }
                let runs = (wave + piece * waves..runs).step_by(pieces * waves);
                let fibers: Vec<usize> = runs.flat_map(|run| run * RUN..p.min((run + 1) * RUN)).collect();
                let well_fitted = self.wave(tensor, offset, &fibers, small, sink);
                self.allow_proposals(well_fitted, piece + 1 == pieces, sink);
            }
        }
    }

    /// Lets rows and cols propose codes, as soon as A, or a guide from `sink`, fits most fibers well.
    fn allow_proposals(&mut self, well_fitted: bool, end_of_wave: bool, sink: &impl WaveSink) {
        if self.by_place.is_none() || self.proposing {
            return;
        }
        if well_fitted {
            self.proposing = true;
        } else if end_of_wave && let Some(guide) = sink.guide() {
            self.proposing = true;
            self.coder.follow(guide);
        }
    }

    /// Codes one wave and hands it to `sink`. Returns whether most of its fibers are fitted well.
    fn wave(
        &mut self,
        tensor: &Tensor<'_>,
        offset: usize,
        fibers: &[usize],
        small: bool,
        sink: &mut impl WaveSink,
    ) -> bool {
        let n = tensor.shape().features;
        let mut residuals = std::mem::take(&mut self.scratch.residuals);
        residuals.resize(n * fibers.len().max(residuals.len() / n), 0.0);
        let coder = BlockCoder {
            coder: &self.coder,
            by_place: self.by_place.as_ref().filter(|_| self.proposing),
            single: &self.scratch.single,
            first: self.first,
        };
        let code = |work: &mut Work, (fibers, residuals): (&[usize], &mut [f64])| {
            coder.code(work, tensor, fibers, residuals)
        };
        let blocks: Vec<Block> = if small {
            let (mut work, residuals) = (Work::default(), residuals.chunks_mut(n * BLOCK));
            fibers.chunks(BLOCK).zip(residuals).map(|block| code(&mut work, block)).collect()
        } else {
            let residuals = residuals.par_chunks_mut(n * BLOCK);
            fibers.par_chunks(BLOCK).zip(residuals).with_max_len(1).map_init(Work::default, code).collect()
        };
        let wave = Wave { tensor, offset, blocks: &blocks, residuals: &residuals };
        let Encoding { by_place, encoded, .. } = self;
        let mut keep = || encoded.append(&wave, by_place.as_mut());
        if small {
            sink.add(&wave);
            keep();
        } else {
            rayon::join(|| sink.add(&wave), keep);
        }
        self.scratch.residuals = residuals;
        2 * blocks.iter().map(|block| block.well_fitted).sum::<usize>() > fibers.len()
    }

    /// Ends the encoding and returns its result.
    pub(crate) fn finish(self) -> Encoded {
        self.encoded
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::synthetic::{Plan, Planted, Values};
    use crate::learner::pass::StageThree;
    use crate::params::Rule;
    use crate::update::sums::{FiberSums, PassWeights};

    /// A tensor of several waves.
    fn plan() -> Plan {
        let (rows, cols, alpha, beta) = (220, 210, 0.08, 0.06);
        Plan { features: 60, patterns: 130, rows, cols, alpha, beta, ..Plan::default() }
    }

    fn encode(
        tensor: &Tensor<'_>,
        dictionary: &Dictionary,
        params: &Params,
        first: Screening,
    ) -> (SolverCounts, Codes) {
        let (mut scratch, mut sums, mut weights) =
            (Scratch::default(), FiberSums::default(), PassWeights::OnePass);
        let stop = Stop::default();
        sums.begin(dictionary, params, 0.0);
        let mut encoding = Encoding::new(dictionary, params, &mut scratch, &stop);
        encoding.first = first;
        let mut sink = StageThree { dictionary, sums: &mut sums, weights: &mut weights, unexplained: None };
        encoding.add(tensor, &mut sink);
        let encoded = encoding.finish();
        (encoded.solver_counts, encoded.codes(tensor.shape()))
    }

    /// Asserts that all screenings give the same codes to the last bit. Returns the shares of predicted and iterated
    /// fibers.
    #[track_caller]
    fn same_with_all_screenings(plan: Plan, distance: f64, params: Params) -> (f64, f64) {
        let planted = Planted::new(plan).unwrap();
        let (dictionary, tensor) = (planted.start(distance).unwrap(), planted.tensor(1).tensor);
        assert!(tensor.fibers() > 2 * WAVE, "{} fibers are too few", tensor.fibers());
        let (solver_counts, codes) = encode(&tensor, &dictionary, &params, Screening::Places);
        for first in [Screening::Single, Screening::Double] {
            let (others, other) = encode(&tensor, &dictionary, &params, first);
            let same = |a: &(u32, f64), b: &(u32, f64)| a.0 == b.0 && a.1.to_bits() == b.1.to_bits();
            let columns = codes.matrix().columns().zip(other.matrix().columns()).enumerate();
            for (fiber, (a, b)) in columns {
                assert!(
                    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
                    "{fiber}: {a:?} {b:?}"
                );
            }
            assert_eq!(others.predicted, 0);
            // A proof may fail by a rounding error with one screening and hold with another.
            assert!(
                others.direct.abs_diff(solver_counts.direct) <= tensor.fibers() / 1000,
                "{others:?} {solver_counts:?}"
            );
        }
        let share = |count: usize| count as f64 / tensor.fibers() as f64;
        (share(solver_counts.predicted), share(solver_counts.iht + solver_counts.unconverged))
    }

    #[test]
    fn near_dictionaries_are_their_own_guide() {
        let (guessed, iterated) = same_with_all_screenings(plan(), 1e-6, Params::default());
        assert!(guessed > 0.5 && iterated < 0.2, "{guessed} {iterated}");
    }

    #[test]
    fn far_dictionaries_get_a_guide() {
        let (guessed, _) = same_with_all_screenings(plan(), 0.4, Params::default());
        assert!(guessed > 0.3, "{guessed}");
        let paper = Params { rule: Rule::Paper { eta_a: 20.0 }, ..Params::default() };
        let (guessed, _) = same_with_all_screenings(plan(), 0.4, paper);
        assert!(guessed > 0.3, "{guessed}");
    }

    #[test]
    fn noise_and_small_codes_change_no_code() {
        let noisy = Plan { noise: 0.3, row_values: Values::SubGaussian { floor: 0.4 }, ..plan() };
        for distance in [1e-6, 0.3] {
            same_with_all_screenings(
                noisy.clone(),
                distance,
                Params { code_floor: 0.4, ..Params::default() },
            );
        }
    }

    #[test]
    fn fibers_at_the_thresholds_keep_their_codes() {
        // Half the floor is exactly the size of the codes, and d lies on either side of it by rounding.
        let (_, iterated) =
            same_with_all_screenings(plan(), 0.0, Params { code_floor: 2.0, ..Params::default() });
        assert!(iterated > 0.0);
        // The threshold of the iteration is the size of the codes.
        let params = Params { tau: 1.0, eta_x: 0.9, ..Params::default() };
        let (_, iterated) = same_with_all_screenings(plan(), 0.0, params);
        assert!(iterated > 0.2, "{iterated}");
    }

    #[test]
    fn any_scale_will_do() {
        for scale in [1e-60, 1e-30, 1e30, 1e60] {
            let planted = Planted::new(plan()).unwrap();
            let (dictionary, tensor) = (planted.start(0.01).unwrap(), planted.tensor(1).tensor);
            let values: Vec<f64> = tensor.values().iter().map(|y| scale * y).collect();
            let scaled = Tensor::from_fibers(tensor.shape(), values, tensor.places()).unwrap();
            let params = Params {
                code_floor: scale,
                tau: 0.1 * scale,
                rule: Rule::Paper { eta_a: 1.0 },
                ..Params::default()
            };
            let (solver_counts, codes) = encode(&scaled, &dictionary, &params, Screening::Places);
            let (_, plain) = encode(&scaled, &dictionary, &params, Screening::Double);
            assert_eq!(codes, plain, "{scale:e}");
            assert!(2 * solver_counts.predicted > tensor.fibers(), "{scale:e}: {solver_counts:?}");
        }
    }
}
