//! Properties that hold for any input.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use tensornoodl::metrics::Matching;
use tensornoodl::{Codes, Dictionary, Learner, Params, Passes, Place, Rule, Shape, Solver, Sparse, Tensor};

const FEATURES: usize = 12;
const ROWS: usize = 5;
const COLS: usize = 4;
const SHAPE: Shape = Shape { features: FEATURES, rows: ROWS, cols: COLS };

fn dictionaries(patterns: usize) -> impl Strategy<Value = Dictionary> {
    proptest::collection::vec(-1.0..1.0, FEATURES * patterns)
        .prop_filter_map("a zero pattern", |values| Dictionary::from_columns(FEATURES, values).ok())
}

fn triplets() -> impl Strategy<Value = Vec<(usize, usize, usize, f64)>> {
    // Multiples of 0.5, so that sums are exact in any order.
    let value = (-8..8).prop_map(|value| f64::from(value) / 2.0);
    proptest::collection::vec((0..FEATURES, 0..ROWS, 0..COLS, value), 0..60)
}

/// A code, and the noise of the fiber.
type Mixture = (Vec<(usize, f64)>, Vec<f64>);

/// Fibers that mix one to three patterns with codes that are not +-1, plus small noise.
fn mixtures(patterns: usize) -> impl Strategy<Value = Vec<Mixture>> {
    let entry = (0..patterns, prop_oneof![-2.0..-0.6, 0.6..2.0]);
    let code = proptest::collection::vec(entry, 1..4);
    let noise = proptest::collection::vec(-0.05..0.05, FEATURES);
    proptest::collection::vec((code, noise), ROWS * COLS)
}

fn tensor_of(dictionary: &Dictionary, fibers: &[Mixture]) -> Tensor<'static> {
    let mut values = Vec::new();
    for (code, noise) in fibers {
        let mut y = noise.clone();
        for &(i, x) in code {
            y.iter_mut().zip(dictionary.pattern(i)).for_each(|(y, a)| *y += x * a);
        }
        values.extend(y);
    }
    Tensor::from_fibers(SHAPE, values, places()).unwrap()
}

fn places() -> Vec<Place> {
    (0..fibers()).map(|at| Place { row: (at % ROWS) as u32, col: (at / ROWS) as u32 }).collect()
}

fn fibers() -> usize {
    ROWS * COLS
}

fn largest_difference(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn triplets_in_any_order_give_the_same_tensor((ordered, shuffled) in triplets().prop_flat_map(|entries| {
        (Just(entries.clone()), Just(entries).prop_shuffle())
    })) {
        let tensor = Tensor::from_triplets(SHAPE, &ordered).unwrap();
        prop_assert_eq!(&tensor, &Tensor::from_triplets(SHAPE, &shuffled).unwrap());
        // The tensor has the sums of the given entries.
        let mut total = 0.0;
        for (f, place) in tensor.places().iter().enumerate() {
            for (i, &value) in tensor.fiber(f).iter().enumerate() {
                let at = |e: &&(usize, usize, usize, f64)| (e.0, e.1, e.2) == (i, place.row as usize, place.col as usize);
                prop_assert_eq!(value, ordered.iter().filter(at).map(|e| e.3).sum::<f64>());
                total += value;
            }
        }
        prop_assert_eq!(total, ordered.iter().map(|e| e.3).sum::<f64>());
    }

    #[test]
    fn transposing_twice_changes_nothing(entries in triplets()) {
        let tensor = Tensor::from_triplets(SHAPE, &entries).unwrap();
        let mut matrix = Sparse::new(FEATURES);
        for f in 0..tensor.fibers() {
            let column: Vec<(u32, f64)> = (0..).zip(tensor.fiber(f)).filter(|(_, v)| **v != 0.0).map(|(i, v)| (i, *v)).collect();
            matrix.push(&column);
        }
        let transposed = matrix.transpose();
        prop_assert_eq!((transposed.rows(), transposed.cols(), transposed.nnz()), (matrix.cols(), matrix.rows(), matrix.nnz()));
        prop_assert_eq!(transposed.transpose(), matrix);
    }

    /// The codes are often near the thresholds. If every iteration converges, both solvers must agree.
    #[test]
    fn both_solvers_give_the_same_codes(dictionary in dictionaries(8), code in mixtures(8)) {
        let tensor = tensor_of(&dictionary, &code);
        let params = Params { iht_steps: 20_000, ..Params::default() };
        let direct = Learner::new(dictionary.clone(), params.clone()).unwrap();
        let iht = Learner::new(dictionary, Params { solver: Solver::Iht, ..params }).unwrap();
        let counts = iht.clone().learn(&tensor).unwrap().solver_counts;
        prop_assume!(counts.unconverged == 0);
        let (direct, iht) = (direct.encode(&tensor).unwrap(), iht.encode(&tensor).unwrap());
        for (a, b) in direct.matrix().columns().zip(iht.matrix().columns()) {
            let support = |code: &[(u32, f64)]| code.iter().map(|e| e.0).collect::<Vec<_>>();
            prop_assert_eq!(support(a), support(b));
            prop_assert!(a.iter().zip(b).all(|(a, b)| (a.1 - b.1).abs() < 1e-9));
        }
    }

    #[test]
    fn direct_codes_are_fixed_points_of_iht(dictionary in dictionaries(8), code in mixtures(8)) {
        let tensor = tensor_of(&dictionary, &code);
        let params = Params { iht_steps: 20_000, ..Params::default() };
        let mut learner = Learner::new(dictionary.clone(), params.clone()).unwrap();
        let codes = learner.encode(&tensor).unwrap();
        prop_assume!(learner.learn(&tensor).unwrap().solver_counts.unconverged == 0);
        for (f, code) in codes.matrix().columns().enumerate() {
            let mut residual = tensor.fiber(f).to_vec();
            for &(i, x) in code {
                residual.iter_mut().zip(dictionary.pattern(i as usize)).for_each(|(r, a)| *r -= x * a);
            }
            for i in 0..8 {
                let gradient: f64 = dictionary.pattern(i).iter().zip(&residual).map(|(a, r)| a * r).sum();
                match code.iter().find(|entry| entry.0 as usize == i) {
                    Some(entry) => prop_assert!(gradient.abs() < 1e-9 && entry.1.abs() >= params.tau - 1e-9),
                    None => prop_assert!(params.eta_x * gradient.abs() < params.tau + 1e-9),
                }
            }
        }
    }

    /// A fiber is coded independently of its place and of the other fibers, and the update is a sum over fibers.
    #[test]
    fn the_order_of_fibers_does_not_matter(dictionary in dictionaries(6), code in mixtures(6), by in 1..20_usize) {
        let mut rotated = code.clone();
        rotated.rotate_left(by);
        let (tensor, rotated) = (tensor_of(&dictionary, &code), tensor_of(&dictionary, &rotated));
        for rule in [Rule::Adaptive, Rule::Paper { eta_a: 0.5 }] {
            let learner = Learner::new(dictionary.clone(), Params { rule, ..Params::default() }).unwrap();
            let (mut a, mut b) = (learner.clone(), learner);
            let (step, other) = (a.learn(&tensor).unwrap(), b.learn(&rotated).unwrap());
            for f in 0..fibers() {
                let (x, y) = (step.codes.matrix().column(f), other.codes.matrix().column((f + fibers() - by) % fibers()));
                prop_assert!(x.len() == y.len() && x.iter().zip(y).all(|(x, y)| x.0 == y.0 && (x.1 - y.1).abs() < 1e-12));
            }
            prop_assert!(largest_difference(a.dictionary().values(), b.dictionary().values()) < 1e-9);
        }
    }

    /// The dictionary is far from the truth, so that codes change between passes.
    #[test]
    fn learning_from_arbitrary_tensors_does_not_fail(dictionary in dictionaries(14), code in mixtures(14), auto in any::<bool>()) {
        let tensor = tensor_of(&dictionary, &code);
        let other = Dictionary::from_columns(FEATURES, dictionary.values().iter().enumerate().map(|(at, a)| a + 0.4 * (at as f64).sin()).collect()).unwrap();
        let passes = if auto { Passes::Auto } else { Passes::Fixed(4) };
        let mut learner = Learner::new(other, Params { passes, ..Params::default() }).unwrap();
        for _ in 0..3 {
            let step = learner.learn(&tensor);
            prop_assert!(step.as_ref().is_ok_and(|step| step.change.is_finite()), "{:?}", step.err());
        }
    }

    /// The product B_i C_i' of the untangled factors is the matrix of codes.
    #[test]
    fn untangling_undoes_the_khatri_rao_product(
        b in proptest::collection::vec(prop_oneof![Just(0.0), Just(1.0), Just(-1.0), 0.5..2.0, -2.0..-0.5], ROWS),
        c in proptest::collection::vec(prop_oneof![Just(0.0), Just(1.0), Just(-1.0), 0.5..2.0, -2.0..-0.5], COLS),
    ) {
        let values: Vec<f64> = places().iter().map(|p| b[p.row as usize] * c[p.col as usize]).collect();
        let tensor = Tensor::from_fibers(Shape { features: 1, ..SHAPE }, values.clone(), places()).unwrap();
        let mut codes = Sparse::new(1);
        values.iter().for_each(|&x| codes.push(&[(0, x)][..usize::from(x != 0.0)]));
        let factors = Codes::new(codes, &tensor).untangle();
        let dense = |entries: &[(u32, f64)], length| {
            let mut column = vec![0.0; length];
            entries.iter().for_each(|&(at, x)| column[at as usize] = x);
            column
        };
        let (row, col) = (dense(factors.rows.column(0), ROWS), dense(factors.cols.column(0), COLS));
        for (place, x) in places().iter().zip(values.iter()) {
            prop_assert!((row[place.row as usize] * col[place.col as usize] - x).abs() < 1e-12);
        }
        // Both columns have the length sqrt(sigma).
        let length = |v: &[f64]| v.iter().map(|x| x * x).sum::<f64>().sqrt();
        prop_assert!((length(&row) - length(&col)).abs() < 1e-12);
        let expected = f64::from(values.iter().any(|x| *x != 0.0));
        prop_assert!((factors.rank_one[0] - expected).abs() < 1e-12);
    }

    #[test]
    fn errors_do_not_depend_on_order_and_sign(dictionary in dictionaries(9), order in Just((0..9).collect::<Vec<usize>>()).prop_shuffle(), signs in proptest::collection::vec(any::<bool>(), 9)) {
        let columns = order.iter().zip(&signs).flat_map(|(&i, &flip)| {
            dictionary.pattern(i).iter().map(move |a| if flip { -a } else { *a })
        });
        let permuted = Dictionary::from_columns(FEATURES, columns.collect()).unwrap();
        let matching = Matching::new(&permuted, &dictionary).unwrap();
        prop_assert!(matching.error_a(&permuted, &dictionary) < 1e-15);
        prop_assert!(matching.closeness(&permuted, &dictionary).0 < 1e-15);
        for (found, &i) in order.iter().enumerate() {
            prop_assert_eq!(matching.found[i], Some(found));
        }
    }
}
