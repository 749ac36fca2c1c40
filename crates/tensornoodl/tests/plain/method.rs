// Alg. 1 (alg:main_alg_tens) and Alg. 2 (algo:KRP_algo) with dense matrices and nothing else.

/// A dense matrix, as a vector of rows.
type Matrix = Vec<Vec<f64>>;

/// The parameters of Alg. 1, in the paper's symbols. `r` is R, the number of IHT steps, and `c` is the constant C.
struct Parameters {
    eta_a: f64,
    eta_x: f64,
    tau: f64,
    c: f64,
    r: usize,
}

/// One step of Alg. 1 (alg:main_alg_tens): from the dictionary A(t) (n x m) and the tensor Z(t) (n matrices J x K)
/// to the codes X(t) (m x p), the factors B(t) (J x m) and C(t) (K x m), and the next dictionary A(t + 1).
fn step(a: &Matrix, z: &[Matrix], parameters: &Parameters) -> (Matrix, Matrix, Matrix, Matrix) {
    let (y, places) = nonzero_fibers(z);
    let x = estimate_codes(a, &y, parameters); // I
    let (b, c) = untangle(&x, &places, z[0].len(), z[0][0].len()); // II
    let next_a = update_dictionary(a, &x, &y, parameters.eta_a); // III
    (x, b, c, next_a)
}

/// The model Y = A X (eq:dl): the non-zero fibers Y (n x p) of Z and their places (j, k), in the order of the
/// columns of the unfolding (mode-1-T).
fn nonzero_fibers(z: &[Matrix]) -> (Matrix, Vec<(usize, usize)>) {
    let (rows, cols) = (z[0].len(), z[0][0].len());
    let nonzero = |&(j, k): &(usize, usize)| z.iter().any(|slice| slice[j][k] != 0.0);
    let places: Vec<_> = (0..cols).flat_map(|k| (0..rows).map(move |j| (j, k))).filter(nonzero).collect();
    let y = z.iter().map(|slice| places.iter().map(|&(j, k)| slice[j][k]).collect()).collect();
    (y, places)
}

/// Stage I: estimates the sparse codes X by iterative hard thresholding.
fn estimate_codes(a: &Matrix, y: &Matrix, p: &Parameters) -> Matrix {
    // X <- HT_{C/2}(A' Y) (alg:coeff_init)
    let mut x = hard_threshold(&product(&transpose(a), y), p.c / 2.0);
    for _ in 0..p.r {
        // X <- HT_tau(X - eta_x A' (A X - Y)) (alg:coeff_iht)
        let gradient = product(&transpose(a), &add(&product(a, &x), -1.0, y));
        x = hard_threshold(&add(&x, -p.eta_x, &gradient), p.tau);
    }
    x
}

/// Stage II, Alg. 2 (algo:KRP_algo): row i of the codes, put back to its places, is a matrix M (J x K). With its
/// leading singular triplet (sigma, u, v), B_i = sqrt(sigma) u and C_i = sqrt(sigma) v.
fn untangle(x: &Matrix, places: &[(usize, usize)], rows: usize, cols: usize) -> (Matrix, Matrix) {
    let (mut b, mut c) = (Vec::new(), Vec::new());
    for x_i in x {
        let mut m = vec![vec![0.0; cols]; rows];
        places.iter().zip(x_i).for_each(|(&(j, k), &x)| m[j][k] = x);
        // The power method: v <- unit(M' M v).
        let mut v: Vec<f64> = (0..cols).map(|k| 1.0 + k as f64 / 7.0).collect();
        for _ in 0..500 {
            v = unit(&apply(&transpose(&m), &apply(&m, &v)));
        }
        let sigma_u = apply(&m, &v);
        let root = norm(&sigma_u).sqrt();
        b.push(unit(&sigma_u).iter().map(|u| root * u).collect());
        c.push(v.iter().map(|v| root * v).collect());
    }
    (transpose(&b), transpose(&c))
}

/// Stage III: moves the dictionary along the approximate gradient.
fn update_dictionary(a: &Matrix, x: &Matrix, y: &Matrix, eta_a: f64) -> Matrix {
    // g = (A X - Y) sign(X)' / p (eq:emp_grad_est), with all p fibers; the theory uses independent fibers only.
    let sign = map(x, |x| if x == 0.0 { 0.0 } else { x.signum() });
    let p = y[0].len() as f64;
    let g = map(&product(&add(&product(a, x), -1.0, y), &transpose(&sign)), |g| g / p);
    // A <- A - eta_A g, with unit columns (eq:apx_grad)
    let columns = transpose(&add(a, -eta_a, &g));
    transpose(&columns.iter().map(|column| unit(column)).collect())
}

/// HT_t(Z): sets entries below t in magnitude to 0.
fn hard_threshold(z: &Matrix, t: f64) -> Matrix {
    map(z, |z| if z.abs() >= t { z } else { 0.0 })
}

/// A + s B.
fn add(a: &Matrix, s: f64, b: &Matrix) -> Matrix {
    a.iter().zip(b).map(|(a, b)| a.iter().zip(b).map(|(a, b)| a + s * b).collect()).collect()
}

/// A B.
fn product(a: &Matrix, b: &Matrix) -> Matrix {
    transpose(&transpose(b).iter().map(|column| apply(a, column)).collect())
}

/// A v.
fn apply(a: &Matrix, v: &[f64]) -> Vec<f64> {
    a.iter().map(|row| row.iter().zip(v).map(|(a, v)| a * v).sum()).collect()
}

fn transpose(a: &Matrix) -> Matrix {
    (0..a[0].len()).map(|j| a.iter().map(|row| row[j]).collect()).collect()
}

fn map(a: &Matrix, f: impl Fn(f64) -> f64) -> Matrix {
    a.iter().map(|row| row.iter().map(|&x| f(x)).collect()).collect()
}

fn norm(v: &[f64]) -> f64 {
    v.iter().map(|v| v * v).sum::<f64>().sqrt()
}

/// v / |v|; 0 stays 0.
fn unit(v: &[f64]) -> Vec<f64> {
    let norm = norm(v);
    v.iter().map(|v| if norm > 0.0 { v / norm } else { 0.0 }).collect()
}
