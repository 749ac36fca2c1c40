//! Damaged, truncated and hostile files: they lead to an error that names the position, and never to a panic.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::io::Write;
use std::time::{Duration, Instant};

use common::{array_query, parquet_file, place, query};
use tensornoodl_data::{Query, Value, table};

/// Returns the error message of reading a file with this name and content.
fn says(name: &str, content: &[u8], query: Query) -> String {
    let path = place(name);
    fs::write(&path, content).unwrap();
    let error = table::read(&path, query).unwrap_err().to_string();
    error.replace(&path.display().to_string(), name)
}

/// Pseudorandom numbers with a fixed seed.
struct Draws(u64);

impl Draws {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

/// Reads a file many times, each time with a few bytes changed or the end cut off. Every read is an error or a table,
/// never a panic.
fn damage(name: &str, content: &[u8], query: &Query, times: usize) {
    let path = place(name);
    let mut draws = Draws(7);
    for _ in 0..times {
        let mut changed = content.to_vec();
        for _ in 0..=draws.below(4) {
            let at = draws.below(changed.len());
            changed[at] = match draws.below(3) {
                0 => changed[at] ^ (1 << draws.below(8)),
                1 => [0, 0x7f, 0x80, 0xff][draws.below(4)],
                _ => draws.below(256) as u8,
            };
        }
        if draws.below(4) == 0 {
            changed.truncate(draws.below(changed.len()));
        }
        fs::write(&path, &changed).unwrap();
        if let Ok(events) = table::read(&path, query.clone()) {
            // An error is fine, and so is a meaningless tensor.
            let _ = events.tensor(0);
        }
    }
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Default::default());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// Returns the bytes of an array as NumPy writes it.
fn array(kind: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let fortran = if fortran { "True" } else { "False" };
    array_with(
        format!("{{'descr': '{kind}', 'fortran_order': {fortran}, 'shape': ({shape}), }}\n").as_bytes(),
        data,
    )
}

fn array_with(header: &[u8], data: &[u8]) -> Vec<u8> {
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], header, data].concat()
}

fn doubles(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Returns an array of 2 x 2 x 3 with a 1 at feature 0, row 1, col 2 and a 5 at feature 1, row 0, col 1.
fn whole_array() -> Vec<u8> {
    array("<f8", false, "2, 2, 3", &doubles(&[0., 0., 0., 0., 0., 1., 0., 5., 0., 0., 0., 0.]))
}

fn archive(files: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, content) in files {
        archive.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(content).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

fn fibers_and_places(places: &[f64]) -> Vec<u8> {
    let (count, fibers) = (places.len() / 2, doubles(&vec![2.0; places.len() / 2 * 3]));
    archive(&[
        ("fibers.npy", array("<f8", false, &format!("{count}, 3"), &fibers)),
        ("places.npy", array("<f8", false, &format!("{count}, 2"), &doubles(places))),
    ])
}

const CSV: &[u8] = b"time,from,to,size\n2001-01-30,ann,bob,1\n2001-02-28,bob,ann,2\n";

fn months() -> Query {
    query("month(time)", "from", "to")
}

fn weeks() -> Query {
    Query { value: Value::Sum("size".into()), ..query("hour(time)", "who", "week(day)") }
}

fn whole_parquet(name: &str) -> Vec<u8> {
    let path = place(name);
    parquet_file(&path);
    fs::read(&path).unwrap()
}

#[test]
fn truncated_files_are_refused() {
    // A truncated text file is a shorter text file. A truncated gzip file can be recognized.
    let names = gzip(&CSV.repeat(40));
    for length in (2..names.len()).step_by(7) {
        assert!(says("cut.csv.gz", &names[..length], months()).contains("cut.csv.gz"), "{length}");
    }
    let lines = gzip("1 1 1 1\n2 1 1 1\n".repeat(40).as_bytes());
    for length in (2..lines.len()).step_by(3) {
        assert!(says("cut.tns.gz", &lines[..length], array_query()).contains("cut.tns.gz"), "{length}");
    }
    let parquet = whole_parquet("to_cut.parquet");
    for length in (0..parquet.len()).step_by(11) {
        let error = says("cut.parquet", &parquet[..length], weeks());
        assert!(error.starts_with("cut.parquet cannot be read as Parquet: "), "{error}");
    }
    let npy = whole_array();
    for length in 0..npy.len() {
        let error = says("cut.npy", &npy[..length], array_query());
        assert_eq!(error, "cut.npy cannot be read as NPY: it ends in the middle");
    }
    let npz = fibers_and_places(&[0.0, 1.0, 4.0, 5.0]);
    for length in 0..npz.len() {
        let error = says("cut.npz", &npz[..length], array_query());
        assert!(error.starts_with("cut.npz cannot be read as NPZ: "), "{error}");
    }
}

#[test]
fn empty_files_are_refused() {
    let empty = "cannot be read as CSV: it is empty, its first line must have the names of the columns";
    assert_eq!(says("empty.csv", b"", months()), format!("empty.csv {empty}"));
    assert_eq!(says("empty.csv.gz", b"", months()), format!("empty.csv.gz {empty}"));
    assert_eq!(says("none.csv.gz", &gzip(b""), months()), format!("none.csv.gz {empty}"));
    assert!(says("empty.parquet", b"", months()).starts_with("empty.parquet cannot be read as Parquet: "));
    assert!(says("empty.npy", b"", array_query()).contains("cannot be read as NPY: it ends in the middle"));
    assert!(says("empty.npz", b"", array_query()).starts_with("empty.npz cannot be read as NPZ: "));
    assert!(
        says("empty.tns", b"", array_query()).starts_with("empty.tns has no events to learn from: 0 rows")
    );
    assert!(says("header.csv", b"time,from,to\n", months()).contains("no events to learn from: 0 rows"));
    let zeros = array("<f8", false, "1, 1, 2", &doubles(&[0.0, 0.0]));
    assert!(says("zeros.npy", &zeros, array_query()).contains("no events to learn from: 0 rows"));
    let nothing = array("<f8", false, "3, 0, 1000000000000000000", b"");
    assert!(says("nothing.npy", &nothing, array_query()).contains("no events to learn from: 0 rows"));
    assert!(says("none.npz", &archive(&[]), array_query()).contains("has 0 files"));
}

#[test]
fn errors_name_the_position_of_a_field() {
    assert_eq!(
        says("x.csv", b"time,from,to\n2001-01-30,a,b\n2001-02-30,a,b\n", months()),
        "x.csv, line 3, column time: \"2001-02-30\" is not a date such as 2018-12-16 or 2018-12-16 09:30"
    );
    assert_eq!(
        says("x.csv", b"time,from,to\n2001-01-30,\xc3\x28,b\n", months()),
        "x.csv, line 2, column from: \"\u{fffd}(\" is not text in UTF-8"
    );
    let sums = Query { value: Value::Sum("to".into()), ..months() };
    assert_eq!(
        says("x.csv", b"time,from,to\n2001-01-30,a,b\n", sums),
        "x.csv, line 2, column to: \"b\" is not a number of at most 1e100; a field without a value must be empty"
    );
    assert_eq!(
        says("x.tns", b"1 1 1 1\n1 1.5 1 1\n", array_query()),
        "x.tns, line 2: index 2 is \"1.5\", it must be a whole number from 0 to 4294967295"
    );
    assert_eq!(
        says("x.tns", b"1 1 1 one\n", array_query()),
        "x.tns, line 1: the value is \"one\", it must be a number of at most 1e100"
    );
    assert_eq!(
        says("x.tns", b"1 1 1 1\n", query("1", "2", "4")),
        "x.tns has no column \"4\"; it has 1, 2, 3, value"
    );
    // A quote that is never closed makes one field of everything after it.
    let open = [b"time,from,to\n2001-01-30,a,b\n2001-01-30,\"a,b\n", &vec![b'x'; 20 << 20][..]].concat();
    assert_eq!(
        says("x.csv", &open, months()),
        "x.csv, line 3: the row is \"longer\", it must be at most 16777216 bytes long (is a quote never closed?)"
    );
}

/// Returns a Parquet file with a value that is not UTF-8, in a column of the given logical type.
fn parquet_of_bytes(name: &str, kind: &str) -> Vec<u8> {
    use parquet::data_type::{ByteArray, ByteArrayType};
    use parquet::file::writer::SerializedFileWriter;
    let schema = format!("message events {{ required binary who {kind}; }}");
    let schema = parquet::schema::parser::parse_message_type(&schema).unwrap().into();
    let path = place(name);
    let file = fs::File::create(&path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, Default::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let texts = [ByteArray::from("ann"), ByteArray::from(vec![0xc3, 0x28])];
    column.typed::<ByteArrayType>().write_batch(&texts, None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    fs::read(&path).unwrap()
}

#[test]
fn parquet_labels_must_be_utf8() {
    let who = || query("who", "who", "who");
    for kind in ["", "(STRING)"] {
        let error = says("no_text.parquet", &parquet_of_bytes("bytes.parquet", kind), who());
        assert_eq!(error, "no_text.parquet, line 2, column who: \"\u{fffd}(\" is not text in UTF-8");
    }
}

/// The file was found by fuzzing. It declares a dictionary that would take all memory.
#[test]
fn a_dictionary_has_no_more_values_than_bytes() {
    let error =
        says("dictionary.parquet", include_bytes!("hostile/dictionary.parquet"), query("a", "a", "a"));
    assert!(error.contains("column \"a\" has a dictionary of "), "{error}");
}

#[test]
fn arrays_that_are_not_tensors_are_refused() {
    let says =
        |content: &[u8]| says("x.npy", content, array_query()).replace("x.npy cannot be read as NPY: ", "");
    assert_eq!(
        says(&array("<f8", false, "2, 2", &doubles(&[1.0; 4]))),
        "it has 2 axes, it must have 3: features, rows and cols"
    );
    assert!(
        says(&array("<c16", false, "1, 1, 1", &[0; 16])).starts_with("its entries are '<c16', they must be")
    );
    assert!(
        says(&array_with(
            b"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1, 1, 1), }\n",
            &[0; 4]
        ))
        .contains("records")
    );
    assert_eq!(says(&array("|b1", false, "1, 1, 2", &[1, 2])), "a truth value is neither 0 nor 1");
    assert_eq!(
        says(&[&whole_array()[..], b"x"].concat()),
        "it has bytes after the last entry that its header declares"
    );
    let wrong = |value: f64| says(&array("<f8", true, "2, 1, 2", &doubles(&[1.0, 1.0, 1.0, value])));
    assert_eq!(
        wrong(f64::NAN),
        "x.npy, entry [1, 0, 1]: NaN is not a number of at most 1e100; fill missing values first"
    );
    assert_eq!(wrong(-f64::INFINITY), "x.npy, entry [1, 0, 1]: -inf is not a number of at most 1e100");
    assert!(wrong(1.1e100).contains("entry [1, 0, 1]: 11"), "{}", wrong(1.1e100));
    let no_header = "it does not start with the header of a NumPy array";
    assert_eq!(says(b"PK\x03\x04 and more, longer than a start"), no_header);
    assert_eq!(says(&array_with(b"{'descr': '<f8'}\n", b"")), no_header);
    assert_eq!(says(b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}"), no_header);
    assert_eq!(says(&array("<f8", false, "-1, 1, 1", b"")), no_header);
}

/// A reader that trusts these headers would run out of memory, stack or time.
#[test]
fn hostile_headers_are_refused_early() {
    let says =
        |content: &[u8]| says("x.npy", content, array_query()).replace("x.npy cannot be read as NPY: ", "");
    let huge = "1000000, 1000000, 1000000";
    assert_eq!(says(&array("<f8", false, huge, &[0; 80])), "it ends in the middle");
    assert_eq!(
        says(&array("<f8", false, &huge.replace('0', "000"), b"")),
        "its header declares more entries than a file can hold"
    );
    // The same in an archive, whose size says nothing about the size of its arrays.
    let in_archive = |name: &str, shape: &str| (format!("{name}.npy"), array("<f8", false, shape, &[0; 80]));
    let (fibers, places) =
        (in_archive("fibers", "1000000000000, 3"), in_archive("places", "1000000000000, 2"));
    for files in [vec![in_archive("a", huge)], vec![fibers, places]] {
        let files: Vec<(&str, Vec<u8>)> =
            files.iter().map(|(name, content)| (name.as_str(), content.clone())).collect();
        let error = self::says("x.npz", &archive(&files), array_query());
        assert!(error.ends_with("it ends in the middle"), "{error}");
    }
    let no_header = "it does not start with the header of a NumPy array";
    for (bracket, message) in
        [("{", no_header), ("(", no_header), ("[", "its entries are records, they must be numbers")]
    {
        assert_eq!(says(&array_with((bracket.repeat(9_000) + "\n").as_bytes(), b"")), message);
    }
}

#[test]
fn places_must_fit_the_fibers() {
    let says =
        |content: &[u8]| says("x.npz", content, array_query()).replace("x.npz cannot be read as NPZ: ", "");
    let whole = "is not a whole number from 0 to 4294967295";
    assert_eq!(
        says(&fibers_and_places(&[0.0, 1.0, -1.0, 0.0])),
        format!("x.npz, entry places[1, 0]: -1 {whole}")
    );
    assert_eq!(says(&fibers_and_places(&[0.0, 0.5])), format!("x.npz, entry places[0, 1]: 0.5 {whole}"));
    let places = |shape: &str, count| ("places.npy", array("|u1", false, shape, &vec![1; count]));
    let fibers = ("fibers.npy", array("|u1", false, "2, 3", &[1; 6]));
    let both = |places| archive(&[fibers.clone(), places]);
    assert_eq!(says(&both(places("3, 2", 6))), "fibers: there are 2 of them, and 3 places");
    assert!(says(&both(places("2, 3", 6))).starts_with("places: it must have two columns"));
    assert!(says(&both(places("2,", 2))).starts_with("places: it must have two columns"));
    assert!(says(&both(places("1, 2, 1", 2))).starts_with("places: it has 3 axes"));
    let error = says(&archive(&[fibers.clone(), ("labels.npy", Vec::new())]));
    assert_eq!(
        error,
        "it must have one array, or fibers and places, and has 2 files: \"fibers.npy\", \"labels.npy\""
    );
}

/// Reads 10 entries in an index space of 1e9 x 1e9 places.
#[test]
fn a_huge_index_space_takes_no_memory() {
    let mut text = String::new();
    for at in 0..10_u64 {
        text += &format!("{} {} {} 1\n", at % 3, at * 100_000_000 + 7, at * 111_111_111);
    }
    let path = place("huge.tns");
    fs::write(&path, text).unwrap();
    let events = table::read(&path, array_query()).unwrap();
    assert_eq!(events.shape().to_string(), "3 x 10 x 10");
    // Features are dense, so a huge range of features is refused.
    fs::write(&path, "1 1 1 1\n1000000000 1 1 1\n").unwrap();
    let error = table::read(&path, array_query()).unwrap_err().to_string();
    assert!(
        error.contains(
            "line 2: 1000000000 stretches bin(1,1) to more than 1000000 labels, of which 2 have events"
        ),
        "{error}"
    );
}

#[test]
fn damaged_files_are_refused_or_read() {
    damage("damaged.parquet", &whole_parquet("to_damage.parquet"), &weeks(), 2_000);
    damage("damaged.npy", &whole_array(), &array_query(), 2_000);
    damage("damaged.npz", &fibers_and_places(&[0.0, 1.0, 4.0, 5.0]), &array_query(), 2_000);
    damage("damaged.tns", b"1 2 3 4\n2 2 3 -1e3\n# end\n", &array_query(), 2_000);
    damage("damaged.csv", CSV, &months(), 2_000);
    damage("damaged.csv.gz", &gzip(CSV), &months(), 2_000);
}

/// A single changed bit of a compressed or checked file is an error, or makes no difference: never other numbers.
#[test]
fn a_changed_bit_never_gives_other_numbers() {
    let mut draws = Draws(3);
    let mut text = String::from("hour,who,day\n");
    for _ in 0..300 {
        text += &format!("{},p{},d{}\n", draws.below(24), draws.below(6), draws.below(5));
    }
    let query = query("bin(hour,1)", "who", "day");
    let two_members = [gzip(text.as_bytes()), gzip(b"3,p1,d1\n")].concat();
    for (name, content) in [("bits.csv.gz", gzip(text.as_bytes())), ("bits-2.csv.gz", two_members)] {
        let path = place(name);
        fs::write(&path, &content).unwrap();
        let right = table::read(&path, query.clone()).unwrap();
        let mut refused = 0;
        for at in 0..8 * content.len() {
            let mut wrong = content.clone();
            wrong[at / 8] ^= 1 << (at % 8);
            fs::write(&path, &wrong).unwrap();
            match table::read(&path, query.clone()) {
                Err(_) => refused += 1,
                Ok(events) => assert!(events == right, "{name}: bit {at} gives other numbers"),
            }
        }
        // Only the time, the name and the operating system in the header have no checksum.
        assert!(refused > 8 * (content.len() - 20), "{refused} of {} bits", 8 * content.len());
    }
}

/// Where the pages of a Parquet file have checksums, a changed bit of a page is an error.
#[test]
fn checksums_of_parquet_pages_are_verified() {
    for name in ["checksums-1.parquet", "checksums-2.parquet"] {
        let content = fs::read(format!("{}/tests/hostile/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
        let path = place(name);
        let query = Query { value: Value::Sum("size".into()), ..query("bin(hour,1)", "who", "day") };
        fs::write(&path, &content).unwrap();
        let right = table::read(&path, query.clone()).unwrap();
        let end = content.len();
        let footer = u32::from_le_bytes(content[end - 8..end - 4].try_into().unwrap()) as usize + 8;
        let (mut by_checksum, mut other) = (0, 0);
        for at in 32..8 * (end - footer) {
            let mut wrong = content.clone();
            wrong[at / 8] ^= 1 << (at % 8);
            fs::write(&path, &wrong).unwrap();
            match table::read(&path, query.clone()) {
                Err(error) => by_checksum += usize::from(error.to_string().contains("CRC")),
                Ok(events) => other += usize::from(events != right),
            }
        }
        // The headers of the pages have no checksum, but a change there rarely passes.
        assert!(by_checksum > 4 * (end - footer), "{by_checksum}");
        assert_eq!(other, 0, "{name}");
    }
}

/// Returns labels of 64 bytes that have the same hash for the hasher of the crate `rustc-hash`, version 2.
///
/// It mixes pieces of 16 bytes in turn into two states, as the folded product of state ^ first half and a function of the
/// second half. If the first half of the third piece is the state, the product is 0, whatever the second half is.
fn labels_of_one_hash(count: usize) -> Vec<String> {
    let half = |text: &str| u64::from_le_bytes(text.as_bytes().try_into().unwrap());
    let state = |first: &str| {
        let product = u128::from(0x243f_6a88_85a3_08d3 ^ half(&first[..8]))
            * u128::from(0xa409_3822_299f_31d0 ^ half(&first[8..]));
        product as u64 ^ (product >> 64) as u64
    };
    // The state must be text that needs no quotes in CSV.
    let found = (0_u64..).find_map(|at| {
        let first = format!("{at:016}");
        let bytes = state(&first).to_le_bytes();
        let is_plain = bytes.iter().all(u8::is_ascii_alphanumeric);
        is_plain.then(|| first + &"-".repeat(16) + &String::from_utf8_lossy(&bytes))
    });
    let start = found.unwrap();
    (0..count).map(|at| format!("{start}{at:08}{}", "-".repeat(16))).collect()
}

/// Nobody can choose labels that make reading slow: the hasher has a random seed.
#[test]
fn labels_of_one_hash_take_no_longer_than_others() {
    let time = |labels: Vec<String>| {
        let mut text = String::from("hour,who,with\n");
        labels.iter().for_each(|label| text += &format!("1,{label},{label}\n"));
        let path = place("labels.csv");
        fs::write(&path, text).unwrap();
        let begun = Instant::now();
        let events = table::read(&path, query("hour", "who", "with")).unwrap();
        assert_eq!(events.shape().rows, labels.len());
        begun.elapsed()
    };
    let count = 40_000;
    let others = time((0..count).map(|at| format!("{at:064}")).collect());
    let chosen = time(labels_of_one_hash(count));
    assert!(chosen < 50 * others.max(Duration::from_millis(20)), "{chosen:?} instead of {others:?}");
}

/// One wrong date must not make a long axis in silence.
#[test]
fn a_value_far_from_all_others_does_not_stretch_an_axis() {
    let mut text = String::from("time,from,to\n");
    (0..300).for_each(|at| text += &format!("2024-{:02}-{:02},a{},b\n", 1 + at % 12, 1 + at / 12, at % 7));
    let path = place("stretch.csv");
    let read = |more: &str, query: Query| {
        fs::write(&path, format!("{text}{more}")).unwrap();
        let read = table::read(&path, query);
        read.map_err(|error| error.to_string().replace(&path.display().to_string(), "stretch.csv"))
    };
    let days = || query("day(time)", "from", "to");
    let ordinary = read("", days()).unwrap();
    assert_eq!((ordinary.shape().features, ordinary.stretch), (360, None));
    let wrong = "1970-01-01,a1,b\n2024-07-01,a1,b\n1970-01-01,a2,b\n";
    assert_eq!(
        read(wrong, days()).unwrap_err(),
        "stretch.csv, line 302: 1970-01-01 stretches day(time) to 20083 labels, of which 301 have events; the others \
         are from 2024-01-01 to 2024-12-25; at most 10000 labels are allowed: leave such rows out with --where, take \
         wider cells or bins, or allow them with --max-features 20083"
    );
    let allowed = Query { max_features: Some(20_083), ..days() };
    let events = read(wrong, allowed).unwrap();
    assert_eq!(events.shape().features, 20_083);
    assert!(events.stretch.unwrap().words("t").starts_with("t, line 302: 1970-01-01 stretches"));
    // Eight thousand years of days are beyond any limit.
    let error = read("9999-01-01,a1,b\n", Query { max_features: Some(9_000_000), ..days() }).unwrap_err();
    assert!(
        error.contains("line 302: 9999-01-01 stretches day(time) to more than 1000000 labels"),
        "{error}"
    );
    assert!(error.ends_with("take wider cells or bins"), "{error}");
    // Months are few, so that a note is enough. Without events far from all others, the note names both ends.
    let months = read(wrong, query("month(time)", "from", "to")).unwrap();
    assert_eq!(months.shape().features, 660);
    assert!(
        months
            .stretch
            .unwrap()
            .words("t")
            .contains("of which 13 have events; the others are from 2024-01 to")
    );
    let ends = "1970-01-01,a1,b\n2078-01-01,a2,b\n";
    let error = read(ends, days()).unwrap_err();
    assert!(error.contains("they are from 1970-01-01 (line 302) to 2078-01-01 (line 303)"), "{error}");
    // The limit holds for columns, too. Slots of a day never depend on the events.
    let few = Query { max_features: Some(6), ..query("from", "time", "to") };
    assert_eq!(
        read("", few).unwrap_err(),
        "\"from\" is given, it must be of at most 6 labels: fibers are dense"
    );
    assert_eq!(read("", query("slot(time,1s)", "from", "to")).unwrap().stretch, None);
}
