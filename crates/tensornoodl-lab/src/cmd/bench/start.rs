//! `noodl-lab bench start`: where the start from nothing works, compared with k-means and random fibers.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Instant;

use indicatif::ProgressBar;
use rayon::prelude::*;
use tensornoodl::recovery::PatternCounts;
use tensornoodl::synthetic::{Plan, Planted};
use tensornoodl::{Dictionary, DiscoverParams, Error, Tensor, discover};
use tensornoodl_cli::program::wrong;
use tensornoodl_cli::{memory, output};
use tensornoodl_data::files;

use crate::cmd::bench::start_picture::{self, Cell};

const EXAMPLES: &str = "\
Examples:
  noodl-lab bench start --picture start.svg              all cells, some minutes
  noodl-lab bench start --code-sizes 1.5,3 --fibers 1000 --noise 0.3 --repeats 1 --json

Each cell stands for planted tensors with 300 features. One set of cells varies the number of patterns in a fiber and the number \
of fibers, without noise; the other set varies the number of patterns in a fiber and the noise. The score of a cell is the number of \
found patterns, divided by the number of patterns that at least two fibers show plus the number of spurious ones; 1 means that all are \
found and none is spurious. k-means and random fibers know the number of patterns; the search knows nothing.";

/// Number of fibers where noise is varied.
const FIBERS: usize = 3_000;

/// Find patterns in planted tensors of many kinds, by the search, by k-means and by random fibers.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct Args {
    /// Mean numbers of patterns in a fiber, each above 1 and at most 100.
    #[arg(long, value_delimiter = ',', default_values_t = [1.1, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0])]
    code_sizes: Vec<f64>,
    /// Numbers of fibers of the tensors without noise, each at least 10.
    #[arg(long, value_delimiter = ',', default_values_t = [300, 600, 1200, 2500, 5000, 10000])]
    fibers: Vec<usize>,
    /// Expected lengths (Euclidean norm) of the noise of a fiber, for tensors of 3,000 fibers; a pattern has length 1.
    #[arg(long, value_delimiter = ',', default_values_t = [0.0, 0.1, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0])]
    noise: Vec<f64>,
    /// Number of patterns.
    #[arg(long, default_value_t = 150)]
    patterns: usize,
    /// Tensors for each cell, at least 1; their seeds are 1, 2, ...
    #[arg(long, default_value_t = 3)]
    pub(crate) repeats: usize,
    /// Number of threads, at least 1 [default: all cores]. Results do not depend on it.
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Draw all cells into this SVG file.
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    /// Write one JSON object for each cell and method.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(path) = &args.picture {
        files::check(path)?;
    }
    if let Some(size) = args.code_sizes.iter().find(|size| !(**size > 1.0 && **size <= 100.0)) {
        let rule = "above 1 and at most 100: a fiber has one pattern at least";
        return Err(wrong("code_sizes", size, rule).into());
    }
    if let Some(fibers) = args.fibers.iter().find(|fibers| **fibers < 10) {
        return Err(wrong("fibers", fibers, "at least 10").into());
    }
    let with_fibers = args.fibers.iter().map(|&fibers| ("fibers", fibers, 0.0));
    let with_noise = args.noise.iter().map(|&noise| ("noise", FIBERS, noise));
    let columns: Vec<(&'static str, usize, f64)> = with_fibers.chain(with_noise).collect();
    // Without --json, the printed lines show the progress.
    let bar = (io::stderr().is_terminal() && args.json)
        .then(|| ProgressBar::new((columns.len() * args.code_sizes.len()) as u64));
    let mut cells: Vec<Cell> = Vec::new();
    let mut stdout = output::stdout();
    for (axis, fibers, noise) in columns {
        for &size in &args.code_sizes {
            let three = measure(args, axis, size, fibers, noise)?;
            if args.json {
                for cell in &three {
                    serde_json::to_writer(&mut stdout, cell)?;
                    writeln!(stdout)?;
                }
            } else {
                let scores: Vec<String> =
                    three.iter().map(|cell| format!("{} {:.2}", cell.method, cell.score)).collect();
                writeln!(
                    stdout,
                    "{size:>4} in a fiber, {fibers:>6} fibers, noise {noise:<4} {}",
                    scores.join("   ")
                )?;
            }
            cells.extend(three);
            bar.iter().for_each(|bar| bar.inc(1));
        }
    }
    bar.iter().for_each(ProgressBar::finish_and_clear);
    if let Some(path) = &args.picture {
        files::write(path, start_picture::draw(&cells))?;
    }
    Ok(())
}

/// Returns the plan of a tensor with about `fibers` fibers of `size` patterns each. With l = m alpha beta codes per
/// place, the share 1 - exp(-l) of the places has a fiber, with l / (1 - exp(-l)) patterns on average.
fn plan(args: &Args, size: f64, fibers: usize, noise: f64, seed: u64) -> Plan {
    let (mut low, mut high) = (0.0, size);
    for _ in 0..60 {
        let middle: f64 = (low + high) / 2.0;
        if middle < size * (1.0 - (-middle).exp()) {
            low = middle;
        } else {
            high = middle;
        }
    }
    let alpha = (high / args.patterns as f64).sqrt().min(1.0);
    let length = (fibers as f64 / (1.0 - (-high).exp())).sqrt().round().max(1.0) as usize;
    let (rows, cols, beta) = (length, length, alpha);
    Plan { patterns: args.patterns, rows, cols, alpha, beta, noise, seed, ..Plan::default() }
}

type Method = fn(&Tensor<'_>, usize, u64) -> Result<Dictionary, Error>;

fn measure(
    args: &Args,
    axis: &'static str,
    size: f64,
    fibers: usize,
    noise: f64,
) -> anyhow::Result<[Cell; 3]> {
    let methods: [(&'static str, Method); 3] =
        [("search", search), ("k-means", k_means), ("random fibers", random_fibers)];
    let mut cells = methods.map(|(method, _)| Cell {
        r#type: "start",
        axis,
        method,
        mean_code_size: size,
        fibers,
        noise,
        seeds: args.repeats as u64,
        patterns_seen: 0,
        patterns_found: 0,
        spurious: 0,
        seconds: 0.0,
        score: 0.0,
    });
    for seed in 1..=args.repeats as u64 {
        let plan = plan(args, size, fibers, noise, seed);
        plan.check()?;
        memory::check(plan.bytes())?;
        let planted = Planted::new(plan)?;
        let made = planted.tensor(1);
        let shown: Vec<usize> = made.true_codes.matrix().transpose().columns().map(<[_]>::len).collect();
        for (cell, (_, method)) in cells.iter_mut().zip(methods) {
            let begun = Instant::now();
            let dictionary = method(&made.tensor, args.patterns, seed)?;
            cell.seconds += begun.elapsed().as_secs_f64();
            let counts = PatternCounts::new(&dictionary, planted.true_dictionary(), &shown)?;
            cell.patterns_seen += counts.seen;
            cell.patterns_found += counts.found;
            cell.spurious += counts.spurious;
        }
    }
    for cell in &mut cells {
        // A pattern that a single fiber shows may be found as well.
        let all = (cell.patterns_seen + cell.spurious).max(cell.patterns_found).max(1);
        cell.score = cell.patterns_found as f64 / all as f64;
    }
    Ok(cells)
}

fn search(tensor: &Tensor<'_>, _: usize, seed: u64) -> Result<Dictionary, Error> {
    Ok(discover::find(tensor, &DiscoverParams { seed, ..DiscoverParams::default() })?.dictionary)
}

/// Takes fibers spread over the tensor as patterns.
fn random_fibers(tensor: &Tensor<'_>, patterns: usize, seed: u64) -> Result<Dictionary, Error> {
    let p = tensor.fibers();
    let count = patterns.min(p);
    // A step without common divisors with p visits every fiber.
    let step = (p / 3 + seed as usize..).find(|&step| step > 0 && gcd(step, p) == 1).unwrap_or(1);
    let chosen = (0..count).flat_map(|at| tensor.fiber((at * step + seed as usize) % p).to_vec());
    Dictionary::from_columns(tensor.shape().features, chosen.collect())
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Number of rounds of k-means, which converges earlier.
const ROUNDS: usize = 20;

/// Clusters the directions of fibers regardless of sign: every fiber joins the center with the largest |cos|, and
/// every center becomes the mean of its fibers.
fn k_means(tensor: &Tensor<'_>, patterns: usize, seed: u64) -> Result<Dictionary, Error> {
    let n = tensor.shape().features;
    let mut centers = random_fibers(tensor, patterns, seed)?;
    for _ in 0..ROUNDS {
        let nearest: Vec<(usize, f64)> = (0..tensor.fibers())
            .into_par_iter()
            .map(|fiber| {
                let along = |i: usize| -> f64 {
                    tensor.fiber(fiber).iter().zip(centers.pattern(i)).map(|(y, a)| y * a).sum()
                };
                let all = (0..centers.patterns()).map(|i| (i, along(i)));
                all.max_by(|a, b| a.1.abs().total_cmp(&b.1.abs())).unwrap_or((0, 0.0))
            })
            .collect();
        let mut sums = vec![0.0; n * centers.patterns()];
        for (fiber, &(center, along)) in nearest.iter().enumerate() {
            let y = tensor.fiber(fiber);
            let length = y.iter().map(|y| y * y).sum::<f64>().sqrt();
            let sum = &mut sums[center * n..][..n];
            sum.iter_mut().zip(y).for_each(|(sum, y)| *sum += along.signum() * y / length);
        }
        // A center without fibers does not move.
        for (i, sum) in sums.chunks_exact_mut(n).enumerate() {
            if sum.iter().all(|v| *v == 0.0) {
                sum.copy_from_slice(centers.pattern(i));
            }
        }
        centers = Dictionary::from_columns(n, sums)?;
    }
    Ok(centers)
}
