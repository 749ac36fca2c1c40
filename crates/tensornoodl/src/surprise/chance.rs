//! Tails of the negative binomial distribution, and the special functions that they need.

/// Maximum number of terms of a series or a continued fraction. About the root of the largest argument is needed.
const MAX_TERMS: usize = 100_000;

/// Terms end when they change the result by less than this.
const PRECISION: f64 = 1e-14;

/// Products of up to this many factors are computed as such. Factors are at most 1e18, so that they do not overflow.
const MOST_FACTORS: f64 = 16.0;

/// A number that is added where a denominator may be zero.
const TINY: f64 = 1e-300;

/// The largest size of a negative binomial distribution, which is then nearly a Poisson distribution.
const POISSON: f64 = 1e9;

/// Returns ln Gamma(x) for x > 0, by the approximation of Lanczos.
pub(crate) fn ln_gamma(x: f64) -> f64 {
    const COEFFICIENTS: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    if x < 0.5 {
        // Gamma(x) Gamma(1 - x) = pi / sin(pi x)
        let pi = std::f64::consts::PI;
        return (pi / (pi * x).sin()).ln() - ln_gamma(1.0 - x);
    }
    let (x, t) = (x - 1.0, x + 6.5);
    let terms = COEFFICIENTS[1..].iter().enumerate().map(|(i, c)| c / (x + 1.0 + i as f64));
    let sum = COEFFICIENTS[0] + terms.sum::<f64>();
    (x + 0.5) * t.ln() - t + (2.0 * std::f64::consts::PI).sqrt().ln() + sum.ln()
}

/// Returns ln(x (x + 1) ... (x + n - 1)), which is ln Gamma(x + n) - ln Gamma(x), for x > 0 and n >= 0. Small whole n
/// take a few multiplications, and lose no digits where x is large.
pub(crate) fn ln_rising(x: f64, n: f64) -> f64 {
    if n > MOST_FACTORS || n.fract() != 0.0 {
        return ln_gamma(x + n) - ln_gamma(x);
    }
    (0..n as u32).map(|k| x + f64::from(k)).product::<f64>().ln()
}

/// Evaluates the continued fraction 1 / (b_0 + a_1 / (b_1 + a_2 / (b_2 + ...))) by the method of Lentz. `term` returns
/// (a_i, b_i); a_0 is 1.
fn continued_fraction(term: impl Fn(f64) -> (f64, f64)) -> f64 {
    let keep = |x: f64| if x.abs() < TINY { TINY } else { x };
    let (mut c, mut d) = (1.0 / TINY, 1.0 / keep(term(0.0).1));
    let mut value = d;
    for i in 1..MAX_TERMS {
        let (a, b) = term(i as f64);
        d = 1.0 / keep(a * d + b);
        c = keep(b + a / c);
        value *= c * d;
        if (c * d - 1.0).abs() < PRECISION {
            break;
        }
    }
    value
}

/// Returns the regularized incomplete beta function I_x(a, b) and its complement, each with small relative error.
fn beta_tails(a: f64, b: f64, x: f64) -> (f64, f64) {
    if x <= 0.0 || x >= 1.0 {
        return if x <= 0.0 { (0.0, 1.0) } else { (1.0, 0.0) };
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        let (upper, lower) = beta_tails(b, a, 1.0 - x);
        return (lower, upper);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p()).exp() / a;
    let fraction = continued_fraction(|i| {
        let k = (i / 2.0).floor();
        let numerator = match i % 2.0 == 0.0 {
            true => k * (b - k) * x / ((a + 2.0 * k - 1.0) * (a + 2.0 * k)),
            false => -(a + k) * (a + b + k) * x / ((a + 2.0 * k) * (a + 2.0 * k + 1.0)),
        };
        (numerator, 1.0)
    });
    let lower = (front * fraction).min(1.0);
    (lower, 1.0 - lower)
}

/// The negative binomial distribution: a Poisson distribution whose mean is drawn from a gamma distribution. Its
/// variance is `mean + mean^2 / size`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct NegativeBinomial {
    pub(crate) mean: f64,
    pub(crate) size: f64,
}

/// The probabilities of less than, of exactly and of more than a number of events.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Tails {
    pub(crate) below: f64,
    pub(crate) equal: f64,
    pub(crate) above: f64,
}

impl NegativeBinomial {
    /// The distribution with this mean, above 0, and this size.
    pub(crate) fn new(mean: f64, size: f64) -> NegativeBinomial {
        NegativeBinomial { mean, size: size.clamp(LEAST_P, POISSON) }
    }

    /// Returns ln P(N = n).
    pub(crate) fn ln_probability(&self, n: f64) -> f64 {
        let (m, r) = (self.mean, self.size);
        let ways = ln_rising(r, n) - ln_rising(1.0, n);
        ways + n * (m / (m + r)).ln() - r * (m / r).ln_1p()
    }

    /// Returns P(N > 0).
    pub(crate) fn some(&self) -> f64 {
        -self.ln_probability(0.0).exp_m1()
    }

    /// Returns P(N < n) and P(N >= n).
    fn at_least(&self, n: f64) -> (f64, f64) {
        let (m, r) = (self.mean, self.size);
        if n <= 0.0 {
            return (0.0, 1.0);
        }
        let (upper, lower) = beta_tails(n, r, m / (m + r));
        (lower, upper)
    }

    /// Returns the tails at n events (counts:tails).
    pub(crate) fn tails(&self, n: f64) -> Tails {
        let equal = self.ln_probability(n).exp();
        Tails { below: self.at_least(n).0, equal, above: self.at_least(n + 1.0).1 }
    }
}

impl Tails {
    /// The two-sided mid-p-value: half of the probability of the observed number counts.
    pub(crate) fn p_value(&self) -> f64 {
        let (below, above) = (self.below + self.equal / 2.0, self.above + self.equal / 2.0);
        (2.0 * below.min(above)).clamp(LEAST_P, 1.0)
    }
}

/// The smallest p-value.
pub(crate) const LEAST_P: f64 = 1e-300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ln_rising_is_a_difference_of_ln_gamma() {
        for x in [1e-3, 0.7, 1.0, 12.5, 4000.0] {
            for n in [0.0, 1.0, 2.0, 15.0, 16.0, 16.5, 17.0, 300.0] {
                let difference = ln_gamma(x + n) - ln_gamma(x);
                let error = ln_rising(x, n) - difference;
                assert!(error.abs() < 1e-11 * (1.0 + ln_gamma(x + n).abs()), "{x} {n}: {error}");
            }
        }
        assert!((ln_rising(1e18, 16.0) - 16.0 * 1e18_f64.ln()).abs() < 1e-9);
        assert_eq!(ln_rising(1e-300, 0.0), 0.0);
    }

    #[test]
    fn ln_gamma_is_the_logarithm_of_factorials() {
        let mut factorial = 0.0;
        for n in 1..100 {
            assert!((ln_gamma(n as f64) - factorial).abs() < 1e-12 * (1.0 + factorial), "{n}");
            factorial += (n as f64).ln();
        }
        assert!((ln_gamma(0.5) - std::f64::consts::PI.sqrt().ln()).abs() < 1e-14);
        assert!((ln_gamma(0.001) - 6.907_178_885_383_853).abs() < 1e-12);
    }

    /// Tails are sums of probabilities, also where they are tiny.
    #[test]
    fn tails_are_sums_of_probabilities() {
        for mean in [0.01, 0.7, 5.0, 60.0] {
            for size in [0.5, 0.9, 8.0, 1e3, 1e9] {
                let law = NegativeBinomial::new(mean, size);
                // Large sizes leave few digits.
                let precision = 1e-10 + 1e-14 * size;
                let probability = |n: usize| law.ln_probability(n as f64).exp();
                for n in [0, 1, 2, 3, 7, 30, 120] {
                    let tails = law.tails(n as f64);
                    let above: f64 = (n + 1..n + 20_000).map(probability).sum();
                    let below: f64 = (0..n).map(probability).sum();
                    assert!(
                        (tails.above - above).abs() <= precision * above.max(1e-280),
                        "{law:?} {n}: {tails:?} {above}"
                    );
                    assert!((tails.below - below).abs() < precision, "{law:?} {n}: {tails:?} {below}");
                }
            }
        }
    }

    #[test]
    fn large_numbers_have_tails() {
        let law = NegativeBinomial::new(1e6, 1e9);
        // It is one standard deviation above the mean, up to the dispersion.
        let p = law.tails(1e6 + 1e3).p_value();
        assert!((p - 0.317_3).abs() < 1e-3, "{p}");
        let law = NegativeBinomial::new(3e9, 2.0);
        let p = law.tails(3e9);
        assert!((p.below + p.equal + p.above - 1.0).abs() < 1e-4, "{p:?}");
    }
}
