//! Reads any bytes as a model file.
#![no_main]

use libfuzzer_sys::fuzz_target;

mod common;

fuzz_target!(|bytes: &[u8]| common::model(bytes));
