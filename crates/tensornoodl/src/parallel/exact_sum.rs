//! Sums whose bits do not depend on the order of what is added: over waves, threads, parts of a tensor and ranks.
//!
//! A number is cut, on one grid of powers of two for all numbers, into slices of 26 bits, and slices of the same height
//! are added up, which double precision does without rounding. The three highest slices that occur in a sum are kept; what
//! is below them is less than 2^-52 of the largest number (Demmel and Nguyen, "Parallel reproducible summation", 2015).
//! So a sum is a whole number of units, and whole numbers add up in any order.

use crate::linalg::vector::with_simd;
use crate::parallel::team::Team;

/// Bits of a slice. Sums of up to 2^27 slices are whole numbers below 2^53, which double precision holds; longer ones are rounded as
/// any sum is.
const BITS: i32 = 26;

/// Slices that are kept.
const SLICES: usize = 3;

/// The level of a sum of nothing, and of one that is not finite.
const NOTHING: i8 = i8::MIN;
const NOT_FINITE: i8 = i8::MAX;

/// Levels between which slices and what cuts them are normal numbers. What is below 1e-305 vanishes.
const LOWEST: i8 = -36;
const LEVELS: usize = 74;

/// Columns of sums. Those of a column have slices of the same height.
#[derive(Debug, Default)]
pub(crate) struct ExactSums {
    length: usize,
    levels: Vec<i8>,
    /// For each column, all first slices, all second ones, all third ones.
    slices: Vec<f64>,
}

/// One column of sums.
pub(crate) struct Total<'a> {
    level: &'a mut i8,
    slices: &'a mut [f64],
}

/// Some columns.
pub(crate) struct Group<'a> {
    length: usize,
    levels: &'a mut [i8],
    slices: &'a mut [f64],
}

impl Group<'_> {
    pub(crate) fn column(&mut self, column: usize) -> Total<'_> {
        let size = SLICES * self.length;
        Total { level: &mut self.levels[column], slices: &mut self.slices[column * size..][..size] }
    }
}

/// 2^exponent.
const fn power(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

/// Whether a sum has slices: it is neither nothing nor not finite.
fn is_finite(level: i8) -> bool {
    (LOWEST..LOWEST + LEVELS as i8).contains(&level)
}

/// The unit of a slice: a number below 2^(26 level - 1) has up to 2^25 units of the first slice.
fn unit(level: i8, slice: usize) -> f64 {
    power(exponent(level, slice))
}

const fn exponent(level: i8, slice: usize) -> i32 {
    BITS * (level as i32 - 1 - slice as i32)
}

impl Total<'_> {
    /// Makes room for numbers up to this size.
    fn rise(&mut self, size: f64) {
        // 2^exponent > 2 size: three levels higher, no slice would be left of it, and none is if it comes then.
        let exponent = ((size.to_bits() >> 52) & 0x7ff) as i32 - 1021;
        let level = (exponent + BITS - 1).div_euclid(BITS).max(LOWEST.into()) as i8;
        let level = if is_finite(level) && size.is_finite() { level } else { NOT_FINITE };
        self.rise_to(level);
    }

    fn rise_to(&mut self, level: i8) {
        if level <= *self.level {
            return;
        }
        let length = self.slices.len() / SLICES;
        if *self.level != NOTHING && level != NOT_FINITE {
            let down = SLICES.min((level - *self.level) as usize) * length;
            self.slices.copy_within(..SLICES * length - down, down);
            self.slices[..down].fill(0.0);
        }
        *self.level = level;
    }

    /// Adds a x, whose entries are of this size at most, or little more.
    pub(crate) fn add_scaled(&mut self, a: f64, x: &[f64], size: f64) {
        self.rise(size);
        if *self.level == NOT_FINITE {
            return;
        }
        debug_assert!(x.iter().all(|x| (a * x).abs() <= size), "an entry is larger than {size:e}");
        let cuts = cuts(*self.level);
        let length = self.slices.len() / SLICES;
        let (first, others) = self.slices.split_at_mut(length);
        let (second, third) = others.split_at_mut(length);
        with_simd(
            #[inline(always)]
            || {
                for (((x, first), second), third) in x.iter().zip(first).zip(second).zip(third) {
                    add(a * x, [first, second, third], cuts);
                }
            },
        );
    }

    /// Adds a number to the only sum.
    pub(crate) fn add(&mut self, x: f64) {
        self.rise(x.abs());
        if *self.level != NOT_FINITE
            && let [first, second, third] = self.slices
        {
            add(x, [first, second, third], cuts(*self.level));
        }
    }

    /// Adds numbers to the first sum.
    pub(crate) fn add_all(&mut self, all: &[f64]) {
        let size = all.iter().fold(0.0, |a: f64, b| if b.is_nan() { f64::NAN } else { a.max(b.abs()) });
        self.rise(size);
        if *self.level == NOT_FINITE {
            return;
        }
        let (cuts, length) = (cuts(*self.level), self.slices.len() / SLICES);
        let mut sums = std::array::from_fn(|slice| self.slices[slice * length]);
        all.iter().for_each(|&x| add(x, sums.each_mut(), cuts));
        (0..SLICES).for_each(|slice| self.slices[slice * length] = sums[slice]);
    }
}

/// What rounds to units of each slice, if it is added and taken away again.
fn cuts(level: i8) -> [f64; SLICES] {
    static CUTS: [[f64; SLICES]; LEVELS] = {
        let mut cuts = [[0.0; SLICES]; LEVELS];
        let mut at = 0;
        while at < LEVELS * SLICES {
            let level = LOWEST + (at / SLICES) as i8;
            cuts[at / SLICES][at % SLICES] = 1.5 * power(52 + exponent(level, at % SLICES));
            at += 1;
        }
        cuts
    };
    CUTS[(level - LOWEST) as usize]
}

/// The sum of three slices, rounded once: what is carried upwards leaves so little below that it adds up without rounding.
#[inline(always)]
fn round([first, second, third]: [f64; SLICES], cuts: [f64; SLICES]) -> f64 {
    let carried = (third + cuts[1]) - cuts[1];
    let (second, third) = (second + carried, third - carried);
    let carried = (second + cuts[0]) - cuts[0];
    (first + carried) + ((second - carried) + third)
}

/// The same, whatever the level.
fn rounded(level: i8, slices: [f64; SLICES]) -> f64 {
    match level {
        NOTHING => 0.0,
        NOT_FINITE => f64::NAN,
        level => round(slices, cuts(level)),
    }
}

/// Adds the slices of x.
#[inline(always)]
fn add(mut x: f64, sums: [&mut f64; SLICES], cuts: [f64; SLICES]) {
    for (sum, cut) in sums.into_iter().zip(cuts) {
        let slice = (x + cut) - cut;
        *sum += slice;
        x -= slice;
    }
}

impl ExactSums {
    pub(crate) fn new(columns: usize, length: usize) -> ExactSums {
        ExactSums { length, levels: vec![NOTHING; columns], slices: vec![0.0; columns * SLICES * length] }
    }

    /// Columns, and sums in each.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.levels.len(), self.length)
    }

    pub(crate) fn column(&mut self, column: usize) -> Total<'_> {
        let size = SLICES * self.length;
        Total { level: &mut self.levels[column], slices: &mut self.slices[column * size..][..size] }
    }

    /// So many columns each, to be added to at the same time.
    pub(crate) fn groups(&mut self, columns: usize) -> impl Iterator<Item = Group<'_>> {
        let length = self.length;
        let slices = self.slices.chunks_exact_mut((columns * SLICES * length).max(1));
        let levels = self.levels.chunks_exact_mut(columns);
        levels.zip(slices).map(move |(levels, slices)| Group { length, levels, slices })
    }

    /// Sums of nothing again.
    pub(crate) fn clear(&mut self, column: usize) {
        let Total { level, slices } = self.column(column);
        if std::mem::replace(level, NOTHING) != NOTHING {
            slices.fill(0.0);
        }
    }

    /// A sum in units of the third slice.
    fn units(&self, column: usize, at: usize) -> i128 {
        let level = self.levels[column];
        let slices = &self.slices[column * SLICES * self.length..][..SLICES * self.length];
        (0..SLICES).fold(0, |units, slice| {
            // A division, by a power of two.
            let here = slices[slice * self.length + at] * power(-exponent(level, slice));
            (units << BITS) + i128::from(here as i64)
        })
    }

    /// A sum.
    pub(crate) fn get(&self, column: usize, at: usize) -> f64 {
        let slice = |slice: usize| self.slices[(column * SLICES + slice) * self.length + at];
        rounded(self.levels[column], std::array::from_fn(slice))
    }

    /// All sums of a column.
    pub(crate) fn read(&self, column: usize, sums: &mut [f64]) {
        let level = self.levels[column];
        if !is_finite(level) {
            return sums.fill(if level == NOTHING { 0.0 } else { f64::NAN });
        }
        let cuts = cuts(level);
        let (first, others) = self.slices[column * SLICES * self.length..].split_at(self.length);
        let (second, third) = others.split_at(self.length);
        with_simd(
            #[inline(always)]
            || {
                for (((sum, &first), &second), &third) in sums.iter_mut().zip(first).zip(second).zip(third) {
                    *sum = round([first, second, third], cuts);
                }
            },
        );
    }
}

/// One sum whose bits depend neither on the order of what is added nor on who adds it. Numbers below 1e-290 lose digits, those above
/// 1e290 are none to it.
///
/// ```
/// use tensornoodl::parallel::ExactSum;
///
/// let (mut some, mut others) = (ExactSum::default(), ExactSum::default());
/// (0..7).for_each(|_| some.add(0.1));
/// (0..3).for_each(|_| others.add(0.1));
/// others.merge(&some);
/// assert_eq!(others.get(), 1.0); // the exact sum, rounded once
/// ```
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ExactSum {
    level: i8,
    slices: [f64; SLICES],
}

impl Default for ExactSum {
    fn default() -> ExactSum {
        ExactSum { level: NOTHING, slices: [0.0; SLICES] }
    }
}

impl ExactSum {
    fn total(&mut self) -> Total<'_> {
        Total { level: &mut self.level, slices: &mut self.slices }
    }

    /// Adds a number.
    pub fn add(&mut self, x: f64) {
        self.total().add(x);
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &ExactSum) {
        let mut other = *other;
        self.total().rise_to(other.level);
        other.total().rise_to(self.level);
        self.slices.iter_mut().zip(other.slices).for_each(|(a, b)| *a += b);
    }

    /// What it is.
    pub fn get(&self) -> f64 {
        rounded(self.level, self.slices)
    }

    /// It as words, to be sent,
    pub fn to_words(&self) -> [u64; 1 + SLICES] {
        let [first, second, third] = self.slices.map(f64::to_bits);
        [u64::from(self.level as u8), first, second, third]
    }

    /// and back.
    pub fn from_words([level, first, second, third]: [u64; 1 + SLICES]) -> ExactSum {
        ExactSum { level: level as u8 as i8, slices: [first, second, third].map(f64::from_bits) }
    }
}

/// Bits of the lower of two words that a sum is sent in; what they leave free is for the sum over ranks ([`MAX_RANKS`](crate::parallel::team::MAX_RANKS)).
const LOWER: u32 = 52;

/// Sums to be added up, and which of their columns.
pub(crate) type Added<'a> = (&'a mut ExactSums, Vec<usize>);

/// Adds up what all ranks have, columns of sums and counts. If a rank has raised `alarm`, the highest is what all
/// get, and nothing is added.
pub(crate) fn add_up(team: &dyn Team, totals: &mut [Added<'_>], counts: &mut [i64], alarm: i8) -> i8 {
    if team.size() == 1 {
        return alarm;
    }
    let mut levels = vec![alarm];
    for (totals, columns) in totals.iter() {
        levels.extend(columns.iter().map(|&column| totals.levels[column]));
    }
    team.max(&mut levels);
    let alarm = levels[0];
    if alarm != 0 {
        return alarm;
    }
    let mut levels = levels[1..].iter();
    let mut words = counts.to_vec();
    for (totals, columns) in totals.iter_mut() {
        for (&column, &level) in columns.iter().zip(&mut levels) {
            totals.column(column).rise_to(level);
            if is_finite(level) {
                for at in 0..totals.length {
                    let units = totals.units(column, at);
                    words.extend([(units >> LOWER) as i64, (units & ((1 << LOWER) - 1)) as i64]);
                }
            }
        }
    }
    team.sum(&mut words);
    let (sums, words) = words.split_at(counts.len());
    counts.copy_from_slice(sums);
    let mut words = words.chunks_exact(2);
    for (totals, columns) in totals.iter_mut() {
        let length = totals.length;
        for &column in columns.iter() {
            let Total { level, slices } = totals.column(column);
            if !is_finite(*level) {
                continue;
            }
            for (at, word) in (&mut words).take(length).enumerate() {
                let mut units = (i128::from(word[0]) << LOWER) + i128::from(word[1]);
                for slice in (0..SLICES).rev() {
                    // The first slice takes all that is left.
                    let here = if slice == 0 { units } else { units & ((1 << BITS) - 1) };
                    slices[slice * length + at] = here as f64 * unit(*level, slice);
                    units = (units - here) >> BITS;
                }
            }
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::parallel::threads::{ThreadRank, run_ranks};

    fn sum(numbers: &[f64]) -> f64 {
        let mut totals = ExactSums::new(1, 1);
        numbers.iter().for_each(|&x| totals.column(0).add_all(&[x]));
        totals.get(0, 0)
    }

    #[test]
    fn small_numbers_survive_large_ones() {
        assert_eq!(sum(&[1e16, 1.0, -1e16]), 1.0);
        assert_eq!(sum(&[1.0, 2f64.powi(-52), -1.0]), 2f64.powi(-52));
        assert_eq!(sum(&[]), 0.0);
        assert_eq!(sum(&[0.0, -0.0]), 0.0);
        assert_eq!(sum(&[1e200, 3.0, 1e200]), 2e200);
        assert_eq!(sum(&[-1e-200, -1e-200]), -2e-200);
        assert!(
            sum(&[1.0, f64::INFINITY]).is_nan() && sum(&[f64::NAN, 1.0]).is_nan() && sum(&[1e300]).is_nan()
        );
        assert_eq!(sum(&[0.1; 10]), 1.0, "rounded once");
        assert_eq!(sum(&[1e-310]), 0.0, "it vanishes");
        for exponent in [-900, -26, -1, 0, 1, 25, 26, 27, 900] {
            let x = power(exponent);
            assert_eq!(sum(&[x, x / 2.0]), 1.5 * x, "2^{exponent}");
        }
    }

    fn number() -> impl Strategy<Value = f64> {
        (-60..60_i32, -1.0..1.0_f64).prop_map(|(exponent, x)| x * power(exponent))
    }

    proptest! {
        #[test]
        fn the_order_makes_no_difference(
            numbers in prop::collection::vec(number(), 1..60),
            turn in 0_usize..60,
            cut in 0_usize..60,
        ) {
            let (turn, cut) = (turn % numbers.len(), cut % numbers.len());
            let forth = sum(&numbers);
            let back: Vec<f64> = numbers.iter().rev().copied().collect();
            let turned = [&numbers[turn..], &numbers[..turn]].concat();
            prop_assert_eq!(forth.to_bits(), sum(&back).to_bits());
            prop_assert_eq!(forth.to_bits(), sum(&turned).to_bits());
            // As near as the largest allows.
            let largest = numbers.iter().fold(0.0, |a: f64, b| a.max(b.abs()));
            let plain: f64 = numbers.iter().sum();
            prop_assert!((forth - plain).abs() <= 2.0 * numbers.len() as f64 * largest * 2f64.powi(-52));
            // Nor does it who adds which.
            let of = |numbers: &[f64]| {
                let mut sum = ExactSum::default();
                numbers.iter().for_each(|&x| sum.add(x));
                sum
            };
            let (mut one, other) = (of(&numbers[..cut]), of(&numbers[cut..]));
            one.merge(&ExactSum::from_words(other.to_words()));
            prop_assert_eq!(one.get().to_bits(), forth.to_bits());
            let sums = run_ranks(2, |team: &ThreadRank| {
                let mut totals = ExactSums::new(1, 2);
                let own = if team.rank() == 0 { &numbers[..cut] } else { &numbers[cut..] };
                own.iter().for_each(|&x| totals.column(0).add_scaled(1.0, &[x, 2.0 * x], 2.0 * x.abs()));
                let mut counts = [own.len() as i64];
                assert_eq!(add_up(team, &mut [(&mut totals, vec![0])], &mut counts, 0), 0);
                (counts[0], totals.get(0, 0), totals.get(0, 1))
            });
            let mut solo = ExactSums::new(1, 2);
            numbers.iter().for_each(|&x| solo.column(0).add_scaled(1.0, &[x, 2.0 * x], 2.0 * x.abs()));
            for (count, one, two) in sums {
                prop_assert_eq!(count as usize, numbers.len());
                prop_assert_eq!(one.to_bits(), solo.get(0, 0).to_bits());
                prop_assert_eq!(two.to_bits(), solo.get(0, 1).to_bits());
            }
        }
    }

    #[test]
    fn an_alarm_is_heard_by_all() {
        let heard = run_ranks(3, |team: &ThreadRank| {
            let mut totals = ExactSums::new(1, 1);
            totals.column(0).add_all(&[1.0]);
            add_up(team, &mut [(&mut totals, vec![0])], &mut [], team.rank() as i8)
        });
        assert_eq!(heard, [2, 2, 2]);
    }
}
