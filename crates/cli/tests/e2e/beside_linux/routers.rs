//! The routers among the examples beside the kernel's forwarding: equal packets, made by scapy, go
//! to either in the same topology, and their output at the far end and back at the near end is
//! compared packet by packet.

use std::collections::BTreeMap;

use linerate_test_support::{Lab, Namespace};

use crate::{
    hosts::{python, run, stop},
    support::{LINERATE, Scratch},
    wire::{Listener, send},
};

pub(super) const NEAR_MAC: &str = "02:00:00:00:00:0a";
pub(super) const FAR_MAC: &str = "02:00:00:00:00:0b";
const LEFT_MAC: &str = "02:00:00:00:00:11";
const RIGHT_MAC: &str = "02:00:00:00:00:12";

/// Frames that come out at the far end and at the near one.
pub(super) type Sides = [Vec<Vec<u8>>; 2];
pub(super) const FAR: usize = 0;
pub(super) const NEAR: usize = 1;

/// Frames that come out, by the number of the packet that caused them.
type Outcome = BTreeMap<usize, Sides>;

/// A packet, why the two treat it differently, and whether they do so as described.
pub(super) type Difference = (&'static str, &'static str, fn(&Sides, &Sides) -> bool);

/// The router that made a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Forwarder {
    Linux,
    Ours,
}

/// Packets to be compared, and the allowed differences.
pub(super) struct Comparison {
    /// The program that makes the packets.
    pub(super) packets: &'static str,
    pub(super) example: &'static str,
    /// Has the kernel forward.
    pub(super) linux: fn(&Namespace),
    /// Handlers of the example that are told where the hosts are.
    pub(super) neighbours: [(&'static str, &'static str); 2],
    /// The number of the packet a frame is a consequence of, if it is one.
    pub(super) case: fn(&[u8]) -> Option<usize>,
    /// A frame for the near end without parts that legitimately vary.
    pub(super) own: fn(Vec<u8>, Forwarder) -> Vec<u8>,
    pub(super) differences: &'static [Difference],
    /// Packets that at least get to the far end, and that are answered.
    pub(super) least: [usize; 2],
}

struct Net {
    near: Namespace,
    router: Namespace,
    far: Namespace,
}

/// Two interfaces without hosts, and a router's two between them.
#[track_caller]
fn net() -> Net {
    let lab = Lab::new();
    let [near, router, far] = ["near", "router", "far"].map(|label| lab.namespace(label));
    lab.veth(&near, "e0", &router, "left");
    lab.veth(&far, "e0", &router, "right");
    for (namespace, interface, mac) in [
        (&near, "e0", NEAR_MAC),
        (&router, "left", LEFT_MAC),
        (&router, "right", RIGHT_MAC),
        (&far, "e0", FAR_MAC),
    ] {
        namespace.ip(["link", "set", interface, "address", mac]);
    }
    router.set_mtu("right", 1280);
    Net { near, router, far }
}

fn packets(net: &Net, script: &str) -> (Vec<String>, Vec<Vec<u8>>) {
    let shown = python(&net.near, script, &[NEAR_MAC, LEFT_MAC]);
    let line = |line: &str| {
        let (name, digits) = line.split_once(' ').expect("a name and a frame");
        let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("digits");
        (name.to_owned(), (0..digits.len()).step_by(2).map(byte).collect())
    };
    shown.lines().map(line).unzip()
}

/// Sends all packets and sorts out their consequences.
#[track_caller]
fn outcome(net: &Net, case: fn(&[u8]) -> Option<usize>, frames: &[Vec<u8>]) -> Outcome {
    let far = Listener::start(&net.far, "e0");
    let near = Listener::start(&net.near, "e0");
    send(&net.near, "e0", frames);
    let mut outcome = Outcome::new();
    // The last two packets make one frame at each end.
    for (side, listener) in [far, near].into_iter().enumerate() {
        let last = frames.len() - 1 + side;
        let all = |seen: &[Vec<u8>]| seen.iter().any(|frame| case(frame) == Some(last));
        for frame in listener.frames_until(all) {
            if let Some(case) = case(&frame) {
                outcome.entry(case).or_default()[side].push(frame);
            }
        }
    }
    outcome
}

impl Comparison {
    #[track_caller]
    pub(super) fn run(&self) {
        let kernels = net();
        (self.linux)(&kernels.router);
        let (names, frames) = packets(&kernels, self.packets);
        let linux = outcome(&kernels, self.case, &frames);
        drop(kernels);

        let net = net();
        let scratch = Scratch::new();
        let control = scratch.file("control");
        let arguments = format!("RIGHT_MTU=1280 --control {control}");
        let program = run(&net.router, self.example, &arguments);
        for (handler, neighbour) in self.neighbours {
            net.near.expect([LINERATE, "call", &control, handler, neighbour]);
        }
        let ours = outcome(&net, self.case, &frames);
        stop(program);
        self.compare(&names, &linux, &ours);
    }

    /// Linux's and our frames for a packet are equal, but for the differences explained.
    #[track_caller]
    fn compare(&self, names: &[String], linux: &Outcome, ours: &Outcome) {
        let mut came = [0, 0];
        let mut explained = 0;
        for (number, name) in (1..).zip(names) {
            let of = |outcome: &Outcome, who: Forwarder| {
                let [far, near] = outcome.get(&number).cloned().unwrap_or_default();
                [far, near.into_iter().map(|frame| (self.own)(frame, who)).collect()]
            };
            let (linux, ours) = (of(linux, Forwarder::Linux), of(ours, Forwarder::Ours));
            for side in [FAR, NEAR] {
                came[side] += usize::from(!ours[side].is_empty());
            }
            match self.differences.iter().find(|difference| difference.0 == name) {
                Some((_, why, as_said)) => {
                    explained += 1;
                    assert!(linux != ours, "{name} is the same now: {why}");
                    assert!(as_said(&linux, &ours), "{name}: {why}\n{linux:02x?}\n{ours:02x?}");
                }
                None => assert!(linux == ours, "{name}\nLinux {linux:02x?}\nours  {ours:02x?}"),
            }
        }
        assert_eq!(explained, self.differences.len(), "one is about no packet");
        let last = linux.keys().chain(ours.keys()).max().expect("packets");
        assert!(*last <= names.len(), "an answer to nothing: {last}");
        // All this was about packets that came.
        assert!(came.iter().zip(self.least).all(|(came, least)| *came >= least), "{came:?}");
    }
}

pub(super) fn word(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]))
}

/// The only frame at one side, when there is none at the other.
#[track_caller]
pub(super) fn only(sides: &Sides, side: usize) -> &[u8] {
    assert!(sides[side].len() == 1 && sides[1 - side].is_empty(), "{sides:02x?}");
    &sides[side][0]
}
