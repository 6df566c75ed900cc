//! `KernelTap`, `KernelTun`, `FromHost`, `ToHost`: this machine's own network
//! stack, through an interface made for it.

use std::{
    collections::HashMap,
    net::Ipv4Addr,
    sync::Mutex,
    time::{Duration, Instant},
};

use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, ElementStatements, Handler, HandlerError,
    HandlerResult, Ipv4Prefix, Next, Role, Text, Value,
};
use linerate_linux::interface;
use linerate_memory::{Frame, Slot};
use linerate_packet::MacAddr;
use linerate_port::{DropReason, Leases, PortUri, Wake};

use super::{
    DROPS, FAMILY, FLUSH, TICK,
    device::Devices,
    filter::{Filter, assume_ipv4},
    keep_ticking,
    port_users::quietly,
    rx_queue::{Notes, RxQueue},
    tx_queue::TxQueue,
};

/// Time until a source without notification is pulled again.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// Click's defaults and limits.
const ETHER_DEFAULT: MacAddr = MacAddr([0, 1, 2, 3, 4, 5]);
const MTU_DEFAULT: u32 = 1500;
const MTU_LEAST: u32 = 20;
const HEADROOM_LIMIT: usize = 8192;
/// As Click does: packets of the host's are never broadcasts.
const NOTES: Notes = Notes { time: true, types: false };
/// Interfaces of one kind that are looked at to find a free name.
const NAMES: usize = 256;

const HANDLERS: &[Handler] = &[
    Handler::read("dev_name", "the interface"),
    Handler::count("packets", "packets received"),
    Handler::read("counters", "packets, bytes and drops, received and sent, a line each"),
];

const ADDRESS: Arg = Arg::required("ADDR", "address/bits", "the interface's address");
const GATEWAY: Arg = Arg::optional("GATEWAY", "IP address", "", "default route through it");
const BURST: Arg = Arg::keyword("BURST", "packets", "frame limit", "most packets moved at a time");
const ETHER: Arg =
    Arg::keyword("ETHER", "Ethernet address", "00:01:02:03:04:05", "the interface's address");
const MTU: Arg =
    Arg::keyword("MTU", "bytes", "1500", "longest packet, Ethernet header not counted");
const HEADROOM: Arg = Arg::keyword("HEADROOM", "bytes", "", "has no effect");
const DEVICE_NAME: Arg = Arg::keyword("DEVNAME", "name", "a free one", "the interface's name");
const IGNORE: Arg = Arg::keyword("IGNORE_QUEUE_OVERFLOWS", "bool", "false", "has no effect");

pub(super) const KERNEL_TAP: Class = Class {
    name: "KernelTap",
    family: FAMILY,
    summary: "exchanges Ethernet frames with this machine's network stack",
    description: "Makes a TAP interface with address `ADDR`, which vanishes at the end. What the \
        stack sends on it comes out here, what comes in here the stack receives. The stack only \
        takes frames for the interface's Ethernet address, `ETHER`.",
    ports: "0-1/1-2",
    processing: "a/h",
    flow: "x/y",
    args: &[ADDRESS, GATEWAY, BURST, ETHER, MTU, HEADROOM, DEVICE_NAME, IGNORE],
    handlers: HANDLERS,
    drops: DROPS,
    role: Role::Io,
    external_input: true,
    cost: "A system call and a copy per packet, each way.",
    example: "KernelTap(192.0.2.1/24) -> Discard; DriverManager(wait 10ms, stop);",
    make: |make| Box::new(Tunnel::kernel(make, "tap")),
    ..Class::here()
};

pub(super) const KERNEL_TUN: Class = Class {
    name: "KernelTun",
    summary: "exchanges IP packets with this machine's network stack",
    description: "Makes a TUN interface with address `ADDR`, which vanishes at the end. Packets \
        begin with their IP header; what comes in with something in front of a network header \
        that is known is sent without. What the stack sends that is no IP packet leaves by \
        output 1.",
    args: &[
        ADDRESS,
        GATEWAY,
        Arg::keyword("TAP", "bool", "false", "whether it is a KernelTap"),
        BURST,
        ETHER,
        MTU,
        HEADROOM,
        DEVICE_NAME,
        IGNORE,
    ],
    example: "KernelTun(192.0.2.1/24) -> Discard; DriverManager(wait 10ms, stop);",
    make: |make| {
        let tap = make.or("TAP", false);
        Box::new(Tunnel::kernel(make, if tap { "tap" } else { "tun" }))
    },
    ..KERNEL_TAP
};

pub(super) const FROM_HOST: Class = Class {
    name: "FromHost",
    summary: "receives Ethernet frames from this machine's network stack",
    description: "As KernelTap, the receiving half: makes the interface DEVNAME, which a ToHost \
        of the same name sends to.",
    ports: "0/1",
    args: &[
        Arg::required("DEVNAME", "name", "the interface"),
        Arg::optional("DST", "address/bits", "none", "the interface's address"),
        Arg::keyword("GATEWAY", "IP address", "", "default route through it"),
        Arg::keyword("ETHER", "Ethernet address", "the kernel's choice", "the interface's address"),
        MTU,
        HEADROOM,
    ],
    example: "FromHost(fake0, 192.0.2.1/24) -> Discard; DriverManager(wait 10ms, stop);",
    prepare: Some(prepare_host),
    make: |make| Box::new(Tunnel::from_host(make)),
    ..KERNEL_TAP
};

pub(super) const TO_HOST: Class = Class {
    name: "ToHost",
    summary: "gives Ethernet frames to this machine's network stack",
    description: "As KernelTap, the sending half; there must be a FromHost of the same name.",
    ports: "1/0",
    processing: "h/h",
    args: &[Arg::required("DEVNAME", "name", "the interface")],
    handlers: &[
        Handler::read("dev_name", "the interface"),
        Handler::read("counters", "packets, bytes and drops, a line each"),
    ],
    example: "FromHost(fake0, 192.0.2.1/24) -> ToHost(fake0); DriverManager(wait 10ms, stop);",
    make: |make| Box::new(Tunnel::to_host(make)),
    ..KERNEL_TAP
};

struct Tunnel {
    rx_queue: Option<RxQueue>,
    tx_queue: Option<TxQueue>,
    filter: Option<Filter>,
    /// Whether IPv4 headers are taken to be there.
    assumes: bool,
    burst: usize,
    pulls: bool,
    /// Whether packets are IP packets.
    raw: bool,
    /// Packets that are not sent, on their way to be dropped.
    refused: Vec<Slot>,
    /// Why it cannot run.
    lacks: Option<String>,
}

/// Names of interfaces given to elements of a graph without a name of their own.
#[derive(Default)]
struct Given {
    names: Mutex<HashMap<String, usize>>,
}

/// Returns an argument's value; its error goes to `errors`.
fn value<T: Value>(
    make: &mut ElementBuilder<'_>,
    name: &str,
    errors: &mut Vec<String>,
) -> Option<T> {
    let Text(text) = make.get(name)?;
    let parsed = make.parse(&text);
    parsed.map_err(|error| errors.push(format!("{name}: {error}"))).ok()
}

/// Returns the options of the arguments for the interface, as those of a port's name, and errors in
/// them.
fn settings(
    make: &mut ElementBuilder<'_>,
    address: &str,
    mac: Option<MacAddr>,
) -> (PortUri, Vec<String>) {
    let mut errors = Vec::new();
    let mut uri = PortUri::new("", "");
    let network: Option<Ipv4Prefix> = value(make, address, &mut errors);
    match network.map(|network| (network, network.length())) {
        Some((Ipv4Prefix { address, .. }, Some(bits))) => {
            uri = uri.with("addr", format!("{address}/{bits}"));
        }
        Some(_) => errors.push(format!("{address}: an interface's mask has its bits in front")),
        None => {}
    }
    match (value::<Ipv4Addr>(make, "GATEWAY", &mut errors), network) {
        (Some(gateway), _) if gateway.is_unspecified() => {}
        (Some(gateway), Some(Ipv4Prefix { address, mask })) if gateway & mask == address & mask => {
            uri = uri.with("gateway", gateway);
        }
        (Some(_), _) => errors.push("bad GATEWAY".into()),
        (None, _) => {}
    }
    if let Some(mac) = value(make, "ETHER", &mut errors).or(mac) {
        uri = uri.with("mac", mac);
    }
    let headroom: Option<usize> = value(make, "HEADROOM", &mut errors);
    if headroom.is_some_and(|headroom| headroom > HEADROOM_LIMIT) {
        errors.push("HEADROOM too big".into());
    }
    let mtu = value(make, "MTU", &mut errors).unwrap_or(MTU_DEFAULT);
    if mtu < MTU_LEAST {
        errors.push(format!("MTU must be greater than {MTU_LEAST}"));
    }
    (uri.with("mtu", mtu), errors)
}

/// Returns the interface the element had before, or the first of its kind with a free name.
fn free_port(make: &ElementBuilder<'_>, kind: &str, settings: &PortUri) -> PortUri {
    let given = make.world.common::<Given>();
    let mut names = given.names.lock().expect("no panic while held");
    let leases = make.world.ports.shared.get::<Leases>();
    let candidates = (0..NAMES).map(|number| settings.named(kind, &format!("{kind}{number}")));
    let mut candidates = candidates.filter(|uri| {
        let free = interface::find(uri.name()).is_err();
        let ours = names.get(uri.name()).is_none_or(|element| *element == make.element());
        ours && (free || leases.is_open(&format!("{uri} 0")))
    });
    let uri = candidates.next().unwrap_or_else(|| settings.named(kind, kind));
    names.insert(uri.name().into(), make.element());
    uri
}

/// The port of a `FromHost`, for the `ToHost` of the same name.
fn prepare_host(make: &mut ElementBuilder<'_>, _: &mut ElementStatements) {
    if let Some(name) = quietly::<String>(make, "DEVNAME") {
        let (settings, _) = settings(make, "DST", None);
        make.world.common::<Devices>().add(&host(&name), &settings.named("tap", &name));
    }
}

/// Returns the key of a host's interface among devices: it is none.
fn host(name: &str) -> String {
    format!("host {name}")
}

impl Tunnel {
    fn new(make: &mut ElementBuilder<'_>, uri: &PortUri, receives: bool) -> Tunnel {
        let burst = make.world.frame_limit;
        let pulls = make.input_is_pull(0);
        Tunnel {
            rx_queue: receives.then(|| RxQueue::new(make, uri.clone(), burst, NOTES)),
            tx_queue: (make.inputs() > 0).then(|| TxQueue::new(make, uri.clone(), pulls)),
            filter: None,
            assumes: false,
            burst,
            pulls,
            raw: uri.driver() == "tun",
            refused: Vec::new(),
            lacks: None,
        }
    }

    fn kernel(make: &mut ElementBuilder<'_>, kind: &str) -> Tunnel {
        if !make.is_given("ADDR") {
            make.error("ADDR: required argument missing");
        }
        make.or("IGNORE_QUEUE_OVERFLOWS", false);
        let tap = kind == "tap";
        let (mut settings, errors) = settings(make, "ADDR", tap.then_some(ETHER_DEFAULT));
        errors.into_iter().for_each(|error| make.error(error));
        if !tap {
            settings = settings.without("mac");
        }
        let uri = match make.get::<String>("DEVNAME") {
            Some(name) => settings.named(kind, &name),
            None => free_port(make, kind, &settings),
        };
        let burst = make.burst("BURST");
        let filter = (!tap).then_some(Filter::RAW_IP);
        let mut tunnel = Tunnel { filter, burst, ..Tunnel::new(make, &uri, true) };
        tunnel.rx_queue = Some(RxQueue::new(make, uri, burst, NOTES));
        tunnel
    }

    fn from_host(make: &mut ElementBuilder<'_>) -> Tunnel {
        let name: String = make.need("DEVNAME");
        let (settings, errors) = settings(make, "DST", None);
        errors.into_iter().for_each(|error| make.error(error));
        Tunnel { assumes: true, ..Tunnel::new(make, &settings.named("tap", &name), true) }
    }

    fn to_host(make: &mut ElementBuilder<'_>) -> Tunnel {
        let name: String = make.need("DEVNAME");
        let found = make.world.common::<Devices>().find(&host(&name));
        let lacks = found.is_none().then(|| {
            format!("ToHost({name}) requires an initialized FromHost with the same dev_name")
        });
        let uri = found.unwrap_or_else(|| PortUri::new("null", ""));
        Tunnel { lacks, ..Tunnel::new(make, &uri, false) }
    }

    /// Sends the packets of a frame; of IP packets without the bytes in front of their header, and
    /// others are dropped.
    fn send(&mut self, cx: &mut Context, frame: &mut Frame) {
        let Some(tx_queue) = &mut self.tx_queue else { return };
        if self.raw {
            let annotated = cx.world().annotated;
            let arena = cx.pool.arena();
            let refused = &mut self.refused;
            let is_ip = |slot: &mut Slot| {
                if annotated {
                    // Nothing is taken off where no header is known.
                    slot.pull(arena.network(slot));
                }
                let version = arena.packet(slot).first().map(|byte| byte >> 4);
                matches!(version, Some(4 | 6))
            };
            frame.retain(is_ip, |slot| refused.push(slot));
            let malformed = DropReason::Malformed;
            self.refused.drain(..).for_each(|slot| cx.drop_packet(slot, malformed));
        }
        tx_queue.send(cx, frame);
        if tx_queue.is_blocked() {
            cx.schedule();
        }
    }

    /// Moves packets that are pulled or wait. Returns true if there were any.
    fn run_outlet(&mut self, cx: &mut Context, frame: &mut Frame) -> bool {
        let Some(tx_queue) = &mut self.tx_queue else { return false };
        if tx_queue.is_blocked() && (!tx_queue.retry(cx) || tx_queue.is_blocked()) {
            return false;
        }
        if !self.pulls || cx.pull(0, self.burst, frame) == 0 {
            return false;
        }
        self.send(cx, frame);
        true
    }

    fn is_blocked(&self) -> bool {
        self.tx_queue.as_ref().is_some_and(TxQueue::is_blocked)
    }
}

impl Element for Tunnel {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        self.send(cx, frame);
        // Packets that are sent go nowhere else.
        cx.discard(frame);
    }

    fn run(&mut self, cx: &mut Context, frame: &mut Frame) -> Next {
        let sent = self.run_outlet(cx, frame);
        let Some(rx_queue) = &mut self.rx_queue else {
            return if sent {
                Next::Again
            } else if self.is_blocked() {
                Next::Idle
            } else {
                Next::Sleep
            };
        };
        if rx_queue.receive(cx, frame) > 0 {
            if let Some(filter) = &self.filter {
                filter.apply(cx, frame);
            }
            if self.assumes {
                assume_ipv4(cx, frame);
            }
            return Next::Again;
        }
        if sent { Next::Again } else { Next::Idle }
    }

    fn timer(&mut self, cx: &mut Context, timer: u32, _: &mut Frame) {
        if timer != TICK {
            return;
        }
        if let Some(rx_queue) = &mut self.rx_queue {
            rx_queue.tick(cx);
        }
        if let Some(tx_queue) = &mut self.tx_queue {
            tx_queue.tick(cx);
        }
        keep_ticking(cx, TICK);
    }

    fn idle(&mut self, cx: &mut Context) {
        if let Some(tx_queue) = &mut self.tx_queue {
            tx_queue.idle(cx, FLUSH);
        }
    }

    fn wakes<'a>(&'a mut self, add: &mut dyn FnMut(Wake<'a>)) {
        let blocked = self.is_blocked();
        if let Some(rx_queue) = &mut self.rx_queue {
            rx_queue.wakes(add);
        }
        match &mut self.tx_queue {
            Some(tx_queue) if blocked => add(tx_queue.wake()),
            Some(_) if self.pulls => add(Wake::At(Instant::now() + LOOK_AGAIN)),
            _ => {}
        }
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        if let Some(lacks) = self.lacks.take() {
            return Err(lacks);
        }
        if let Some(rx_queue) = &mut self.rx_queue {
            rx_queue.open(cx)?;
        }
        if let Some(tx_queue) = &mut self.tx_queue {
            tx_queue.open(cx)?;
        }
        keep_ticking(cx, TICK);
        if self.rx_queue.is_some() {
            cx.schedule();
        }
        Ok(())
    }

    fn take_state(&mut self, cx: &mut Context, old: &mut dyn Element) {
        let Some(old) = old.downcast_mut::<Tunnel>() else { return };
        if let (Some(rx_queue), Some(old)) = (&mut self.rx_queue, &mut old.rx_queue) {
            rx_queue.take_state(cx, old);
        }
        if let (Some(tx_queue), Some(old)) = (&mut self.tx_queue, &mut old.tx_queue) {
            tx_queue.take_state(old);
        }
    }

    fn close(&mut self, cx: &mut Context) {
        if let Some(tx_queue) = &mut self.tx_queue {
            tx_queue.close(cx);
        }
        if let Some(rx_queue) = &mut self.rx_queue {
            rx_queue.close(cx);
        }
    }

    fn read(&mut self, cx: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "dev_name" => {
                let rx_queue = self.rx_queue.as_ref().map(RxQueue::uri);
                let uri = rx_queue.or(self.tx_queue.as_ref().map(TxQueue::uri));
                Ok(uri.map(|uri| uri.name().to_owned()).unwrap_or_default())
            }
            "packets" => {
                Ok(self.rx_queue.as_mut().map_or(0, |rx_queue| rx_queue.received(cx).0).to_string())
            }
            "counters" => {
                let mut lines = Vec::new();
                if let Some(rx_queue) = &mut self.rx_queue {
                    lines.extend(rx_queue.counters(cx).lines().map(|line| format!("in_{line}")));
                }
                if let Some(tx_queue) = &mut self.tx_queue {
                    lines.extend(tx_queue.counters(cx).lines().map(|line| format!("out_{line}")));
                }
                Ok(lines.join("\n"))
            }
            _ => Err(HandlerError::missing(handler)),
        }
    }
}
