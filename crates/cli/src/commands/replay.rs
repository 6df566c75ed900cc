//! `linerate replay`: forwarding from a file to a port.

use anyhow::Result;
use linerate_port::{DropReason, PortUri};
use linerate_worker::{OnFull, Rewrite};

use super::{
    capture::file_name,
    forward::{Plan, carry_out},
};
use crate::args::Replay;

pub(crate) fn run(args: &Replay) -> Result<()> {
    let mut from = PortUri::new("pcap", file_name(&args.file)?).with("rate", &args.rate);
    if args.speed != 1.0 {
        from = from.with("speed", args.speed);
    }
    if args.times != 1 {
        from = from.with("loop", args.times);
    }
    let received = carry_out(&Plan {
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
    Ok(())
}
