//! Queries and readers that several targets use.
#![allow(dead_code)]

use std::path::PathBuf;

use tensornoodl_data::{Error, Events, Query, Recipe, table};

fn query(feature: &str, row: &str, col: &str, value: &str) -> Query {
    Query {
        feature: feature.parse().unwrap(),
        row: row.parse().unwrap(),
        col: col.parse().unwrap(),
        step: None,
        value: value.parse().unwrap(),
        average_over: None,
        keep_rows: None,
        max_features: None,
        filters: Vec::new(),
        square: false,
        names: None,
        groups: None,
    }
}

/// Returns queries of a table with the columns a, b, c and d.
pub fn queries() -> [Query; 3] {
    [
        Query {
            step: Some("week(a)".parse().unwrap()),
            keep_rows: Some(2),
            max_features: Some(1000),
            filters: vec!["d!=@c".parse().unwrap()],
            square: false,
            names: None,
            groups: None,
            ..query("month(a)", "b", "c", "count")
        },
        query("grid(c,d,3x2)", "b", "weekhour(a)", "mean(d)"),
        Query { average_over: Some("b".into()), ..query("bin(d,0.5)", "b", "c", "sum(c)") },
    ]
}

/// Returns the query that the program uses for an array.
pub fn array_query() -> Query {
    query("bin(1,1)", "bin(2,1)", "bin(3,1)", "sum(value)")
}

/// Builds the tensors of a table that was read, unless they are large. An error of a tensor is fine, an error message
/// must be one line.
pub fn use_events(events: Result<Events, Error>) {
    match events {
        Ok(events) if events.bytes() < 1e7 => {
            let recipe: Recipe = "log2,scale,center".parse().unwrap();
            for step in 0..events.steps() {
                let _ = events.tensor(step).and_then(|tensor| recipe.apply(tensor));
            }
        }
        Ok(_) => {}
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
}

/// Reads bytes as a file with this extension.
pub fn read(bytes: &[u8], extension: &str, query: Query) {
    let path: PathBuf = std::env::temp_dir().join(format!("noodl-fuzz-{}.{extension}", std::process::id()));
    std::fs::write(&path, bytes).unwrap();
    use_events(table::read(&path, query));
}
