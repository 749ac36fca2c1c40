//! Time of each stage at sizes of the paper (n = 300): `cargo bench -p benches`.
//!
//! These benchmarks compare two versions of the code: run `cargo bench -p benches -- --save-baseline before`, change
//! the code, and run `cargo bench -p benches -- --baseline before`. Times on a shared machine are unreliable;
//! `noodl-lab bench limit` measures ratios within one run instead.

#![allow(missing_docs, clippy::unwrap_used)]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tensornoodl::synthetic::{Plan, Planted};
use tensornoodl::{Learner, Params, Rule};

/// Cells of the paper's grid: number of patterns, J = K, alpha = beta.
const CELLS: [(usize, usize, f64); 3] = [(600, 100, 0.05), (150, 300, 0.01), (150, 100, 0.01)];

fn stages(criterion: &mut Criterion) {
    for (patterns, size, alpha) in CELLS {
        let plan = Plan { patterns, rows: size, cols: size, alpha, beta: alpha, ..Plan::default() };
        let planted = Planted::new(plan).unwrap();
        let tensor = planted.tensor(1).tensor;
        let cell = format!("m {patterns}, {size} x {size}, {alpha}");
        let mut group = criterion.benchmark_group(&cell);
        group.sample_size(20).throughput(Throughput::Elements(tensor.fibers() as u64));
        for (phase, distance) in [("first", planted.paper_distance()), ("late", 1e-6)] {
            let start = planted.start(distance).unwrap();
            for (rule, name) in [(Rule::Adaptive, "adaptive"), (Rule::Paper { eta_a: 40.0 }, "paper")] {
                let learner = Learner::new(start.clone(), Params { rule, ..Params::default() }).unwrap();
                let mut working = learner.clone();
                group.bench_function(BenchmarkId::new(format!("learn, {name}"), phase), |bench| {
                    bench.iter(|| {
                        working.clone_from(&learner);
                        working.learn(&tensor).unwrap()
                    });
                });
            }
            let learner = Learner::new(start, Params::default()).unwrap();
            group.bench_function(BenchmarkId::new("encode (I)", phase), |bench| {
                bench.iter(|| learner.encode(black_box(&tensor)).unwrap());
            });
            let codes = learner.encode(&tensor).unwrap();
            group.bench_function(BenchmarkId::new("untangle (II)", phase), |bench| {
                bench.iter(|| black_box(&codes).untangle());
            });
        }
    }
}

criterion_group!(benches, stages);
criterion_main!(benches);
