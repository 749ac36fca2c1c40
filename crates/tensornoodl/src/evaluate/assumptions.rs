//! Does data fit the theory? Its assumptions, measured on one tensor, with a verdict on each.
//!
//! The assumptions are orders of magnitude, O(.), without constants. Where a constant is needed, it is that of the
//! paper's own experiments: what was as large there is good, twice that is fair.

use crate::data::tensor::Tensor;
use crate::discover::growth::DiscoverParams;
use crate::discover::start::{self, Start};
use crate::error::Error;
use crate::learner::Learner;
use crate::linalg::decompose::largest_singular_value;
use crate::params::Params;
use crate::shape::Shape;

/// How well an assumption holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// As in the theory, or as in the paper's experiments.
    Good,
    /// Beyond that, but the method may well work.
    Fair,
    /// Results are not to be trusted without a reason.
    Poor,
}

/// One assumption.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Line {
    /// What was measured, in a word.
    pub name: &'static str,
    /// The value.
    pub value: f64,
    /// What it is compared with.
    pub bound: f64,
    /// How well it holds.
    pub verdict: Verdict,
    /// Both in words.
    pub says: String,
    /// What to do where it does not hold; empty where it does.
    pub advice: &'static str,
}

/// All of them.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Checkup {
    /// The patterns that were looked at.
    pub start: Start,
    /// One line for each assumption.
    pub lines: Vec<Line>,
}

/// sqrt(n) / (mu log n) times this is what fibers held in the paper's experiments (n = 300, m = 600, alpha = beta =
/// .05: 1.9 patterns in a fiber, mu 4.9).
const PAPER_SPARSITY: f64 = 3.2;

/// Passes over the tensor before it is judged.
const PASSES: usize = 3;

/// Further searches.
const RESTARTS: u64 = 2;

/// Finds the patterns of a tensor, learns them, and compares what comes out with what the theory asks for.
pub fn check(tensor: &Tensor<'_>, grow: &DiscoverParams) -> Result<Checkup, Error> {
    let start = start::find_stable(tensor, grow)?;
    let patterns = start.findings.len();
    if patterns == 0 {
        let lines = vec![energy(0.0, 0)];
        return Ok(Checkup { start, lines });
    }
    // These patterns and no others.
    let these =
        DiscoverParams { floor: start.floor, max_patterns: Some(patterns), ..DiscoverParams::default() };
    let mut learner = Learner::from_start(&start, Params::default(), these)?;
    let mut step = learner.learn(tensor)?;
    for _ in 1..PASSES {
        step = learner.learn(tensor)?;
    }
    let dictionary = learner.dictionary();
    let Shape { features, rows, cols } = tensor.shape();
    let (n, m) = (features as f64, dictionary.patterns() as f64);
    let mut lines = vec![energy(1.0 - step.fit * step.fit, dictionary.patterns())];

    let (mu, log_n) = (dictionary.incoherence(), n.ln());
    lines.push(Line::new(
        ("incoherence", mu, log_n),
        (mu / log_n, [1.0, 2.0]),
        format!("mu is {mu:.1}, the theory asks for the order of log n = {log_n:.1}; the largest cosine is {:.2}", mu / n.sqrt()),
        "patterns this alike are mixed up in the codes: take out what all fibers share, such as their mean, or take fewer",
    ));
    let norm = largest_singular_value(dictionary.values(), features);
    let usual = 1.0 + (m / n).sqrt();
    lines.push(Line::new(
        ("norm", norm, usual),
        (norm / usual, [1.5, 3.0]),
        format!("|A| is {norm:.1}; random patterns have 1 + sqrt(m/n) = {usual:.1}"),
        "the patterns have a common part: take out what all fibers share, such as their mean",
    ));
    lines.push(Line::new(
        ("patterns", m, n),
        (m / n, [2.0, 4.0]),
        format!("{m} patterns of {n} features; the theory is for m of the order of n"),
        "more features, or fewer patterns, would tell them apart more surely",
    ));

    let codes = step.codes.matrix();
    let coded = codes.columns().filter(|code| !code.is_empty()).count().max(1) as f64;
    let (nnz, s) = (codes.nnz() as f64, codes.nnz() as f64 / coded);
    let most = n.sqrt() / (mu * log_n).max(1.0);
    lines.push(Line::new(
        ("sparsity", s, most),
        (s / most / PAPER_SPARSITY, [1.0, 2.0]),
        format!("{s:.1} patterns in a fiber; sqrt(n) / (mu log n) is {most:.2}, the paper's cells go to {PAPER_SPARSITY} times that"),
        "fibers mix more patterns than can be told apart safely: make rows or cols finer, or steps shorter",
    ));
    let factors = step.codes.untangle();
    let share = |sizes: usize, length: usize| sizes as f64 / (m * length as f64);
    let (alpha, beta) = (share(factors.rows.nnz(), rows), share(factors.cols.nnz(), cols));
    let (together, least) = (m * alpha * beta, (rows.min(cols) as f64).ln());
    lines.push(Line::new(
        ("density", together, least),
        (least / together, [1.0, f64::INFINITY]),
        format!(
            "a pattern has {alpha:.3} of the rows and {beta:.3} of the cols: m alpha beta is {together:.2}, the theory asks for \
             log min(J, K) = {least:.1}"
        ),
        "not every tensor shows every pattern: it takes more tensors, no other harm",
    ));
    let (p, needed) = (coded, m * s * s);
    // Four fibers for each pattern are enough to find it.
    let few = if nnz >= 4.0 * m { 1.5 } else { 3.0 };
    lines.push(Line::new(
        ("samples", p, needed),
        (if p >= needed { 0.0 } else { few }, [1.0, 2.0]),
        format!(
            "{p} fibers with patterns, the theory asks for the order of m s^2 = {needed:.0}; a pattern is in {:.1} of them",
            nnz / m
        ),
        "more tensors will bring the patterns that these fibers show too seldom",
    ));

    let mut same = 1.0_f64;
    for again in 1..=RESTARTS {
        let seed = grow.seed.wrapping_add(again);
        let other =
            start::find(tensor, &DiscoverParams { seed, floor: start.floor, ..grow.clone() })?.dictionary;
        same = same.min(start::agreeing(&start.dictionary, &other) as f64 / patterns as f64);
    }
    lines.push(Line::new(
        ("restarts", same, 1.0),
        (1.0 - same, [0.02, 0.2]),
        format!("{:.0} % of the patterns come again with other random numbers", 100.0 * same),
        "trust those that come again, or take fewer",
    ));
    let weights: Vec<f64> = (0..factors.rank_one.len())
        .map(|i| factors.rows.column(i).iter().map(|entry| entry.1.powi(2)).sum::<f64>())
        .collect();
    let fitting: f64 = factors.rank_one.iter().zip(&weights).map(|(r, w)| r * w).sum();
    let rank_one = fitting / weights.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    lines.push(Line::new(
        ("rank one", rank_one, 1.0),
        (1.0 - rank_one, [0.1, 0.5]),
        format!("{:.0} % of a pattern's codes fit one group of rows and cols", 100.0 * rank_one),
        "patterns have several groups of rows and cols: the factors tell the strongest, the codes tell all",
    ));
    if let Some(scale) = learner.scale() {
        // Noise has the length |e| / sqrt(n) along a pattern; a code has to stand out of the largest of m.
        let noise = scale.noise * (2.0 * (m + 1.0).ln() / n).sqrt();
        let floor = scale.floor / 2.0;
        lines.push(Line::new(
            ("noise", noise, floor),
            (noise / floor, [1.0, 2.0]),
            format!(
                "noise of length {:.2e} reaches {noise:.2e} along a pattern; codes count from {floor:.2e} on",
                scale.noise
            ),
            "supports will have errors; the patterns still gain from every further tensor",
        ));
    }
    Ok(Checkup { start, lines })
}

fn energy(explained: f64, patterns: usize) -> Line {
    let line = Line::new(
        ("energy", explained, 1.0),
        (1.0 - explained, [0.1, 0.5]),
        format!("{patterns} patterns explain {:.0} % of the energy", 100.0 * explained),
        "the rest is noise, or patterns too rare to be told from it",
    );
    let advice = match line.verdict {
        Verdict::Poor if patterns == 0 => {
            "nothing that fibers share is clearer than what chance finds: more fibers or less noise, if there are patterns"
        }
        Verdict::Poor => {
            "most of it is noise, or fibers that mix more patterns than can be told apart: what was found is not the whole story"
        }
        _ => line.advice,
    };
    Line { advice, ..line }
}

impl Line {
    /// `far` says how far the value is on the wrong side: good up to the first limit, fair up to the second.
    fn new(
        (name, value, bound): (&'static str, f64, f64),
        (far, limits): (f64, [f64; 2]),
        says: String,
        advice: &'static str,
    ) -> Line {
        let verdict = match far {
            far if far <= limits[0] => Verdict::Good,
            far if far <= limits[1] => Verdict::Fair,
            _ => Verdict::Poor,
        };
        let advice = if verdict == Verdict::Good { "" } else { advice };
        Line { name, value, bound, verdict, says, advice }
    }
}
