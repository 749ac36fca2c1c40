//! Honest words about models of counts, run as a user would: numbers of patterns that were asked for, evidence, warnings
//! and whether their advice helps, stability, streams in which something ends or changes, and surprises.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{folder, noodl, stderr, stdout};
use serde_json::Value;
use tensornoodl::synthetic::{Plan, Planted};
use tensornoodl_data::{Model, error_text};

/// Random numbers from 0 to `below` - 1.
struct Random(u64);

impl Random {
    fn below(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }
}

/// Support tickets of three teams, each with its own agents, products and kinds of tickets.
const AGENTS: [&str; 9] = ["amira", "bruno", "chiara", "elena", "farid", "greta", "hugo", "ines", "jonas"];
const PRODUCTS: [&str; 5] = ["router", "box", "app", "web", "billing"];
const KINDS: [&str; 9] =
    ["outage", "setup", "upgrade", "bug", "password", "crash", "refund", "invoice", "complaint"];
const TEAM_PRODUCTS: [&[usize]; 3] = [&[0, 1], &[2, 3], &[4]];
/// The kinds of each team, and the kinds that they have after a change of everything.
const TEAM_KINDS: [[usize; 6]; 3] = [[0, 0, 0, 1, 1, 2], [3, 3, 3, 4, 4, 5], [7, 7, 7, 6, 6, 8]];
const CHANGED: [[usize; 6]; 3] = [[3, 3, 6, 6, 8, 8], [0, 0, 7, 7, 2, 2], [1, 1, 4, 4, 5, 5]];

/// Writes tickets of so many weeks, `a_day` for each team, and two stray ones a day. The third team stops in week `end`,
/// and in week `change` all teams change.
fn tickets(path: &Path, seed: u64, weeks: usize, a_day: usize, end: usize, change: usize) -> String {
    let mut random = Random(seed);
    let mut text = String::from("week,agent,product,kind\n");
    for day in 0..7 * weeks {
        let week = day / 7;
        for team in (0..3).filter(|team| *team < 2 || week < end) {
            for _ in 0..a_day {
                let agent = 3 * team + random.below(3);
                let product = TEAM_PRODUCTS[team][random.below(TEAM_PRODUCTS[team].len())];
                let kinds = if week < change { TEAM_KINDS[team] } else { CHANGED[team] };
                let kind = kinds[random.below(6)];
                text += &format!("{week:02},{},{},{}\n", AGENTS[agent], PRODUCTS[product], KINDS[kind]);
            }
        }
        for _ in 0..2 {
            let (agent, product, kind) = (random.below(9), random.below(5), random.below(9));
            text += &format!("{week:02},{},{},{}\n", AGENTS[agent], PRODUCTS[product], KINDS[kind]);
        }
    }
    fs::write(path, text).unwrap();
    path.display().to_string()
}

/// A year of tickets without an end and without a change.
fn year(folder: &Path) -> String {
    tickets(&folder.join("tickets.csv"), 1, 52, 8, 99, 99)
}

const AXES: &str = "--feature kind --row agent --col product";

/// Learns, and returns the exit code, what was printed, and the message.
fn learn(args: &str, model: &Path) -> (i32, String, String) {
    let output = noodl(&format!("learn {args} --quiet -o {}", model.display()));
    (output.status.code().unwrap(), stdout(&output), stderr(&output))
}

fn json(args: &str) -> Vec<Value> {
    let output = noodl(args);
    assert!(output.status.success(), "{args}: {}", stderr(&output));
    stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn page_of(model: &Path) -> String {
    let page: PathBuf = model.with_extension("html");
    let made = noodl(&format!("report {} -o {}", model.display(), page.display()));
    assert!(made.status.success(), "{}", stderr(&made));
    fs::read_to_string(page).unwrap()
}

fn a_number_of_patterns_is_kept_or_the_reason_is_said() {
    let folder = folder("a_number_of_patterns_is_kept_or_the_reason_is_said");
    let (table, model) = (year(&folder), folder.join("m.safetensors"));
    for step in ["", "--step week"] {
        for (asked, found) in [(4, 4), (8, 8), (9, 9), (12, 9)] {
            let args = format!("{table} {AXES} {step} --patterns {asked}");
            let (code, words, message) = learn(&args, &model);
            assert!(words.starts_with(&format!("{found} patterns in ")), "{args}: {words}");
            assert_eq!(code, if found == asked { 0 } else { 5 }, "{args}");
            if found < asked {
                let reason = "the table has 9 features, so there are at most 9 patterns: 9 patterns were learned, not 12";
                assert_eq!(message, format!("noodl: {reason}\n"), "{args}");
            }
            assert!(
                stdout(&noodl(&format!("show {}", model.display())))
                    .starts_with(&format!("{found} patterns "))
            );
        }
    }
    // Fewer places than patterns.
    let few = folder.join("few.csv");
    fs::write(&few, "kind,agent,product\na,x,p\nb,x,p\nc,x,q\na,x,q\n").unwrap();
    let (code, _, message) = learn(&format!("{} {AXES} --patterns 3", few.display()), &model);
    let reason = "the table has 2 places, so there are at most 2 patterns: 2 patterns were learned, not 3";
    assert_eq!((code, message), (5, format!("noodl: {reason}\n")));
    // The exact model says it, too.
    let (code, words, message) = learn(&format!("{table} {AXES} --model exact --patterns 12"), &model);
    assert!(code == 5 && words.starts_with("3 patterns in "), "{code} {words}");
    assert!(
        message.ends_with("that the others do not explain: 3 patterns were learned, not 12\n"),
        "{message}"
    );
    let help = stdout(&noodl("--help"));
    assert!(help.contains("5 done, with fewer patterns than --patterns asked for"), "{help}");
}

/// A team that begins in the middle of a stream gets one of the patterns that had nothing to explain before.
fn a_given_number_leaves_room_for_later_patterns() {
    let folder = folder("a_given_number_leaves_room_for_later_patterns");
    // The third team stops before the first week in the first table, which is the start of the second one.
    let (early, late) = (folder.join("early.csv"), folder.join("late.csv"));
    tickets(&early, 3, 20, 8, 0, 99);
    tickets(&late, 4, 20, 8, 99, 99);
    let shifted = |line: &str| {
        let (week, rest) = line.split_once(',').unwrap();
        format!("{},{rest}\n", week.parse::<usize>().unwrap() + 20)
    };
    let mut text = fs::read_to_string(&early).unwrap();
    text.extend(fs::read_to_string(&late).unwrap().lines().skip(1).map(shifted));
    fs::write(&early, text).unwrap();
    let model = folder.join("m.safetensors");
    let (code, words, message) =
        learn(&format!("{} {AXES} --step week --patterns 6", early.display()), &model);
    assert_eq!(code, 0, "{words} {message}");
    let shown = stdout(&noodl(&format!("show {}", model.display())));
    let third = shown.lines().filter(|line| line.contains("rows") && line.contains("ines")).count();
    assert!(third >= 1 && shown.contains("most at invoice"), "{shown}");
}

fn check_of_counts_shows_verdicts_and_the_ladder() {
    let folder = folder("check_of_counts_shows_verdicts_and_the_ladder");
    let (table, picture) = (year(&folder), folder.join("ladder.svg"));
    let check = format!("check {table} {AXES}");
    let words = stdout(&noodl(&check));
    assert!(words.contains("The data fits the counts model.") && !words.contains("the theory"), "{words}");
    for part in ["explained", "patterns", "events", "thin", "bursts", "restarts"] {
        assert!(words.contains(&format!("good  {part}")), "{part}: {words}");
    }
    // All steps are added up.
    assert_eq!(stdout(&noodl(&format!("{check} --step week"))), words);
    let evidence = stdout(&noodl(&format!("{check} --evidence --picture {}", picture.display())));
    let ladder: Vec<&str> = evidence.lines().skip_while(|line| !line.starts_with("patterns  gain")).collect();
    assert!(ladder[3].starts_with("       3 ") && ladder[3].ends_with("<- taken"), "{evidence}");
    assert!(evidence.contains("3 patterns are taken, the fewest that no larger number"), "{evidence}");
    let drawn = fs::read_to_string(&picture).unwrap();
    assert!(drawn.contains("font-weight=\"bold\">3</text>") && drawn.ends_with("</svg>"), "{drawn}");
    let lines = json(&format!("{check} --evidence --json"));
    assert!(lines[..6].iter().all(|line| line["type"] == "check" && line["verdict"] == "good"), "{lines:?}");
    let found = &lines[6];
    assert_eq!((&found["model"], &found["patterns"]), (&"counts".into(), &3.into()), "{found}");
    let rungs = found["evidence"]["ladder"].as_array().unwrap();
    let gain = |at: usize| (rungs[at]["gain"].as_f64().unwrap(), rungs[at]["error"].as_f64().unwrap());
    assert!(rungs.len() >= 5 && gain(2).0 > 2.5 * gain(2).1 && gain(3).0 < 2.5 * gain(3).1, "{found}");
    // A number that was asked for is no finding.
    let asked = json(&format!("{check} --evidence --json --patterns 5"));
    let reason = asked.last().unwrap()["evidence"]["reason"].as_str().unwrap();
    assert_eq!(reason, "5 patterns are taken, because they were asked for");
    let exact = stdout(&noodl(&format!("{check} --model exact")));
    assert!(exact.contains("the theory") && exact.contains("incoherence"), "{exact}");
    let refused = noodl(&format!("{check} --min-length 2"));
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("min_length is given, it must be left out with the counts model"));
    let model = folder.join("m.safetensors");
    let words = "recipe is log2,center, it must be made of log2, sqrt and presence with the counts model";
    for command in [check.clone(), format!("learn {table} {AXES} -o {}", model.display())] {
        let refused = noodl(&format!("{command} --model counts --recipe log2,center"));
        assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
        assert!(stderr(&refused).contains(words), "{}", stderr(&refused));
    }
    // Bursts: every ticket comes twenty times. Thin places: every week is a col of its own.
    let text = fs::read_to_string(&table).unwrap();
    let bursts = folder.join("bursts.csv");
    let lines: Vec<&str> = text.lines().collect();
    let repeated: String = lines[1..]
        .iter()
        .step_by(20)
        .flat_map(|line| [*line; 20])
        .map(|line| line.to_owned() + "\n")
        .collect();
    fs::write(&bursts, format!("{}\n{repeated}", lines[0])).unwrap();
    let words = stdout(&noodl(&format!("check {} {AXES}", bursts.display())));
    assert!(words.contains("poor  bursts") && words.contains("try --recipe log2"), "{words}");
    let thin = folder.join("thin.csv");
    let few: String = lines[1..].iter().step_by(20).map(|line| format!("{line}\n")).collect();
    fs::write(&thin, format!("{}\n{few}", lines[0])).unwrap();
    let words = stdout(&noodl(&format!("check {} --feature kind --row agent --col week", thin.display())));
    assert!(words.contains("poor  thin") || words.contains("fair  thin"), "{words}");
}

fn a_model_keeps_its_evidence() {
    let folder = folder("a_model_keeps_its_evidence");
    let (table, model) = (year(&folder), folder.join("m.safetensors"));
    for step in ["", "--step week"] {
        let (code, ..) = learn(&format!("{table} {AXES} {step}"), &model);
        assert_eq!(code, 0);
        let words = stdout(&noodl(&format!("show {} --evidence", model.display())));
        assert!(words.contains("<- taken") && words.contains("3 patterns are taken"), "{words}");
        let page = page_of(&model);
        assert!(
            page.contains("<h2>How many patterns?</h2>") && page.contains("3 patterns are taken"),
            "{step}"
        );
    }
    learn(&format!("{table} {AXES} --patterns 3"), &model);
    let words = stdout(&noodl(&format!("show {} --evidence", model.display())));
    assert_eq!(words, "The model keeps no ladder: the number of its patterns was given.\n");
    assert!(!page_of(&model).contains("How many patterns?"));
    learn(&format!("{table} {AXES} --model exact"), &model);
    let words = stdout(&noodl(&format!("show {} --evidence", model.display())));
    assert!(words.contains("it is an exact model"), "{words}");
}

fn stability_is_measured_and_kept() {
    let folder = folder("stability_is_measured_and_kept");
    let (table, model) = (year(&folder), folder.join("m.safetensors"));
    for (kind, seeds) in
        [("counts", "seeds agree: 1.00 (3, 3 patterns); halves agree: "), ("exact", "seeds agree: ")]
    {
        let args = format!("{table} {AXES} --model {kind} --stability 2");
        let (code, words, _) = learn(&args, &model);
        let sentence =
            words.lines().find(|line| line.starts_with(seeds)).unwrap_or_else(|| panic!("{words}"));
        assert!(code == 0 && sentence.contains("halves agree: "), "{words}");
        for command in ["show", "show --evidence"] {
            let shown = stdout(&noodl(&format!("{command} {}", model.display())));
            assert!(shown.contains(sentence), "{shown}");
        }
        assert!(page_of(&model).contains(sentence));
    }
    // In a stream, and as JSON; any number of threads gives the same bits.
    let args = format!("learn {table} {AXES} --step week --stability 1 --json");
    let run = |threads: usize| {
        let lines = json(&format!("{args} --threads {threads} -o {}", model.display()));
        let evidence = stdout(&noodl(&format!("show {} --evidence", model.display())));
        (lines, evidence)
    };
    let (lines, evidence) = run(1);
    let line = lines.iter().find(|line| line["type"] == "stability").unwrap();
    let seeds = line["stability"]["seeds"].as_array().unwrap();
    assert!(seeds.len() == 1 && seeds[0]["agreement"].as_f64() > Some(0.95), "{line}");
    assert_eq!(line["stability"]["halves"].as_array().unwrap().len(), 2, "{line}");
    assert!(run(2) == (lines, evidence));
    // Events by chance have no patterns. Those that are asked for are not stable, and that is said.
    let chance = tickets(&folder.join("chance.csv"), 1, 52, 0, 99, 99);
    let (_, words, _) = learn(
        &format!("{chance} --feature week --row agent --col product --patterns 4 --stability 4"),
        &model,
    );
    let doubts = ["Other seeds find other patterns", "The halves of the places have different patterns"];
    assert!(doubts.iter().all(|doubt| words.contains(&format!("warning: {doubt}"))), "{words}");
    let refused = learn(&format!("{table} {AXES} --stability 0"), &model);
    assert_eq!((refused.0, refused.2.as_str()), (2, "noodl: stability is 0, it must be at least 1\n"));
}

/// Returns the number after `--patterns` in the first warning that has one.
fn advised(words: &str) -> usize {
    let advice = words.split("Try --patterns ").nth(1).unwrap();
    advice.split(' ').next().unwrap().parse().unwrap()
}

fn warnings_come_with_advice_that_helps() {
    let folder = folder("warnings_come_with_advice_that_helps");
    let (table, model) = (year(&folder), folder.join("m.safetensors"));
    for step in ["", "--step week"] {
        // Too many patterns: the advised number has none of the warnings.
        let (_, words, _) = learn(&format!("{table} {AXES} {step} --patterns 9"), &model);
        assert!(words.contains("warning: 9 patterns for 9 features"), "{words}");
        let shown = stdout(&noodl(&format!("show {}", model.display())));
        let page = page_of(&model);
        assert!(shown.contains("9 patterns for 9 features") && page.contains("9 patterns for 9 features"));
        let (code, words, _) =
            learn(&format!("{table} {AXES} {step} --patterns {}", advised(&words)), &model);
        assert!(code == 0 && !words.contains("warning: "), "{words}");
        // No number at all is the best one.
        let (_, words, _) = learn(&format!("{table} {AXES} {step}"), &model);
        assert!(words.starts_with("3 patterns") && !words.contains("warning: "), "{words}");
        assert!(!page_of(&model).contains("<h2>Warnings</h2>"));
    }
    // One pattern: rows and cols with more events at each place show more.
    let text = fs::read_to_string(&table).unwrap();
    let few: String = text.lines().skip(1).step_by(20).map(|line| format!("{line}\n")).collect();
    let thin = folder.join("thin.csv");
    fs::write(&thin, format!("week,agent,product,kind\n{few}")).unwrap();
    let thin = thin.display();
    let (_, words, _) = learn(&format!("{thin} --feature kind --row agent --col week"), &model);
    assert!(words.contains("warning: There is a single pattern"), "{words}");
    assert!(words.contains("Try rows and cols that have more events at each place"), "{words}");
    let (_, words, _) = learn(&format!("{thin} {AXES}"), &model);
    assert!(words.starts_with("3 patterns") && !words.contains("warning: "), "{words}");
    // The warnings as JSON.
    let lines = json(&format!("learn {table} {AXES} --patterns 9 --json -o {}", model.display()));
    let kinds: Vec<&Value> =
        lines.iter().map(|line| &line["warning"]["kind"]).filter(|kind| !kind.is_null()).collect();
    assert_eq!(kinds, ["many_patterns"], "{lines:?}");
}

/// The exact model needs advice on counts, and the advice is the counts model.
fn advice_for_the_exact_model_helps() {
    let folder = folder("advice_for_the_exact_model_helps");
    let (table, model) = (year(&folder), folder.join("m.safetensors"));
    let (_, words, _) = learn(&format!("{table} {AXES} --step week --model exact --patterns 8"), &model);
    assert!(words.contains("warning: 8 patterns for 9 features"), "{words}");
    assert!(words.contains("Try --model counts without a recipe"), "{words}");
    let page = page_of(&model);
    assert!(page.contains("Try --model counts") && !page.contains("log2,scale,center"), "{page}");
    let (_, words, _) = learn(&format!("{table} {AXES} --step week --model counts"), &model);
    assert!(!words.contains("warning: "), "{words}");
}

fn an_end_and_a_change_are_told() {
    let folder = folder("an_end_and_a_change_are_told");
    let model = folder.join("m.safetensors");
    for seed in 0..3 {
        let table = tickets(&folder.join("end.csv"), seed, 40, 8, 20, 99);
        let (_, words, _) = learn(&format!("{table} {AXES} --step week"), &model);
        let ended = words.lines().find(|line| line.ends_with(" was not seen since 19")).unwrap_or(&words);
        let pattern = ended.strip_prefix("pattern ").and_then(|line| line.split(' ').next()).unwrap();
        assert!(!words.contains("something changed"), "{words}");
        let shown = stdout(&noodl(&format!("show {} --pattern {pattern}", model.display())));
        assert!(shown.contains(&format!("pattern {pattern}, not seen since 19")), "{shown}");
        assert!(shown.contains("most at invoice"), "{shown}");
        assert!(page_of(&model).contains("<b>not seen since 19</b>"));
        let lines = json(&format!("learn {table} {AXES} --step week --json -o {}", model.display()));
        let unseen = lines.iter().find(|line| line["type"] == "unseen").unwrap();
        assert_eq!((unseen["pattern"].to_string().as_str(), &unseen["since"]), (pattern, &"19".into()));

        let table = tickets(&folder.join("change.csv"), seed, 40, 8, 99, 25);
        let (_, words, _) = learn(&format!("{table} {AXES} --step week"), &model);
        let told: Vec<&str> = words.lines().filter(|line| line.ends_with("something changed")).collect();
        assert!(told.len() == 1 && told[0].starts_with("in 25 the patterns explained "), "{words}");
        assert!(stdout(&noodl(&format!("show {}", model.display()))).contains(told[0]));
        assert!(page_of(&model).contains(&told[0][1..]));
        let lines = json(&format!("learn {table} {AXES} --step week --json -o {}", model.display()));
        let falls: Vec<&Value> = lines.iter().filter(|line| line["fall"].is_object()).collect();
        assert_eq!(falls.len(), 1, "{falls:?}");
        let share = |name: &str| falls[0]["fall"][name].as_f64().unwrap();
        assert!(falls[0]["label"] == "25" && share("explained") < 0.5 && share("usual") > 0.6, "{falls:?}");
    }
    // Nothing happened, so nothing is said.
    let table = year(&folder);
    let (_, words, _) = learn(&format!("{table} {AXES} --step week"), &model);
    assert_eq!(words.lines().count(), 2, "{words}");
}

/// The share that `learn` prints, in percent.
fn explained(words: &str) -> f64 {
    let share = words.split(" %").next().unwrap().rsplit(' ').next();
    share.unwrap().parse().unwrap()
}

/// On real tables the advice raises the numbers that it was given for.
fn advice_helps_on_real_tables() {
    let folder = folder("advice_helps_on_real_tables");
    let model = folder.join("m.safetensors");
    let data = PathBuf::from(std::env::var_os("NOODL_DATA").unwrap());
    let at = |file: &str| data.join(file).display().to_string();
    // Shots by opponent and week: little is explained. Places with more shots have more.
    let shots = format!("{} --feature court(loc_x,loc_y,12x10) --row player", at("nba_2018-19_shots.csv.gz"));
    let (_, by_week, _) = learn(&format!("{shots} --col opponent --step week(date)"), &model);
    let little = ["The patterns explain only", "There is a single pattern"];
    assert!(little.iter().any(|words| by_week.contains(words)), "{by_week}");
    assert!(by_week.contains("Try without --step"), "{by_week}");
    let (_, at_once, _) = learn(&format!("{shots} --col opponent"), &model);
    assert!(at_once.contains("Try rows and cols that have more events at each place"), "{at_once}");
    let (_, by_team, _) = learn(&format!("{shots} --col team"), &model);
    assert!(
        explained(&by_team) > explained(&at_once).max(30.0) && !by_team.contains("warning: "),
        "{by_team}"
    );
}

/// Splits a table after so many weeks.
fn split(table: &str, week: usize, folder: &Path) -> [String; 2] {
    let text = fs::read_to_string(table).unwrap();
    let (head, lines) = text.split_once('\n').unwrap();
    let parts = ["before.csv", "after.csv"].map(|name| folder.join(name).display().to_string());
    let limit = format!("{week:02}");
    for (at, part) in parts.iter().enumerate() {
        let own = lines.lines().filter(|line| (line[..2] >= limit[..]) == (at == 1));
        fs::write(part, [head].into_iter().chain(own).collect::<Vec<_>>().join("\n") + "\n").unwrap();
    }
    parts
}

fn surprises_are_shown_written_and_recorded() {
    let folder = folder("surprises_are_shown_written_and_recorded");
    let table = tickets(&folder.join("tickets.csv"), 5, 21, 12, 99, 99);
    // In the last week, ines has bugs of the router, and amira, who has outages of it, falls silent there.
    let text = fs::read_to_string(&table).unwrap();
    let usual = text.lines().filter(|line| !line.starts_with("20,amira,router"));
    let unusual = ["20,ines,router,bug"; 25];
    let lines: Vec<&str> = usual.chain(unusual).collect();
    fs::write(&table, lines.join("\n") + "\n").unwrap();
    let [before, after] = split(&table, 20, &folder);
    let model = folder.join("model.safetensors").display().to_string();
    let axes = "--feature kind --row agent --col product --step week";
    let learned = noodl(&format!("learn {before} {axes} -o {model} --json"));
    assert!(learned.status.success(), "{}", stderr(&learned));
    // Ordinary weeks list next to nothing.
    let surprises = |text: &str| -> Vec<Value> {
        let records = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let records = records.filter(|line| line["type"] == "step");
        records.flat_map(|it| it["record"]["surprises"].as_array().cloned().unwrap_or_default()).collect()
    };
    assert!(surprises(&stdout(&learned)).len() <= 1, "{}", stdout(&learned));

    let shown = noodl(&format!("encode {model} {after} --surprise"));
    let shown = stdout(&shown);
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].starts_with("  step  row     col"), "{shown}");
    assert!(lines[1].starts_with("* 20    ines    router       25"), "{shown}");
    assert!(lines[1].contains("bug 25 ("), "{shown}");
    assert!(lines.iter().any(|line| line.starts_with("* 20    amira   router        0")), "{shown}");
    let file = folder.join("surprises.csv");
    assert!(noodl(&format!("encode {model} {after} --surprise -o {}", file.display())).status.success());
    let text = fs::read_to_string(&file).unwrap();
    let titles = "step,row,col,events,expected,p_total,p_shape,too_many,significant";
    assert_eq!(text.lines().next().unwrap(), titles);
    let first = text.lines().nth(1).unwrap();
    assert!(first.starts_with("20,ines,router,25,") && first.ends_with("true"), "{first}");
    assert!(text.lines().last().unwrap().ends_with("false"));
    for threads in [1, 2] {
        let other = noodl(&format!("encode {model} {after} --surprise --threads {threads}"));
        assert_eq!(stdout(&other), shown);
    }

    // Learned from the whole table, the record of the last week has the same places. The page and show still work.
    let whole = folder.join("whole.safetensors").display().to_string();
    let learned = noodl(&format!("learn {table} {axes} -o {whole} --json"));
    let found = surprises(&stdout(&learned));
    assert!(found.iter().any(|it| it["row"] == "ines" && it["features"][0]["feature"] == "bug"), "{found:?}");
    assert!(found.iter().any(|it| it["row"] == "amira" && it["events"] == 0.0), "{found:?}");
    assert!(noodl(&format!("show {whole}")).status.success());

    let exact = folder.join("exact.safetensors").display().to_string();
    assert!(noodl(&format!("learn {before} {axes} --model exact --patterns 2 -o {exact}")).status.success());
    let refused = noodl(&format!("encode {exact} {after} --surprise"));
    assert!(!refused.status.success());
    assert!(stderr(&refused).contains("--surprise needs the counts model"), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("--model counts"), "{}", stderr(&refused));
}

/// Writes a planted stream of three patterns with noise as a table, one row for each cell, and the patterns.
fn noisy_stream(path: &Path, noise: f64, steps: u64) -> Vec<Vec<f64>> {
    let plan = Plan {
        features: 24,
        patterns: 3,
        rows: 12,
        cols: 12,
        alpha: 0.3,
        beta: 0.3,
        noise,
        ..Plan::default()
    };
    let planted = Planted::new(plan).unwrap();
    let mut text = String::from("step,feature,row,col,value\n");
    for step in 1..=steps {
        let tensor = planted.tensor(step).tensor;
        for (fiber, place) in tensor.places().iter().enumerate() {
            for (feature, value) in tensor.entries(fiber) {
                text += &format!("{step:02},{feature:02},{:02},{:02},{value}\n", place.row, place.col);
            }
        }
    }
    fs::write(path, text).unwrap();
    let truth = planted.true_dictionary();
    (0..3).map(|i| truth.pattern(i).to_vec()).collect()
}

/// The axes of a noisy stream.
const STREAM: &str =
    "--feature feature --row row --col col --step step --value sum(value) --model exact --recipe=";

fn a_stream_with_noise_has_errors_where_they_hold() {
    let folder = folder("errors");
    let at = |name: &str| folder.join(name);
    let truth = noisy_stream(&at("noisy.csv"), 0.1, 10);
    noisy_stream(&at("clear.csv"), 0.0, 6);
    let learn = |table: &str, more: &str| {
        let (model, table) = (at(table).with_extension("safetensors"), at(table));
        let learned =
            noodl(&format!("learn {} {STREAM} {more} --json -o {}", table.display(), model.display()));
        let steps: Vec<Value> =
            stdout(&learned).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (steps, stdout(&noodl(&format!("show {}", model.display()))))
    };
    let (steps, shown) = learn("noisy.csv", &format!("--report {}", at("page.html").display()));
    assert_eq!(steps[0]["errors"], Value::Null, "{}", steps[0]);
    let errors: Vec<f64> =
        steps[9]["errors"].as_array().unwrap().iter().map(|error| error.as_f64().unwrap()).collect();
    assert_eq!(errors.len(), 3);
    let model = Model::load(&at("noisy.safetensors")).unwrap();
    for (i, error) in errors.iter().enumerate() {
        let pattern = model.learner.dictionary().pattern(i);
        let distance = |other: &Vec<f64>| {
            let both = [1.0, -1.0].map(|sign: f64| {
                pattern.iter().zip(other).map(|(a, b)| (a - sign * b).powi(2)).sum::<f64>().sqrt()
            });
            both[0].min(both[1])
        };
        let nearest = truth.iter().map(distance).fold(f64::INFINITY, f64::min);
        assert!((0.5..2.0).contains(&(error / nearest)), "{i}: {error} {nearest}");
        assert!(shown.contains(&format!("pattern {}, ± {}", i + 1, error_text(*error))), "{shown}");
    }
    let page = fs::read_to_string(at("page.html")).unwrap();
    let words =
        format!("The pattern is expected to be {} % away from the true one", error_text(100.0 * errors[0]));
    assert!(page.contains(&words));
    // The codes of the table, and whether they are certain.
    let encode = |model: &str| {
        let output = noodl(&format!("encode {} {}", at(model).display(), at("noisy.csv").display()));
        assert!(output.status.success(), "{}", stderr(&output));
        (stdout(&output), stderr(&output))
    };
    let (codes, said) = encode("noisy.safetensors");
    assert!(codes.starts_with("step,row,col,pattern,code,certain\n"), "{codes}");
    let ends = |end: &str| codes.lines().filter(|line| line.ends_with(end)).count();
    assert!(
        ends(",true") > 9 * ends(",false") && ends(",true") + ends(",false") + 1 == codes.lines().count()
    );
    assert!(said.contains("% of the places are certain"), "{said}");
    // Without noise, with the paper's step, and for damped counts, nothing is said.
    for (table, more) in [("clear.csv", ""), ("noisy.csv", "--eta-a 1")] {
        let (steps, shown) = learn(table, more);
        assert!(steps.len() > 5 && steps.iter().all(|step| step["errors"] == Value::Null), "{steps:?}");
        assert!(!shown.contains('±'), "{shown}");
    }
    let (codes, said) = encode("noisy.safetensors");
    assert!(codes.starts_with("step,row,col,pattern,code\n") && !said.contains("certain"), "{codes} {said}");
    let counts = year(&folder);
    for (recipe, known) in [("", true), ("sqrt", false)] {
        let model = at("counts.safetensors");
        let axes = "--feature kind --row agent --col product --step week";
        noodl(&format!("learn {counts} {axes} --recipe={recipe} -o {}", model.display()));
        assert_eq!(stdout(&noodl(&format!("show {}", model.display()))).contains(", ± "), known, "{recipe}");
    }
}

fn a_stream_ends_when_all_patterns_are_sure() {
    let folder = folder("until");
    let at = |name: &str| folder.join(name).display().to_string();
    noisy_stream(&folder.join("noisy.csv"), 0.1, 12);
    noisy_stream(&folder.join("clear.csv"), 0.0, 6);
    let (noisy, clear, model) = (at("noisy.csv"), at("clear.csv"), at("x.safetensors"));
    let learn = |table: &str, more: &str| noodl(&format!("learn {table} {STREAM} {more} -o {model}"));
    let json = |more: &str| -> Vec<Value> {
        let output = learn(&noisy, &format!("--json {more}"));
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let largest = |step: &Value| {
        let errors = step["errors"].as_array()?;
        Some(errors.iter().map(|error| error.as_f64().unwrap_or(f64::INFINITY)).fold(0.0, f64::max))
    };
    let all = json("");
    let sure: Vec<f64> = all[..12].iter().map(|step| largest(step).unwrap_or(f64::INFINITY)).collect();
    // It stops at the first step that is sure enough, and no step is different.
    let until = 1.001 * sure[6];
    let expected = sure.iter().position(|error| *error <= until).unwrap();
    assert!((4..12).contains(&expected), "{sure:?}");
    let some = json(&format!("--until {until}"));
    let (last, steps) = some.split_last().unwrap();
    assert_eq!(steps[..], all[..=expected]);
    assert_eq!((last["type"].as_str(), last["reached"].as_bool()), (Some("until"), Some(true)), "{last}");
    assert_eq!(
        (last["step"].as_str(), last["error"].as_f64()),
        (steps[expected]["label"].as_str(), largest(&steps[expected]))
    );
    // The model that was written goes on, or stays as it is.
    let written = Model::load(Path::new(&model)).unwrap();
    assert_eq!(written.card.history.len(), expected + 1);
    assert_eq!(json(&format!("--until {until} --resume")), std::slice::from_ref(last));
    assert_eq!(json("--resume")[..], all[expected + 1..]);
    let text = stdout(&learn(&noisy, &format!("--until {until}")));
    let words = format!(
        "all patterns are expected to be within {until} of the true ones after step {:02}, number {0} of 12",
        expected + 1
    );
    assert!(text.contains(&words), "{text}");
    // Not reached: all steps are learned, the program says how far it is, and it is no error.
    let output = learn(&noisy, "--until 1e-3");
    assert_eq!(
        (output.status.code(), Model::load(Path::new(&model)).unwrap().card.history.len()),
        (Some(0), 12)
    );
    let (text, far) = (stdout(&output), error_text(sure[11]));
    assert!(text.contains("--until 0.001 was not reached: pattern ") && text.contains(&far), "{text}");
    let text = stdout(&learn(&clear, "--until 1e-3"));
    assert!(text.contains("--until 0.001 was not reached: pattern 1 has no error bar"), "{text}");
    for (more, says) in [
        ("--until 0", "until is 0, it must be above 0 and below 1"),
        ("--until=-1", "until is -1, it must be above 0 and below 1"),
        ("--until 1", "until is 1, it must be above 0 and below 1"),
        ("--until nan", "until is NaN, it must be above 0 and below 1"),
        ("--until .1 --eta-a 1", "'--until <ERROR>' cannot be used with '--eta-a"),
    ] {
        let refused = learn(&noisy, more);
        assert!(refused.status.code() == Some(2) && stderr(&refused).contains(says), "{}", stderr(&refused));
    }
    let one = "--feature feature --row row --col col --value sum(value)";
    let refused = noodl(&format!("learn {noisy} {one} --until .1 -o {model}"));
    let says = "until is 0.1, it must be left out without --step";
    assert!(refused.status.code() == Some(2) && stderr(&refused).contains(says), "{}", stderr(&refused));
}

fn main() {
    run_tests!(
        None => [
            a_number_of_patterns_is_kept_or_the_reason_is_said,
            a_given_number_leaves_room_for_later_patterns,
            check_of_counts_shows_verdicts_and_the_ladder,
            a_model_keeps_its_evidence,
            stability_is_measured_and_kept,
            warnings_come_with_advice_that_helps,
            advice_for_the_exact_model_helps,
            an_end_and_a_change_are_told,
            surprises_are_shown_written_and_recorded,
            a_stream_with_noise_has_errors_where_they_hold,
            a_stream_ends_when_all_patterns_are_sure,
        ],
        common::no_data() => [advice_helps_on_real_tables],
    )
}
