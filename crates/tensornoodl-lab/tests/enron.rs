//! `noodl-lab paper enron` on the real tables.

#![allow(clippy::unwrap_used)]

#[path = "../../tensornoodl-cli/tests/common/mod.rs"]
mod common;

use std::fs;
use std::path::PathBuf;

use common::{folder, lab, no_data, stderr};
use serde_json::Value;

fn enron_groups_by_fu() {
    let out = folder("enron_groups_by_fu").join("out");
    let data = PathBuf::from(std::env::var_os("NOODL_DATA").unwrap());
    let output = lab(&format!("paper enron --data {} --output {}", data.display(), out.display()));
    assert!(output.status.success(), "{}", stderr(&output));
    let fits: Value = serde_json::from_str(&fs::read_to_string(out.join("enron.json")).unwrap()).unwrap();
    let labels: Vec<&str> = fits["fits"][1]["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|group| group["label"].as_str().unwrap())
        .collect();
    for label in ["Legal", "Pipeline", "Executive", "Trading"] {
        assert!(labels.contains(&label), "{labels:?}");
    }
    // With weights of months, sizes add up to about the paper's 73, and the months of the crisis weigh least.
    let weighted = &fits["fits"][0];
    let size = |group: &Value| group["members"].as_array().unwrap().len();
    let sizes: usize = weighted["groups"].as_array().unwrap().iter().map(size).sum();
    assert!((65..=81).contains(&sizes), "{sizes}");
    let weights: Vec<f64> =
        weighted["weights"].as_array().unwrap().iter().map(|w| w.as_f64().unwrap()).collect();
    let least = (0..44).min_by(|&a, &b| weights[a].total_cmp(&weights[b])).unwrap();
    assert!((30..=38).contains(&least), "month {least}");
}

fn main() {
    run_tests!(no_data() => [enron_groups_by_fu])
}
