//! Pictures as SVG.

use std::fmt::Write;

use tensornoodl::discover::HeldOut;

use crate::cmd::starts::Cell;

const BLUE: &str = "#0b6e99";
const ORANGE: &str = "#c2571a";

/// Begins a picture on white.
fn begin(width: f64, height: f64, title: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n<title>{title}</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        title = escape(title)
    )
}

/// Writes text; `anchor` is start, middle or end.
fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, more: &str, words: &str) {
    let words = escape(words);
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" {more}>{words}</text>");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// What each further pattern explains of fibers it was not found in, and what the halves agree on.
pub(crate) fn ladder(rungs: &[HeldOut], taken: usize, name: &str) -> String {
    let (left, top, width, height) = (64.0, 56.0, 560.0, 240.0);
    let mut svg = begin(680.0, 380.0, &format!("The number of patterns: {name}"));
    let most = rungs.iter().map(|rung| rung.patterns).max().unwrap_or(1).max(taken).max(2) as f64;
    let x_of = |patterns: usize| left + width * (patterns as f64 - 1.0) / (most - 1.0);
    let y_of = |share: f64| top + height * (1.0 - share);
    text(&mut svg, (left, 22.0), "start", "font-weight=\"bold\"", &format!("How many patterns? {name}"));
    for percent in (0..=100).step_by(20) {
        let y = y_of(f64::from(percent) / 100.0);
        let _ = writeln!(svg, "<path d=\"M{left} {y:.1}h{width}\" stroke=\"#ddd\"/>");
        text(&mut svg, (left - 8.0, y + 4.0), "end", "", &format!("{percent} %"));
    }
    let every = (most / 10.0).ceil().max(1.0) as usize;
    for patterns in (1..=most as usize).filter(|patterns| *patterns == 1 || patterns % every == 0) {
        text(&mut svg, (x_of(patterns), top + height + 20.0), "middle", "", &patterns.to_string());
    }
    text(
        &mut svg,
        (left + width / 2.0, top + height + 42.0),
        "middle",
        "",
        "patterns, those that explain most first",
    );
    if taken > 0 {
        let x = x_of(taken);
        let _ = writeln!(
            svg,
            "<path d=\"M{x:.1} {top}v{height}\" stroke=\"#555\" stroke-dasharray=\"5 4\" stroke-width=\"1.5\"/>"
        );
        let anchor = if x > left + 0.8 * width { "end" } else { "start" };
        let beside = if anchor == "end" { x - 6.0 } else { x + 6.0 };
        text(&mut svg, (beside, top - 6.0), anchor, "fill=\"#555\"", &format!("{taken} taken"));
    }
    let energy: Vec<(usize, f64)> = rungs.iter().map(|rung| (rung.patterns, rung.energy)).collect();
    let agree: Vec<(usize, f64)> =
        rungs.iter().map(|rung| (rung.patterns, rung.agree as f64 / rung.patterns as f64)).collect();
    let legends = [
        (energy, BLUE, "energy explained in fibers they were not found in"),
        (agree, ORANGE, "of the patterns of one half, those that the other half has too"),
    ];
    for (line, (points, color, words)) in legends.into_iter().enumerate() {
        let at: Vec<String> = points
            .iter()
            .map(|&(patterns, share)| format!("{:.1},{:.1}", x_of(patterns), y_of(share)))
            .collect();
        let dashes = if line == 0 { "" } else { "stroke-dasharray=\"2 3\"" };
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\" {dashes}/>",
            at.join(" ")
        );
        for point in at {
            let (x, y) = point.split_once(',').unwrap_or_default();
            let _ = match line {
                0 => writeln!(svg, "<circle cx=\"{x}\" cy=\"{y}\" r=\"3.5\" fill=\"{color}\"/>"),
                _ => writeln!(svg, "<path d=\"M{x} {y}m-4 0l4 -4l4 4l-4 4z\" fill=\"{color}\"/>"),
            };
        }
        let y = top + height + 62.0 + 16.0 * line as f64;
        let mark = if line == 0 { "●" } else { "◆" };
        text(&mut svg, (left, y), "start", &format!("fill=\"{color}\""), &format!("{mark} {words}"));
    }
    svg + "</svg>\n"
}

/// Squares for every cell, a panel for each method and axis.
pub(crate) fn starts(cells: &[Cell]) -> String {
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
        ("search", "the search, told nothing"),
        ("k-means", "k-means, told the number"),
        ("random fibers", "random fibers, told the number"),
    ];
    let panel = (widest.max(220.0) + 60.0, sizes.len() as f64 * side + 90.0);
    let mut svg = begin(left + 3.0 * panel.0, top + 2.0 * panel.1, "Where the start from nothing works");
    let title =
        "Patterns found in one tensor, of those there are and those invented (1: all found, none invented)";
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
                    // From white to blue, dark enough to be told apart in grey.
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

/// One panel of lines.
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) x_label: &'static str,
    pub(crate) y_label: &'static str,
    /// Decades instead of values.
    pub(crate) logarithmic: bool,
    pub(crate) series: Vec<Series>,
}

/// One line.
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
    /// Points are marked, as there are few.
    pub(crate) marked: bool,
    /// Number of the color, and lengths of the dashes; none for a solid line.
    pub(crate) color: usize,
    pub(crate) dashes: &'static str,
}

/// Told apart by the colour-blind too (Okabe and Ito).
const COLORS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#555555"];

/// Panels side by side, so many in a row, and what was run below.
pub(crate) fn charts(charts: &[Chart], in_row: usize, caption: &[String]) -> String {
    let (width, height, left, top) = (290.0, 220.0, 74.0, 44.0);
    let in_row = in_row.max(1);
    let legends: Vec<Vec<&Series>> = charts.chunks(in_row).map(legend).collect();
    let longest = legends.iter().map(|legend| legend.len().div_ceil(in_row)).max().unwrap_or(0);
    let panel = (width + 100.0, height + 110.0 + longest as f64 * 17.0);
    let caption = wrapped(caption, ((in_row as f64 * panel.0 - 14.0) / 6.2) as usize);
    let total =
        (in_row as f64 * panel.0 + 10.0, legends.len() as f64 * panel.1 + 24.0 + 17.0 * caption.len() as f64);
    let title = charts.first().map_or("", |chart| chart.title.as_str());
    let mut svg = begin(total.0, total.1, title);
    for (at, chart) in charts.iter().enumerate() {
        let (x0, y0) = (left + (at % in_row) as f64 * panel.0, top + (at / in_row) as f64 * panel.1);
        let shown = |y: f64| if chart.logarithmic { y.max(1e-17).log10() } else { y };
        let points = || chart.series.iter().flat_map(|series| &series.points);
        let most_x = points().map(|point| point.0).fold(1.0, f64::max);
        let high = points().map(|point| shown(point.1)).fold(f64::NEG_INFINITY, f64::max);
        let low = points().map(|point| shown(point.1)).fold(f64::INFINITY, f64::min);
        let (low, high) = if chart.logarithmic { (low.floor(), high.ceil()) } else { (0.0, nice(high)) };
        let high = if high > low { high } else { low + 1.0 };
        let x_of = |x: f64| x0 + width * x / most_x;
        let y_of = |y: f64| y0 + height * (high - shown(y)) / (high - low);
        text(
            &mut svg,
            (x0 + width / 2.0, y0 - 16.0),
            "middle",
            "font-weight=\"bold\"",
            &panel_title(at, chart),
        );
        let every = if chart.logarithmic { ((high - low) / 5.0).ceil() } else { (high - low) / 4.0 };
        for tick in (0..=5).map(|tick| high - f64::from(tick) * every).filter(|tick| *tick >= low) {
            let y = y0 + height * (high - tick) / (high - low);
            let label = if chart.logarithmic { format!("1e{:.0}", tick + 0.0) } else { decimal(tick, every) };
            let _ = writeln!(svg, "<path d=\"M{x0:.1} {y:.1}h{width}\" stroke=\"#ddd\"/>");
            text(&mut svg, (x0 - 7.0, y + 4.0), "end", "font-size=\"11\"", &label);
        }
        let step = nice(most_x / 4.0);
        for x in (0..=4).map(|tick| f64::from(tick) * step).filter(|x| *x <= most_x) {
            let label = decimal(x, step);
            text(&mut svg, (x_of(x), y0 + height + 17.0), "middle", "font-size=\"11\"", &label);
        }
        text(&mut svg, (x0 + width / 2.0, y0 + height + 36.0), "middle", "", chart.x_label);
        let turned = format!("transform=\"rotate(-90 {:.1} {:.1})\"", x0 - 50.0, y0 + height / 2.0);
        text(&mut svg, (x0 - 50.0, y0 + height / 2.0), "middle", &turned, chart.y_label);
        for series in &chart.series {
            let color = COLORS[series.color % COLORS.len()];
            let path: Vec<String> =
                series.points.iter().map(|&(x, y)| format!("{:.1},{:.1}", x_of(x), y_of(y))).collect();
            let dashes = dashes(series);
            let _ = writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\" {dashes}/>",
                path.join(" ")
            );
            // Hollow on a dashed line, so that what is below can be seen.
            let fill = if series.dashes.is_empty() { color } else { "#fff" };
            for point in path.iter().filter(|_| series.marked) {
                let (x, y) = point.split_once(',').unwrap_or_default();
                let _ = writeln!(
                    svg,
                    "<circle cx=\"{x}\" cy=\"{y}\" r=\"3.5\" fill=\"{fill}\" stroke=\"{color}\" stroke-width=\"1.5\"/>"
                );
            }
        }
    }
    for (row, legend) in legends.iter().enumerate() {
        let in_column = legend.len().div_ceil(in_row).max(1);
        for (at, series) in legend.iter().enumerate() {
            let x = left + (at / in_column) as f64 * panel.0;
            let y = top + row as f64 * panel.1 + height + 60.0 + 17.0 * (at % in_column) as f64;
            let (color, dashes) = (COLORS[series.color % COLORS.len()], dashes(series));
            let _ = writeln!(
                svg,
                "<path d=\"M{x:.1} {:.1}h24\" stroke=\"{color}\" stroke-width=\"3\" {dashes}/>",
                y - 4.0
            );
            text(&mut svg, (x + 32.0, y), "start", "font-size=\"12\"", &series.name);
        }
    }
    for (line, words) in caption.iter().enumerate() {
        let y = total.1 - 17.0 * (caption.len() - line) as f64;
        text(&mut svg, (24.0, y), "start", "font-size=\"12\" fill=\"#444\"", words);
    }
    svg + "</svg>\n"
}

fn panel_title(at: usize, chart: &Chart) -> String {
    format!("({}) {}", char::from(b'a' + (at % 26) as u8), chart.title)
}

/// The lines of panels side by side, each named once.
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

/// Lines of at most so many letters.
fn wrapped(lines: &[String], most: usize) -> Vec<String> {
    let mut wrapped: Vec<String> = Vec::new();
    for line in lines {
        let mut rest = String::new();
        for word in line.split(' ') {
            if !rest.is_empty() && rest.len() + 1 + word.len() > most {
                wrapped.push(std::mem::take(&mut rest));
            }
            if !rest.is_empty() {
                rest.push(' ');
            }
            rest.push_str(word);
        }
        wrapped.push(rest);
    }
    wrapped
}

/// With as many digits as a step needs.
fn decimal(value: f64, step: f64) -> String {
    if step.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

/// A round number that is not smaller.
fn nice(value: f64) -> f64 {
    let decade = 10_f64.powf(value.max(1e-12).log10().floor());
    [1.0, 2.0, 4.0, 10.0].into_iter().map(|step| step * decade).find(|round| *round >= value).unwrap_or(value)
}
