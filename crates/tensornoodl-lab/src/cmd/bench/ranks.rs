//! `noodl-lab bench ranks`: what a step costs that is spread over ranks, and what it would cost on more of them.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use tensornoodl::parallel::{Traffic, gather};
use tensornoodl::synthetic::{Plan, Planted};
use tensornoodl::{Learner, Params, Step, Team, Tensor};
use tensornoodl_cli::memory;

use super::median;

const EXAMPLES: &str = "\
Examples:
  mpirun -n 2 noodl-lab bench ranks --patterns 300 --rows 300 --cols 300 --threads 1

Every rank has a share of the same size, however many there are. Times are medians over the repeats, which take turns: the first rank
alone, all ranks beside each other without a word, and all ranks together. What is said of more ranks is a model: the time of a
sum over p ranks is 2 log2(p) alpha + 2 (p - 1) / p beta bytes, with alpha and beta fitted to sums of many lengths.";

/// Time one step that is spread over the ranks of an MPI job, and extend it to more of them.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct Args {
    /// Length of a pattern, n.
    #[arg(long, default_value_t = 300)]
    features: usize,
    /// Number of patterns, m.
    #[arg(long, default_value_t = 150)]
    patterns: usize,
    /// Rows of the tensor, J.
    #[arg(long, default_value_t = 300)]
    rows: usize,
    /// Cols of each rank's share; the tensor has as many for each rank.
    #[arg(long, default_value_t = 300)]
    cols: usize,
    /// Probability that an entry of the row factor, and of the col factor, is not zero.
    #[arg(long, default_value_t = 0.05)]
    alpha: f64,
    /// Seed of all random draws.
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Threads of each rank [default: the cores, shared by the ranks of a machine].
    #[arg(long)]
    pub(crate) threads: Option<usize>,
    /// Measure each time so often.
    #[arg(long, default_value_t = 9)]
    pub(crate) repeats: usize,
    /// Write one JSON object.
    #[arg(long)]
    json: bool,
}

/// Tensors to learn from before anything is timed: patterns are roughly known then.
const TENSORS: u64 = 6;

#[derive(Serialize)]
struct Record {
    r#type: &'static str,
    ranks: usize,
    threads: usize,
    n: usize,
    patterns: usize,
    rows: usize,
    cols: usize,
    alpha: f64,
    repeats: usize,
    /// Of a share.
    fibers: usize,
    alone_seconds: f64,
    /// Of the slowest rank.
    beside_seconds: f64,
    together_seconds: f64,
    /// Of the first rank alone: what grows with the fibers, and what every rank does.
    encode_seconds: f64,
    update_seconds: f64,
    /// How many ranks' work is done in the time of one.
    speedup: f64,
    beside_speedup: f64,
    /// Of a step.
    exchanges: u64,
    sent_bytes: u64,
    exchange_seconds: f64,
    /// Sums over all ranks: bytes and seconds.
    sums: Vec<(usize, f64)>,
    /// Fitted to them: seconds of a message, and of a byte.
    latency: f64,
    seconds_per_byte: f64,
    /// Modelled: ranks, seconds of a step with shares of the same size, speed-up.
    extended: Vec<(usize, f64, f64)>,
    /// Modelled: a step of 1e9 fibers on 1,000 ranks.
    billion_seconds: f64,
}

pub(crate) fn run(args: &Args, team: &Arc<dyn Team>) -> anyhow::Result<()> {
    let size = team.size();
    let plan = |cols| Plan {
        features: args.features,
        patterns: args.patterns,
        rows: args.rows,
        cols,
        alpha: args.alpha,
        beta: args.alpha,
        seed: args.seed,
        ..Plan::default()
    };
    plan(args.cols.saturating_mul(size)).check()?;
    memory::check_all(&**team, 2.0 * plan(args.cols).bytes())?;
    // The patterns are the same in both.
    let (small, large) = (Planted::new(plan(args.cols))?, Planted::new(plan(args.cols * size))?);
    let mut learner = Learner::new(small.start(small.paper_distance())?, Params::default())?;
    learner.join(Arc::clone(team));
    while learner.steps() < TENSORS {
        learner.learn(&large.rank_tensor(&**team, learner.steps() + 1).tensor)?;
    }
    let own = small.tensor(TENSORS + 1).tensor;
    let share = large.rank_tensor(&**team, TENSORS + 1).tensor;
    let mut solo = learner.clone();
    solo.join(Arc::new(tensornoodl::parallel::Solo));

    let [mut alone, mut beside, mut together] = [(); 3].map(|()| Vec::new());
    let [mut encode, mut update, mut exchange] = [(); 3].map(|()| Vec::new());
    let mut traffic = Traffic::default();
    let mut working = learner.clone();
    for round in 0..=args.repeats {
        let mut step = None;
        if team.rank() == 0 {
            step = Some(timed(&mut working, &solo, &own)?);
        }
        let first = longest(team, step.as_ref().map_or(Duration::ZERO, |(_, time)| *time));
        let (_, time) = timed(&mut working, &solo, &own)?;
        let all = longest(team, time);
        meet(team);
        let before = team.traffic();
        let (_, time) = timed(&mut working, &learner, &share)?;
        traffic = team.traffic() - before;
        let spread = longest(team, time);
        // The first round warms the caches.
        if round > 0 {
            alone.push(first);
            beside.push(all);
            together.push(spread);
            exchange.push(traffic.time.as_secs_f64());
            encode.extend(step.as_ref().map(|(step, _)| step.encode_time.as_secs_f64()));
            update.extend(step.as_ref().map(|(step, _)| step.update_time.as_secs_f64()));
        }
    }
    let sums = sums(team, args.repeats, traffic.bytes as usize);
    if team.rank() > 0 {
        return Ok(());
    }
    let (latency, seconds_per_byte) = fit(size, &sums);
    let speedup = |spread: &[f64]| {
        let pairs = alone.iter().zip(spread).map(|(alone, spread)| size as f64 * alone / spread);
        median(pairs.collect())
    };
    let (speedup, beside_speedup) = (speedup(&together), speedup(&beside));
    let [alone, beside, together, encode, update] = [alone, beside, together, encode, update].map(median);
    // Ranks of a machine share what is not the cores; the model keeps it that way.
    let crowded = (beside / alone).max(1.0);
    let model = |ranks: usize, fibers: f64| {
        let (steps, shared) = ((ranks as f64).log2().ceil(), (ranks - 1) as f64 / ranks as f64);
        let exchange = 2.0 * steps * latency * traffic.exchanges as f64
            + 2.0 * shared * seconds_per_byte * traffic.bytes as f64;
        crowded * (encode * fibers / own.fibers() as f64 + update) + exchange
    };
    let extended = [2, 4, 16, 64, 256, 1024].map(|ranks: usize| {
        let seconds = model(ranks, own.fibers() as f64);
        (ranks, seconds, ranks as f64 * crowded * (encode + update) / seconds)
    });
    let record = Record {
        r#type: "ranks",
        ranks: size,
        threads: rayon::current_num_threads(),
        n: args.features,
        patterns: args.patterns,
        rows: args.rows,
        cols: args.cols,
        alpha: args.alpha,
        repeats: args.repeats,
        fibers: own.fibers(),
        alone_seconds: alone,
        beside_seconds: beside,
        together_seconds: together,
        encode_seconds: encode,
        update_seconds: update,
        speedup,
        beside_speedup,
        exchanges: traffic.exchanges,
        sent_bytes: traffic.bytes,
        exchange_seconds: median(exchange),
        sums,
        latency,
        seconds_per_byte,
        extended: extended.to_vec(),
        billion_seconds: model(1000, 1e6),
    };
    let mut stdout = io::stdout().lock();
    if args.json {
        serde_json::to_writer(&mut stdout, &record)?;
        writeln!(stdout)?;
    } else {
        write!(stdout, "{}", in_words(&record))?;
    }
    Ok(())
}

/// One step, with memory that is warm, and its time.
fn timed(working: &mut Learner, learner: &Learner, tensor: &Tensor<'_>) -> anyhow::Result<(Step, Duration)> {
    working.clone_from(learner);
    let begun = Instant::now();
    let step = working.learn(tensor)?;
    Ok((step, begun.elapsed()))
}

/// All ranks wait for each other.
fn meet(team: &Arc<dyn Team>) {
    team.max(&mut [0]);
}

/// The longest time of all ranks, in seconds.
fn longest(team: &Arc<dyn Team>, time: Duration) -> f64 {
    gather(&**team, time.as_secs_f64()).into_iter().fold(0.0, f64::max)
}

/// Bytes and seconds of sums over all ranks, up to some length.
fn sums(team: &Arc<dyn Team>, repeats: usize, most: usize) -> Vec<(usize, f64)> {
    let lengths = std::iter::successors(Some(1_usize), |length| Some(length * 8));
    let lengths = lengths.take_while(|length| *length <= (most / 8).max(1 << 15));
    let time = |length: usize| {
        let mut numbers = vec![1; length];
        let times = (0..5 * repeats).map(|_| {
            meet(team);
            let begun = Instant::now();
            team.sum(&mut numbers);
            let time = begun.elapsed();
            numbers.fill(1);
            longest(team, time)
        });
        (8 * length, median(times.collect()))
    };
    lengths.map(time).collect()
}

/// Time of a message and of a byte, such that the relative errors of all sums are least.
fn fit(ranks: usize, sums: &[(usize, f64)]) -> (f64, f64) {
    let (steps, shared) = (2.0 * (ranks as f64).log2().ceil(), 2.0 * (ranks - 1) as f64 / ranks as f64);
    // Weighted least squares of t = a x + b y.
    let mut s = [0.0; 5];
    for (bytes, time) in sums {
        let (x, y) = (steps / time, shared * *bytes as f64 / time);
        [x * x, x * y, y * y, x, y].iter().zip(&mut s).for_each(|(term, sum)| *sum += term);
    }
    let [xx, xy, yy, x, y] = s;
    let determinant = xx * yy - xy * xy;
    if determinant > 0.0 {
        ((x * yy - y * xy) / determinant, (y * xx - x * xy) / determinant)
    } else {
        (0.0, 0.0)
    }
}

fn in_words(record: &Record) -> String {
    let milliseconds = |seconds: f64| format!("{:10.3} ms", 1e3 * seconds);
    let many = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let mut text = format!(
        "{} of {}, {} fibers each ({} features, {} patterns), {} repeats\n",
        many(record.ranks, "rank"),
        many(record.threads, "thread"),
        record.fibers,
        record.n,
        record.patterns,
        record.repeats
    );
    let mut line = |what: &str, seconds: f64| text += &format!("  {what:<36}{}\n", milliseconds(seconds));
    line("a step of one rank alone", record.alone_seconds);
    line("of each, beside the others", record.beside_seconds);
    line("of all together", record.together_seconds);
    line("  of which exchanges, waits included", record.exchange_seconds);
    text += &format!(
        "  {:.2} times the work of one in its time; beside each other {:.2} times\n",
        record.speedup, record.beside_speedup
    );
    if record.ranks == 1 {
        return text + "  start it with mpirun -n 2 or more to see what exchanges cost\n";
    }
    text += &format!(
        "  {} exchanges of {:.3} MB in all; a message takes {:.1} us, a megabyte {:.2} ms\n\n",
        record.exchanges,
        record.sent_bytes as f64 / 1e6,
        1e6 * record.latency,
        1e9 * record.seconds_per_byte
    );
    text +=
        &format!("  {:>10}{:>14}{:>12}   (modelled, shares as large as here)\n", "ranks", "step", "speed-up");
    for (ranks, seconds, speedup) in &record.extended {
        text += &format!("  {ranks:>10}{:>14}{speedup:>12.1}\n", milliseconds(*seconds).trim());
    }
    text + &format!("  a step of 1e9 fibers on 1,000 ranks: {:.2} s\n", record.billion_seconds)
}
