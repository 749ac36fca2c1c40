//! Parses any text as an axis, a value, a filter or a recipe. What can be parsed is written so that it parses to an
//! equal value.
#![no_main]

use std::fmt::{Debug, Display};
use std::str::FromStr;

use libfuzzer_sys::fuzz_target;
use tensornoodl_data::{Axis, Filter, Recipe, Value};

fn round<T: FromStr + Display + PartialEq + Debug>(text: &str) {
    if let Ok(it) = text.parse::<T>() {
        let again = it.to_string();
        match again.parse::<T>() {
            Ok(other) => assert_eq!(it, other, "{text:?} is written as {again:?}"),
            Err(_) => panic!("{text:?} is written as {again:?}, which cannot be parsed"),
        }
    }
}

fuzz_target!(|text: &str| {
    round::<Axis>(text);
    round::<Value>(text);
    round::<Filter>(text);
    round::<Recipe>(text);
});
