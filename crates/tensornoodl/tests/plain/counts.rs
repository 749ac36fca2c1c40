// A step of the counts model with dense matrices and nothing else. A matrix and its products are those of method.rs.

/// A place (j, k), and a fiber or a code at it.
type At = ((usize, usize), Vec<f64>);

/// What a step leaves: X (m x p), B (J x m), C (K x m), the next statistics S (n x m), and the events of each feature.
type Step = (Matrix, Matrix, Matrix, Matrix, Vec<f64>);

/// One step: from the statistics S of all tensors so far, their events of each feature, the fibers of the latest
/// steps, and the tensor Z(t) (n matrices J x K).
pub(super) fn step(s: &Matrix, events: &[f64], latest: &[At], z: &[Matrix], forgetting: f64) -> Step {
    let (a, w) = (dictionary(s, events), shares(s));
    let (y, places) = nonzero_fibers(z);
    let known: Vec<At> = latest.iter().map(|(place, y)| (*place, soft_code(&a, &w, 0.1, y))).collect();
    let codes = |(place, y): (&(usize, usize), &Vec<f64>)| {
        let (usual, prior) = expect(&known, &w, *place);
        estimate_codes(&a, &usual, prior, y)
    };
    let fibers = transpose(&y);
    let codes: Vec<_> = places.iter().zip(&fibers).map(codes).collect(); // I
    let x = transpose(&codes.iter().map(|codes| codes[0].1.clone()).collect());
    let (b, c) = untangle(&x, &places, z[0].len(), z[0][0].len()); // II
    let (s, events) = update_statistics(&a, s, events, &fibers, &codes, forgetting); // III
    (x, b, c, s, events)
}

/// The dictionary: A = S + mean, columns scaled to sum 1. The mean is that of all events so far.
pub(super) fn dictionary(s: &Matrix, events: &[f64]) -> Matrix {
    let (n, total) = (events.len() as f64, sum(events));
    let columns = transpose(s).into_iter().map(|column| {
        let own = column.iter().zip(events).map(|(s, y)| s + (y + 0.5 / n) / (total + 0.5));
        to_shares(&own.collect::<Vec<_>>())
    });
    transpose(&columns.collect())
}

/// w, the share of each pattern in all events. One event is added to each pattern.
fn shares(s: &Matrix) -> Vec<f64> {
    to_shares(&transpose(s).iter().map(|column| sum(column) + 1.0).collect::<Vec<_>>())
}

/// The usual shares of the patterns at a place, and the weight of their prior. What is known of the row and the col
/// leads to expect r_i c_i / w_i; this is half of the usual shares.
fn expect(known: &[At], w: &[f64], (j, k): (usize, usize)) -> (Vec<f64>, f64) {
    let (row, col) = (|at: &&At| at.0.0 == j, |at: &&At| at.0.1 == k);
    if !known.iter().any(|at| row(&at) || col(&at)) {
        return (w.to_vec(), 0.1);
    }
    let add = |sum: Vec<f64>, at: &At| sum.iter().zip(&at.1).map(|(sum, x)| sum + x).collect();
    let r = to_shares(&known.iter().filter(row).fold(w.to_vec(), add));
    let c = to_shares(&known.iter().filter(col).fold(w.to_vec(), add));
    let own = to_shares(&(0..w.len()).map(|i| r[i] * c[i] / w[i]).collect::<Vec<_>>());
    (own.iter().zip(w).map(|(own, w)| 0.5 * own.max(1e-6) + 0.5 * w).collect(), 0.5)
}

/// Stage I, first half: a code on all patterns, with a prior of the usual shares u.
fn soft_code(a: &Matrix, u: &[f64], prior: f64, y: &[f64]) -> Vec<f64> {
    let mut x = vec![sum(y) / u.len() as f64; u.len()];
    for _ in 0..30 {
        // x_i <- (prior + x_i sum_f A_fi y_f / l_f) / (prior / (N u_i) + 1)
        let divided = divide(a, &x, y);
        let next: Vec<f64> =
            (0..u.len()).map(|i| (prior + x[i] * divided[i]) / (prior / (sum(y) * u[i]) + 1.0)).collect();
        let moved = x.iter().zip(&next).any(|(x, next)| (next - x).abs() > 1e-3 * sum(y));
        x = next;
        if !moved {
            break;
        }
    }
    x
}

/// Stage I: the codes of a fiber on the supports that may explain it, each with its probability, the most probable one
/// first: each pattern alone, and the patterns of the soft code, of which the smallest is left out again and again.
fn estimate_codes(a: &Matrix, u: &[f64], prior: f64, y: &[f64]) -> Vec<(f64, Vec<f64>)> {
    let (n, m) = (sum(y), u.len());
    let alone = |i: usize| (0..m).map(|l| if l == i { n } else { 0.0 }).collect::<Vec<f64>>();
    let mut codes: Vec<Vec<f64>> = (0..m).map(alone).collect();
    let mut x: Vec<f64> = soft_code(a, u, prior, y).iter().map(|&x| if x > 0.5 { x } else { 0.0 }).collect();
    while size(&x) > 1 {
        for _ in 0..12 {
            x = x.iter().zip(divide(a, &x, y)).map(|(x, divided)| x * divided).collect();
        }
        codes.push(x.clone());
        let least = x.iter().copied().filter(|x| *x > 0.0).fold(f64::INFINITY, f64::min);
        let left: Vec<f64> = x.iter().map(|&x| if x == least { 0.0 } else { x }).collect();
        let (all, kept) = (sum(&x), sum(&left));
        x = left.iter().map(|left| left * all / kept).collect();
    }
    // ln p = log-likelihood - (size of the support - 1) (z^2 + ln N) / 2 + ln of the mean usual share, for z = 2.5
    let score = |x: &Vec<f64>| {
        let likelihood: f64 = sum(&y.iter().zip(apply(a, x)).map(|(y, l)| y * l.ln()).collect::<Vec<_>>());
        let usual: f64 = x.iter().zip(u).map(|(x, u)| x * u / n).sum();
        likelihood - sum(x) - (size(x) - 1) as f64 * (2.5 * 2.5 + n.max(1.0).ln()) / 2.0 + usual.ln()
    };
    let best = codes.iter().map(score).fold(f64::NEG_INFINITY, f64::max);
    let mut probable: Vec<_> = codes.into_iter().map(|x| ((score(&x) - best).exp(), x)).collect();
    probable.retain(|(p, _)| p.ln() > -7.0);
    probable.sort_by(|a, b| b.0.total_cmp(&a.0));
    let total: f64 = probable.iter().map(|(p, _)| p).sum();
    probable.into_iter().map(|(p, x)| (p / total, x)).collect()
}

/// Stage II: the events of a pattern at row j, times those at col k, over all of its events.
fn untangle(x: &Matrix, places: &[(usize, usize)], rows: usize, cols: usize) -> (Matrix, Matrix) {
    let (mut b, mut c) = (vec![vec![0.0; x.len()]; rows], vec![vec![0.0; x.len()]; cols]);
    for (i, x_i) in x.iter().enumerate() {
        for (&(j, k), x) in places.iter().zip(x_i).filter(|(_, x)| **x > 0.0) {
            b[j][i] += x / sum(x_i).sqrt();
            c[k][i] += x / sum(x_i).sqrt();
        }
    }
    (b, c)
}

/// Stage III: S_fi += A_fi x_i y_f / l_f, the mean over the supports of a fiber. The events of feature f grow by y_f.
fn update_statistics(
    a: &Matrix,
    s: &Matrix,
    events: &[f64],
    fibers: &Matrix,
    codes: &[Vec<(f64, Vec<f64>)>],
    forgetting: f64,
) -> (Matrix, Vec<f64>) {
    let mut s = map(s, |s| (1.0 - forgetting) * s);
    let mut events: Vec<f64> = events.iter().map(|y| (1.0 - forgetting) * y).collect();
    for (y, codes) in fibers.iter().zip(codes) {
        for (f, y) in y.iter().enumerate() {
            events[f] += y;
            for (p, x) in codes {
                let l: f64 = a[f].iter().zip(x).map(|(a, x)| a * x).sum();
                (0..x.len()).for_each(|i| s[f][i] += p * a[f][i] * x[i] * y / l);
            }
        }
    }
    (s, events)
}

/// Divides the events of a fiber among the patterns: sum_f A_fi y_f / l_f with l = A x.
fn divide(a: &Matrix, x: &[f64], y: &[f64]) -> Vec<f64> {
    let ratios: Vec<f64> = y.iter().zip(apply(a, x)).map(|(y, l)| y / l).collect();
    apply(&transpose(a), &ratios)
}

/// The number of entries that are not zero.
fn size(x: &[f64]) -> usize {
    x.iter().filter(|x| **x > 0.0).count()
}

fn sum(v: &[f64]) -> f64 {
    v.iter().sum()
}

fn to_shares(v: &[f64]) -> Vec<f64> {
    let total = sum(v);
    v.iter().map(|v| v / total).collect()
}
