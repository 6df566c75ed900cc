//! `linerate capture`: forwarding from a port to a file.

use std::path::Path;

use anyhow::Result;
use linerate_port::PortUri;
use linerate_worker::{OnFull, Rewrite};

use super::forward::{Plan, carry_out};
use crate::{args::Capture, exit::UsageError};

pub(crate) fn run(args: &Capture) -> Result<()> {
    let mut to = PortUri::new("pcap", file_name(&args.file)?);
    let seconds = args.rotate_time.map(|time| time.as_secs_f64());
    let options = [
        ("snaplen", args.snaplen.map(|n| n.to_string())),
        ("format", args.format.clone()),
        ("rotate-bytes", args.rotate_size.map(|n| n.to_string())),
        ("rotate-seconds", seconds.map(|n| n.to_string())),
        ("rotate-packets", args.rotate_packets.map(|n| n.to_string())),
        ("keep", args.keep.map(|n| n.to_string())),
        ("interface", Some(args.port.name().into()).filter(|name: &String| !name.is_empty())),
    ];
    for (key, value) in options {
        if let Some(value) = value {
            to = to.with(key, value);
        }
    }
    carry_out(&Plan {
        command: "capture",
        verb: "captured",
        from: args.port.clone(),
        to,
        bidirectional: false,
        rewrite: Rewrite::None,
        on_full: OnFull::Wait,
        exit_on_loss: true,
        running: &args.running,
    })
    .map(drop)
}

/// A file's name as a part of a port's.
pub(super) fn file_name(path: &Path) -> Result<&str, UsageError> {
    path.to_str().ok_or_else(|| UsageError(format!("file name {path:?} is not UTF-8")))
}
