//! Imports inside a crate point one way: from upper folders to lower ones, and never in a circle between files.
//!
//! The test reads all `crate::` paths of the sources, except those of unit tests, which may use upper layers.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Layers of the core, lowest first.
const CORE: &[&str] = &[
    "shape", "error", "stop", "params", "linalg", "data", "parallel", "encode", "untangle", "update",
    "discover", "surprise", "learner", "evaluate", "golden", "lib",
];

/// Layers of the data crate, lowest first.
const DATA: &[&str] = &["error", "memory", "files", "lock", "input", "count", "model", "lib"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All Rust files below a folder, by their path relative to it, such as `discover/search.rs`.
fn sources(folder: &Path) -> Vec<String> {
    let mut files = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).unwrap_or_else(|error| panic!("{}: {error}", next.display())) {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                files.push(path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    files.sort();
    files
}

/// The code of a file without comments and without its unit tests.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]").next().unwrap();
    text.lines().map(|line| line.split("//").next().unwrap()).collect::<Vec<_>>().join("\n")
}

/// The file that a path such as `discover::search::Search` leads to: the longest prefix that is a module.
fn file_of(files: &[String], path: &str) -> Option<String> {
    let mut names: Vec<&str> = path.split("::").collect();
    while !names.is_empty() {
        let module = names.join("/");
        for file in [format!("{module}.rs"), format!("{module}/mod.rs")] {
            if files.contains(&file) {
                return Some(file);
            }
        }
        names.pop();
    }
    None
}

/// The names after a prefix, such as `discover::search::Search`, wherever it stands in the code.
fn paths_after<'c>(code: &'c str, prefix: &str) -> Vec<&'c str> {
    let name = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let rest = code.match_indices(prefix).map(|(at, _)| &code[at + prefix.len()..]);
    rest.map(|rest| rest.split(|c| !name(c)).next().unwrap()).collect()
}

/// For each file of a crate, the files that it imports from.
fn imports(src: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let files = sources(src);
    let mut imports = BTreeMap::new();
    for file in &files {
        let code = code(&src.join(file));
        assert!(!code.contains("super::"), "{file}: imports are written as crate:: paths");
        // `crate::{progress, table::Args}` has two paths, as long as there are no braces inside.
        let lists = code.split("crate::{").skip(1).map(|rest| rest.split('}').next().unwrap());
        let listed = lists.flat_map(|list| list.split(',').map(str::trim));
        let paths = paths_after(&code, "crate::").into_iter().chain(listed);
        let mut targets: BTreeSet<String> = paths.filter_map(|path| file_of(&files, path)).collect();
        // The root of a folder also re-exports the files below it by their names alone.
        if let Some(folder) = file.strip_suffix("mod.rs") {
            let children = paths_after(&code, "\npub use ").into_iter().chain(paths_after(&code, "\nuse "));
            let children = children.filter_map(|path| file_of(&files, &format!("{folder}{path}")));
            targets.extend(children.filter(|child| child.starts_with(folder)));
        }
        targets.remove(file);
        imports.insert(file.clone(), targets);
    }
    imports
}

/// A circle of imports, if there is one.
fn circle(imports: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    // Files without imports are taken away until none is left, or only circles and what leads to them.
    let mut left = imports.clone();
    loop {
        let ends: Vec<String> =
            left.iter().filter(|(_, targets)| targets.is_empty()).map(|(file, _)| file.clone()).collect();
        if ends.is_empty() {
            break;
        }
        for end in ends {
            left.remove(&end);
            left.values_mut().for_each(|targets| {
                targets.remove(&end);
            });
        }
    }
    let mut path = vec![left.keys().next()?.clone()];
    loop {
        let next = left[path.last().unwrap()].iter().next().unwrap().clone();
        if let Some(first) = path.iter().position(|file| *file == next) {
            path.push(next);
            return Some(path.split_off(first));
        }
        path.push(next);
    }
}

/// The layer of a file: the folder or file directly below `src`.
fn layer(file: &str, layers: &[&str]) -> usize {
    let name = file.split('/').next().unwrap().trim_end_matches(".rs");
    layers.iter().position(|layer| *layer == name).unwrap_or_else(|| panic!("{file} is in no layer"))
}

/// Imports that point from a lower layer to an upper one.
fn upward(imports: &BTreeMap<String, BTreeSet<String>>, layers: &[&str]) -> Vec<String> {
    let mut upward = Vec::new();
    for (file, targets) in imports {
        for target in targets.iter().filter(|target| layer(file, layers) < layer(target, layers)) {
            upward.push(format!("{file} -> {target}"));
        }
    }
    upward
}

#[test]
fn imports_of_the_core_point_down() {
    let imports = imports(&root().join("crates/tensornoodl/src"));
    assert!(imports["learner/exact.rs"].contains("encode/waves.rs"), "imports are read");
    assert_eq!(upward(&imports, CORE), Vec::<String>::new());
}

#[test]
fn imports_of_the_data_crate_point_down() {
    let imports = imports(&root().join("crates/tensornoodl-data/src"));
    assert_eq!(upward(&imports, DATA), Vec::<String>::new());
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    for folder in [
        "crates/tensornoodl/src",
        "crates/tensornoodl-data/src",
        "crates/tensornoodl-report/src",
        "crates/tensornoodl-mpi/src",
        "crates/tensornoodl-cli/src",
        "crates/tensornoodl-lab/src",
        "bindings/python/src",
    ] {
        assert_eq!(circle(&imports(&root().join(folder))), None, "{folder}");
    }
}

#[test]
fn circles_and_upward_imports_are_found() {
    let files = |edges: &[(&str, &[&str])]| -> BTreeMap<String, BTreeSet<String>> {
        let targets = |targets: &[&str]| targets.iter().map(|target| (*target).to_owned()).collect();
        edges.iter().map(|(file, to)| ((*file).to_owned(), targets(to))).collect()
    };
    let chain = files(&[("a.rs", &["b/c.rs"]), ("b/c.rs", &[])]);
    assert_eq!(circle(&chain), None);
    assert_eq!(upward(&chain, &["a", "b"]), ["a.rs -> b/c.rs"]);
    assert!(upward(&chain, &["b", "a"]).is_empty());
    let ring = files(&[("a.rs", &["b.rs"]), ("b.rs", &["c.rs"]), ("c.rs", &["b.rs"])]);
    assert_eq!(circle(&ring).unwrap(), ["b.rs", "c.rs", "b.rs"]);
}

/// Crates that each crate of the workspace may depend on.
const CRATES: &[(&str, &[&str])] = &[
    ("tensornoodl", &[]),
    ("tensornoodl-data", &["tensornoodl"]),
    ("tensornoodl-report", &["tensornoodl", "tensornoodl-data"]),
    ("tensornoodl-mpi", &["tensornoodl"]),
    ("tensornoodl-cli", &["tensornoodl", "tensornoodl-data", "tensornoodl-mpi", "tensornoodl-report"]),
    ("tensornoodl-lab", &["tensornoodl", "tensornoodl-cli", "tensornoodl-data", "tensornoodl-mpi"]),
];

#[test]
fn crates_depend_on_lower_crates_only() {
    for (name, allowed) in CRATES {
        let manifest = fs::read_to_string(root().join("crates").join(name).join("Cargo.toml")).unwrap();
        let lines = manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
        for line in lines.take_while(|line| !line.starts_with('[')) {
            let dependency = line.split(['.', ' ', '=']).next().unwrap();
            let own = dependency.starts_with("tensornoodl");
            assert!(!own || allowed.contains(&dependency), "{name} depends on {dependency}");
        }
    }
}
