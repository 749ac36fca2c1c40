//! `noodl-lab bench ranks`: the time of a step of several ranks, and a model of the time on more ranks.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use tensornoodl::parallel::{Solo, Traffic, gather};
use tensornoodl::synthetic::{Plan, Planted};
use tensornoodl::{Learner, Params, Step, Team, Tensor};
use tensornoodl_cli::memory;

use crate::cmd::bench::timing::median;

const EXAMPLES: &str = "\
Examples:
  mpirun -n 2 noodl-lab bench ranks --patterns 300 --rows 300 --cols 300 --threads 1

All shares have the same size, so the tensor grows with the number of ranks. Times are medians over the repeats. A repeat measures the \
first rank alone, all ranks at the same time without exchanges, and all ranks together. Times on more ranks are a model: a sum over p \
ranks takes 2 log2(p) alpha + 2 (p - 1) / p beta bytes, with alpha and beta fitted to sums of many lengths.";

/// Time one step of the ranks of an MPI job, and model the time on more ranks.
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
    #[arg(long, default_value_t = 300)]
    rows: usize,
    /// Cols of the share of each rank.
    #[arg(long, default_value_t = 300)]
    cols: usize,
    /// Probability that an entry of the row factor, and of the col factor, is not zero; above 0 and at most 1.
    #[arg(long, default_value_t = 0.05)]
    alpha: f64,
    /// Seed of all random draws.
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Number of threads of each rank, at least 1 [default: the ranks of a machine share its cores].
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Number of times that each measurement is made, at least 1.
    #[arg(long, default_value_t = 9, value_name = "N")]
    pub(crate) repeats: usize,
    /// Write one JSON object.
    #[arg(long)]
    json: bool,
}

/// Number of tensors to learn from before anything is timed, so that patterns are roughly known.
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
    /// Number of fibers of a share.
    fibers: usize,
    alone_seconds: f64,
    /// Time of the slowest rank.
    beside_seconds: f64,
    together_seconds: f64,
    /// Time of the first rank alone for codes, which grows with the fibers.
    encode_seconds: f64,
    /// Time of the first rank alone for the update, which every rank computes.
    update_seconds: f64,
    /// Work of all ranks together in the time of one rank alone, in units of its work.
    speedup: f64,
    beside_speedup: f64,
    /// Number of exchanges of a step.
    exchanges: u64,
    sent_bytes: u64,
    exchange_seconds: f64,
    /// Bytes and seconds of sums over all ranks.
    sums: Vec<(usize, f64)>,
    /// Seconds of a message, fitted to the sums.
    latency: f64,
    /// Seconds of a byte, fitted to the sums.
    seconds_per_byte: f64,
    /// Modelled for more ranks, with shares of the same size: number of ranks, seconds of a step, speed-up.
    extended: Vec<(usize, f64, f64)>,
    /// Modelled seconds of a step of 1e9 fibers on 1,000 ranks.
    billion_seconds: f64,
}

pub(crate) fn run(args: &Args, team: &Arc<dyn Team>) -> anyhow::Result<()> {
    let size = team.size();
    args.plan(args.cols.saturating_mul(size)).check()?;
    memory::check_all(&**team, 2.0 * args.plan(args.cols).bytes())?;
    let bench = Bench::new(args, team)?;
    let times = bench.measure()?;
    let sums = sums(team, args.repeats, times.traffic.bytes as usize);
    if team.rank() > 0 {
        return Ok(());
    }
    let record = bench.record(times, sums);
    let mut stdout = io::stdout().lock();
    if args.json {
        serde_json::to_writer(&mut stdout, &record)?;
        writeln!(stdout)?;
    } else {
        write!(stdout, "{}", in_words(&record))?;
    }
    Ok(())
}

impl Args {
    fn plan(&self, cols: usize) -> Plan {
        Plan {
            features: self.features,
            patterns: self.patterns,
            rows: self.rows,
            cols,
            alpha: self.alpha,
            beta: self.alpha,
            seed: self.seed,
            ..Plan::default()
        }
    }
}

/// Learners and tensors, ready to be timed.
struct Bench<'a> {
    args: &'a Args,
    team: &'a Arc<dyn Team>,
    /// Learns alone, from a tensor that has the size of a share.
    solo: Learner,
    own: Tensor<'static>,
    /// Learns as a rank of the team, from a share of a tensor.
    learner: Learner,
    share: Tensor<'static>,
}

/// Times of all repeats, in seconds.
#[derive(Default)]
struct Times {
    alone: Vec<f64>,
    beside: Vec<f64>,
    together: Vec<f64>,
    encode: Vec<f64>,
    update: Vec<f64>,
    exchange: Vec<f64>,
    /// The traffic of one step of all ranks together.
    traffic: Traffic,
}

impl<'a> Bench<'a> {
    fn new(args: &'a Args, team: &'a Arc<dyn Team>) -> anyhow::Result<Bench<'a>> {
        // Both streams have the same patterns.
        let small = Planted::new(args.plan(args.cols))?;
        let large = Planted::new(args.plan(args.cols * team.size()))?;
        let mut learner = Learner::new(small.start(small.paper_distance())?, Params::default())?;
        learner.join(Arc::clone(team));
        while learner.steps() < TENSORS {
            learner.learn(&large.rank_tensor(&**team, learner.steps() + 1).tensor)?;
        }
        let own = small.tensor(TENSORS + 1).tensor;
        let share = large.rank_tensor(&**team, TENSORS + 1).tensor;
        let mut solo = learner.clone();
        solo.join(Arc::new(Solo));
        Ok(Bench { args, team, solo, own, learner, share })
    }

    /// Times steps of three kinds in each repeat: of the first rank alone, of all ranks at the same time without
    /// exchanges, and of all ranks together.
    fn measure(&self) -> anyhow::Result<Times> {
        let (team, mut times) = (self.team, Times::default());
        let mut working = self.learner.clone();
        for round in 0..=self.args.repeats {
            let first = match team.rank() {
                0 => Some(timed(&mut working, &self.solo, &self.own)?),
                _ => None,
            };
            let alone = longest(team, first.as_ref().map_or(Duration::ZERO, |(_, time)| *time));
            let (_, time) = timed(&mut working, &self.solo, &self.own)?;
            let beside = longest(team, time);
            meet(team);
            let before = team.traffic();
            let (_, time) = timed(&mut working, &self.learner, &self.share)?;
            times.traffic = team.traffic() - before;
            let together = longest(team, time);
            // The first round warms the caches.
            if round > 0 {
                times.alone.push(alone);
                times.beside.push(beside);
                times.together.push(together);
                times.exchange.push(times.traffic.time.as_secs_f64());
                times.encode.extend(first.as_ref().map(|(step, _)| step.times.encode.as_secs_f64()));
                times.update.extend(first.as_ref().map(|(step, _)| step.times.update.as_secs_f64()));
            }
        }
        Ok(times)
    }

    /// Returns the medians, and what the model says of more ranks.
    fn record(&self, times: Times, sums: Vec<(usize, f64)>) -> Record {
        let (args, size, fibers) = (self.args, self.team.size(), self.own.fibers());
        let Times { alone, beside, together, encode, update, exchange, traffic } = times;
        let (latency, seconds_per_byte) = fit(size, &sums);
        let speedup = |spread: &[f64]| {
            let pairs = alone.iter().zip(spread).map(|(alone, spread)| size as f64 * alone / spread);
            median(pairs.collect())
        };
        let (speedup, beside_speedup) = (speedup(&together), speedup(&beside));
        let [alone, beside, together, encode, update] = [alone, beside, together, encode, update].map(median);
        // Ranks of a machine share memory bandwidth and caches; the model assumes that this stays so.
        let crowded = (beside / alone).max(1.0);
        let model = |ranks: usize, share: f64| {
            let (steps, shared) = ((ranks as f64).log2().ceil(), (ranks - 1) as f64 / ranks as f64);
            let exchange = 2.0 * steps * latency * traffic.exchanges as f64
                + 2.0 * shared * seconds_per_byte * traffic.bytes as f64;
            crowded * (encode * share / fibers as f64 + update) + exchange
        };
        let extended = [2, 4, 16, 64, 256, 1024].map(|ranks: usize| {
            let seconds = model(ranks, fibers as f64);
            (ranks, seconds, ranks as f64 * crowded * (encode + update) / seconds)
        });
        Record {
            r#type: "ranks",
            ranks: size,
            threads: rayon::current_num_threads(),
            n: args.features,
            patterns: args.patterns,
            rows: args.rows,
            cols: args.cols,
            alpha: args.alpha,
            repeats: args.repeats,
            fibers,
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
        }
    }
}

/// Learns one step with a copy of a learner. Returns the step and its time.
fn timed(working: &mut Learner, learner: &Learner, tensor: &Tensor<'_>) -> anyhow::Result<(Step, Duration)> {
    working.clone_from(learner);
    let begun = Instant::now();
    let step = working.learn(tensor)?;
    Ok((step, begun.elapsed()))
}

/// Waits for all ranks.
fn meet(team: &Arc<dyn Team>) {
    team.max(&mut [0]);
}

/// Returns the longest time of all ranks, in seconds.
fn longest(team: &Arc<dyn Team>, time: Duration) -> f64 {
    gather(&**team, time.as_secs_f64()).into_iter().fold(0.0, f64::max)
}

/// Returns bytes and seconds of sums over all ranks, for lengths up to `most` bytes.
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

/// Fits the seconds of a message and of a byte to sums, such that the squared relative errors are smallest.
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
    line("of each rank, all at the same time", record.beside_seconds);
    line("of all ranks together", record.together_seconds);
    line("  of which exchanges, waits included", record.exchange_seconds);
    text += &format!(
        "  {:.2} times the work of one rank in its time; without exchanges {:.2} times\n",
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
    text += &format!(
        "  {:>10}{:>14}{:>12}   (modelled, with shares of this size)\n",
        "ranks", "step", "speed-up"
    );
    for (ranks, seconds, speedup) in &record.extended {
        text += &format!("  {ranks:>10}{:>14}{speedup:>12.1}\n", milliseconds(*seconds).trim());
    }
    text + &format!("  a step of 1e9 fibers on 1,000 ranks: {:.2} s\n", record.billion_seconds)
}
