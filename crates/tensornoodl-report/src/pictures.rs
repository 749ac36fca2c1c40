//! Pictures of patterns as SVG: a line over time, a heat map of the hours of a week, a heat map over a basketball
//! court or another grid, and bars for any other feature axis.

use std::fmt::Write;

use tensornoodl_data::{Axis, Card, Evidence, Grid, Rung, Unit};

/// Width of every picture, in SVG units.
const WIDTH: f64 = 640.0;

/// Largest number of points with a tooltip: more are too close to point at, and would make the page large.
const MOST_TOOLTIPS: usize = 400;

/// Largest number of bars.
const MOST_BARS: usize = 20;

/// Returns the picture of a pattern. The feature axis determines its kind.
pub(crate) fn pattern(values: &[f64], card: &Card, title: &str) -> String {
    match &card.query.feature {
        Axis::Grid(grid) => heat_map(values, grid, &card.features, title),
        Axis::Time(Unit::WeekHour, _) => week(values, &card.features, title),
        Axis::Time(..) | Axis::Bin(..) => line(values, &card.features, title, None),
        Axis::Column(_) => bars(values, &card.features, title),
    }
}

/// Opens an SVG element of this height.
fn begin(height: f64, title: &str) -> String {
    let title = escape(title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"12\"><title>{title}</title>"
    )
}

/// Escapes a text for XML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Returns the color of a value between -1 and 1: white at 0, blue above, orange below. Color-blind people can tell
/// these apart, too.
fn color(share: f64) -> String {
    let full = if share >= 0.0 { [11.0, 110.0, 153.0] } else { [194.0, 87.0, 26.0] };
    let strength = share.clamp(-1.0, 1.0).abs();
    let [r, g, b] = full.map(|full| (255.0 + (full - 255.0) * strength).round() as u8);
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// Returns the largest magnitude, which is positive also for zeros.
fn largest(values: &[f64]) -> f64 {
    values.iter().fold(f64::MIN_POSITIVE, |largest, value| largest.max(value.abs()))
}

/// Writes about six labels below a horizontal axis, fewer if they are long.
fn axis_labels(svg: &mut String, names: &[String], x_of: impl Fn(f64) -> f64, y: f64) {
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(1);
    let most = (WIDTH as usize / (7 * longest.max(1))).clamp(2, 6);
    let every = names.len().div_ceil(most).max(1);
    for (at, name) in names.iter().enumerate().step_by(every) {
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{y}\" text-anchor=\"middle\" fill=\"#555\">{}</text>",
            x_of(at as f64),
            escape(name)
        );
    }
}

/// Returns a line through the values. With `full_scale`, values are shares of it, and the vertical axis reaches up to
/// it, with marks at 0, 50 and 100 %.
fn line(values: &[f64], names: &[String], title: &str, full_scale: Option<f64>) -> String {
    let (left, top, height) = (46.0, 8.0, 130.0);
    let mut svg = begin(176.0, title);
    let low = values.iter().copied().fold(0.0, f64::min);
    let high = values.iter().copied().fold(full_scale.unwrap_or(0.0), f64::max).max(low + f64::MIN_POSITIVE);
    let steps = (values.len().max(2) - 1) as f64;
    let x_of = |at: f64| left + (WIDTH - 2.0 * left) * at / steps;
    let y_of = |value: f64| top + height * (high - value) / (high - low);
    let zero = y_of(0.0);
    let marks =
        full_scale.map_or(Vec::new(), |full| vec![(0.0, "0 %"), (full / 2.0, "50 %"), (full, "100 %")]);
    for (value, text) in marks {
        let y = y_of(value);
        let _ = write!(
            svg,
            "<path d=\"M{left} {y:.1}H{:.1}\" stroke=\"#ddd\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
            WIDTH - left,
            left - 5.0,
            y + 4.0
        );
    }
    let _ = write!(svg, "<path d=\"M{left} {zero:.1}H{:.1}\" stroke=\"#999\"/>", WIDTH - left);
    let points: Vec<String> = values
        .iter()
        .enumerate()
        .map(|(at, value)| format!("{:.1},{:.1}", x_of(at as f64), y_of(*value)))
        .collect();
    let _ = write!(
        svg,
        "<polygon points=\"{left},{zero:.1} {} {:.1},{zero:.1}\" fill=\"#0b6e99\" fill-opacity=\".18\"/>\
         <polyline points=\"{}\" fill=\"none\" stroke=\"#0b6e99\" stroke-width=\"2\"/>",
        points.join(" "),
        x_of(steps),
        points.join(" ")
    );
    for (at, (value, name)) in values.iter().zip(names).enumerate().filter(|_| values.len() <= MOST_TOOLTIPS)
    {
        let _ = write!(
            svg,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"6\" fill=\"#000\" fill-opacity=\"0\"><title>{}: {value:.3}</title></circle>",
            x_of(at as f64),
            y_of(*value),
            escape(name)
        );
    }
    axis_labels(&mut svg, names, x_of, top + height + 24.0);
    svg + "</svg>"
}

/// Returns bars for the features with the largest values, largest magnitude first.
fn bars(values: &[f64], names: &[String], title: &str) -> String {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*b].abs().total_cmp(&values[*a].abs()));
    order.truncate(MOST_BARS);
    let (row_height, left) = (20.0, 200.0);
    let mut svg = begin(row_height * order.len() as f64 + 6.0, title);
    let largest = largest(values);
    for (line, at) in order.into_iter().enumerate() {
        let (y, share) = (row_height * line as f64 + 4.0, values[at] / largest);
        let name: String = names[at].chars().take(28).collect();
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{left}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"14\" fill=\"{}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" fill=\"#555\">{:.2}</text>",
            left - 8.0,
            y + 12.0,
            escape(&name),
            380.0 * share.abs(),
            color(share.signum() * 0.85),
            left + 380.0 * share.abs() + 6.0,
            y + 12.0,
            values[at]
        );
    }
    svg + "</svg>"
}

/// Writes a colored rectangle with a tooltip for each cell, row by row from the top, `across` cells in a row.
fn cells(
    svg: &mut String,
    values: &[f64],
    across: usize,
    (x0, y0): (f64, f64),
    (w, h): (f64, f64),
    names: &[String],
) {
    let largest = largest(values);
    for (at, (value, name)) in values.iter().zip(names).enumerate() {
        let (x, y) = (x0 + w * (at % across) as f64, y0 + h * (at / across) as f64);
        let _ = write!(
            svg,
            "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{w:.2}\" height=\"{h:.2}\" fill=\"{}\"><title>{}: {value:.3}</title></rect>",
            color(value / largest),
            escape(name)
        );
    }
}

/// Returns a heat map of the hours of a week, one row for each day.
fn week(values: &[f64], names: &[String], title: &str) -> String {
    let (left, w, h) = (44.0, 24.0, 22.0);
    let mut svg = begin(7.0 * h + 34.0, title);
    cells(&mut svg, values, 24, (left, 4.0), (w, h), names);
    for (day, name) in ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"].into_iter().enumerate() {
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#555\">{name}</text>",
            left - 6.0,
            4.0 + h * (day as f64 + 0.7)
        );
    }
    for hour in (0..24).step_by(3) {
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#555\">{hour}:00</text>",
            left + w * (f64::from(hour) + 0.5),
            7.0 * h + 22.0
        );
    }
    svg + "</svg>"
}

/// Returns a heat map over a grid of cells, with the lines of the court if the grid is one.
fn heat_map(values: &[f64], grid: &Grid, names: &[String], title: &str) -> String {
    let (across, up) = grid.cells;
    let bounds = grid.bounds.unwrap_or([(0.0, across as f64), (0.0, up as f64)]);
    let [(x_low, x_high), (y_low, y_high)] = bounds;
    let width = 420.0;
    let height = (width * (y_high - y_low) / (x_high - x_low)).clamp(80.0, 560.0);
    let left = (WIDTH - width) / 2.0;
    let mut svg = begin(height + 8.0, title);
    // The lowest y is drawn at the bottom; on a court, this is where the hoop is, as seen from midcourt.
    let flipped: Vec<f64> = values.chunks_exact(across).rev().flatten().copied().collect();
    let flipped_names: Vec<String> = names.chunks_exact(across).rev().flatten().cloned().collect();
    cells(
        &mut svg,
        &flipped,
        across,
        (left, 4.0),
        (width / across as f64, height / up as f64),
        &flipped_names,
    );
    if grid.court {
        court_lines(&mut svg, bounds, (left, 4.0), (width, height));
    }
    svg + "</svg>"
}

/// Writes the lines of an NBA court, given in tenths of feet from the hoop: a key of 16 x 19 feet, and a three-point
/// line of 23.75 feet that is 22 feet away in the corners.
fn court_lines(
    svg: &mut String,
    [(x_low, x_high), (y_low, y_high)]: [(f64, f64); 2],
    (left, top): (f64, f64),
    (width, height): (f64, f64),
) {
    let x_of = |x: f64| left + width * (x - x_low) / (x_high - x_low);
    let y_of = |y: f64| top + height * (y_high - y) / (y_high - y_low);
    let unit = width / (x_high - x_low);
    // The height at which the arc of the three-point line meets its straight parts.
    let arc = (237.5_f64.powi(2) - 220.0_f64.powi(2)).sqrt();
    let _ = write!(
        svg,
        "<g fill=\"none\" stroke=\"#222\" stroke-width=\"1.5\">\
         <rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height:.1}\"/>\
         <circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"{:.1}\"/>\
         <rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>\
         <circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"{:.1}\"/>\
         <path d=\"M{:.1} {:.1}V{:.1}A{r:.1} {r:.1} 0 0 1 {:.1} {:.1}V{:.1}\"/></g>",
        x_of(0.0),
        y_of(0.0),
        7.5 * unit,
        x_of(-80.0),
        y_of(137.5),
        160.0 * unit,
        190.0 * height / (y_high - y_low),
        x_of(0.0),
        y_of(137.5),
        60.0 * unit,
        x_of(-220.0),
        y_of(-52.5),
        y_of(arc),
        x_of(220.0),
        y_of(arc),
        y_of(-52.5),
        r = 237.5 * unit
    );
}

/// Returns a heat map of the strength of rows with cols; `values` are given row by row.
pub(crate) fn block(values: &[f64], rows: &[String], cols: &[String], title: &str) -> String {
    let (left, top, side) = (150.0, 96.0, 22.0);
    let mut svg = begin(top + side * rows.len() as f64 + 8.0, title);
    let names: Vec<String> =
        rows.iter().flat_map(|row| cols.iter().map(move |col| format!("{row} with {col}"))).collect();
    cells(&mut svg, values, cols.len().max(1), (left, top), (side, side), &names);
    let short = |name: &str| escape(&name.chars().take(18).collect::<String>());
    for (at, row) in rows.iter().enumerate() {
        let y = top + side * (at as f64 + 0.7);
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{y:.1}\" text-anchor=\"end\">{}</text>",
            left - 6.0,
            short(row)
        );
    }
    for (at, col) in cols.iter().enumerate() {
        let x = left + side * (at as f64 + 0.6);
        let _ = write!(
            svg,
            "<text x=\"{x:.1}\" y=\"{:.1}\" transform=\"rotate(-50 {x:.1} {:.1})\">{}</text>",
            top - 6.0,
            top - 6.0,
            short(col)
        );
    }
    svg + "</svg>"
}

/// Returns bars of what each number of patterns gains over the number before it, with the standard error of each gain.
/// The number that was taken is marked. Heights are square roots, because the first gains are much larger than the last.
pub(crate) fn ladder(evidence: &Evidence, taken: usize, title: &str) -> String {
    let (left, top, height) = (64.0, 24.0, 150.0);
    let mut svg = begin(top + height + 62.0, title);
    let usable = |rung: &&Rung| rung.gain.is_finite() && rung.error.is_finite();
    let rungs: Vec<&Rung> = evidence.rungs.iter().skip(1).filter(usable).collect();
    let root = |gain: f64| gain.signum() * gain.abs().sqrt();
    let ends = rungs.iter().flat_map(|rung| [rung.gain - rung.error, rung.gain + rung.error]);
    let (low, high) =
        ends.fold((0.0, 1.0), |(low, high): (f64, f64), gain| (low.min(root(gain)), high.max(root(gain))));
    let y_of = |gain: f64| top + height * (high - root(gain)) / (high - low);
    let wide = (WIDTH - 2.0 * left) / rungs.len().max(1) as f64;
    // A round number below the largest gain, and a quarter of it.
    let power = 10_f64.powf((high * high).log10().floor());
    let round = [5.0, 2.0, 1.0].map(|digit| digit * power).into_iter().find(|gain| *gain <= high * high);
    for gain in round.into_iter().flat_map(|gain| [gain / 4.0, gain]) {
        let y = y_of(gain);
        let _ = write!(
            svg,
            "<path d=\"M{left} {y:.1}H{:.1}\" stroke=\"#ddd\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" \
             fill=\"#555\">{gain:.0}</text>",
            WIDTH - left,
            left - 5.0,
            y + 4.0
        );
    }
    let zero = y_of(0.0);
    let _ = write!(svg, "<path d=\"M{left} {zero:.1}H{:.1}\" stroke=\"#999\"/>", WIDTH - left);
    for (at, rung) in rungs.iter().enumerate() {
        let (x, y) = (left + wide * (at as f64 + 0.5), y_of(rung.gain));
        let (above, below) = (y_of(rung.gain + rung.error), y_of(rung.gain - rung.error));
        let color = if rung.patterns <= taken { "#0b6e99" } else { "#aaa" };
        let weight = if rung.patterns == taken { "bold" } else { "normal" };
        let _ = write!(
            svg,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{color}\" fill-opacity=\".6\">\
             <title>{} patterns: {:+.1} ± {:.1}</title></rect>\
             <path d=\"M{x:.1} {above:.1}V{below:.1}m-4 0h8M{:.1} {above:.1}h8\" stroke=\"#222\" fill=\"none\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-weight=\"{weight}\">{}</text>",
            x - 0.35 * wide,
            y.min(zero),
            0.7 * wide,
            (y - zero).abs(),
            rung.patterns,
            rung.gain,
            rung.error,
            x - 4.0,
            top + height + 18.0,
            rung.patterns
        );
    }
    let _ = write!(
        svg,
        "<text x=\"{left}\" y=\"14\">{}</text><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#555\">patterns \
         (bold: taken); lines: ± standard error</text>",
        escape(title),
        WIDTH / 2.0,
        top + height + 40.0
    );
    svg + "</svg>"
}

/// Returns a line with one value for each step, a share between 0 and 1.
pub(crate) fn over_steps(values: &[f64], steps: &[String], title: &str) -> String {
    line(values, steps, title, Some(1.0))
}
