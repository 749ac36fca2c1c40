//! Patterns that are sums of two patterns, and their repair.
//!
//! Symbols: A_w is the pattern under test, A_l another pattern, x_w and x_l their codes in one fiber, t = x_l / x_w.
//!
//! If the true patterns a and b often occur together, the search may find a + b and a. All fibers are explained then,
//! and no residual shows the mistake, because b = (a + b) - a. The codes show it: every fiber that contains b alone has
//! codes of a + b and of a, at the same ratio t = -1. Therefore: if many fibers with A_w contain A_l at the same ratio
//! t, then A_w is a composite, and unit(A_w + t A_l) replaces it.

use std::collections::HashSet;

use crate::discover::null::surprise;
use crate::discover::pursuit::MIN_CODE;
use crate::discover::search::{Coded, Search};
use crate::discover::unit_fibers::{UnitFibers, dot, normalise};

/// Two ratios are the same if they differ by at most this part.
const RATIO_TOLERANCE: f32 = 0.25;

/// A replacement is not accepted if its |cos| with another pattern is larger.
const MAX_COSINE: f32 = 0.9;

/// A pattern that is a sum of two patterns.
struct Composite {
    /// Index w of the pattern.
    pattern: usize,
    /// Index l of the pattern that occurs with it.
    partner: usize,
    /// Share of the fibers with pattern w that contain the partner at the same ratio.
    share: f64,
    /// The direction that replaces pattern w: unit(A_w + t A_l).
    direction: Vec<f32>,
}

impl Search {
    /// Replaces all composites among the patterns that are not fixed.
    pub(crate) fn replace_composites(&mut self, coded: &Coded) {
        let (n, m) = (self.n, self.count());
        let mut shown: Vec<Vec<&[(u32, f32)]>> = vec![Vec::new(); m];
        for (code, _) in coded.codes.iter().zip(&coded.explained).filter(|(_, explained)| **explained) {
            code.iter().for_each(|entry| shown[entry.0 as usize].push(code));
        }
        let explained: usize = coded.explained.iter().filter(|explained| **explained).count();
        let rates: Vec<f64> = shown.iter().map(|shown| shown.len() as f64 / explained as f64).collect();
        let composites = (self.fixed..m).filter_map(|w| self.composite(w, &shown[w], &rates)).collect();
        for Composite { pattern, direction, .. } in clearest_disjoint(composites) {
            self.patterns[pattern * n..][..n].copy_from_slice(&direction);
        }
    }

    /// Returns the replacement of pattern w if it is a composite.
    ///
    /// `codes` are the codes of the fibers with pattern w, `rates` the shares of all fibers that contain each pattern.
    fn composite(&self, w: usize, codes: &[&[(u32, f32)]], rates: &[f64]) -> Option<Composite> {
        let (l, t, count) = most_frequent_ratio(w, codes)?;
        // Two patterns also meet by chance, but not in 2 of 5 fibers, and the chance that any pattern of the
        // dictionary meets another one this often must be below 1 in 10.
        if count < 3 || 5 * count < 2 * codes.len() {
            return None;
        }
        if surprise(count as f64, codes.len() as f64 * rates[l]) < (10.0 * self.count() as f64).ln() {
            return None;
        }
        let mut direction: Vec<f32> =
            self.pattern(w).iter().zip(self.pattern(l)).map(|(w, l)| w + t * l).collect();
        let has_length = normalise(&mut direction);
        let near = |i: usize| i != w && dot(self.pattern(i), &direction).abs() > MAX_COSINE;
        let share = count as f64 / codes.len() as f64;
        (has_length && !(0..self.count()).any(near)).then_some(Composite {
            pattern: w,
            partner: l,
            share,
            direction,
        })
    }

    /// Returns the composites that `fibers` reveal, with their replacements.
    ///
    /// `shown[f]` is the pattern that fiber f shows; fibers of one pattern are neighbors. `rates` are the shares of all
    /// fibers that contain each pattern.
    pub(crate) fn composite_replacements(
        &self,
        fibers: &UnitFibers,
        shown: &[usize],
        rates: &[f64],
    ) -> Vec<(usize, Vec<f64>)> {
        let coded = self.encode(fibers, None);
        let mut composites = Vec::new();
        let all: Vec<usize> = (0..fibers.len()).collect();
        for same in all.chunk_by(|&a, &b| shown[a] == shown[b]) {
            let w = shown[same[0]];
            let holds = |code: &&[(u32, f32)]| code.iter().any(|entry| entry.0 as usize == w);
            let codes: Vec<&[(u32, f32)]> =
                same.iter().map(|&fiber| coded.codes[fiber].as_slice()).filter(holds).collect();
            composites.extend(self.composite(w, &codes, rates));
        }
        let replacement = |composite: Composite| {
            (composite.pattern, composite.direction.into_iter().map(|a| a as f64).collect())
        };
        clearest_disjoint(composites).map(replacement).collect()
    }
}

/// Returns (l, t, count): the pattern l and the ratio t = x_l / x_w that most fibers with pattern w have, up to
/// [`RATIO_TOLERANCE`], and the number of these fibers. Ratios below [`MIN_CODE`] do not count.
pub(crate) fn most_frequent_ratio(w: usize, codes: &[&[(u32, f32)]]) -> Option<(usize, f32, usize)> {
    let mut ratios = Vec::new();
    for code in codes {
        let x = code.iter().find(|entry| entry.0 as usize == w)?.1;
        ratios.extend(code.iter().filter(|(l, _)| *l as usize != w).map(|&(l, z)| (l, z / x)));
    }
    ratios.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let (mut most, mut best) = (0, None);
    for pairs in ratios.chunk_by(|a, b| a.0 == b.0) {
        for &(l, t) in pairs {
            let same = pairs.iter().filter(|pair| (pair.1 - t).abs() <= RATIO_TOLERANCE * t.abs()).count();
            if same > most && t.abs() >= MIN_CODE {
                (most, best) = (same, Some((l as usize, t, same)));
            }
        }
    }
    best
}

/// Sorts composites by decreasing share, and leaves out those whose pattern or partner occurs in an earlier one.
///
/// Example: a + b and a - b were found. Fibers with a alone contain both at one ratio, and a replaces a + b. From then
/// on, all fibers with a - b contain a, but only some fibers with a contain a - b: the larger share shows that a - b is
/// the composite.
fn clearest_disjoint(mut composites: Vec<Composite>) -> impl Iterator<Item = Composite> {
    composites.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.pattern.cmp(&b.pattern)));
    let mut touched = HashSet::new();
    composites.into_iter().filter(move |composite| {
        let free = !touched.contains(&composite.pattern) && !touched.contains(&composite.partner);
        if free {
            touched.extend([composite.pattern, composite.partner]);
        }
        free
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discover::unit_fibers::tests::fibers;

    #[test]
    fn a_sum_of_two_patterns_is_replaced_by_the_missing_pattern() {
        let half = 0.5_f32.sqrt();
        // Pattern 0 is (1, 0, 0), pattern 1 is (1, 1, 0) / sqrt 2. The fibers contain (0, 1, 0).
        let patterns = vec![1.0, 0.0, 0.0, half, half, 0.0];
        let mut search = Search::new(3, patterns, None, 100, 1);
        search.fixed = 1;
        let data = fibers(&[&[0.0, 1.0, 0.0], &[0.0, -2.0, 0.0], &[0.0, 3.0, 0.0], &[1.0, 1.0, 0.0]]);
        let coded = search.encode(&data, None);
        search.replace_composites(&coded);
        // Three of four fibers have the same ratio, but frequent patterns meet often by chance.
        assert_eq!(search.pattern(1), [half, half, 0.0]);
        let codes: Vec<&[(u32, f32)]> = coded.codes.iter().map(Vec::as_slice).collect();
        assert!(search.composite(1, &codes, &[0.5, 0.5]).is_none());
        let Composite { partner, share, direction, .. } = search.composite(1, &codes, &[0.01, 0.01]).unwrap();
        assert!((partner, share) == (0, 0.75));
        assert!(direction[0].abs() < 1e-6 && (direction[1].abs() - 1.0).abs() < 1e-6);
        assert!(search.composite(1, &codes[..2], &[0.01, 0.01]).is_none(), "two fibers may be chance");
    }
}
