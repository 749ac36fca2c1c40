//! Bins of numbers: which bin a number is in, and the label of a bin. Widths are the decimal numbers that users write.

use std::cmp::Ordering;

/// Up to this bin, a number that is on an edge but for rounding is found by a tolerance. Beyond it, numbers and edges are
/// compared digit by digit.
const EXACT_FROM: f64 = 1e6;

/// Returns the bin of a number. None if it is beyond 10^15 bins, where the rounding error of a quotient is a bin.
pub(crate) fn bin(value: f64, width: f64) -> Option<i64> {
    let bin = value / width;
    let nearest = bin.round();
    if bin.abs() > 1e15 {
        None
    } else if bin.abs() < EXACT_FROM {
        // Rounding makes 0.7 / 0.1 a little less than 7.
        let on_edge = (bin - nearest).abs() <= 1e-12 * bin.abs();
        Some(if on_edge { nearest } else { bin.floor() } as i64)
    } else {
        let edge = nearest * width;
        // Products of whole numbers below 2^53 are exact.
        let is_below = match width.fract() == 0.0 && edge.abs() < 9e15 {
            true => value < edge,
            false => Decimal::from(value).compare(&Decimal::from(width).times(nearest as i64)).is_lt(),
        };
        Some(nearest as i64 - i64::from(is_below))
    }
}

/// Returns the label of a bin: its lower bound with all digits.
pub(crate) fn label(bin: i64, width: f64) -> String {
    Decimal::from(width).times(bin).to_string()
}

/// The number `digits` * 10^`exponent`.
struct Decimal {
    digits: i128,
    exponent: i32,
}

/// The shortest decimal number that is read as this floating-point number. It has at most 17 digits.
impl From<f64> for Decimal {
    fn from(value: f64) -> Decimal {
        let text = format!("{value:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        // The text of a finite number has digits only.
        let digits = format!("{whole}{part}").parse().unwrap_or(0);
        Decimal { digits, exponent: exponent.parse().unwrap_or(0) - part.len() as i32 }
    }
}

impl Decimal {
    /// Returns the product with a number of at most 10^15, without rounding.
    fn times(&self, factor: i64) -> Decimal {
        Decimal { digits: self.digits * i128::from(factor), exponent: self.exponent }
    }

    /// Compares two numbers of about the same size, without rounding.
    fn compare(&self, other: &Decimal) -> Ordering {
        let least = self.exponent.min(other.exponent);
        let scaled =
            |it: &Decimal| it.digits.saturating_mul(10_i128.saturating_pow(it.exponent.abs_diff(least)));
        scaled(self).cmp(&scaled(other))
    }
}

impl std::fmt::Display for Decimal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (sign, digits) = (if self.digits < 0 { "-" } else { "" }, self.digits.unsigned_abs().to_string());
        if self.digits == 0 {
            return f.write_str("0");
        }
        if self.exponent >= 0 {
            return write!(f, "{sign}{digits}{}", "0".repeat(self.exponent as usize));
        }
        let places = self.exponent.unsigned_abs() as usize;
        let padded = format!("{digits:0>width$}", width = places + 1);
        let (whole, part) = padded.split_at(padded.len() - places);
        match part.trim_end_matches('0') {
            "" => write!(f, "{sign}{whole}"),
            part => write!(f, "{sign}{whole}.{part}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_have_all_digits() {
        for (number, width, text) in [
            (7, 0.1, "0.7"),
            (-7, 0.1, "-0.7"),
            (10, 0.1, "1"),
            (0, 0.1, "0"),
            (3, 2.5, "7.5"),
            (100_000_000_000_001, 1.0, "100000000000001"),
            (999_999_999_999_999, 0.1, "99999999999999.9"),
            (3, 1e20, "300000000000000000000"),
            (1, 0.000_012, "0.000012"),
            (3, 0.333_333_333_333_333_3, "0.9999999999999999"),
        ] {
            assert_eq!(label(number, width), text);
        }
    }

    #[test]
    fn numbers_are_in_the_bin_that_starts_at_or_below_them() {
        for (value, width, expected) in [
            (0.7, 0.1, Some(7)),
            (-0.05, 0.1, Some(-1)),
            (123_456_789.3, 0.1, Some(1_234_567_893)),
            (123_456_789.299_99, 0.1, Some(1_234_567_892)),
            (1e12 + 0.9, 1.0, Some(1_000_000_000_000)),
            (1e14 + 0.75, 1.0, Some(100_000_000_000_000)),
            (-1e14 - 0.25, 1.0, Some(-100_000_000_000_001)),
            (1e14 + 1.0, 1.0, Some(100_000_000_000_001)),
            (1e14 + 3.0, 2.0, Some(50_000_000_000_001)),
            (1e16, 1.0, None),
            (1.0, 1e-320, None),
        ] {
            assert_eq!(bin(value, width), expected, "{value} {width}");
        }
    }
}
