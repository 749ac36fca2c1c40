//! Each method against an obvious twin, and on a stream it should learn.

#![allow(clippy::unwrap_used)]

use tensornoodl::metrics::Matching;
use tensornoodl::synthetic::{Plan, Planted, Values};
use tensornoodl::{Dictionary, Params, Rule, Tensor};
use tensornoodl_lab::methods::lasso::{Lasso, Solver};
use tensornoodl_lab::methods::{Als, Arora, Cp, Mairal, Matrix, Method, Noodl, Power, als, power};
use tensornoodl_lab::paper::{BatchMethod, Cell, MethodName, run, run_batch};

fn planted() -> Planted {
    let values = Values::SubGaussian { floor: 0.6 };
    let plan =
        Plan { features: 40, patterns: 30, rows: 30, cols: 20, alpha: 0.2, beta: 0.2, ..Plan::default() };
    Planted::new(Plan { row_values: values, col_values: values, ..plan }).unwrap()
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

/// Arora's step as the formulas have it, with B(i) formed for every pattern.
fn arora_twin(a: &Dictionary, tensor: &Tensor<'_>, eta_a: f64, floor: f64, unbiased: bool) -> Dictionary {
    let (n, m, p) = (a.features(), a.patterns(), tensor.fibers());
    let mut columns = a.values().to_vec();
    for i in 0..m {
        let b: Vec<Vec<f64>> = (0..m)
            .map(|l| {
                let along = if unbiased && l != i { dot(a.pattern(l), a.pattern(i)) } else { 0.0 };
                a.pattern(l).iter().zip(a.pattern(i)).map(|(l, i)| l - along * i).collect()
            })
            .collect();
        for fiber in 0..p {
            let y = tensor.fiber(fiber);
            let x: Vec<f64> =
                b.iter().map(|b| dot(b, y)).map(|x| if x.abs() >= floor / 2.0 { x } else { 0.0 }).collect();
            if x[i] != 0.0 {
                for feature in 0..n {
                    let fit: f64 = (0..m).map(|l| b[l][feature] * x[l]).sum();
                    columns[i * n + feature] += eta_a / p as f64 * (y[feature] - fit) * x[i].signum();
                }
            }
        }
    }
    Dictionary::from_columns(n, columns).unwrap()
}

#[test]
fn arora_is_what_the_formulas_say() {
    let planted = planted();
    let (start, tensor) = (planted.start(0.3).unwrap(), planted.tensor(1).tensor);
    for unbiased in [false, true] {
        let mut arora = Arora::new(start.clone(), 7.0, 0.36, unbiased);
        arora.learn(&tensor).unwrap();
        let twin = arora_twin(&start, &tensor, 7.0, 0.36, unbiased);
        let found = arora.dictionary();
        let apart = found.values().iter().zip(twin.values()).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        let moved = Matching::new(found, &start).unwrap().error_a(found, &start);
        assert!(apart < 1e-12 && moved > 1e-3, "{unbiased}: {apart:e} {moved:e}");
    }
}

#[test]
fn lasso_solvers_agree_and_satisfy_the_conditions() {
    let planted = planted();
    let (dictionary, tensor) = (planted.start(0.3).unwrap(), planted.tensor(1).tensor);
    let lasso = Lasso::new(&dictionary);
    let lambdas = [0.5, 0.1, 0.02];
    let paths =
        [Solver::Ista, Solver::Fista, Solver::Descent].map(|solver| lasso.path(&tensor, &lambdas, solver));
    for (at, lambda) in lambdas.into_iter().enumerate() {
        for fiber in (0..tensor.fibers()).step_by(17) {
            let codes = paths.each_ref().map(|path| path[at].matrix().column(fiber).to_vec());
            let dense = |code: &[(u32, f64)]| {
                let mut x = vec![0.0; 30];
                code.iter().for_each(|&(i, value)| x[i as usize] = value);
                x
            };
            let all = codes.each_ref().map(|code| dense(code));
            for other in &all[1..] {
                let apart = other.iter().zip(&all[0]).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(apart < 1e-3 * lambda, "lambda {lambda} fiber {fiber}: {apart:e}");
            }
            // |a_i'(y - A x)| <= lambda, and equal to it with the sign of x_i where x_i is not zero.
            let mut r = tensor.fiber(fiber).to_vec();
            for (i, x) in all[2].iter().enumerate() {
                r.iter_mut().zip(dictionary.pattern(i)).for_each(|(r, a)| *r -= x * a);
            }
            for (i, x) in all[2].iter().enumerate() {
                let along = dot(dictionary.pattern(i), &r);
                assert!(along.abs() <= lambda * (1.0 + 1e-5));
                assert!(*x == 0.0 || (along - lambda * x.signum()).abs() < 1e-5 * lambda);
            }
        }
    }
}

/// As in the tables: twice as many patterns as features, a dictionary that is a little off, lambdas down to 1.6e-5.
#[test]
fn a_path_ends_where_codes_do_not_settle() {
    let plan =
        Plan { features: 30, patterns: 60, rows: 12, cols: 12, alpha: 0.1, beta: 0.1, ..Plan::default() };
    let planted = Planted::new(plan).unwrap();
    let (dictionary, tensor) = (planted.start(0.01).unwrap(), planted.tensor(1).tensor);
    let lambdas: Vec<f64> = (0..10).map(|at| 0.5 * 0.1_f64.powf(f64::from(at) / 2.0)).collect();
    let path = Lasso::new(&dictionary).path(&tensor, &lambdas, Solver::Descent);
    assert!(path.len() >= 5, "{}", path.len());
    for (codes, lambda) in path.iter().zip(&lambdas) {
        for (fiber, code) in codes.matrix().columns().enumerate() {
            let mut r = tensor.fiber(fiber).to_vec();
            for &(i, x) in code {
                r.iter_mut().zip(dictionary.pattern(i as usize)).for_each(|(r, a)| *r -= x * a);
            }
            for i in 0..60 {
                assert!(dot(dictionary.pattern(i), &r).abs() <= lambda * (1.0 + 1e-5), "{lambda} {fiber}");
            }
        }
    }
}

#[test]
fn mairal_solves_for_the_dictionary_that_its_moments_ask_for() {
    let plan = Plan { features: 100, patterns: 20, ..Plan::default() };
    let planted = Planted::new(plan).unwrap();
    let truth = planted.true_dictionary();
    let mut mairal = Mairal::new(planted.start(0.3).unwrap(), 0.1);
    let error = |found: &Dictionary| Matching::new(found, truth).unwrap().error_a(found, truth);
    let before = error(mairal.dictionary());
    for t in 1..=10 {
        mairal.learn(&planted.tensor(t).tensor).unwrap();
    }
    let after = error(mairal.dictionary());
    assert!(after < 0.1 * before, "{before} {after}");
}

/// Two steps of Mairal's method as the formulas have them, on tensors of different size.
#[test]
fn mairal_is_what_the_formulas_say() {
    let planted = planted();
    let (n, m, lambda) = (40, 30, 0.2);
    let start = planted.start(0.3).unwrap();
    let mut mairal = Mairal::new(start.clone(), lambda);
    let mut a = start;
    // E = sum x x', F = sum y x', from 0.1 I and 0.1 A(0).
    let mut e: Vec<f64> = (0..m * m).map(|at| if at / m == at % m { 0.1 } else { 0.0 }).collect();
    let mut f: Vec<f64> = a.values().iter().map(|a| 0.1 * a).collect();
    let whole = planted.tensor(2).tensor;
    let half = whole.fibers() / 2;
    let part = Tensor::from_fibers(
        whole.shape(),
        whole.values()[..half * n].to_vec(),
        whole.places()[..half].to_vec(),
    )
    .unwrap();
    for (t, tensor) in [(1.0, planted.tensor(1).tensor), (2.0, part)] {
        mairal.learn(&tensor).unwrap();
        let p = tensor.fibers() as f64;
        let theta = t * p;
        let keep = if t == 1.0 { 1.0 } else { (theta + 1.0 - p) / (theta + 1.0) };
        e.iter_mut().chain(&mut f).for_each(|moment| *moment *= keep);
        let codes = Lasso::new(&a).path(&tensor, &[lambda], Solver::Descent).remove(0);
        for (fiber, code) in codes.matrix().columns().enumerate() {
            for &(i, x) in code {
                for feature in 0..n {
                    f[i as usize * n + feature] += x * tensor.fiber(fiber)[feature];
                }
                code.iter().for_each(|&(l, z)| e[i as usize * m + l as usize] += x * z);
            }
        }
        let mut columns = a.values().to_vec();
        for i in 0..m {
            let next: Vec<f64> = (0..n)
                .map(|feature| {
                    let sum: f64 = (0..m).map(|l| columns[l * n + feature] * e[l * m + i]).sum();
                    (f[i * n + feature] - sum) / e[i * m + i] + columns[i * n + feature]
                })
                .collect();
            let length = dot(&next, &next).sqrt();
            (0..n).for_each(|feature| columns[i * n + feature] = next[feature] / length);
        }
        a = Dictionary::from_columns(n, columns).unwrap();
    }
    let found = mairal.dictionary();
    let apart = found.values().iter().zip(a.values()).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(apart < 1e-12, "{apart:e}");
}

#[test]
fn a_cell_is_of_the_papers_order() {
    let cell = Cell { alpha: 0.05, size: 100, patterns: 50, seed: 42 };
    let noodl = run(cell, MethodName::Noodl, None, |_, _| ()).unwrap();
    assert!(
        noodl.error_a <= 1e-10 && noodl.own.support && (41..=51).contains(&noodl.steps),
        "{}",
        noodl.steps
    );
    let adaptive = run(cell, MethodName::Adaptive, None, |_, _| ()).unwrap();
    assert!(adaptive.error_a <= 1e-10 && adaptive.own.support && adaptive.steps < 12);
    for method in [MethodName::AroraU, MethodName::AroraB, MethodName::Mairal] {
        let outcome = run(cell, method, Some(noodl.steps), |_, _| ()).unwrap();
        let paper = tensornoodl_lab::paper::paper();
        let row = paper
            .iter()
            .find(|row| {
                (row.alpha, row.size, row.patterns) == (0.05, 100, 50)
                    && Some(row.method) == method.in_paper()
            })
            .unwrap();
        let ratio = outcome.error_a / row.error_a;
        // Theirs seems to lose a pattern or two (docs/paper.md); one that does not comes much nearer.
        let orders = if method == MethodName::Mairal { 0.001..0.02 } else { 0.1..10.0 };
        assert!(orders.contains(&ratio), "{method:?}: {:e}, the paper {:e}", outcome.error_a, row.error_a);
        assert_eq!(outcome.steps, noodl.steps);
        let (oracle, honest) = (outcome.lasso_oracle.unwrap(), outcome.lasso_honest.unwrap());
        assert!(honest.error_x < 10.0 * oracle.error_x, "{} {}", oracle.error_x, honest.error_x);
    }
}

#[test]
fn least_squares_fit_one_tensor() {
    let plan =
        Plan { features: 60, patterns: 12, rows: 40, cols: 30, alpha: 0.2, beta: 0.2, ..Plan::default() };
    let planted = Planted::new(plan).unwrap();
    let truth = planted.true_dictionary();
    let tensor = planted.tensor(1).tensor;
    let start = planted.start(0.3).unwrap();
    let factors = Arora::new(start.clone(), 1.0, 1.0, false).encode(&tensor).unwrap().untangle();
    let error = |found: &Dictionary| Matching::new(found, truth).unwrap().error_a(found, truth);
    let mut plain = Cp::new(tensor.shape(), &start, &factors);
    als(&tensor, &mut plain, Als::default());
    let found = plain.dictionary().unwrap();
    assert!(plain.fit(&tensor) < 1e-6 && error(&found) < 1e-5, "{} {:e}", plain.fit(&tensor), error(&found));
    // The fit is what it says, also where it is not small, and counts what the model has at empty places.
    let coarse = Cp::new(tensor.shape(), &start, &factors);
    let mut dense = vec![0.0; 60 * 40 * 30];
    let mut energy = 0.0;
    for (fiber, place) in tensor.places().iter().enumerate() {
        for (feature, y) in tensor.fiber(fiber).iter().enumerate() {
            dense[(place.row as usize * 30 + place.col as usize) * 60 + feature] = *y;
            energy += y * y;
        }
    }
    for (at, value) in dense.iter_mut().enumerate() {
        let (place, feature) = (at / 60, at % 60);
        let model = |i: usize| {
            coarse.features[i * 60 + feature]
                * coarse.rows[i * 40 + place / 30]
                * coarse.cols[i * 30 + place % 30]
        };
        *value -= (0..12).map(model).sum::<f64>();
    }
    let fit = (dot(&dense, &dense) / energy).sqrt();
    assert!(fit > 0.1 && (coarse.fit(&tensor) - fit).abs() < 1e-12, "{fit} {}", coarse.fit(&tensor));
    let mut orthogonal = Cp::new(tensor.shape(), &start, &factors);
    let sweeps = als(&tensor, &mut orthogonal, Als { orthogonal_sweeps: 5, ..Als::default() });
    assert!(orthogonal.fit(&tensor) < 1e-6 && sweeps > 5, "{}", orthogonal.fit(&tensor));
    // Before its last solve, a sweep that makes factors orthogonal has left none of the other patterns in them.
    let mut once = Cp::new(tensor.shape(), &start, &factors);
    let mut plain_once = once.clone();
    als(&tensor, &mut once, Als { most_sweeps: 1, orthogonal_sweeps: 1, ..Als::default() });
    als(&tensor, &mut plain_once, Als { most_sweeps: 1, ..Als::default() });
    let apart =
        once.features.iter().zip(&plain_once.features).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(apart > 1e-3, "{apart:e}");
}

#[test]
fn power_iterations_find_terms() {
    // Dense factors: the terms are about equally strong, which the method needs.
    let plan =
        Plan { features: 60, patterns: 8, rows: 50, cols: 40, alpha: 0.8, beta: 0.8, ..Plan::default() };
    let planted = Planted::new(plan).unwrap();
    let truth = planted.true_dictionary();
    let tensor = planted.tensor(1).tensor;
    let options = Power { starts: 200, sweeps: 20, kept: None, residual_sweeps: 200, seed: 1 };
    let full = power(&tensor, 8, options);
    let distances = |cp: &Cp| {
        let found = cp.dictionary().unwrap();
        Matching::new(&found, truth).unwrap().distances(&found, truth)
    };
    let far = distances(&full).into_iter().fold(0.0, f64::max);
    assert!(full.fit(&tensor) < 1e-6 && far < 1e-5, "{} {far:e}", full.fit(&tensor));
    // Without removal of the residual there is a bias.
    let biased = power(&tensor, 8, Power { residual_sweeps: 0, ..options });
    let far = distances(&biased).into_iter().fold(0.0, f64::max);
    assert!(far > 1e-3 && far < 0.5, "{far:e}");
    let truncated = power(&tensor, 8, Power { residual_sweeps: 0, kept: Some((40, 32)), ..options });
    for (factor, length, kept) in [(&truncated.rows, 50, 40), (&truncated.cols, 40, 32)] {
        for column in factor.chunks_exact(length) {
            assert!((1..=kept).contains(&column.iter().filter(|v| **v != 0.0).count()));
        }
    }
    assert!(distances(&truncated).into_iter().filter(|d| *d < 0.3).count() >= 6);
}

#[test]
fn without_places_the_dictionary_is_the_same() {
    let planted = planted();
    let start = planted.start(0.3).unwrap();
    let params = Params { rule: Rule::Paper { eta_a: 5.0 }, code_floor: 0.36, ..Params::default() };
    let mut tensor_wise = Noodl::new(start.clone(), params.clone()).unwrap();
    let mut matrix_wise = Matrix::new(start.clone(), params).unwrap();
    for t in 1..=3 {
        let tensor = planted.tensor(t).tensor;
        tensor_wise.learn(&tensor).unwrap();
        matrix_wise.learn(&tensor).unwrap();
    }
    assert_eq!(tensor_wise.dictionary(), matrix_wise.dictionary());
    assert_ne!(tensor_wise.dictionary(), &start);
    let tensor = planted.tensor(4).tensor;
    assert_eq!(tensor_wise.encode(&tensor).unwrap(), matrix_wise.encode(&tensor).unwrap());
}

#[test]
fn one_tensor_by_methods_that_know_no_stream() {
    let cell = Cell { alpha: 0.05, size: 100, patterns: 30, seed: 42 };
    let of = |method| run_batch(cell, method).unwrap().unwrap();
    for method in [BatchMethod::NoodlNear, BatchMethod::AlsNear, BatchMethod::Noodl] {
        let outcome = of(method);
        assert!(outcome.found >= outcome.seen && outcome.spurious == 0, "{outcome:?}");
        assert!(outcome.error_a < 1e-6, "{outcome:?}");
        // What one fiber shows alone is no pattern to whoever is told nothing.
        assert!(outcome.support || method == BatchMethod::Noodl, "{outcome:?}");
    }
    let truncated = of(BatchMethod::TruncatedPower);
    assert!(truncated.found > 15 && truncated.error_a > 1e-3, "{truncated:?}");
    let too_many = Cell { patterns: 101, ..cell };
    assert_eq!(run_batch(too_many, BatchMethod::OrthAls).unwrap(), None);
}
