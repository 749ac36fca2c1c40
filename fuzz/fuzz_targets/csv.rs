//! Reads any bytes as CSV.
#![no_main]

use libfuzzer_sys::fuzz_target;

mod common;

fuzz_target!(|bytes: &[u8]| common::csv(bytes));
