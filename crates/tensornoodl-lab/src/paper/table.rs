//! The paper's tables (alpha_0_005, alpha_0_01, alpha_0_05), and its step sizes (stepsize).

/// The columns alpha_beta, J_K, m, method, err_A, err_X, T, support_recovered. The paper heads the last block of each
/// table with m = 500; its text and its step sizes say 600.
const TABLES: &str = include_str!("../../paper.csv");

/// One line of the paper's tables.
#[derive(Debug, Clone, PartialEq)]
pub struct PaperRow {
    /// The probability alpha = beta that an entry of a row or col factor is not zero.
    pub alpha: f64,
    /// The number of rows and of cols, J = K.
    pub size: usize,
    /// The number of patterns, m.
    pub patterns: usize,
    /// NOODL, Arora(b), Arora(u) or Mairal.
    pub method: &'static str,
    /// Relative error of A.
    pub error_a: f64,
    /// Relative error of X.
    pub error_x: f64,
    /// Number of tensors.
    pub steps: f64,
}

/// Returns all lines of the paper's tables.
pub fn paper() -> Vec<PaperRow> {
    let row = |line: &'static str| {
        let cells: Vec<&str> = line.split(',').collect();
        let [alpha, size, patterns, method, error_a, error_x, steps, _] = cells[..] else { return None };
        Some(PaperRow {
            alpha: alpha.parse().ok()?,
            size: size.parse().ok()?,
            patterns: patterns.parse().ok()?,
            method,
            error_a: error_a.parse().ok()?,
            error_x: error_x.parse().ok()?,
            steps: steps.parse().ok()?,
        })
    };
    TABLES.lines().filter_map(row).collect()
}

/// Returns the paper's step size. The paper's 5 for 50 patterns at alpha = 0.005 is used for J = K = 100 only: with
/// it, larger tensors need three times the paper's number of tensors.
pub fn eta_a(alpha: f64, size: usize, patterns: usize) -> f64 {
    match patterns {
        0..=50 if alpha <= 0.005 && size <= 100 => 5.0,
        0..=50 => 20.0,
        51..=300 => 40.0,
        _ => 50.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_cells_are_there() {
        let rows = paper();
        assert_eq!(rows.len(), 3 * 3 * 5 * 4);
        let noodl: Vec<&PaperRow> = rows.iter().filter(|row| row.method == "NOODL").collect();
        assert!(noodl.len() == 45 && noodl.iter().all(|row| row.error_a < 1e-10 && row.steps > 30.0));
        assert!(rows.iter().all(|row| [50, 150, 300, 450, 600].contains(&row.patterns)));
    }
}
