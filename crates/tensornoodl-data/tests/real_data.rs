//! Real tables from the folder that NOODL_DATA names. Without it the tests are reported as ignored.

#![allow(clippy::unwrap_used)]

mod common;

use std::env::var_os;
use std::path::{Path, PathBuf};

use libtest_mimic::{Arguments, Trial};
use tensornoodl_data::{Query, table};

use common::query;

/// The path of a real table.
fn data(file: &str) -> PathBuf {
    Path::new(&var_os("NOODL_DATA").unwrap()).join(file)
}

fn enron_is_the_tensor_of_the_literature() {
    let path = data("enron_emails.csv");
    let filters = vec!["from!=@to".parse().unwrap()];
    let events = table::read(&path, Query { filters, ..query("month(time)", "from", "to") }).unwrap();
    assert_eq!(
        (events.features.names.len(), events.cells(), events.fibers(), events.sum()),
        (44, 9_838, 3_007, 34_427.0)
    );
    assert_eq!((events.tally.events, events.tally.filtered), (38_131, 3_704));
}

fn a_season_has_27_weeks() {
    let path = data("nba_2018-19_shots.csv.gz");
    let shots = Query {
        step: Some("week(date)".parse().unwrap()),
        average_over: Some("game".into()),
        keep_rows: Some(100),
        ..query("grid(loc_x,loc_y,12x10,-250:250,-52.5:417.5)", "player", "opponent")
    };
    let events = table::read(&path, shots).unwrap();
    assert_eq!((events.shape().to_string(), events.steps()), ("120 x 100 x 30".into(), 27));
    assert_eq!(events.tally.events, 219_458);
    assert!(events.tally.outside > 100 && events.tally.outside < 1000, "{}", events.tally.outside);
}

fn main() {
    let trial = |name: &str, test: fn()| {
        let trial = Trial::test(name, move || {
            test();
            Ok(())
        });
        if var_os("NOODL_DATA").is_some() {
            return trial;
        }
        trial.with_ignored_flag(true).with_kind("NOODL_DATA is not set")
    };
    let trials = vec![
        trial("enron_is_the_tensor_of_the_literature", enron_is_the_tensor_of_the_literature),
        trial("a_season_has_27_weeks", a_season_has_27_weeks),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
