//! Test of what the counts model needs of a table, with a verdict on each.
//!
//! Symbols: y_fq the events of feature f in fiber q, N_q the events of fiber q, l = A x what its code expects; n features,
//! m patterns.
//!
//! | name | measured | asked for |
//! | --- | --- | --- |
//! | explained | share of the deviance from the overall mean that the codes explain | at least 2/3 |
//! | patterns | m | at most n / 2 |
//! | events | events for each number of the dictionary, sum N_q / (n m) | at least 5 |
//! | thin | share of the fibers that have a single event | at most 1/2 |
//! | bursts | sum (y - l)^2 over its value for independent events, sum_q N_q - \|l_q\|^2 / N_q | 1, at most 1.5 |
//! | restarts | agreement of the patterns with those of other seeds | at least .95 |

use crate::data::codes::Codes;
use crate::data::dictionary::Dictionary;
use crate::data::tensor::Tensor;
use crate::discover::params::DiscoverParams;
use crate::error::Error;
use crate::evaluate::assumptions::{Assumption, Verdict};
use crate::evaluate::metrics::agreement;
use crate::learner::Learner;
use crate::params::{Params, Passes};

/// Number of further searches, each with another seed.
const RESTARTS: u64 = 2;

/// The result of [`check`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CountReport {
    /// The learner, which has learned from the tensor.
    pub learner: Learner,
    /// The share of the deviance from the overall mean that the codes explain, from 0 to 1.
    pub explained: f64,
    /// What the model needs, each with a verdict.
    pub assumptions: Vec<Assumption>,
}

/// Learns a tensor with the counts model, and tests what the model needs.
///
/// # Errors
/// [`Error::NotACount`] for a value that cannot count events, [`Error::Parameter`] for a parameter outside its range,
/// [`Error::Stopped`] if `discover.stop` ended the search.
pub fn check(tensor: &Tensor<'_>, discover: &DiscoverParams) -> Result<CountReport, Error> {
    let learn = |seed: u64| {
        let params = Params { passes: Passes::Exhaust, ..Params::default() };
        let mut learner = Learner::for_counts(
            tensor.shape().features,
            params,
            DiscoverParams { seed, ..discover.clone() },
        )?;
        let step = learner.learn(tensor)?;
        Ok::<_, Error>((learner, 1.0 - step.fit * step.fit))
    };
    let (learner, explained) = learn(discover.seed)?;
    let mut same = 1.0_f64;
    for restart in 1..=RESTARTS {
        let other = learn(discover.seed.wrapping_add(restart))?.0;
        same = same.min(agreement(learner.dictionary(), other.dictionary())?);
    }
    let dictionary = learner.dictionary();
    let codes = learner.encode(tensor)?;
    let assumptions = vec![
        share_explained(explained, dictionary),
        few_patterns(dictionary),
        enough_events(tensor, dictionary),
        thin_fibers(tensor),
        bursts(tensor, dictionary, &codes),
        restarts(same),
    ];
    Ok(CountReport { learner, explained, assumptions })
}

fn share_explained(explained: f64, dictionary: &Dictionary) -> Assumption {
    let patterns = dictionary.patterns();
    let noun = if patterns == 1 { "pattern explains" } else { "patterns explain" };
    let assumption = Assumption::new(
        ("explained", explained, 2.0 / 3.0),
        (1.0 - explained, [1.0 / 3.0, 2.0 / 3.0]),
        format!("{patterns} {noun} {:.0} % of what tells the places apart", 100.0 * explained.max(0.0)),
        "the rest is chance, or too rare to be told from chance",
    );
    let advice = match assumption.verdict {
        Verdict::Poor => "most of it is chance: use rows and cols that have more events at each place",
        _ => assumption.advice,
    };
    Assumption { advice, ..assumption }
}

fn few_patterns(dictionary: &Dictionary) -> Assumption {
    let (n, m) = (dictionary.features() as f64, dictionary.patterns() as f64);
    Assumption::new(
        ("patterns", m, n / 2.0),
        (m / n, [0.5, 2.0 / 3.0]),
        format!("{m} patterns of {n} features"),
        "nearly every feature is a pattern of its own: use an axis with more features, or fewer patterns",
    )
}

fn enough_events(tensor: &Tensor<'_>, dictionary: &Dictionary) -> Assumption {
    let events: f64 = (0..tensor.fibers()).map(|fiber| events(tensor, fiber)).sum();
    let numbers = (dictionary.features() * dictionary.patterns()).max(1) as f64;
    let each = events / numbers;
    Assumption::new(
        ("events", each, 5.0),
        (5.0 / each, [1.0, 5.0]),
        format!("{events:.0} events, {each:.1} for each number of the patterns"),
        "the shares of rare features are rough: use more events or fewer features",
    )
}

fn thin_fibers(tensor: &Tensor<'_>) -> Assumption {
    let thin = (0..tensor.fibers()).filter(|&fiber| events(tensor, fiber) <= 1.0).count();
    let share = thin as f64 / tensor.fibers().max(1) as f64;
    Assumption::new(
        ("thin", share, 0.5),
        (share, [0.5, 0.8]),
        format!("{:.0} % of the places have a single event", 100.0 * share),
        "a place with one event shows nothing together: use rows and cols that have more events at each place",
    )
}

/// Over-dispersion: independent events that are divided among features in the shares l / N have the variance
/// sum_f l_f (1 - l_f / N).
fn bursts(tensor: &Tensor<'_>, dictionary: &Dictionary, codes: &Codes) -> Assumption {
    let (m, gram) = (dictionary.patterns(), dictionary.gram());
    let (mut squares, mut independent) = (0.0, 0.0);
    // A learner for counts leaves out fibers without events, and the codes have the order of the others.
    let fibers = (0..tensor.fibers()).filter(|&fiber| tensor.entries(fiber).next().is_some());
    for (fiber, code) in fibers.zip(codes.matrix().columns()) {
        let expected = |feature: u32| {
            let share = |&(i, x): &(u32, f64)| x * dictionary.pattern(i as usize)[feature as usize];
            code.iter().map(share).sum::<f64>()
        };
        let own: f64 = tensor.entries(fiber).map(|(feature, y)| y * (y - 2.0 * expected(feature))).sum();
        let product = |&(i, x): &(u32, f64)| {
            code.iter().map(|&(l, other)| x * other * gram[i as usize * m + l as usize]).sum::<f64>()
        };
        let square: f64 = code.iter().map(product).sum();
        let all = events(tensor, fiber);
        squares += own + square;
        independent += all - square / all;
    }
    let ratio = if independent > 0.0 { squares / independent } else { 1.0 };
    Assumption::new(
        ("bursts", ratio, 1.5),
        (ratio, [1.5, 4.0]),
        format!("events vary {ratio:.1} times as much as independent events would"),
        "events come in bursts, which count too much: try --recipe log2, or --recipe presence, which counts a cell once",
    )
}

fn restarts(same: f64) -> Assumption {
    Assumption::new(
        ("restarts", same, 0.95),
        (1.0 - same, [0.05, 0.2]),
        format!("patterns of other seeds have a cosine of {same:.2} with these"),
        "trust only the patterns that come again: noodl learn --stability K tells more",
    )
}

/// The number of events of a fiber.
fn events(tensor: &Tensor<'_>, fiber: usize) -> f64 {
    tensor.entries(fiber).map(|entry| entry.1).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Shape;

    /// Fibers of two patterns over six features, with events that a small generator draws, `burst` at a time.
    fn fibers(events: usize, burst: f64) -> Tensor<'static> {
        let mut state = 1_u64;
        let mut draw = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let entry = |place: usize| (3 * (place % 2) + [0, 0, 0, 1, 1, 2][draw(6)], place, 0, burst);
        let places = (0..40).flat_map(|place| vec![place; events]);
        let entries: Vec<(usize, usize, usize, f64)> = places.map(entry).collect();
        Tensor::from_triplets(Shape { features: 6, rows: 40, cols: 1 }, &entries).unwrap()
    }

    fn of(tensor: &Tensor<'_>, name: &str) -> Assumption {
        let report = check(tensor, &DiscoverParams::default()).unwrap();
        report.assumptions.into_iter().find(|line| line.name == name).unwrap()
    }

    #[test]
    fn bursts_are_measured_in_events() {
        // The dispersion of independent events is 1, and that of events that come five at a time is 5.
        for burst in [1.0, 5.0] {
            let ratio = of(&fibers(60, burst), "bursts").value / burst;
            assert!((0.85..1.15).contains(&ratio), "{burst}: {ratio}");
        }
    }

    #[test]
    fn good_data_is_good_and_thin_data_is_poor() {
        let good = check(&fibers(60, 1.0), &DiscoverParams::default()).unwrap();
        assert_eq!(good.learner.dictionary().patterns(), 2);
        assert!(good.assumptions.iter().all(|line| line.verdict == Verdict::Good), "{:?}", good.assumptions);
        let thin = of(&fibers(1, 1.0), "thin");
        assert_eq!((thin.value, thin.verdict), (1.0, Verdict::Poor));
        assert!(!thin.advice.is_empty());
    }
}
