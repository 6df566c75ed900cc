//! `linerate replay`: forwarding from a file to a port.
//!
//! A capture of a host has segments of TCP as the host gave them to an interface for segmentation,
//! or as one merged them. They are cut as an interface of the port's MTU does; other packets are
//! sent as they are.

use anyhow::{Result, bail};
use linerate_linux::interface;
use linerate_memory::BUFFER_MAX;
use linerate_port::{DropReason, PortUri};
use linerate_worker::{OnFull, Rewrite};

use super::{
    capture::file_name,
    forward::{FlowCounts, Plan, carry_out},
};
use crate::args::Replay;

pub(crate) fn run(args: &Replay) -> Result<()> {
    let file = file_name(&args.file)?;
    let mut from = PortUri::new("pcap", file)
        .with("rate", &args.rate)
        .with("segment", segment(&args.port))
        .shown_as(file);
    if args.speed != 1.0 {
        from = from.with("speed", args.speed);
    }
    if args.times != 1 {
        from = from.with("loop", args.times);
    }
    let FlowCounts { received, sent } = carry_out(&Plan {
        command: "replay",
        verb: "replayed",
        from,
        to: args.port.clone(),
        bidirectional: false,
        rewrite: Rewrite::None,
        on_full: OnFull::Wait,
        disconnect: false,
        exit_on_loss: true,
        filter: None,
        view: None,
        controlled: None,
        running: &args.running,
    })?;
    let unusable = received.dropped_for(DropReason::Malformed);
    if unusable > 0 {
        eprintln!(
            "linerate: {}: records cut off or too short to be frames: {unusable}, all others sent; \
             a capture that was not closed in order ends like this: keep what is whole with \
             `editcap FILE NEW`, or record it again",
            args.file.display()
        );
    }
    let too_long = received.dropped_for(DropReason::TooLong);
    if too_long > 0 {
        bail!(
            "{}: records longer than a packet buffer: {too_long}, not sent; whole packets of TCP are cut \
             into segments, others are not: record with offloads off, or give buffers room with \
             --buffer-size {BUFFER_MAX} for a port that carries such frames",
            args.file.display()
        );
    }
    // Packets that wait for a full port are only given up when the run is ended.
    let unsent = sent.dropped() - sent.dropped_for(DropReason::QueueFull);
    if unsent > 0 {
        bail!(
            "{}: packets that {} did not send: {unsent}, for the reasons above",
            args.file.display(),
            args.port
        );
    }
    Ok(())
}

/// Longest IP packets that a port sends segments of TCP in: its interface's, else those that buffers hold.
fn segment(port: &PortUri) -> String {
    /// MTU of an interface that is made.
    const MTU: &str = "1500";
    /// Longest packet of loopback, whose MTU is more than an IP header can give.
    const LONGEST: u32 = 65_535;
    let driver = port.driver();
    let link = matches!(driver, "packet" | "xdp" | "tap").then(|| interface::find(port.name()));
    match link {
        Some(Ok(link)) => link.mtu.min(LONGEST).to_string(),
        Some(Err(_)) if driver == "tap" => {
            let written = port.written().iter().find(|(key, _)| key == "mtu");
            written.and_then(|(_, value)| value.clone()).unwrap_or_else(|| MTU.into())
        }
        // One that is not there is an error soon.
        _ => "room".into(),
    }
}
