//! Jobs on three hosts: network namespaces of this machine, each with a name and an address, which the tests make and
//! remove.

#![allow(clippy::unwrap_used)]

#[path = "../../tensornoodl-cli/tests/common/mod.rs"]
mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::mpi::{Job, days, no_mpi, say, signal, turn};
use common::{folder, lab, noodl, program, stderr, stdout};
use serde_json::Value;

const HOSTS: [u32; 3] = [1, 2, 3];

/// Three hosts on one bridge.
struct Hosts {
    /// The prefix of the names of the namespaces.
    name: String,
    /// The script that `mpirun` calls to start a process on another host.
    agent: PathBuf,
}

fn ip(words: &str) -> Result<(), String> {
    let output =
        Command::new("ip").args(words.split_whitespace()).output().map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(format!("ip {words}: {}", stderr(&output).trim())) }
}

impl Hosts {
    /// Makes the hosts. An error says why this machine does not allow it.
    fn new(test: &str) -> Result<Hosts, String> {
        let name = format!("noodl-{}", std::process::id());
        let agent = folder(test).join("agent");
        let script = format!(
            "#!/bin/sh\nhost=${{1##*.}}; shift\nexec ip netns exec {name}-$host unshare --uts sh -c \"hostname host$host; $*\"\n"
        );
        fs::write(&agent, script).unwrap();
        fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
        // From here on, dropping the hosts removes all namespaces.
        let hosts = Hosts { name, agent };
        hosts.connect().map(|()| hosts)
    }

    fn connect(&self) -> Result<(), String> {
        let name = &self.name;
        ip(&format!("netns add {name}-cable"))?;
        ip(&format!("-n {name}-cable link add cable type bridge"))?;
        ip(&format!("-n {name}-cable link set cable up"))?;
        for host in HOSTS {
            ip(&format!("netns add {name}-{host}"))?;
            ip(&format!(
                "link add wire netns {name}-{host} type veth peer name to{host} netns {name}-cable"
            ))?;
            ip(&format!("-n {name}-cable link set to{host} master cable up"))?;
            ip(&format!("-n {name}-{host} addr add 10.77.0.{host}/24 dev wire"))?;
            ip(&format!("-n {name}-{host} link set wire up"))?;
            ip(&format!("-n {name}-{host} link set lo up"))?;
        }
        let named = Command::new("unshare").args(["--uts", "hostname", "host"]).output();
        if named.is_ok_and(|output| output.status.success()) { Ok(()) } else { Err("unshare --uts".into()) }
    }

    /// A rank on each host. The command begins with the name of the program.
    fn job(&self, args: &str, patience: &str) -> Job {
        let (name, args) = args.split_once(' ').unwrap();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &format!("{}-1", self.name), "unshare", "--uts", "sh", "-c"]);
        command.args(["hostname host1; exec \"$@\"", "sh", "mpirun", "-n", "3", "--bind-to", "none"]);
        command.args(["--host", "10.77.0.1,10.77.0.2,10.77.0.3", "--mca", "plm_rsh_agent"]).arg(&self.agent);
        let net = "10.77.0.0/24";
        command.args(["--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", net]);
        command.args(["--mca", "oob_tcp_if_include", net, "-x", "NOODL_TEST_JOB", "-x", "NOODL_PATIENCE"]);
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command.env("NOODL_PATIENCE", patience);
        command.arg(program(name)).args(args.split_whitespace());
        Job::start(command)
    }
}

impl Hosts {
    /// Returns all processes on the hosts, including the helpers of the launcher.
    fn processes(&self) -> Vec<u32> {
        let pids = |host: &u32| {
            let name = format!("{}-{host}", self.name);
            let pids = Command::new("ip").args(["netns", "pids", &name]).stderr(Stdio::null()).output();
            pids.map(|output| stdout(&output)).unwrap_or_default()
        };
        let pids: String = HOSTS.iter().map(pids).collect();
        pids.lines().filter_map(|pid| pid.parse().ok()).collect()
    }

    /// Waits until no process runs on the hosts.
    fn are_empty(&self, limit: Duration) {
        let now = Instant::now();
        while !self.processes().is_empty() {
            assert!(now.elapsed() < limit, "{:?} are still there after {limit:?}", self.processes());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        // A failed test may leave processes.
        self.processes().into_iter().for_each(|pid| signal(pid, "KILL"));
        for end in ["1", "2", "3", "cable"] {
            let _ = ip(&format!("netns del {}-{end}", self.name));
        }
    }
}

const RECOVER: &str =
    "recover --json --features 60 --patterns 30 --rows 60 --cols 60 --noise 0.1 --tolerance 0";

/// Returns the errors of A with all digits.
fn errors(lines: &str) -> Vec<String> {
    let error = |line: &str| serde_json::from_str::<Value>(line).unwrap()["error_a"].to_string();
    lines.lines().map(error).collect()
}

fn three_hosts_learn_what_one_process_does() {
    let _turn = turn();
    let hosts = Hosts::new("mpi_three_hosts_agent").unwrap();
    let args = format!("{RECOVER} --max-steps 5");
    let (alone, team) =
        (lab(&args), hosts.job(&format!("noodl-lab {args}"), "60").end(Duration::from_secs(240)));
    assert!(team.status.success(), "{}", team.stderr);
    assert_eq!(errors(&team.stdout), errors(&stdout(&alone)));

    let folder = folder("mpi_three_hosts_learn");
    let model = folder.join("model.safetensors");
    let args = format!(
        "learn {} --feature kind --row from --col to --step day -o {}",
        days(&folder, 40).display(),
        model.display()
    );
    let alone = noodl(&args);
    assert!(alone.status.success(), "{}", stderr(&alone));
    let bits = fs::read(&model).unwrap();
    fs::remove_file(&model).unwrap();
    let team = hosts.job(&format!("noodl {args}"), "60").end(Duration::from_secs(240));
    assert!(team.status.success(), "{}", team.stderr);
    assert!(fs::read(&model).unwrap() == bits);
}

/// A socket does not notice that a link goes down. With 5 s of patience, all ranks end soon after that on both sides;
/// the launcher, which cannot reach the other side, and its helper there are ended 10 s later.
fn a_host_that_is_cut_off() {
    let _turn = turn();
    for (host, who) in [(3, "rank 2"), (1, "ranks 1, 2")] {
        let hosts = Hosts::new("mpi_a_host_that_is_cut_off").unwrap();
        let mut job = hosts.job(&format!("noodl-lab {RECOVER} --max-steps 1000000"), "5");
        job.has_lines(5);
        assert_eq!(job.ranks().len(), 3);
        let now = Instant::now();
        ip(&format!("-n {}-cable link set to{host} down", hosts.name)).unwrap();
        job.is_left(Duration::from_secs(5 + 2 + 5 + 5));
        let left = now.elapsed();
        let ended = job.end(Duration::from_secs(5 + 2 + 10 + 3 + 10).saturating_sub(left));
        hosts.are_empty(Duration::from_secs(10));
        say(&format!(
            "host {host} cut off, with 5 s of patience: the last rank ended after {left:.1?}, the launcher after {:.1?}, all after {:.1?}",
            ended.at - now,
            now.elapsed()
        ));
        assert!(!ended.status.success());
        let sentence = format!("0 of 3 has waited 5 s for {who} in exchange");
        assert!(ended.stderr.contains(&sentence), "{}", ended.stderr);
    }
}

fn main() {
    let no_hosts = || Hosts::new("mpi_hosts_probe").err().map(|why| format!("no network namespaces: {why}"));
    run_tests!(no_mpi().or_else(no_hosts) => [three_hosts_learn_what_one_process_does, a_host_that_is_cut_off])
}
