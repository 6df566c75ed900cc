//! `ReplayUnqueue` and `Replay`: read packets once, and send them again and again.
//!
//! Not in Click; in `FastClick`, whose defaults, messages and handlers these are.
//! Packets are kept outside of the arena, so that a capture may be larger than
//! that, and every one that is sent has a buffer of its own.

use linerate_graph::{Arg, Class, DropReason, Handler, NoBuffer, Signals};

use super::FAMILY;

mod pulled;
mod recording;
mod rounds;
mod unqueue;

use pulled::Replay;
use unqueue::ReplayUnqueue;

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    #[from(NoBuffer)]
    NoBuffer,
    /// left over at another input
    LeftOver,
}

const STOP: Arg = Arg::keyword("STOP", "times", "-1: no end", "how often packets are sent");
const STOP_TIME: Arg =
    Arg::keyword("STOP_TIME", "seconds", "0: no limit", "after how long no round is begun");
const QUICK_CLONE: Arg =
    Arg::keyword("QUICK_CLONE", "bool", "false", "accepted; packets have buffers of their own");
const VERBOSE: Arg = Arg::keyword("VERBOSE", "bool", "false", "whether it tells of each round");
const FREE: Arg = Arg::keyword("FREEONTERMINATE", "bool", "true", "accepted");
const LIMIT: Arg = Arg::keyword("LIMIT", "packets", "-1: no limit", "most packets kept");
const CAPACITY: Arg = Arg::keyword(
    "CAPACITY",
    "bytes",
    "1073741824",
    "most memory for the packets kept, and for what is known about them",
);
const ACTIVE: Arg = Arg::keyword("ACTIVE", "bool", "true", "whether it works");
const USE_SIGNAL: Arg =
    Arg::keyword("USE_SIGNAL", "bool", "false", "whether inputs that may have more are waited for");

const ACTIVE_HANDLER: Handler = Handler::value("active", "whether it works");
const RESET: Handler = Handler::button("reset", "forgets the packets, and reads new ones");
const LOADED: Handler = Handler::read("loaded", "whether all packets have been read");
const STOP_HANDLER: Handler = Handler::value("stop", "how often packets are still to be sent");

pub(super) const CLASS: Class = Class {
    name: "ReplayUnqueue",
    family: FAMILY,
    summary: "pulls packets until there are no more, and then sends them again and again",
    description: "Of several inputs the packet with the oldest timestamp is next, painted with the \
        number of its input; when one has no more packets, that is the end, and so are `LIMIT` packets, \
        or as many as need `CAPACITY` bytes. Packets are then sent by \
        output 0, `STOP` times, after which the run ends. `TIMING` is the pace in hundredths: 100 \
        sends packets as far apart as their timestamps are, 200 twice as fast; 0 as fast as \
        possible. A function for it (FastClick's `TIMING_FNT`) there is not.",
    ports: "1-/=",
    processing: "l/h",
    flow: "#/#",
    args: &[
        STOP,
        STOP_TIME,
        QUICK_CLONE,
        Arg::keyword("BURST", "packets", "64", "most packets sent at a time"),
        VERBOSE,
        FREE,
        LIMIT,
        CAPACITY,
        ACTIVE,
        USE_SIGNAL,
        Arg::keyword("TIMING", "hundredths", "0: none", "pace, of the timestamps'"),
    ],
    handlers: &[
        ACTIVE_HANDLER,
        RESET,
        LOADED,
        STOP_HANDLER,
        Handler::value("timing", "pace, of the timestamps'"),
    ],
    annotates: true,
    drops: Reason::REASONS,
    observes: |plan, at| if plan.is_live() { Vec::new() } else { plan.stores_before(at) },
    cost: "A copy of each packet and its metadata. When a queue that it reads is empty is seen, so \
        tasks that fill it, and its own, take a turn at a time.",
    example: "FromIPSummaryDump(STOP false, FIELDS ip_src, DATA \"1.0.0.1\") \
        -> ReplayUnqueue(STOP 3) -> Discard;",
    make: |make| Box::new(ReplayUnqueue::new(make)),
    ..Class::here()
};

pub(super) const MULTI: Class = Class {
    name: "MultiReplayUnqueue",
    description: "What ReplayUnqueue is, by the name it once had for several inputs.",
    example: "FromIPSummaryDump(STOP false, FIELDS ip_src, DATA \"1.0.0.1\") \
        -> MultiReplayUnqueue(STOP 3) -> Discard;",
    ..CLASS
};

pub(super) const PULLED: Class = Class {
    name: "Replay",
    summary: "pulls packets until there are no more, and then repeats them whenever packets are pulled",
    description: "Reads packets as ReplayUnqueue does. The next one leaves by whichever output is pulled. When \
        all have been pulled `STOP` times, the run ends. FastClick's has a queue of `QUEUE` packets, and at \
        the end those in it are lost; this one makes a packet when it is pulled.",
    processing: "l/l",
    args: &[
        STOP,
        STOP_TIME,
        QUICK_CLONE,
        Arg::keyword("BURST", "packets", "64", "accepted; as many are given as are asked for"),
        VERBOSE,
        FREE,
        LIMIT,
        CAPACITY,
        ACTIVE,
        Arg::keyword("QUEUE", "packets", "1024", "accepted; packets are made when they are pulled"),
        USE_SIGNAL,
    ],
    handlers: &[ACTIVE_HANDLER, RESET, LOADED, STOP_HANDLER],
    signals: Signals { empty: true, full: false },
    example: "FromIPSummaryDump(STOP false, FIELDS ip_src, DATA \"1.0.0.1\") \
        -> Replay(STOP 3) -> Unqueue -> Discard;",
    make: |make| Box::new(Replay::new(make)),
    ..CLASS
};

#[cfg(test)]
mod tests;
