//! Processes that share what an interface receives.

use std::fs;

use linerate_port::pcap::Reader;
use linerate_testlab::{Lab, wait_until};
use rustix::process::Signal;

use crate::support::{PATIENCE, Program, Scratch, linerate, number};

/// Frames sent, of 64 flows.
const FRAMES: u64 = 6000;

#[test]
#[ignore = "needs root"]
fn who_is_killed_among_those_on_an_interface_costs_the_others_nothing() {
    let (lab, scratch) = (Lab::new(), Scratch::new());
    let (near, far) = (lab.namespace("near"), lab.namespace("far"));
    lab.veth(&near, "g0", &far, "s0");
    let config = "FromPort(packet:s0) -> ip :: Classifier(12/0800, -);
        ip [1] -> Discard;
        ip -> ConsumerFanOut(w0 w1, recorder);";
    let (file, socket) = (scratch.file("c.click"), scratch.file("c.sock"));
    fs::write(&file, config).unwrap();
    let server = Program::ready(&far, &format!("cluster serve {file} --socket {socket}"));
    let attach = |name: &str, more: &str| {
        Program::ready(&far, &format!("cluster attach {socket} {name} {more}"))
    };
    let trace = scratch.file("trace.pcapng");
    let (mut w0, w1) = (attach("w0", ""), attach("w1", ""));
    let recorder = attach("recorder", &format!("--write {trace}"));
    let line = format!(
        "generate packet:g0 --count {FRAMES} --rate 6kpps --size 128 --sport 1000-1063 --order random"
    );
    let generator = Program::ready(&near, &line);
    let figure = |name: &str, key: &str| {
        let objects = linerate(&format!("cluster status {socket} --json")).json();
        let found = objects.iter().find(|object| object["consumer"] == name);
        number(found.expect("it is listed"), key)
    };
    assert!(wait_until(|| figure("w0", "packets") > 200, PATIENCE));
    w0.running.signal(Signal::KILL);
    assert!(wait_until(|| figure("w0", "held") == 0, PATIENCE));
    let of_w0 = figure("w0", "packets");
    let sent = number(&generator.end().summary(), "accepted");
    assert_eq!(sent, FRAMES);
    assert!(wait_until(|| figure("recorder", "packets") >= FRAMES, PATIENCE));
    assert_eq!((figure("w0", "packets"), figure("w0", "lost_absent")), (of_w0, 0));
    let (w1, recorder) = (w1.stop(), recorder.stop());
    assert_eq!((number(&recorder, "packets"), number(&recorder, "lost")), (FRAMES, 0));
    assert_eq!((number(&w1, "packets"), number(&w1, "lost")), (FRAMES - of_w0, 0));
    let mut reader = Reader::open(&trace).unwrap();
    while reader.next().unwrap().is_some() {}
    assert_eq!(reader.records(), FRAMES);
    server.stop();
    assert!(!fs::exists(&socket).unwrap(), "the socket is left");
}
