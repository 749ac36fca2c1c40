//! Reads any bytes as a .tns file.
#![no_main]

use libfuzzer_sys::fuzz_target;

mod common;

fuzz_target!(|bytes: &[u8]| common::tns(bytes));
