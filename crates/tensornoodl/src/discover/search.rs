//! Patterns from nothing: what do fibers have in common that the dictionary does not explain?
//!
//! A pattern is a direction that several fibers share. Every fiber contains some, so that what is left of a
//! fiber after coding, r, is a probe: from u = r / |r| we climb to a local maximum of sum_f cos(u, r_f)^4, where
//! fibers that share a pattern outweigh all others. Whether the top is more than chance, a null tells:
//! the same climb among Gaussian fibers of the same covariance. Accepted directions join the
//! dictionary, the fibers are coded again, and only those that are still unexplained are probed
//! further; so a handful of probes per pattern is enough.
//!
//! All of it is relative to a fiber's own length, so that the scale of the data does not matter, and in
//! single precision: the learner makes what is found exact.

use rand::SeedableRng;
use rand::seq::index;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::discover::null::{NullModel, ONLY, Top, climb};
use crate::discover::scale::Scale;
use crate::discover::unit_fibers::{BLOCK, Fibers, dot, normalise};
use crate::linalg::product::transposed_product;
use crate::stop::Stop;

/// While nothing is known of codes and noise, a fiber whose residual is longer than this share of it is unexplained,
/// unless most residuals are that long.
const UNEXPLAINED: f32 = 0.5;

/// And then this long at most.
const MOST_REST: f32 = 0.95;

/// Unexplained fibers that one round looks at.
const MOST_IN_ROUND: usize = 12_000;

/// Probes of a round, at least.
const PROBES: usize = 64;

/// Codes of a fiber, at most.
const MOST_CODES: usize = 6;

/// The smallest code that counts, relative to the length of the fiber.
pub(crate) const LEAST_CODE: f32 = 0.3;

/// Fibers that stand for a young pattern when it is found.
const FOUNDERS: usize = 4;

/// The dictionary of a search.
pub(crate) struct Search {
    pub(crate) n: usize,
    /// Unit columns.
    pub(crate) patterns: Vec<f32>,
    /// The first patterns are known from elsewhere, and stay as they are.
    pub(crate) fixed: usize,
    /// There may be so many patterns in all.
    pub(crate) most: usize,
    /// So many are taken even if chance finds as clear ones.
    pub(crate) least: usize,
    rng: ChaCha8Rng,
    scale: Option<Scale>,
    /// Without a scale: the share of an explained fiber that may be left.
    rest: f32,
    /// Of each pattern: what it had for itself when it was accepted, relative to the null.
    pub(crate) evidence: Vec<f32>,
    /// What is found after it is set is of no use.
    pub(crate) stop: Stop,
}

/// Codes of fibers, and what they leave.
pub(crate) struct Coded {
    pub(crate) codes: Vec<Vec<(u32, f32)>>,
    residuals: Vec<f32>,
    /// Relative to the fibers.
    lengths: Vec<f32>,
    pub(crate) explained: Vec<bool>,
}

impl Coded {
    fn unexplained(&self) -> Vec<usize> {
        (0..self.explained.len()).filter(|&fiber| !self.explained[fiber]).collect()
    }
}

impl Search {
    pub(crate) fn new(n: usize, known: Vec<f32>, scale: Option<Scale>, most: usize, seed: u64) -> Search {
        let (fixed, rng) = (known.len() / n, ChaCha8Rng::seed_from_u64(seed));
        let evidence = vec![0.0; fixed];
        let (rest, stop) = (UNEXPLAINED, Stop::default());
        Search { n, patterns: known, fixed, most, least: 0, rng, scale, rest, evidence, stop }
    }

    pub(crate) fn count(&self) -> usize {
        self.patterns.len() / self.n
    }

    pub(crate) fn pattern(&self, i: usize) -> &[f32] {
        &self.patterns[i * self.n..][..self.n]
    }

    /// What the codes say of the units of the data; from now on, they decide what is explained.
    pub(crate) fn measure(&mut self, fibers: &Fibers) -> Option<Scale> {
        let coded = self.encode(fibers, None);
        let (mut sizes, mut rests) = (Vec::new(), Vec::new());
        for (fiber, code) in coded.codes.iter().enumerate().filter(|(fiber, _)| coded.explained[*fiber]) {
            sizes.extend(code.iter().map(|(_, x)| x.abs() as f64 * fibers.lengths[fiber]));
            rests.push(coded.lengths[fiber] as f64 * fibers.lengths[fiber]);
        }
        let quantile = |values: &mut Vec<f64>, share: f64| {
            values.sort_by(f64::total_cmp);
            values.get((share * values.len() as f64) as usize).copied()
        };
        let (code, usual) = (quantile(&mut sizes, 0.01)?, quantile(&mut sizes, 0.5)?);
        let noise = quantile(&mut rests, 0.5)?;
        self.scale = Some(Scale { n: self.n, code, floor: usual.min(2.0 * code), noise });
        self.scale
    }

    /// Finds what is in these fibers; returns those that stay unexplained.
    pub(crate) fn run(&mut self, fibers: &Fibers, null: &mut NullModel) -> Vec<usize> {
        loop {
            let before = self.count();
            self.rounds(fibers, null);
            if self.stop.is_set() {
                return Vec::new();
            }
            let rest = self.shortest_rest(fibers);
            for _ in 0..3 {
                let coded = self.encode(fibers, None);
                self.step(&coded);
                let coded = self.encode(fibers, None);
                self.swap(&coded);
                self.drop_unused(&coded);
            }
            let coded = self.encode(fibers, None);
            let left = coded.unexplained();
            // A pattern dropped wrongly is found again.
            if self.count() > before && left.len() >= 2 {
                continue;
            }
            // Unless most fibers are explained, noise may be too long to explain any.
            let rest = (1.1 * rest).min(MOST_REST);
            if self.scale.is_some() || 2 * left.len() < fibers.len() || rest <= self.rest {
                return left;
            }
            self.rest = rest;
        }
    }

    /// Where noise is long, the residuals of all fibers are, however well they are coded; those that hold nothing else
    /// are the shortest. The share that is left of these.
    fn shortest_rest(&self, fibers: &Fibers) -> f32 {
        let coded = self.encode(fibers, None);
        let shares = coded.lengths.iter().zip(&coded.codes).filter(|(_, code)| !code.is_empty());
        let mut shares: Vec<f32> = shares.map(|(share, _)| *share).collect();
        let tenth = shares.len() / 10;
        if shares.is_empty() { 0.0 } else { *shares.select_nth_unstable_by(tenth, f32::total_cmp).1 }
    }

    /// Probes until nothing more is found.
    fn rounds(&mut self, fibers: &Fibers, null: &mut NullModel) {
        let n = self.n;
        let mut probed = vec![false; fibers.len()];
        let mut misses = 0;
        null.prepare(fibers.len().min(MOST_IN_ROUND));
        if let (0, Some(only)) = (self.count(), &null.only) {
            self.patterns.extend_from_slice(only);
            self.evidence.push((1.0 / ONLY) as f32);
        }
        let mut coded = self.encode(fibers, None);
        while misses < 2 && !self.stop.is_set() {
            let all = coded.unexplained();
            let few: Vec<usize> = if all.len() <= MOST_IN_ROUND {
                all
            } else {
                let mut some = index::sample(&mut self.rng, all.len(), MOST_IN_ROUND).into_vec();
                some.sort_unstable();
                some.into_iter().map(|at| all[at]).collect()
            };
            let fresh: Vec<usize> = (0..few.len()).filter(|&at| !probed[few[at]]).collect();
            if few.len() < 2 || fresh.is_empty() || self.count() >= self.most {
                return;
            }
            let mut rest = Vec::with_capacity(n * few.len());
            for &fiber in &few {
                let from = rest.len();
                rest.extend_from_slice(&coded.residuals[fiber * n..][..n]);
                null.flat.apply(&mut rest[from..]);
                normalise(&mut rest[from..]);
            }
            let count = fresh.len().min(PROBES.max(self.count() / 2));
            let chosen = index::sample(&mut self.rng, fresh.len(), count);
            let mut probes = Vec::with_capacity(n * count);
            for at in chosen.iter().map(|at| fresh[at]) {
                probed[few[at]] = true;
                probes.extend_from_slice(&rest[at * n..][..n]);
            }
            let threshold = null.threshold(few.len());
            let tops = climb(&rest, probes, n).into_iter();
            let mut tops: Vec<(bool, Top)> = tops.map(|top| (threshold.passed_by(&top), top)).collect();
            tops.sort_by(|(clear, top), (other_clear, other)| {
                other_clear.cmp(clear).then(other.evidence.total_cmp(&top.evidence))
            });
            let known = self.count();
            for (clear, mut top) in tops {
                // What chance finds as well is taken if it is asked for, one at a time.
                let asked = self.count() == known && known < self.least && top.fibers >= 2;
                null.flat.undo(&mut top.direction);
                normalise(&mut top.direction);
                let near =
                    |i: usize| dot(self.pattern(i), &top.direction).abs() > if i < known { 0.7 } else { 0.5 };
                if (clear || asked) && self.count() < self.most && !(0..self.count()).any(near) {
                    let evidence = top.evidence / threshold.evidence;
                    self.patterns.extend_from_slice(&top.direction);
                    self.evidence.push(if clear { evidence } else { evidence.min(1.0) });
                }
            }
            if self.count() == known {
                misses += 1;
                continue;
            }
            misses = 0;
            probed.fill(false);
            coded = self.encode(fibers, None);
            self.step(&coded);
            coded = self.encode(fibers, None);
        }
    }

    /// Orthogonal matching pursuit. Each fiber may have a pattern that it has to do without.
    pub(crate) fn encode(&self, fibers: &Fibers, without: Option<&[usize]>) -> Coded {
        let (n, m) = (self.n, self.count());
        let mut gram = vec![0.0; m * m];
        if m > 0 {
            transposed_product(&mut gram, &self.patterns, &self.patterns, n);
        }
        // In few dimensions chance comes near to everything.
        let noise = (2.0 * (20.0 * m as f32).ln() / n as f32).sqrt().min(0.7);
        let mut residuals = fibers.values.clone();
        let mut codes: Vec<Vec<(u32, f32)>> = vec![Vec::new(); fibers.len()];
        let mut lengths = vec![1.0; fibers.len()];
        let pieces = residuals.par_chunks_mut(n * BLOCK).zip(codes.par_chunks_mut(BLOCK));
        let blocks = pieces.zip(lengths.par_chunks_mut(BLOCK)).zip(fibers.lengths.par_chunks(BLOCK));
        blocks.enumerate().for_each(|(block, (((residuals, codes), lengths), own))| {
            if m == 0 {
                return;
            }
            let mut scores = vec![0.0; m * codes.len()];
            transposed_product(&mut scores, &self.patterns, residuals, n);
            let mut left = vec![0.0; m];
            for (at, (d, code)) in scores.chunks_exact(m).zip(codes).enumerate() {
                let without = without.map(|without| without[block * BLOCK + at]);
                left.copy_from_slice(d);
                without.iter().for_each(|&w| left[w] = 0.0);
                let least = self.scale.map_or(LEAST_CODE, |scale| (0.5 * scale.code / own[at]) as f32);
                let mut square = 1.0_f32;
                while code.len() < MOST_CODES {
                    let (i, score) = largest(&left);
                    let taken = code.iter().any(|entry| entry.0 == i);
                    if taken || score < least.max(noise * square.sqrt()) {
                        break;
                    }
                    code.push((i, 0.0));
                    if !solve(code, d, &gram, m) {
                        code.pop();
                        solve(code, d, &gram, m);
                        break;
                    }
                    left.copy_from_slice(d);
                    for &(i, x) in code.iter() {
                        let column = &gram[i as usize * m..][..m];
                        left.iter_mut().zip(column).for_each(|(left, g)| *left -= x * g);
                    }
                    without.iter().for_each(|&w| left[w] = 0.0);
                    square = (1.0 - code.iter().map(|&(i, x)| x * d[i as usize]).sum::<f32>()).max(0.0);
                }
                let r = &mut residuals[at * n..][..n];
                for &(i, x) in code.iter() {
                    r.iter_mut().zip(self.pattern(i as usize)).for_each(|(r, a)| *r -= x * a);
                }
                lengths[at] = dot(r, r).sqrt();
            }
        });
        let explained = lengths.iter().zip(&fibers.lengths).map(|(&share, &own)| match self.scale {
            Some(scale) => scale.explains(own, share as f64 * own),
            None => share <= self.rest,
        });
        let explained = explained.collect();
        Coded { codes, residuals, lengths, explained }
    }

    /// A_i += sum r sign(x_i) / sum |x_i|, over explained fibers.
    fn step(&mut self, coded: &Coded) {
        let n = self.n;
        let mut shown = vec![Vec::new(); self.count()];
        for (fiber, code) in coded.codes.iter().enumerate() {
            if coded.explained[fiber] {
                code.iter().for_each(|&(i, x)| shown[i as usize].push((fiber, x)));
            }
        }
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

    /// Patterns that fewer than two fibers show, or that others explain, are none.
    fn drop_unused(&mut self, coded: &Coded) {
        let (n, m) = (self.n, self.count());
        let mut used = vec![0; m];
        for (code, &explained) in coded.codes.iter().zip(&coded.explained) {
            if explained {
                code.iter().for_each(|entry| used[entry.0 as usize] += 1);
            }
        }
        let mut gram = vec![0.0; m * m];
        if m > 0 {
            transposed_product(&mut gram, &self.patterns, &self.patterns, n);
        }
        let mut keep = vec![true; m];
        for w in self.fixed..m {
            let d: Vec<f32> = (0..m)
                .map(|i| {
                    if i < self.fixed || used[i] > used[w] || (used[i] == used[w] && i < w) {
                        gram[w * m + i]
                    } else {
                        0.0
                    }
                })
                .collect();
            let mut left = d.clone();
            let mut code: Vec<(u32, f32)> = Vec::new();
            let mut square = 1.0;
            while code.len() < 3 {
                let (i, score) = largest(&left);
                if score < LEAST_CODE || code.iter().any(|entry| entry.0 == i) || !keep[i as usize] {
                    break;
                }
                code.push((i, 0.0));
                if !solve(&mut code, &d, &gram, m) {
                    break;
                }
                for l in 0..m {
                    left[l] = if d[l] == 0.0 {
                        0.0
                    } else {
                        d[l] - code.iter().map(|&(i, x)| x * gram[i as usize * m + l]).sum::<f32>()
                    };
                }
                square = 1.0 - code.iter().map(|&(i, x)| x * d[i as usize]).sum::<f32>();
            }
            keep[w] = used[w] >= 2 && square > 0.35 * 0.35;
        }
        self.keep(&keep);
    }

    fn keep(&mut self, keep: &[bool]) {
        let n = self.n;
        let kept = self.patterns.chunks_exact(n).zip(keep).filter(|(_, keep)| **keep);
        self.patterns = kept.flat_map(|(pattern, _)| pattern.to_vec()).collect();
        let mut at = keep.iter();
        self.evidence.retain(|_| *at.next().unwrap_or(&true));
    }

    /// Keeps those patterns that explain most, and fits them again without the others.
    pub(crate) fn keep_strongest(&mut self, fibers: &Fibers, count: usize) {
        let energies = self.account(fibers).energies;
        let mut order: Vec<usize> = (0..self.count()).collect();
        order.sort_by(|&a, &b| energies[b].total_cmp(&energies[a]));
        let mut keep = vec![false; self.count()];
        order.iter().take(count).for_each(|&pattern| keep[pattern] = true);
        self.keep(&keep);
        for _ in 0..3 {
            let coded = self.encode(fibers, None);
            self.step(&coded);
        }
    }

    /// What the patterns explain of fibers.
    pub(crate) fn account(&self, fibers: &Fibers) -> Account {
        let coded = self.encode(fibers, None);
        let (energies, shown) = (vec![0.0; self.count()], vec![0; self.count()]);
        let mut account = Account { energies, shown, fibers: fibers.len(), ..Account::default() };
        for (fiber, code) in coded.codes.iter().enumerate() {
            let (y, energy) = (fibers.get(fiber), fibers.lengths[fiber].powi(2));
            // |y|^2 - |r|^2 = sum x_i <a_i, y>, where x is least squares.
            for &(i, x) in code {
                account.energies[i as usize] += energy * (x * dot(self.pattern(i as usize), y)) as f64;
                account.shown[i as usize] += 1;
            }
            account.energy += energy;
            account.rest += energy * (coded.lengths[fiber] as f64).powi(2);
            account.explained += usize::from(coded.explained[fiber]);
            let few = (2 * code.len()).pow(2) <= self.n && 2 * code.len() <= fibers.entries(fiber);
            account.few += usize::from(coded.explained[fiber] && few);
        }
        account
    }

    /// The patterns found, column by column.
    pub(crate) fn found(&self) -> Vec<f64> {
        let mut found: Vec<f64> = self.patterns[self.fixed * self.n..].iter().map(|&a| a as f64).collect();
        // The sign is free; people expect the largest entry above 0.
        for pattern in found.chunks_exact_mut(self.n) {
            let largest =
                pattern.iter().fold(0.0, |most: f64, a| if a.abs() > most.abs() { *a } else { most });
            if largest < 0.0 {
                pattern.iter_mut().for_each(|a| *a = -*a);
            }
        }
        found
    }

    /// The fibers that show each pattern best, some of them, by pattern found.
    pub(crate) fn founders(&self, fibers: &Fibers) -> Vec<Vec<usize>> {
        let coded = self.encode(fibers, None);
        let mut shown: Vec<Vec<(f32, usize)>> = vec![Vec::new(); self.count()];
        for (fiber, code) in coded.codes.iter().enumerate().filter(|(fiber, _)| coded.explained[*fiber]) {
            code.iter().for_each(|&(i, x)| shown[i as usize].push((x.abs(), fiber)));
        }
        let best = |mut shown: Vec<(f32, usize)>| {
            shown.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            shown.into_iter().take(FOUNDERS).map(|shown| shown.1).collect()
        };
        shown.drain(self.fixed..).map(best).collect()
    }

    /// Whether fibers that show a pattern still share something that no other one explains. `shown` is that pattern,
    /// fiber by fiber, the fibers of each next to each other.
    pub(crate) fn confirms(&self, fibers: &Fibers, shown: &[usize]) -> Vec<bool> {
        let n = self.n;
        let chance = (2.0 * (2.0 * fibers.len() as f32).ln() / n as f32).sqrt();
        let coded = self.encode(fibers, Some(shown));
        let mut confirmed = vec![false; self.count()];
        let all: Vec<usize> = (0..fibers.len()).collect();
        for same in all.chunk_by(|&a, &b| shown[a] == shown[b]) {
            // A little more than what would make it a stranger, so that nothing comes and goes.
            let strange = |fiber: &&usize| {
                let (own, share) = (fibers.lengths[**fiber], coded.lengths[**fiber] as f64);
                self.scale.is_some_and(|scale| !scale.explains(own, 1.1 * share * own))
            };
            let strange: Vec<usize> = same.iter().filter(strange).copied().collect();
            let r = |fiber: usize| &coded.residuals[fiber * n..][..n];
            let share =
                |a: usize, b: usize| dot(r(a), r(b)).abs() > chance * coded.lengths[a] * coded.lengths[b];
            confirmed[shown[same[0]]] =
                (0..strange.len()).any(|at| strange[..at].iter().any(|&b| share(strange[at], b)));
        }
        confirmed
    }

    /// Which of these fibers the patterns do not explain.
    pub(crate) fn unexplained(&self, fibers: &Fibers) -> Vec<usize> {
        self.encode(fibers, None).unexplained()
    }
}

/// What patterns explain of fibers.
#[derive(Default)]
pub(crate) struct Account {
    /// For each pattern: energy explained by it, and fibers that show it.
    pub(crate) energies: Vec<f64>,
    pub(crate) shown: Vec<usize>,
    /// Energy of all fibers, and what is left of it.
    pub(crate) energy: f64,
    pub(crate) rest: f64,
    /// How many, and how many of them are explained.
    pub(crate) fibers: usize,
    pub(crate) explained: usize,
    /// Those by few patterns.
    pub(crate) few: usize,
}

impl Account {
    /// Of more fibers.
    pub(crate) fn add(&mut self, other: &Account) {
        self.energies.iter_mut().zip(&other.energies).for_each(|(sum, energy)| *sum += energy);
        self.shown.iter_mut().zip(&other.shown).for_each(|(sum, shown)| *sum += shown);
        self.energy += other.energy;
        self.rest += other.rest;
        self.fibers += other.fibers;
        self.explained += other.explained;
        self.few += other.few;
    }
}

/// The largest magnitude and where it is.
fn largest(values: &[f32]) -> (u32, f32) {
    let mut best = (0, -1.0);
    for (first, chunk) in (0..).step_by(16).zip(values.chunks(16)) {
        if chunk.iter().fold(0.0, |a: f32, v| a.max(v.abs())) > best.1 {
            for (i, v) in (first..).zip(chunk) {
                if v.abs() > best.1 {
                    best = (i, v.abs());
                }
            }
        }
    }
    best
}

/// Least squares on the support of a code: G_SS x = d_S; false if G_SS is nearly singular.
fn solve(code: &mut [(u32, f32)], d: &[f32], gram: &[f32], m: usize) -> bool {
    let s = code.len();
    let mut factor = [[0.0_f64; MOST_CODES]; MOST_CODES];
    for row in 0..s {
        for col in 0..=row {
            let g = gram[code[row].0 as usize * m + code[col].0 as usize] as f64;
            let known: f64 = (0..col).map(|l| factor[row][l] * factor[col][l]).sum();
            if row > col {
                factor[row][col] = (g - known) / factor[col][col];
            } else if g - known > 1e-3 {
                factor[row][row] = (g - known).sqrt();
            } else {
                return false;
            }
        }
    }
    let mut x = [0.0; MOST_CODES];
    for row in 0..s {
        let known: f64 = (0..row).map(|col| factor[row][col] * x[col]).sum();
        x[row] = (d[code[row].0 as usize] as f64 - known) / factor[row][row];
    }
    for row in (0..s).rev() {
        let known: f64 = (row + 1..s).map(|below| factor[below][row] * x[below]).sum();
        x[row] = (x[row] - known) / factor[row][row];
    }
    code.iter_mut().zip(x).for_each(|(entry, x)| entry.1 = x as f32);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discover::unit_fibers::tests::fibers;

    fn search(patterns: &[f32], n: usize) -> Search {
        Search::new(n, patterns.to_vec(), None, 100, 1)
    }

    #[test]
    fn codes_are_least_squares_on_what_stands_out() {
        let search = search(&[1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0], 4);
        // The second pattern is there, but below 0.3 of the fiber; the third fiber has none of them.
        let data = fibers(&[&[3.0, -4.0, 0.0, 0.0], &[1.0, 0.2, 0.0, 0.0], &[0.1, 0.0, 1.0, 0.0]]);
        let coded = search.encode(&data, None);
        let codes = |fiber: usize| coded.codes[fiber].iter().map(|&(i, _)| i).collect::<Vec<_>>();
        assert_eq!((codes(0), codes(1), codes(2)), (vec![1, 0], vec![0], vec![]));
        assert!((coded.codes[0][0].1 + 0.8).abs() < 1e-6 && coded.lengths[0] < 1e-6);
        assert_eq!(coded.unexplained(), [2]);
        // Without the pattern it needs most, the first fiber is unexplained.
        let coded = search.encode(&data, Some(&[1, 1, 1]));
        assert_eq!(coded.unexplained(), [0, 2]);
    }
}
