//! Pictures as SVG: the parts that all pictures share, and the picture of the evidence for a number of patterns.

use std::fmt::Write;

use tensornoodl::discover::HeldOut;

const BLUE: &str = "#0b6e99";
const ORANGE: &str = "#c2571a";

/// Returns the first lines of a picture with a white background.
pub fn begin(width: f64, height: f64, title: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n<title>{title}</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        title = escape(title)
    )
}

/// Adds text at a point; `anchor` is start, middle or end, and `more` holds further attributes.
pub fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, more: &str, words: &str) {
    let words = escape(words);
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" {more}>{words}</text>");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Draws what each further pattern explains of fibers that it was not found in, and how many patterns both halves of
/// the fibers have.
pub fn ladder(rungs: &[HeldOut], taken: usize, name: &str) -> String {
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
        "patterns, ordered by the energy they explain",
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
        (energy, BLUE, "energy explained in fibers that the patterns were not found in"),
        (agree, ORANGE, "share of the patterns of one half that the other half has too"),
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
