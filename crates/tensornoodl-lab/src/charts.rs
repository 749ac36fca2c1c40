//! Line charts in panels, as SVG.

use std::fmt::Write;

use tensornoodl_cli::svg::{begin, text};

/// One panel of lines.
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) x_label: &'static str,
    pub(crate) y_label: &'static str,
    /// Whether the y axis is logarithmic.
    pub(crate) logarithmic: bool,
    pub(crate) series: Vec<Series>,
}

/// One line of a panel.
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
    /// Whether points are marked.
    pub(crate) marked: bool,
    /// Index of the color.
    pub(crate) color: usize,
    /// Lengths of the dashes; empty for a solid line.
    pub(crate) dashes: &'static str,
}

/// Colors that color-blind people can tell apart, too (Okabe and Ito).
const COLORS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#555555"];

/// Width and height of the plot of a panel.
const WIDTH: f64 = 290.0;
const HEIGHT: f64 = 220.0;
/// Distance of the first panel from the left and from the top.
const LEFT: f64 = 74.0;
const TOP: f64 = 44.0;
/// Height of a line of the legend or of the caption.
const LINE: f64 = 17.0;

/// Draws panels side by side, `in_row` in a row, with a legend below each row and a caption at the end.
pub(crate) fn charts(charts: &[Chart], in_row: usize, caption: &[String]) -> String {
    let in_row = in_row.max(1);
    let legends: Vec<Vec<&Series>> = charts.chunks(in_row).map(legend).collect();
    let longest = legends.iter().map(|legend| legend.len().div_ceil(in_row)).max().unwrap_or(0);
    let panel = (WIDTH + 100.0, HEIGHT + 110.0 + longest as f64 * LINE);
    let caption = wrapped(caption, ((in_row as f64 * panel.0 - 14.0) / 6.2) as usize);
    let total =
        (in_row as f64 * panel.0 + 10.0, legends.len() as f64 * panel.1 + 24.0 + LINE * caption.len() as f64);
    let title = charts.first().map_or("", |chart| chart.title.as_str());
    let mut svg = begin(total.0, total.1, title);
    for (at, chart) in charts.iter().enumerate() {
        let corner = (LEFT + (at % in_row) as f64 * panel.0, TOP + (at / in_row) as f64 * panel.1);
        let title = format!("({}) {}", char::from(b'a' + (at % 26) as u8), chart.title);
        draw_chart(&mut svg, chart, corner, &title);
    }
    for (row, legend) in legends.iter().enumerate() {
        let in_column = legend.len().div_ceil(in_row).max(1);
        for (at, series) in legend.iter().enumerate() {
            let x = LEFT + (at / in_column) as f64 * panel.0;
            let y = TOP + row as f64 * panel.1 + HEIGHT + 60.0 + LINE * (at % in_column) as f64;
            let (color, dashes) = (COLORS[series.color % COLORS.len()], dashes(series));
            // Writing to a string cannot fail.
            let _ = writeln!(
                svg,
                "<path d=\"M{x:.1} {:.1}h24\" stroke=\"{color}\" stroke-width=\"3\" {dashes}/>",
                y - 4.0
            );
            text(&mut svg, (x + 32.0, y), "start", "font-size=\"12\"", &series.name);
        }
    }
    for (line, words) in caption.iter().enumerate() {
        let y = total.1 - LINE * (caption.len() - line) as f64;
        text(&mut svg, (24.0, y), "start", "font-size=\"12\" fill=\"#444\"", words);
    }
    svg + "</svg>\n"
}

/// Draws one panel with its upper left corner at (x0, y0): title, axes and lines.
fn draw_chart(svg: &mut String, chart: &Chart, (x0, y0): (f64, f64), title: &str) {
    let shown = |y: f64| if chart.logarithmic { y.max(1e-17).log10() } else { y };
    let points = || chart.series.iter().flat_map(|series| &series.points);
    let most_x = points().map(|point| point.0).fold(1.0, f64::max);
    let high = points().map(|point| shown(point.1)).fold(f64::NEG_INFINITY, f64::max);
    let low = points().map(|point| shown(point.1)).fold(f64::INFINITY, f64::min);
    let (low, high) = if chart.logarithmic { (low.floor(), high.ceil()) } else { (0.0, nice(high)) };
    let high = if high > low { high } else { low + 1.0 };
    let x_of = |x: f64| x0 + WIDTH * x / most_x;
    let y_of = |y: f64| y0 + HEIGHT * (high - shown(y)) / (high - low);
    text(svg, (x0 + WIDTH / 2.0, y0 - 16.0), "middle", "font-weight=\"bold\"", title);
    let every = if chart.logarithmic { ((high - low) / 5.0).ceil() } else { (high - low) / 4.0 };
    for tick in (0..=5).map(|tick| high - f64::from(tick) * every).filter(|tick| *tick >= low) {
        let y = y0 + HEIGHT * (high - tick) / (high - low);
        let label = if chart.logarithmic { format!("1e{:.0}", tick + 0.0) } else { decimal(tick, every) };
        let _ = writeln!(svg, "<path d=\"M{x0:.1} {y:.1}h{WIDTH}\" stroke=\"#ddd\"/>");
        text(svg, (x0 - 7.0, y + 4.0), "end", "font-size=\"11\"", &label);
    }
    let step = nice(most_x / 4.0);
    for x in (0..=4).map(|tick| f64::from(tick) * step).filter(|x| *x <= most_x) {
        let label = decimal(x, step);
        text(svg, (x_of(x), y0 + HEIGHT + 17.0), "middle", "font-size=\"11\"", &label);
    }
    text(svg, (x0 + WIDTH / 2.0, y0 + HEIGHT + 36.0), "middle", "", chart.x_label);
    let rotated = format!("transform=\"rotate(-90 {:.1} {:.1})\"", x0 - 50.0, y0 + HEIGHT / 2.0);
    text(svg, (x0 - 50.0, y0 + HEIGHT / 2.0), "middle", &rotated, chart.y_label);
    for series in &chart.series {
        let points = series.points.iter().map(|&(x, y)| format!("{:.1},{:.1}", x_of(x), y_of(y)));
        draw_line(svg, series, &points.collect::<Vec<_>>());
    }
}

/// Draws one line through points "x,y".
fn draw_line(svg: &mut String, series: &Series, points: &[String]) {
    let (color, dashes) = (COLORS[series.color % COLORS.len()], dashes(series));
    let _ = writeln!(
        svg,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\" {dashes}/>",
        points.join(" ")
    );
    // Marks on a dashed line are hollow, so that a line below can be seen.
    let fill = if series.dashes.is_empty() { color } else { "#fff" };
    for point in points.iter().filter(|_| series.marked) {
        let (x, y) = point.split_once(',').unwrap_or_default();
        let _ = writeln!(
            svg,
            "<circle cx=\"{x}\" cy=\"{y}\" r=\"3.5\" fill=\"{fill}\" stroke=\"{color}\" stroke-width=\"1.5\"/>"
        );
    }
}

/// Returns the lines of the panels in a row, each name once.
fn legend(charts: &[Chart]) -> Vec<&Series> {
    let mut legend: Vec<&Series> = Vec::new();
    for series in charts.iter().flat_map(|chart| &chart.series) {
        if legend.iter().all(|known| known.name != series.name) {
            legend.push(series);
        }
    }
    legend
}

fn dashes(series: &Series) -> String {
    match series.dashes {
        "" => String::new(),
        dashes => format!("stroke-dasharray=\"{dashes}\""),
    }
}

/// Breaks lines that have more than `most` letters.
fn wrapped(lines: &[String], most: usize) -> Vec<String> {
    let mut wrapped: Vec<String> = Vec::new();
    for line in lines {
        let mut open = String::new();
        for word in line.split(' ') {
            if !open.is_empty() && open.len() + 1 + word.len() > most {
                wrapped.push(std::mem::take(&mut open));
            }
            if !open.is_empty() {
                open.push(' ');
            }
            open.push_str(word);
        }
        wrapped.push(open);
    }
    wrapped
}

/// Returns a number with one digit after the point, or none if the step between ticks is whole.
fn decimal(value: f64, step: f64) -> String {
    if step.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

/// Returns the next round number that is at least as large.
fn nice(value: f64) -> f64 {
    let decade = 10_f64.powf(value.max(1e-12).log10().floor());
    [1.0, 2.0, 4.0, 10.0].into_iter().map(|step| step * decade).find(|round| *round >= value).unwrap_or(value)
}
