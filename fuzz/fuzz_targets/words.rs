//! Parses any text as an axis, a value, a filter or a recipe.
#![no_main]

use libfuzzer_sys::fuzz_target;

mod common;

fuzz_target!(|text: &str| common::words(text));
