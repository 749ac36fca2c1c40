//! `noodl-lab bench scaling`: the growth of the time of a step with the size of its input.

use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;

use serde::Serialize;
use tensornoodl::synthetic::{Plan, Planted};
use tensornoodl::{Learner, Params};
use tensornoodl_cli::{output, svg};
use tensornoodl_data::files;

use crate::cmd::bench::timing::{median, seconds};

const EXAMPLES: &str = "\
Examples:
  noodl-lab bench scaling                              a table
  noodl-lab bench scaling --picture scaling.svg        a table and a picture
  noodl-lab bench scaling --threads 1 --json           for programs

The base has about 20,000 fibers of 300 features, 300 patterns and 1.6 codes in a fiber. Each of these is doubled four times while the \
others stay. Codes are doubled with 1,200 features, because recovery of more codes needs more features.";

/// Time steps while fibers, features, patterns and codes are doubled, and fit the exponents of growth.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct Args {
    /// Number of threads, at least 1 [default: all cores]. Results do not depend on it.
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Number of steps that are timed for each size, at least 1; the median is reported.
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub(crate) repeats: usize,
    /// Draw the times into this SVG file.
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    /// Write one JSON object for each size and one for each exponent.
    #[arg(long)]
    json: bool,
}

/// A size that is doubled.
#[derive(Clone, Copy, PartialEq)]
enum Axis {
    Fibers,
    Features,
    Patterns,
    Codes,
}

impl Axis {
    const ALL: [Axis; 4] = [Axis::Fibers, Axis::Features, Axis::Patterns, Axis::Codes];

    fn name(self) -> &'static str {
        match self {
            Axis::Fibers => "fibers p",
            Axis::Features => "features n",
            Axis::Patterns => "patterns m",
            Axis::Codes => "codes in a fiber s",
        }
    }
}

/// The factors of a size.
const FACTORS: [f64; 5] = [1.0, 2.0, 4.0, 8.0, 16.0];

/// The distance of the start from the truth for a late step. A first step has the distance of the paper's start.
const NEAR: f64 = 1e-6;

/// The time for one size.
#[derive(Serialize)]
struct Size {
    r#type: &'static str,
    axis: &'static str,
    at: &'static str,
    threads: usize,
    fibers: usize,
    features: usize,
    patterns: usize,
    mean_code_size: f64,
    seconds: f64,
    untangle_seconds: f64,
    fallback_share: f64,
}

impl Size {
    fn along(&self, axis: Axis) -> f64 {
        match axis {
            Axis::Fibers => self.fibers as f64,
            Axis::Features => self.features as f64,
            Axis::Patterns => self.patterns as f64,
            Axis::Codes => self.mean_code_size,
        }
    }
}

#[derive(Serialize)]
struct Exponent {
    r#type: &'static str,
    axis: &'static str,
    at: &'static str,
    threads: usize,
    exponent: f64,
}

/// Sizes along one axis, for first or late steps.
struct Series {
    axis: Axis,
    at: &'static str,
    sizes: Vec<Size>,
}

impl Series {
    /// Returns the slope of log seconds over log size, by least squares.
    fn exponent(&self) -> f64 {
        let points: Vec<(f64, f64)> =
            self.sizes.iter().map(|size| (size.along(self.axis).ln(), size.seconds.ln())).collect();
        let count = points.len() as f64;
        let (x, y) = points.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
        let (x, y) = (x / count, y / count);
        let above: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
        above / points.iter().map(|point| (point.0 - x).powi(2)).sum::<f64>()
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(path) = &args.picture {
        files::check(path)?;
    }
    let mut stdout = output::stdout();
    let mut all = Vec::new();
    for axis in Axis::ALL {
        for at in ["first", "late"] {
            let sizes = FACTORS.iter().map(|&factor| measure(args, axis, at, factor));
            let series = Series { axis, at, sizes: sizes.collect::<anyhow::Result<_>>()? };
            if args.json {
                for size in &series.sizes {
                    serde_json::to_writer(&mut stdout, size)?;
                    writeln!(stdout)?;
                }
                let (axis, threads) = (axis.name(), rayon::current_num_threads());
                let exponent = series.exponent();
                let record = Exponent { r#type: "exponent", axis, at, threads, exponent };
                serde_json::to_writer(&mut stdout, &record)?;
                writeln!(stdout)?;
            } else {
                write!(stdout, "{}", in_words(&series))?;
            }
            stdout.flush()?;
            all.push(series);
        }
    }
    if let Some(path) = &args.picture {
        files::write(path, picture(&all))?;
    }
    Ok(())
}

/// Returns the plan with one axis multiplied. A place has m alpha beta codes on average, and a place without codes
/// has no fiber.
fn plan(axis: Axis, factor: f64) -> Plan {
    let of = |other: Axis, first: f64, usual: f64| if axis == other { factor * first } else { usual };
    let codes = of(Axis::Codes, 1.0, 1.0);
    let patterns = of(Axis::Patterns, 75.0, 300.0);
    let features = of(Axis::Features, 150.0, if axis == Axis::Codes { 1200.0 } else { 300.0 });
    let places = of(Axis::Fibers, 5_000.0, 20_000.0) / (1.0 - (-codes).exp());
    let length = places.sqrt().round() as usize;
    let alpha = (codes / patterns).sqrt();
    let (features, patterns) = (features as usize, patterns as usize);
    Plan { features, patterns, rows: length, cols: length, alpha, beta: alpha, ..Plan::default() }
}

fn measure(args: &Args, axis: Axis, at: &'static str, factor: f64) -> anyhow::Result<Size> {
    let planted = Planted::new(plan(axis, factor))?;
    let distance = if at == "late" { NEAR } else { planted.paper_distance() };
    let start = Learner::new(planted.start(distance)?, Params::default())?;
    let tensor = planted.tensor(1).tensor;
    let mut learner = start.clone();
    let mut step = learner.learn(&tensor)?;
    let (mut times, mut untangles) = (Vec::new(), Vec::new());
    for _ in 0..args.repeats {
        learner.clone_from(&start);
        let mut learned = Ok(None);
        times.push(seconds(|| learned = learner.learn(&tensor).map(Some)));
        step = learned?.unwrap_or(step);
        untangles.push(seconds(|| std::hint::black_box(step.codes.untangle())));
    }
    Ok(Size {
        r#type: "growth",
        axis: axis.name(),
        at,
        threads: rayon::current_num_threads(),
        fibers: tensor.fibers(),
        features: tensor.shape().features,
        patterns: start.dictionary().patterns(),
        mean_code_size: step.mean_code_size,
        seconds: median(times),
        untangle_seconds: median(untangles),
        fallback_share: (step.solver_counts.iht + step.solver_counts.unconverged) as f64
            / step.fibers.max(1) as f64,
    })
}

fn in_words(series: &Series) -> String {
    let mut text = format!(
        "{}, {} step: time grows with the power {:.2}\n",
        series.axis.name(),
        series.at,
        series.exponent()
    );
    for size in &series.sizes {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "  p {:>6}  n {:>5}  m {:>5}  s {:>5.2} {:>11.3} ms  factors {:>8.3} ms  by IHT {:>6.2} %",
            size.fibers,
            size.features,
            size.patterns,
            size.mean_code_size,
            1e3 * size.seconds,
            1e3 * size.untangle_seconds,
            100.0 * size.fallback_share
        );
    }
    text
}

/// Width and height of the plot of a panel.
const PLOT: f64 = 190.0;
/// Distance of the first panel from the left and of all panels from the top.
const LEFT: f64 = 60.0;
const TOP: f64 = 46.0;

/// Draws four panels, one for each axis: seconds over size, both on logarithmic scales.
fn picture(all: &[Series]) -> String {
    let seconds = || all.iter().flat_map(|series| &series.sizes).map(|size| size.seconds.log10());
    let lowest = seconds().fold(f64::INFINITY, f64::min).floor();
    let highest = seconds().fold(f64::NEG_INFINITY, f64::max).ceil();
    let mut svg = svg::begin(1040.0, 330.0, "Time of a step over its size");
    for (panel, axis) in Axis::ALL.into_iter().enumerate() {
        let of_axis: Vec<&Series> = all.iter().filter(|series| series.axis == axis).collect();
        draw_panel(&mut svg, LEFT + panel as f64 * 247.0, axis, &of_axis, (lowest, highest));
    }
    svg + "</svg>\n"
}

/// Draws the lines of first and late steps for one axis, with its left border at `x`.
fn draw_panel(svg: &mut String, x: f64, axis: Axis, all: &[&Series], (lowest, highest): (f64, f64)) {
    let y_of = |decade: f64| TOP + PLOT * (highest - decade) / (highest - lowest);
    let middle = x + PLOT / 2.0;
    svg::text(svg, (middle, TOP - 26.0), "middle", "font-weight=\"bold\"", axis.name());
    for decade in lowest as i32..=highest as i32 {
        let y = y_of(decade.into());
        // Writing to a string cannot fail.
        let _ = writeln!(svg, "<path d=\"M{x} {y}h{PLOT}\" stroke=\"#ddd\"/>");
        svg::text(svg, (x - 6.0, y + 4.0), "end", "", &in_seconds(decade));
    }
    let sizes = || all.iter().flat_map(|series| &series.sizes).map(|size| size.along(axis).log2());
    let (low, high) = (sizes().fold(f64::INFINITY, f64::min), sizes().fold(f64::NEG_INFINITY, f64::max));
    let x_of = |size: f64| x + 12.0 + (PLOT - 24.0) * (size.log2() - low) / (high - low);
    for series in all {
        let (color, shift) = if series.at == "late" { ("#0b6e99", 0.0) } else { ("#c2571a", 16.0) };
        let points = series.sizes.iter().map(|size| (x_of(size.along(axis)), y_of(size.seconds.log10())));
        let points: Vec<(f64, f64)> = points.collect();
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let path = path.join(" ");
        let _ = writeln!(
            svg,
            "<polyline points=\"{path}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>"
        );
        for (x, y) in points {
            let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{color}\"/>");
        }
        let words = format!("{} step: power {:.2}", series.at, series.exponent());
        svg::text(svg, (middle, TOP + PLOT + 46.0 + shift), "middle", &format!("fill=\"{color}\""), &words);
    }
    for size in all.iter().take(1).flat_map(|series| series.sizes.iter().step_by(2)) {
        let value = size.along(axis);
        let label = if value < 20.0 { format!("{value:.1}") } else { format!("{value:.0}") };
        svg::text(svg, (x_of(value), TOP + PLOT + 20.0), "middle", "", &label);
    }
}

/// Returns a power of ten in seconds, such as 10 ms.
fn in_seconds(decade: i32) -> String {
    if decade < 0 {
        format!("{} ms", 10_i32.pow((3 + decade).max(0) as u32))
    } else {
        format!("{} s", 10_i32.pow(decade as u32))
    }
}
