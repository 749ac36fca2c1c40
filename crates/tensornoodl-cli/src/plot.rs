//! Plots in the terminal: convergence curves, and patterns in one line.

use std::fmt::Write;

use anstyle::Style;

/// One convergence curve.
pub struct Curve<'a> {
    /// The name of the curve in the legend.
    pub label: &'a str,
    /// The character of its points.
    pub glyph: char,
    /// The style of its points.
    pub style: Style,
    /// The error after 0, 1, 2, ... tensors.
    pub errors: &'a [f64],
}

/// Columns and rows of the plotting area.
const WIDTH: usize = 64;
const HEIGHT: usize = 17;

/// Draws curves of errors over the number of tensors, with a logarithmic scale of errors.
pub fn convergence(curves: &[Curve<'_>]) -> String {
    // Errors below 1e-17 are rounding errors; zeros are drawn there.
    let decade = |error: f64| error.max(1e-17).log10();
    let decades = || curves.iter().flat_map(|curve| curve.errors).map(|&error| decade(error));
    let top = decades().fold(f64::NEG_INFINITY, f64::max).ceil();
    let bottom = decades().fold(f64::INFINITY, f64::min).floor().min(top - 1.0);
    let last = curves.iter().map(|curve| curve.errors.len()).max().unwrap_or(1).max(2) - 1;
    let row_of = |decade: f64| ((top - decade) / (top - bottom) * (HEIGHT - 1) as f64).round() as usize;
    let every = ((top - bottom) / 5.0).ceil() as usize;
    let ticks: Vec<f64> =
        (0..=(top - bottom) as usize).step_by(every).map(|down| top - down as f64).collect();

    let mut cells = vec![[None; WIDTH]; HEIGHT];
    for curve in curves {
        for (tensor, &error) in curve.errors.iter().enumerate().filter(|(_, error)| error.is_finite()) {
            let column = (tensor as f64 / last as f64 * (WIDTH - 1) as f64).round() as usize;
            cells[row_of(decade(error))][column] = Some(curve);
        }
    }

    let mut picture = String::new();
    // Writing to a string cannot fail.
    for (row, line) in cells.iter().enumerate() {
        let label = ticks.iter().copied().find(|&tick| row_of(tick) == row);
        let label = match label {
            Some(0.0) => "1 ┤".into(),
            Some(tick) => format!("1e{tick} ┤"),
            None => "│".to_owned(),
        };
        let _ = write!(picture, "{label:>9}");
        for cell in line {
            let _ = match cell {
                Some(Curve { style, glyph, .. }) => write!(picture, "{style}{glyph}{style:#}"),
                None => write!(picture, " "),
            };
        }
        let _ = writeln!(picture);
    }
    let _ = writeln!(picture, "{:>9}{}", "└", "─".repeat(WIDTH));
    let _ = writeln!(picture, "{:>9}{:<6}{:>width$}", 0, " tensors", last, width = WIDTH - 8);
    for Curve { label, glyph, style, .. } in curves {
        let _ = writeln!(picture, "{:>9}{style}{glyph}{style:#} {label}", "");
    }
    picture
}

/// Draws values as a line of at most `width` blocks. Where there are more values than blocks, a block shows the value
/// of its part that is farthest from zero.
pub fn sparkline(values: &[f64], width: usize) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let width = width.min(values.len()).max(1);
    let cells: Vec<f64> = (0..width)
        .map(|cell| {
            let some = &values[cell * values.len() / width..(cell + 1) * values.len() / width];
            some.iter().fold(0.0, |a: f64, &v| if v.abs() > a.abs() { v } else { a })
        })
        .collect();
    let (low, high) = cells.iter().fold((0.0_f64, 0.0_f64), |(a, b), &v| (a.min(v), b.max(v)));
    let level = |v: f64| (7.0 * (v - low) / (high - low).max(f64::MIN_POSITIVE)).round() as usize;
    cells.into_iter().map(|v| LEVELS[level(v).min(7)]).collect()
}
