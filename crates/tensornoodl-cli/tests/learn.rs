//! Tables of events and models, run as a user would.

#![allow(clippy::unwrap_used, clippy::print_stderr, clippy::print_stdout)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{folder, noodl, program, stderr, stdout, temporary_files};
use serde_json::Value;

/// Writes e-mails of two teams over two years: one team is busy in spring, one in autumn, and each writes only to its
/// members.
fn firm(folder: &Path) -> PathBuf {
    let mut text = String::from("time,from,to,size\n");
    let teams = [(["ann", "bob", "cid", "dot"], [3, 4, 5]), (["eve", "fay", "gus", "hal"], [9, 10, 11])];
    let mut event = 0_u64;
    for (team, months) in teams {
        for (from, to) in team.iter().flat_map(|from| team.iter().map(move |to| (from, to))) {
            for (year, month) in
                [2001, 2002].iter().flat_map(|year| months.iter().map(move |month| (year, month)))
            {
                for mail in 0..(3 + event % 2) {
                    text += &format!("{year}-{month:02}-{:02} 09:30,{from},{to},{event}\n", mail + 1);
                }
                event += 1;
            }
        }
    }
    let path = folder.join("firm.csv");
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_table_becomes_a_model_with_names() {
    let folder = folder("a_table_becomes_a_model_with_names");
    let table = firm(&folder).display().to_string();
    let axes = format!("{table} --feature month(time) --row from --col to --where from!=@to");
    let stats = noodl(&format!("stats {axes} --json"));
    let stats: Value = serde_json::from_str(&stdout(&stats)).unwrap();
    let shape = ["features", "rows", "cols", "fibers", "steps"].map(|name| stats[name].as_u64().unwrap());
    assert_eq!(shape, [21, 8, 8, 24, 1]);
    assert!(stdout(&noodl(&format!("stats {axes}"))).contains("21 features x 8 rows x 8 cols"));
    let model = folder.join("firm.safetensors");
    let learned = noodl(&format!("learn {axes} --recipe log2,scale -o {}", model.display()));
    assert!(learned.status.success(), "{}", stderr(&learned));
    assert!(stdout(&learned).starts_with("2 patterns in "), "{}", stdout(&learned));
    let shown = stdout(&noodl(&format!("show {}", model.display())));
    let rows: Vec<&str> = shown.lines().filter(|line| line.starts_with("  rows")).collect();
    let team = |line: &&str, names: [&str; 4]| names.iter().all(|name| line.contains(name));
    assert_eq!(rows.len(), 2, "{shown}");
    assert!(rows.iter().any(|line| team(line, ["ann", "bob", "cid", "dot"])), "{shown}");
    assert!(rows.iter().any(|line| team(line, ["eve", "fay", "gus", "hal"])), "{shown}");
    // A page about it, whole in one file.
    let page = folder.join("firm.html");
    assert!(noodl(&format!("report {} -o {}", model.display(), page.display())).status.success());
    let text = fs::read_to_string(&page).unwrap();
    assert!(text.contains("2 patterns over 21 features") && text.contains("id=\"pattern-2\""));
    assert!(!text.contains("src=\"http") && !text.contains("href=\"http") && text.len() < 2_000_000);
    fs::remove_file(&page).unwrap();
    // What is wrong is said, and the old model is still there.
    let before = fs::read(&model).unwrap();
    for (wrong, code, message) in [
        (format!("learn {table} --feature month(date) --row from --col to"), 3, "has no column \"date\""),
        (
            format!("learn {table} --feature month(size) --row from --col to"),
            3,
            "line 2, column size: \"0\" is not a date",
        ),
        (format!("learn {table} --feature year(time) --row from --col to"), 2, "\"year(time)\" is given"),
        (format!("learn {axes} --recipe root"), 2, "the recipe has \"root\""),
        (format!("learn {axes} --patterns 0"), 2, "a number above 0 or auto"),
        (format!("learn {axes} --start-model {table}"), 3, "cannot be read as a model"),
    ] {
        let refused = noodl(&format!("{wrong} -o {}", model.display()));
        assert_eq!(refused.status.code(), Some(code), "{wrong}: {}", stderr(&refused));
        assert!(stderr(&refused).contains(message), "{}", stderr(&refused));
    }
    assert!(fs::read(&model).unwrap() == before);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2, "nothing is left half written");
}

/// A model of the format before the checksum is read, with a note. A damaged model is refused.
#[test]
fn old_models_are_read_and_damaged_ones_are_refused() {
    let folder = folder("old_models_are_read_and_damaged_ones_are_refused");
    let old =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../tensornoodl-data/tests/models/format-2.safetensors");
    let shown = noodl(&format!("show {}", old.display()));
    assert!(
        shown.status.success() && stdout(&shown).starts_with("2 patterns over kind"),
        "{}",
        stderr(&shown)
    );
    assert!(stderr(&shown).contains("its format is 2, which has no checksum"), "{}", stderr(&shown));
    let (table, model) = (firm(&folder).display().to_string(), folder.join("firm.safetensors"));
    let (name, other) = (model.display().to_string(), folder.join("x.csv"));
    let learn = format!("learn {table} --feature month(time) --row from --col to -o {name}");
    assert!(noodl(&learn).status.success());
    let shown = noodl(&format!("show {name}"));
    assert!(shown.status.success() && stderr(&shown).is_empty(), "{}", stderr(&shown));
    let mut bytes = fs::read(&model).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&model, &bytes).unwrap();
    let export = format!("export {name} -o {}", other.display());
    for command in
        [format!("show {name}"), export, format!("{learn} --resume"), format!("encode {name} {table}")]
    {
        let refused = noodl(&command);
        assert_eq!(refused.status.code(), Some(3), "{command}");
        assert!(
            stderr(&refused).contains("firm.safetensors is damaged: its checksum is"),
            "{}",
            stderr(&refused)
        );
    }
    assert!(fs::read(&model).unwrap() == bytes && !other.exists());
}

/// Writes two hundred days of three teams with separate kinds of events; the second and the third team come later.
fn days(folder: &Path) -> PathBuf {
    let mut text = String::from("day,kind,from,to\n");
    let teams = [["ann", "bob", "cid", "dot"], ["eve", "fay", "gus", "hal"], ["ida", "jon", "kim", "leo"]];
    let mut event = 0_usize;
    for step in 0..200 {
        let day = format!("2001-{:02}-{:02}", 1 + step / 28, 1 + step % 28);
        for (at, team) in teams.iter().enumerate().filter(|(at, _)| step >= 60 * at) {
            for (from, to) in team.iter().flat_map(|from| team.iter().map(move |to| (from, to))) {
                for kind in 4 * at..4 * at + 4 {
                    for _ in 0..1 + event * 7919 / 8 % 3 {
                        text += &format!("{day},{kind},{from},{to}\n");
                    }
                    event += 1;
                }
            }
        }
    }
    let path = folder.join("days.csv");
    fs::write(&path, text).unwrap();
    path
}

/// Kills the program a hundred times at any moment: the model file can always be read, the run goes on, and no other
/// file is left.
#[test]
#[cfg(unix)]
fn a_stream_that_was_killed_ends_in_the_same_bits() {
    use rand::{RngExt, SeedableRng};
    use std::os::unix::process::ExitStatusExt;
    let folder = folder("a_stream_that_was_killed_ends_in_the_same_bits");
    let table = days(&folder).display().to_string();
    let model = folder.join("model.safetensors");
    let args = format!(
        "learn {table} --feature kind --row from --col to --step day(day) --checkpoint-every 1 --resume -o {}",
        model.display()
    );
    let begun = Instant::now();
    let learned = noodl(&args);
    assert!(learned.status.success(), "{}", stderr(&learned));
    let whole = begun.elapsed();
    let bits = fs::read(&model).unwrap();
    fs::remove_file(&model).unwrap();
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(42);
    let (mut killed, mut halves, mut ends) = (0, 0, 0);
    // Kills before the first checkpoint, and in each quarter of the steps.
    let (mut before, mut quarters) = (0, [0; 4]);
    while killed < 100 || model.exists() {
        // Some begin anew and end soon: there are few moments before the first checkpoint.
        let anew = killed % 10 == 0 && killed < 100;
        if anew && model.exists() {
            fs::remove_file(&model).unwrap();
        }
        let mut run = Command::new(program("noodl"))
            .args(args.split_whitespace())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The last one is left alone.
        if killed < 100 {
            let latest = if anew { 0.03 } else { 0.5 };
            std::thread::sleep(whole.mul_f64(rng.random_range(0.0..latest)));
            // Some in the middle of writing.
            while killed % 3 == 0 && temporary_files(&folder).is_empty() && run.try_wait().unwrap().is_none()
            {
                std::thread::sleep(Duration::from_micros(50));
            }
            run.kill().unwrap();
        }
        let run = run.wait_with_output().unwrap();
        if run.status.signal() == Some(9) {
            killed += 1;
            assert!(
                fs::read_dir(&folder).unwrap().count() <= 4,
                "the table, the model, its lock, and a temporary file"
            );
            for file in temporary_files(&folder) {
                fs::remove_file(file).unwrap();
                halves += 1;
            }
            if model.exists() {
                let shown = noodl(&format!("show {}", model.display()));
                assert!(shown.status.success(), "{}", stderr(&shown));
                let shown = stdout(&shown);
                let (line, _) = shown.split_once(" of 200 steps learned").unwrap();
                let steps: usize = line.rsplit(' ').next().unwrap().parse().unwrap();
                quarters[(steps - 1) / 50] += 1;
            } else {
                before += 1;
            }
        } else {
            assert!(run.status.success(), "after {killed} kills: {}", stderr(&run));
            assert!(fs::read(&model).unwrap() == bits, "after {killed} kills");
            assert_eq!(fs::read_dir(&folder).unwrap().count(), 2, "nothing is left half written");
            fs::remove_file(&model).unwrap();
            ends += 1;
        }
    }
    println!(
        "{killed} kills: {before} before the first checkpoint, {quarters:?} in the quarters, {halves} while writing; {ends} ends"
    );
    assert!(before > 0 && quarters.iter().all(|kills| *kills > 0), "{before} {quarters:?}");
    assert!(halves >= 10 && ends > 0, "{halves} {ends}");
}

#[test]
fn another_way_to_learn_is_not_a_way_to_go_on() {
    let folder = folder("another_way_to_learn_is_not_a_way_to_go_on");
    let (table, model) = (firm(&folder).display().to_string(), folder.join("model.safetensors"));
    let args = format!(
        "learn {table} --feature day(time) --row from --col to --step month(time) --resume -o {}",
        model.display()
    );
    // The patterns of a few days explain nothing of the next month, and that is said.
    assert_eq!(noodl(&args).status.code(), Some(6));
    let refused = noodl(&format!("{args} --recipe log2"));
    assert!(stderr(&refused).contains("leave --resume out"), "{}", stderr(&refused));
}

/// A table that has grown by a feature cannot go on with the old model, which would leave the feature out.
#[test]
fn a_new_feature_is_not_left_out_by_resume() {
    let folder = folder("a_new_feature_is_not_left_out_by_resume");
    let (path, model) = (folder.join("t.csv"), folder.join("model.safetensors"));
    // Three people, each with two kinds of events; the third one has those of the first one if there are two pairs.
    let rows = |month: usize, pairs: usize| -> String {
        let kind = |at: usize| 2 * (at % 3 % pairs) + at / 3 % 2;
        (0..600).map(|at| format!("{},{},{},{}\n", kind(at), at % 3, at % 5, month + at / 300)).collect()
    };
    let args = format!(
        "learn {} --feature kind --row from --col to --step month --patterns 2 --resume -o {}",
        path.display(),
        model.display()
    );
    let first = format!("kind,from,to,month\n{}", rows(1, 2));
    fs::write(&path, &first).unwrap();
    assert!(noodl(&args).status.success());
    let before = fs::read(&model).unwrap();
    fs::write(&path, format!("{first}{}", rows(3, 3))).unwrap();
    let refused = noodl(&args);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("the table has the feature \"4\" now"), "{}", stderr(&refused));
    assert_eq!(fs::read(&model).unwrap(), before);
    fs::write(&path, format!("{first}{}", rows(3, 2))).unwrap();
    assert!(noodl(&args).status.success());
}

#[test]
fn a_model_is_used_compared_and_exported() {
    let folder = folder("a_model_is_used_compared_and_exported");
    let table = firm(&folder).display().to_string();
    let model = folder.join("firm.safetensors").display().to_string();
    let axes = format!("{table} --feature month(time) --row from --col to --where from!=@to");
    assert!(noodl(&format!("learn {axes} --recipe log2,scale -o {model}")).status.success());
    let codes = stdout(&noodl(&format!("encode {model} {table}")));
    let lines: Vec<&str> = codes.lines().collect();
    // 24 pairs of people, each with the pattern of their team.
    assert_eq!((lines[0], lines.len()), ("step,row,col,pattern,code,certain", 25), "{codes}");
    let pattern = |names: [&str; 2]| {
        let line =
            lines.iter().find(|line| line.starts_with(&format!("all,{},{},", names[0], names[1]))).unwrap();
        line.split(',').nth(3).unwrap().to_owned()
    };
    assert_eq!(pattern(["ann", "bob"]), pattern(["dot", "cid"]));
    assert_ne!(pattern(["ann", "bob"]), pattern(["eve", "fay"]));
    let same: Value =
        serde_json::from_str(&stdout(&noodl(&format!("compare {model} {model} --json")))).unwrap();
    assert!(
        same["pairs"].as_array().unwrap().iter().all(|pair| pair["cosine"].as_f64().unwrap() > 0.999_999)
    );
    for end in ["csv", "parquet", "npz"] {
        let out = folder.join(format!("firm.{end}"));
        assert!(noodl(&format!("export {model} -o {}", out.display())).status.success());
        assert!(fs::metadata(&out).unwrap().len() > 500);
    }
    let text = fs::read_to_string(folder.join("firm.csv")).unwrap();
    // Two patterns of 21 features, and four rows and four cols of each.
    let further = |line: &&str| matches!(line.split(',').nth(3), Some("2" | "3"));
    assert_eq!(text.lines().filter(|line| !further(line)).count(), 1 + 2 * 21 + 2 * 4 + 2 * 4, "{text}");
    assert!(text.contains("row,all,1,"), "{text}");
    let refused = noodl(&format!("export {model} -o {}", folder.join("firm.xls").display()));
    assert_eq!((refused.status.code(), stderr(&refused).contains("output is .xls")), (Some(2), true));
    let refused = noodl(&format!("show {model} --pattern 3"));
    assert_eq!((refused.status.code(), stderr(&refused).contains("from 1 to 2")), (Some(2), true));
}

/// Reads the lines of a Parquet file, written as CSV.
fn rows(path: &Path) -> Vec<String> {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;
    let file = SerializedFileReader::new(fs::File::open(path).unwrap()).unwrap();
    let text = |field: &Field| match field {
        Field::Null => String::new(),
        Field::Str(text) => text.clone(),
        Field::Long(number) => number.to_string(),
        Field::Double(value) => value.to_string(),
        other => panic!("{other:?}"),
    };
    let row = |row: parquet::record::Row| {
        row.get_column_iter().map(|(_, field)| text(field)).collect::<Vec<_>>().join(",")
    };
    file.get_row_iter(None).unwrap().map(|it| row(it.unwrap())).collect()
}

/// Two groups that are busy in the same months are two blocks of one pattern; all formats of the export have both.
#[test]
fn every_form_of_the_export_has_the_same_numbers() {
    let folder = folder("every_form_of_the_export_has_the_same_numbers");
    let at = |name: &str| folder.join(name).display().to_string();
    let (table, model) = (firm(&folder).display().to_string(), at("firm.safetensors"));
    let spring = |line: &&str| ["ann", "bob", "cid", "dot"].iter().any(|name| line.contains(name));
    let text = fs::read_to_string(&table).unwrap();
    let mut more = text.clone();
    // Three of the first team again, by other names: a smaller group.
    for line in text.lines().filter(spring).filter(|line| !line.contains("dot")) {
        more += &(line.replace("ann", "ida").replace("bob", "jon").replace("cid", "kim") + "\n");
    }
    fs::write(&table, more).unwrap();
    let axes = format!("{table} --feature month(time) --row from --col to --where from!=@to");
    assert!(noodl(&format!("learn {axes} --recipe log2,scale -o {model}")).status.success());
    for end in ["csv", "parquet", "npz"] {
        let exported = noodl(&format!("export {model} -o {}", at(&format!("x.{end}"))));
        assert!(exported.status.success(), "{}", stderr(&exported));
    }
    let text = fs::read_to_string(at("x.csv")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "of,step,pattern,block,label,value");
    assert_eq!(rows(&folder.join("x.parquet")), lines[1..]);
    let counts = |table: &str| {
        stdout(&noodl(&format!("stats {} --feature label --row of --col pattern --json", at(table))))
    };
    let both = ["x.csv", "x.parquet"].map(|table| serde_json::from_str::<Value>(&counts(table)).unwrap());
    assert!(both[0]["fibers"].as_u64().unwrap() == 6 && both[0]["fibers"] == both[1]["fibers"], "{both:?}");
    assert!(both[0]["sum"].as_f64() == Some(lines.len() as f64 - 1.0) && both[0]["sum"] == both[1]["sum"]);
    // The smaller group is the second block of its pattern.
    let second = |of: &str, name: &str| {
        let begin = [1, 2].map(|pattern| format!("{of},all,{pattern},2,{name},"));
        lines.iter().any(|line| begin.iter().any(|begin| line.starts_with(begin)))
    };
    for (of, name) in ["ida", "jon", "kim"].iter().flat_map(|name| [("row", name), ("col", name)]) {
        assert!(second(of, name), "{of} {name}: {text}");
    }
    let further = |line: &&&str| line.starts_with("row") && matches!(line.split(',').nth(3), Some("2" | "3"));
    let mut archive = ndarray_npy::NpzReader::new(fs::File::open(at("x.npz")).unwrap()).unwrap();
    let values: ndarray::Array1<f64> = archive.by_name("block_rows_value").unwrap();
    let blocks: ndarray::Array1<i64> = archive.by_name("block_rows_block").unwrap();
    assert_eq!(values.len(), lines.iter().filter(further).count());
    assert!(blocks.iter().all(|block| [1, 2].contains(block)));
}

/// Two teams write in spring and one in autumn, each only to its members: two groups share a pattern of counts.
#[test]
fn groups_of_counts_are_shown_and_exported() {
    let folder = folder("groups_of_counts_are_shown_and_exported");
    let at = |name: &str| folder.join(name).display().to_string();
    let mut text = String::from("time,from,to\n");
    for (team, months) in [("red", 3..6), ("blue", 3..6), ("green", 9..12)] {
        for (from, to) in (1..9).flat_map(|from| (1..9).map(move |to| (from, to))) {
            for (month, mail) in
                months.clone().flat_map(|month| (0..3 + (from * to) % 4).map(move |mail| (month, mail)))
            {
                text += &format!("2001-{month:02}-{:02} 09:30,{team}{from},{team}{to}\n", mail + 1);
            }
        }
    }
    let people: String = ["red", "blue", "green"]
        .iter()
        .flat_map(|team| (1..9).map(move |at| format!("{team}{at},{team}\n")))
        .collect();
    let mails = text.lines().count() - 1;
    fs::write(at("mail.csv"), text).unwrap();
    fs::write(at("people.csv"), format!("id,team\n{people}")).unwrap();
    let (table, model, page) = (at("mail.csv"), at("mail.safetensors"), at("mail.html"));
    let axes =
        format!("{table} --feature month(time) --row from --col to --groups {}(id,team)", at("people.csv"));
    let learned = noodl(&format!("learn {axes} --recipe= -o {model} --report {page}"));
    assert!(learned.status.success() && stdout(&learned).starts_with("2 patterns"), "{}", stderr(&learned));
    let shown = stdout(&noodl(&format!("show {model}")));
    let mut groups: Vec<&str> = shown.lines().filter(|line| line.starts_with("  group ")).collect();
    groups.sort_by_key(|line| line.split_whitespace().nth(4));
    let teams: Vec<_> =
        groups.iter().map(|line| line.split_whitespace().skip(2).take(4).collect::<Vec<_>>()).collect();
    assert_eq!(teams[0][1..], ["%", "blue", "0/8:"], "{shown}");
    assert_eq!(teams[1], ["100", "%", "green", "0/8:"], "{shown}");
    assert_eq!(teams[2][1..], ["%", "red", "0/8:"], "{shown}");
    let share = |at: usize| teams[at][0].parse::<f64>().unwrap();
    assert!(groups.len() == 3 && (share(0) + share(2) - 100.0).abs() <= 1.0, "{shown}");
    assert!(shown.contains("A group has the same number in all patterns that it shares"), "{shown}");
    let page = fs::read_to_string(page).unwrap();
    assert!(
        page.contains("Everybody with events is in a group.")
            && page.contains("<td>green</td><td>0&#x2f;8</td>")
    );
    // With one pattern alone, as many members as wanted are named.
    let spring =
        (1..3).find(|number| stdout(&noodl(&format!("show {model} --pattern {number}"))).contains(" red "));
    let one = stdout(&noodl(&format!("show {model} --pattern {} --top 8", spring.unwrap())));
    let red = one.lines().find(|line| line.contains(" red 0/8: ")).unwrap();
    assert!((1..9).all(|at| red.matches(&format!("red{at}")).count() == 2), "{red}");
    for end in ["csv", "parquet", "npz"] {
        let exported = noodl(&format!("export {model} -o {}", at(&format!("x.{end}"))));
        assert!(exported.status.success(), "{}", stderr(&exported));
    }
    let text = fs::read_to_string(at("x.csv")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(rows(&folder.join("x.parquet")), lines[1..]);
    // Everybody is in one of three groups, by rows and by cols, and each pattern is divided among groups.
    for (of, count) in [("group row", 24), ("group col", 24), ("group share", 3)] {
        let own = lines.iter().filter(|line| line.starts_with(&format!("{of},,")));
        assert_eq!(
            own.filter(|line| line.rsplit(',').next().unwrap().parse::<f64>().unwrap() > 0.1).count(),
            count
        );
    }
    let mut archive = ndarray_npy::NpzReader::new(fs::File::open(at("x.npz")).unwrap()).unwrap();
    let shares: ndarray::Array2<f64> = archive.by_name("group_share").unwrap();
    assert!(shares.dim() == (2, 3) && shares.rows().into_iter().all(|row| (row.sum() - 1.0).abs() < 1e-12));
    let events: ndarray::Array1<f64> = archive.by_name("group_rows_value").unwrap();
    assert!(
        (events.sum() - mails as f64).abs() < 1e-6,
        "all mails are in groups: {} of {mails}",
        events.sum()
    );
}

/// Two patterns of 6 features, each with separate rows and cols.
fn tensor() -> ndarray::Array3<f64> {
    ndarray::Array3::from_shape_fn((12, 8, 8), |(feature, row, col)| {
        if row / 4 == col / 4 && row / 4 == feature / 6 { 1.0 + (feature % 3) as f64 } else { 0.0 }
    })
}

#[test]
fn an_array_is_a_table_without_words() {
    let folder = folder("an_array_is_a_table_without_words");
    let at = |name: &str| folder.join(name).display().to_string();
    let (npy, npz, tns, model) = (at("x.npy"), at("x.npz"), at("x.tns"), at("x.safetensors"));
    let tensor = tensor();
    ndarray_npy::write_npy(&npy, &tensor).unwrap();
    let places: Vec<(usize, usize)> =
        (0..64).map(|at| (at / 8, at % 8)).filter(|(row, col)| row / 4 == col / 4).collect();
    let mut archive = ndarray_npy::NpzWriter::new(fs::File::create(&npz).unwrap());
    let fibers = ndarray::Array2::from_shape_fn((32, 12), |(at, feature)| {
        tensor[[feature, places[at].0, places[at].1]]
    });
    let sides =
        ndarray::Array2::from_shape_fn((32, 2), |(at, side)| [places[at].0, places[at].1][side] as i64);
    archive.add_array("fibers", &fibers).unwrap();
    archive.add_array("places", &sides).unwrap();
    archive.finish().unwrap();
    let entries = tensor.indexed_iter().filter(|entry| *entry.1 != 0.0);
    let lines = entries.map(|((feature, row, col), value)| format!("{feature} {row} {col} {value}\n"));
    fs::write(&tns, lines.collect::<String>()).unwrap();
    let stats = |table: &str| {
        let stats = noodl(&format!("stats {table} --json"));
        let stats: Value = serde_json::from_str(&stdout(&stats)).unwrap();
        ["features", "rows", "cols", "fibers", "sum"].map(|name| stats[name].as_f64().unwrap())
    };
    for table in [&npy, &npz, &tns] {
        assert_eq!(stats(table), [12.0, 8.0, 8.0, 32.0, 32.0 * 12.0], "{table}");
    }
    // Axes that are not given are the others, in order.
    assert_eq!(stats(&format!("{npy} --feature 3")), [8.0, 12.0, 8.0, 48.0, 384.0]);
    assert_eq!(stats(&format!("{npy} --col 1 --value count")), [8.0, 8.0, 12.0, 48.0, 192.0]);
    let learned = noodl(&format!("learn {npy} -o {model}"));
    assert!(stdout(&learned).starts_with("2 patterns in "), "{}", stderr(&learned));
    // The model takes what has the same columns, whatever it is written in.
    let codes = stdout(&noodl(&format!("encode {model} {npy}")));
    assert_eq!(codes.lines().count(), 1 + 32, "{codes}");
    for table in [&npz, &tns] {
        assert_eq!(stdout(&noodl(&format!("encode {model} {table}"))), codes, "{table}");
    }
    let before = fs::read(&model).unwrap();
    let resumed = noodl(&format!("learn {npz} -o {model} --resume"));
    assert!(resumed.status.success() && fs::read(&model).unwrap() == before, "{}", stderr(&resumed));
    let further = noodl(&format!("learn {tns} --start-model {model} -o {}", at("y.safetensors")));
    assert!(stdout(&further).starts_with("2 patterns in "), "{}", stderr(&further));
    // Other tables have to be told.
    let table = firm(&folder).display().to_string();
    for (args, flag) in
        [("", "--feature"), ("--feature from --col to", "--row"), ("--feature from --row to", "--col")]
    {
        let refused = noodl(&format!("stats {table} {args}"));
        assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
        assert!(stderr(&refused).starts_with(&format!("noodl: {flag} is missing, ")), "{}", stderr(&refused));
    }
}

/// Runs the program with a limit of the shell's `ulimit`.
#[cfg(target_os = "linux")]
fn limited(limit: &str, args: &str) -> std::process::Output {
    // A file that is too large is then an error and not the end.
    let script = format!("trap '' XFSZ; ulimit {limit}; exec \"$0\" {args}");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).arg(program("noodl")).env("RAYON_NUM_THREADS", "1").output().unwrap()
}

/// Ten events among 1e9 x 1e9 places need less than 300 MB of address space.
#[test]
#[cfg(target_os = "linux")]
fn a_huge_index_space_takes_megabytes() {
    let folder = folder("a_huge_index_space_takes_megabytes");
    let lines = |blank: &str| -> String {
        let line = |at: u64| {
            [at % 3, at * 111_111_111, 1_000_000_000 - at * 111_111_111, 1].map(|n| n.to_string()).join(blank)
                + "\n"
        };
        (0..10).map(line).collect()
    };
    fs::write(folder.join("x.tns"), lines(" ")).unwrap();
    fs::write(folder.join("x.csv"), format!("f,r,c,v\n{}", lines(","))).unwrap();
    for (table, axes) in [("x.tns", ""), ("x.csv", "--feature f --row r --col c --value 'sum(v)'")] {
        let (table, model) = (folder.join(table).display().to_string(), folder.join("x.safetensors"));
        let stats = limited("-v 300000", &format!("stats {table} {axes}"));
        assert!(stdout(&stats).contains("3 features x 10 rows x 10 cols"), "{table}: {}", stderr(&stats));
        let learned = limited("-v 300000", &format!("learn {table} {axes} -o {}", model.display()));
        // Ten events have no pattern, and that is said.
        assert!(stderr(&learned).contains("no significant pattern"), "{table}: {}", stderr(&learned));
        assert!(learned.status.code() == Some(6) && !model.exists());
    }
}

/// A tensor that does not fit into memory is refused before it is made.
#[test]
#[cfg(target_os = "linux")]
fn a_tensor_that_does_not_fit_is_refused() {
    let folder = folder("a_tensor_that_does_not_fit_is_refused");
    let events = (0..800_000).map(|at| format!("{at},{at},{at}\n"));
    let table = folder.join("x.csv");
    fs::write(&table, format!("f,r,c\n{}", events.collect::<String>())).unwrap();
    let model = folder.join("x.safetensors");
    let refused =
        noodl(&format!("learn {} --feature f --row r --col c -o {}", table.display(), model.display()));
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("GB of memory"), "{}", stderr(&refused));
}

#[test]
#[cfg(target_os = "linux")]
fn a_disk_that_is_full_leaves_the_old_model() {
    let folder = folder("a_disk_that_is_full_leaves_the_old_model");
    let (table, model) = (firm(&folder).display().to_string(), folder.join("x.safetensors"));
    let learn = format!("learn {table} --feature 'month(time)' --row from --col to -o");
    let learned = limited("-v unlimited", &format!("{learn} {}", model.display()));
    assert!(learned.status.success(), "{}", stderr(&learned));
    let before = fs::read(&model).unwrap();
    let full = limited("-f 2", &format!("{learn} {}", model.display()));
    assert_eq!(full.status.code(), Some(1), "{}", stderr(&full));
    assert!(
        stderr(&full).contains("cannot write") && stderr(&full).contains("too large"),
        "{}",
        stderr(&full)
    );
    assert!(fs::read(&model).unwrap() == before);
    assert!(noodl(&format!("show {}", model.display())).status.success());
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2, "nothing is left half written");
    // A device is written to and stays what it is; a link stands for it here, in case it does not.
    let device = folder.join("full");
    std::os::unix::fs::symlink("/dev/full", &device).unwrap();
    let full = limited("-v unlimited", &format!("{learn} {}", device.display()));
    assert_eq!(full.status.code(), Some(1), "{}", stderr(&full));
    assert!(stderr(&full).contains("No space left on device"), "{}", stderr(&full));
    assert!(fs::symlink_metadata(&device).unwrap().is_symlink());
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 3);
}

/// Writes mixtures of three bells that overlap, 30 x 8 x 20, of which some values are negative.
fn mixtures(folder: &Path) -> PathBuf {
    let bell = |at: usize, length: usize, i: usize| {
        (-((at as f64 / length as f64 - [0.3, 0.5, 0.75][i]) / 0.15).powi(2)).exp()
    };
    let amount = |row: usize, i: usize| ((row * 7 + i * 5) % 11) as f64 / 10.0;
    let mut text = String::new();
    for (feature, row, col) in
        (0..30).flat_map(|f| (0..8).flat_map(move |row| (0..20).map(move |col| (f, row, col))))
    {
        let product = |i: usize| bell(feature, 30, i) * amount(row, i) * bell(col, 20, i);
        let noise = 0.02 * (((feature * 31 + row * 17 + col * 13) % 19) as f64 / 18.0 - 0.5);
        let value = (0..3).map(product).sum::<f64>() + noise;
        text += &format!("{} {} {} {value}\n", feature + 1, row + 1, col + 1);
    }
    let path = folder.join("mixtures.tns");
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_dense_array_is_polished_with_both_models() {
    let folder = folder("a_dense_array_is_polished_with_both_models");
    let (table, model) = (mixtures(&folder).display().to_string(), folder.join("model.safetensors"));
    for options in ["", "--model counts --patterns 3"] {
        let learned = noodl(&format!("learn {table} --polish {options} -o {}", model.display()));
        assert!(learned.status.success(), "{}", stderr(&learned));
        assert!(stdout(&learned).starts_with("3 patterns in "), "{}", stdout(&learned));
        let said = stderr(&learned);
        assert!(said.contains("noodl: polished in "), "{said}");
        assert_eq!(said.matches("% of the values are negative; they count as 0").count(), 1, "{said}");
        let shown = stdout(&noodl(&format!("show {}", model.display())));
        let factors: Vec<&str> =
            shown.lines().filter(|line| line.starts_with("  rows") || line.starts_with("  cols")).collect();
        assert!(factors.len() == 6 && factors.iter().all(|line| !line.contains(" -")), "{shown}");
    }
    // Without the polish, the counts model takes whole numbers only.
    let refused = noodl(&format!("learn {table} --model counts -o {}", model.display()));
    assert_eq!(refused.status.code(), Some(3), "{}", stderr(&refused));
    // A stream has no polish.
    let mail = firm(&folder).display().to_string();
    let stream = format!("learn {mail} --feature size --row from --col to --step month(time) --polish");
    let refused = noodl(&format!("{stream} -o {}", model.display()));
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(
        stderr(&refused).contains("polish is given, it must be left out with --step"),
        "{}",
        stderr(&refused)
    );
}
