//! Lookup tables with names and known groups, and square tensors.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;

use common::{place, query};
use tensornoodl::{Dictionary, Learner, Params};
use tensornoodl_data::{Model, Query, Recipe, table};

/// Two groups send mail in hour 1, and one person in hour 2.
const MAIL: &str = "hour,from,to\n1,10,9\n1,9,10\n1,10,9\n1,9,10\n1,7,8\n2,2,10\n";
const PEOPLE: &str = "id,name,unit\n2,Bo,\n7,Cy,Law\n8,Di,Law\n9,Al,Trade\n10,Al,Trade\n";

fn query_with_lookups(test: &str, people: &str) -> (std::path::PathBuf, Query) {
    let (mail, file) = (place(&format!("{test}-mail.csv")), place(&format!("{test}-people.csv")));
    fs::write(&mail, MAIL).unwrap();
    fs::write(&file, people).unwrap();
    let lookup = |column: &str| Some(format!("{}(id,{column})", file.display()).parse().unwrap());
    (
        mail,
        Query { square: true, names: lookup("name"), groups: lookup("unit"), ..query("hour", "from", "to") },
    )
}

#[test]
fn rows_and_cols_get_names_and_the_labels_of_both() {
    let (mail, query) = query_with_lookups("both", PEOPLE);
    let plain = table::read(&mail, Query { names: None, groups: None, ..query.clone() }).unwrap();
    assert_eq!(plain.rows.names, ["2", "7", "8", "9", "10"]);
    assert_eq!(plain.rows.names, plain.cols.names);
    assert!(plain.row_groups.is_empty());
    let narrow = Query { square: false, names: None, groups: None, ..query.clone() };
    let narrow = table::read(&mail, narrow).unwrap();
    assert_eq!((narrow.rows.names.len(), narrow.cols.names.len()), (4, 3));
    assert_eq!((narrow.cells(), narrow.sum()), (plain.cells(), plain.sum()));
    let events = table::read(&mail, query).unwrap();
    // Two people with the same name keep their labels.
    assert_eq!(events.rows.names, ["Bo", "Cy", "Di", "Al (9)", "Al (10)"]);
    assert_eq!(events.row_groups, ["", "Law", "Law", "Trade", "Trade"]);
    let tensor = events.tensor(0).unwrap();
    let at =
        |row: u32, col: u32| tensor.places().iter().position(|at| (at.row, at.col) == (row, col)).unwrap();
    assert_eq!(tensor.fiber(at(4, 3)), [2.0, 0.0]);
    assert_eq!(tensor.fiber(at(0, 4)), [0.0, 1.0]);
}

#[test]
fn found_groups_are_compared_with_known_groups() {
    let (mail, query) = query_with_lookups("groups", PEOPLE);
    let events = table::read(&mail, query.clone()).unwrap();
    let dictionary = Dictionary::from_columns(2, vec![1.0, 0.0, 0.0, 1.0]).unwrap();
    let learner = Learner::new(dictionary, Params::default()).unwrap();
    let mut model = Model::new(learner, &events, Recipe::default(), "mail.csv", query, "noodl learn", 0);
    assert!(model.groups(0).is_empty());
    model.learn(&events.tensor(0).unwrap()).unwrap();
    let model = Model::from_bytes(&model.to_bytes().unwrap(), "m").unwrap();
    // 9 and 10 wrote to each other twice, which makes two groups with one sender each. 7 wrote to 8 once.
    let groups = model.groups(0);
    let said: Vec<String> = groups
        .iter()
        .map(|group| {
            let known = group.known.as_ref().unwrap();
            format!("{:.3} {} {}/{}", group.share, known.name, known.others, known.size)
        })
        .collect();
    assert_eq!(said, ["0.444 Trade 0/2", "0.444 Trade 0/2", "0.111 Law 0/2"]);
    // Bo has no known group.
    let group = &model.groups(1)[0];
    assert_eq!((group.share, group.rows[0].0, group.cols[0].0), (1.0, 0, 4));
    let known = group.known.as_ref().unwrap();
    assert_eq!((known.name.as_str(), known.others, known.size), ("Trade", 1, 2));
}

#[test]
fn errors_name_the_lookup_table() {
    let says = |test: &str, people: &str| {
        let (mail, query) = query_with_lookups(test, people);
        table::read(&mail, query).unwrap_err().to_string()
    };
    let twice = says("twice", &format!("{PEOPLE}7,Ed,Law\n"));
    assert!(
        twice.contains("twice-people.csv, line 7") && twice.contains("it is Cy above and Ed here"),
        "{twice}"
    );
    let other = says("other", "number,name,unit\n");
    assert!(other.contains("other-people.csv") && other.contains("id"), "{other}");
    let (mail, query) = query_with_lookups("gone", PEOPLE);
    let gone = Query { names: Some("nowhere.csv(id,name)".parse().unwrap()), ..query };
    let gone = table::read(&mail, gone).unwrap_err().to_string();
    assert!(gone.starts_with("cannot read nowhere.csv"), "{gone}");
}
