//! Cholesky's method for systems with a handful of unknowns, in plain loops.
//!
//! ```text
//! G = L L'        G (s x s), symmetric, unit diagonal; L lower triangular
//! G x = d         L z = d, then L'x = z
//! ```
//!
//! The codes of a fiber are such a system, mostly 1 x 1 or 2 x 2, and there are millions of them: calling faer would
//! take longer than solving them. Matrices are stored row by row. G is factored one row at a time, so that a caller can
//! compute the rows of G one by one and stop at the first row that fails.

/// Computes row `row` of L (s x s) from the rows above it and from row `row` of G (s x s).
///
/// Returns false if the leading `row + 1` rows and columns of G are not positive definite: the square of the diagonal
/// entry of L is not above `smallest_pivot`. Row `row` of L is incomplete then.
pub(crate) fn cholesky_row(
    factor: &mut [f64],
    matrix: &[f64],
    s: usize,
    row: usize,
    smallest_pivot: f64,
) -> bool {
    for col in 0..=row {
        let g = matrix[row * s + col];
        let known: f64 = (0..col).map(|before| factor[row * s + before] * factor[col * s + before]).sum();
        factor[row * s + col] = if row > col {
            (g - known) / factor[col * s + col]
        } else if g - known > smallest_pivot {
            (g - known).sqrt()
        } else {
            return false;
        };
    }
    true
}

/// Overwrites d with the solution x of L L'x = d, where s is the length of d.
pub(crate) fn cholesky_solve(factor: &[f64], d: &mut [f64]) {
    let s = d.len();
    for row in 0..s {
        let known: f64 = (0..row).map(|col| factor[row * s + col] * d[col]).sum();
        d[row] = (d[row] - known) / factor[row * s + row];
    }
    for row in (0..s).rev() {
        let known: f64 = (row + 1..s).map(|below| factor[below * s + row] * d[below]).sum();
        d[row] = (d[row] - known) / factor[row * s + row];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_system_is_solved() {
        let matrix = [1.0, 0.5, -0.25, 0.5, 1.0, 0.125, -0.25, 0.125, 1.0];
        let x = [3.0, -1.0, 2.0];
        let mut d: Vec<f64> =
            matrix.chunks_exact(3).map(|row| row.iter().zip(x).map(|(g, x)| g * x).sum()).collect();
        let mut factor = vec![0.0; 9];
        assert!((0..3).all(|row| cholesky_row(&mut factor, &matrix, 3, row, 1e-12)));
        cholesky_solve(&factor, &mut d);
        assert!(d.iter().zip(x).all(|(d, x)| (d - x).abs() < 1e-14), "{d:?}");
    }

    #[test]
    fn dependent_columns_are_refused_at_the_row_that_depends() {
        let matrix = [1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0];
        let mut factor = vec![0.0; 9];
        let rows: Vec<bool> = (0..3).map(|row| cholesky_row(&mut factor, &matrix, 3, row, 1e-12)).collect();
        assert_eq!(rows, [true, true, false]);
    }
}
