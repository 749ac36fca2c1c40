//! Does data fit the theory? Its assumptions, measured on one tensor, with a verdict on each.
//!
//! The assumptions are orders of magnitude, O(.), without constants. Where a constant is needed, it is that of the
//! paper's own experiments: what was as large there is good, twice that is fair.

use crate::dense::largest_singular_value;
use crate::error::Error;
use crate::grow::Grow;
use crate::init::{self, Start};
use crate::learner::Learner;
use crate::params::Params;
use crate::tensor::{Shape, Tensor};

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
pub fn check(tensor: &Tensor<'_>, grow: &Grow) -> Result<Checkup, Error> {
    let start = init::judge(tensor, grow)?;
    let grow = Grow { floor: start.floor, ..grow.clone() };
    let mut learner = Learner::from_nothing(tensor.shape().features, Params::default(), grow.clone())?;
    let mut step = learner.learn(tensor)?;
    for _ in 1..PASSES {
        step = learner.learn(tensor)?;
    }
    let mut lines = vec![energy(1.0 - step.fit * step.fit, learner.dictionary().patterns())];
    if learner.dictionary().patterns() == 0 || step.codes.matrix().nnz() == 0 {
        return Ok(Checkup { start, lines });
    }

    let dictionary = learner.dictionary();
    let Shape { features, rows, cols } = tensor.shape();
    let (n, m) = (features as f64, dictionary.patterns() as f64);
    let (mu, log_n) = (dictionary.incoherence(), n.ln());
    lines.push(line("incoherence", mu, log_n, mu / log_n, [1.0, 2.0], |verdict| match verdict {
        Verdict::Good => (format!("mu is {mu:.1}, of the order of log n = {log_n:.1}"), ""),
        _ => (
            format!(
                "mu is {mu:.1}, the theory asks for the order of log n = {log_n:.1}: two patterns have the cosine {:.2}",
                mu / n.sqrt()
            ),
            "patterns this alike are mixed up in the codes; take what all fibers share out first (recipe center), or \
             ask for fewer patterns",
        ),
    }));
    let norm = largest_singular_value(dictionary.values(), features);
    let usual = 1.0 + (m / n).sqrt();
    lines.push(line("norm", norm, usual, norm / usual, [1.5, 3.0], |verdict| {
        let says = format!("|A| is {norm:.1}; random patterns have 1 + sqrt(m/n) = {usual:.1}");
        let advice = "the patterns have a common part; take it out first (recipe center)";
        (says, if verdict == Verdict::Good { "" } else { advice })
    }));
    lines.push(line("patterns", m, n, m / n, [2.0, 4.0], |verdict| {
        let says = format!("{m} patterns of {n} features; the theory is for m of the order of n");
        let advice = "more features, or fewer patterns, would tell them apart more surely";
        (says, if verdict == Verdict::Good { "" } else { advice })
    }));

    let codes = step.codes.matrix();
    let coded = codes.columns().filter(|code| !code.is_empty()).count() as f64;
    let s = codes.nnz() as f64 / coded;
    let most = n.sqrt() / (mu * log_n).max(1.0);
    lines.push(line("sparsity", s, most, s / most / PAPER_SPARSITY, [1.0, 2.0], |verdict| {
        let says =
            format!("{s:.1} patterns in a fiber; sqrt(n) / (mu log n) is {most:.2}, the paper's cells go to 3.2 of it");
        let advice = "fibers mix more patterns than can be told apart safely; make rows or cols finer, or steps shorter";
        (says, if verdict == Verdict::Good { "" } else { advice })
    }));

    let factors = step.codes.untangle();
    let share = |sizes: usize, length: usize| sizes as f64 / (m * length as f64);
    let (alpha, beta) = (share(factors.rows.nnz(), rows), share(factors.cols.nnz(), cols));
    let (together, least) = (m * alpha * beta, (rows.min(cols) as f64).ln());
    lines.push(line("density", together, least, least / together, [1.0, f64::INFINITY], |verdict| {
        let says = format!(
            "a pattern has {alpha:.3} of the rows and {beta:.3} of the cols: m alpha beta is {together:.2}, the theory asks for \
             log min(J, K) = {least:.1}"
        );
        let advice = "not every tensor shows every pattern: it takes more tensors, no other harm";
        (says, if verdict == Verdict::Good { "" } else { advice })
    }));
    let p = step.fibers as f64;
    let needed = m * s * s;
    // Four fibers for each pattern are enough to find it.
    let few = if p * s >= 4.0 * m { 1.5 } else { 3.0 };
    let far = if p >= needed { 0.0 } else { few };
    lines.push(line("samples", p, needed, far, [1.0, 2.0], |verdict| {
        let says = format!(
            "{p} fibers, the theory asks for the order of m s^2 = {needed:.0}; a pattern is in {:.1} fibers on the average",
            p * s / m
        );
        let advice = "more tensors will bring the patterns that these fibers show too seldom";
        (says, if verdict == Verdict::Good { "" } else { advice })
    }));

    let mut same = 1.0_f64;
    for seed in 1..=RESTARTS {
        let seed = grow.seed ^ seed << 32;
        let other = init::find(tensor, &Grow { seed, ..grow.clone() })?.dictionary;
        let agree = init::agreeing(&start.dictionary, &other) as f64;
        same = same.min(agree / start.dictionary.patterns().max(other.patterns()).max(1) as f64);
    }
    lines.push(line("restarts", same, 1.0, 1.0 - same, [0.02, 0.2], |verdict| {
        let says = format!("{:.0} % of the patterns come again with other random numbers", 100.0 * same);
        let advice = "trust those that come again (evidence of the start), or ask for fewer patterns";
        (says, if verdict == Verdict::Good { "" } else { advice })
    }));

    let weights: Vec<f64> = (0..factors.rank_one.len())
        .map(|i| factors.rows.column(i).iter().map(|entry| entry.1.powi(2)).sum::<f64>())
        .collect();
    let total: f64 = weights.iter().sum();
    let rank_one = factors.rank_one.iter().zip(&weights).map(|(r, w)| r * w).sum::<f64>() / total.max(1e-300);
    lines.push(line("rank one", rank_one, 1.0, 1.0 - rank_one, [0.1, 0.5], |verdict| {
        let says = format!("{:.0} % of a pattern's codes fit one group of rows and cols", 100.0 * rank_one);
        let advice = "patterns have several groups of rows and cols; the factors tell the strongest, the codes tell all";
        (says, if verdict == Verdict::Good { "" } else { advice })
    }));
    if let Some(scale) = learner.scale() {
        // Noise has the length |e| / sqrt(n) along a pattern; a code has to stand out of the largest of m.
        let noise = scale.noise * (2.0 * (m + 1.0).ln() / n).sqrt();
        let floor = scale.floor / 2.0;
        lines.push(line("noise", noise, floor, noise / floor, [1.0, 2.0], |verdict| {
            let says = format!(
                "noise of length {:.3} reaches {noise:.3} along one of the patterns; codes count from {floor:.3} on",
                scale.noise
            );
            let advice = "supports will have errors; the patterns still gain from every further tensor";
            (says, if verdict == Verdict::Good { "" } else { advice })
        }));
    }
    Ok(Checkup { start, lines })
}

fn energy(explained: f64, patterns: usize) -> Line {
    line("energy", explained, 1.0, 1.0 - explained, [0.1, 0.5], |verdict| {
        let says = format!("{patterns} patterns explain {:.0} % of the energy", 100.0 * explained);
        let advice = match verdict {
            Verdict::Good => "",
            Verdict::Fair => {
                "the rest is noise, or patterns too rare to be told from it; look at the ladder of the start"
            }
            Verdict::Poor if patterns == 0 => {
                "no pattern is clearer than what chance finds: more fibers, less noise, or no patterns there"
            }
            Verdict::Poor => {
                "most of it is noise, or fibers that mix more patterns than can be told apart; what was found is not the \
                 whole story"
            }
        };
        (says, advice)
    })
}

/// A line whose verdict depends on how far the value is on the wrong side: good up to the first limit, fair up
/// to the second.
fn line(
    name: &'static str,
    value: f64,
    bound: f64,
    far: f64,
    limits: [f64; 2],
    words: impl FnOnce(Verdict) -> (String, &'static str),
) -> Line {
    let verdict = match far {
        far if far <= limits[0] => Verdict::Good,
        far if far <= limits[1] => Verdict::Fair,
        _ => Verdict::Poor,
    };
    let (says, advice) = words(verdict);
    Line { name, value, bound, verdict, says, advice }
}
