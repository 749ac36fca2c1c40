//! The cells of `noodl-lab bench start`, and their picture.

use std::fmt::Write;

use serde::Serialize;
use tensornoodl_cli::svg::{begin, text};

/// One method in one cell.
#[derive(Serialize)]
pub(crate) struct Cell {
    pub(crate) r#type: &'static str,
    /// What is varied beside the number of patterns in a fiber: "fibers" or "noise".
    pub(crate) axis: &'static str,
    pub(crate) method: &'static str,
    pub(crate) mean_code_size: f64,
    pub(crate) fibers: usize,
    pub(crate) noise: f64,
    pub(crate) seeds: u64,
    /// Number of patterns that at least two fibers show, summed over the seeds.
    pub(crate) patterns_seen: usize,
    pub(crate) patterns_found: usize,
    pub(crate) spurious: usize,
    pub(crate) seconds: f64,
    /// Found patterns over seen and spurious ones.
    pub(crate) score: f64,
}

/// Draws a square for every cell, in a panel for each method and axis.
pub(crate) fn draw(cells: &[Cell]) -> String {
    let (left, top, side) = (74.0, 96.0, 34.0);
    let distinct = |of: &dyn Fn(&Cell) -> f64, axis: &str| {
        let mut values: Vec<f64> = cells.iter().filter(|cell| cell.axis == axis).map(of).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        values
    };
    let sizes = distinct(&|cell| cell.mean_code_size, "fibers");
    let sizes = if sizes.is_empty() { distinct(&|cell| cell.mean_code_size, "noise") } else { sizes };
    let axes = [
        ("fibers", distinct(&|cell| cell.fibers as f64, "fibers"), "fibers, no noise"),
        ("noise", distinct(&|cell| cell.noise, "noise"), "noise of a fiber; a pattern has length 1"),
    ];
    let widest = axes.iter().map(|axis| axis.1.len()).max().unwrap_or(1) as f64 * side;
    let methods = [
        ("search", "the search, knows nothing"),
        ("k-means", "k-means, knows the number"),
        ("random fibers", "random fibers, knows the number"),
    ];
    let panel = (widest.max(220.0) + 60.0, sizes.len() as f64 * side + 90.0);
    let mut svg = begin(left + 3.0 * panel.0, top + 2.0 * panel.1, "Where the start from nothing works");
    let title = "Patterns found in one tensor, over planted and spurious ones (1: all found, none spurious)";
    text(&mut svg, (left - 50.0, 28.0), "start", "font-weight=\"bold\" font-size=\"16\"", title);
    for (row, (axis, values, words)) in axes.iter().enumerate() {
        for (column, (method, name)) in methods.iter().enumerate() {
            let (x0, y0) = (left + column as f64 * panel.0, top + row as f64 * panel.1);
            text(&mut svg, (x0, y0 - 14.0), "start", "font-weight=\"bold\"", name);
            for (at, size) in sizes.iter().enumerate() {
                let y = y0 + (sizes.len() - 1 - at) as f64 * side;
                text(&mut svg, (x0 - 8.0, y + side / 2.0 + 4.0), "end", "", &size.to_string());
                for (place, value) in values.iter().enumerate() {
                    let here = |cell: &&Cell| {
                        let along = if *axis == "fibers" { cell.fibers as f64 } else { cell.noise };
                        cell.axis == *axis
                            && cell.method == *method
                            && cell.mean_code_size == *size
                            && along == *value
                    };
                    let Some(cell) = cells.iter().find(here) else { continue };
                    let x = x0 + place as f64 * side;
                    // From white to blue; the shades differ in grey, too.
                    let (r, g, b) =
                        (255.0 - 244.0 * cell.score, 255.0 - 145.0 * cell.score, 255.0 - 102.0 * cell.score);
                    let _ = writeln!(
                        svg,
                        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{side}\" height=\"{side}\" stroke=\"#fff\" \
                         fill=\"rgb({r:.0},{g:.0},{b:.0})\"/>"
                    );
                    let ink = if cell.score > 0.55 { "fill=\"#fff\"" } else { "fill=\"#333\"" };
                    let ink = format!("{ink} font-size=\"11\"");
                    let shown = if cell.score > 0.995 { "1".into() } else { format!("{:.2}", cell.score) };
                    text(
                        &mut svg,
                        (x + side / 2.0, y + side / 2.0 + 4.0),
                        "middle",
                        &ink,
                        shown.trim_start_matches('0'),
                    );
                }
            }
            let below = y0 + sizes.len() as f64 * side;
            for (place, value) in values.iter().enumerate() {
                let x = x0 + (place as f64 + 0.5) * side;
                let label = if *value >= 1000.0 { format!("{}k", value / 1000.0) } else { value.to_string() };
                text(&mut svg, (x, below + 16.0), "middle", "font-size=\"11\"", &label);
            }
            text(&mut svg, (x0, below + 36.0), "start", "", words);
            if column == 0 {
                let middle = y0 + sizes.len() as f64 * side / 2.0;
                let turned = format!("transform=\"rotate(-90 {:.1} {middle:.1})\"", x0 - 46.0);
                text(&mut svg, (x0 - 46.0, middle), "middle", &turned, "patterns in a fiber");
            }
        }
    }
    svg + "</svg>\n"
}
