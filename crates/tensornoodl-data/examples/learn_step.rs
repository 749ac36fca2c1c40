//! Prints two times in seconds for each tensor of a planted stream: that of `Tensor::from_fibers`, which checks every
//! value, and that of `Model::learn`. `bindings/python/benchmarks/overhead.py` compares `partial_fit` of the Python
//! package with them. The environment variable `RAYON_NUM_THREADS` sets the number of threads.
//!
//! ```text
//! learn_step FEATURES PATTERNS ROWS COLS ALPHA SEED STEPS
//! ```

#![allow(clippy::print_stdout)]

use std::time::Instant;

use tensornoodl::synthetic::{Plan, Planted};
use tensornoodl::{Learner, Params, Tensor};
use tensornoodl_data::{Axis, Card, Model, Query, Value};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [features, patterns, rows, cols, alpha, seed, steps] = arguments.as_slice() else {
        return Err("usage: learn_step FEATURES PATTERNS ROWS COLS ALPHA SEED STEPS".into());
    };
    let alpha = alpha.parse()?;
    let plan = Plan {
        features: features.parse()?,
        patterns: patterns.parse()?,
        rows: rows.parse()?,
        cols: cols.parse()?,
        alpha,
        beta: alpha,
        seed: seed.parse()?,
        ..Plan::default()
    };
    let planted = Planted::new(plan.clone())?;
    let learner = Learner::new(planted.start(planted.paper_distance())?, Params::default())?;

    let [feature, row, col] = ["1", "2", "3"].map(|axis| Axis::Bin(axis.into(), 1.0));
    let query = Query {
        feature,
        row,
        col,
        step: None,
        value: Value::Sum("value".into()),
        average_over: None,
        keep_rows: None,
        max_features: None,
        filters: Vec::new(),
        square: false,
        names: None,
        groups: None,
    };
    let labels = [plan.features, plan.rows, plan.cols];
    let labels = labels.map(|length| (0..length).map(|at| at.to_string()).collect());
    let mut model = Model::with_card(learner, Card::new(query, labels));

    for step in 1..=steps.parse()? {
        let made = planted.tensor(step).tensor;
        let start = Instant::now();
        let tensor = Tensor::from_fibers(made.shape(), made.values(), made.places())?;
        let checked = start.elapsed().as_secs_f64();
        model.learn(&tensor)?;
        println!("{checked} {}", start.elapsed().as_secs_f64() - checked);
    }
    Ok(())
}
