//! A table that several ranks read together gives the same cells, labels and errors as one rank alone, for every
//! format.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{Float64Array, RecordBatch, StringArray};
use common::{array_query, place, query};
use proptest::prelude::*;
use tensornoodl::Team;
use tensornoodl::parallel::{ThreadRank, run_ranks};
use tensornoodl_data::{Events, Lookup, Query, Value, table};

/// Returns everything that all ranks must have in common.
fn common_part(events: &Events) -> String {
    let Events { features, rows, cols, steps, row_groups, col_groups, tally, .. } = events;
    format!("{features:?} {rows:?} {cols:?} {steps:?} {row_groups:?} {col_groups:?} {tally:?}")
}

/// Returns the cells, with the bits of their values.
fn cells(events: &Events) -> Vec<(usize, u32, u32, usize, u64)> {
    let mut cells = Vec::new();
    for step in 0..events.steps() {
        let tensor = events.tensor(step).unwrap();
        for (fiber, place) in tensor.places().iter().enumerate() {
            let values = tensor.fiber(fiber).iter().enumerate();
            cells.extend(
                values
                    .filter(|(_, value)| **value != 0.0)
                    .map(|(feature, value)| (step, place.row, place.col, feature, value.to_bits())),
            );
        }
    }
    cells.sort_unstable();
    cells
}

/// Reads a table with 1 to 5 ranks, checks that the results agree, and returns the result of one rank alone.
fn same_for_all(path: &Path, query: &Query) -> Result<Events, String> {
    let alone = table::read(path, query.clone()).map_err(|error| error.to_string());
    for size in 1..=5 {
        let ranks = run_ranks(size, |team: &ThreadRank| {
            let team: Arc<dyn Team> = Arc::new(team.clone());
            table::read_share(path, query.clone(), &team).map_err(|error| error.to_string())
        });
        match &alone {
            Ok(alone) => {
                let mut all = Vec::new();
                for rank in &ranks {
                    let rank = rank.as_ref().unwrap();
                    assert_eq!(common_part(rank), common_part(alone), "{size} ranks");
                    all.extend(cells(rank));
                }
                all.sort_unstable();
                assert_eq!(all, cells(alone), "{size} ranks");
            }
            // One rank has the error itself, the others report it.
            Err(alone) => {
                let first: Vec<&String> =
                    ranks.iter().filter_map(|rank| rank.as_ref().err()).filter(|why| *why == alone).collect();
                let reports =
                    |why: &Result<Events, String>| why.as_ref().is_err_and(|why| why.ends_with(alone));
                assert!(!first.is_empty() && ranks.iter().all(reports), "{size} ranks: {alone}\n{ranks:?}");
            }
        }
    }
    alone
}

fn write(name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    let path = place(name);
    fs::write(&path, text).unwrap();
    path
}

fn mails() -> Query {
    query("month(time)", "from", "to")
}

/// Returns a table with quoted labels, some of which contain commas, quotes and line ends.
fn mail_text() -> String {
    let mut text = String::from("time,from,to,size,day\r\n");
    for at in 0..300 {
        let name = |who: usize| match who {
            0 => "\"Doe, John\"".into(),
            1 => "\"the \"\"boss\"\"\"".into(),
            2 => "\"two\nlines, one \"\"\nquote\"".into(),
            3 => "plain\"quote\"".into(),
            who => format!("p{who}"),
        };
        let (from, to) = (name(at * 7 % 11), name((at * 5 + at / 9) % 8));
        let end = if at % 5 == 0 { "\r\n" } else { "\n" };
        text += &format!("2020-{:02}-03,{from},{to},{}.1,{}{end}", 1 + at % 12, at % 17, at % 4);
        if at % 50 == 0 {
            text += "\n";
        }
    }
    text
}

#[test]
fn csv_is_shared() {
    let path = write("shares.csv", mail_text());
    let events = same_for_all(&path, &mails()).unwrap();
    assert_eq!((events.rows.names.len(), events.cols.names.len(), events.tally.events), (11, 8, 300));
    let step = Some("bin(day,1)".parse().unwrap());
    for query in [
        Query { step: step.clone(), value: Value::Sum("size".into()), ..mails() },
        Query { value: Value::Mean("size".into()), average_over: Some("day".into()), ..mails() },
        Query { keep_rows: Some(4), filters: vec!["size>3".parse().unwrap()], square: true, ..mails() },
        Query { keep_rows: Some(2), step, ..query("grid(size,day,3x2)", "month(time)", "to") },
        query("month(time)", "grid(size,day,5x4)", "grid(day,size,2x3)"),
    ] {
        let events = same_for_all(&path, &query).unwrap();
        assert!(events.cells() > 10, "{query:?}");
    }
    // With a byte-order mark, without a last line end, and compressed.
    let mut marked = b"\xef\xbb\xbf".to_vec();
    marked.extend_from_slice(mail_text().trim_end().as_bytes());
    assert_eq!(cells(&same_for_all(&write("marked.csv", &marked), &mails()).unwrap()), cells(&events));
    let compressed = place("shares.csv.gz");
    let mut gzip = flate2::write::GzEncoder::new(fs::File::create(&compressed).unwrap(), Default::default());
    gzip.write_all(&marked).unwrap();
    gzip.finish().unwrap();
    assert_eq!(cells(&same_for_all(&compressed, &mails()).unwrap()), cells(&events));
}

#[test]
fn tables_with_few_rows_or_none() {
    for text in [
        "time,from,to\n2020-01-01,a,b\n",
        "time,from,to\n2020-01-01,a,b",
        "time,from,to\n2020-01-01,a,b\n2020-02-01,b,c\n",
    ] {
        same_for_all(&write("few.csv", text), &mails()).unwrap();
    }
    for text in ["", "time,from,to", "time,from,to\n", "\n\n", "time,from\n2020-01-01,a\n"] {
        same_for_all(&write("none.csv", text), &mails()).unwrap_err();
    }
    same_for_all(&place("not_there.csv"), &mails()).unwrap_err();
    same_for_all(Path::new("."), &mails()).unwrap_err();
}

#[test]
fn errors_name_the_line() {
    let mut lines: Vec<String> = mail_text().split_inclusive('\n').map(str::to_owned).collect();
    let good = lines.clone();
    for (at, wrong) in [(1, "x,a,b,1,1\n"), (150, "2020-01-01,a,b,1\n"), (290, "2020-13-01,a,b,1,1\n")] {
        // The wrong line must not be inside quotes.
        let at = (at..)
            .find(|at| good[*at - 1].starts_with("2020") && good[*at].starts_with("2020"))
            .unwrap_or(at);
        let at = (at..at + 40).find(|at| good[..*at].concat().matches('"').count() % 2 == 0).unwrap();
        lines.insert(at, wrong.into());
        let error = same_for_all(&write("wrong.csv", lines.concat()), &mails()).unwrap_err();
        assert!(error.contains(&format!("line {}", at + 1)), "{at} {error}");
        lines.clone_from(&good);
    }
    for text in
        ["\u{feff}time,from,to\r\n2020-01-01,a,b\r\n\r\nx,a,b\r\n", "time,from,to\r2020-01-01,a,b\n\n\nx,a,b"]
    {
        let error = same_for_all(&write("ends.csv", text), &mails()).unwrap_err();
        assert!(error.contains("line 4,"), "{error}");
    }
    // Of two wrong lines, the first is named.
    lines.insert(300, "x,a,b,1,1\n".into());
    lines.insert(1, "y,a,b,1,1\n".into());
    let error = same_for_all(&write("two.csv", lines.concat()), &mails()).unwrap_err();
    assert!(error.contains("line 2,") && error.contains("\"y\""), "{error}");
}

#[test]
fn inputs_that_can_be_read_only_once_are_refused() {
    let errors = run_ranks(2, |team| {
        let team: Arc<dyn Team> = Arc::new(team.clone());
        let read = |path: &str| table::read_share(Path::new(path), mails(), &team).unwrap_err().to_string();
        [read("-"), read("/dev/null")]
    });
    assert!(errors[0][0].starts_with("standard input can be read only once"), "{errors:?}");
    assert!(errors[0][1].starts_with("/dev/null can be read only once"), "{errors:?}");
}

/// Each rank reads a file of its own. The files have the same length, and one byte of one of them is different.
#[test]
fn ranks_that_see_different_files_are_refused() {
    let text = mail_text();
    let other = text.replacen(",p5,", ",p6,", 1);
    let [table, changed] = [write("seen.csv", &text), write("seen_changed.csv", &other)];
    let names = |name: &str| -> Option<Lookup> {
        let path = write(&format!("seen_{name}.csv"), format!("id,name\np5,{name}\n"));
        Some(format!("{}(id,name)", path.display()).parse().unwrap())
    };
    let [ann, bob] = ["ann", "bob"].map(names);
    let read = |differs: usize, paths: [&Path; 2], names: [&Option<Lookup>; 2]| {
        run_ranks(3, |team| {
            let at = usize::from(team.rank() == differs);
            let query = Query { names: names[at].clone(), ..mails() };
            let team: Arc<dyn Team> = Arc::new(team.clone());
            table::read_share(paths[at], query, &team).map(|_| ()).map_err(|error| error.to_string())
        })
    };
    for differs in 0..3 {
        let first_other = differs.max(1);
        for result in read(differs, [&table, &changed], [&None, &None]).into_iter().chain(read(
            differs,
            [&table, &table],
            [&ann, &bob],
        )) {
            let error = result.unwrap_err();
            assert!(error.starts_with(&format!("rank {first_other} sees another file ")), "{error}");
            assert!(
                error.contains("bytes, but not the same; put the file where all ranks see it"),
                "{error}"
            );
        }
    }
    let longer = write("seen_longer.csv", text.clone() + "\n");
    for result in read(2, [&table, &longer], [&ann, &ann]) {
        let error = result.unwrap_err();
        let lengths = format!("it has {} bytes instead of {}", text.len() + 1, text.len());
        assert!(error.contains(&lengths), "{error}");
    }
    assert!(read(2, [&table, &table], [&ann, &ann]).iter().all(Result::is_ok));
}

#[test]
fn arrays_are_shared() {
    let values = ndarray::Array3::from_shape_fn((3, 7, 5), |(i, j, k)| {
        if (i + 2 * j + k) % 4 == 0 { 0.1 * (1 + i + j * k) as f64 } else { 0.0 }
    });
    let path = place("shares.npy");
    ndarray_npy::write_npy(&path, &values).unwrap();
    let events = same_for_all(&path, &array_query()).unwrap();
    assert!(events.cells() > 20);
    let mut fortran =
        ndarray::Array3::from_shape_vec(ndarray::ShapeBuilder::f((3, 7, 5)), vec![0.0; 105]).unwrap();
    fortran.assign(&values);
    ndarray_npy::write_npy(place("shares_f.npy"), &fortran).unwrap();
    assert_eq!(cells(&same_for_all(&place("shares_f.npy"), &array_query()).unwrap()), cells(&events));
    let whole = fs::read(&path).unwrap();
    for wrong in [&whole[..whole.len() - 9], &[&whole[..], &[0]].concat()] {
        same_for_all(&write("wrong.npy", wrong), &array_query()).unwrap_err();
    }
    let mut npz = ndarray_npy::NpzWriter::new_compressed(fs::File::create(place("shares.npz")).unwrap());
    npz.add_array("values", &values).unwrap();
    npz.finish().unwrap();
    assert_eq!(cells(&same_for_all(&place("shares.npz"), &array_query()).unwrap()), cells(&events));
    let mut text = String::from("# entries\n");
    for ((i, j, k), value) in values.indexed_iter().filter(|(_, value)| **value != 0.0) {
        text += &format!("{i} {j} {k} {value:e}{}\n", if i == j { " # \"" } else { "" });
    }
    assert_eq!(cells(&same_for_all(&write("shares.tns", &text), &array_query()).unwrap()), cells(&events));
    text += "1 2 x 4\n";
    let error = same_for_all(&write("wrong.tns", &text), &array_query()).unwrap_err();
    assert!(error.contains(&format!("line {}", text.lines().count())), "{error}");
}

#[test]
fn parquet_is_shared() {
    for rows_of_a_group in [7, 50, 1000] {
        let path = place(&format!("shares_{rows_of_a_group}.parquet"));
        let column = |text: fn(usize) -> String| {
            Arc::new(StringArray::from_iter_values((0..100).map(text))) as arrow_array::ArrayRef
        };
        let sizes = Arc::new(Float64Array::from_iter_values((0..100).map(|at| 0.1 * f64::from(at % 13))));
        let batch = RecordBatch::try_from_iter([
            ("time", column(|at| format!("2020-{:02}-01", 1 + at % 12))),
            ("from", column(|at| format!("p{}", at * 3 % 10))),
            ("to", column(|at| format!("q{}", at * 5 % 9))),
            ("size", sizes),
        ])
        .unwrap();
        let properties = parquet::file::properties::WriterProperties::builder()
            .set_max_row_group_row_count(Some(rows_of_a_group))
            .build();
        let mut writer = parquet::arrow::ArrowWriter::try_new(
            fs::File::create(&path).unwrap(),
            batch.schema(),
            Some(properties),
        )
        .unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let events = same_for_all(&path, &Query { value: Value::Sum("size".into()), ..mails() }).unwrap();
        assert_eq!(events.tally.events, 100);
        // A field that is not a time: the row is named.
        let error = same_for_all(&path, &query("month(from)", "to", "time")).unwrap_err();
        assert!(error.contains("line 1,"), "{error}");
    }
}

proptest! {
    /// Quotes can stand anywhere: never closed, in the middle of fields, at their ends.
    #[test]
    fn any_text_is_shared(text in "(a|b|,|\"|\"\"|\n|\r\n|\r|,\"|\"\n|a,b\n|\"a\n\",b\n){0,60}") {
        let path = write("any.csv", format!("a,b\n{text}"));
        let _ = same_for_all(&path, &query("a", "b", "b"));
        let path = write("any_head.csv", &text);
        let _ = same_for_all(&path, &query("a", "b", "b"));
    }
}
