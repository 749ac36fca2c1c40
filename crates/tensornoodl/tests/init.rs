//! The search for a first dictionary, its evidence, and the test of the assumptions.

#![allow(clippy::unwrap_used)]

use tensornoodl::assumptions::{Verdict, check};
use tensornoodl::discover::pairs::{self, PairParams};
use tensornoodl::discover::{energy_floor, evidence, find, find_stable};
use tensornoodl::recovery::PatternCounts;
use tensornoodl::synthetic::{Plan, Planted};
use tensornoodl::{Dictionary, DiscoverParams, Learner, Params, Place, Shape, Tensor};

/// The first tensor of a plan, and a function that counts found and spurious patterns of a dictionary.
fn planted(plan: Plan) -> (Tensor<'static>, impl Fn(&Dictionary) -> PatternCounts) {
    let planted = Planted::new(plan).unwrap();
    let made = planted.tensor(1);
    let shown: Vec<usize> = made.true_codes.matrix().transpose().columns().map(<[_]>::len).collect();
    let count =
        move |found: &Dictionary| PatternCounts::new(found, planted.true_dictionary(), &shown).unwrap();
    (made.tensor, count)
}

fn small() -> Plan {
    Plan { features: 100, patterns: 20, rows: 60, cols: 60, alpha: 0.1, beta: 0.1, ..Plan::default() }
}

#[test]
fn a_start_has_all_patterns_and_their_energies() {
    let (tensor, count) = planted(small());
    let start = find(&tensor, &DiscoverParams::default()).unwrap();
    assert_eq!(count(&start.dictionary), PatternCounts { seen: 20, found: 20, spurious: 0 });
    assert_eq!((start.fibers, start.explained), (tensor.fibers(), tensor.fibers()));
    assert!((start.energy - 1.0).abs() < 1e-3);
    let sum: f64 = start.findings.iter().map(|finding| finding.energy).sum();
    assert!((sum - start.energy).abs() < 1e-9);
    assert!(start.findings.is_sorted_by(|a, b| a.energy >= b.energy));
    assert!(start.findings.iter().all(|finding| finding.evidence > 1.0 && finding.fibers >= 2));
    let scale = start.scale.unwrap();
    assert!((scale.code - 1.0).abs() < 1e-3 && (scale.floor - 1.0).abs() < 1e-3 && scale.noise < 1e-3);

    // The units of the data do not change the result.
    let (large, _) = planted(Plan { scale: 1000.0, ..small() });
    let other = find(&large, &DiscoverParams::default()).unwrap();
    assert!((other.scale.unwrap().code / scale.code - 1000.0).abs() < 1e-3);
    assert_eq!((other.explained, other.findings.len()), (start.explained, start.findings.len()));
}

#[test]
fn the_number_of_patterns_can_be_requested() {
    let (tensor, count) = planted(Plan { noise: 0.5, ..small() });
    let all = find(&tensor, &DiscoverParams::default()).unwrap();
    assert_eq!(all.findings.len(), 20);
    let few = find(&tensor, &DiscoverParams { max_patterns: Some(5), ..DiscoverParams::default() }).unwrap();
    assert_eq!(count(&few.dictionary), PatternCounts { seen: 20, found: 5, spurious: 0 });
    // The patterns that explain most energy are kept.
    assert!(few.energy > 5.0 / 20.0 * all.energy);
    // Patterns beyond the true number are noise, and their evidence is at most 1.
    let many = find(
        &tensor,
        &DiscoverParams { min_patterns: 23, max_patterns: Some(23), ..DiscoverParams::default() },
    )
    .unwrap();
    let clear = many.findings.iter().filter(|finding| finding.evidence > 1.0).count();
    assert!(clear >= 20 && clear == many.findings.len().min(clear), "{:?}", many.findings);
    assert!(many.findings.len() <= 23 && count(&many.dictionary).found == 20);
}

#[test]
fn one_to_four_patterns_are_found() {
    for patterns in 1..=4 {
        for features in [20, 100] {
            let plan = Plan { features, patterns, rows: 100, cols: 100, ..small() };
            let (tensor, count) = planted(plan);
            let start = find(&tensor, &DiscoverParams::default()).unwrap();
            let all = PatternCounts { seen: patterns, found: patterns, spurious: 0 };
            assert_eq!(count(&start.dictionary), all, "{patterns} patterns of {features} features");
        }
    }
}

#[test]
fn a_learner_continues_from_a_start() {
    let planted = Planted::new(small()).unwrap();
    let start = find(&planted.tensor(1).tensor, &DiscoverParams::default()).unwrap();
    let mut learner = Learner::from_start(&start, Params::default(), DiscoverParams::default()).unwrap();
    assert_eq!(learner.dictionary(), &start.dictionary);
    assert_eq!((learner.scale(), learner.evidence().len()), (start.scale, 20));
    let last = (2..=6).map(|t| learner.learn(&planted.tensor(t).tensor).unwrap()).last().unwrap();
    assert!(last.fit < 1e-10 && learner.dictionary().patterns() == 20, "{}", last.fit);
}

#[test]
fn the_number_of_patterns_is_limited_for_tensors_in_parts_too() {
    let (tensor, _) = planted(small());
    let grow = DiscoverParams { max_patterns: Some(5), ..DiscoverParams::default() };
    let mut learner = Learner::from_nothing(100, Params::default(), grow).unwrap();
    learner.learn_parts(tensor.shape(), [Ok::<_, tensornoodl::Error>(tensor.clone())]).unwrap();
    assert_eq!(learner.dictionary().patterns(), 5);
}

#[test]
fn fibers_below_the_minimum_length_are_ignored() {
    let (tensor, _) = planted(small());
    let none = find(&tensor, &DiscoverParams { min_length: 100.0, ..DiscoverParams::default() }).unwrap();
    assert_eq!((none.findings.len(), none.fibers, none.explained, none.energy), (0, 0, 0, 0.0));
    // A learner ignores short fibers in every step.
    let grow = DiscoverParams { min_length: 100.0, ..DiscoverParams::default() };
    let mut learner = Learner::from_nothing(100, Params::default(), grow).unwrap();
    for _ in 0..2 {
        learner.learn(&tensor).unwrap();
    }
    assert_eq!((learner.dictionary().patterns(), learner.unexplained_fibers()), (0, 0));
    for min_length in [f64::NAN, -1.0, f64::INFINITY] {
        assert!(find(&tensor, &DiscoverParams { min_length, ..DiscoverParams::default() }).is_err());
    }
    let contradiction =
        DiscoverParams { min_patterns: 5, max_patterns: Some(4), ..DiscoverParams::default() };
    let message = "max_patterns is 4, it must be at least 5 and finite";
    assert_eq!(find(&tensor, &contradiction).unwrap_err().to_string(), message);
}

/// A synthetic tensor with noise, and as many short fibers with one entry each.
fn noisy_with_short_fibers() -> Tensor<'static> {
    let (tensor, _) = planted(Plan { noise: 0.7, ..small() });
    let (n, p) = (100, tensor.fibers());
    let shape = Shape { features: n, rows: 60, cols: 1000 };
    let (mut values, mut places) = (tensor.values().to_vec(), tensor.places().to_vec());
    for spike in 0..p {
        let mut fiber = vec![0.0; n];
        fiber[spike % 50] = 0.2;
        values.extend(fiber);
        places.push(Place { row: (spike % 60) as u32, col: (100 + spike / 60) as u32 });
    }
    Tensor::from_fibers(shape, values, places).unwrap()
}

#[test]
fn noisy_data_with_many_short_fibers_is_searched_in_its_long_fibers() {
    let (exact, _) = planted(small());
    let start = find_stable(&exact, &DiscoverParams::default()).unwrap();
    assert_eq!(
        (start.min_length, start.findings.len()),
        (0.0, 20),
        "all fibers are searched if the data follows the model"
    );

    let tensor = noisy_with_short_fibers();
    let all = find(&tensor, &DiscoverParams::default()).unwrap();
    assert!(all.findings.len() >= 50, "every group of equal short fibers is a pattern");
    let start = find_stable(&tensor, &DiscoverParams::default()).unwrap();
    assert_eq!(start.min_length, energy_floor(&tensor));
    assert!(start.min_length > 0.2 && start.min_length < 1.0 && start.fibers == exact.fibers());
    assert_eq!(start.findings.len(), 20);
    // The floor scales with the data.
    let thrice: Vec<f64> = tensor.values().iter().map(|y| 3.0 * y).collect();
    let thrice = Tensor::from_fibers(tensor.shape(), thrice, tensor.places()).unwrap();
    assert!((energy_floor(&thrice) / energy_floor(&tensor) - 3.0).abs() < 1e-12);
}

/// Fibers over 24 parts of a week: a third follows one of three rhythms, the others have one event at a random time.
fn rhythms_and_single_events() -> Tensor<'static> {
    let (mut values, mut places) = (Vec::new(), Vec::new());
    // A Weyl sequence instead of random numbers.
    let mut at = 0.5;
    let mut next = |count: usize| {
        at = (at + 0.754_877_666_246_692_8_f64) % 1.0;
        (at * count as f64) as usize
    };
    for fiber in 0..900 {
        let mut y = vec![0.0; 24];
        if fiber % 3 == 0 {
            let first = 5 * next(3);
            (0..6).for_each(|part| y[first + 2 * part % 24] = 4.0 + next(3) as f64);
        } else {
            y[next(24)] = 1.0;
        }
        values.extend(y);
        places.push(Place { row: fiber / 30, col: fiber % 30 });
    }
    Tensor::from_fibers(Shape { features: 24, rows: 30, cols: 30 }, values, places).unwrap()
}

#[test]
fn single_events_are_not_patterns() {
    let tensor = rhythms_and_single_events();
    let all = find(&tensor, &DiscoverParams::default()).unwrap();
    // One pattern for every part of the week explains the single events, but uses one pattern for one entry.
    assert!(all.few < all.explained / 2, "{} of {}", all.few, all.explained);
    let stable = find_stable(&tensor, &DiscoverParams::default()).unwrap();
    assert_eq!(stable.findings.len(), 3, "{:?}", stable.findings);
    assert!(stable.min_length > 1.0);
    let scale = stable.scale.unwrap();
    assert_eq!((scale.code, scale.floor), (stable.min_length, stable.min_length));
}

#[test]
fn the_evidence_stops_growing_at_the_true_number_of_patterns() {
    let (tensor, _) = planted(Plan { noise: 0.3, ..small() });
    let start = find(&tensor, &DiscoverParams::default()).unwrap();
    let mut reported = Vec::new();
    let evidence =
        evidence(&tensor, &start, &DiscoverParams::default(), |share| reported.push(share)).unwrap();
    assert!(reported.is_sorted() && reported.last() == Some(&1.0));
    assert_eq!(evidence.halves, [20, 20]);
    assert!(
        evidence.seeds.iter().chain(&evidence.samples).all(|again| again.patterns == 20 && again.agree == 20)
    );
    let ladder = &evidence.held_out;
    assert!(ladder.is_sorted_by(|a, b| a.patterns < b.patterns) && ladder[0].patterns == 1);
    let rung = |patterns: usize| ladder.iter().find(|rung| rung.patterns == patterns).unwrap();
    assert_eq!(rung(20).agree, 20);
    // The 20th pattern explains more energy on held-out data, further patterns do not.
    assert!(rung(20).energy > rung(19).energy + 0.002);
    assert!(ladder.last().unwrap().energy < rung(20).energy + 0.002);
    assert!((0.85..0.97).contains(&rung(20).energy), "the noise must not be explained: {}", rung(20).energy);
}

#[test]
fn the_pairwise_start_finds_all_patterns() {
    let (tensor, count) = planted(Plan { patterns: 8, ..small() });
    let pairs = PairParams { max_pairs: 4000, ..PairParams::new(100) };
    let found = pairs::find(&tensor, &pairs).unwrap();
    assert_eq!(count(&found.dictionary), PatternCounts { seen: 8, found: 8, spurious: 0 });
    assert!(found.hits.is_sorted_by(|a, b| a >= b) && found.hits.iter().all(|hits| *hits >= 3));
    assert!(found.hits.iter().sum::<usize>() <= found.accepted && found.accepted < found.pairs);
    assert_eq!(pairs::find(&tensor, &pairs).unwrap(), found, "the same seed must give the same pairs");
    assert!(pairs::find(&tensor, &PairParams { ratio: 1.0, ..pairs }).is_err());
}

/// A function from the name of an assumption to its verdict.
fn verdicts(tensor: &Tensor<'_>) -> impl Fn(&str) -> Option<Verdict> {
    let report = check(tensor, &DiscoverParams::default()).unwrap();
    for line in &report.assumptions {
        assert_eq!(line.advice.is_empty(), line.verdict == Verdict::Good, "{line:?}");
    }
    move |name| report.assumptions.iter().find(|line| line.name == name).map(|line| line.verdict)
}

#[test]
fn data_drawn_from_the_model_meets_the_assumptions() {
    let (tensor, _) = planted(Plan::default());
    let verdict = verdicts(&tensor);
    for name in
        ["energy", "incoherence", "norm", "patterns", "sparsity", "samples", "restarts", "rank one", "noise"]
    {
        assert_eq!(verdict(name), Some(Verdict::Good), "{name}");
    }
    assert_eq!(verdict("density"), Some(Verdict::Fair), "the paper's experiments have this density too");
}

#[test]
fn violated_assumptions_are_reported() {
    let (noise, _) = planted(Plan { noise: 3.0, ..Plan::default() });
    let verdict = verdicts(&noise);
    assert_eq!(
        (verdict("energy"), verdict("sparsity")),
        (Some(Verdict::Poor), None),
        "without patterns, only the energy is reported"
    );

    assert_eq!(verdicts(&noisy_with_short_fibers())("energy"), Some(Verdict::Fair));

    let (mixed, _) = planted(Plan { rows: 40, cols: 40, alpha: 0.16, beta: 0.16, ..Plan::default() });
    let verdict = verdicts(&mixed);
    assert!(verdict("sparsity") > Some(Verdict::Good) && verdict("samples") == Some(Verdict::Fair));
}
