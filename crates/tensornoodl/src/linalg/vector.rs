//! Vector kernels: loops over slices of the same length that the compiler turns into SIMD instructions.
//!
//! ```text
//! x, y, z, r, out    vectors of one length
//! a, b               scalars
//! ```
//!
//! A kernel's bits do not depend on the machine: the order of additions is fixed in the source, and products are
//! never fused into sums.

/// Runs `work` compiled for the widest vector registers of this machine.
///
/// The result has the bits of the plain loop: the compiler neither reorders sums nor fuses products into them. The
/// closure must be inlined to be compiled that way: `with_simd(#[inline(always)] || ...)`.
#[inline(always)]
pub(crate) fn with_simd<T>(work: impl FnOnce() -> T) -> T {
    pulp::Arch::new().dispatch(work)
}

/// Returns the sum of f(x_i, y_i), added up in sixteen partial sums, so that the compiler can use vector registers.
#[inline(always)]
fn sum_over(x: &[f64], y: &[f64], f: impl Fn(f64, f64) -> f64) -> f64 {
    with_simd(
        #[inline(always)]
        || {
            let mut sums = [0.0; 16];
            let (x_chunks, y_chunks) = (x.chunks_exact(16), y.chunks_exact(16));
            let (x_tail, y_tail) = (x_chunks.remainder(), y_chunks.remainder());
            for (a, b) in x_chunks.zip(y_chunks) {
                for lane in 0..16 {
                    sums[lane] += f(a[lane], b[lane]);
                }
            }
            for ((sum, &a), &b) in sums.iter_mut().zip(x_tail).zip(y_tail) {
                *sum += f(a, b);
            }
            for half in [8, 4, 2, 1] {
                for lane in 0..half {
                    sums[lane] += sums[lane + half];
                }
            }
            sums[0]
        },
    )
}

/// Returns the inner product <x, y>.
pub(crate) fn dot(x: &[f64], y: &[f64]) -> f64 {
    sum_over(x, y, |x, y| x * y)
}

/// Returns the squared Euclidean distance |x - y|^2.
pub(crate) fn squared_distance(x: &[f64], y: &[f64]) -> f64 {
    sum_over(x, y, |x, y| (x - y) * (x - y))
}

/// Adds a multiple of a vector: y += a x, for a scalar a.
pub(crate) fn add_scaled(y: &mut [f64], a: f64, x: &[f64]) {
    with_simd(
        #[inline(always)]
        || y.iter_mut().zip(x).for_each(|(y, x)| *y += a * x),
    );
}

/// Divides a vector by a scalar: x /= a.
pub(crate) fn divide(x: &mut [f64], a: f64) {
    with_simd(
        #[inline(always)]
        || x.iter_mut().for_each(|x| *x /= a),
    );
}

/// Adds two multiples of vectors: r = y + a x + b z, for scalars a and b.
pub(crate) fn add_two_scaled(r: &mut [f64], y: &[f64], a: f64, x: &[f64], b: f64, z: &[f64]) {
    with_simd(
        #[inline(always)]
        || {
            for (((r, y), x), z) in r.iter_mut().zip(y).zip(x).zip(z) {
                *r = y + a * x + b * z;
            }
        },
    );
}

/// Scales and rounds to single precision: out = a y, for a scalar a.
pub(crate) fn to_single(out: &mut [f32], y: &[f64], a: f64) {
    with_simd(
        #[inline(always)]
        || out.iter_mut().zip(y).for_each(|(out, y)| *out = (a * y) as f32),
    );
}
