//! `ToPort`: sends packets to any port; `ToDevice`: to a network interface, by Click's arguments.

use std::time::{Duration, Instant};

use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, Handler, HandlerError, HandlerResult, Next,
    Right, Role, Signals,
};
use linerate_memory::{FRAME_LIMIT, Frame};
use linerate_port::{DropReason, PortUri, Wake};

use super::{
    DROPS, FAMILY, FLUSH, TICK,
    device::sink_port,
    keep_ticking, mode_text,
    port_users::{has, port_argument},
    rx_queue::{LINK, read_link},
    tx_queue::TxQueue,
};

/// Packets that wait in front of a device of another framework.
const IQUEUE: usize = 1024;

/// Time until a source without notification is pulled again.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

pub(super) const CLASS: Class = Class {
    name: "ToPort",
    reconfigured: Some(Right::Replace),
    family: FAMILY,
    summary: "sends packets to a port",
    description: "`URI` names any port, as for `FromPort`; a port both name in the same way is \
        opened once. With a pull input it pulls as fast as the port takes packets, `BURST` at a \
        time, and keeps what the port has no place for. With a push input packets the port has no \
        place for are dropped; with `WAIT true` they wait, and sources that ask whether there is \
        room stop meanwhile. Several workers each send on a queue of their own when the port has \
        enough of them, else they take turns on one. While the other end of the port is not there packets \
        are dropped and counted, as `link_down` in `counters`, and nothing waits for it.",
    ports: "1/0",
    processing: "a/a",
    args: &[
        Arg::required("URI", "port", "the port, as `packet:eth0`"),
        Arg::optional("BURST", "packets", "1, many times", "packets pulled in a turn"),
        Arg::keyword("WAIT", "bool", "false", "whether pushed packets wait for place"),
    ],
    handlers: HANDLERS,
    drops: DROPS,
    signals: Signals { empty: false, full: true },
    role: Role::Io,
    cost: "What the port's driver costs; the element adds one call per frame.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> ToPort(null:);",
    make: |make| Box::new(ToPort::new(make)),
    writes: false,
    ..Class::here()
};

pub(super) const DEVICE: Class = Class {
    name: "ToDevice",
    summary: "sends packets to a network interface",
    description: "Pulls packets and sends them. `METHOD` chooses how, as for FromDevice; without \
        it that of a FromDevice of the same device, else an AF_PACKET socket. `DEVNAME` can also \
        be any port. Packets leave by output 0, if it exists, once they are given to the port; \
        output 1 is there for compatibility: what the port could not send it counts as dropped.",
    ports: "1/0-2",
    processing: "l/h",
    args: &[
        Arg::required("DEVNAME", "device", "the interface, or any port"),
        Arg::keyword("METHOD", "word", "that of FromDevice", "how packets are sent"),
        Arg::keyword("BURST", "packets", "1, many times", "packets pulled in a turn"),
        Arg::keyword("DEBUG", "bool", "false", "has no effect"),
    ],
    signals: Signals::NONE,
    example: "InfiniteSource(LIMIT 10, STOP true) -> Queue -> ToDevice(null:);",
    make: |make| Box::new(ToPort::device(make)),
    ..CLASS
};

const HANDLERS: &[Handler] = &[
    Handler::count("count", "packets the port has taken"),
    Handler::count("bytes", "bytes the port has taken"),
    Handler::read("counters", "packets, bytes, and drops by reason, a line each")
        .merged(linerate_graph::Merge::Lines),
    Handler::read("uri", "the port's name"),
    Handler::read("mode", "how the port was opened"),
    LINK[0],
    LINK[1],
    LINK[2],
    Handler::button("reset_counts", "sets count and bytes to zero"),
];

pub(super) struct ToPort {
    tx_queue: TxQueue,
    /// Packets of a turn, where it was given.
    burst: Option<usize>,
    pulls: bool,
    /// Whether sources stop while packets wait.
    blocks: bool,
    /// Whether packets go on by output 0.
    emits: bool,
}

impl ToPort {
    fn new(make: &mut ElementBuilder<'_>) -> ToPort {
        let uri = port_argument(make, "URI");
        let pulls = make.input_is_pull(0);
        let waits = make.or("WAIT", false) || pulls;
        ToPort {
            tx_queue: TxQueue::new(make, uri, waits),
            burst: make.turn("BURST"),
            pulls,
            blocks: waits,
            emits: false,
        }
    }

    /// Makes one from Click's arguments.
    fn device(make: &mut ElementBuilder<'_>) -> ToPort {
        let uri = sink_port(make);
        make.or("DEBUG", false);
        let emits = make.outputs() > 0;
        ToPort {
            tx_queue: TxQueue::new(make, uri, true),
            burst: make.turn("BURST"),
            pulls: true,
            blocks: true,
            emits,
        }
    }

    /// Makes one in which packets wait, up to `IQUEUE` of them where it has that argument.
    pub(super) fn queueing(make: &mut ElementBuilder<'_>, uri: PortUri) -> ToPort {
        let queue = if has(make, "IQUEUE") { make.or("IQUEUE", IQUEUE) } else { IQUEUE };
        let blocks = has(make, "BLOCKING") && make.or("BLOCKING", false);
        let burst = if has(make, "BURST") { make.turn("BURST") } else { None };
        ToPort {
            tx_queue: TxQueue::holding(make, uri, queue.clamp(1, FRAME_LIMIT)),
            burst,
            pulls: make.input_is_pull(0),
            blocks,
            emits: false,
        }
    }

    /// Sends the packets of a frame and leaves them in it.
    #[cold]
    fn send_and_keep(&mut self, cx: &mut Context, frame: &mut Frame) {
        let mut sent = Frame::new(frame.limit());
        for slot in frame.slots_mut() {
            match cx.pool.share(slot).map(|shared| sent.push(shared)) {
                Some(Ok(())) => {}
                Some(Err(slot)) => cx.drop_packet(slot, DropReason::NoBuffer),
                None => cx.count_drops(DropReason::NoBuffer, 1),
            }
        }
        self.tx_queue.send(cx, &mut sent);
    }

    /// Marks the element as full and runs it again, as packets wait to be sent.
    #[cold]
    #[inline(never)]
    fn blocked(&self, cx: &mut Context) {
        cx.set_full(self.blocks);
        cx.schedule();
    }

    /// Sends the waiting packets. Returns true if some were sent.
    fn retry(&mut self, cx: &mut Context) -> bool {
        let sent = self.tx_queue.retry(cx);
        cx.set_full(self.blocks && self.tx_queue.is_blocked());
        sent
    }
}

impl Element for ToPort {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        self.tx_queue.send(cx, frame);
        if self.tx_queue.is_blocked() {
            self.blocked(cx);
        }
    }

    fn run(&mut self, cx: &mut Context, frame: &mut Frame) -> Next {
        if self.tx_queue.is_blocked() {
            let sent = self.retry(cx);
            if self.tx_queue.is_blocked() {
                return if sent { Next::Again } else { Next::Idle };
            }
        }
        if !self.pulls {
            return Next::Sleep;
        }
        let burst = self.burst.unwrap_or(frame.limit());
        let mut left = burst;
        loop {
            let pulled = cx.pull(0, left.min(frame.limit()), frame);
            left -= pulled;
            if pulled == 0 {
                break;
            }
            if self.emits {
                self.send_and_keep(cx, frame);
            } else {
                self.tx_queue.send(cx, frame);
            }
            if left == 0 || self.burst.is_none() || self.tx_queue.is_blocked() {
                break;
            }
            if self.emits {
                cx.send_on(frame);
            }
        }
        if left == burst { cx.nothing_pulled() } else { Next::Again }
    }

    fn burst(&self) -> Option<usize> {
        self.burst.filter(|_| self.pulls)
    }

    fn timer(&mut self, cx: &mut Context, timer: u32, _: &mut Frame) {
        if timer == TICK {
            self.tx_queue.tick(cx);
            keep_ticking(cx, TICK);
        }
    }

    fn idle(&mut self, cx: &mut Context) {
        self.tx_queue.idle(cx, FLUSH);
    }

    fn room(&self) -> usize {
        match self.tx_queue.room() {
            room if self.blocks => room,
            _ => usize::MAX,
        }
    }

    fn wake(&mut self) -> Wake<'_> {
        if self.tx_queue.is_blocked() {
            return self.tx_queue.wake();
        }
        Wake::At(Instant::now() + LOOK_AGAIN)
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        self.tx_queue.open(cx)?;
        keep_ticking(cx, TICK);
        if self.pulls {
            cx.schedule();
        }
        Ok(())
    }

    fn take_state(&mut self, cx: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<ToPort>() {
            self.tx_queue.take_state(&mut old.tx_queue);
            if self.tx_queue.is_blocked() {
                cx.schedule();
            }
        }
    }

    fn close(&mut self, cx: &mut Context) {
        self.tx_queue.close(cx);
    }

    fn read(&mut self, cx: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "count" => Ok(self.tx_queue.sent().0.to_string()),
            "bytes" => Ok(self.tx_queue.sent().1.to_string()),
            "hw_count" => Ok(self.tx_queue.ever().0.to_string()),
            "hw_bytes" => Ok(self.tx_queue.ever().1.to_string()),
            "dropped" | "drops" => Ok(self.tx_queue.dropped(cx, |_| true).to_string()),
            "hw_errors" => {
                let dropped = self.tx_queue.dropped(cx, |reason| reason != DropReason::QueueFull);
                Ok(dropped.to_string())
            }
            "counters" => Ok(self.tx_queue.counters(cx)),
            "uri" => Ok(self.tx_queue.uri().to_string()),
            "mode" => Ok(mode_text(self.tx_queue.port())),
            _ => read_link(self.tx_queue.port(), handler),
        }
    }

    fn write(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "reset_counts" => self.tx_queue.reset_counts(),
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}
