//! Mistakes that must not pass in silence: files that would be overwritten, flags without effect, events that are
//! left out.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{folder, noodl, stderr, stdout};

/// Writes rides on a small map: two groups, each in its own corner.
fn rides(folder: &Path, name: &str, highest: f64, step: usize) -> PathBuf {
    let mut text = String::from("who,with,lon,lat,day\n");
    for at in (0..960).step_by(step) {
        let (group, person) = (at % 2, at / 2 % 6);
        let shift = (at as f64 * 0.754_877_666) % 1.0;
        let near = [13.31 + 0.01 * shift, 13.35 + 0.01 * shift][group];
        let up = [52.41 + 0.01 * shift, 52.46 + (highest - 0.46) * shift][group];
        let with = (person + 1 + at / 12 % 4) % 6;
        text += &format!("p{group}{person},p{group}{with},{near:.5},{up:.5},2024-0{}-11\n", 1 + at % 3);
    }
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_grid_keeps_its_bounds() {
    let folder = folder("a_grid_keeps_its_bounds");
    let (table, other) = (rides(&folder, "a.csv", 0.49, 1), rides(&folder, "b.csv", 0.48, 3));
    let model = folder.join("a.safetensors").display().to_string();
    let axes = "--feature grid(lon,lat,5x5) --row who --col with";
    let learned = noodl(&format!("learn {} {axes} --patterns 2 -o {model}", table.display()));
    assert!(learned.status.success(), "{}", stderr(&learned));
    for table in [&table, &other] {
        let codes = noodl(&format!("encode {model} {}", table.display()));
        assert!(stdout(&codes).lines().count() > 12, "{}\n{}", stderr(&codes), stdout(&codes));
    }
    let next = folder.join("b.safetensors").display().to_string();
    let learned = noodl(&format!("learn {} {axes} --start-model {model} -o {next}", other.display()));
    assert!(learned.status.success() && !stderr(&learned).contains("left out"), "{}", stderr(&learned));
    // Labels are places that can be told apart.
    let csv = folder.join("a.csv.out.csv").display().to_string();
    assert!(noodl(&format!("export {model} -o {csv}")).status.success());
    let text = fs::read_to_string(&csv).unwrap();
    let mut labels: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("pattern,,1,"))
        .map(|line| line.split(',').nth(4).unwrap())
        .collect();
    assert_eq!(labels.len(), 25, "{text}");
    labels.sort_unstable();
    labels.dedup();
    assert_eq!(labels.len(), 25);
}

#[test]
fn no_file_is_written_over_another_that_counts() {
    let folder = folder("no_file_is_written_over_another_that_counts");
    let table = rides(&folder, "a.csv", 0.49, 1).display().to_string();
    let model = folder.join("a.safetensors").display().to_string();
    let axes = "--feature grid(lon,lat,5x5) --row who --col with --patterns 2";
    assert!(noodl(&format!("learn {table} {axes} -o {model}")).status.success());
    let [names, fresh] =
        ["names.csv", "fresh.safetensors"].map(|name| folder.join(name).display().to_string());
    fs::write(&names, "id,name\np00,Ann\n").unwrap();
    let start = "--feature grid(lon,lat,5x5) --row who --col with";
    let before = (fs::read(&table).unwrap(), fs::read(&model).unwrap());
    for command in [
        format!("learn {table} {axes} -o {table}"),
        format!("learn {table} {axes} -o {model} --report {model}"),
        format!("encode {model} {table} -o {model}"),
        format!("encode {model} {table} -o {table}"),
        format!("report {model} -o {model}"),
        format!("export {model} -o {model}"),
        format!("learn {table} {axes} -o {fresh} --report {names} --names {names}(id,name)"),
        format!("learn {table} {axes} -o {names} --groups {names}(id,name)"),
        format!("learn {table} {start} -o {fresh} --start-model {model} --report {model}"),
        format!("learn {table} {start} -o {model} --start-model {model}"),
        format!("check {table} {axes} --names {names}(id,name) --patterns-out {names}"),
        format!("encode {model} {table} --names {names}(id,name) -o {names}"),
    ] {
        let run = noodl(&command);
        assert!(!run.status.success(), "{command}");
        assert!(stderr(&run).contains("needs that file for something else"), "{command}: {}", stderr(&run));
    }
    assert!(before == (fs::read(&table).unwrap(), fs::read(&model).unwrap()));
    assert_eq!(fs::read_to_string(&names).unwrap(), "id,name\np00,Ann\n");
    assert!(!Path::new(&fresh).exists());
}

#[test]
fn a_further_run_counts_its_own_flags() {
    let folder = folder("a_further_run_counts_its_own_flags");
    let table = rides(&folder, "a.csv", 0.49, 1).display().to_string();
    let file = |name: &str| folder.join(name).display().to_string();
    let (start, one, two) = (file("start.safetensors"), file("one.safetensors"), file("two.safetensors"));
    let axes = "--feature grid(lon,lat,5x5) --row who --col with --step month(day)";
    let learn = |more: &str| noodl(&format!("learn {table} {axes} {more}"));
    assert!(learn(&format!("--patterns 2 -o {start}")).status.success());
    assert!(learn(&format!("--start-model {start} -o {one}")).status.success());
    assert!(learn(&format!("--start-model {start} --forgetting 0.5 -o {two}")).status.success());
    let patterns = |model: &str| {
        let csv = format!("{model}.csv");
        assert!(noodl(&format!("export {model} -o {csv}")).status.success());
        fs::read_to_string(csv).unwrap()
    };
    assert_ne!(patterns(&one), patterns(&two));
    for (more, said) in [
        (format!("--start-model {start} --recipe log2 -o {two}"), "was learned with the recipe ''"),
        (format!("--patterns 2 --tau 0.7 --resume -o {start}"), "in another way"),
        (format!("--patterns 2 --where who!=p00 --resume -o {start}"), "in another way"),
        (format!("--square --keep-rows 3 -o {two}"), "cannot be used with"),
        (format!("--row grid(lon,lat,2x2) --average-over day -o {two}"), "no grid where values are averaged"),
        (format!("--where lon==1 -o {two}"), "one of = != < <= > >="),
    ] {
        let run = learn(&more);
        assert!(!run.status.success() && stderr(&run).contains(said), "{more}: {}", stderr(&run));
    }
    // Cells that the model does not know are named.
    let more = fs::read_to_string(&table).unwrap() + "p00,p01,13.9,52.9,2024-02-11\n";
    fs::write(&table, more).unwrap();
    let wide = format!("learn {table} --feature bin(lat,0.01) --row who --col with -o {start} --patterns 2");
    assert!(noodl(&wide).status.success());
    fs::write(&table, fs::read_to_string(&table).unwrap() + "p00,p01,13.9,53.9,2024-02-11\n").unwrap();
    let next = noodl(&format!(
        "learn {table} --feature bin(lat,0.01) --row who --col with --start-model {start} -o {two}"
    ));
    assert!(stderr(&next).contains("1 of ") && stderr(&next).contains("are left out"), "{}", stderr(&next));
}
