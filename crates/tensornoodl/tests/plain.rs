//! Alg. 1 and 2 of the paper in dense, obvious code, and the crate beside it: they must agree to 1e-12.

#![allow(clippy::unwrap_used)]

use tensornoodl::synthetic::{Plan, Planted, Values};
use tensornoodl::{Dictionary, Learner, Params, Rule, Solver, Sparse, Tensor};

/// Rows of a dense matrix.
type Matrix = Vec<Vec<f64>>;

fn zeros(rows: usize, cols: usize) -> Matrix {
    vec![vec![0.0; cols]; rows]
}

fn product(a: &Matrix, b: &Matrix) -> Matrix {
    let mut c = zeros(a.len(), b[0].len());
    for i in 0..a.len() {
        for j in 0..b[0].len() {
            for l in 0..b.len() {
                c[i][j] += a[i][l] * b[l][j];
            }
        }
    }
    c
}

fn transpose(a: &Matrix) -> Matrix {
    (0..a[0].len()).map(|j| a.iter().map(|row| row[j]).collect()).collect()
}

fn combine(a: &Matrix, s: f64, b: &Matrix) -> Matrix {
    a.iter().zip(b).map(|(a, b)| a.iter().zip(b).map(|(a, b)| a + s * b).collect()).collect()
}

fn map(a: &Matrix, f: impl Fn(f64) -> f64) -> Matrix {
    a.iter().map(|row| row.iter().map(|&x| f(x)).collect()).collect()
}

fn hard_threshold(z: &Matrix, t: f64) -> Matrix {
    map(z, |z| if z.abs() >= t { z } else { 0.0 })
}

/// Stage I [alg:coeff_init, alg:coeff_iht].
fn codes(a: &Matrix, y: &Matrix, eta_x: f64, tau: f64, c: f64, steps: usize) -> Matrix {
    let at = transpose(a);
    let mut x = hard_threshold(&product(&at, y), c / 2.0);
    for _ in 0..steps {
        let gradient = product(&at, &combine(&product(a, &x), -1.0, y));
        x = hard_threshold(&combine(&x, -eta_x, &gradient), tau);
    }
    x
}

/// Stage III [eq:emp_grad_est, eq:apx_grad].
fn update(a: &Matrix, x: &Matrix, y: &Matrix, eta_a: f64) -> Matrix {
    let sign = map(x, |x| if x == 0.0 { 0.0 } else { x.signum() });
    let p = y[0].len() as f64;
    let g = map(&product(&combine(&product(a, x), -1.0, y), &transpose(&sign)), |g| g / p);
    let mut next = transpose(&combine(a, -eta_a, &g));
    for column in &mut next {
        let norm = column.iter().map(|x| x * x).sum::<f64>().sqrt();
        column.iter_mut().for_each(|x| *x /= norm);
    }
    transpose(&next)
}

/// Stage II [algo:KRP_algo]: sigma_1 u_1 v_1' of M.
fn rank_one(m: &Matrix) -> Matrix {
    let mut v: Matrix = (0..m[0].len()).map(|k| vec![1.0 + k as f64 / 7.0]).collect();
    for _ in 0..500 {
        v = product(&transpose(m), &product(m, &v));
        let norm = v.iter().map(|x| x[0] * x[0]).sum::<f64>().sqrt();
        v = map(&v, |x| if norm > 0.0 { x / norm } else { 0.0 });
    }
    product(&product(m, &v), &transpose(&v))
}

fn dense(matrix: &Sparse) -> Matrix {
    let mut all = zeros(matrix.rows(), matrix.cols());
    for (column, entries) in matrix.columns().enumerate() {
        entries.iter().for_each(|&(row, x)| all[row as usize][column] = x);
    }
    all
}

fn of_dictionary(dictionary: &Dictionary) -> Matrix {
    transpose(&(0..dictionary.patterns()).map(|i| dictionary.pattern(i).to_vec()).collect())
}

fn of_fibers(tensor: &Tensor<'_>) -> Matrix {
    transpose(&(0..tensor.fibers()).map(|f| tensor.fiber(f).to_vec()).collect())
}

#[track_caller]
fn assert_near(a: &Matrix, b: &Matrix, tolerance: f64, what: &str) {
    assert_eq!((a.len(), a[0].len()), (b.len(), b[0].len()), "{what}");
    let largest = combine(a, -1.0, b).concat().into_iter().fold(0.0, |m: f64, x| m.max(x.abs()));
    assert!(largest <= tolerance, "{what} differs by {largest:e}");
}

/// A stream with codes that are not +-1, noise, m > n, and a start that needs many steps.
fn stream() -> Planted {
    Planted::new(Plan {
        features: 40,
        patterns: 50,
        rows: 12,
        cols: 10,
        alpha: 0.12,
        beta: 0.2,
        row_values: Values::SubGaussian { floor: 0.6 },
        noise: 0.05,
        ..Plan::default()
    })
    .unwrap()
}

#[test]
fn learner_is_alg_1() {
    let planted = stream();
    let (eta_x, tau, c, steps, eta_a) = (0.2, 0.1, 0.6, 40, 8.0);
    let start = planted.start(0.3).unwrap();
    let mut plain = of_dictionary(&start);
    let params = Params {
        solver: Solver::Iht,
        eta_x,
        tau,
        code_floor: c,
        iht_steps: steps,
        code_tolerance: 0.0,
        rule: Rule::Paper { eta_a },
        ..Params::default()
    };
    let mut learner = Learner::new(start, params).unwrap();
    for t in 1..=6 {
        let tensor = planted.tensor(t).tensor;
        let y = of_fibers(&tensor);
        let x = codes(&plain, &y, eta_x, tau, c, steps);
        let step = learner.learn(&tensor).unwrap();
        assert_near(&dense(step.codes.matrix()), &x, 1e-12, "codes");

        let factors = step.codes.untangle();
        let (b, c_factor) = (dense(&factors.rows), dense(&factors.cols));
        let mut compared = 0;
        for i in 0..x.len() {
            let mut m = zeros(tensor.shape().rows, tensor.shape().cols);
            for (f, place) in tensor.places().iter().enumerate() {
                m[place.row as usize][place.col as usize] = x[i][f];
            }
            let column = |matrix: &Matrix| -> Matrix { matrix.iter().map(|row| vec![row[i]]).collect() };
            let found = product(&column(&b), &transpose(&column(&c_factor)));
            // Where two singular values are almost equal, either pair is as good.
            if factors.rank_one[i] > 0.6 {
                assert_near(&found, &rank_one(&m), 1e-12, "B C'");
                compared += 1;
            }
        }

        assert!(compared > x.len() / 2);

        let rest = combine(&y, -1.0, &product(&plain, &x)).concat();
        let norm = |values: &[f64]| values.iter().map(|x| x * x).sum::<f64>().sqrt();
        assert!((step.fit - norm(&rest) / norm(&y.concat())).abs() < 1e-12);

        plain = update(&plain, &x, &y, eta_a);
        assert_near(&of_dictionary(learner.dictionary()), &plain, 1e-12, "dictionary");
    }
}

#[test]
fn direct_solver_is_the_limit_of_iht() {
    let planted = stream();
    for (t, distance) in [(1, 0.0), (2, 0.15), (3, 0.4)] {
        let start = planted.start(distance).unwrap();
        let params = Params { code_floor: 0.6, iht_steps: 1500, ..Params::default() };
        let tensor = planted.tensor(t).tensor;
        let limit = codes(&of_dictionary(&start), &of_fibers(&tensor), params.eta_x, params.tau, 0.6, 1500);
        let mut learner = Learner::new(start, params).unwrap();
        let found = learner.encode(&tensor).unwrap();
        assert_near(&dense(found.matrix()), &limit, 1e-12, "codes");
        let roads = learner.learn(&tensor).unwrap().solver_counts;
        assert!(roads.direct > 0 && roads.unconverged == 0, "{roads:?}");
    }
}
