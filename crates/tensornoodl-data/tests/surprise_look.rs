#![allow(clippy::unwrap_used, missing_docs)]
mod common;
use common::query;
use tensornoodl::{DiscoverParams, Learner, Params, Surprise, Tensor};
use tensornoodl_data::{Query, table};

fn shares(name: &str, p: &[f64]) {
    let share = |limit: f64| p.iter().filter(|p| **p < limit).count() as f64 / p.len() as f64;
    println!(
        "{name:28} {:7} | {:.4} {:.4} {:.4} {:.4} {:.4} {:.4}",
        p.len(),
        share(0.0001),
        share(0.001),
        share(0.01),
        share(0.05),
        share(0.1),
        share(0.5)
    );
}

fn thin(tensors: &[Tensor<'static>], mode: &str) -> Vec<Tensor<'static>> {
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut h = state;
        h = (h ^ h >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        h = (h ^ h >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (h ^ h >> 31) >> 33
    };
    let mut steps: Vec<Vec<(usize, usize, usize, f64)>> = vec![Vec::new(); tensors.len()];
    for (step, tensor) in tensors.iter().enumerate() {
        for (at, place) in tensor.places().iter().enumerate() {
            for (f, y) in tensor.entries(at) {
                for _ in 0..y as usize {
                    let to = match mode {
                        "dealt" => random() as usize % tensors.len(),
                        _ => step,
                    };
                    if mode == "half" && random() % 2 == 0 {
                        continue;
                    }
                    steps[to].push((f as usize, place.row as usize, place.col as usize, 1.0));
                }
            }
        }
    }
    steps.iter().map(|e| Tensor::from_triplets(tensors[0].shape(), e).unwrap()).collect()
}

#[test]
fn look() {
    let which = std::env::var("TABLE").unwrap();
    let data = std::env::var("NOODL_DATA").unwrap();
    let (path, q, step) = match which.as_str() {
        "tickets" => ("/tmp/tickets0.csv".to_string(), query("category", "agent", "product"), "week(time)"),
        "ticketsday" => ("/tmp/tickets0.csv".to_string(), query("category", "agent", "product"), "day(time)"),
        "enron" => (format!("{data}/enron_emails.csv"), query("weekhour(time)", "from", "to"), "month(time)"),
        "enronweek" => (format!("{data}/enron_emails.csv"), query("hour(time)", "from", "to"), "week(time)"),
        "school" => (
            format!("{data}/school_contacts.csv.gz"),
            query("other", "person", "day(time)"),
            "every(time,1h)",
        ),
        "school20" => (
            format!("{data}/school_contacts.csv.gz"),
            query("other", "person", "day(time)"),
            "every(time,20min)",
        ),
        "schoolpairs" => (
            format!("{data}/school_contacts.csv.gz"),
            query("slot(time,5min)", "person", "other"),
            "every(time,1h)",
        ),
        _ => (
            format!("{data}/nba_2018-19_shots.csv.gz"),
            query("grid(loc_x,loc_y,12x10,-250:250,-52.5:417.5)", "player", "opponent"),
            "week(date)",
        ),
    };
    let events =
        table::read(std::path::Path::new(&path), Query { step: Some(step.parse().unwrap()), ..q }).unwrap();
    let tensors: Vec<Tensor<'static>> = (0..events.steps()).map(|s| events.tensor(s).unwrap()).collect();
    println!("{which}: shape {} steps {} events {}", events.shape(), events.steps(), events.sum());
    for mode in ["real", "half", "dealt"] {
        let stream = thin(&tensors, mode);
        let begun = std::time::Instant::now();
        let mut learner =
            Learner::for_counts(stream[0].shape().features, Params::default(), DiscoverParams::default())
                .unwrap();
        let mut all: Vec<Surprise> = Vec::new();
        let mut listed = 0;
        let mut times = [0.0; 3];
        for (step, tensor) in stream.iter().enumerate() {
            if step >= stream.len().min(20) / 4 {
                let begun = std::time::Instant::now();
                let s = learner.surprises(tensor, |y| y).unwrap();
                times[2] += begun.elapsed().as_secs_f64();
                listed += tensornoodl::significant(&s).len();
                all.extend(s);
            }
            let done = learner.learn(tensor).unwrap();
            times[0] += done.times.encode.as_secs_f64();
            times[1] += done.times.search.as_secs_f64();
        }
        println!(
            "-- {mode}: {:?}, patterns {}, listed {listed}, times {times:?}",
            begun.elapsed(),
            learner.dictionary().patterns()
        );
        shares("  total", &all.iter().map(|it| it.p_total).collect::<Vec<_>>());
        let big: Vec<f64> = all.iter().filter(|it| it.expected > 5.0).map(|it| it.p_total).collect();
        shares("  total, expected > 5", &big);
        let with: Vec<&Surprise> = all.iter().filter(|it| it.events > 0.0).collect();
        shares("  shape", &with.iter().map(|it| it.p_shape).collect::<Vec<_>>());
        shares(
            "  shape, 1 event",
            &with.iter().filter(|it| it.events == 1.0).map(|it| it.p_shape).collect::<Vec<_>>(),
        );
        shares(
            "  shape, events > 5",
            &with.iter().filter(|it| it.events > 5.0).map(|it| it.p_shape).collect::<Vec<_>>(),
        );
        if mode == "real" {
            all.sort_by(|a, b| a.p().total_cmp(&b.p()));
            for it in &all[..5] {
                println!(
                    "   {} {} {:?}",
                    events.rows.names[it.place.row as usize], events.cols.names[it.place.col as usize], it
                );
            }
        }
    }
}
