//! Files that a command reads and writes: nothing is lost, and no wrong number passes, without a word.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{folder, noodl, program, stderr, stdout, temporary_files};

/// The axes of the table of [`calls`].
const AXES: &str = "--feature hour(time) --row from --col to --step month(time)";

/// Writes calls of two groups, each at its own hours of the day, over six months.
fn calls(folder: &Path) -> PathBuf {
    let mut text = String::from("time,from,to\n");
    for at in 0..3000_usize {
        let (group, person, other) = (at % 2, at / 2 % 6, (at / 2 + 1 + at / 12 % 4) % 6);
        let hour = [8, 17][group] + at / 7 % 3;
        let (month, day) = (1 + at % 6, 1 + at / 6 % 28);
        text += &format!("2024-{month:02}-{day:02} {hour:02}:15,p{group}{person},p{group}{other}\n");
    }
    let path = folder.join("calls.csv");
    fs::write(&path, text).unwrap();
    path
}

/// A closed pipe ends the output and not the work, whether it is that of stdout or that of stderr.
#[test]
fn a_closed_pipe_does_not_end_the_work() {
    let folder = folder("a_closed_pipe_does_not_end_the_work");
    let (table, model) = (calls(&folder), folder.join("m.safetensors"));
    let learn = format!("learn {} {AXES} -o {}", table.display(), model.display());
    assert!(noodl(&learn).status.success());
    let whole = fs::read(&model).unwrap().len();
    for (more, code) in [("--json", 0), ("", 0), ("--json --patterns 60", 5)] {
        fs::remove_file(&model).unwrap();
        let mut child = Command::new(program("noodl"))
            .args(learn.split_whitespace().chain(more.split_whitespace()))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop((child.stdout.take(), child.stderr.take()));
        assert_eq!(child.wait().unwrap().code(), Some(code), "{more}");
        let shown = noodl(&format!("show {}", model.display()));
        assert!(shown.status.success(), "{more}: {}", stderr(&shown));
        assert!(fs::read(&model).unwrap().len() >= whole / 2);
    }
}

/// Output that cannot be written is a failure, after the model is written.
#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "no /dev/full")]
fn a_full_disk_for_the_output_does_not_end_the_work() {
    let folder = folder("a_full_disk_for_the_output_does_not_end_the_work");
    let (table, model) = (calls(&folder), folder.join("m.safetensors"));
    let learn = format!("learn {} {AXES} --json -o {}", table.display(), model.display());
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ended = Command::new(program("noodl")).args(learn.split_whitespace()).stdout(full).output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert!(stderr(&ended).contains("cannot write the output"), "{}", stderr(&ended));
    assert!(noodl(&format!("show {}", model.display())).status.success());
}

/// Starts `noodl` with pipes; the arguments have blanks between them.
fn start(args: &str) -> Child {
    let mut command = Command::new(program("noodl"));
    command.args(args.split_whitespace()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// The signals that end a run, and the exit code of each. Tests that run under `nohup` pass on to the program that SIGHUP
/// is to be ignored, so it cannot be tested then.
#[cfg(unix)]
fn signals() -> Vec<(&'static str, i32)> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let all = [("INT", 130), ("TERM", 143), ("HUP", 129)];
    all.into_iter().filter(|(signal, _)| *signal != "HUP" || mask & 1 == 0).collect()
}

/// Sends a signal, and waits for the end. Returns the exit code, and the time that the process worked after the signal.
#[cfg(unix)]
fn end(child: &mut Child, signal: &str) -> (Option<i32>, Duration) {
    let worked = work_of(child);
    let begun = Instant::now();
    let sent = Command::new("kill").args([format!("-{signal}"), child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    // Waiting would close the pipe that the process may be reading.
    let _stdin = child.stdin.take();
    let time = match worked {
        None => {
            child.wait().unwrap();
            begun.elapsed()
        }
        Some((before, _)) => loop {
            let (now, ended) = work_of(child).expect("the process is there until somebody has waited for it");
            if ended {
                break now - before;
            }
            std::thread::sleep(Duration::from_millis(5));
        },
    };
    (child.wait().unwrap().code(), time)
}

/// The processor time of a process so far, and whether the process has ended. It says what a stop costs on a machine
/// that does other work, too. None on systems that do not tell.
#[cfg(unix)]
fn work_of(child: &Child) -> Option<(Duration, bool)> {
    let text = fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?;
    // The name of the program is in brackets and may contain anything. Times are in hundredths of a second.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some((Duration::from_millis(10 * ticks), fields[0] == "Z"))
}

/// Two runs cannot write one model: the second one is told who holds the lock. A run that waits for a pipe ends at once.
#[test]
#[cfg(unix)]
fn a_second_run_with_the_same_output_is_refused() {
    let folder = folder("a_second_run_with_the_same_output_is_refused");
    let (table, model) = (calls(&folder), folder.join("m.safetensors"));
    let learn = |table: &str| format!("learn {table} {AXES} -o {}", model.display());
    for (signal, code) in signals() {
        let mut first = start(&learn("-"));
        let lock = folder.join(".m.safetensors.lock");
        while !fs::read_to_string(&lock).is_ok_and(|text| text.contains("since")) {
            assert!(first.try_wait().unwrap().is_none());
            std::thread::sleep(Duration::from_millis(5));
        }
        // Signals are waited for soon after that.
        std::thread::sleep(Duration::from_millis(200));
        let second = noodl(&learn(&table.display().to_string()));
        assert_eq!(second.status.code(), Some(1), "{}", stderr(&second));
        let holder = format!("it is in use by process {} on ", first.id());
        assert!(stderr(&second).contains(&holder), "{}", stderr(&second));
        let (ended, time) = end(&mut first, signal);
        assert_eq!(ended, Some(code));
        assert!(time < Duration::from_secs(1), "{signal}: {time:?}");
        assert!(!lock.exists() && !model.exists());
    }
    assert!(noodl(&learn(&table.display().to_string())).status.success());
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2, "the table and the model");
}

/// Writes a stream of many short steps.
fn stream(folder: &Path) -> PathBuf {
    let mut text = String::from("kind,from,to,step\n");
    for at in 0..60_000_usize {
        let (group, person) = (at % 2, at / 2 % 4);
        let kind = 3 * group + at / 8 % 3;
        text += &format!("{kind},p{group}{person},p{group}{},{}\n", (person + 1) % 4, at / 20);
    }
    let path = folder.join("stream.csv");
    fs::write(&path, text).unwrap();
    path
}

/// Every signal ends a stream within a second, with its own exit code and the model of all finished steps.
#[test]
#[cfg(unix)]
fn a_signal_ends_a_stream_and_the_model_is_written() {
    let folder = folder("a_signal_ends_a_stream_and_the_model_is_written");
    let (table, model) = (stream(&folder), folder.join("m.safetensors"));
    let learn = format!(
        "learn {} --feature kind --row from --col to --step bin(step,1) --json -o {}",
        table.display(),
        model.display()
    );
    for (signal, code) in signals() {
        let mut run = start(&learn);
        let mut lines = BufReader::new(run.stdout.take().unwrap()).lines();
        lines.by_ref().take(20).for_each(|line| drop(line.unwrap()));
        let rest = std::thread::spawn(move || lines.count());
        let (ended, time) = end(&mut run, signal);
        assert_eq!(ended, Some(code));
        assert!(time < Duration::from_secs(1), "{signal}: {time:?}");
        let steps = 20 + rest.join().unwrap();
        let shown = stdout(&noodl(&format!("show {}", model.display())));
        assert!(shown.contains(&format!("{steps} of 3000 steps learned")), "{shown}");
        assert!(temporary_files(&folder).is_empty() && !folder.join(".m.safetensors.lock").exists());
        fs::remove_file(&model).unwrap();
    }
    // nohup asks to go on after SIGHUP.
    let mut command = Command::new("nohup");
    command.arg(program("noodl")).args(learn.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut run = command.spawn().unwrap();
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines();
    lines.by_ref().take(20).for_each(|line| drop(line.unwrap()));
    let rest = std::thread::spawn(move || lines.count());
    assert_eq!(end(&mut run, "HUP").0, Some(0));
    assert!(rest.join().unwrap() >= 2980);
}

/// A reader that does not read does not hold up a stop: the model is written, or there is nobody to write it for.
#[test]
#[cfg(unix)]
fn a_stop_does_not_wait_for_a_reader() {
    let folder = folder("a_stop_does_not_wait_for_a_reader");
    let (table, model) = (calls(&folder), folder.join("m.safetensors"));
    let [full, unread] = ["full", "unread"].map(|name| folder.join(name));
    assert!(Command::new("mkfifo").args([&full, &unread]).status().unwrap().success());
    // A pipe without room.
    let pipe = fs::OpenOptions::new().read(true).write(true).open(&full).unwrap();
    let mut filler = Command::new("yes").stdout(pipe.try_clone().unwrap()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    filler.kill().unwrap();
    filler.wait().unwrap();
    for (output, more) in [(&model, "--json"), (&unread, "--quiet")] {
        let mut run = Command::new(program("noodl"))
            .args(
                format!("learn {} {AXES} {more} -o {}", table.display(), output.display()).split_whitespace(),
            )
            .stdout(pipe.try_clone().unwrap())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_secs(2));
        assert!(run.try_wait().unwrap().is_none(), "{more}: the run should wait for its reader");
        let (ended, time) = end(&mut run, "TERM");
        assert_eq!(ended, Some(143), "{more}");
        assert!(time < Duration::from_secs(1), "{more}: {time:?}");
    }
    let shown = stdout(&noodl(&format!("show {}", model.display())));
    assert!(shown.contains("1 of 6 steps learned") || shown.contains("2 of 6 steps learned"), "{shown}");
}

/// A signal in the first moments leaves no lock and no temporary file behind, although files are tried out then.
#[test]
#[cfg(unix)]
fn a_stop_at_the_start_leaves_nothing_behind() {
    let folder = folder("a_stop_at_the_start_leaves_nothing_behind");
    let (table, place) = (stream(&folder), folder.join("place"));
    fs::create_dir(&place).unwrap();
    let learn = format!(
        "learn {} --feature kind --row from --col to --step bin(step,1) -o {}",
        table.display(),
        place.join("m.safetensors").display()
    );
    let is_empty = || fs::read_dir(&place).unwrap().next().is_none();
    for _ in 0..100 {
        let mut run = start(&learn);
        while is_empty() && run.try_wait().unwrap().is_none() {}
        end(&mut run, "TERM");
        // On a busy machine the signal comes so late that the first steps are learned, and their model stays.
        let _ = fs::remove_file(place.join("m.safetensors"));
        assert!(is_empty(), "{:?}", fs::read_dir(&place).unwrap().collect::<Vec<_>>());
    }
}

/// A pipe gets one whole model and nothing else, however often a file would have been written.
#[test]
#[cfg(unix)]
fn a_pipe_gets_one_model() {
    let folder = folder("a_pipe_gets_one_model");
    let (table, model, pipe) = (calls(&folder), folder.join("m.safetensors"), folder.join("pipe"));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut run =
        start(&format!("learn {} {AXES} --checkpoint-every 1 -o {}", table.display(), pipe.display()));
    fs::write(&model, fs::read(&pipe).unwrap()).unwrap();
    assert!(run.wait().unwrap().success());
    let shown = noodl(&format!("show {}", model.display()));
    assert!(stdout(&shown).contains("6 of 6 steps learned"), "{}{}", stdout(&shown), stderr(&shown));
    // What the command prints would follow the file.
    for command in [
        format!("learn {} {AXES} -o /dev/stdout", table.display()),
        format!("report {} -o /dev/stdout", model.display()),
    ] {
        let refused = noodl(&command);
        assert_eq!(refused.status.code(), Some(1), "{command}");
        assert!(stderr(&refused).contains("cannot write /dev/stdout: "), "{}", stderr(&refused));
        assert!(refused.stdout.is_empty());
    }
}

/// Killed runs lose no step and leave no torn model, with one writer and with two, and the last run has the bits of a run
/// that was never killed. `NOODL_KILLS` is the number of kills.
#[test]
fn killed_runs_lose_nothing() {
    let folder = folder("killed_runs_lose_nothing");
    let (table, whole, model) = (stream(&folder), folder.join("whole"), folder.join("m.safetensors"));
    let axes = "--feature kind --row from --col to --step bin(step,1) --where step<300";
    let learn = format!("learn {} {axes} --threads 1 --quiet", table.display());
    let exported = |model: &Path| {
        let csv = folder.join("exported.csv");
        let made = noodl(&format!("export {} -o {}", model.display(), csv.display()));
        assert!(made.status.success(), "{}", stderr(&made));
        fs::read(csv).unwrap()
    };
    assert!(noodl(&format!("{learn} -o {}", whole.display())).status.success());
    let expected = exported(&whole);
    let learn = format!("{learn} --resume --checkpoint-every 1 -o {}", model.display());
    let steps = || {
        if !model.exists() {
            return 0;
        }
        let shown = noodl(&format!("show {}", model.display()));
        assert!(shown.status.success(), "{}", stderr(&shown));
        let text = stdout(&shown);
        let words: Vec<&str> = text.split_whitespace().collect();
        let at = words.windows(2).position(|pair| pair == ["of", "300"]).unwrap();
        words[at - 1].parse().unwrap()
    };
    let kills = std::env::var("NOODL_KILLS").map_or(20, |kills| kills.parse().unwrap());
    let (mut draw, mut learned, mut rounds) = (1_u64, 0_usize, 0);
    let mut below = |end: u64| {
        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (draw >> 33) % end
    };
    for kill in 0..kills {
        let mut runs: Vec<Child> = (0..if kill % 10 < 3 { 2 } else { 1 }).map(|_| start(&learn)).collect();
        std::thread::sleep(Duration::from_millis(below(200)));
        for run in &mut runs {
            std::thread::sleep(Duration::from_millis(below(20)));
            run.kill().unwrap();
            run.wait().unwrap();
        }
        let now = steps();
        assert!(now >= learned, "kill {kill}: {learned} steps, then {now}");
        learned = now;
        if learned == 300 {
            assert!(exported(&model) == expected, "kill {kill}");
            fs::remove_file(&model).unwrap();
            (learned, rounds) = (0, rounds + 1);
        }
    }
    let ended = noodl(&learn);
    assert!(ended.status.success(), "{}", stderr(&ended));
    assert!(exported(&model) == expected);
    println!("{kills} kills; {rounds} times all steps were learned in between");
}

/// A stop during the search for the first patterns takes less than a second, however many features there are.
#[test]
#[cfg(unix)]
fn a_signal_ends_the_search() {
    let folder = folder("a_signal_ends_the_search");
    let table = folder.join("wide.csv");
    let mut text = String::from("f,r,c,v\n");
    for at in 0..120_000_usize {
        let (place, feature) = (at / 3000, at % 3000);
        let value = (at * 7919 % 10_007) as f64 / 10_007.0 + f64::from(feature % 4 == place % 4);
        text += &format!("{feature},r{},c{},{value}\n", place / 8, place % 8);
    }
    fs::write(&table, text).unwrap();
    let model = folder.join("m.safetensors");
    let mut run = start(&format!(
        "learn {} --feature bin(f,1) --row r --col c --value sum(v) -o {}",
        table.display(),
        model.display()
    ));
    std::thread::sleep(Duration::from_millis(1500));
    assert!(run.try_wait().unwrap().is_none(), "the search should take longer");
    let (ended, time) = end(&mut run, "INT");
    assert_eq!(ended, Some(130));
    assert!(time < Duration::from_secs(1), "{time:?}");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "the table");
}

/// A checkpoint that fails is tried again after the next step, and the run goes on.
#[test]
fn a_failed_checkpoint_is_tried_again() {
    let folder = folder("a_failed_checkpoint_is_tried_again");
    let (table, place, away) = (stream(&folder), folder.join("place"), folder.join("away"));
    fs::create_dir(&place).unwrap();
    let model = place.join("m.safetensors");
    let mut run = start(&format!(
        "learn {} --feature kind --row from --col to --step bin(step,1) --json --checkpoint-every 50 -o {}",
        table.display(),
        model.display()
    ));
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines();
    lines.by_ref().take(100).for_each(|line| drop(line.unwrap()));
    fs::rename(&place, &away).unwrap();
    // The pipe is full soon, and the run waits for this reader.
    lines.by_ref().take(1000).for_each(|line| drop(line.unwrap()));
    fs::rename(&away, &place).unwrap();
    lines.for_each(|line| drop(line.unwrap()));
    let ended = run.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", stderr(&ended));
    let notes = stderr(&ended).matches("no checkpoint: cannot write").count();
    assert_eq!(notes, 1, "{}", stderr(&ended));
    let shown = stdout(&noodl(&format!("show {}", model.display())));
    assert!(shown.contains("3000 of 3000 steps learned"), "{shown}");
}

/// Patterns that explain nothing are not success: an exit code of its own, and what to try.
#[test]
fn next_to_nothing_explained_is_not_success() {
    let folder = folder("next_to_nothing_explained_is_not_success");
    let (table, model) = (folder.join("even.csv"), folder.join("m.safetensors"));
    let mut text = String::from("f,r,c\n");
    (0..4000_u64).for_each(|at| {
        let draw =
            at.wrapping_mul(6_364_136_223_846_793_005).rotate_left(17).wrapping_mul(0x9e37_79b9_7f4a_7c15)
                >> 20;
        text += &format!("{},r{},c{}\n", draw % 10, draw / 10 % 5, draw / 50 % 5);
    });
    fs::write(&table, text).unwrap();
    let learn = format!("learn {} --feature f --row r --col c -o {}", table.display(), model.display());
    let learned = noodl(&learn);
    assert_eq!(learned.status.code(), Some(6), "{}{}", stdout(&learned), stderr(&learned));
    assert!(
        stderr(&learned).contains("explain next to nothing: 0.0 % of the deviance. Try "),
        "{}",
        stderr(&learned)
    );
    assert!(noodl(&format!("show {}", model.display())).status.success());
    // One pattern that was asked for is what it is.
    assert_eq!(noodl(&format!("{learn} --patterns 1")).status.code(), Some(0));
    // No two fibers have a feature in common, so that there is no pattern to find, whatever was asked for.
    let text: String = (0..9).map(|at| format!("f{at},r{at},c{at}\n")).collect();
    fs::write(&table, format!("f,r,c\n{text}")).unwrap();
    let before = fs::read(&model).unwrap();
    let refused = noodl(&format!("{learn} --model exact --patterns 2"));
    let says = "no two fibers share anything that could be a pattern; use a tensor with more fibers; nothing was written";
    assert_eq!(refused.status.code(), Some(6), "{}", stderr(&refused));
    assert!(stderr(&refused).contains(says), "{}", stderr(&refused));
    assert_eq!(fs::read(&model).unwrap(), before);
}

/// Control characters of labels do not reach the terminal, and labels in CSV are no formulas.
#[test]
fn labels_are_harmless() {
    let folder = folder("labels_are_harmless");
    let title = "\u{1b}]0;owned\u{7}";
    let table = fs::read_to_string(calls(&folder)).unwrap();
    let table = table.replace("p00", &format!("{title}ann")).replace("p01", "=1+1").replace("p02", "-3");
    let (path, model) = (folder.join("evil.csv"), folder.join("m.safetensors"));
    fs::write(&path, table).unwrap();
    let axes = "--feature hour(time) --row from --col to";
    let learned = noodl(&format!("learn {} {axes} --patterns 2 -o {}", path.display(), model.display()));
    assert!(learned.status.success(), "{}", stderr(&learned));
    let wild = |text: &str| text.contains(|c: char| c.is_control() && c != '\n');
    for command in [
        format!("show {} --top 20", model.display()),
        format!("show {} --like -3 --top 20", model.display()),
        format!("stats {} {axes}", path.display()),
        format!("encode {} {} --surprise", model.display(), path.display()),
    ] {
        let command = command.replace("--like -3", "--like=-3");
        let shown = noodl(&command);
        assert!(shown.status.success(), "{command}: {}", stderr(&shown));
        assert!(stdout(&shown).contains("\\u{1b}]0;owned\\u{7}ann"), "{command}: {}", stdout(&shown));
        assert!(!wild(&stdout(&shown)) && !wild(&stderr(&shown)), "{command}");
    }
    // JSON has C1 control characters, too, and text may change its direction.
    let steps = folder.join("steps.csv");
    fs::write(&steps, fs::read_to_string(&path).unwrap().replace("p11", "\u{9b}31m\u{202e}x")).unwrap();
    let axes = "--feature hour(time) --row from --col month(time) --step to --patterns 2 --json";
    let lines = stdout(&noodl(&format!(
        "learn {} {axes} -o {}",
        steps.display(),
        model.with_extension("s").display()
    )));
    assert!(lines.contains("\\u009b31m\\u202ex") && !wild(&lines) && !lines.contains('\u{202e}'), "{lines}");
    let csv = folder.join("m.csv");
    for (more, label) in [("", "'=1+1,"), ("--raw", ",=1+1,")] {
        assert!(noodl(&format!("export {} -o {} {more}", model.display(), csv.display())).status.success());
        let text = fs::read_to_string(&csv).unwrap();
        assert!(text.contains(label) && text.contains(",-3,"), "{more}: {text}");
        let codes = noodl(&format!("encode {} {} {more}", model.display(), path.display()));
        assert!(stdout(&codes).contains(label) && stdout(&codes).contains(",-3,"), "{more}");
        assert_eq!(stdout(&codes).contains(",=1+1,"), more == "--raw");
    }
}

/// A page carries all labels, or only those that it shows.
#[test]
fn a_page_can_leave_out_labels_that_it_does_not_show() {
    let folder = folder("a_page_can_leave_out_labels_that_it_does_not_show");
    let mut text = String::from("hour,from,to,month\n");
    for at in 0..6000_usize {
        let (group, person) = (at % 2, at / 2 % 300);
        let hour = [8, 17][group] + at / 7 % 3;
        text += &format!("{hour},person-{group}-{person},box-{group}-{},{}\n", at % 7, 1 + at / 2000);
    }
    let (table, model) = (folder.join("t.csv"), folder.join("m.safetensors"));
    fs::write(&table, text).unwrap();
    let page = |name: &str| folder.join(name).display().to_string();
    let learned = noodl(&format!(
        "learn {} --feature hour --row from --col to --step month -o {} --report {} --report-shown-only",
        table.display(),
        model.display(),
        page("learned.html")
    ));
    assert!(learned.status.success(), "{}", stderr(&learned));
    for (more, name) in [("", "all.html"), ("--shown-only", "shown.html")] {
        let made = noodl(&format!("report {} -o {} {more}", model.display(), page(name)));
        assert!(made.status.success(), "{}", stderr(&made));
    }
    let labels = |name: &str| {
        let text = fs::read_to_string(page(name)).unwrap();
        (0..600).filter(|at| text.contains(&format!("person-{}-{}\"", at % 2, at / 2))).count()
    };
    assert_eq!(labels("all.html"), 600);
    assert!((1..200).contains(&labels("shown.html")), "{}", labels("shown.html"));
    assert_eq!(labels("learned.html"), labels("shown.html"));
}

/// Runs `noodl` in an address space of this many kibibytes.
#[cfg(target_os = "linux")]
fn limited(kibibytes: usize, args: &str) -> std::process::Output {
    let command = format!("ulimit -v {kibibytes}; exec {} {args}", program("noodl").display());
    Command::new("sh").args(["-c", &command]).output().unwrap()
}

/// A small file that unpacks to more than memory holds ends in a message, while it is read: 16 million entries are one, in
/// an archive of a few kilobytes.
#[test]
#[cfg(target_os = "linux")]
fn a_limit_of_memory_ends_in_a_message() {
    let folder = folder("a_limit_of_memory_ends_in_a_message");
    let path = folder.join("ones.npz");
    let mut archive = ndarray_npy::NpzWriter::new_compressed(fs::File::create(&path).unwrap());
    archive.add_array("ones", &ndarray::Array3::<u8>::ones((256, 256, 256))).unwrap();
    archive.finish().unwrap();
    assert!(fs::metadata(&path).unwrap().len() < 100_000);
    let ended = limited(1_000_000, &format!("stats {}", path.display()));
    assert_eq!(ended.status.code(), Some(1), "{}", stderr(&ended));
    let text = stderr(&ended);
    assert!(text.starts_with("noodl: this needs about ") && text.contains(" GB are free"), "{text}");
    // The labels of a table take memory, too.
    let path = folder.join("labels.csv");
    let mut file = std::io::BufWriter::new(fs::File::create(&path).unwrap());
    writeln!(file, "kind,from,to").unwrap();
    (0..400_000).for_each(|at| writeln!(file, "x,{at:0500},b").unwrap());
    file.flush().unwrap();
    let args = format!("stats {} --feature kind --row from --col to", path.display());
    let ended = limited(400_000, &args);
    assert_eq!(ended.status.code(), Some(1), "{}", stderr(&ended));
    assert!(stderr(&ended).starts_with("noodl: this needs about "), "{}", stderr(&ended));
    assert!(limited(4_000_000, &args).status.success());
    // The model has them, too.
    let model = folder.join("m.safetensors");
    let learn = format!("{} --patterns 1 -o {}", args.replace("stats", "learn"), model.display());
    let ended = limited(1_000_000, &learn);
    assert_eq!(ended.status.code(), Some(1), "{}", stderr(&ended));
    assert!(stderr(&ended).contains("noodl: this needs about 0.6") && !model.exists(), "{}", stderr(&ended));
}

/// One wrong date among others is named before any work, and a flag allows it.
#[test]
fn a_wrong_date_does_not_make_thousands_of_features() {
    let folder = folder("a_wrong_date_does_not_make_thousands_of_features");
    let table = calls(&folder);
    let text = fs::read_to_string(&table).unwrap() + "1970-01-01 00:00,p00,p01\n";
    fs::write(&table, text).unwrap();
    let stats = |axis: &str, more: &str| {
        noodl(&format!("stats {} --feature {axis}(time) --row from --col to {more}", table.display()))
    };
    let refused = stats("day", "");
    assert_eq!(refused.status.code(), Some(3));
    let text = stderr(&refused);
    assert!(text.contains("line 3002: 1970-01-01 stretches day(time) to 19903 labels"), "{text}");
    assert!(text.contains("the others are from 2024-01-01 to 2024-06-28"), "{text}");
    assert!(text.contains("--max-features 19903"), "{text}");
    let allowed = stats("day", "--max-features 19903");
    assert!(allowed.status.success());
    assert!(stderr(&allowed).contains("learning takes about 0.1 GB"), "{}", stderr(&allowed));
    assert!(stats("day", "--where time>=2024").status.success());
    // A short axis is used, with a note.
    let noted = stats("month", "");
    assert!(noted.status.success() && stderr(&noted).contains("1970-01 stretches month(time) to 654 labels"));
    assert_eq!(stats("day", "--max-features 0").status.code(), Some(2));
}

/// Similar rows are found without a number for each row, pattern and step: here they would take 320 MB.
#[test]
#[cfg(target_os = "linux")]
fn similar_rows_of_a_long_stream_take_little_memory() {
    let folder = folder("similar_rows_of_a_long_stream_take_little_memory");
    let mut text = String::from("kind,from,to,step\n");
    for at in 0..40_000_usize {
        for kind in [at % 3, (at + 1) % 3] {
            text += &format!("{},p{},q{},{}\n", 3 * (at % 2) + kind, at % 20_000, at * 7 % 50, at / 40);
        }
    }
    let (table, model) = (folder.join("t.csv"), folder.join("m.safetensors"));
    fs::write(&table, text).unwrap();
    let axes = "--feature kind --row from --col to --step step --patterns 2";
    let learned = noodl(&format!("learn {} {axes} --quiet -o {}", table.display(), model.display()));
    assert!(learned.status.success(), "{}", stderr(&learned));
    let shown = limited(300_000, &format!("show {} --like p1", model.display()));
    assert!(shown.status.success(), "{}", stderr(&shown));
    assert_eq!(stdout(&shown).lines().count(), 5);
}
