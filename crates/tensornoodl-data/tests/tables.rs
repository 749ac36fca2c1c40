//! Tables that are counted into labelled tensors.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;

use common::{parquet_file, query};
use tensornoodl_data::{Counter, Error, Events, Query, Value, table};

fn read(text: &str, query: Query) -> Result<Events, Error> {
    let mut counter = Counter::new(query);
    table::csv(text.as_bytes(), "t.csv", &mut counter)?;
    counter.finish("t.csv")
}

/// Returns the labels of feature, row and col and the value of each entry of a step.
fn entries(events: &Events, step: usize) -> Vec<(&str, &str, &str, f64)> {
    let tensor = events.tensor(step).unwrap();
    let mut entries = Vec::new();
    for (fiber, place) in tensor.places().iter().enumerate() {
        for (feature, value) in tensor.fiber(fiber).iter().enumerate().filter(|(_, value)| **value != 0.0) {
            entries.push((
                events.features.names[feature].as_str(),
                events.rows.names[place.row as usize].as_str(),
                events.cols.names[place.col as usize].as_str(),
                *value,
            ));
        }
    }
    entries.sort_by(|a, b| (a.1, a.2, a.0).cmp(&(b.1, b.2, b.0)));
    entries
}

const MAIL: &str = "\
time,from,to,type,size
2001-03-01T08:00:00,ann,bob,to,10
2001-01-30T09:00:00,ann,bob,to,20
2001-01-02T23:00:00,bob,\"cy, jr\",cc,40
2001-03-09T10:00:00,ann,bob,to,
2001-01-03T10:00:00,,bob,to,5
";

#[test]
fn events_are_counted_by_cell() {
    let events = read(MAIL, query("month(time)", "from", "to")).unwrap();
    assert_eq!(events.features.names, ["2001-01", "2001-02", "2001-03"]);
    assert_eq!(
        (events.rows.names.join("|"), events.cols.names.join("|")),
        ("ann|bob".into(), "bob|cy, jr".into())
    );
    assert_eq!(
        entries(&events, 0),
        [("2001-01", "ann", "bob", 1.0), ("2001-03", "ann", "bob", 2.0), ("2001-01", "bob", "cy, jr", 1.0)]
    );
    assert_eq!((events.tally.events, events.tally.missing, events.tally.used()), (5, 1, 4));
    assert_eq!((events.cells(), events.fibers(), events.sum()), (3, 2, 4.0));
}

#[test]
fn values_filters_and_steps_of_a_query() {
    let sums = Query { value: "sum(size)".parse().unwrap(), ..query("hour(time)", "from", "to") };
    let events = read(MAIL, sums.clone()).unwrap();
    assert_eq!(events.features.names.len(), 24);
    assert_eq!(entries(&events, 0)[0], ("08:00", "ann", "bob", 10.0));
    assert_eq!((events.sum(), events.tally.missing), (70.0, 2));
    let mean = Query { value: "mean(size)".parse().unwrap(), ..query("type", "from", "to") };
    assert_eq!(entries(&read(MAIL, mean).unwrap(), 0)[0], ("to", "ann", "bob", 15.0));
    let own = Query { filters: vec!["from=@to".parse().unwrap()], ..query("type", "from", "to") };
    assert!(read(MAIL, own).unwrap_err().to_string().contains("5 were filtered out"));
    let filters = ["type=to", "size>=20"].map(|text| text.parse().unwrap()).to_vec();
    let events = read(MAIL, Query { filters, ..sums }).unwrap();
    assert_eq!((events.sum(), events.tally.filtered), (20.0, 4));
    let stream = Query { step: Some("month(time)".parse().unwrap()), ..query("weekday(time)", "from", "to") };
    let events = read(MAIL, stream).unwrap();
    // February has no mail, so it is not a step.
    assert_eq!(events.steps.as_ref().unwrap().names, ["2001-01", "2001-03"]);
    assert_eq!(entries(&events, 0), [("Tue", "ann", "bob", 1.0), ("Tue", "bob", "cy, jr", 1.0)]);
    assert_eq!(entries(&events, 1), [("Fri", "ann", "bob", 1.0), ("Thu", "ann", "bob", 1.0)]);
}

#[test]
fn cells_of_time_and_slots_have_no_gaps() {
    let text = "t,a,b\n2009-10-01 08:41:20,x,y\n2009-10-01T09:20,x,y\n2009-10-01 09:39:59,x,z\n2009-10-02 08:40,x,y\n";
    let first = "2009-10-01 08:40";
    let cells = read(text, query("every(t,20min)", "a", "b")).unwrap();
    assert_eq!(cells.features.names.len(), 73);
    assert_eq!(cells.features.names[..3], [first, "2009-10-01 09:00", "2009-10-01 09:20"]);
    assert_eq!((entries(&cells, 0)[0], cells.sum()), ((first, "x", "y", 1.0), 4.0));
    let slots = read(text, query("slot(t,20min)", "a", "b")).unwrap();
    assert_eq!((slots.features.names.len(), slots.features.names[71].as_str()), (72, "23:40"));
    assert_eq!(
        entries(&slots, 0),
        [("08:40", "x", "y", 2.0), ("09:20", "x", "y", 1.0), ("09:20", "x", "z", 1.0)]
    );
    // Cells in which nothing happens are no steps.
    let stream = Query { step: Some("every(t,20min)".parse().unwrap()), ..query("a", "b", "slot(t,1h)") };
    let events = read(text, stream).unwrap();
    assert_eq!(events.steps.as_ref().unwrap().names, [first, "2009-10-01 09:20", "2009-10-02 08:40"]);
    assert_eq!(events.cols.names, ["08:00", "09:00"]);
    // Twelve days have more than a million seconds.
    let far = text.replace("2009-10-02", "2009-10-13");
    let error = read(&far, query("every(t,1s)", "a", "b")).unwrap_err().to_string();
    assert!(
        error.contains("2009-10-13 08:40:00 stretches every(t,1s) to more than 1000000 labels"),
        "{error}"
    );
    let allowed = Query { max_features: Some(600_000), ..query("every(t,2s)", "a", "b") };
    assert_eq!(read(&far, allowed).unwrap().features.names.len(), 518_361);
}

#[test]
fn numbers_are_sorted_as_numbers() {
    let text = "a,b,c\n10,x,1\n9,x,1\n-1,y,1\n";
    assert_eq!(read(text, query("a", "b", "c")).unwrap().features.names, ["-1", "9", "10"]);
    assert_eq!(read(text, query("b", "a", "c")).unwrap().rows.names, ["-1", "9", "10"]);
    let bins = read(text, query("bin(a,5)", "b", "c")).unwrap();
    assert_eq!(bins.features.names, ["-5", "0", "5", "10"]);
    assert_eq!(entries(&bins, 0).iter().map(|entry| entry.0).collect::<Vec<_>>(), ["10", "5", "-5"]);
}

#[test]
fn points_fall_into_a_grid() {
    let text = "x,y,who,game,v\n0,0,a,1,1\n4,0,a,1,3\n10,10,a,2,5\n9.9,9.9,a,2,7\n5,0,a,2,1\n99,0,a,2,1\n";
    let grid = |bounds: &str| query(&format!("grid(x,y,2x2{bounds})"), "who", "who");
    let events = read(text, grid(",0:10,0:10")).unwrap();
    assert_eq!(events.features.names, ["2.5:2.5", "7.5:2.5", "2.5:7.5", "7.5:7.5"]);
    assert_eq!(events.tensor(0).unwrap().values(), [2.0, 1.0, 0.0, 2.0]);
    assert_eq!(events.tally.outside, 1);
    // A mean is taken over the events of a cell, not over its distinct points.
    let means = Query { value: Value::Mean("v".into()), ..grid(",0:10,0:10") };
    assert_eq!(read(text, means).unwrap().tensor(0).unwrap().values(), [2.0, 1.0, 0.0, 6.0]);
    let averaged = Query { average_over: Some("game".into()), ..grid(",0:10,0:10") };
    assert_eq!(read(text, averaged).unwrap().tensor(0).unwrap().values(), [1.0, 0.5, 0.0, 1.0]);
    // Without bounds, the grid has the bounds of the data.
    assert_eq!(read(text, grid("")).unwrap().tensor(0).unwrap().values(), [3.0, 1.0, 2.0, 0.0]);
}

#[test]
fn the_most_active_rows_are_kept() {
    let text = "f,r,c\n1,a,x\n1,b,x\n2,b,x\n1,c,y\n2,d,x\n3,d,x\n";
    let events = read(text, Query { keep_rows: Some(2), ..query("f", "r", "c") }).unwrap();
    assert_eq!((events.rows.names.join(""), events.cols.names.join("")), ("bd".into(), "x".into()));
    assert_eq!((events.tally.dropped_labels, events.tally.dropped, events.tally.used()), (2, 2, 4));
}

#[test]
fn errors_name_line_and_column() {
    let says = |text: &str, query: Query| read(text, query).unwrap_err().to_string();
    let months = || query("month(time)", "from", "to");
    assert_eq!(
        says(MAIL, query("month(date)", "from", "to")),
        "t.csv has no column \"date\"; it has time, from, to, type, size"
    );
    assert_eq!(
        says("time,from,to\n2001-01-01,a,b\nsoon,a,b\n", months()),
        "t.csv, line 3, column time: \"soon\" is not a date such as 2018-12-16 or 2018-12-16 09:30"
    );
    assert_eq!(
        says("a,b,c\n1,x,y\ntwo,x,y\n", query("bin(a,1)", "b", "c")),
        "t.csv, line 3, column a: \"two\" is not a number of at most 1e100; a field without a value must be empty"
    );
    assert_eq!(
        says("time,from,to\n2001-01-01,a\n", months()),
        "t.csv, line 2: the number of fields is \"2\", it must be 3, as in the first line"
    );
    assert!(says("time,from,to\n", months()).starts_with("t.csv has no events to learn from: 0 rows"));
    assert!(says("", months()).contains("it is empty, its first line must have the names"));
    let far = "a,b,c\n0,x,y\n1e14,x,y\n";
    assert!(says(far, query("bin(a,1)", "b", "c")).contains("to more than 1000000 labels"));
    let mut counter = Counter::new(months());
    let error = table::csv(&b"time,from,to\n2001-01-01,\xff,b\n"[..], "t.csv", &mut counter).unwrap_err();
    assert!(
        error.to_string().contains("line 2, column from") && error.to_string().contains("UTF-8"),
        "{error}"
    );
}

#[test]
fn a_huge_index_space_takes_no_memory() {
    let text = (0..10).map(|at| format!("{},{},{}\n", at % 3, at * 100_000_000 + 7, at * 99_999_999));
    let text = format!("f,r,c\n{}", text.collect::<String>());
    let events = read(&text, query("f", "r", "c")).unwrap();
    assert_eq!(events.shape().to_string(), "3 x 10 x 10");
}

#[test]
fn parquet_is_read_as_a_table() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("events.parquet");
    parquet_file(&path);
    let sums = Query { value: Value::Sum("size".into()), ..query("hour(time)", "who", "week(day)") };
    let events = table::read(&path, sums.clone()).unwrap();
    assert_eq!(entries(&events, 0), [("09:00", "ann", "2018-W50", 0.5), ("17:00", "bob", "2018-W50", 2.0)]);
    assert_eq!((events.tally.events, events.tally.missing), (3, 1));
    let error = table::read(&path, query("hour(time)", "whom", "day")).unwrap_err().to_string();
    assert!(error.contains("no column \"whom\"; it has day, time, who, size"), "{error}");
    let bytes = std::fs::read(&path).unwrap();
    for length in [4, 20, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..length]).unwrap();
        let error = table::read(&path, sums.clone()).unwrap_err().to_string();
        assert!(error.contains("cannot be read as Parquet"), "{error}");
    }
}

#[test]
fn bins_have_round_labels() {
    let text = "v,r,c\n0.7,a,b\n0.65,a,b\n0.3,a,b\n-0.1,a,b\n";
    let events = read(text, query("bin(v,0.1)", "r", "c")).unwrap();
    let filled: Vec<&str> = entries(&events, 0).into_iter().map(|entry| entry.0).collect();
    assert_eq!(filled, ["-0.1", "0.3", "0.6", "0.7"]);
}

/// Bins far from zero have labels of their own, and beyond 1e15 bins a number is refused.
#[test]
fn bins_far_from_zero_have_exact_labels() {
    let text = "v,r,c\n100000000000001,a,b\n100000000000002.75,a,b\n99999999999999,a,b\n";
    let events = read(text, query("bin(v,1)", "r", "c")).unwrap();
    let filled: Vec<&str> = entries(&events, 0).into_iter().map(|entry| entry.0).collect();
    // They are sorted as text here.
    assert_eq!(filled, ["100000000000001", "100000000000002", "99999999999999"]);
    let far = read("v,r,c\n2e15,a,b\n", query("bin(v,1)", "r", "c")).unwrap_err().to_string();
    assert!(far.contains("line 2, column v: \"2e15\" is not at most 1e15 times the width of a bin"), "{far}");
}

#[test]
fn a_column_name_must_be_unique() {
    let error = read("a,b,c,a\n1,2,3,4\n", query("a", "b", "c")).unwrap_err().to_string();
    assert!(error.contains("two columns named a"), "{error}");
}
