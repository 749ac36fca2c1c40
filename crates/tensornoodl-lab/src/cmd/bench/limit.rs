//! `noodl-lab bench limit`: compares the time of a step with the time of work that no method can avoid.

use std::io::{self, Write};
use std::time::Instant;

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use rayon::prelude::*;
use serde::Serialize;
use tensornoodl::synthetic::{Plan, Planted, PlantedTensor};
use tensornoodl::{Dictionary, Learner, Params, Tensor};
use tensornoodl_cli::memory;

use crate::cmd::bench::timing::{median, seconds};

/// Columns of Y multiplied at a time: large enough for full speed, small enough for the cache.
const SLAB: usize = 256;

const EXAMPLES: &str = "\
Examples:
  noodl-lab bench limit --patterns 600 --rows 500 --cols 500      the paper's largest cell
  noodl-lab bench limit --patterns 150 --alpha 0.01 --json        a small cell, as JSON

Times are medians over the repeats. The limits are the dense product A'Y (n x m by n x p) in double and in single precision, and one \
pass over the input. A fiber falls back to the paper's iteration (IHT) where no faster solver proves that it ends in the same code.";

/// Time a first and a late step beside a dense product with the same input and threads.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct Args {
    /// Number of features n, the length of a pattern.
    #[arg(long, default_value_t = 300, value_name = "N")]
    features: usize,
    /// Number of patterns, m.
    #[arg(long, default_value_t = 150)]
    patterns: usize,
    /// Rows of the tensor, J.
    #[arg(long, default_value_t = 100)]
    rows: usize,
    /// Cols of the tensor, K.
    #[arg(long, default_value_t = 100)]
    cols: usize,
    /// Probability that an entry of the row factor, and of the col factor, is not zero; above 0 and at most 1.
    #[arg(long, default_value_t = 0.05)]
    alpha: f64,
    /// Expected length (Euclidean norm) of the Gaussian noise of each fiber; a pattern has length 1.
    #[arg(long, default_value_t = 0.0)]
    noise: f64,
    /// Seed of all random draws.
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Number of threads, at least 1 [default: all cores]. Results do not depend on it.
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Minimum number of times that each measurement is made, at least 1; short steps are measured for half a second.
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub(crate) repeats: usize,
    /// Write one JSON object for the first step and one for the late step.
    #[arg(long)]
    json: bool,
}

/// A step counts as late when the error of the dictionary is at most this.
const NEAR: f64 = 1e-6;

/// Maximum number of tensors to learn from before the late step.
const MOST_TENSORS: u64 = 100;

/// Medians over the repeats.
#[derive(Serialize)]
struct Limit {
    r#type: &'static str,
    /// "first", at the distance of the paper's start, or "late".
    at: &'static str,
    n: usize,
    patterns: usize,
    rows: usize,
    cols: usize,
    alpha: f64,
    noise: f64,
    threads: usize,
    fibers: usize,
    mean_code_size: f64,
    /// Relative error of the dictionary before the step.
    error_a: f64,
    repeats: usize,
    product_f64_seconds: f64,
    product_f32_seconds: f64,
    read_seconds: f64,
    step_seconds: f64,
    encode_seconds: f64,
    update_seconds: f64,
    untangle_seconds: f64,
    ratio: f64,
    /// Time of a step with one thread over its time with all threads.
    speedup: f64,
    /// Time of the product with one thread over its time with all threads.
    product_speedup: f64,
    fallback_share: f64,
    /// Peak memory of the process; None where the system does not tell.
    peak_rss_bytes: Option<u64>,
    input_bytes: u64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let plan = Plan {
        features: args.features,
        patterns: args.patterns,
        rows: args.rows,
        cols: args.cols,
        alpha: args.alpha,
        beta: args.alpha,
        noise: args.noise,
        seed: args.seed,
        ..Plan::default()
    };
    plan.check()?;
    memory::check(plan.bytes())?;
    let planted = Planted::new(plan)?;
    let mut learner = Learner::new(planted.start(planted.paper_distance())?, Params::default())?;
    let mut stdout = io::stdout().lock();
    for at in ["first", "late"] {
        // Noise bounds the error of A from below.
        let near = if args.noise > 0.0 { 0.05 * args.noise } else { NEAR };
        while at == "late"
            && error_a(learner.dictionary(), planted.true_dictionary()) > near
            && learner.steps() < MOST_TENSORS
        {
            learner.learn(&planted.tensor(learner.steps() + 1).tensor)?;
        }
        let made = planted.tensor(learner.steps() + 1);
        let measured = measure(args, at, &planted, &learner, made)?;
        if args.json {
            serde_json::to_writer(&mut stdout, &measured)?;
            writeln!(stdout)?;
        } else {
            write!(stdout, "{}", in_words(&measured))?;
        }
    }
    Ok(())
}

/// Returns |A - A*|_F / |A*|_F. Patterns have the order of the truth, because the learner started near it.
fn error_a(a: &Dictionary, truth: &Dictionary) -> f64 {
    let squares: f64 = a.values().iter().zip(truth.values()).map(|(a, b)| (a - b) * (a - b)).sum();
    (squares / truth.patterns() as f64).sqrt()
}

/// Times of all repeats, in seconds.
#[derive(Default)]
struct Times {
    product_f64: Vec<f64>,
    product_f32: Vec<f64>,
    read: Vec<f64>,
    step: Vec<f64>,
    encode: Vec<f64>,
    update: Vec<f64>,
    untangle: Vec<f64>,
    /// With one thread, if there are several.
    product_alone: Vec<f64>,
    step_alone: Vec<f64>,
}

impl Times {
    /// Measures all times. Each repeat measures every quantity once, so that changes of the machine's speed affect
    /// all of them.
    fn measure(learner: &Learner, tensor: &Tensor<'_>, repeats: usize) -> anyhow::Result<Times> {
        let n = tensor.shape().features;
        let (a, y) = (learner.dictionary().values(), tensor.values());
        let a32: Vec<f32> = a.iter().map(|&x| x as f32).collect();
        let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
        let (mut times, mut working) = (Times::default(), learner.clone());
        for _ in 0..repeats {
            times.product_f64.push(seconds(|| product(a, y, n)));
            times.product_f32.push(product_in_single(&a32, y, n));
            times.read.push(seconds(|| std::hint::black_box(read(y))));
            working.clone_from(learner);
            let begun = Instant::now();
            let step = working.learn(tensor)?;
            times.step.push(begun.elapsed().as_secs_f64());
            times.encode.push(step.times.encode.as_secs_f64());
            times.update.push(step.times.update.as_secs_f64());
            times.untangle.push(seconds(|| std::hint::black_box(step.codes.untangle())));
            drop(step);
            if rayon::current_num_threads() > 1 {
                times.product_alone.push(alone.install(|| seconds(|| product(a, y, n))));
                working.clone_from(learner);
                let mut learned = Ok(None);
                let learn = || seconds(|| learned = working.learn(tensor).map(Some));
                times.step_alone.push(alone.install(learn));
                learned?;
            }
        }
        Ok(times)
    }
}

/// Returns the median of the ratios of single repeats: the speed of a machine changes over time, but hardly within a
/// repeat.
fn speedup(alone: &[f64], all: &[f64]) -> f64 {
    let ratios: Vec<f64> = alone.iter().zip(all).map(|(alone, all)| alone / all).collect();
    if ratios.is_empty() { 1.0 } else { median(ratios) }
}

fn measure(
    args: &Args,
    at: &'static str,
    planted: &Planted,
    learner: &Learner,
    made: PlantedTensor,
) -> anyhow::Result<Limit> {
    let tensor = made.tensor;
    drop((made.true_codes, made.true_rows, made.true_cols));
    // One step before anything is timed warms the caches, and the peak of memory is that of a step alone.
    let begun = Instant::now();
    let step = learner.clone().learn(&tensor)?;
    let repeats = ((0.5 / begun.elapsed().as_secs_f64().max(1e-6)) as usize).clamp(args.repeats, 1000);
    let peak_rss_bytes = memory::peak();
    let times = Times::measure(learner, &tensor, repeats)?;
    let speedup_of_step = speedup(&times.step_alone, &times.step);
    let product_speedup = speedup(&times.product_alone, &times.product_f64);
    let (product_f64_seconds, step_seconds) = (median(times.product_f64), median(times.step));
    let counts = step.solver_counts;
    Ok(Limit {
        r#type: "limit",
        at,
        n: args.features,
        patterns: args.patterns,
        rows: args.rows,
        cols: args.cols,
        alpha: args.alpha,
        noise: args.noise,
        threads: rayon::current_num_threads(),
        fibers: tensor.fibers(),
        mean_code_size: step.mean_code_size,
        error_a: error_a(learner.dictionary(), planted.true_dictionary()),
        repeats,
        product_f64_seconds,
        product_f32_seconds: median(times.product_f32),
        read_seconds: median(times.read),
        step_seconds,
        encode_seconds: median(times.encode),
        update_seconds: median(times.update),
        untangle_seconds: median(times.untangle),
        ratio: step_seconds / product_f64_seconds,
        speedup: speedup_of_step,
        product_speedup,
        fallback_share: (counts.iht + counts.unconverged) as f64 / step.fibers.max(1) as f64,
        peak_rss_bytes,
        input_bytes: (size_of_val(tensor.values()) + size_of_val(tensor.places())) as u64,
    })
}

/// Computes A'Y in slabs of columns, each on one thread: faster than one call, which would fill m x p numbers.
fn product<T: faer::traits::ComplexField + Send + Sync>(a: &[T], y: &[T], n: usize) {
    let m = a.len() / n;
    // For a small product, starting threads takes longer than it saves.
    let small = y.len() * m < 16_000_000;
    let a = MatRef::from_column_major_slice(a, n, m);
    let slab = |out: &mut Vec<T>, y: &[T]| {
        let p = y.len() / n;
        let y = MatRef::from_column_major_slice(y, n, p);
        let out = MatMut::from_column_major_slice_mut(&mut out[..m * p], m, p);
        matmul(out, Accum::Replace, a.transpose(), y, T::one_impl(), Par::Seq);
    };
    let buffer =
        || (0..m * if small { y.len() / n } else { SLAB }).map(|_| T::zero_impl()).collect::<Vec<T>>();
    if small {
        slab(&mut buffer(), y);
    } else {
        y.par_chunks(n * SLAB).for_each_init(buffer, slab);
    }
}

/// Computes A'Y in single precision, one part of Y after the other. Returns the seconds without the time to convert Y.
fn product_in_single(a: &[f32], y: &[f64], n: usize) -> f64 {
    let parts = y.chunks(n * SLAB * 64);
    parts
        .map(|part| {
            let part: Vec<f32> = part.iter().map(|&y| y as f32).collect();
            seconds(|| product(a, &part, n))
        })
        .sum()
}

/// Returns the sum of Y, at the speed of reading it.
fn read(y: &[f64]) -> f64 {
    let sum = |part: &[f64]| {
        let mut sums = [0.0; 16];
        for chunk in part.chunks_exact(16) {
            sums.iter_mut().zip(chunk).for_each(|(sum, y)| *sum += y);
        }
        sums.iter().sum::<f64>()
    };
    if y.len() < 1 << 18 { sum(y) } else { y.par_chunks(1 << 16).map(sum).sum() }
}

fn in_words(limit: &Limit) -> String {
    let milliseconds = |seconds: f64| format!("{:10.3} ms", 1e3 * seconds);
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let peak = limit.peak_rss_bytes.map_or("unknown".into(), |bytes| format!("{:.0} MB", megabytes(bytes)));
    let share = |seconds: f64| seconds / limit.product_f64_seconds;
    let line =
        |what: &str, seconds: f64| format!("  {what:<28}{}{:8.3}\n", milliseconds(seconds), share(seconds));
    [
        format!(
            "{} step: {} fibers of {:.2} patterns on average, A at {:.1e}, {} threads, {} repeats\n",
            limit.at, limit.fibers, limit.mean_code_size, limit.error_a, limit.threads, limit.repeats
        ),
        format!("  {:<28}{:>13}{:>8}\n", "", "time", "ratio"),
        line("product A'Y, double", limit.product_f64_seconds),
        line("product A'Y, single", limit.product_f32_seconds),
        line("reading Y once", limit.read_seconds),
        line("one step", limit.step_seconds),
        line("  of which codes", limit.encode_seconds),
        line("  of which dictionary", limit.update_seconds),
        line("row and col factors, extra", limit.untangle_seconds),
        format!(
            "  {:.2} times as fast as with one thread; the product {:.2} times\n",
            limit.speedup, limit.product_speedup
        ),
        format!(
            "  {:.2} % of the fibers by the paper's iteration; peak memory {peak} for {:.0} MB of input\n",
            100.0 * limit.fallback_share,
            megabytes(limit.input_bytes)
        ),
    ]
    .concat()
}
