//! `linerate replay`: forwarding from a file to a port.

use anyhow::Result;
use linerate_port::PortUri;
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
    carry_out(&Plan {
        command: "replay",
        verb: "replayed",
        from,
        to: args.port.clone(),
        bidirectional: false,
        rewrite: Rewrite::None,
        on_full: OnFull::Wait,
        exit_on_loss: true,
        running: &args.running,
    })
}
