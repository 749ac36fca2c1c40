//! Reads any bytes as CSV, with queries that cover every kind of axis.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tensornoodl_data::{Counter, table};

mod common;

fuzz_target!(|bytes: &[u8]| {
    for query in common::queries() {
        let mut counter = Counter::new(query);
        if table::csv(bytes, "fuzz.csv", &mut counter).is_ok() {
            common::use_events(counter.finish("fuzz.csv"));
        }
    }
});
