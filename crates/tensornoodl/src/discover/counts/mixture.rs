//! Patterns fitted to fibers of counts by expectation-maximization, while some cells are hidden.
//!
//! ```text
//! y_fq                          the events of feature f in fiber q, where the cell is not hidden
//! l_fq = sum_i A_fi x_iq        the expected number of events
//! d_iq = sum_f A_fi y_fq / l_fq
//! x_iq <- (a + x_iq d_iq) / (a / (N_q w_i) + share of pattern i that is not hidden in fiber q)
//! A_fi <- (P_fi + S_fi + mean_f) / (p_i + E_fi + 1), columns scaled to sum 1
//!         S_fi = sum_q A_fi x_iq y_fq / l_fq, E_fi = sum of x_iq over the fibers that show feature f,
//!         P_fi and p_i = sum_f P_fi: events of earlier steps
//! ```
//!
//! Patterns are found by starting with too many and merging the two that are most alike, again and again. That ends in
//! better optima than adding patterns one by one does, and it gives a fit for every smaller number on the way.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::discover::counts::hidden::HiddenCells;
use crate::encode::counts::{FeatureRows, LEAST, PRIOR_CODE, expected, log_likelihood};
use crate::linalg::vector::with_simd;

/// Iterations after each pattern that is added to a start.
const SEED_ITERATIONS: usize = 2;

/// Iterations after all patterns of a start were added.
const START_ITERATIONS: usize = 20;

/// Iterations after two patterns were merged.
const MERGE_ITERATIONS: usize = 10;

/// Above this number of patterns, an eighth of the patterns is merged at a time.
const MERGE_SINGLY: usize = 16;

/// The share of the fiber in a new pattern; the rest is the mean of all fibers.
const FIBER_SHARE: f64 = 0.8;

/// Patterns, and the codes of all fibers under them.
#[derive(Clone)]
pub(crate) struct Mixture {
    pub(crate) rows: FeatureRows,
    /// The code of each fiber, padded.
    codes: Vec<f64>,
    /// S (n x m), by features: how many events of each feature each pattern has.
    pub(crate) statistics: FeatureRows,
    /// P (n x m): events of earlier steps. Zero for new patterns.
    past: FeatureRows,
    /// The number of patterns that have a past, and are not merged with each other.
    fixed: usize,
}

impl Mixture {
    /// A single pattern: the mean of all fibers.
    pub(crate) fn mean(cells: &HiddenCells) -> Mixture {
        let rows = FeatureRows::from_columns(cells.features, &cells.mean);
        Mixture { fixed: 0, ..Mixture::with_past(cells, rows, FeatureRows::new(cells.features, 1)) }
    }

    /// Patterns that are known already, with the events of earlier steps that they were learned from.
    pub(crate) fn with_past(cells: &HiddenCells, rows: FeatureRows, past: FeatureRows) -> Mixture {
        let (m, stride) = (rows.patterns(), rows.stride());
        let mut codes = vec![0.0; cells.fibers() * stride];
        for (code, events) in codes.chunks_exact_mut(stride).zip(&cells.events) {
            code[..m].fill(events / m as f64);
        }
        Mixture { statistics: FeatureRows::new(cells.features, m), rows, codes, past, fixed: m }
    }

    /// m, the number of patterns.
    pub(crate) fn patterns(&self) -> usize {
        self.rows.patterns()
    }

    /// The code of a fiber, padded.
    pub(crate) fn code(&self, fiber: usize) -> &[f64] {
        &self.codes[fiber * self.rows.stride()..][..self.rows.stride()]
    }

    /// The number of events of each pattern.
    pub(crate) fn events(&self) -> Vec<f64> {
        let mut events = vec![0.0; self.rows.stride()];
        for code in self.codes.chunks_exact(self.rows.stride()) {
            events.iter_mut().zip(code).for_each(|(sum, x)| *sum += x);
        }
        events
    }

    /// For each fold, the part of each pattern that is hidden where the fold is hidden.
    fn hidden_parts(&self, cells: &HiddenCells) -> Vec<f64> {
        let stride = self.rows.stride();
        let mut parts = vec![0.0; cells.folds * stride];
        if cells.hidden_folds.is_some() {
            for (feature, &fold) in cells.feature_folds.iter().enumerate() {
                let part = &mut parts[fold * stride..][..stride];
                part.iter_mut().zip(self.rows.row(feature)).for_each(|(sum, a)| *sum += a);
            }
        }
        parts
    }

    /// Runs some iterations of expectation-maximization (counts:masked).
    pub(crate) fn iterate(&mut self, cells: &HiddenCells, iterations: usize) {
        for _ in 0..iterations {
            with_simd(
                #[inline(always)]
                || self.iterate_once(cells),
            );
        }
    }

    #[inline(always)]
    fn iterate_once(&mut self, cells: &HiddenCells) {
        let (m, stride) = (self.rows.patterns(), self.rows.stride());
        let hidden = self.hidden_parts(cells);
        let mut weights = self.events();
        let total: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|weight| *weight = (*weight / total).max(1e-6));
        let mut statistics = FeatureRows::new(cells.features, m);
        // The events of each pattern, by the fold that is hidden in the fiber.
        let mut by_fold = vec![0.0; cells.folds * stride];
        let mut divided = vec![0.0; stride];
        for (q, code) in self.codes.chunks_exact_mut(stride).enumerate() {
            divided.fill(0.0);
            for &(feature, y) in cells.seen(q) {
                let row = self.rows.row(feature as usize);
                let ratio = y / expected(row, code).max(LEAST);
                let sums = statistics.row_mut(feature as usize);
                for (((sum, share), a), x) in sums.iter_mut().zip(&mut divided).zip(row).zip(&*code) {
                    let part = ratio * a;
                    *share += part;
                    *sum += part * x;
                }
            }
            let fold = cells.fold(q) * stride;
            let parts = &hidden[fold..][..stride];
            let rate = PRIOR_CODE / cells.events[q];
            let by_fold = &mut by_fold[fold..][..stride];
            for ((((x, share), part), weight), sum) in
                code[..m].iter_mut().zip(&divided).zip(parts).zip(&weights).zip(by_fold)
            {
                *x = (PRIOR_CODE + *x * share) / (rate / weight + (1.0 - part).max(0.0));
                *sum += *x;
            }
        }
        self.statistics = statistics;
        self.update(cells, &by_fold);
    }

    /// Stage III: the patterns from the statistics.
    #[inline(always)]
    fn update(&mut self, cells: &HiddenCells, by_fold: &[f64]) {
        let (m, stride) = (self.rows.patterns(), self.rows.stride());
        let mut exposure = vec![0.0; stride];
        by_fold
            .chunks_exact(stride)
            .for_each(|sums| exposure.iter_mut().zip(sums).for_each(|(e, s)| *e += s));
        let mut past = vec![0.0; stride];
        for feature in 0..cells.features {
            past.iter_mut().zip(self.past.row(feature)).for_each(|(sum, p)| *sum += p);
        }
        let mut totals = vec![0.0; stride];
        let hides = cells.hidden_folds.is_some();
        for feature in 0..cells.features {
            let unseen = &by_fold[cells.feature_folds[feature] * stride..][..stride];
            let (s, p) = (self.statistics.row(feature), self.past.row(feature));
            for (i, a) in self.rows.row_mut(feature)[..m].iter_mut().enumerate() {
                let seen = exposure[i] - if hides { unseen[i] } else { 0.0 };
                *a = (s[i] + p[i] + cells.mean[feature]) / (seen.max(0.0) + past[i] + 1.0);
                totals[i] += *a;
            }
        }
        for feature in 0..cells.features {
            self.rows.row_mut(feature).iter_mut().zip(&totals).take(m).for_each(|(a, total)| *a /= total);
        }
    }

    /// The log-likelihood of all cells that are seen.
    pub(crate) fn log_likelihood(&self, cells: &HiddenCells) -> f64 {
        let hidden = self.hidden_parts(cells);
        let fiber = |q: usize| {
            let parts = &hidden[cells.fold(q) * self.rows.stride()..];
            let code = self.code(q);
            let seen: f64 = code.iter().zip(parts).map(|(x, part)| x * (1.0 - part)).sum();
            log_likelihood(&self.rows, cells.seen(q), code) - seen
        };
        (0..cells.fibers()).map(fiber).sum()
    }

    /// For each fiber, the log-likelihood of its hidden events (counts:score): how its events divide into seen and hidden
    /// ones, and the hidden ones among their cells.
    pub(crate) fn hidden_log_likelihoods(&self, cells: &HiddenCells) -> Vec<f64> {
        let hidden = self.hidden_parts(cells);
        let fiber = |q: usize| {
            let parts = &hidden[cells.fold(q) * self.rows.stride()..];
            let code = self.code(q);
            let all: f64 = code.iter().sum();
            let unseen: f64 = code.iter().zip(parts).map(|(x, part)| x * part).sum();
            let seen: f64 = cells.seen(q).iter().map(|entry| entry.1).sum();
            // The code of a fiber without seen events says nothing.
            if seen == 0.0 {
                return 0.0;
            }
            let events: f64 = cells.hidden(q).iter().map(|entry| entry.1).sum();
            let own = log_likelihood(&self.rows, cells.hidden(q), code) - events * all.ln();
            own + seen * ((all - unseen).max(LEAST) / all).ln()
        };
        (0..cells.fibers()).map(fiber).collect()
    }

    /// Half of the deviance of each fiber from its code.
    fn deviances(&self, cells: &HiddenCells) -> Vec<f64> {
        let fiber = |q: usize| {
            let code = self.code(q);
            let term = |&(feature, y): &(u32, f64)| {
                let l = expected(self.rows.row(feature as usize), code).max(LEAST);
                y * (y / l).ln() - y + l
            };
            cells.seen(q).iter().map(term).sum::<f64>().max(0.0)
        };
        (0..cells.fibers()).map(fiber).collect()
    }

    /// Adds patterns until there are `most`. Each is made from a fiber that is drawn in proportion to its deviance.
    pub(crate) fn overfill(&mut self, cells: &HiddenCells, most: usize, seed: u64) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        while self.patterns() < most {
            let deviances = self.deviances(cells);
            let mut left = rng.random::<f64>() * deviances.iter().sum::<f64>();
            let drawn = deviances.iter().position(|deviance| {
                left -= deviance;
                left < 0.0
            });
            self.push(cells, drawn.unwrap_or(0));
            self.iterate(cells, SEED_ITERATIONS);
        }
        self.iterate(cells, START_ITERATIONS);
    }

    /// Adds a pattern made from a fiber.
    fn push(&mut self, cells: &HiddenCells, fiber: usize) {
        let m = self.patterns();
        let mut pattern: Vec<f64> = cells.mean.iter().map(|share| (1.0 - FIBER_SHARE) * share).collect();
        let seen: f64 = cells.seen(fiber).iter().map(|entry| entry.1).sum();
        for &(feature, y) in cells.seen(fiber) {
            pattern[feature as usize] += FIBER_SHARE * y / seen;
        }
        let widened = |rows: &FeatureRows, last: &dyn Fn(usize) -> f64| {
            let mut wide = FeatureRows::new(cells.features, m + 1);
            for feature in 0..cells.features {
                wide.row_mut(feature)[..m].copy_from_slice(&rows.row(feature)[..m]);
                wide.row_mut(feature)[m] = last(feature);
            }
            wide
        };
        let (rows, past) = (widened(&self.rows, &|feature| pattern[feature]), widened(&self.past, &|_| 0.0));
        let stride = rows.stride();
        let mut codes = vec![0.0; cells.fibers() * stride];
        for (code, old) in codes.chunks_exact_mut(stride).zip(self.codes.chunks_exact(self.rows.stride())) {
            let all: f64 = old[..m].iter().sum();
            code[..m].iter_mut().zip(old).for_each(|(x, old)| *x = old * m as f64 / (m + 1) as f64);
            code[m] = all / (m + 1) as f64;
        }
        *self = Mixture { rows, codes, past, statistics: FeatureRows::new(cells.features, m + 1), ..*self };
    }

    /// Merges patterns until `least` are left. Returns the last fit, and what `judge` says of the fit for each
    /// number of patterns on the way, from `least` on. Where more than 16 patterns are left, some numbers are
    /// skipped. Patterns with a past are not merged with each other.
    pub(crate) fn merge_down<R>(
        mut self,
        cells: &HiddenCells,
        least: usize,
        judge: impl Fn(&Mixture) -> R,
    ) -> (Mixture, Vec<R>) {
        let mut judged = vec![judge(&self)];
        while self.patterns() > least {
            let m = self.patterns();
            let merges = if m > MERGE_SINGLY { (m / 8).min(m - least) } else { 1 };
            for _ in 0..merges {
                self.merge();
            }
            self.iterate(cells, MERGE_ITERATIONS);
            judged.push(judge(&self));
        }
        judged.reverse();
        (self, judged)
    }

    /// Merges the two patterns that are most alike: whose events lose least likelihood if they get one pattern. Patterns
    /// that the same fibers mix lose less than patterns of different fibers.
    fn merge(&mut self) {
        let (m, stride) = (self.patterns(), self.rows.stride());
        let events = self.events();
        let columns = self.rows.columns();
        let n = columns.len() / m;
        let column = |i: usize| &columns[i * n..(i + 1) * n];
        let mut best = (f64::INFINITY, 0, 1);
        for j in self.fixed.max(1)..m {
            for i in 0..j {
                let pure = merge_loss(column(i), column(j), events[i], events[j], i < self.fixed);
                let loss = pure * self.separation(i, j, events[i], events[j]);
                if loss < best.0 {
                    best = (loss, i, j);
                }
            }
        }
        let (_, into, lost) = best;
        let (own, other) = (events[into], events[lost]);
        let fixed = into < self.fixed;
        let narrowed = |rows: &FeatureRows, merged: &dyn Fn(&[f64]) -> f64| {
            let mut narrow = FeatureRows::new(n, m - 1);
            for feature in 0..n {
                let row = rows.row(feature);
                let kept = (0..m).filter(|i| *i != lost);
                let values = kept.map(|i| if i == into { merged(row) } else { row[i] });
                narrow.row_mut(feature).iter_mut().zip(values).for_each(|(to, value)| *to = value);
            }
            narrow
        };
        let mean = |row: &[f64]| match fixed {
            true => row[into],
            false => (own * row[into] + other * row[lost]) / (own + other),
        };
        let (rows, past) = (narrowed(&self.rows, &mean), narrowed(&self.past, &|row| row[into]));
        let mut codes = vec![0.0; self.codes.len() / stride * rows.stride()];
        for (code, old) in codes.chunks_exact_mut(rows.stride()).zip(self.codes.chunks_exact(stride)) {
            let kept = (0..m).filter(|i| *i != lost);
            let values = kept.map(|i| if i == into { old[into] + old[lost] } else { old[i] });
            code.iter_mut().zip(values).for_each(|(to, value)| *to = value);
        }
        *self = Mixture { rows, codes, past, statistics: FeatureRows::new(n, m - 1), ..*self };
    }

    /// How far the fibers tell two patterns apart: 1 if each fiber has events of one of them only, 0 if all fibers mix
    /// both in the same proportion. It is the standard deviation over fibers of the share of the first one among their
    /// events, over its largest possible value.
    fn separation(&self, i: usize, j: usize, first: f64, second: f64) -> f64 {
        let all = first + second;
        if first <= 0.0 || second <= 0.0 {
            return 0.0;
        }
        let share = |code: &[f64]| if code[i] > 0.0 { code[i] * code[i] / (code[i] + code[j]) } else { 0.0 };
        let squares: f64 = self.codes.chunks_exact(self.rows.stride()).map(share).sum();
        ((squares - first * first / all) / (first * second / all)).clamp(0.0, 1.0).sqrt()
    }
}

/// The log-likelihood that is lost if two patterns with these numbers of events are replaced by their mean, or by the
/// first one if that is fixed.
pub(crate) fn merge_loss(a: &[f64], b: &[f64], events_a: f64, events_b: f64, fixed: bool) -> f64 {
    let all = (events_a + events_b).max(LEAST);
    let term = |(&a, &b): (&f64, &f64)| {
        let mean = if fixed { a } else { (events_a * a + events_b * b) / all }.max(LEAST);
        let loss =
            |events: f64, share: f64| if share > 0.0 { events * share * (share / mean).ln() } else { 0.0 };
        loss(events_b, b) + if fixed { 0.0 } else { loss(events_a, a) }
    };
    a.iter().zip(b).map(term).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discover::counts::hidden::CountFibers;
    use crate::shape::Place;

    /// A fit with given patterns and codes of fibers.
    fn fit(patterns: &[[f64; 3]; 3], codes: &[[f64; 3]]) -> Mixture {
        let mut fibers = CountFibers::new(3);
        for (col, code) in codes.iter().enumerate() {
            let cell = |feature: usize| {
                let parts = patterns.iter().zip(code).map(|(pattern, x)| pattern[feature] * x);
                (feature as u32, parts.sum())
            };
            fibers.fibers.push(&[cell(0), cell(1), cell(2)]);
            fibers.places.push(Place { row: 0, col: col as u32 });
        }
        let cells = HiddenCells::none(&fibers);
        let rows = FeatureRows::from_columns(3, &patterns.concat());
        let past = FeatureRows::new(3, 3);
        let mut fit = Mixture { fixed: 0, ..Mixture::with_past(&cells, rows, past) };
        let stride = fit.rows.stride();
        for (to, code) in fit.codes.chunks_exact_mut(stride).zip(codes) {
            to[..3].copy_from_slice(code);
        }
        fit
    }

    #[test]
    fn patterns_that_the_same_fibers_mix_are_merged_first() {
        // The shapes of the last two patterns are more alike than those of the first two.
        let patterns = [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.6, 0.3]];
        let mut fit = fit(&patterns, &[[10.0, 10.0, 0.0], [20.0, 20.0, 0.0], [0.0, 0.0, 30.0]]);
        fit.merge();
        assert_eq!(fit.patterns(), 2);
        assert_eq!(fit.code(0)[..2], [20.0, 0.0]);
        assert_eq!(fit.code(2)[..2], [0.0, 30.0]);
    }

    #[test]
    fn patterns_of_different_fibers_are_merged_by_shape() {
        let patterns = [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.6, 0.3]];
        let mut fit = fit(&patterns, &[[10.0, 0.0, 0.0], [0.0, 20.0, 0.0], [0.0, 0.0, 30.0]]);
        fit.merge();
        assert_eq!([fit.code(0)[0], fit.code(1)[1], fit.code(2)[1]], [10.0, 20.0, 30.0]);
    }
}
