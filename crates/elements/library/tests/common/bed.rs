//! A bed for tests of attacks: packets of a function, in simulated time, and no buffer may be lost.

use std::{collections::HashMap, net::Ipv4Addr};

use linerate_graph::{
    Arg, Class, Console, Context, Element, ElementBuilder, Handler, HandlerResult, Library, Next,
    Options, Router,
};
use linerate_memory::{Arena, ArenaOptions, Frame};

use super::load_text;

/// A configuration, run in simulated time on one worker.
pub(crate) struct Bed {
    router: Router,
    arena: Arena,
}

impl Bed {
    /// The library, `more`, and `Same`.
    pub(crate) fn new(text: &str, more: &[&'static Class]) -> Bed {
        let arena = ArenaOptions { size: 32 << 20, huge: false, ..Default::default() };
        let arena = arena.create().expect("32 MiB");
        let library = linerate_elements::library();
        let library = Library::new(library.iter().chain(more.iter().copied()).chain([&SAME]));
        let plan = load_text(text, &library).unwrap_or_else(|errors| panic!("{errors}"));
        let ports = linerate_port::Context::new(arena.clone());
        let (console, _) = Console::buffered();
        let options = Options { simulated: true, console, ..Options::default() };
        let router = Router::new(plan, &library, ports, &options);
        Bed { router: router.unwrap_or_else(|error| panic!("{error:?}")), arena }
    }

    /// Runs it to its end.
    pub(crate) fn run(mut self) -> Bed {
        self.router.run();
        self
    }

    pub(crate) fn text(&mut self, handler: &str) -> String {
        self.router.read(handler, "").unwrap_or_else(|error| panic!("{handler}: {error}"))
    }

    /// A handler that is a number.
    pub(crate) fn number(&mut self, handler: &str) -> u64 {
        let text = self.text(handler);
        text.trim().parse().unwrap_or_else(|_| panic!("{handler}: {text}"))
    }

    /// Returns the packets an element has dropped for a reason.
    pub(crate) fn dropped(&mut self, element: &str, reason: &str) -> u64 {
        let (plan, usage) = self.router.control().usage();
        let at = plan.find(element).unwrap_or_else(|| panic!("no {element}"));
        let reasons = plan.elements[at].class.drops;
        let reason = reasons.iter().position(|of| *of == reason);
        let reason = reason.unwrap_or_else(|| panic!("{element} drops for {reasons:?}"));
        usage.iter().map(|usage| usage.elements[at].drops[reason]).sum()
    }

    /// Buffers that are held at the end of the run.
    pub(crate) fn held(&self) -> usize {
        self.arena.accounting().held
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.router.close();
        if !std::thread::panicking() {
            assert_eq!(self.arena.accounting().held, 0, "packets have leaked");
        }
    }
}

/// The arguments of [`Flood`].
pub(crate) const FLOOD_ARGS: &[Arg] = &[
    Arg::required("KIND", "kind", "which packets"),
    Arg::required("LIMIT", "packets", "how many"),
    Arg::keyword("AFTER", "seconds", "0", "when it begins"),
    Arg::keyword("BURST", "packets", "frame limit", "packets at a time"),
];

/// Makes the packet of a number.
pub(crate) type Packet = fn(u64) -> Vec<u8>;

/// Sends packets number 0, 1, 2 and so on.
pub(crate) struct Flood {
    packet: Packet,
    made: u64,
    limit: u64,
    after: u64,
    burst: usize,
}

impl Flood {
    pub(crate) fn new(make: &mut ElementBuilder<'_>, kind: fn(&str) -> Packet) -> Flood {
        let name: String = make.need("KIND");
        let (limit, after) = (make.need("LIMIT"), make.or("AFTER", 0u64));
        Flood { packet: kind(&name), made: 0, limit, after, burst: make.burst("BURST") }
    }
}

impl Element for Flood {
    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        cx.set_timer(0, cx.steady() + self.after * 1_000_000_000);
        Ok(())
    }

    fn timer(&mut self, cx: &mut Context, _: u32, _: &mut Frame) {
        cx.schedule();
    }

    fn run(&mut self, cx: &mut Context, frame: &mut Frame) -> Next {
        while frame.len() < self.burst && self.made < self.limit {
            let bytes = (self.packet)(self.made);
            assert_eq!(cx.pool.take(frame, 1, bytes.len()), 1, "no buffer is left");
            let slot = frame.slots_mut().last_mut().expect("just taken");
            cx.pool.arena().packet_mut(slot).expect("not shared").copy_from_slice(&bytes);
            self.made += 1;
        }
        cx.begin_packets(frame);
        if self.made == self.limit { Next::Sleep } else { Next::Again }
    }
}

/// Flows, by the last four bytes of their packets, keep source address and port.
const SAME: Class = Class {
    name: "Same",
    ports: "1/0",
    handlers: &[
        Handler::read("seen", "packets"),
        Handler::read("flows", "flows"),
        Handler::read("changed", "packets whose source is not that of the flow's first"),
    ],
    make: |_| Box::new(Same::default()),
    ..Class::here()
};

#[derive(Default)]
struct Same {
    flows: HashMap<[u8; 4], [u8; 6]>,
    seen: u64,
    changed: u64,
}

impl Element for Same {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        for bytes in cx.pool.arena().packets(frame) {
            let flow = *bytes.last_chunk::<4>().expect("IP");
            let mut source = [0; 6];
            source[..4].copy_from_slice(&bytes[12..16]);
            source[4..].copy_from_slice(&bytes[20..22]);
            self.seen += 1;
            self.changed += u64::from(*self.flows.entry(flow).or_insert(source) != source);
        }
        cx.discard(frame);
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        std::mem::swap(self, old.downcast_mut::<Same>().expect("the same class"));
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        Ok(match handler {
            "seen" => self.seen.to_string(),
            "flows" => self.flows.len().to_string(),
            _ => self.changed.to_string(),
        })
    }
}

/// `SAME` for other beds.
pub(crate) const SAME_CLASS: &Class = &SAME;

/// An Ethernet frame of 60 bytes.
pub(crate) fn ethernet(destination: u64, source: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = [&destination.to_be_bytes()[2..], &source.to_be_bytes()[2..]].concat();
    bytes.extend(payload);
    bytes.resize(bytes.len().max(60), 0);
    bytes
}

/// Header fields of a UDP packet.
pub(crate) struct Udp {
    pub(crate) from: (u32, u16),
    pub(crate) to: (u32, u16),
    /// Its last four bytes.
    pub(crate) mark: u32,
}

impl Udp {
    /// The packet, with right checksums (etherparse's).
    pub(crate) fn packet(&self) -> Vec<u8> {
        let address = |of: u32| Ipv4Addr::from(of).octets();
        let builder = etherparse::PacketBuilder::ipv4(address(self.from.0), address(self.to.0), 64)
            .udp(self.from.1, self.to.1);
        let payload = [0u32.to_be_bytes(), self.mark.to_be_bytes()].concat();
        let mut bytes = Vec::new();
        builder.write(&mut bytes, &payload).expect("a vector takes all");
        bytes
    }
}

/// A fragment: `length` bytes of `fill` at `offset`, both in units of eight.
pub(crate) struct Piece {
    pub(crate) source: u32,
    pub(crate) id: u16,
    pub(crate) offset: u16,
    pub(crate) units: u16,
    pub(crate) more: bool,
    pub(crate) fill: u8,
}

impl Piece {
    pub(crate) fn packet(&self) -> Vec<u8> {
        let payload = vec![self.fill; usize::from(self.units) * 8];
        let header = etherparse::Ipv4Header {
            identification: self.id,
            more_fragments: self.more,
            fragment_offset: self.offset.try_into().expect("13 bits"),
            protocol: etherparse::IpNumber::UDP,
            source: self.source.to_be_bytes(),
            destination: [2, 0, 0, 2],
            time_to_live: 64,
            ..Default::default()
        };
        let mut header = header;
        header.set_payload_len(payload.len()).expect("short");
        header.header_checksum = header.calc_header_checksum();
        [&header.to_bytes()[..], &payload].concat()
    }
}
