//! Grids of cells in a plane.

/// A grid of rectangular cells in a plane. Cells are numbered row by row from the lowest y, and within a row from the
/// lowest x.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// Column of the table that holds x.
    pub x: String,
    /// Column of the table that holds y.
    pub y: String,
    /// Number of cells along x and along y.
    pub cells: (usize, usize),
    /// Lowest and highest x, then lowest and highest y. Points outside are left out. None for the bounds of the data.
    pub bounds: Option<[(f64, f64); 2]>,
    /// Whether the grid is half a basketball court, in tenths of feet from the hoop: written `court(x,y,12x10)`.
    pub court: bool,
}

/// The bounds of half a basketball court; y runs from the baseline to midcourt.
pub(crate) const COURT: [(f64, f64); 2] = [(-250.0, 250.0), (-52.5, 417.5)];

impl Grid {
    /// The bounds of a grid that contains no points.
    const UNIT: [(f64, f64); 2] = [(0.0, 1.0); 2];

    /// Returns the number of the cell of a point within the bounds.
    pub(crate) fn cell(&self, [x, y]: [f64; 2]) -> usize {
        let [across, up] = self.bounds.unwrap_or(Grid::UNIT);
        let cell = |at: f64, (low, high): (f64, f64), cells: usize| {
            let share = if high > low { (at - low) / (high - low) } else { 0.0 };
            // The highest value belongs to the last cell.
            ((share * cells as f64) as usize).min(cells - 1)
        };
        cell(y, up, self.cells.1) * self.cells.0 + cell(x, across, self.cells.0)
    }

    /// Returns the labels of all cells: the coordinates of their centers.
    pub(crate) fn labels(&self) -> Vec<String> {
        let ((across, up), bounds) = (self.cells, self.bounds.unwrap_or(Grid::UNIT));
        let center = |at: usize, (low, high): (f64, f64), cells: usize| {
            low + (high - low) * (at as f64 + 0.5) / cells as f64
        };
        // Enough digits to distinguish the cells.
        let digits = |(low, high): (f64, f64), cells: usize| {
            (1.0 - ((high - low) / cells as f64).log10().floor()).clamp(1.0, 12.0) as usize
        };
        let (x_digits, y_digits) = (digits(bounds[0], across), digits(bounds[1], up));
        let label = |at: usize| {
            let (x, y) = (center(at % across, bounds[0], across), center(at / across, bounds[1], up));
            format!("{x:.x_digits$}:{y:.y_digits$}")
        };
        (0..across * up).map(label).collect()
    }
}
