//! Patterns that turn out to be mixed, because others explain the same fibers with fewer codes.
//!
//! Symbols: A_w and A_l are two patterns, x_w and x_l their codes in one fiber, t = x_l / x_w.
//!
//! If the true patterns a and b share rows and cols of the first tensor, the search may find a + b and a - b. They
//! explain all fibers, so that no residual shows the mistake. But a fiber with a alone needs both, at the ratio t = 1,
//! and so does a fiber with b alone, at t = -1. The pattern unit(A_w + t A_l) in place of A_w explains one of these
//! kinds with a single code. In later tensors a and b rarely meet, and fewer codes show that the replacement is right.
//!
//! Patterns that have a part in common are mixed in the same way: the search finds that part, and then what is left of
//! each pattern, so that all fibers need two codes.

use crate::discover::composites::most_frequent_ratio;
use crate::discover::search::{Coded, Search};
use crate::discover::unit_fibers::{UnitFibers, dot, normalise};

/// A replacement must save codes in at least this many more fibers than it costs codes in.
const MIN_SAVED: f64 = 4.0;

/// The difference must also be this many standard errors.
const STANDARD_ERRORS: f64 = 3.0;

/// At least one of this many fibers with a pattern must have the partner at the same ratio.
const MIN_SHARE: usize = 4;

/// A replacement is not accepted if its |cos| with another pattern is larger. Patterns with a part in common are nearer
/// to each other than others.
const MAX_COSINE: f32 = 0.9;
const MAX_COSINE_IN_COMMON: f32 = 0.98;

impl Search {
    /// Replaces patterns as long as a replacement clearly saves codes.
    pub(crate) fn simplify(&mut self, fibers: &UnitFibers) {
        let new: Vec<usize> = (self.fixed..self.count()).collect();
        for _ in &new {
            if self.stop.is_set() {
                return;
            }
            let Some((w, direction)) = self.replacement(fibers, &new, MAX_COSINE_IN_COMMON) else { return };
            self.patterns[w * self.n..][..self.n].copy_from_slice(&direction);
        }
    }

    /// Returns the one of some patterns whose replacement saves most codes, with the replacement. None if no
    /// replacement clearly saves codes.
    ///
    /// The fibers should come from many tensors: fibers of one tensor share rows and cols, and therefore patterns.
    pub(crate) fn simpler(&self, fibers: &UnitFibers, patterns: &[usize]) -> Option<(usize, Vec<f64>)> {
        let (w, direction) = self.replacement(fibers, patterns, MAX_COSINE)?;
        Some((w, direction.into_iter().map(f64::from).collect()))
    }

    fn replacement(
        &self,
        fibers: &UnitFibers,
        patterns: &[usize],
        max_cosine: f32,
    ) -> Option<(usize, Vec<f32>)> {
        let coded = self.encode(fibers, None);
        let mut best: Option<(f64, usize, Vec<f32>)> = None;
        for &w in patterns {
            let explained = coded.codes.iter().zip(&coded.explained).filter(|(_, explained)| **explained);
            let with = explained.map(|(code, _)| code.as_slice());
            let with: Vec<&[(u32, f32)]> = with.filter(|code| holds(code, w)).collect();
            let Some((l, t, count)) = most_frequent_ratio(w, &with) else { continue };
            if (count as f64) < MIN_SAVED || MIN_SHARE * count < with.len() {
                continue;
            }
            let sum = self.pattern(w).iter().zip(self.pattern(l)).map(|(w, l)| w + t * l);
            let mut direction: Vec<f32> = sum.collect();
            if !normalise(&mut direction) {
                continue;
            }
            let touched: Vec<usize> = (0..fibers.len())
                .filter(|&f| holds(&coded.codes[f], w) || holds(&coded.codes[f], l))
                .collect();
            let mut some = UnitFibers::new(self.n);
            some.take(fibers, &touched);
            // The new direction takes the place of one of the two patterns.
            for replaced in [w, l].into_iter().filter(|&replaced| replaced >= self.fixed) {
                let near = |i: usize| i != replaced && dot(self.pattern(i), &direction).abs() > max_cosine;
                if (0..self.count()).any(near) {
                    continue;
                }
                let other = self.with_pattern(replaced, &direction).encode(&some, None);
                let saved = saved(&coded, &touched, &other);
                if saved > best.as_ref().map_or(0.0, |best| best.0) {
                    best = Some((saved, replaced, direction.clone()));
                }
            }
        }
        best.map(|(_, w, direction)| (w, direction))
    }
}

/// The number of fibers that other codes save codes in, without the number of those that they cost codes in or leave
/// unexplained. 0 if the difference is not clear. `touched[f]` is the number of fiber f of `other` in `coded`.
fn saved(coded: &Coded, touched: &[usize], other: &Coded) -> f64 {
    let (mut less, mut more) = (0.0, 0.0);
    for (at, &fiber) in touched.iter().enumerate() {
        let (before, after) = (coded.codes[fiber].len(), other.codes[at].len());
        let lost = coded.explained[fiber] && !other.explained[at];
        less += f64::from(u8::from(after < before && !lost));
        more += f64::from(u8::from(after > before || lost));
    }
    let saved: f64 = less - more;
    if saved >= MIN_SAVED && saved >= STANDARD_ERRORS * (less + more).sqrt() { saved } else { 0.0 }
}

fn holds(code: &[(u32, f32)], w: usize) -> bool {
    code.iter().any(|entry| entry.0 as usize == w)
}
