//! Model files: a model that is written and read has the same bits, and a damaged file is refused.

#![allow(clippy::unwrap_used)]

mod common;

use tensornoodl::synthetic::{Plan, Planted};
use tensornoodl::{DiscoverParams, Learner, Params};
use tensornoodl_data::{Counter, Events, Model, Query, Recipe, Value, table};

const STEPS: u64 = 6;

fn query() -> Query {
    Query { step: Some("t".parse().unwrap()), value: Value::Sum("v".into()), ..common::query("f", "r", "c") }
}

/// Returns a planted stream, counted from a table of events.
fn events() -> Events {
    let plan = Plan {
        features: 30,
        patterns: 6,
        rows: 20,
        cols: 25,
        alpha: 0.2,
        beta: 0.2,
        late: 2,
        late_step: 3,
        ..Plan::default()
    };
    let planted = Planted::new(plan).unwrap();
    let mut text = String::from("t,f,r,c,v\n");
    for t in 1..=STEPS {
        let tensor = planted.tensor(t).tensor;
        for (fiber, place) in tensor.places().iter().enumerate() {
            for (feature, value) in tensor.fiber(fiber).iter().enumerate() {
                text += &format!("{t},{feature},r{},c{},{value:e}\n", place.row, place.col);
            }
        }
    }
    let mut counter = Counter::new(query());
    table::csv(text.as_bytes(), "planted.csv", &mut counter).unwrap();
    counter.finish("planted.csv").unwrap()
}

fn fresh(events: &Events) -> Model {
    let learner = Learner::from_nothing(30, Params::default(), DiscoverParams::default()).unwrap();
    Model::new(learner, events, Recipe::default(), "planted.csv", query(), "noodl learn planted.csv", 0)
}

fn learn_all(model: &mut Model, events: &Events) {
    for step in model.card.history.len()..events.steps() {
        model.learn(&events.tensor(step).unwrap()).unwrap();
    }
}

#[test]
fn a_model_that_is_read_continues_with_the_same_bits() {
    let events = events();
    let mut whole = fresh(&events);
    learn_all(&mut whole, &events);
    assert_eq!(whole.learner.dictionary().patterns(), 6);
    assert_eq!(whole.factors.len(), STEPS as usize);
    for stop in 0..STEPS as usize {
        let mut model = fresh(&events);
        for step in 0..stop {
            model.learn(&events.tensor(step).unwrap()).unwrap();
        }
        let mut again = Model::from_bytes(&model.to_bytes().unwrap(), "m").unwrap();
        assert!(again == model, "stopped after {stop}");
        learn_all(&mut again, &events);
        assert!(again == whole, "stopped after {stop}");
        assert!(again.to_bytes().unwrap() == whole.to_bytes().unwrap(), "stopped after {stop}");
    }
}

#[test]
fn damaged_models_are_refused() {
    let events = events();
    let mut model = fresh(&events);
    learn_all(&mut model, &events);
    let bytes = model.to_bytes().unwrap();
    for length in (0..bytes.len()).step_by(997).chain([bytes.len() - 1]) {
        let error = Model::from_bytes(&bytes[..length], "m.safetensors").unwrap_err().to_string();
        assert!(error.starts_with("m.safetensors cannot be read as a model: "), "{error}");
    }
    assert!(Model::from_bytes(b"time,from,to\n1,2,3\n", "m").is_err());
    // With any byte changed, the result is an error or a usable model, never a panic.
    let (mut refused, mut usable) = (0, 0);
    for at in (0..bytes.len()).step_by(61) {
        for flip in [1, 0x80] {
            let mut wrong = bytes.clone();
            wrong[at] ^= flip;
            match Model::from_bytes(&wrong, "m") {
                Err(_) => refused += 1,
                Ok(mut model) => {
                    usable += 1;
                    if usable % 50 == 0 {
                        // An error is fine, and so are meaningless patterns.
                        let _ = model.learn(&events.tensor(0).unwrap());
                    }
                }
            }
        }
    }
    assert!(refused > 100 && usable > 100, "{refused} {usable}");
}

#[test]
fn another_format_version_is_refused() {
    let events = events();
    let mut model = fresh(&events);
    model.card.format = 1;
    let error = Model::from_bytes(&model.to_bytes().unwrap(), "m").unwrap_err().to_string();
    assert_eq!(error, "m cannot be read as a model: its format is 1, this program knows 2");
}
