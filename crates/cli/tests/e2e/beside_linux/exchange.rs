//! Frames that are sent one after the other at the ends of a network, where the fate of one may
//! depend on those before it.

use std::fmt::Write as _;

use linerate_test_support::{Lab, Namespace};
use serde::Deserialize;

use crate::hosts::python;

/// A network with something in its middle that frames are sent to.
pub(super) struct Net {
    /// All ends: interfaces without an address, `e0` and so on.
    pub(super) ends: Namespace,
    /// Its interfaces `p0` and so on are the other ends.
    pub(super) middle: Namespace,
}

/// Address of an interface in the middle.
pub(super) fn middle_mac(port: usize) -> String {
    format!("02:00:00:00:01:{port:02x}")
}

#[track_caller]
pub(super) fn net(ports: usize) -> Net {
    let lab = Lab::new();
    let [ends, middle] = ["ends", "middle"].map(|label| lab.namespace(label));
    for port in 0..ports {
        let (end, near) = (format!("e{port}"), format!("p{port}"));
        lab.veth(&ends, &end, &middle, &near);
        middle.ip(["link", "set", &near, "address", &middle_mac(port)]);
    }
    Net { ends, middle }
}

/// The frames that one frame has caused.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Step {
    pub(super) name: String,
    /// Frames by the end they came out at, in hexadecimal digits.
    pub(super) out: Vec<Vec<String>>,
}

impl Step {
    /// The frames that came out at an end.
    pub(super) fn frames(&self, end: usize) -> Vec<Vec<u8>> {
        let byte = |digits: &str, at| u8::from_str_radix(&digits[at..at + 2], 16).expect("digits");
        let frame =
            |digits: &String| (0..digits.len()).step_by(2).map(|at| byte(digits, at)).collect();
        self.out[end].iter().map(frame).collect()
    }

    /// The only frame that came out, and where.
    #[track_caller]
    pub(super) fn only(&self) -> (usize, Vec<u8>) {
        let ends = 0..self.out.len();
        let mut all =
            ends.flat_map(|end| self.frames(end).into_iter().map(move |frame| (end, frame)));
        let (Some(only), None) = (all.next(), all.next()) else { panic!("{self:?}") };
        only
    }

    pub(super) fn is_silent(&self) -> bool {
        self.out.iter().all(Vec::is_empty)
    }

    /// Returns true if something came out at that end.
    pub(super) fn came(&self, end: usize) -> bool {
        !self.out[end].is_empty()
    }
}

/// A frame, why the two treat it differently, and whether they do so as described: Linux, ours.
pub(super) type Difference = (&'static str, &'static str, fn(&Step, &Step) -> bool);

/// Runs a program written for `exchange.py`, with the number of ends.
#[track_caller]
pub(super) fn steps(net: &Net, script: &str, arguments: &[&str]) -> Vec<Step> {
    let script = format!("{}\n{script}", include_str!("exchange.py"));
    let shown = python(&net.ends, &script, arguments);
    serde_json::from_str(&shown).unwrap_or_else(|error| panic!("{error}: {shown}"))
}

/// Linux's and our frames for each frame are equal, but for the differences explained; and so many
/// frames at least get somewhere.
#[track_caller]
pub(super) fn compare(linux: &[Step], ours: &[Step], differences: &[Difference], least: usize) {
    let (mut explained, mut unexplained) = (0, String::new());
    for (linux, ours) in linux.iter().zip(ours) {
        let name = &linux.name;
        match differences.iter().find(|difference| difference.0 == name) {
            Some((_, why, as_said)) => {
                explained += 1;
                assert!(linux != ours, "{name} is the same now: {why}");
                assert!(as_said(linux, ours), "{name}: {why}\nLinux {linux:?}\nours  {ours:?}");
            }
            None if linux == ours => (),
            None => {
                let _ =
                    writeln!(unexplained, "{name}\nLinux {:?}\nours  {:?}", linux.out, ours.out);
            }
        }
    }
    assert!(unexplained.is_empty(), "{unexplained}");
    assert_eq!(linux.len(), ours.len());
    assert_eq!(explained, differences.len(), "one is about no frame, or about several");
    let came = ours.iter().filter(|step| !step.is_silent()).count();
    assert!(came >= least, "{came} of {} frames got somewhere", ours.len());
}
