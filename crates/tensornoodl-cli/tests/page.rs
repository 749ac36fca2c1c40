//! Pages about models, in a real browser.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{browser, folder, no_browser, program, stdout};

/// A script that moves the slider, searches for a row, and records what it sees and all errors.
const VISITOR: &str = r##"<script>
const seen = { errors: [], blocked: [] };
window.addEventListener("securitypolicyviolation", event => seen.blocked.push(event.violatedDirective));
window.addEventListener("error", event => seen.errors.push(String(event.message)));
window.addEventListener("load", () => {
  const names = () => [...document.querySelectorAll("#pattern-1 ol[data-of=rows] .name")].map(span => span.textContent);
  seen.patterns = document.querySelectorAll("section[id^=pattern-]").length;
  seen.pictures = document.querySelectorAll("section[id^=pattern-] > .picture svg").length;
  seen.before = names();
  const slider = document.getElementById("step");
  slider.value = slider.max;
  slider.dispatchEvent(new Event("input"));
  seen.step = document.getElementById("stepname").textContent;
  seen.after = names();
  slider.value = 0;
  slider.dispatchEvent(new Event("input"));
  seen.again = names();
  const row = document.getElementById("row");
  row.value = "ann";
  row.dispatchEvent(new Event("input"));
  seen.alike = [...document.querySelectorAll("#alike .name")].slice(0, 3).map(span => span.textContent).sort();
  seen.wide = document.documentElement.scrollWidth <= window.innerWidth;
  // A browser reports what it has blocked a little later.
  setTimeout(() => {
    const out = document.createElement("pre");
    out.id = "seen";
    out.textContent = JSON.stringify(seen);
    document.body.append(out);
  }, 300);
});
</script>"##;

/// Six months of e-mails of two teams, one in the morning and one in the evening; each writes only to its members.
fn table() -> String {
    let mut text = String::from("time,from,to\n");
    for (team, hours) in
        [(["ann", "bob", "cid", "dot"], [8, 9, 10]), (["eve", "fay", "gus", "hal"], [18, 19, 20])]
    {
        for month in 1..=6 {
            for (from, to) in team.iter().flat_map(|from| team.iter().map(move |to| (from, to))) {
                for (day, hour) in (1..).zip(hours) {
                    text += &format!("2001-{month:02}-{day:02} {hour:02}:30,{from},{to}\n");
                }
            }
        }
    }
    text
}

fn the_page_works_in_a_browser() {
    let browser = browser().unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("mail.csv"), table()).unwrap();
    let args = "learn mail.csv --feature hour(time) --row from --col to --step month(time) -o mail.safetensors \
                --report mail.html";
    let learned = Command::new(program("noodl")).current_dir(&folder).args(args.split_whitespace()).output();
    assert!(learned.unwrap().status.success());
    let page = fs::read_to_string(folder.join("mail.html")).unwrap();
    let visited = folder.join("visited.html");
    // The policy of the page begins after the visitor. It lets the script of the page run, and no other.
    let intruder = "<script>document.title = 'changed'</script></main>";
    let page = page.replace("<head>", &format!("<head>{VISITOR}")).replace("</main>", intruder);
    fs::write(&visited, page).unwrap();
    for width in [1200, 420] {
        let output = Command::new(browser)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "--virtual-time-budget=2000"])
            .arg(format!("--window-size={width},900"))
            .arg(format!("--user-data-dir={}", folder.join("profile").display()))
            .arg(format!("file://{}", visited.display()))
            .output()
            .unwrap();
        let dom = String::from_utf8_lossy(&output.stdout).into_owned();
        let seen = dom.split("<pre id=\"seen\">").nth(1).unwrap().split("</pre>").next().unwrap();
        let seen: serde_json::Value = serde_json::from_str(&seen.replace("&amp;", "&")).unwrap();
        assert_eq!(seen["errors"], serde_json::json!([]), "{seen}");
        assert_eq!(seen["blocked"], serde_json::json!(["script-src-elem"]), "{seen}");
        assert!(!dom.contains("<title>changed"), "{seen}");
        assert_eq!((seen["patterns"].as_u64(), seen["pictures"].as_u64()), (Some(2), Some(2)), "{seen}");
        assert_eq!(seen["step"], "2001-06", "{seen}");
        assert_eq!(seen["before"], seen["again"], "{seen}");
        assert_eq!(seen["after"].as_array().unwrap().len(), 4, "{seen}");
        assert_eq!(seen["alike"], serde_json::json!(["bob", "cid", "dot"]), "{seen}");
        assert_eq!(seen["wide"], true, "nothing sticks out at {width}: {seen}");
    }
}

fn the_page_of_the_demo_opens_without_an_error() {
    let browser = browser().unwrap();
    let folder = folder("the_page_of_the_demo_opens_without_an_error");
    let demo = Command::new(program("noodl"))
        .current_dir(&folder)
        .args(["demo", "--output", "a folder/of mine"])
        .output();
    assert!(demo.unwrap().status.success());
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "--virtual-time-budget=2000"])
        .args(["--enable-logging=stderr", "--v=0"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("file://{}", folder.join("a%20folder/of%20mine/mail.html").display()))
        .output()
        .unwrap();
    let (dom, log) = (stdout(&output), String::from_utf8_lossy(&output.stderr).into_owned());
    // Nine groups.
    assert_eq!(dom.matches("<section class=\"card\" id=\"pattern-").count(), 9);
    assert!(dom.contains("Abel Tornquill") && !log.contains("CONSOLE"), "{log}");
}

fn main() {
    run_tests!(no_browser() => [the_page_works_in_a_browser, the_page_of_the_demo_opens_without_an_error])
}
