//! `FromPort`: receives packets from any port; `FromDevice`: from a network interface, by Click's
//! arguments.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use linerate_filter::{Filter as CaptureFilter, Link as CaptureLink};
use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, Handler, HandlerError, HandlerResult, Next,
    Right, Role, device_ipv4, filter_names, parse_bool,
};
use linerate_memory::Frame;
use linerate_port::{DropReason, LeasedPort, PortUri, Wake};

use super::{
    DROPS, FAMILY, TICK,
    device::{prepare_source, source_port},
    filter::{Filter, Link},
    keep_ticking, mode_text,
    port_users::{Sharing, has, port_argument},
    rx_queue::{LINK, Notes, RxQueue, read_link},
};

/// Range that Click allows.
const SNAPLEN: std::ops::RangeInclusive<usize> = 14..=65535;
const HEADROOM_LIMIT: usize = 8190;

pub(super) const CLASS: Class = Class {
    name: "FromPort",
    reconfigured: Some(Right::Replace),
    family: FAMILY,
    summary: "receives packets from a port",
    description: "`URI` names any port: `xdp:eth0`, `packet:eth0`, `tap:t0`, `pcap:FILE`, \
        `ring:NAME`, `null:`. A port that a `ToPort` names in the same way is opened once, in both \
        directions. With several workers each has its own queue of the port and its own copy of \
        what is behind, unless StaticThreadSched says otherwise. When an interface goes, the port \
        is opened again when it comes back; any other failure ends the run. A peer or a cable may come \
        and go meanwhile (`link`).\n\n\
        `STOP true` asks for the end of the run when no packet will ever come again, as at the end \
        of a capture file.",
    ports: "0/1",
    processing: "a/h",
    args: &[
        Arg::required("URI", "port", "the port, as `packet:eth0`"),
        Arg::optional("BURST", "packets", "1, many times", "packets received in a turn"),
        Arg::keyword("STOP", "bool", "false", "whether the end of a file ends the run"),
        Arg::keyword(
            "WAIT",
            "bool",
            "false",
            "whether it stops receiving while everything behind it is full",
        ),
        Arg::keyword("ACTIVE", "bool", "true", "whether it receives"),
    ],
    handlers: &[
        Handler::count("count", "packets received"),
        Handler::count("bytes", "bytes received"),
        Handler::read("counters", "packets, bytes, and drops by reason, a line each")
            .merged(linerate_graph::Merge::Lines),
        Handler::read("uri", "the port's name"),
        Handler::read("mode", "how the port was opened"),
        LINK[0],
        LINK[1],
        LINK[2],
        Handler::value("active", "whether it receives"),
        Handler::button("reset_counts", "sets count and bytes to zero"),
    ],
    drops: DROPS,
    role: Role::Io,
    replicates: true,
    external_input: true,
    cost: "What the port's driver costs; the element adds one call per frame.",
    example: "FromPort(null:?count=10, STOP true) -> Discard;",
    make: |make| Box::new(FromPort::new(make)),
    writes: false,
    ..Class::here()
};

/// Differences of `FromDevice`.
const BY_CLICK: &str = "\
    Reads packets that a network interface receives. `METHOD` chooses how: `PCAP` and `LINUX`, the \
    default, mean an AF_PACKET socket (`packet:`); `XDP` and `NETMAP` mean AF_XDP (`xdp:`), which \
    takes the packets away from the kernel, and so does `SNIFFER false`. `DEVNAME` can also be any \
    port, as for FromPort.\n\n\
    `FORCE_IP true` emits only IP packets, with their headers found; the others leave by the second \
    output. `HEADROOM` is accepted and of no effect: buffers have as much as they have.\n\n\
    `BPF_FILTER` chooses packets in tcpdump's language; the others are not counted. It has what \
    pcap-filter(7) says of Ethernet: `host`, `net`, `port`, `portrange` and `proto` with `src`, \
    `dst` and the protocols `ether`, `ip`, `ip6`, `arp`, `rarp`, `tcp`, `udp`, `sctp`, `icmp`, \
    `icmp6`, `igmp`, `igrp`, `pim`, `ah`, `esp`, `vrrp`, `carp`; `protochain`, `broadcast`, `multicast`, `vlan`, `mpls`, \
    `pppoes`, `geneve`, `llc`, and the types `pppoed`, `stp`, `ipx`, `iso`, `atalk` and their like; `less`, `greater`; comparisons as `tcp[tcpflags] & tcp-syn != 0`; `and`, `or`, `not`. Names \
    are those that the system has for hosts, networks, stations, ports and protocols; what is about \
    other links or about the state of the kernel is refused. On an interface the outer VLAN tag of a packet is \
    beside it, as for libpcap on Linux: `ip` is IP with and without a tag, `ip and not vlan` IP without one; \
    on other ports tags are in packets, as in a capture file. \
    With a `METHOD` other than `PCAP` it is ignored with a warning, as in Click.";

/// Returns the filter of the arguments, for the packets of a port.
fn capture_filter(make: &mut ElementBuilder<'_>, port: &PortUri) -> Option<CaptureFilter> {
    let text: String = make.or("BPF_FILTER", String::new());
    if text.is_empty() {
        return None;
    }
    let method = if make.is_given("METHOD") { "METHOD" } else { "CAPTURE" };
    if !matches!(make.or(method, String::new()).as_str(), "" | "PCAP") {
        make.warn("not using METHOD PCAP, BPF filter ignored");
        return None;
    }
    // Files and rings have the names of no interface, or of one by chance.
    let is_interface = matches!(port.driver(), "packet" | "xdp");
    let interface = is_interface.then(|| device_ipv4(port.name())).flatten();
    let mask = interface.map_or(0, |(_, mask)| mask.to_bits());
    // Libpcap on Linux has the outer tag of a frame that an interface receives beside the frame.
    let link = if is_interface { CaptureLink::Untagged } else { CaptureLink::Ethernet };
    let filter = CaptureFilter::on(link, &text, filter_names(Some(mask)));
    filter.map_err(|error| make.error(format!("BPF_FILTER: {error}"))).ok()
}

pub(super) const DEVICE: Class = Class {
    name: "FromDevice",
    summary: "receives packets from a network interface",
    description: BY_CLICK,
    ports: "0/1-2",
    args: &[
        Arg::required("DEVNAME", "device", "the interface, or any port"),
        Arg::optional("PROMISC", "bool", "false", "whether frames for other hosts are received"),
        Arg::optional("SNAPLEN", "bytes", "no limit", "longest packet; longer ones are cut"),
        Arg::keyword("SNIFFER", "bool", "true", "whether the kernel gets the packets as well"),
        Arg::keyword("FORCE_IP", "bool", "false", "whether only IP packets are emitted"),
        Arg::keyword("METHOD", "word", "PCAP", "how packets are received"),
        Arg::keyword("CAPTURE", "word", "", "old name of METHOD"),
        Arg::keyword("BPF_FILTER", "string", "", "which packets are received"),
        Arg::keyword("PROTOCOL", "Ethertype", "0: all", "the only protocol received"),
        Arg::keyword("OUTBOUND", "bool", "false", "whether packets the kernel sends are received"),
        Arg::keyword("HEADROOM", "bytes", "", "has no effect"),
        Arg::keyword("ENCAP", "word", "ETHER", "what packets begin with: only ETHER"),
        Arg::keyword("BURST", "packets", "1, many times", "packets received in a turn"),
        Arg::keyword("TIMESTAMP", "bool", "true", "whether packets carry the time of reception"),
    ],
    handlers: &[
        Handler::count("count", "packets received"),
        Handler::count("bytes", "bytes received"),
        Handler::count("kernel_drops", "packets the kernel had no place for"),
        Handler::read("encap", "what packets begin with"),
        Handler::read("counters", "packets, bytes, and drops by reason, a line each")
            .merged(linerate_graph::Merge::Lines),
        Handler::read("uri", "the port's name"),
        Handler::read("mode", "how the port was opened"),
        LINK[0],
        LINK[1],
        LINK[2],
        Handler::button("reset_counts", "sets count and bytes to zero"),
    ],
    example: "FromDevice(null:?count=10) -> Discard; DriverManager(wait 10ms, stop);",
    prepare: Some(prepare_source),
    make: |make| Box::new(FromPort::device(make)),
    ..CLASS
};

pub(super) struct FromPort {
    rx_queue: RxQueue,
    /// Packets of a turn, where it was given.
    burst: Option<usize>,
    filter: Option<Filter>,
    active: bool,
    waits: bool,
    /// Replicas whose queues have not ended, with `STOP`.
    running: Option<Arc<AtomicUsize>>,
    ended: bool,
}

impl FromPort {
    fn new(make: &mut ElementBuilder<'_>) -> FromPort {
        let uri = port_argument(make, "URI");
        let (burst, most) = (make.turn("BURST"), make.world.frame_limit);
        let stop = make.or("STOP", false);
        let replicas = make.replica().count;
        let running = stop.then(|| make.shared(|| AtomicUsize::new(replicas)));
        FromPort {
            rx_queue: RxQueue::new(make, uri, most, Notes { time: false, types: true }),
            burst,
            filter: None,
            active: make.or("ACTIVE", true),
            waits: make.or("WAIT", false),
            running,
            ended: false,
        }
    }

    /// Makes one from Click's arguments.
    fn device(make: &mut ElementBuilder<'_>) -> FromPort {
        let uri = source_port(make);
        let (burst, most) = (make.turn("BURST"), make.world.frame_limit);
        let snaplen: Option<usize> = make.get("SNAPLEN");
        if snaplen.is_some_and(|snaplen| !SNAPLEN.contains(&snaplen)) {
            make.error("SNAPLEN out of range");
        }
        if make.or::<usize>("HEADROOM", 0) > HEADROOM_LIMIT {
            make.error("HEADROOM out of range");
        }
        if !matches!(make.or("ENCAP", String::new()).as_str(), "" | "ETHER") {
            make.error("bad encapsulation type");
        }
        let time = make.or("TIMESTAMP", true);
        let filter = Filter {
            link: Link::Ethernet,
            capture: capture_filter(make, &uri),
            snaplen,
            protocol: make.get("PROTOCOL").filter(|protocol| *protocol != 0),
            force_ip: make.or("FORCE_IP", false),
        };
        FromPort {
            rx_queue: RxQueue::new(make, uri, most, Notes { time, types: true }),
            burst,
            filter: filter.is_needed().then_some(filter),
            active: true,
            waits: false,
            running: None,
            ended: false,
        }
    }

    /// Makes one that shares the port's queues with others on it. It pauses while the port it sends
    /// to has no place.
    pub(super) fn sharing(
        make: &mut ElementBuilder<'_>,
        uri: PortUri,
        time: bool,
        active: bool,
    ) -> FromPort {
        let burst = if has(make, "BURST") { make.turn("BURST") } else { None };
        let most = make.world.frame_limit;
        let queue = if has(make, "QUEUE") { make.or("QUEUE", 0) } else { 0 };
        let notes = Notes { time, types: true };
        FromPort {
            rx_queue: RxQueue::shared(make, uri, most, notes, Sharing::Queues(queue)),
            burst,
            filter: None,
            active,
            waits: true,
            running: None,
            ended: false,
        }
    }

    /// Returns true if it does not receive now.
    #[cold]
    #[inline(never)]
    fn pauses(&self, cx: &Context) -> bool {
        !self.active || self.ended || (self.waits && cx.is_downstream_full())
    }

    /// Leaves those packets in the frame that are wanted.
    #[inline(never)]
    fn choose(&mut self, cx: &mut Context, frame: &mut Frame) {
        if let Some(filter) = &self.filter {
            let refused = filter.apply(cx, frame);
            if refused.0 > 0 {
                self.rx_queue.uncount(cx, refused);
            }
        }
    }

    /// Receives a frame; how many packets came, wanted or not.
    #[inline]
    fn receive(&mut self, cx: &mut Context, frame: &mut Frame) -> usize {
        let received = self.rx_queue.receive(cx, frame);
        if received > 0 && self.filter.is_some() {
            self.choose(cx, frame);
        }
        received
    }

    /// Receives as many as there are, up to those of a turn.
    #[inline(never)]
    fn receive_burst(&mut self, cx: &mut Context, frame: &mut Frame, burst: usize) -> usize {
        let limit = frame.limit();
        let mut left = burst;
        loop {
            let asked = left.min(limit);
            frame.set_limit(asked);
            let received = self.receive(cx, frame);
            frame.set_limit(limit);
            left -= received;
            if left == 0 || received < asked {
                return burst - left;
            }
            cx.send_on(frame);
        }
    }

    /// Handles a call without received packets.
    #[cold]
    #[inline(never)]
    fn nothing(&mut self, cx: &Context) -> Next {
        if !self.rx_queue.ended() {
            return Next::Idle;
        }
        self.end(cx);
        Next::Sleep
    }

    /// Ends the source: no packets will ever come again.
    fn end(&mut self, cx: &Context) {
        self.ended = true;
        if let Some(running) = &self.running
            && running.fetch_sub(1, Ordering::AcqRel) == 1
        {
            cx.driver.stop();
        }
    }
}

impl Element for FromPort {
    fn run(&mut self, cx: &mut Context, frame: &mut Frame) -> Next {
        if (!self.active || self.ended || self.waits) && self.pauses(cx) {
            return Next::Sleep;
        }
        let received = match self.burst {
            None => self.receive(cx, frame),
            Some(burst) => self.receive_burst(cx, frame, burst),
        };
        if received == 0 { self.nothing(cx) } else { Next::Again }
    }

    fn burst(&self) -> Option<usize> {
        self.burst
    }

    fn timer(&mut self, cx: &mut Context, _: u32, _: &mut Frame) {
        self.rx_queue.tick(cx);
        keep_ticking(cx, TICK);
    }

    fn wakes<'a>(&'a mut self, add: &mut dyn FnMut(Wake<'a>)) {
        self.rx_queue.wakes(add);
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        self.rx_queue.open(cx)?;
        keep_ticking(cx, TICK);
        cx.schedule();
        Ok(())
    }

    fn take_state(&mut self, cx: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<FromPort>() {
            self.rx_queue.take_state(cx, &mut old.rx_queue);
        }
    }

    fn close(&mut self, cx: &mut Context) {
        self.rx_queue.close(cx);
    }

    fn read(&mut self, cx: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "count" => Ok(self.rx_queue.received(cx).0.to_string()),
            "bytes" => Ok(self.rx_queue.received(cx).1.to_string()),
            "packets" => Ok(self.rx_queue.received(cx).0.to_string()),
            "hw_count" => Ok(self.rx_queue.ever(cx).0.to_string()),
            "hw_bytes" => Ok(self.rx_queue.ever(cx).1.to_string()),
            "hw_errors" => {
                let errors = [DropReason::TooLong, DropReason::Malformed];
                let dropped = errors.map(|reason| self.rx_queue.dropped_for(cx, reason));
                Ok(dropped.iter().sum::<u64>().to_string())
            }
            "nombufs" => Ok(self.rx_queue.dropped_for(cx, DropReason::NoBuffer).to_string()),
            "hw_dropped" | "dropped" => {
                Ok(self.rx_queue.dropped_for(cx, DropReason::Overrun).to_string())
            }
            "driver" => Ok(self.rx_queue.uri().driver().into()),
            "mac" => {
                let info = self.rx_queue.port().and_then(LeasedPort::info);
                let mac = info.and_then(|info| info.mac);
                Ok(mac.map(|mac| mac.to_string()).unwrap_or_default())
            }
            "nb_rx_queues" => Ok(self.rx_queue.port().map_or(0, LeasedPort::receives).to_string()),
            "nb_tx_queues" => Ok(self.rx_queue.port().map_or(0, LeasedPort::transmits).to_string()),
            "kernel_drops" => Ok(self.rx_queue.dropped_for(cx, DropReason::Overrun).to_string()),
            "encap" => Ok("ETHER".into()),
            "counters" => Ok(self.rx_queue.counters(cx)),
            "uri" => Ok(self.rx_queue.uri().to_string()),
            "mode" => Ok(mode_text(self.rx_queue.port())),
            "active" => Ok(self.active.to_string()),
            _ => read_link(self.rx_queue.port(), handler),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        match handler {
            "reset_counts" | "reset_count" => self.rx_queue.reset_counts(cx),
            "active" => {
                self.active =
                    parse_bool(value).ok_or_else(|| HandlerError::refused("syntax error"))?;
                cx.schedule();
            }
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}
