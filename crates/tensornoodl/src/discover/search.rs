//! Search for patterns in fibers that the dictionary does not explain.
//!
//! Symbols: n is the number of features, m the number of patterns so far, A the dictionary (n x m, unit columns),
//! y_f a fiber scaled to unit length (n x 1), x_f its sparse code, r_f = y_f - A x_f its residual.
//!
//! A pattern is a direction that several fibers share. One round of the search has four parts:
//!
//! 1. Code all fibers with orthogonal matching pursuit. A fiber with a short residual is explained.
//! 2. Take some residuals of unexplained fibers as probes. From u = r / |r|, climb to a local maximum (a peak) of
//!    sum_f cos(u, r_f)^4. Fibers that share a pattern with the probe outweigh all others there.
//! 3. Accept a peak as a pattern if it is higher than the peaks of the null model (`null.rs`): the same climb among
//!    Gaussian fibers with the covariance of the data.
//! 4. Refine the new patterns with the residuals of the fibers they explain, and code all fibers again.
//!
//! Explained fibers are not probed any more, so that a few probes per pattern are enough. At the end the search
//! replaces patterns that are sums of two others (`composites.rs`) and drops redundant patterns.
//!
//! All lengths are relative to the length of the fiber, so that the scale of the data does not matter. The search
//! works in single precision; the learner makes the patterns exact later.

use rand::SeedableRng;
use rand::seq::index;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::discover::null::{NullModel, Peak, SINGLE_DIRECTION, Threshold, climb};
use crate::discover::pursuit::{MIN_CODE, Pursuit, squared_residual};
use crate::discover::scale::Scale;
use crate::discover::unit_fibers::{BLOCK, UnitFibers, dot, normalise};
use crate::linalg::product::transposed_product;
use crate::stop::Stop;

/// Largest |r| / |y| of an explained fiber while the scale of codes and noise is unknown. If most residuals are
/// longer, the search raises the limit up to [`MAX_RELAXED_RESIDUAL`].
const MAX_RESIDUAL: f32 = 0.5;

/// [`MAX_RESIDUAL`] for patterns that have a part in common, if most residuals are as short.
const SHORT_RESIDUAL: f32 = 0.2;

/// Upper bound of the raised limit of |r| / |y|.
const MAX_RELAXED_RESIDUAL: f32 = 0.95;

/// Largest number of unexplained fibers in one round.
const MAX_FIBERS_PER_ROUND: usize = 12_000;

/// Smallest number of probes in one round, if there are as many fibers.
const MIN_PROBES: usize = 64;

/// Number of consecutive rounds without a new pattern that ends the search.
const MAX_MISSES: usize = 2;

/// Largest number of fibers that represent a new pattern.
const MAX_STRONGEST_FIBERS: usize = 4;

/// A peak is not new if its |cos| with a pattern of an earlier round is larger.
const MAX_COSINE_KNOWN: f32 = 0.7;

/// A peak is not new if its |cos| with a pattern of the current round is larger.
const MAX_COSINE_NEW: f32 = 0.5;

/// A pattern is redundant if other patterns explain all but this part of its length.
const REDUNDANT_RESIDUAL: f32 = 0.35;

/// A pattern may go if its fibers lose at most this without it, in standard errors.
const MAX_LOSS: f64 = 1.0;

/// A dictionary that grows while it is fitted to fibers.
pub(crate) struct Search {
    /// Number of features.
    pub(crate) n: usize,
    /// Patterns: unit columns, n values each.
    pub(crate) patterns: Vec<f32>,
    /// Number of given patterns. They come first and do not change.
    pub(crate) fixed: usize,
    /// Upper bound of the number of patterns.
    pub(crate) max_patterns: usize,
    /// The search accepts peaks below the threshold of the null model until there are this many patterns.
    pub(crate) min_patterns: usize,
    rng: ChaCha8Rng,
    /// Scale of codes and noise, if known: decides which fibers are explained.
    scale: Option<Scale>,
    /// Without a scale: largest |r| / |y| of an explained fiber.
    max_residual: f32,
    /// Evidence of each pattern when it was accepted, divided by the threshold of the null model.
    pub(crate) evidence: Vec<f32>,
    /// Whether a code also counts if its cosine with the residual may be chance. For fibers that are known to show the
    /// patterns, if the scale is known.
    pub(crate) any_cosine: bool,
    /// Ends the search early. The result is meaningless then.
    pub(crate) stop: Stop,
}

/// Codes and residuals of fibers.
pub(crate) struct Coded {
    /// For each fiber the pairs (pattern, code), in units of the length of the fiber.
    pub(crate) codes: Vec<Vec<(u32, f32)>>,
    /// Residuals of the unit fibers, n values each.
    residuals: Vec<f32>,
    /// |r| / |y| of each fiber.
    residual_lengths: Vec<f32>,
    /// Whether the codes explain the fiber.
    pub(crate) explained: Vec<bool>,
}

impl Coded {
    /// Indices of the fibers that are not explained.
    fn unexplained(&self) -> Vec<usize> {
        (0..self.explained.len()).filter(|&fiber| !self.explained[fiber]).collect()
    }

    /// Whether the residuals of most fibers are short.
    fn close(&self) -> bool {
        let short = self.residual_lengths.iter().filter(|length| **length <= SHORT_RESIDUAL).count();
        2 * short >= self.residual_lengths.len()
    }

    /// For each of m patterns the pairs (fiber, code) of the explained fibers.
    fn by_pattern(&self, m: usize) -> Vec<Vec<(usize, f32)>> {
        let mut shown = vec![Vec::new(); m];
        for (fiber, code) in self.codes.iter().enumerate().filter(|(fiber, _)| self.explained[*fiber]) {
            code.iter().for_each(|&(i, x)| shown[i as usize].push((fiber, x)));
        }
        shown
    }
}

impl Search {
    /// A search that starts with known patterns (unit columns, n values each) and may reach `max_patterns` patterns
    /// in all.
    pub(crate) fn new(
        n: usize,
        known: Vec<f32>,
        scale: Option<Scale>,
        max_patterns: usize,
        seed: u64,
    ) -> Search {
        let fixed = known.len() / n;
        Search {
            n,
            patterns: known,
            fixed,
            max_patterns,
            min_patterns: 0,
            rng: ChaCha8Rng::seed_from_u64(seed),
            scale,
            max_residual: MAX_RESIDUAL,
            evidence: vec![0.0; fixed],
            any_cosine: false,
            stop: Stop::default(),
        }
    }

    /// Number of patterns.
    pub(crate) fn count(&self) -> usize {
        self.patterns.len() / self.n
    }

    /// Pattern i.
    pub(crate) fn pattern(&self, i: usize) -> &[f32] {
        &self.patterns[i * self.n..][..self.n]
    }

    /// A search with another pattern w, for codes alone.
    pub(crate) fn with_pattern(&self, w: usize, pattern: &[f32]) -> Search {
        let mut patterns = self.patterns.clone();
        patterns[w * self.n..][..self.n].copy_from_slice(pattern);
        let (max_residual, any_cosine) = (self.max_residual, self.any_cosine);
        Search { max_residual, any_cosine, ..Search::new(self.n, patterns, self.scale, 0, 0) }
    }

    /// A'A (m x m).
    fn gram(&self) -> Vec<f32> {
        let m = self.count();
        let mut gram = vec![0.0; m * m];
        if m > 0 {
            transposed_product(&mut gram, &self.patterns, &self.patterns, self.n);
        }
        gram
    }

    /// Estimates the scale of codes and noise from the explained fibers. From then on, the scale decides which fibers
    /// are explained. Returns `None`, and keeps the former scale, if no fiber is explained.
    pub(crate) fn estimate_scale(&mut self, fibers: &UnitFibers) -> Option<Scale> {
        let coded = self.encode(fibers, None);
        let (mut sizes, mut residuals) = (Vec::new(), Vec::new());
        for (fiber, code) in coded.codes.iter().enumerate().filter(|(fiber, _)| coded.explained[*fiber]) {
            sizes.extend(code.iter().map(|(_, x)| x.abs() as f64 * fibers.lengths[fiber]));
            residuals.push(coded.residual_lengths[fiber] as f64 * fibers.lengths[fiber]);
        }
        let quantile = |values: &mut Vec<f64>, share: f64| {
            values.sort_by(f64::total_cmp);
            values.get((share * values.len() as f64) as usize).copied()
        };
        let (code, median) = (quantile(&mut sizes, 0.01)?, quantile(&mut sizes, 0.5)?);
        let noise = quantile(&mut residuals, 0.5)?;
        self.scale = Some(Scale { n: self.n, code, floor: median.min(2.0 * code), noise });
        self.scale
    }

    /// Searches until no new pattern is found. Returns the fibers that stay unexplained, or nothing if stopped.
    pub(crate) fn run(&mut self, fibers: &UnitFibers, null: &mut NullModel) -> Vec<usize> {
        loop {
            let before = self.count();
            self.probe_rounds(fibers, null);
            if self.stop.is_set() {
                return Vec::new();
            }
            let shortest = self.shortest_residual(fibers);
            for _ in 0..3 {
                let coded = self.encode(fibers, None);
                self.refine(&coded);
                let coded = self.encode(fibers, None);
                self.replace_composites(&coded);
                if null.common_part && coded.close() {
                    self.simplify(fibers);
                }
                self.drop_redundant(&coded);
            }
            let coded = self.encode(fibers, None);
            let unexplained = coded.unexplained();
            // Search again after a change: a pattern that was dropped by mistake is found again.
            if self.count() > before && unexplained.len() >= 2 {
                continue;
            }
            // Patterns with a part in common explain much of each other's fibers.
            let strict = null.common_part && self.scale.is_none();
            if strict && self.max_residual == MAX_RESIDUAL && coded.close() {
                self.max_residual = SHORT_RESIDUAL;
                continue;
            }
            // If most fibers are unexplained, their noise may be longer than the limit: raise the limit.
            let limit = (1.1 * shortest).min(MAX_RELAXED_RESIDUAL);
            if self.scale.is_some() || 2 * unexplained.len() < fibers.len() || limit <= self.max_residual {
                return unexplained;
            }
            self.max_residual = limit;
        }
    }

    /// Whether the patterns explain at least as many fibers as those of another search, with fewer codes and short
    /// residuals, or whether the other search has found nothing.
    pub(crate) fn is_simpler(&self, other: &Search, fibers: &UnitFibers) -> bool {
        let explained = |coded: &Coded| {
            let codes = coded.codes.iter().zip(&coded.explained).filter(|(_, explained)| **explained);
            codes.fold((0, 0), |(fibers, codes), (code, _)| (fibers + 1, codes + code.len()))
        };
        if self.count() == 0 || other.count() == 0 {
            return self.count() > 0;
        }
        let coded = self.encode(fibers, None);
        let ((own, codes), (others, other_codes)) =
            (explained(&coded), explained(&other.encode(fibers, None)));
        // Fewer codes in each fiber, on the average.
        coded.close() && own >= others && codes * others < other_codes * own
    }

    /// The 10th percentile of |r| / |y| over fibers with a code, 0 if there is none.
    ///
    /// Long noise makes all residuals long, however good the codes are. The shortest residuals contain noise only.
    fn shortest_residual(&self, fibers: &UnitFibers) -> f32 {
        let coded = self.encode(fibers, None);
        let lengths = coded.residual_lengths.iter().zip(&coded.codes).filter(|(_, code)| !code.is_empty());
        let mut lengths: Vec<f32> = lengths.map(|(length, _)| *length).collect();
        let tenth = lengths.len() / 10;
        if lengths.is_empty() { 0.0 } else { *lengths.select_nth_unstable_by(tenth, f32::total_cmp).1 }
    }

    /// Probes, accepts and refines until [`MAX_MISSES`] rounds bring no new pattern.
    fn probe_rounds(&mut self, fibers: &UnitFibers, null: &mut NullModel) {
        let mut probed = vec![false; fibers.len()];
        let mut misses = 0;
        null.prepare(fibers.len().min(MAX_FIBERS_PER_ROUND));
        if let (0, Some(direction)) = (self.count(), &null.single_direction) {
            self.patterns.extend_from_slice(direction);
            self.evidence.push((1.0 / SINGLE_DIRECTION) as f32);
        }
        let mut coded = self.encode(fibers, None);
        while misses < MAX_MISSES && !self.stop.is_set() {
            let sample = self.sample_unexplained(&coded);
            let unprobed: Vec<usize> = (0..sample.len()).filter(|&at| !probed[sample[at]]).collect();
            if sample.len() < 2 || unprobed.is_empty() || self.count() >= self.max_patterns {
                return;
            }
            let residuals = self.unit_residuals(&coded, &sample, null);
            let count = unprobed.len().min(MIN_PROBES.max(self.count() / 2));
            let chosen = index::sample(&mut self.rng, unprobed.len(), count);
            let mut probes = Vec::with_capacity(self.n * count);
            for at in chosen.iter().map(|at| unprobed[at]) {
                probed[sample[at]] = true;
                probes.extend_from_slice(&residuals[at * self.n..][..self.n]);
            }
            let threshold = null.threshold(sample.len());
            let peaks = climb(&residuals, probes, self.n);
            if self.accept(peaks, &threshold, null) == 0 {
                misses += 1;
                continue;
            }
            misses = 0;
            probed.fill(false);
            coded = self.encode(fibers, None);
            self.refine(&coded);
            coded = self.encode(fibers, None);
        }
    }

    /// The unexplained fibers, or a random sample of [`MAX_FIBERS_PER_ROUND`] of them, in increasing order.
    fn sample_unexplained(&mut self, coded: &Coded) -> Vec<usize> {
        let all = coded.unexplained();
        if all.len() <= MAX_FIBERS_PER_ROUND {
            return all;
        }
        let mut sample = index::sample(&mut self.rng, all.len(), MAX_FIBERS_PER_ROUND).into_vec();
        sample.sort_unstable();
        sample.into_iter().map(|at| all[at]).collect()
    }

    /// Residuals of some fibers, without the directions that most fibers share, scaled to unit length.
    fn unit_residuals(&self, coded: &Coded, fibers: &[usize], null: &NullModel) -> Vec<f32> {
        let n = self.n;
        let mut residuals = Vec::with_capacity(n * fibers.len());
        for &fiber in fibers {
            let from = residuals.len();
            residuals.extend_from_slice(&coded.residuals[fiber * n..][..n]);
            null.flattening.apply(&mut residuals[from..]);
            normalise(&mut residuals[from..]);
        }
        residuals
    }

    /// Adds the peaks that pass the threshold and are not near a pattern already there, highest first. Returns their
    /// number.
    ///
    /// While there are fewer than `min_patterns` patterns and no peak passes, the highest other peak is added.
    fn accept(&mut self, peaks: Vec<Peak>, threshold: &Threshold, null: &NullModel) -> usize {
        let mut peaks: Vec<(bool, Peak)> =
            peaks.into_iter().map(|peak| (threshold.passed_by(&peak), peak)).collect();
        peaks.sort_by(|(passed, peak), (other_passed, other)| {
            other_passed.cmp(passed).then(other.evidence.total_cmp(&peak.evidence))
        });
        let known = self.count();
        for (passed, mut peak) in peaks {
            let required = self.count() == known && known < self.min_patterns && peak.fibers >= 2;
            null.flattening.undo(&mut peak.direction);
            normalise(&mut peak.direction);
            let near = |i: usize| {
                let limit = if i < known { MAX_COSINE_KNOWN } else { MAX_COSINE_NEW };
                dot(self.pattern(i), &peak.direction).abs() > limit
            };
            if (passed || required) && self.count() < self.max_patterns && !(0..self.count()).any(near) {
                let evidence = peak.evidence / threshold.evidence;
                self.patterns.extend_from_slice(&peak.direction);
                self.evidence.push(if passed { evidence } else { evidence.min(1.0) });
            }
        }
        self.count() - known
    }

    /// Codes fibers by orthogonal matching pursuit. If given, `without[f]` is a pattern that fiber f must not use.
    pub(crate) fn encode(&self, fibers: &UnitFibers, without: Option<&[usize]>) -> Coded {
        let (n, m) = (self.n, self.count());
        let pursuit = Pursuit::new(n, m, self.gram(), self.any_cosine && self.scale.is_some());
        let mut residuals = fibers.values.clone();
        let mut codes: Vec<Vec<(u32, f32)>> = vec![Vec::new(); fibers.len()];
        let mut lengths = vec![1.0; fibers.len()];
        let pieces = residuals.par_chunks_mut(n * BLOCK).zip(codes.par_chunks_mut(BLOCK));
        let blocks = pieces.zip(lengths.par_chunks_mut(BLOCK)).zip(fibers.lengths.par_chunks(BLOCK));
        blocks.enumerate().for_each(|(block, (((residuals, codes), lengths), fiber_lengths))| {
            if m == 0 {
                return;
            }
            let mut correlations = vec![0.0; m * codes.len()];
            transposed_product(&mut correlations, &self.patterns, residuals, n);
            let mut scratch = vec![0.0; m];
            for (at, (d, code)) in correlations.chunks_exact(m).zip(codes).enumerate() {
                let without = without.map(|without| without[block * BLOCK + at]);
                let unknown = MIN_CODE.min(self.max_residual);
                let min_code =
                    self.scale.map_or(unknown, |scale| (0.5 * scale.code / fiber_lengths[at]) as f32);
                pursuit.run(d, without, min_code, code, &mut scratch);
                let r = &mut residuals[at * n..][..n];
                for &(i, x) in code.iter() {
                    r.iter_mut().zip(self.pattern(i as usize)).for_each(|(r, a)| *r -= x * a);
                }
                lengths[at] = dot(r, r).sqrt();
            }
        });
        let explained = lengths.iter().zip(&fibers.lengths).map(|(&share, &length)| match self.scale {
            Some(scale) => scale.explains(length, share as f64 * length),
            None => share <= self.max_residual,
        });
        let explained = explained.collect();
        Coded { codes, residuals, residual_lengths: lengths, explained }
    }

    /// Moves every pattern that is not fixed by its explained fibers: A_i += sum_f r_f sign(x_if) / sum_f |x_if|.
    fn refine(&mut self, coded: &Coded) {
        let n = self.n;
        let shown = coded.by_pattern(self.count());
        let fixed = self.fixed;
        self.patterns.par_chunks_exact_mut(n).zip(shown).skip(fixed).for_each(|(pattern, shown)| {
            let weight: f32 = shown.iter().map(|(_, x)| x.abs()).sum();
            let old = pattern.to_vec();
            for (fiber, x) in shown {
                let r = &coded.residuals[fiber * n..][..n];
                pattern.iter_mut().zip(r).for_each(|(a, r)| *a += x.signum() / weight * r);
            }
            if !normalise(pattern) {
                pattern.copy_from_slice(&old);
            }
        });
    }

    /// Drops every pattern that fewer than two fibers use, or that up to three more frequent patterns explain.
    fn drop_redundant(&mut self, coded: &Coded) {
        let m = self.count();
        let used: Vec<usize> = coded.by_pattern(m).iter().map(Vec::len).collect();
        let gram = self.gram();
        let mut keep = vec![true; m];
        for w in self.fixed..m {
            let more_frequent =
                |i: usize| i < self.fixed || used[i] > used[w] || (used[i] == used[w] && i < w);
            // <A_i, A_w> for the patterns i that may explain pattern w, 0 for all others.
            let d: Vec<f32> = (0..m).map(|i| if more_frequent(i) { gram[w * m + i] } else { 0.0 }).collect();
            let square = squared_residual(&d, &gram, &keep);
            keep[w] = used[w] >= 2 && square > REDUNDANT_RESIDUAL * REDUNDANT_RESIDUAL;
        }
        self.keep(&keep);
    }

    /// Drops pattern i unless `keep[i]`.
    fn keep(&mut self, keep: &[bool]) {
        let n = self.n;
        let kept = self.patterns.chunks_exact(n).zip(keep).filter(|(_, keep)| **keep);
        self.patterns = kept.flat_map(|(pattern, _)| pattern.to_vec()).collect();
        let mut at = keep.iter();
        self.evidence.retain(|_| *at.next().unwrap_or(&true));
    }

    /// Keeps the `count` patterns that explain most energy, and refines them without the others.
    pub(crate) fn keep_strongest(&mut self, fibers: &UnitFibers, count: usize) {
        let energies = self.coverage(fibers).energies;
        let mut order: Vec<usize> = (0..self.count()).collect();
        order.sort_by(|&a, &b| energies[b].total_cmp(&energies[a]));
        let mut keep = vec![false; self.count()];
        order.iter().take(count).for_each(|&pattern| keep[pattern] = true);
        self.keep(&keep);
        for _ in 0..3 {
            let coded = self.encode(fibers, None);
            self.refine(&coded);
        }
    }

    /// Measures how much of the fibers the patterns explain.
    pub(crate) fn coverage(&self, fibers: &UnitFibers) -> Coverage {
        let coded = self.encode(fibers, None);
        let (energies, shown) = (vec![0.0; self.count()], vec![0; self.count()]);
        let mut coverage = Coverage { energies, shown, fibers: fibers.len(), ..Coverage::default() };
        for (fiber, code) in coded.codes.iter().enumerate() {
            let (y, energy) = (fibers.get(fiber), fibers.lengths[fiber].powi(2));
            // |y|^2 - |r|^2 = sum_i x_i <A_i, y>, because x is a least-squares solution.
            for &(i, x) in code {
                coverage.energies[i as usize] += energy * (x * dot(self.pattern(i as usize), y)) as f64;
                coverage.shown[i as usize] += 1;
            }
            coverage.energy += energy;
            coverage.residual_energy += energy * (coded.residual_lengths[fiber] as f64).powi(2);
            coverage.explained += usize::from(coded.explained[fiber]);
            let few = (2 * code.len()).pow(2) <= self.n && 2 * code.len() <= fibers.entries(fiber);
            coverage.few += usize::from(coded.explained[fiber] && few);
        }
        coverage
    }

    /// The patterns that were not given, n values each. The sign of a pattern is arbitrary; here the entry of largest
    /// magnitude is positive, because people expect that.
    pub(crate) fn new_patterns(&self) -> Vec<f64> {
        let mut found: Vec<f64> = self.patterns[self.fixed * self.n..].iter().map(|&a| a as f64).collect();
        for pattern in found.chunks_exact_mut(self.n) {
            let largest =
                pattern.iter().fold(0.0, |most: f64, a| if a.abs() > most.abs() { *a } else { most });
            if largest < 0.0 {
                pattern.iter_mut().for_each(|a| *a = -*a);
            }
        }
        found
    }

    /// For each pattern that was not given, the explained fibers with its largest codes, [`MAX_STRONGEST_FIBERS`] at
    /// most.
    pub(crate) fn strongest_fibers(&self, fibers: &UnitFibers) -> Vec<Vec<usize>> {
        let mut shown = self.encode(fibers, None).by_pattern(self.count());
        let best = |mut shown: Vec<(usize, f32)>| {
            shown.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()).then(a.0.cmp(&b.0)));
            shown.into_iter().take(MAX_STRONGEST_FIBERS).map(|shown| shown.0).collect()
        };
        shown.drain(self.fixed..).map(best).collect()
    }

    /// Returns for each pattern whether the given fibers confirm it.
    ///
    /// `shown[f]` is the pattern that fiber f shows; fibers of one pattern are neighbors. Every fiber is coded
    /// without that pattern. A pattern is confirmed if two of its fibers are unexplained then and their residuals are
    /// more alike than chance allows.
    pub(crate) fn confirmed(&self, fibers: &UnitFibers, shown: &[usize]) -> Vec<bool> {
        let n = self.n;
        // About the largest |cos| of a direction with as many random fibers.
        let chance = (2.0 * (2.0 * fibers.len() as f32).ln() / n as f32).sqrt();
        let coded = self.encode(fibers, Some(shown));
        let lengths = &coded.residual_lengths;
        let mut confirmed = vec![false; self.count()];
        let all: Vec<usize> = (0..fibers.len()).collect();
        for same in all.chunk_by(|&a, &b| shown[a] == shown[b]) {
            // The factor 1.1 makes it easier to keep a pattern than to find it, so that patterns do not come and go.
            let is_unexplained = |fiber: &&usize| {
                let (length, share) = (fibers.lengths[**fiber], lengths[**fiber] as f64);
                self.scale.is_some_and(|scale| !scale.explains(length, 1.1 * share * length))
            };
            let unexplained: Vec<usize> = same.iter().filter(is_unexplained).copied().collect();
            let r = |fiber: usize| &coded.residuals[fiber * n..][..n];
            let alike = |a: usize, b: usize| dot(r(a), r(b)).abs() > chance * lengths[a] * lengths[b];
            confirmed[shown[same[0]]] =
                (0..unexplained.len()).any(|at| unexplained[..at].iter().any(|&b| alike(unexplained[at], b)));
        }
        confirmed
    }

    /// Returns those of the `doubtful` patterns that the other patterns can replace, by increasing number.
    ///
    /// `shown[f]` is the pattern that fiber f shows. Patterns go one by one, first those that are missed least, so that
    /// of two patterns that explain the same fibers one stays. A pattern goes only if its fibers, and those of the
    /// patterns that went before it, are explained as well as by all patterns.
    pub(crate) fn dispensable(&self, fibers: &UnitFibers, shown: &[usize], doubtful: &[usize]) -> Vec<usize> {
        let of = |patterns: &[usize]| {
            let numbers: Vec<usize> =
                (0..fibers.len()).filter(|&fiber| patterns.contains(&shown[fiber])).collect();
            let mut chosen = UnitFibers::new(self.n);
            chosen.take(fibers, &numbers);
            chosen
        };
        let alone = doubtful.iter().map(|&pattern| (self.loss(&of(&[pattern]), &[pattern]), pattern));
        let mut order: Vec<(f64, usize)> = alone.collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut gone = Vec::new();
        for (_, pattern) in order {
            gone.push(pattern);
            if self.loss(&of(&gone), &gone) > MAX_LOSS {
                gone.pop();
            }
        }
        gone.sort_unstable();
        gone
    }

    /// What fibers lose without some patterns: how much longer their squared residuals are, relative to the length of
    /// each fiber, in standard errors. What a code explains of a residual by chance is no loss.
    fn loss(&self, fibers: &UnitFibers, without: &[usize]) -> f64 {
        let kept = (0..self.count()).filter(|i| !without.contains(i));
        let patterns = kept.flat_map(|i| self.pattern(i).to_vec()).collect();
        let others = Search::new(self.n, patterns, self.scale, 0, 0).encode(fibers, None);
        let all = self.encode(fibers, None);
        let by_chance = 1.0 / self.n as f64;
        let (mut sum, mut squares) = (0.0, 0.0);
        for (other, own) in others.residual_lengths.iter().zip(&all.residual_lengths) {
            let (other, own) = ((*other as f64).powi(2), (*own as f64).powi(2));
            let lost = other - own - by_chance * own;
            sum += lost;
            squares += lost * lost;
        }
        if squares > 0.0 { sum / squares.sqrt() } else { 0.0 }
    }

    /// Indices of the fibers that the patterns do not explain.
    pub(crate) fn unexplained(&self, fibers: &UnitFibers) -> Vec<usize> {
        self.encode(fibers, None).unexplained()
    }
}

/// How much of some fibers the patterns explain.
#[derive(Default)]
pub(crate) struct Coverage {
    /// Energy that each pattern explains, in squared units of the data.
    pub(crate) energies: Vec<f64>,
    /// Number of fibers with a code of each pattern.
    pub(crate) shown: Vec<usize>,
    /// Energy of all fibers.
    pub(crate) energy: f64,
    /// Energy of all residuals.
    pub(crate) residual_energy: f64,
    /// Number of fibers.
    pub(crate) fibers: usize,
    /// Number of explained fibers.
    pub(crate) explained: usize,
    /// Number of explained fibers with few codes, compared with n and with the entries of the fiber.
    pub(crate) few: usize,
}

impl Coverage {
    /// Adds what the patterns explain of further fibers.
    pub(crate) fn add(&mut self, other: &Coverage) {
        self.energies.iter_mut().zip(&other.energies).for_each(|(sum, energy)| *sum += energy);
        self.shown.iter_mut().zip(&other.shown).for_each(|(sum, shown)| *sum += shown);
        self.energy += other.energy;
        self.residual_energy += other.residual_energy;
        self.fibers += other.fibers;
        self.explained += other.explained;
        self.few += other.few;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discover::unit_fibers::tests::fibers;

    fn search(patterns: &[f32], n: usize) -> Search {
        Search::new(n, patterns.to_vec(), None, 100, 1)
    }

    #[test]
    fn codes_are_least_squares_on_the_patterns_above_the_threshold() {
        let search = search(&[1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0], 4);
        // Fiber 0 has both patterns. Fiber 1 has pattern 1 below MIN_CODE. Fiber 2 has neither above MIN_CODE.
        let data = fibers(&[&[3.0, -4.0, 0.0, 0.0], &[1.0, 0.2, 0.0, 0.0], &[0.1, 0.0, 1.0, 0.0]]);
        let coded = search.encode(&data, None);
        let codes = |fiber: usize| coded.codes[fiber].iter().map(|&(i, _)| i).collect::<Vec<_>>();
        assert_eq!((codes(0), codes(1), codes(2)), (vec![1, 0], vec![0], vec![]));
        assert!((coded.codes[0][0].1 + 0.8).abs() < 1e-6 && coded.residual_lengths[0] < 1e-6);
        assert_eq!(coded.unexplained(), [2]);
        // Fiber 0 is unexplained if it must not use pattern 1.
        let coded = search.encode(&data, Some(&[1, 1, 1]));
        assert_eq!(coded.unexplained(), [0, 2]);
    }
}
