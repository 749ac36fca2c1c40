//! Model files: a model that is written and read has the same bits, and a damaged file is refused.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use tensornoodl::synthetic::{Plan, Planted};
use tensornoodl::{DiscoverParams, Learner, Params, Shape, Tensor};
use tensornoodl_data::{Card, Counter, Events, Model, Query, Recipe, Value, table};

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

/// Writes the checksum of the bytes into a model file, as the documentation of the file describes it. Returns whether
/// the file has a place for it.
fn seal(bytes: &mut [u8]) -> bool {
    let Ok((header, metadata)) = SafeTensors::read_metadata(bytes) else { return false };
    let Some(info) = metadata.info("checksum").filter(|info| info.data_offsets.1 - info.data_offsets.0 == 8)
    else {
        return false;
    };
    let start = 8 + header + info.data_offsets.0;
    bytes[start..start + 8].fill(0);
    let checksum = u64::from(crc32fast::hash(bytes));
    bytes[start..start + 8].copy_from_slice(&checksum.to_le_bytes());
    true
}

/// Returns a model file with other tensors and another entry of metadata.
fn rewritten(
    bytes: &[u8],
    entry: &str,
    change: impl FnOnce(&mut BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>),
) -> Vec<u8> {
    let tensors = SafeTensors::deserialize(bytes).unwrap();
    let owned = |(name, view): (String, TensorView<'_>)| {
        (name, (view.dtype(), view.shape().to_vec(), view.data().to_vec()))
    };
    let mut tensors: BTreeMap<_, _> = tensors.tensors().into_iter().map(owned).collect();
    change(&mut tensors);
    let views = tensors
        .iter()
        .map(|(name, (dtype, shape, bytes))| (name, TensorView::new(*dtype, shape.clone(), bytes).unwrap()));
    let metadata = HashMap::from([("tensornoodl".to_owned(), entry.to_owned())]);
    let mut bytes = safetensors::serialize(views, Some(metadata)).unwrap();
    seal(&mut bytes);
    bytes
}

const HEAD: &str = r#"{"format":3,"kind":"exact"}"#;

#[test]
fn patterns_keep_their_identities() {
    let events = events();
    let mut model = fresh(&events);
    learn_all(&mut model, &events);
    let ids: Vec<u64> = model.identities().iter().map(|identity| identity.id).collect();
    assert_eq!(ids, [1, 2, 3, 4, 5, 6]);
    // Two patterns appear in the third step.
    let first: Vec<usize> = (0..6).map(|pattern| model.first_step(pattern)).collect();
    assert_eq!(first, [0, 0, 0, 0, 2, 2]);
    model.set_name(2, "caf\u{e9}");
    let again = Model::from_bytes(&model.to_bytes().unwrap(), "m").unwrap();
    assert!(again == model);
    assert_eq!((again.identities()[2].name.as_str(), again.identities()[3].name.as_str()), ("caf\u{e9}", ""));
}

/// Returns a stream with few events in each step, in which a learner finds patterns that it may lose again.
fn bursts() -> (Events, Model) {
    let (features, rows, cols) = (9, 12, 6);
    let mut draw = 7_u64;
    let mut below = |end: u64| {
        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (draw >> 33) % end
    };
    let mut text = String::from("t,f,r,c,v\n");
    for t in 100..140 {
        for _ in 0..200 {
            let team = below(3);
            let (row, col) = (4 * team + below(4), below(cols));
            let feature = if below(10) == 0 { below(features) } else { 3 * team + below(3).min(below(3)) };
            text += &format!("{t},{feature},{row},{col},1\n");
        }
    }
    text += &format!("100,{},{},0,1\n", features - 1, rows - 1);
    let mut counter = Counter::new(query());
    table::csv(text.as_bytes(), "bursts.csv", &mut counter).unwrap();
    let events = counter.finish("bursts.csv").unwrap();
    let learner = Learner::from_nothing(9, Params::default(), DiscoverParams::default()).unwrap();
    let model = Model::new(learner, &events, Recipe::default(), "bursts.csv", query(), "", 0);
    (events, model)
}

#[test]
fn lost_patterns_are_archived() {
    let (events, mut model) = bursts();
    let mut known: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for step in 0..events.steps() {
        model.learn(&events.tensor(step).unwrap()).unwrap();
        assert_eq!(model.identities().len(), model.learner.dictionary().patterns());
        let ids: BTreeSet<u64> = model.identities().iter().map(|identity| identity.id).collect();
        for lost in model.archive() {
            assert!(!ids.contains(&lost.identity.id) && lost.first <= lost.last && lost.last <= step);
            assert_eq!(known[&lost.identity.id], lost.pattern);
        }
        for (pattern, identity) in model.identities().iter().enumerate() {
            known.insert(identity.id, model.learner.dictionary().pattern(pattern).to_vec());
        }
    }
    assert_eq!(known.len(), model.identities().len() + model.archive().len());
    assert!(Model::from_bytes(&model.to_bytes().unwrap(), "m").unwrap() == model);
}

#[test]
fn a_retired_pattern_returns_with_its_identity_and_its_name() {
    let season = |seed: u64| {
        let plan = Plan { features: 12, patterns: 3, rows: 10, cols: 10, seed, ..Plan::default() };
        Planted::new(Plan { alpha: 0.4, beta: 0.4, ..plan }).unwrap()
    };
    let names = |count: usize| (0..count).map(|at| at.to_string()).collect::<Vec<String>>();
    let learner = Learner::from_nothing(12, Params::default(), DiscoverParams::default()).unwrap();
    let mut model = Model::with_card(learner, Card::new(query(), [names(12), names(10), names(10)]));
    model.card.steps = (1..=75).map(|week| format!("week {week}")).collect();
    let learn = |model: &mut Model, seed: u64, weeks: std::ops::RangeInclusive<u64>| {
        weeks.for_each(|week| drop(model.learn(&season(seed).tensor(week).tensor).unwrap()));
    };
    learn(&mut model, 1, 1..=10);
    model.set_name(0, "night shift");
    let named = model.identities()[0].clone();
    learn(&mut model, 2, 11..=65);
    let archived = model.archive().iter().find(|it| it.identity == named).unwrap();
    assert!(archived.retired && (8..12).contains(&archived.last), "{archived:?}");
    assert!(!model.identities().contains(&named));
    let news = model.news().join(". ");
    assert!(news.contains("that were not seen for long left the dictionary"), "{news}");
    model = Model::from_bytes(&model.to_bytes().unwrap(), "m").unwrap();
    learn(&mut model, 1, 66..=75);
    let number = model.identities().iter().position(|identity| *identity == named).unwrap();
    assert!(model.archive().iter().all(|it| it.identity != named));
    assert!(model.card.history.iter().any(|record| record.returned.contains(&named.id)));
    let news = model.news().join(". ");
    let returned = format!("pattern {} had left the dictionary, and returned in week 6", number + 1);
    assert!(news.contains(&returned), "{news}");
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
        assert!(error.ends_with("damaged; restore it from a copy, or learn it again)"), "{error}");
    }
    assert!(Model::from_bytes(b"time,from,to\n1,2,3\n", "m").is_err());
    // Any changed byte is noticed. The header and the data are aligned to eight bytes.
    let header = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    for at in (0..header).chain((header..bytes.len()).step_by(61)) {
        for bit in 0..8 {
            let mut wrong = bytes.clone();
            wrong[at] ^= 1 << bit;
            let error = Model::from_bytes(&wrong, "m").unwrap_err().to_string();
            let noticed = error.starts_with("m is damaged: its checksum is ")
                && error.ends_with("; restore it from a copy, or learn it again");
            assert!(noticed || at < header, "{at}: {error}");
        }
    }
}

/// Changes bytes of a model file. Returns how many of these files are refused, and how many are models. Each of them
/// is one of both, never a panic.
fn damage(bytes: &[u8], steps: usize, prepare: impl Fn(&mut [u8]) -> bool) -> (usize, usize) {
    let (mut refused, mut usable) = (0, 0);
    for at in (0..bytes.len()).step_by(steps) {
        for flip in [1, 0x10, 0x80] {
            let mut wrong = bytes.to_vec();
            wrong[at] ^= flip;
            if !prepare(&mut wrong) {
                continue;
            }
            match Model::from_bytes(&wrong, "m") {
                Err(error) => {
                    assert!(!error.to_string().contains("checksum is"), "{error}");
                    refused += 1;
                }
                Ok(mut model) => {
                    usable += 1;
                    if usable % 50 == 0 {
                        // An error is fine, and so are meaningless patterns.
                        let shape = Shape { features: model.card.features.len(), rows: 3, cols: 3 };
                        let entries: Vec<_> =
                            (0..shape.features).map(|at| (at, at % 3, at % 2, 1.0)).collect();
                        let steps = model.card.history.len() + 1;
                        model.card.steps.resize(steps.max(model.card.steps.len()), "next".into());
                        let _ = model.learn(&Tensor::from_triplets(shape, &entries).unwrap());
                        let again = Model::from_bytes(&model.to_bytes().unwrap(), "again").unwrap();
                        assert!(again.identities() == model.identities());
                    }
                }
            }
        }
    }
    (refused, usable)
}

#[test]
fn hostile_models_are_refused_or_usable() {
    let events = events();
    let mut model = fresh(&events);
    learn_all(&mut model, &events);
    let (refused, usable) = damage(&model.to_bytes().unwrap(), 61, seal);
    assert!(refused > 100 && usable > 100, "{refused} {usable}");
    let (events, mut model) = bursts();
    learn_all(&mut model, &events);
    let (refused, usable) = damage(&model.to_bytes().unwrap(), 101, seal);
    assert!(refused > 100 && usable > 100, "{refused} {usable}");
    let (refused, usable) = damage(FORMAT_2, 1, |_| true);
    assert!(refused > 100 && usable > 100, "{refused} {usable}");
}

#[test]
fn texts_must_fit_their_ends() {
    let events = events();
    let mut model = fresh(&events);
    model.card.rows = vec!["\u{e9}".into(), "b".into()];
    let bytes = model.to_bytes().unwrap();
    let with_ends = |ends: &[i64]| {
        let data: Vec<u8> = ends.iter().flat_map(|end| end.to_le_bytes()).collect();
        let bytes = rewritten(&bytes, HEAD, |tensors| {
            tensors.insert("labels.rows.end".into(), (Dtype::I64, vec![ends.len()], data));
        });
        Model::from_bytes(&bytes, "m").map(|model| model.card.rows)
    };
    assert_eq!(with_ends(&[2, 3]).unwrap(), model.card.rows);
    assert_eq!(with_ends(&[0, 2, 2, 3]).unwrap(), ["", "\u{e9}", "", "b"]);
    for ends in [&[1, 3][..], &[3, 2], &[2], &[], &[2, 4], &[-1, 3], &[2, i64::MAX], &[i64::MIN, 3]] {
        let error = with_ends(ends).unwrap_err().to_string();
        assert_eq!(
            error, "m cannot be read as a model: labels.rows is not a list of texts in UTF-8",
            "{ends:?}"
        );
    }
}

#[test]
fn the_header_stays_small() {
    let events = events();
    let mut model = fresh(&events);
    let header = |model: &Model| u64::from_le_bytes(model.to_bytes().unwrap()[..8].try_into().unwrap());
    let before = header(&model);
    let labels = |name: &str| (0..200_000).map(|at| format!("a long label of the {name} {at}")).collect();
    (model.card.rows, model.card.cols, model.card.steps) = (labels("row"), labels("col"), labels("step"));
    model.card.row_groups = model.card.cols.clone();
    model.card.command = "noodl ".repeat(100_000);
    // Offsets have a few more digits.
    assert!(before < 4_000 && header(&model) < before + 500, "{before} {}", header(&model));
    assert!(Model::from_bytes(&model.to_bytes().unwrap(), "m").unwrap() == model);
}

#[test]
fn unknown_sections_are_left_out() {
    let events = events();
    let mut model = fresh(&events);
    learn_all(&mut model, &events);
    let bytes = model.to_bytes().unwrap();
    let more = rewritten(&bytes, r#"{"format":3,"kind":"exact","since":"later"}"#, |tensors| {
        tensors.insert("section.error_bars".into(), (Dtype::F32, vec![2, 3], vec![9; 24]));
        tensors.insert("section.surprises.text".into(), (Dtype::U8, vec![1], vec![255]));
        tensors.insert("later".into(), (Dtype::BF16, vec![0, 7], Vec::new()));
    });
    assert!(more.len() > bytes.len());
    assert!(Model::from_bytes(&more, "m").unwrap() == model);
    // A part that is not optional must be there, and must have its type.
    for name in ["patterns.id", "labels.cols.end", "history", "card", "learner", "rows.value", "checksum"] {
        let less = rewritten(&bytes, HEAD, |tensors| drop(tensors.remove(name)));
        let error = Model::from_bytes(&less, "m").unwrap_err().to_string();
        assert_eq!(error, format!("m cannot be read as a model: it has no tensor {name}"));
        let other = rewritten(&bytes, HEAD, |tensors| {
            let dtype = &mut tensors.get_mut(name).unwrap().0;
            *dtype = if *dtype == Dtype::U8 { Dtype::I8 } else { Dtype::U64 };
        });
        let error = Model::from_bytes(&other, "m").unwrap_err().to_string();
        assert!(error.contains(&format!("a model: {name} is ")), "{error}");
    }
}

/// A model of two patterns after three steps, written by the program before format 3.
const FORMAT_2: &[u8] = include_bytes!("models/format-2.safetensors");

#[test]
fn a_model_of_format_2_is_read() {
    let mut old = Model::from_bytes(FORMAT_2, "old").unwrap();
    let card = &old.card;
    assert_eq!((card.format, card.kind.as_str(), card.history.len()), (2, "exact", 3));
    assert_eq!(card.features, ["k0", "k1", "k2", "k3", "k4"]);
    assert_eq!(card.steps, ["2001-01", "2001-02", "2001-03"]);
    assert_eq!((card.rows[0].as_str(), card.row_groups[0].as_str()), ("ann", "red"));
    assert!(old.note().unwrap().starts_with("its format is 2, which has no checksum"));
    let ids: Vec<u64> = old.identities().iter().map(|identity| identity.id).collect();
    assert_eq!((ids, old.archive().len(), &old.evidence), (vec![1, 2], 0, &None));
    assert_eq!(old.leading(0, |factors| &factors.rows)[0].0, 2);
    // It is written in the present format, and both learn on with the same bits.
    let mut new = Model::from_bytes(&old.to_bytes().unwrap(), "new").unwrap();
    assert_eq!((new.card.format, new.note()), (3, None));
    let shape = Shape { features: 5, rows: 6, cols: 6 };
    let entries =
        [(0, 0, 1, 5.0), (1, 0, 1, 3.0), (4, 0, 1, 1.0), (2, 3, 4, 4.0), (3, 3, 4, 2.0), (4, 3, 4, 2.0)];
    let tensor = Tensor::from_triplets(shape, &entries).unwrap();
    for model in [&mut old, &mut new] {
        model.card.steps.push("2001-04".into());
        let step = model.learn(&tensor).unwrap();
        assert!(step.fit < 0.01, "{}", step.fit);
    }
    assert!(old.to_bytes().unwrap() == new.to_bytes().unwrap());
}

#[test]
fn another_format_version_is_refused() {
    let bytes = fresh(&events()).to_bytes().unwrap();
    for format in [1, 4] {
        let entry = format!(r#"{{"format":{format},"kind":"exact"}}"#);
        let error = Model::from_bytes(&rewritten(&bytes, &entry, |_| ()), "m").unwrap_err().to_string();
        let text = format!("m cannot be read as a model: its format is {format}, this program knows 2 and 3");
        assert_eq!(error, text);
    }
}
