//! Changes beside Open vSwitch: the same commands to both, which then have the same flows, groups
//! and meters, and refuse the same.

use std::path::Path;
use std::process::{Command, Stdio};

use linerate_ofswitch::control::{Agent, AgentOptions, Target};
use linerate_ofswitch::switch::{Switch, SwitchOptions};
use linerate_openflow::wire::Version;
use linerate_test_support::openvswitch::OpenVswitch;
use linerate_test_support::{require, wait_until};

use crate::controller::PATIENCE;

/// Random steps and their objects, by a generator whose seed is printed with a failure.
struct Choice(u64);

impl Choice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn choose<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len() as u64) as usize]
    }

    fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }
}

const MATCHES: &[&str] = &[
    "",
    "in_port=1,",
    "in_port=2,dl_src=02:00:00:00:00:01,",
    "arp,",
    "ip,",
    "ip,nw_dst=10.0.0.0/8,",
    "ip,nw_dst=10.0.0.1,",
    "ip,nw_src=10.0.0.0/255.0.0.255,",
    "tcp,tp_dst=80,",
    "tcp,nw_dst=10.0.0.1,tp_dst=80,",
    "udp,tp_dst=0x40/0xffc0,",
    "dl_vlan=5,",
    "vlan_tci=0,",
    "ipv6,ipv6_dst=2001:db8::/32,",
    "reg0=0x1/0x1,",
];

/// A command for `ovs-ofctl`, and its last word.
fn command(choice: &mut Choice, version: Version) -> (Vec<&'static str>, String) {
    let newer = version > Version::V10;
    let groups = newer && choice.one_in(4);
    if groups {
        return group(choice, version);
    }
    if newer && choice.one_in(8) {
        let name = choice.choose(&["add-meter", "mod-meter", "del-meter"]);
        let number = 1 + choice.below(2);
        let rate = 10 + choice.below(3);
        let text = match name {
            "del-meter" => format!("meter={number}"),
            _ => format!("meter={number},pktps,stats,bands=type=drop,rate={rate}"),
        };
        return (vec![name], text);
    }
    let mut words =
        vec![choice.choose(&["add-flow", "add-flow", "add-flow", "mod-flows", "del-flows"])];
    let (adds, deletes) = (words[0] == "add-flow", words[0] == "del-flows");
    let strict = !adds && choice.one_in(2);
    if strict {
        words.insert(0, "--strict");
    }
    let mut text = String::new();
    if newer && (adds || choice.one_in(2)) {
        text += choice.choose(&["table=0,", "table=0,", "table=1,", "table=253,"]);
    }
    if adds || strict {
        text += choice.choose(&["priority=1,", "priority=2,", "priority=32768,"]);
    }
    if adds {
        text += choice.choose(&["", "cookie=1,", "cookie=2,", "cookie=3,"]);
        text += choice.choose(&["", "", "", "check_overlap,"]);
        text += choice.choose(&["", "idle_timeout=600,", "hard_timeout=900,", "send_flow_rem,"]);
        if version > Version::V13 {
            text += choice.choose(&["", "importance=7,"]);
        }
    } else {
        text += choice.choose(&["", "", "cookie=1/1,", "cookie=2/-1,"]);
    }
    if deletes {
        text += choice.choose(&["", "", "out_port=1,", "out_port=controller,"]);
        if newer {
            text += choice.choose(&["", "", "", "out_group=1,"]);
        }
    }
    text += choice.choose(MATCHES);
    let actions = [
        "actions=drop",
        "actions=output:1",
        "actions=output:2,output:1",
        "actions=controller:64",
        "actions=resubmit(,1)",
        "actions=mod_nw_ttl:9,output:3",
        "actions=group:1",
        "actions=group:2,output:1",
        "actions=goto_table:1",
        "actions=meter:1,output:1",
        "actions=write_actions(output:1),goto_table:253",
    ];
    if !deletes {
        // The first ones are for all versions.
        let count = if newer { actions.len() } else { 5 };
        text += choice.choose(&actions[..count]);
    }
    (words, text.trim_end_matches(',').to_owned())
}

fn group(choice: &mut Choice, version: Version) -> (Vec<&'static str>, String) {
    let number = 1 + choice.below(2);
    let newest = version == Version::V15;
    let kinds: &[&str] = if newest {
        &["add-group", "mod-group", "del-groups", "insert-buckets", "remove-buckets"]
    } else {
        &["add-group", "add-group", "mod-group", "del-groups"]
    };
    let kind = choice.choose(kinds);
    let buckets = [
        "type=all,bucket=output:1,bucket=output:2",
        "type=indirect,bucket=output:3",
        "type=select,bucket=weight:3,output:1,bucket=weight:5,output:2",
        "type=ff,bucket=watch_port:1,output:1,bucket=watch_port:2,output:2",
    ];
    let text = match kind {
        "del-groups" if choice.one_in(4) => String::new(),
        "del-groups" => format!("group_id={number}"),
        "insert-buckets" => {
            let at = choice.choose(&["first", "last", "0", "7"]);
            let id = 5 + choice.below(4);
            format!(
                "group_id={number},command_bucket_id={at},bucket=bucket_id:{id},weight:1,output:9"
            )
        }
        "remove-buckets" => {
            let at = choice.choose(&["first", "last", "all", "1", "7"]);
            format!("group_id={number},command_bucket_id={at}")
        }
        _ => format!("group_id={number},{}", choice.choose(&buckets)),
    };
    (vec![kind], text)
}

/// Returns the output of `ovs-ofctl`, or the name of the error it was sent.
fn run(
    socket: &Path,
    folder: &Path,
    version: Version,
    words: &[&str],
    text: Option<&str>,
) -> String {
    let mut command = Command::new(require("ovs-ofctl"));
    let version = format!("OpenFlow{}", version.to_string().replace('.', ""));
    let (flags, name): (Vec<&str>, Vec<&str>) =
        words.iter().partition(|word| word.starts_with("--"));
    command.args(["--timeout=20", "-O", &version]).args(flags).args(name);
    command.arg(format!("unix:{}", socket.display())).args(text);
    command.env("OVS_RUNDIR", folder).stdin(Stdio::null());
    let output = command.output().expect("ovs-ofctl runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.is_empty() {
        return String::from_utf8_lossy(&output.stdout).into_owned();
    }
    let told = errors.lines().find_map(|line| Some(line.split_once("OFPT_ERROR")?.1));
    let name = told.and_then(|line| line.rsplit_once("): ")).map(|(_, name)| name);
    name.map_or_else(|| errors.to_string(), |name| format!("refused: {name}"))
}

/// Returns the entries of a dump, in order.
fn dump(text: &str) -> Vec<String> {
    let heads = ["NXST_", "OFPST_", " OFPST"];
    let said = text.lines().filter(|line| !heads.iter().any(|head| line.starts_with(head)));
    let mut lines: Vec<String> = said.map(|line| line.trim().to_owned()).collect();
    lines.retain(|line| !line.is_empty());
    lines.sort();
    lines
}

#[test]
#[ignore = "needs Open vSwitch"]
fn changes_are_made_as_open_vswitch_makes_them() {
    let judge = OpenVswitch::dummy();
    judge.configure(&[
        "add-br",
        "br0",
        "--",
        "set",
        "bridge",
        "br0",
        "datapath_type=dummy",
        "fail_mode=secure",
        "protocols=OpenFlow10,OpenFlow13,OpenFlow14,OpenFlow15",
    ]);
    let theirs = judge.bridge_socket("br0");
    assert!(wait_until(|| theirs.exists(), PATIENCE), "there is no bridge");
    let folder = tempfile::tempdir().expect("a temporary directory");
    let ours = folder.path().join("switch");
    let seed: u64 =
        std::env::var("LINERATE_BESIDE").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    for version in Version::ALL {
        let options = AgentOptions {
            targets: vec![Target::ListenUnix(ours.clone())],
            ..AgentOptions::default()
        };
        let agent = Agent::start(Switch::new(SwitchOptions::default()), options).expect("an agent");
        let both = |words: &[&str], text: Option<&str>| {
            let run = |socket: &Path| run(socket, folder.path(), version, words, text);
            (run(&ours), run(&theirs))
        };
        for words in [["del-flows"], ["del-groups"], ["del-meters"]] {
            if version > Version::V10 || words == ["del-flows"] {
                both(&words, None);
            }
        }
        let mut choice = Choice(seed ^ u64::from(version.number()));
        let mut done = Vec::new();
        for nth in 0..60 {
            let (words, text) = command(&mut choice, version);
            let said = Some(text.as_str()).filter(|text| !text.is_empty());
            let (one, other) = both(&words, said);
            done.push(format!("{words:?} {text} -> {other}"));
            let last = || {
                format!(
                    "{version}, seed {seed}:\n{}",
                    done[done.len().saturating_sub(25)..].join("\n")
                )
            };
            assert_eq!(one, other, "{}", last());
            if nth % 5 == 4 {
                for words in [
                    &["--no-stats", "--no-names", "dump-flows"][..],
                    &["dump-groups"],
                    &["dump-meters"],
                ] {
                    if version == Version::V10 && words.len() == 1 {
                        continue;
                    }
                    let (one, other) = both(words, None);
                    assert_eq!(dump(&one), dump(&other), "{}", last());
                }
            }
        }
        drop(agent);
    }
}
