//! Patterns that are sums of two.
//!
//! Where two patterns often occur together, the search may find a + b beside a. Everything is explained then, and no
//! residual tells: b is (a + b) - a. But fibers that hold b alone hold a + b and a at one fixed ratio, and that tells.

use std::collections::HashSet;

use crate::discover::null::surprise;
use crate::discover::search::{Coded, LEAST_CODE, Search};
use crate::discover::unit_fibers::{Fibers, dot, normalise};

impl Search {
    /// Where many fibers with pattern w hold another one, l, at the same ratio t, these fibers hold the
    /// pattern w + t l, and w was a sum.
    pub(crate) fn swap(&mut self, coded: &Coded) {
        let (n, m) = (self.n, self.count());
        let mut shown: Vec<Vec<&[(u32, f32)]>> = vec![Vec::new(); m];
        for (code, _) in coded.codes.iter().zip(&coded.explained).filter(|(_, explained)| **explained) {
            code.iter().for_each(|entry| shown[entry.0 as usize].push(code));
        }
        let coded: usize = coded.explained.iter().filter(|explained| **explained).count();
        let rates: Vec<f64> = shown.iter().map(|shown| shown.len() as f64 / coded as f64).collect();
        let sums = (self.fixed..m).filter_map(|w| self.instead(w, &shown[w], &rates)).collect();
        for Sum { pattern, direction, .. } in clearest(sums) {
            self.patterns[pattern * n..][..n].copy_from_slice(&direction);
        }
    }

    /// What pattern w should be, if it is a sum. `rates` are the shares of all fibers that hold each pattern.
    fn instead(&self, w: usize, codes: &[&[(u32, f32)]], rates: &[f64]) -> Option<Sum> {
        let mut ratios = Vec::new();
        for code in codes {
            let x = code.iter().find(|entry| entry.0 as usize == w)?.1;
            ratios.extend(code.iter().filter(|(l, _)| *l as usize != w).map(|&(l, z)| (l, z / x)));
        }
        ratios.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        // The ratio that most others are near to.
        let (mut most, mut best) = (0, None);
        for pairs in ratios.chunk_by(|a, b| a.0 == b.0) {
            for &(l, t) in pairs {
                let same = pairs.iter().filter(|pair| (pair.1 - t).abs() <= 0.25 * t.abs()).count();
                if same > most && t.abs() >= LEAST_CODE {
                    (most, best) = (same, Some((l as usize, t)));
                }
            }
        }
        // Two patterns meet by chance, but not in two of five fibers, and not more often than in one case of ten
        // among all patterns.
        let (l, t) = best.filter(|_| most >= 3 && 5 * most >= 2 * codes.len())?;
        if surprise(most as f64, codes.len() as f64 * rates[l]) < (10.0 * self.count() as f64).ln() {
            return None;
        }
        let mut sum: Vec<f32> = self.pattern(w).iter().zip(self.pattern(l)).map(|(w, l)| w + t * l).collect();
        let there = normalise(&mut sum);
        let other = |i: usize| i != w && dot(self.pattern(i), &sum).abs() > 0.9;
        let share = most as f64 / codes.len() as f64;
        (there && !(0..self.count()).any(other)).then_some(Sum {
            pattern: w,
            partner: l,
            share,
            direction: sum,
        })
    }

    /// What patterns should be that are sums, from fibers that show them.
    pub(crate) fn swaps(&self, fibers: &Fibers, shown: &[usize], rates: &[f64]) -> Vec<(usize, Vec<f64>)> {
        let coded = self.encode(fibers, None);
        let mut sums = Vec::new();
        let all: Vec<usize> = (0..fibers.len()).collect();
        for same in all.chunk_by(|&a, &b| shown[a] == shown[b]) {
            let w = shown[same[0]];
            let holds = |code: &&[(u32, f32)]| code.iter().any(|entry| entry.0 as usize == w);
            let codes: Vec<&[(u32, f32)]> =
                same.iter().map(|&fiber| coded.codes[fiber].as_slice()).filter(holds).collect();
            sums.extend(self.instead(w, &codes, rates));
        }
        let turned = |sum: Sum| (sum.pattern, sum.direction.into_iter().map(|a| a as f64).collect());
        clearest(sums).map(turned).collect()
    }
}

/// A pattern that is a sum with another one.
struct Sum {
    pattern: usize,
    partner: usize,
    /// Of the fibers that hold it, those that hold the other one at the same ratio.
    share: f64,
    /// What it should be.
    direction: Vec<f32>,
}

/// The clearest ones, no pattern in two of them. If a + b and a - b were found, the first becomes a; then
/// all fibers with the second hold a too, but only some of those with a hold the second.
fn clearest(mut sums: Vec<Sum>) -> impl Iterator<Item = Sum> {
    sums.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.pattern.cmp(&b.pattern)));
    let mut touched = HashSet::new();
    sums.into_iter().filter(move |sum| {
        let free = !touched.contains(&sum.pattern) && !touched.contains(&sum.partner);
        if free {
            touched.extend([sum.pattern, sum.partner]);
        }
        free
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discover::unit_fibers::tests::fibers;

    #[test]
    fn a_sum_that_always_comes_with_its_part_is_taken_apart() {
        let half = 0.5_f32.sqrt();
        // Known is (1, 0, 0), found was (1, 1, 0) / sqrt 2; the fibers hold (0, 1, 0).
        let patterns = vec![1.0, 0.0, 0.0, half, half, 0.0];
        let mut search = Search::new(3, patterns, None, 100, 1);
        search.fixed = 1;
        let data = fibers(&[&[0.0, 1.0, 0.0], &[0.0, -2.0, 0.0], &[0.0, 3.0, 0.0], &[1.0, 1.0, 0.0]]);
        let coded = search.encode(&data, None);
        search.swap(&coded);
        // In all fibers but the last at the same ratio, but what is frequent meets everything often.
        assert_eq!(search.pattern(1), [half, half, 0.0]);
        let codes: Vec<&[(u32, f32)]> = coded.codes.iter().map(Vec::as_slice).collect();
        assert!(search.instead(1, &codes, &[0.5, 0.5]).is_none());
        let Sum { partner, share, direction, .. } = search.instead(1, &codes, &[0.01, 0.01]).unwrap();
        assert!((partner, share) == (0, 0.75));
        assert!(direction[0].abs() < 1e-6 && (direction[1].abs() - 1.0).abs() < 1e-6);
        assert!(search.instead(1, &codes[..2], &[0.01, 0.01]).is_none(), "two fibers may be chance");
    }
}
