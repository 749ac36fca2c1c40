//! Errors of small cases that were computed by hand.

#![allow(clippy::unwrap_used)]

use tensornoodl::metrics::{Matching, Oracle, agreement};
use tensornoodl::{Codes, Dictionary, Factors, Place, Shape, Sparse, Tensor};

fn tensor(features: usize, fibers: usize) -> Tensor<'static> {
    let shape = Shape { features, rows: fibers, cols: 1 };
    let places: Vec<Place> = (0..fibers).map(|row| Place { row: row as u32, col: 0 }).collect();
    Tensor::from_fibers(shape, vec![1.0; features * fibers], places).unwrap()
}

fn sparse(rows: usize, columns: &[&[(u32, f64)]]) -> Sparse {
    let mut matrix = Sparse::new(rows);
    columns.iter().for_each(|column| matrix.push(column));
    matrix
}

#[test]
fn the_assignment_maximizes_the_sum_of_cosines() {
    // Both true patterns are nearest to found pattern 0, so that a greedy assignment would be wrong.
    let (cos, sin) = (0.8_f64, 0.6_f64);
    let found = Dictionary::from_columns(3, vec![1.0, 0.0, 0.0, 0.0, 0.0, 1.0]).unwrap();
    let truth = Dictionary::from_columns(3, vec![cos, sin, 0.0, -0.8, 0.0, 0.6]).unwrap();
    let matching = Matching::new(&found, &truth).unwrap();
    assert_eq!(
        (matching.found.as_slice(), matching.sign.as_slice()),
        ([Some(0), Some(1)].as_slice(), [1.0, 1.0].as_slice())
    );
    // |(0.2, -0.6, 0)|^2 + |(0.8, 0, 0.4)|^2 = 0.4 + 0.8, over two unit columns.
    assert!((matching.error_a(&found, &truth) - 0.6_f64.sqrt()).abs() < 1e-15);
    assert_eq!(matching.distances(&found, &truth).len(), 2);
    let (epsilon, kappa) = matching.closeness(&found, &truth);
    assert!((epsilon - 0.8_f64.sqrt()).abs() < 1e-15);
    // A - A* has columns (0.2, -0.6, 0), (0.8, 0, 0.4): Gram 0.4, 0.16, 0.8; A* has Gram 1, -0.64.
    let largest = |a: f64, b: f64, c: f64| (a + c) / 2.0 + (((a - c) / 2.0).powi(2) + b * b).sqrt();
    let expected = (largest(0.4, 0.16, 0.8) / largest(1.0, -0.64, 1.0)).sqrt();
    assert!((kappa - expected).abs() < 1e-14, "{kappa} {expected}");
}

#[test]
fn codes_are_compared_after_matching() {
    // Found pattern 1 is true pattern 0 with the opposite sign, found pattern 0 is true pattern 1.
    let matching = Matching { found: vec![Some(1), Some(0)], sign: vec![-1.0, 1.0] };
    let tensor = tensor(2, 3);
    let codes = |columns: &[&[(u32, f64)]]| Codes::new(sparse(2, columns), &tensor);
    let truth = codes(&[&[(0, 2.0)], &[(0, 1.0), (1, -1.0)], &[]]);
    let same = codes(&[&[(1, -2.0)], &[(0, -1.0), (1, -1.0)], &[]]);
    assert_eq!(matching.error_x(&same, &truth), 0.0);
    assert!(matching.same_support(&same, &truth));
    let near = codes(&[&[(1, -2.5)], &[(0, -1.0), (1, -1.0)], &[]]);
    assert!((matching.error_x(&near, &truth) - 0.5 / 6.0_f64.sqrt()).abs() < 1e-15);
    assert!(matching.same_support(&near, &truth));
    for wrong in [
        codes(&[&[(1, 2.0)], &[(0, -1.0), (1, -1.0)], &[]]), // a sign
        codes(&[&[(1, -2.0)], &[(1, -1.0)], &[]]),           // one missing
        codes(&[&[(1, -2.0)], &[(0, -1.0), (1, -1.0)], &[(0, 1e-9)]]), // one too many
    ] {
        assert!(!matching.same_support(&wrong, &truth));
        assert!(matching.error_x(&wrong, &truth) > 0.0);
    }
}

#[test]
fn factors_are_compared_up_to_scale() {
    let matching = Matching { found: vec![Some(1), Some(0), Some(2)], sign: vec![1.0; 3] };
    // True pattern 2 has no col. It is in no fiber, and its rows do not count as an error.
    let true_rows = sparse(3, &[&[(0, 1.0), (2, -1.0)], &[(1, 2.0)], &[(0, 5.0)]]);
    let true_cols = sparse(2, &[&[(0, 1.0)], &[(0, 1.0), (1, 1.0)], &[]]);
    let found = |rows: Sparse| Factors {
        rows,
        cols: sparse(2, &[&[(0, -2.0), (1, -2.0)], &[(0, 0.1)], &[]]),
        rank_one: vec![1.0; 3],
    };
    let exact = found(sparse(3, &[&[(1, -1.0)], &[(0, 10.0), (2, -10.0)], &[]]));
    let (b, c) = matching.error_b_c(&exact, &true_rows, &true_cols);
    assert!(b < 1e-15 && c < 1e-15);
    // One entry of (1, 0, -1) is missing: an error of 1 of an energy of 2 + 4.
    let half = found(sparse(3, &[&[(1, -1.0)], &[(0, 10.0)], &[]]));
    assert!((matching.error_b_c(&half, &true_rows, &true_cols).0 - (1.0_f64 / 6.0).sqrt()).abs() < 1e-15);
    let none = found(sparse(3, &[&[], &[], &[]]));
    assert_eq!(matching.error_b_c(&none, &true_rows, &true_cols).0, 1.0);
}

#[test]
fn incoherence_is_the_largest_cosine_times_root_n() {
    let dictionary =
        Dictionary::from_columns(4, vec![1.0, 0.0, 0.0, 0.0, 0.0, 3.0, 0.0, 0.0, 0.6, -0.8, 0.0, 0.0]);
    assert!((dictionary.unwrap().incoherence() - 1.6).abs() < 1e-15);
    assert_eq!(Dictionary::from_columns(4, vec![1.0; 4]).unwrap().incoherence(), 0.0);
}

#[test]
fn the_oracle_solves_least_squares_with_the_true_codes() {
    let mut oracle = Oracle::new(2, 2);
    let shape = Shape { features: 2, rows: 3, cols: 1 };
    let places: Vec<Place> = (0..3).map(|row| Place { row, col: 0 }).collect();
    // Fibers of patterns (1, 0) and (0, 1) with codes (2, 0), (1, 1), (0, 3).
    let tensor = Tensor::from_fibers(shape, vec![2.0, 0.0, 1.0, 1.0, 0.0, 3.0], places).unwrap();
    let codes = Codes::new(sparse(2, &[&[(0, 2.0)], &[(0, 1.0), (1, 1.0)], &[(1, 3.0)]]), &tensor);
    assert!(oracle.dictionary().is_none(), "no tensor was added yet");
    oracle.add(&tensor, &codes);
    let found = oracle.dictionary().unwrap();
    assert!(found.values().iter().zip([1.0, 0.0, 0.0, 1.0]).all(|(a, b)| (a - b).abs() < 1e-15));
}

#[test]
fn dictionaries_of_different_sizes_are_matched() {
    let truth = Dictionary::from_columns(2, vec![1.0, 0.0, 0.6, 0.8]).unwrap();
    let fewer = Dictionary::from_columns(2, vec![-0.6, -0.8]).unwrap();
    let matching = Matching::new(&fewer, &truth).unwrap();
    assert_eq!((matching.found.as_slice(), matching.sign[1]), ([None, Some(0)].as_slice(), -1.0));
    // One pattern is exact, the other one is missing.
    assert_eq!(matching.distances(&fewer, &truth), [1.0, 0.0]);
    assert!((matching.error_a(&fewer, &truth) - 0.5_f64.sqrt()).abs() < 1e-15);

    // One pattern too many: each of its codes is an error.
    let more = Dictionary::from_columns(2, vec![0.0, 1.0, 0.6, 0.8, 1.0, 0.0]).unwrap();
    let matching = Matching::new(&more, &truth).unwrap();
    assert_eq!(matching.found, [Some(2), Some(1)]);
    let tensor = tensor(2, 1);
    let codes = |column: &[(u32, f64)]| Codes::new(sparse(3, &[column]), &tensor);
    let true_codes = Codes::new(sparse(2, &[&[(0, 1.0), (1, 2.0)]]), &tensor);
    assert!(matching.same_support(&codes(&[(1, 2.0), (2, 1.0)]), &true_codes));
    let wrong = codes(&[(0, 1.0), (1, 2.0), (2, 1.0)]);
    assert!(!matching.same_support(&wrong, &true_codes));
    assert!((matching.error_x(&wrong, &true_codes) - 0.2_f64.sqrt()).abs() < 1e-15);

    let longer = Dictionary::from_columns(4, vec![1.0; 8]).unwrap();
    assert!(Matching::new(&longer, &truth).is_err());
}

#[test]
fn agreement_is_the_mean_of_the_largest_cosines() {
    let dictionary = |columns: &[f64]| Dictionary::from_columns(2, columns.to_vec()).unwrap();
    let (two, one) = (dictionary(&[1.0, 0.0, 0.0, 1.0]), dictionary(&[-3.0, 4.0]));
    // The cosines are 0.6 and 0.8: of the two patterns 0.6 and 0.8, of the one pattern 0.8. Signs do not count.
    assert!((agreement(&two, &one).unwrap() - 2.2 / 3.0).abs() < 1e-15);
    assert_eq!(agreement(&one, &two), agreement(&two, &one));
    assert_eq!(agreement(&one, &one), Ok(1.0));
    let three = Dictionary::from_columns(3, vec![1.0, 0.0, 0.0]).unwrap();
    assert!(agreement(&one, &three).is_err());
}

#[test]
fn halves_share_no_place_and_have_all() {
    let places: Vec<Place> = (0..40).flat_map(|row| (0..25).map(move |col| Place { row, col })).collect();
    let shape = Shape { features: 1, rows: 40, cols: 25 };
    let mut fibers = Sparse::new(1);
    places.iter().for_each(|place| fibers.push(&[(0, f64::from(1 + place.row))]));
    let dense =
        Tensor::from_fibers(shape, fibers.columns().map(|it| it[0].1).collect::<Vec<_>>(), places.clone());
    let sparse = Tensor::from_sparse(shape, fibers, places).unwrap();
    for tensor in [sparse, dense.unwrap()] {
        let half = |seed: u64, half: usize| tensor.filter(|place| place.half(seed) == half);
        let (first, second) = (half(7, 0), half(7, 1));
        assert_eq!(first.fibers() + second.fibers(), 1000);
        assert!((430..570).contains(&first.fibers()), "{}", first.fibers());
        assert!(first.places().iter().all(|place| !second.places().contains(place)));
        let values = first.places().iter().map(|place| f64::from(1 + place.row));
        assert!(first.values().iter().copied().eq(values));
        let again = half(8, 0);
        let both = again.places().iter().filter(|place| first.places().contains(place)).count();
        assert!((180..320).contains(&both), "{both}");
    }
}
