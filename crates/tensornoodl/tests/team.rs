//! Teams of ranks: a team learns the same bits as one rank, however the fibers are distributed, and an error on one
//! rank is an error on all.

#![allow(clippy::unwrap_used, missing_docs)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tensornoodl::parallel::{Solo, Team, ThreadRank, rank_range, run_ranks};
use tensornoodl::recovery::Recovery;
use tensornoodl::synthetic::{Plan, Planted, Values};
use tensornoodl::{
    Dictionary, DiscoverParams, Error, Learner, Params, Passes, Place, Rule, Shape, Step, Stop, Tensor,
};

/// How the fibers of a tensor are distributed over the ranks.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// Every rank has a contiguous range of the same size.
    Even,
    /// The place of a fiber determines its rank.
    Scattered,
    /// The last rank has all fibers.
    Last,
}

/// The fibers of this rank.
fn cut(tensor: &Tensor<'_>, team: &dyn Team, cut: Cut) -> Tensor<'static> {
    let (p, size) = (tensor.fibers() as u64, team.size() as u64);
    let even = rank_range(team, p);
    let own = |fiber: &usize| match cut {
        Cut::Even => even.contains(&(*fiber as u64)),
        Cut::Scattered => {
            let place = tensor.places()[*fiber];
            u64::from(place.row * 7 + place.col * 3) % size == team.rank() as u64
        }
        Cut::Last => team.rank() + 1 == team.size(),
    };
    let fibers: Vec<usize> = (0..tensor.fibers()).filter(own).collect();
    let values: Vec<f64> = fibers.iter().flat_map(|&fiber| tensor.fiber(fiber).to_vec()).collect();
    let places: Vec<Place> = fibers.iter().map(|&fiber| tensor.places()[fiber]).collect();
    Tensor::from_fibers(tensor.shape(), values, places).unwrap()
}

/// All fields of a step except codes and times.
fn summary(step: &Step) -> String {
    let Step {
        step, fibers, fibers_used, mean_code_size, fit, change, activity, passes, found, lost, ..
    } = step;
    format!(
        "{step} {fibers} {fibers_used} {mean_code_size:?} {fit:?} {change:?} {activity:?} {passes} {found} {lost:?}"
    )
}

/// A place (col, row) and the bits of its code.
type Code = (u32, u32, Vec<(u32, u64)>);

fn codes(step: &Step) -> Vec<Code> {
    let bits = |code: &[(u32, f64)]| code.iter().map(|&(i, x)| (i, x.to_bits())).collect();
    let codes = step.codes.places().iter().zip(step.codes.matrix().columns());
    codes.map(|(place, code)| (place.col, place.row, bits(code))).collect()
}

/// Learns from the tensors with teams of 1 to 4 ranks and compares all bits with those of one learner.
fn assert_same_for_all_teams(learner: &Learner, tensors: &[Tensor<'_>]) {
    let mut alone = learner.clone();
    let steps: Vec<Step> = tensors.iter().map(|tensor| alone.learn(tensor).unwrap()).collect();
    for how in [Cut::Even, Cut::Scattered, Cut::Last] {
        for size in 1..=4 {
            let ranks = run_ranks(size, |team: &ThreadRank| {
                let mut learner = learner.clone();
                learner.join(Arc::new(team.clone()));
                let learn = |tensor: &Tensor<'_>| learner.learn(&cut(tensor, team, how)).unwrap();
                let steps: Vec<Step> = tensors.iter().map(learn).collect();
                (learner, steps)
            });
            for (at, step) in steps.iter().enumerate() {
                let mut found = Vec::new();
                for (_, steps) in &ranks {
                    assert_eq!(summary(&steps[at]), summary(step), "{how:?}, {size} ranks");
                    found.extend(codes(&steps[at]));
                }
                let mut expected = codes(step);
                expected.sort();
                found.sort();
                assert!(found == expected, "codes of step {}, {how:?}, {size} ranks", at + 1);
            }
            ranks.iter().for_each(|rank| assert!(rank.0 == alone, "{how:?}, {size} ranks"));
        }
    }
}

fn planted(plan: Plan) -> (Planted, Vec<Tensor<'static>>) {
    let planted = Planted::new(plan).unwrap();
    let tensors = (1..=4).map(|step| planted.tensor(step).tensor).collect();
    (planted, tensors)
}

fn plan() -> Plan {
    Plan { features: 50, patterns: 30, rows: 60, cols: 70, ..Plan::default() }
}

#[test]
fn ranks_learn_the_same_bits_from_a_start() {
    for noise in [0.0, 0.3] {
        let (planted, tensors) =
            planted(Plan { noise, col_values: Values::SubGaussian { floor: 0.5 }, ..plan() });
        let start = planted.start(planted.paper_distance()).unwrap();
        let paper = Rule::Paper { eta_a: 5.0 };
        for (rule, passes) in [
            (Rule::Adaptive, Passes::Fixed(1)),
            (Rule::Adaptive, Passes::Auto),
            (Rule::Adaptive, Passes::Exhaust),
            (paper, Passes::Fixed(1)),
            (paper, Passes::Fixed(3)),
        ] {
            let params = Params { rule, passes, ..Params::default() };
            assert_same_for_all_teams(&Learner::new(start.clone(), params).unwrap(), &tensors);
        }
    }
}

#[test]
fn ranks_learn_the_same_bits_from_nothing() {
    let (_, tensors) = planted(Plan { late: 10, late_step: 3, noise: 0.1, ..plan() });
    let learner = Learner::from_nothing(50, Params::default(), DiscoverParams::default()).unwrap();
    assert_same_for_all_teams(&learner, &tensors);
}

/// The tensors have many waves of fibers per rank, more unexplained fibers than are kept, and codes that are predicted
/// from row and col.
#[test]
fn ranks_learn_the_same_bits_from_large_tensors() {
    let plan = Plan { features: 12, patterns: 24, rows: 400, cols: 400, alpha: 0.1, beta: 0.1, ..plan() };
    let planted = Planted::new(Plan { noise: 0.05, ..plan }).unwrap();
    let tensors: Vec<Tensor<'_>> = (1..=2).map(|step| planted.tensor(step).tensor).collect();
    assert!(tensors[0].fibers() > 30_000, "{}", tensors[0].fibers());
    assert_same_for_all_teams(
        &Learner::new(planted.start(0.3).unwrap(), Params::default()).unwrap(),
        &tensors,
    );
    let few_patterns = Learner::from_nothing(
        12,
        Params::default(),
        DiscoverParams { max_patterns: Some(3), ..DiscoverParams::default() },
    );
    assert_same_for_all_teams(&few_patterns.unwrap(), &tensors[..1]);
}

#[test]
fn parts_of_a_tensor_in_any_order_give_the_same_bits() {
    for noise in [0.0, 0.3] {
        let (planted, tensors) = planted(Plan { noise, rows: 200, cols: 150, ..plan() });
        let start = planted.start(planted.paper_distance()).unwrap();
        let mut whole = Learner::new(start, Params::default()).unwrap();
        let mut parts = whole.clone();
        for tensor in &tensors {
            let step = whole.learn(tensor).unwrap();
            let mut cuts = run_ranks(7, |team| cut(tensor, team, Cut::Scattered));
            cuts.reverse();
            let cuts = cuts.into_iter().map(Ok::<_, Error>);
            assert_eq!(summary(&parts.learn_parts(tensor.shape(), cuts).unwrap()), summary(&step));
            assert!(parts == whole, "step {}", step.step);
        }
    }
}

/// After many steps, the residuals of explained fibers are so small that their squares underflow to 0.
#[test]
fn ranks_learn_the_same_bits_from_counts_over_many_steps() {
    let shape = Shape { features: 12, rows: 32, cols: 32 };
    for seed in 1..=4_u64 {
        let mut state = seed;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % below) as usize
        };
        let tensors: Vec<Tensor<'_>> = (0..70)
            .map(|_| {
                let entries: Vec<_> = (0..70)
                    .map(|_| {
                        let group = draw(4);
                        (3 * group + draw(3), 8 * group + draw(8), 8 * group + draw(8), 1.0)
                    })
                    .collect();
                Tensor::from_triplets(shape, &entries).unwrap()
            })
            .collect();
        let start = Learner::from_tensor(
            Arc::new(Solo),
            &tensors[0],
            Params::default(),
            DiscoverParams::default(),
            true,
        );
        let alone = start.unwrap();
        for size in [2, 3] {
            let mut one = alone.clone();
            tensors.iter().for_each(|tensor| drop(one.learn(tensor).unwrap()));
            for rank in run_ranks(size, |team| {
                let mut learner = alone.clone();
                learner.join(Arc::new(team.clone()));
                tensors.iter().for_each(|tensor| {
                    drop(learner.learn(&cut(tensor, team, Cut::Scattered)).unwrap());
                });
                learner
            }) {
                let bits = |learner: &Learner| -> Vec<u64> {
                    learner.dictionary().values().iter().map(|value| value.to_bits()).collect()
                };
                assert!(bits(&rank) == bits(&one) && rank == one, "seed {seed}, {size} ranks");
            }
        }
    }
}

/// Some codes are exactly at the thresholds, where the last bit of a pattern decides.
#[test]
fn ranks_learn_the_same_bits_from_codes_at_the_thresholds() {
    let shape = Shape { features: 8, rows: 40, cols: 40 };
    let params = Params { code_floor: 1.0, tau: 0.5, ..Params::default() };
    let mut columns = vec![0.0; 64];
    (0..8).for_each(|i| columns[i * 8 + i] = 1.0);
    // Small other entries, so that sums are rounded.
    (0..8).for_each(|i| columns[i * 8 + (i + 1) % 8] = 0.05 + 0.01 * i as f64);
    let tensors: Vec<Tensor<'_>> = (0..4)
        .map(|step| {
            let mut entries = Vec::new();
            for (row, col) in (0..40).flat_map(|row| (0..40).map(move |col| (row, col))) {
                let (one, two) = ((row + col + step) % 8, (row * 3 + col) % 8);
                // 0.5 is exactly C / 2 and tau.
                entries.push((one, row, col, 0.5));
                entries.push((two, row, col, if (row + col) % 3 == 0 { -0.5 } else { 1.0 }));
            }
            Tensor::from_triplets(shape, &entries).unwrap()
        })
        .collect();
    let start = Dictionary::from_columns(8, columns).unwrap();
    for passes in [Passes::Fixed(1), Passes::Auto] {
        let params = Params { passes, ..params.clone() };
        assert_same_for_all_teams(&Learner::new(start.clone(), params).unwrap(), &tensors);
    }
}

#[test]
fn ranks_make_the_same_learner_from_a_tensor() {
    let (_, tensors) = planted(plan());
    let from_tensor = |team: Arc<dyn Team>, tensor: &Tensor<'_>| {
        Learner::from_tensor(team, tensor, Params::default(), DiscoverParams::default(), true).unwrap()
    };
    let alone = from_tensor(Arc::new(Solo), &tensors[0]);
    assert!(alone.dictionary().patterns() > 10);
    for size in 2..=4 {
        let ranks = run_ranks(size, |team| {
            from_tensor(Arc::new(team.clone()), &cut(&tensors[0], team, Cut::Scattered))
        });
        ranks.iter().for_each(|learner| assert!(*learner == alone));
    }
}

#[test]
fn an_error_on_one_rank_is_an_error_on_all() {
    let (planted, tensors) = planted(plan());
    let learner = Learner::new(planted.start(0.3).unwrap(), Params::default()).unwrap();
    let shape = tensors[0].shape();
    let after = AtomicUsize::new(0);
    let errors = run_ranks(3, |team| {
        let mut learner = learner.clone();
        learner.join(Arc::new(team.clone()));
        let before = learner.clone();
        let mut parts = vec![Ok(cut(&tensors[0], team, Cut::Even))];
        if team.rank() == 1 {
            parts.push(Err(Error::Length { what: "a row of its share", got: 3, expected: 4 }));
        }
        let error = learner.learn_parts(shape, parts).unwrap_err();
        assert!(learner == before, "a failed step must not change the learner");
        // The team can go on.
        let step = learner.learn(&cut(&tensors[0], team, Cut::Even)).unwrap();
        after.fetch_add(step.codes.places().len(), Ordering::Relaxed);
        assert_eq!(step.fibers, tensors[0].fibers());
        error.to_string()
    });
    assert_eq!(errors[1], "a row of its share: 3 values given, 4 needed");
    assert!(errors[0] == errors[2] && errors[0] == format!("rank 1 failed: {}", errors[1]), "{errors:?}");
    assert_eq!(after.into_inner(), tensors[0].fibers());

    // One rank has a tensor with other features, then one rank is stopped.
    let errors = run_ranks(3, |team| {
        let mut learner = learner.clone();
        learner.join(Arc::new(team.clone()));
        let narrow = Tensor::from_triplets(Shape { features: 2, ..shape }, &[(0, 0, 0, 1.0)]).unwrap();
        let wide = cut(&tensors[0], team, Cut::Even);
        let features = learner.learn(if team.rank() == 2 { &narrow } else { &wide }).unwrap_err();
        let stop = Stop::default();
        learner.set_stop(stop.clone());
        if team.rank() == 0 {
            stop.set();
        }
        (features, learner.learn(&wide).unwrap_err())
    });
    assert!(matches!(errors[0].0, Error::OtherRank { rank: 2, .. }), "{errors:?}");
    assert_eq!(errors[2].0, Error::Features { tensor: 2, dictionary: 50 });
    assert!(errors.iter().all(|error| error.1 == Error::Stopped), "{errors:?}");
}

#[test]
fn ranks_measure_the_same_recovery() {
    let run = |team: Arc<dyn Team>, noise: f64| {
        let planted = Planted::new(Plan { noise, ..plan() }).unwrap();
        let distance = planted.paper_distance();
        let mut recovery = Recovery::new(planted, distance, Params::default()).unwrap();
        recovery.join(team);
        let steps: Vec<_> = (0..8).map(|_| recovery.advance().unwrap()).collect();
        let reports: Vec<(u64, f64, bool)> =
            steps.iter().map(|step| (step.error_a.to_bits(), step.error_x, step.support)).collect();
        (reports, recovery.outcome().unwrap())
    };
    for noise in [0.0, 0.2] {
        let (reports, outcome) = run(Arc::new(Solo), noise);
        for size in 2..=4 {
            for (others, other) in run_ranks(size, |team| run(Arc::new(team.clone()), noise)) {
                for (a, b) in reports.iter().zip(&others) {
                    assert!((a.0, a.2) == (b.0, b.2) && (a.1 - b.1).abs() <= 1e-12 * a.1, "{a:?} {b:?}");
                }
                let same = |a: f64, b: f64| assert!((a - b).abs() <= 1e-12 * a.max(1e-3), "{a} {b}");
                same(outcome.error_x, other.error_x);
                assert_eq!(
                    (
                        outcome.error_a,
                        outcome.error_b,
                        outcome.error_c,
                        outcome.support,
                        outcome.coverage_step
                    ),
                    (other.error_a, other.error_b, other.error_c, other.support, other.coverage_step)
                );
                assert_eq!(
                    (outcome.pattern_counts, outcome.mean_code_size),
                    (other.pattern_counts, other.mean_code_size)
                );
                match (outcome.oracle_error_a, other.oracle_error_a) {
                    (Some(a), Some(b)) => same(a, b),
                    (a, b) => assert!(a.is_none() && b.is_none()),
                }
            }
        }
    }
}

#[test]
fn ranks_untangle_the_same_factors() {
    let (planted, tensors) = planted(Plan { noise: 0.2, ..plan() });
    let learner = Learner::new(planted.true_dictionary().clone(), Params::default()).unwrap();
    let alone = learner.encode(&tensors[0]).unwrap().untangle_blocks(&Solo, 2);
    for size in 2..=4 {
        let ranks = run_ranks(size, |team| {
            learner.encode(&cut(&tensors[0], team, Cut::Scattered)).unwrap().untangle_blocks(team, 2)
        });
        ranks.iter().for_each(|blocks| assert!(*blocks == alone));
    }
}

/// Events of one step: people of the same third meet at features 0 to 2, and people of the same half at features 3
/// to 5.
fn meetings(step: u64) -> Tensor<'static> {
    let mut random = step;
    let mut events = Vec::new();
    for row in 0..24 {
        for col in 0..24 {
            for feature in 0..6 {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let meet = if feature < 3 { row % 3 == col % 3 } else { row % 2 == col % 2 };
                let count = random >> 62;
                if meet && row != col && count > 0 {
                    events.push((feature, row, col, count as f64));
                }
            }
        }
    }
    Tensor::from_triplets(Shape { features: 6, rows: 24, cols: 24 }, &events).unwrap()
}

#[test]
fn ranks_find_the_same_factors_and_groups_of_counts() {
    let discover = DiscoverParams { seed: 1, ..DiscoverParams::default() };
    let learner = Learner::for_counts(6, Params::default(), discover).unwrap();
    let tensors = [meetings(1), meetings(2)];
    let learn = |team: &ThreadRank| {
        let mut learner = learner.clone();
        learner.join(Arc::new(team.clone()));
        let mut last = None;
        for tensor in &tensors {
            last = Some(learner.learn(&cut(tensor, team, Cut::Scattered)).unwrap());
        }
        let factors = last.unwrap().codes.untangle_blocks(team, 2);
        let groups = learner.groups(&factors[0]);
        (factors, groups)
    };
    let alone = run_ranks(1, learn).remove(0);
    let (factors, groups) = &alone;
    assert_eq!(factors[0].rank_one.len(), 2, "two patterns");
    assert!(factors[1].rank_one == [0.0; 2] && factors[1].rows.nnz() == 0, "one pair of factors");
    for side in [&factors[0].rows, &factors[0].cols] {
        assert!(side.columns().all(|column| column.len() == 24 && column.iter().all(|entry| entry.1 > 0.0)));
    }
    assert_eq!(groups.shares.rows(), 5, "three thirds and two halves");
    assert_eq!(groups.shares.cols(), 2);
    for size in 2..=3 {
        run_ranks(size, learn).iter().for_each(|rank| assert!(*rank == alone, "{size} ranks"));
    }
}
