//! Test bench: a controller with the two switches of a test, the one under test and the one that
//! sends and looks at packets that come back.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use linerate_test_support::{Lab, Running, controllers, openvswitch::OpenVswitch, wait_until};

use super::outcome::{self, Outcomes};
use super::suite::{self, File};

/// Address of the controller, in a namespace of its own.
const CONTROLLER: &str = "tcp:127.0.0.1:6653";

/// Our switch, with its ports.
const CONFIGURATION: &str = "\
s :: FlowSwitch(TABLES 8, DATAPATH 00:00:00:00:00:01);
control :: OpenFlow(s, tcp:127.0.0.1:6653);
FromDevice(target1, PROMISC true) -> [0] s [0] -> Queue -> ToDevice(target1);
FromDevice(target2, PROMISC true) -> [1] s [1] -> Queue -> ToDevice(target2);
FromDevice(target3, PROMISC true) -> [2] s [2] -> Queue -> ToDevice(target3);
";

/// Switch under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target<'a> {
    /// Open vSwitch. Its ports are patched to those of the tester, which is a bridge beside it:
    /// over interfaces, cached flows of one case decide packets of the next.
    OpenVswitch,
    /// Ours, this program, joined to the tester by pairs of interfaces.
    Ours(&'a Path),
}

/// Runs the cases of some files, in a namespace of their own.
pub(super) fn run(target: Target<'_>, files: &[File]) -> Result<Outcomes> {
    let folder = tempfile::tempdir().context("cannot make a directory for the cases")?;
    suite::gather(files, folder.path())?;
    let network = Lab::new().namespace("openflow");
    if let Target::Ours(_) = target {
        let lab = Lab::new();
        for port in 1..=3 {
            lab.veth(&network, &format!("target{port}"), &network, &format!("tester{port}"));
        }
    }
    let open_vswitch = OpenVswitch::start(&network);
    if target != Target::OpenVswitch && !files.iter().any(|file| file.heavy) {
        // The tester's switch remembers nothing: cached flows of the case before decided a packet
        // in some two hundred on a busy machine. Thousands of packets a second are more than it
        // decides one by one.
        open_vswitch.configure(&["set", "Open_vSwitch", ".", "other_config:flow-limit=0"]);
    }
    bridge(&open_vswitch, "tester", 2, |port| match target {
        Target::OpenVswitch => (format!("tester-{port}"), Some(format!("target-{port}"))),
        Target::Ours(_) => (format!("tester{port}"), None),
    });
    let log = folder.path().join("ours.log");
    let mut ours = None::<Running>;
    match target {
        Target::OpenVswitch => bridge(&open_vswitch, "target", 1, |port| {
            (format!("target-{port}"), Some(format!("tester-{port}")))
        }),
        Target::Ours(program) => {
            let program = program.to_str().context("a path that is no text")?;
            let configuration = folder.path().join("switch.click");
            fs::write(&configuration, CONFIGURATION)?;
            let mut command = network.command([program, "run"]);
            command.arg(&configuration);
            let file = fs::File::create(&log)?;
            command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
            ours = Some(network.spawn_command(command));
        }
    }
    let said = folder.path().join("tester.log");
    let manager = folder.path().join("manager.py");
    fs::write(&manager, controllers::MANAGER)?;
    let python = controllers::require_python();
    let mut tester: Command = network.command([python.as_os_str(), manager.as_os_str()]);
    tester.arg("os_ken.tests.switch.tester").arg("--test-switch-dir").arg(folder.path());
    tester.args(["--ofp-listen-host", "127.0.0.1", "--ofp-tcp-listen-port", "6653"]);
    let file = fs::File::create(&said)?;
    tester.env("OSKEN_HUB_TYPE", "eventlet").env("PYTHONUNBUFFERED", "1").process_group(0);
    tester.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let mut tester = network.spawn_command(tester);
    // When a switch stays away, the tester waits for good.
    let mut progress = (0, 0);
    let cases: usize = files.iter().map(|file| file.cases.len()).sum();
    loop {
        if wait_until(|| !tester.is_running(), Duration::from_secs(10)) {
            break;
        }
        let length = fs::metadata(&said)?.len();
        progress = if length == progress.0 { (length, progress.1 + 1) } else { (length, 0) };
        let gone = ours.as_mut().is_some_and(|ours| !ours.is_running());
        if progress.1 > 12 || gone {
            break;
        }
    }
    let text = String::from_utf8_lossy(&fs::read(&said)?).into_owned();
    let outcomes = outcome::read(&text);
    let gone = ours.as_mut().is_some_and(|ours| !ours.is_running());
    if outcomes.len() < cases || gone {
        let ours = fs::read_to_string(&log).unwrap_or_default();
        let what = if gone { "our switch ended" } else { "the tester stopped" };
        let tail = |text: &str| {
            let lines: Vec<_> = text.lines().collect();
            lines[lines.len().saturating_sub(25)..].join("\n")
        };
        if outcomes.is_empty() {
            bail!("{what} before any case:\n{}\n{}", tail(&text), tail(&ours));
        }
        eprintln!(
            "{what} after {} of {cases} cases:\n{}\n{}",
            outcomes.len(),
            tail(&text),
            tail(&ours)
        );
    }
    Ok(outcomes)
}

/// A bridge with three ports, each by its name and that of the port it is patched to.
fn bridge(
    switch: &OpenVswitch,
    name: &str,
    number: u64,
    port: impl Fn(u32) -> (String, Option<String>),
) {
    let identity = format!("other-config:datapath-id={number:016x}");
    switch.configure(&[
        "add-br",
        name,
        "--",
        "set",
        "bridge",
        name,
        "datapath_type=netdev",
        "protocols=OpenFlow13",
        "fail_mode=secure",
        &identity,
        "other-config:disable-in-band=true",
    ]);
    for number in 1..=3 {
        let (port, peer) = port(number);
        let request = format!("ofport_request={number}");
        let mut words = vec!["add-port", name, &port, "--", "set", "interface", &port, &request];
        let option = peer.map(|peer| format!("options:peer={peer}"));
        if let Some(option) = &option {
            words.extend(["type=patch", option]);
        }
        switch.configure(&words);
    }
    switch.configure(&["set-controller", name, CONTROLLER]);
}
