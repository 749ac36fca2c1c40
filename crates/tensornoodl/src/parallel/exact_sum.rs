//! Order-independent sums: their bits depend neither on the order of the numbers nor on the thread or rank that adds
//! them.
//!
//! ```text
//! x_i                     numbers to be added, |x_i| < 2^(26 level - 1)
//! x_i = s1 + s2 + s3 + e  slices: s_k is a multiple of u_k = 2^(26 (level - k)), |e| <= u_3 / 2
//! sum = S1 + S2 + S3      S_k is the sum of all s_k, without rounding
//! ```
//!
//! Every number is cut into slices on one grid of powers of two. Slices of one grid line add up without rounding in
//! double precision, so their sums are integer multiples of u_k, and integers add up in any order. A sum keeps the
//! three highest slices that occur in it; the part e of a number below these slices is dropped. The smallest possible
//! level for the largest number is used, hence u_3 <= 2^-51 max |x_i|, and a sum of N numbers is the exact sum up to
//! N 2^-52 max |x_i|, rounded once (Demmel and Nguyen, "Parallel reproducible summation", 2015). If all numbers are
//! multiples of u_3, nothing is dropped, and the result is the correctly rounded exact sum.

use crate::linalg::vector::with_simd;
use crate::parallel::team::Team;

/// Bits of a slice. Sums of up to 2^27 slices are integers below 2^53 times u_k, which double precision holds exactly;
/// longer sums are rounded like any floating-point sum.
const BITS: i32 = 26;

/// Number of slices that are kept.
const SLICES: usize = 3;

/// The level of a sum to which nothing was added.
const EMPTY: i8 = i8::MIN;

/// The level of a sum to which a number that is infinite, NaN or too large was added.
const NOT_FINITE: i8 = i8::MAX;

/// The lowest level: slices and rounders are normal numbers. Numbers below 1e-305 vanish.
const LOWEST: i8 = -36;

/// Number of levels, from `LOWEST` on, for which slices and rounders are normal numbers.
const LEVELS: usize = 74;

/// Returns 2^exponent.
const fn power(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

/// Whether a sum has slices: it is neither empty nor not finite.
fn has_slices(level: i8) -> bool {
    (LOWEST..LOWEST + LEVELS as i8).contains(&level)
}

/// Returns the exponent of the unit u_(slice + 1); slices are numbered from 0.
const fn unit_exponent(level: i8, slice: usize) -> i32 {
    BITS * (level as i32 - 1 - slice as i32)
}

/// Returns the constants that round a number to a multiple of each unit when they are added and subtracted again.
fn rounders(level: i8) -> [f64; SLICES] {
    static ROUNDERS: [[f64; SLICES]; LEVELS] = {
        let mut rounders = [[0.0; SLICES]; LEVELS];
        let mut at = 0;
        while at < LEVELS * SLICES {
            let level = LOWEST + (at / SLICES) as i8;
            rounders[at / SLICES][at % SLICES] = 1.5 * power(52 + unit_exponent(level, at % SLICES));
            at += 1;
        }
        rounders
    };
    ROUNDERS[(level - LOWEST) as usize]
}

/// Adds the slices of x to the sums of slices.
#[inline(always)]
fn add_slices(mut x: f64, sums: [&mut f64; SLICES], rounders: [f64; SLICES]) {
    for (sum, rounder) in sums.into_iter().zip(rounders) {
        let slice = (x + rounder) - rounder;
        *sum += slice;
        x -= slice;
    }
}

/// Returns the sum of three slices, rounded once: after carrying, everything below the first slice adds up without
/// rounding.
#[inline(always)]
fn round([first, second, third]: [f64; SLICES], rounders: [f64; SLICES]) -> f64 {
    let carried = (third + rounders[1]) - rounders[1];
    let (second, third) = (second + carried, third - carried);
    let carried = (second + rounders[0]) - rounders[0];
    (first + carried) + ((second - carried) + third)
}

/// Returns the value of a sum: 0 if it is empty, NaN if it is not finite.
fn value(level: i8, slices: [f64; SLICES]) -> f64 {
    match level {
        EMPTY => 0.0,
        NOT_FINITE => f64::NAN,
        level => round(slices, rounders(level)),
    }
}

/// Columns of order-independent sums. The sums of one column share one level.
#[derive(Debug, Default)]
pub(crate) struct ExactSums {
    /// Number of sums in a column.
    length: usize,
    /// The level of each column.
    levels: Vec<i8>,
    /// For each column, all first slices, then all second slices, then all third slices.
    slices: Vec<f64>,
}

/// One column of [`ExactSums`], to add numbers to.
pub(crate) struct SumColumn<'a> {
    level: &'a mut i8,
    slices: &'a mut [f64],
}

/// Some columns of [`ExactSums`] next to each other, to add numbers to.
pub(crate) struct ColumnGroup<'a> {
    length: usize,
    levels: &'a mut [i8],
    slices: &'a mut [f64],
}

impl ColumnGroup<'_> {
    /// One column of the group, counted from 0.
    pub(crate) fn column(&mut self, column: usize) -> SumColumn<'_> {
        let size = SLICES * self.length;
        SumColumn { level: &mut self.levels[column], slices: &mut self.slices[column * size..][..size] }
    }
}

impl SumColumn<'_> {
    /// Raises the level, if needed, for numbers of up to this magnitude.
    fn raise_for(&mut self, size: f64) {
        // 2^exponent > 2 size, so that a number three levels below rounds to zero in all three slices, whether it was
        // added before or after the level was raised.
        let exponent = ((size.to_bits() >> 52) & 0x7ff) as i32 - 1021;
        let level = (exponent + BITS - 1).div_euclid(BITS).max(LOWEST.into()) as i8;
        let level = if has_slices(level) && size.is_finite() { level } else { NOT_FINITE };
        self.raise_to(level);
    }

    /// Raises the level, if it is below `level`: lower slices are dropped.
    fn raise_to(&mut self, level: i8) {
        if level <= *self.level {
            return;
        }
        let length = self.slices.len() / SLICES;
        if *self.level != EMPTY && level != NOT_FINITE {
            let down = SLICES.min((level - *self.level) as usize) * length;
            self.slices.copy_within(..SLICES * length - down, down);
            self.slices[..down].fill(0.0);
        }
        *self.level = level;
    }

    /// Adds a x, entry by entry, where no |a x_i| is larger than `size`.
    pub(crate) fn add_scaled(&mut self, a: f64, x: &[f64], size: f64) {
        self.raise_for(size);
        if *self.level == NOT_FINITE {
            return;
        }
        debug_assert!(x.iter().all(|x| (a * x).abs() <= size), "an entry is larger than {size:e}");
        let rounders = rounders(*self.level);
        let length = self.slices.len() / SLICES;
        let (first, others) = self.slices.split_at_mut(length);
        let (second, third) = others.split_at_mut(length);
        with_simd(
            #[inline(always)]
            || {
                for (((x, first), second), third) in x.iter().zip(first).zip(second).zip(third) {
                    add_slices(a * x, [first, second, third], rounders);
                }
            },
        );
    }

    /// Adds a number to the sum of a column that has only one.
    pub(crate) fn add(&mut self, x: f64) {
        self.raise_for(x.abs());
        if *self.level != NOT_FINITE
            && let [first, second, third] = self.slices
        {
            add_slices(x, [first, second, third], rounders(*self.level));
        }
    }

    /// Adds many numbers to the first sum of the column.
    pub(crate) fn add_all(&mut self, all: &[f64]) {
        let size = all.iter().fold(0.0, |a: f64, b| if b.is_nan() { f64::NAN } else { a.max(b.abs()) });
        self.raise_for(size);
        if *self.level == NOT_FINITE {
            return;
        }
        let (rounders, length) = (rounders(*self.level), self.slices.len() / SLICES);
        let mut sums = std::array::from_fn(|slice| self.slices[slice * length]);
        all.iter().for_each(|&x| add_slices(x, sums.each_mut(), rounders));
        (0..SLICES).for_each(|slice| self.slices[slice * length] = sums[slice]);
    }
}

impl ExactSums {
    /// Empty sums, `length` of them in each column.
    pub(crate) fn new(columns: usize, length: usize) -> ExactSums {
        ExactSums { length, levels: vec![EMPTY; columns], slices: vec![0.0; columns * SLICES * length] }
    }

    /// The number of columns, and the number of sums in each.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.levels.len(), self.length)
    }

    /// One column, to add numbers to.
    pub(crate) fn column(&mut self, column: usize) -> SumColumn<'_> {
        let size = SLICES * self.length;
        SumColumn { level: &mut self.levels[column], slices: &mut self.slices[column * size..][..size] }
    }

    /// All columns, in groups of this many columns each, so that several threads can add numbers.
    pub(crate) fn groups(&mut self, columns: usize) -> impl Iterator<Item = ColumnGroup<'_>> {
        let length = self.length;
        let slices = self.slices.chunks_exact_mut((columns * SLICES * length).max(1));
        let levels = self.levels.chunks_exact_mut(columns);
        levels.zip(slices).map(move |(levels, slices)| ColumnGroup { length, levels, slices })
    }

    /// Makes the sums of a column empty.
    pub(crate) fn clear(&mut self, column: usize) {
        let SumColumn { level, slices } = self.column(column);
        if std::mem::replace(level, EMPTY) != EMPTY {
            slices.fill(0.0);
        }
    }

    /// Returns one sum of a column.
    pub(crate) fn get(&self, column: usize, at: usize) -> f64 {
        let slice = |slice: usize| self.slices[(column * SLICES + slice) * self.length + at];
        value(self.levels[column], std::array::from_fn(slice))
    }

    /// Copies all sums of a column to `sums`.
    pub(crate) fn read(&self, column: usize, sums: &mut [f64]) {
        let level = self.levels[column];
        if !has_slices(level) {
            return sums.fill(value(level, [0.0; SLICES]));
        }
        let rounders = rounders(level);
        let (first, others) = self.slices[column * SLICES * self.length..].split_at(self.length);
        let (second, third) = others.split_at(self.length);
        with_simd(
            #[inline(always)]
            || {
                for (((sum, &first), &second), &third) in sums.iter_mut().zip(first).zip(second).zip(third) {
                    *sum = round([first, second, third], rounders);
                }
            },
        );
    }

    /// Returns one sum of a column as an integer multiple of u_3.
    fn integer(&self, column: usize, at: usize) -> i128 {
        let level = self.levels[column];
        (0..SLICES).fold(0, |integer, slice| {
            let sum = self.slices[(column * SLICES + slice) * self.length + at];
            // Division by a power of two is exact.
            let units = sum * power(-unit_exponent(level, slice));
            (integer << BITS) + i128::from(units as i64)
        })
    }

    /// Sets one sum of a column to an integer multiple of u_3.
    fn set_integer(&mut self, column: usize, at: usize, mut integer: i128) {
        let level = self.levels[column];
        for slice in (0..SLICES).rev() {
            // The first slice takes all bits above the others.
            let units = if slice == 0 { integer } else { integer & ((1 << BITS) - 1) };
            let sum = units as f64 * power(unit_exponent(level, slice));
            self.slices[(column * SLICES + slice) * self.length + at] = sum;
            integer = (integer - units) >> BITS;
        }
    }
}

/// One order-independent sum: its bits depend neither on the order of the numbers nor on the thread or rank that adds
/// them.
///
/// N numbers x_i add up to their exact sum up to N 2^-52 max |x_i|, rounded once. Numbers below 1e-290 lose digits. The
/// sum becomes NaN if a number above 1e290, an infinite number or NaN is added.
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
        ExactSum { level: EMPTY, slices: [0.0; SLICES] }
    }
}

impl ExactSum {
    fn as_column(&mut self) -> SumColumn<'_> {
        SumColumn { level: &mut self.level, slices: &mut self.slices }
    }

    /// Adds a number.
    pub fn add(&mut self, x: f64) {
        self.as_column().add(x);
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &ExactSum) {
        let mut other = *other;
        self.as_column().raise_to(other.level);
        other.as_column().raise_to(self.level);
        self.slices.iter_mut().zip(other.slices).for_each(|(a, b)| *a += b);
    }

    /// Returns the sum of all numbers added so far; 0 if there are none.
    pub fn get(&self) -> f64 {
        value(self.level, self.slices)
    }
}

/// Number of low bits of a sum that are sent as one i64; the bits above are sent as another one. The unused bits of
/// both leave room for sums over [`MAX_RANKS`](crate::parallel::team::MAX_RANKS) ranks.
const LOW_BITS: u32 = 52;

/// Sums to be added over all ranks: an [`ExactSums`], and which of its columns.
pub(crate) type SummedColumns<'a> = (&'a mut ExactSums, Vec<usize>);

/// Adds the columns of sums and the counts of all ranks, and leaves the totals on every rank.
///
/// Returns the largest `alarm` of all ranks. If it is not 0, nothing is added.
pub(crate) fn sum_over_ranks(
    team: &dyn Team,
    sums: &mut [SummedColumns<'_>],
    counts: &mut [i64],
    alarm: i8,
) -> i8 {
    if team.size() == 1 {
        return alarm;
    }
    let alarm = raise_to_common_levels(team, sums, alarm);
    if alarm != 0 {
        return alarm;
    }
    let mut integers = counts.to_vec();
    for (sums, columns) in sums.iter() {
        for &column in columns.iter().filter(|column| has_slices(sums.levels[**column])) {
            for at in 0..sums.length {
                let integer = sums.integer(column, at);
                integers.extend([(integer >> LOW_BITS) as i64, (integer & ((1 << LOW_BITS) - 1)) as i64]);
            }
        }
    }
    team.sum(&mut integers);
    let (totals, integers) = integers.split_at(counts.len());
    counts.copy_from_slice(totals);
    let mut integers = integers.chunks_exact(2);
    for (sums, columns) in sums.iter_mut() {
        for &column in columns.iter() {
            // A column without slices was not sent.
            let sent = if has_slices(sums.levels[column]) { sums.length } else { 0 };
            for (at, parts) in (&mut integers).take(sent).enumerate() {
                sums.set_integer(column, at, (i128::from(parts[0]) << LOW_BITS) + i128::from(parts[1]));
            }
        }
    }
    0
}

/// Raises every column to its highest level on any rank. Returns the largest `alarm` of all ranks; if it is not 0, no
/// level changes.
fn raise_to_common_levels(team: &dyn Team, sums: &mut [SummedColumns<'_>], alarm: i8) -> i8 {
    let mut levels = vec![alarm];
    for (sums, columns) in sums.iter() {
        levels.extend(columns.iter().map(|&column| sums.levels[column]));
    }
    team.max(&mut levels);
    let mut common = levels[1..].iter();
    if levels[0] == 0 {
        for (sums, columns) in sums.iter_mut() {
            for (&column, &level) in columns.iter().zip(&mut common) {
                sums.column(column).raise_to(level);
            }
        }
    }
    levels[0]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use xsum::{Xsum, XsumLarge};

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
        assert_eq!(sum(&[1e-310]), 0.0, "numbers below 1e-305 vanish");
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
            shift in 0_usize..60,
            cut in 0_usize..60,
        ) {
            let (shift, cut) = (shift % numbers.len(), cut % numbers.len());
            let forward = sum(&numbers);
            let backward: Vec<f64> = numbers.iter().rev().copied().collect();
            let rotated = [&numbers[shift..], &numbers[..shift]].concat();
            prop_assert_eq!(forward.to_bits(), sum(&backward).to_bits());
            prop_assert_eq!(forward.to_bits(), sum(&rotated).to_bits());
            let largest = numbers.iter().fold(0.0, |a: f64, b| a.max(b.abs()));
            let plain: f64 = numbers.iter().sum();
            prop_assert!((forward - plain).abs() <= 2.0 * numbers.len() as f64 * largest * 2f64.powi(-52));
            // Partial sums of two ranks add up to the same bits.
            let of = |numbers: &[f64]| {
                let mut sum = ExactSum::default();
                numbers.iter().for_each(|&x| sum.add(x));
                sum
            };
            let (mut one, other) = (of(&numbers[..cut]), of(&numbers[cut..]));
            one.merge(&other);
            prop_assert_eq!(one.get().to_bits(), forward.to_bits());
            let sums = run_ranks(2, |team: &ThreadRank| {
                let mut totals = ExactSums::new(1, 2);
                let own = if team.rank() == 0 { &numbers[..cut] } else { &numbers[cut..] };
                own.iter().for_each(|&x| totals.column(0).add_scaled(1.0, &[x, 2.0 * x], 2.0 * x.abs()));
                let mut counts = [own.len() as i64];
                assert_eq!(sum_over_ranks(team, &mut [(&mut totals, vec![0])], &mut counts, 0), 0);
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

    /// Returns the correctly rounded sum by the crate xsum.
    ///
    /// xsum 0.1.6 rounds negative sums wrongly, (-2^53) + (-1) to -2^53 - 2 instead of -2^53 for example. So a negative
    /// sum is computed as minus the sum of the opposite numbers.
    fn exact_sum(numbers: &[f64]) -> f64 {
        let sum = |sign: f64| {
            let mut sum = XsumLarge::new();
            numbers.iter().for_each(|x| sum.add(sign * x));
            sum.sum()
        };
        if sum(1.0) < 0.0 { -sum(-1.0) } else { sum(1.0) }
    }

    proptest! {
        /// Compares with exact sums of the crate xsum, rounded once.
        ///
        /// A number loses at most u_3 / 2, and nothing if it is a multiple of u_3. So the exact sum of the kept parts
        /// is within b = u_3 / 2 times the number of other numbers of the exact sum, and rounding is monotonic.
        #[test]
        fn the_sum_is_the_exact_sum_within_the_documented_bound(
            scaled in prop::collection::vec((0.0..1.0_f64, -1.0..1.0_f64), 1..3000),
            lowest in -800_i32..800,
            width in 0_i32..120,
            cancelled in 0_usize..3000,
        ) {
            let scale = |(at, x): &(f64, f64)| x * power(lowest + (at * f64::from(width)) as i32);
            let mut numbers: Vec<f64> = scaled.iter().map(scale).collect();
            let opposites: Vec<f64> = numbers.iter().take(cancelled).map(|x| -x).collect();
            numbers.extend(opposites);
            let mut sum = ExactSum::default();
            numbers.iter().for_each(|&x| sum.add(x));

            let exact = |further: f64| exact_sum(&[&numbers[..], &[further]].concat());
            let unit = power(unit_exponent(sum.level, SLICES - 1));
            let largest = numbers.iter().fold(0.0, |a: f64, b| a.max(b.abs()));
            prop_assume!(largest >= power(-900));
            prop_assert!(unit <= largest * power(-51));
            let cut = numbers.iter().filter(|x| **x % unit != 0.0).count();
            let bound = cut as f64 * unit / 2.0;
            prop_assert!(exact(-bound) <= sum.get() && sum.get() <= exact(bound));
            if cut == 0 {
                prop_assert_eq!(sum.get(), exact(0.0));
            }
        }

        /// Numbers whose bits all lie within three slices lose nothing.
        #[test]
        fn numbers_of_similar_size_add_up_to_the_rounded_exact_sum(
            integers in prop::collection::vec(-(1_i64 << 51)..1 << 51, 1..3000),
            largest in (1_i64 << 51)..1 << 52,
            exponent in -800_i32..800,
        ) {
            let numbers: Vec<f64> =
                integers.iter().chain([&largest]).map(|&x| x as f64 * power(exponent)).collect();
            let mut sum = ExactSum::default();
            numbers.iter().for_each(|&x| sum.add(x));
            prop_assert_eq!(sum.get(), exact_sum(&numbers));
        }
    }

    #[test]
    fn an_alarm_is_heard_by_all() {
        let heard = run_ranks(3, |team: &ThreadRank| {
            let mut totals = ExactSums::new(1, 1);
            totals.column(0).add_all(&[1.0]);
            sum_over_ranks(team, &mut [(&mut totals, vec![0])], &mut [], team.rank() as i8)
        });
        assert_eq!(heard, [2, 2, 2]);
    }
}
