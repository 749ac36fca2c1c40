//! Patterns that are not seen for long leave the dictionary, and return when they are seen again.

#![allow(clippy::unwrap_used)]

use tensornoodl::synthetic::{Plan, Planted};
use tensornoodl::synthetic_counts::{CountPlan, PlantedCounts};
use tensornoodl::{Dictionary, DiscoverParams, Learner, Params, Tensor};

/// The smallest cosine between a true pattern and the nearest pattern of a learner.
fn worst(learner: &Learner, truth: &Dictionary) -> f64 {
    let (found, truth) = (learner.dictionary().with_unit_lengths(), truth.with_unit_lengths());
    let cosine = |i: usize, l: usize| -> f64 {
        truth.pattern(i).iter().zip(found.pattern(l)).map(|(a, b)| a * b).sum::<f64>().abs()
    };
    let nearest = |i: usize| (0..found.patterns()).map(|l| cosine(i, l)).fold(0.0, f64::max);
    (0..truth.patterns()).map(nearest).fold(1.0, f64::min)
}

/// Six patterns of 30 features that a season of 40 steps shows.
fn season(number: u64) -> Planted {
    let plan = Plan { features: 30, patterns: 6, rows: 20, cols: 20, noise: 0.05, ..Plan::default() };
    Planted::new(Plan { alpha: 0.25, beta: 0.25, seed: 1000 + number, ..plan }).unwrap()
}

#[test]
fn a_stream_of_years_goes_on_and_patterns_return() {
    let mut learner = Learner::from_nothing(30, Params::default(), DiscoverParams::default()).unwrap();
    let mut seen = 0;
    let mut first = Dictionary::from_columns(1, vec![1.0]).unwrap();
    for number in 0..24 {
        let planted = season(number);
        let mut fits = Vec::new();
        for t in number * 40 + 1..=number * 40 + 40 {
            let step = learner.learn(&planted.tensor(t).tensor).unwrap();
            assert!(step.retired.iter().all(|pattern| step.lost.contains(pattern)));
            assert_eq!(step.activity.len(), learner.dictionary().patterns());
            fits.push(step.fit);
        }
        fits.sort_by(f64::total_cmp);
        assert!(fits[20] < 0.06, "season {number}: {}", fits[20]);
        assert!(
            learner.dictionary().patterns() <= 20,
            "season {number}: {}",
            learner.dictionary().patterns()
        );
        seen += 6;
        if number == 0 {
            first = learner.dictionary().clone();
        }
    }
    assert!(seen > 120 && learner.retired().len() >= 120, "{}", learner.retired().len());
    // The first season comes again.
    let mut returned = Vec::new();
    for t in 961..=970 {
        let before: Vec<Vec<f64>> = learner.retired().map(<[f64]>::to_vec).collect();
        let step = learner.learn(&season(0).tensor(t).tensor).unwrap();
        returned.extend(step.returned.iter().map(|it| before[it.retired].clone()));
    }
    let returned = Dictionary::from_columns(30, returned.concat()).unwrap();
    assert_eq!(returned.patterns(), 6);
    let cosine = |i: usize, l: usize| -> f64 {
        first.pattern(i).iter().zip(returned.pattern(l)).map(|(a, b)| a * b).sum::<f64>().abs()
    };
    assert!((0..6).all(|i| (0..6).any(|l| cosine(i, l) > 0.999)));
    assert!(worst(&learner, season(0).true_dictionary()) > 0.99);
    assert!(learner.check().is_ok());
}

#[test]
fn patterns_of_counts_retire_and_return() {
    let planted = |seed: u64| {
        let plan = CountPlan {
            features: 16,
            patterns: 3,
            rows: 8,
            cols: 8,
            alpha: 0.5,
            beta: 0.5,
            ..CountPlan::default()
        };
        PlantedCounts::new(CountPlan { events: 20.0, seed, ..plan }).unwrap()
    };
    let seasons = [planted(21), planted(22)];
    let mut learner = Learner::for_counts(16, Params::default(), DiscoverParams::default()).unwrap();
    let mut t = 0;
    let mut learn = |learner: &mut Learner, season: usize, steps: u64| {
        let (mut retired, mut returned) = (0, 0);
        for _ in 0..steps {
            t += 1;
            let step = learner.learn(&seasons[season].tensor(t).tensor).unwrap();
            (retired, returned) = (retired + step.retired.len(), returned + step.returned.len());
        }
        (retired, returned)
    };
    assert_eq!(learn(&mut learner, 0, 20), (0, 0));
    let (retired, returned) = learn(&mut learner, 1, 80);
    assert!(retired >= 3 && returned == 0, "{retired} {returned}");
    assert!(worst(&learner, seasons[1].true_dictionary()) > 0.98);
    let (_, returned) = learn(&mut learner, 0, 12);
    assert!(returned >= 3, "{returned}");
    assert!(worst(&learner, seasons[0].true_dictionary()) > 0.98);
    assert!(learner.check().is_ok());
}

#[test]
fn a_number_of_patterns_that_was_asked_for_is_kept() {
    let discover = DiscoverParams { max_patterns: Some(12), ..DiscoverParams::default() };
    let mut learner = Learner::from_nothing(30, Params::default(), discover).unwrap();
    for t in 1..=120 {
        let tensor: Tensor<'_> = season(u64::from(t > 10)).tensor(t).tensor;
        assert!(learner.learn(&tensor).unwrap().retired.is_empty());
    }
    assert_eq!((learner.dictionary().patterns(), learner.retired().len()), (12, 0));
}
