//! `VLANSwitch`: a learning switch with VLANs.

use linerate_graph::{
    Arg, Class, Context, Copies, DropReason, Element, ElementBuilder, Handler, HandlerResult,
    Inert, NoBuffer, lang::config::words, parse_integer,
};
use linerate_memory::{Frame, Slot};
use linerate_packet::{EtherType, vlan::Tci};

use super::{
    ADDRESSES, FAMILY, TAG,
    ether_switch::{self, CAPACITY, NAMES, OWNED, PORT_CAPACITY, TIMEOUT},
    header,
    mac_table::{FLOOD, MacTable, NO_HOST, keys_of},
    vlan_decap::untag,
    vlan_encap::{put_tag, tag},
};
use linerate_element_support::ether::{HEADER, mac_text};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// destination is where it came from
    SamePort,
    /// not of the port's VLANs
    NotAllowed,
    /// no Ethernet header
    Short,
    #[from(NoBuffer)]
    NoBuffer,
}

/// VLANs there can be: 0 and 4,095 mean something else.
const VLANS: std::ops::RangeInclusive<u16> = 1..=4094;

pub(super) const CLASS: Class = Class {
    name: "VLANSwitch",
    family: FAMILY,
    summary: "a learning Ethernet switch with VLANs",
    description: "Input and output of the same number are one port, and each port has an argument. \
        `ACCESS 10`: hosts of VLAN 10 that know of no VLANs; packets have no tag. `TRUNK 10 20-29 \
        NATIVE 1`, `TRUNK ALL`: another switch; packets of these VLANs have an 802.1Q tag, those of \
        the native one, if there is one, have not.\n\n\
        A packet is in the VLAN of its tag, or without one in that of its port, and stays there: it \
        goes by the port its destination was learnt at in that VLAN, or by all others of the VLAN. \
        Tags are put on and taken off as the port it leaves by has it; the priority stays while \
        there is one. Packets of VLANs a port does not have are dropped, as are those with a tag at \
        an access port; a tag for VLAN 0, which only says a priority, counts as none. For learning, \
        ageing, limits and names see EtherSwitch.",
    ports: "2-/=",
    processing: "h/h",
    flow: "#/[^#]",
    args: &[
        Arg::rest("PORT", "ACCESS VLAN, or TRUNK VLANS [NATIVE VLAN]", "the VLANs of a port"),
        TIMEOUT,
        CAPACITY,
        PORT_CAPACITY,
        NAMES,
        OWNED,
    ],
    handlers: &[
        Handler::read("table", "the hosts: address, VLAN and port, a line each"),
        ether_switch::HANDLERS[1],
        ether_switch::HANDLERS[2],
        ether_switch::HANDLERS[3],
        ether_switch::HANDLERS[4],
        ether_switch::HANDLERS[5],
    ],
    drops: Reason::REASONS,
    cost: "As EtherSwitch, and what moving the addresses costs where a tag comes or goes. Where a packet goes everywhere, one copy of its bytes for each port that has \
        its tag otherwise.",
    example: "s :: VLANSwitch(ACCESS 10, TRUNK ALL NATIVE 1); Idle -> s -> Discard; \
        Idle -> [1] s [1] -> Discard;",
    copies: Copies::Shared,
    make: |make| match VlanSwitch::new(make) {
        Some(switch) => Box::new(switch),
        None => Box::new(Inert),
    },
    ..Class::here()
};

/// The VLANs of a port.
#[derive(Clone)]
struct Port {
    members: [u64; 64],
    /// The VLAN of packets without a tag.
    native: Option<u16>,
    /// Whether no packet has a tag.
    access: bool,
}

impl Port {
    fn parse(text: &str) -> Option<Port> {
        let words = words(text);
        let (kind, rest) = words.split_first()?;
        let mut port = Port { members: [0; 64], native: None, access: *kind == "ACCESS" };
        let vlans = match rest {
            [vlan] if port.access => {
                port.native = Some(vlan_number(vlan)?);
                rest
            }
            [vlans @ .., "NATIVE", native] if *kind == "TRUNK" => {
                let native = vlan_number(native)?;
                port.native = Some(native);
                port.add(native, native);
                vlans
            }
            [_, ..] if *kind == "TRUNK" => rest,
            _ => return None,
        };
        for word in vlans {
            let (first, last) = match word.split_once('-') {
                _ if *word == "ALL" => (*VLANS.start(), *VLANS.end()),
                Some((first, last)) => (vlan_number(first)?, vlan_number(last)?),
                None => (vlan_number(word)?, vlan_number(word)?),
            };
            port.add(first, last);
        }
        Some(port)
    }

    fn add(&mut self, first: u16, last: u16) {
        for vlan in first..=last {
            self.members[usize::from(vlan / 64) & 63] |= 1 << (vlan % 64);
        }
    }

    #[inline]
    fn has(&self, vlan: u16) -> bool {
        self.members[usize::from(vlan / 64) & 63] >> (vlan % 64) & 1 != 0
    }

    /// The VLAN of a packet that arrives with this tag, if it may.
    #[inline]
    fn admits(&self, tag: Option<Tci>) -> Option<u16> {
        match tag.map_or(0, Tci::id) {
            0 => self.native,
            _ if self.access => None,
            vlan => Some(vlan).filter(|vlan| self.has(*vlan)),
        }
    }
}

fn vlan_number(text: &str) -> Option<u16> {
    let number = parse_integer(text).and_then(|number| u16::try_from(number).ok());
    number.filter(|vlan| VLANS.contains(vlan))
}

/// The tag of a packet when it arrived and the VLAN it is in; none when it is
/// in none.
#[derive(Debug, Clone, Copy, Default)]
struct PacketVlan {
    tag: Option<Tci>,
    vlan: Option<u16>,
}

struct VlanSwitch {
    hosts: MacTable,
    ports: Vec<Port>,
    places: Vec<PacketVlan>,
}

impl VlanSwitch {
    fn new(make: &mut ElementBuilder<'_>) -> Option<VlanSwitch> {
        let count = make.outputs();
        let texts = make.rest();
        if texts.len() != count {
            make.error(format!("need {count} arguments, one per port"));
        }
        let mut ports = Vec::new();
        for (at, text) in texts.iter().enumerate() {
            match Port::parse(text) {
                Some(port) => ports.push(port),
                None => make.error(format!(
                    "argument {at}: expected ACCESS VLAN, or TRUNK VLANS [NATIVE VLAN]"
                )),
            }
        }
        let hosts = MacTable::from_args(make, count)?;
        Some(VlanSwitch { hosts, ports, places: Vec::new() })
    }

    /// Finds out the VLANs of a frame's packets, and their keys.
    fn classify(&mut self, cx: &Context, port: usize, frame: &Frame) {
        let count = frame.len();
        let VlanSwitch { hosts, ports, places, .. } = self;
        places.clear();
        let (sources, destinations) = hosts.begin(cx.steady(), count);
        sources.fill(NO_HOST);
        destinations.fill(NO_HOST);
        let mut keys = sources.iter_mut().zip(destinations);
        let Some(port) = ports.get(port) else { return };
        cx.pool.arena().for_each(frame, |bytes| {
            let place = place_of(port, bytes);
            places.push(place);
            if let Some((source, destination)) = keys.next()
                && let Some(vlan) = place.vlan
            {
                let (to, from) = keys_of(bytes);
                let vlan = u64::from(vlan) << 48;
                (*destination, *source) = (to | vlan, from | vlan);
            }
        });
    }

    /// By all other ports of the VLAN.
    fn flood(&self, cx: &mut Context, mut slot: Slot, port: usize, place: PacketVlan) {
        let Some(vlan) = place.vlan else { return cx.drop_packet(slot, Reason::NotAllowed) };
        let others = (0..self.ports.len()).filter(|at| *at != port && self.ports[*at].has(vlan));
        let mut previous = None;
        for output in others {
            if let Some(previous) = previous.replace(output) {
                match cx.pool.share(&mut slot) {
                    Some(copy) => self.send(cx, copy, previous, place),
                    None => cx.count_drops(Reason::NoBuffer, 1),
                }
            }
        }
        match previous {
            Some(last) => self.send(cx, slot, last, place),
            // No other port is in this VLAN.
            None => cx.drop_packet(slot, Reason::SamePort),
        }
    }

    /// By one port, with or without tag, as it has it.
    #[inline]
    fn send(&self, cx: &mut Context, mut slot: Slot, output: usize, place: PacketVlan) {
        let (Some(vlan), Some(port)) = (place.vlan, self.ports.get(output)) else {
            return cx.drop_packet(slot, Reason::NotAllowed);
        };
        let tag = place.tag.unwrap_or_default();
        let wanted = (port.native != Some(vlan)).then_some(Tci(tag.0 & 0xf000 | vlan));
        if wanted != place.tag && !retag(cx, &mut slot, place.tag.is_some(), wanted) {
            return cx.drop_packet(slot, Reason::NoBuffer);
        }
        cx.out.emit(output, slot);
    }
}

/// The tag of a packet and the VLAN it is in at a port.
#[inline]
fn place_of(port: &Port, bytes: &[u8]) -> PacketVlan {
    if bytes.len() < HEADER {
        return PacketVlan::default();
    }
    let tagged = bytes[ADDRESSES..HEADER] == EtherType::VLAN.0.to_be_bytes();
    let tag = match bytes.get(HEADER..HEADER + TAG) {
        Some(tag) if tagged => Some(Tci(u16::from_be_bytes([tag[0], tag[1]]))),
        // A tag that is cut off.
        None if tagged => return PacketVlan::default(),
        _ => None,
    };
    PacketVlan { tag, vlan: port.admits(tag) }
}

/// Gives a packet another tag, or none. `false` when there is no room.
fn retag(cx: &mut Context, slot: &mut Slot, tagged: bool, wanted: Option<Tci>) -> bool {
    if !cx.unshare_one(slot) {
        return false;
    }
    let arena = cx.pool.arena();
    match wanted {
        Some(Tci(tci)) if tagged => {
            let tag = arena.packet_mut(slot).and_then(|bytes| bytes.get_mut(HEADER..HEADER + 2));
            tag.map(|tag| tag.copy_from_slice(&tci.to_be_bytes())).is_some()
        }
        Some(Tci(tci)) => {
            let opened = header::open_one(cx, slot, TAG, HEADER + TAG);
            if opened && let Some(bytes) = arena.packet_mut(slot) {
                put_tag(bytes, tag(EtherType::VLAN.0, tci));
            }
            opened
        }
        None => {
            arena.writable(slot).and_then(|mut packet| untag(&mut packet, EtherType::VLAN.0));
            if cx.world().annotated {
                header::mark_network(arena, slot, HEADER);
            }
            true
        }
    }
}

impl Element for VlanSwitch {
    fn push(&mut self, cx: &mut Context, port: usize, frame: &mut Frame) {
        self.classify(cx, port, frame);
        let learns = self.hosts.learns();
        let outputs =
            if learns { std::mem::take(self.hosts.forward(port as u16)) } else { Vec::new() };
        let places = std::mem::take(&mut self.places);
        let mut all = places.iter().enumerate();
        frame.drain_front(frame.len(), |slot| {
            let Some((at, place)) = all.next() else {
                return cx.drop_packet(slot, Reason::NotAllowed);
            };
            match outputs.get(at).copied().unwrap_or(FLOOD) {
                _ if place.vlan.is_none() => {
                    let short = slot.len() < HEADER;
                    cx.drop_packet(slot, if short { Reason::Short } else { Reason::NotAllowed });
                }
                FLOOD => self.flood(cx, slot, port, *place),
                output if output as usize == port => cx.drop_packet(slot, Reason::SamePort),
                output => self.send(cx, slot, output as usize, *place),
            }
        });
        self.places = places;
        self.hosts.give_back(outputs);
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<VlanSwitch>() {
            let ports = &self.ports;
            let allowed =
                |vlan, port: u16| ports.get(usize::from(port)).is_some_and(|p| p.has(vlan));
            self.hosts.take_from(&mut old.hosts, allowed);
        }
    }

    fn read(&mut self, cx: &mut Context, handler: &str, _: &str) -> HandlerResult {
        if handler == "table" {
            let hosts = self.hosts.hosts(cx.steady());
            let line = |(mac, vlan, port)| {
                format!("{} {vlan} {}\n", mac_text(mac), self.hosts.name_of(port))
            };
            return Ok(hosts.into_iter().map(line).collect());
        }
        ether_switch::read(cx, &mut self.hosts, handler)
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        ether_switch::write(cx, &mut self.hosts, handler, value)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    const A: &str = "02000000000a";
    const B: &str = "02000000000b";
    const ALL: &str = "ffffffffffff";

    /// Packets that leave by the four ports for those that arrive at one.
    fn switched(port: usize, packets: &str, frame_limit: usize) -> [String; 4] {
        let mut text =
            "s :: VLANSwitch(ACCESS 10, ACCESS 20, TRUNK 10 20-30 NATIVE 1, TRUNK ALL);".to_owned();
        for at in 0..4 {
            text += &if at == port {
                format!("Packets({packets}) -> [{at}] s;")
            } else {
                format!("Idle -> [{at}] s;")
            };
            text += &format!("s [{at}] -> c{at} :: Collect;");
        }
        let mut run = Run::new(&text).frame_limit(frame_limit);
        run.run();
        [0, 1, 2, 3].map(|at| run.read(&format!("c{at}.packets")))
    }

    #[test]
    fn packets_stay_in_their_vlan_with_the_tags_ports_have() {
        let plain = format!("{ALL}{A}0800aa");
        let with = |tag: &str| format!("{ALL}{A}8100{tag}0800aa");
        let none = String::new();
        for (port, packet, expected) in [
            (0, &plain, [&none, &none, &with("000a"), &with("000a")]),
            (1, &plain, [&none, &none, &with("0014"), &with("0014")]),
            (2, &plain, [&none, &none, &none, &with("0001")]),
            (3, &plain, [&none; 4]),
            (3, &with("600a"), [&plain, &none, &with("600a"), &none]),
            (2, &with("0014"), [&none, &plain, &none, &with("0014")]),
            (3, &with("0001"), [&none, &none, &plain, &none]),
            (2, &with("0032"), [&none; 4]),
            (0, &with("000a"), [&none; 4]),
            (0, &with("a000"), [&none, &none, &with("a00a"), &with("a00a")]),
            (3, &with("0fff"), [&none; 4]),
            (3, &format!("{ALL}{A}810000"), [&none; 4]),
        ] {
            for frame_limit in [1, 256] {
                let seen = switched(port, packet, frame_limit);
                assert_eq!(seen.each_ref(), expected, "{packet} at {port}");
            }
        }
    }

    #[test]
    fn hosts_are_learnt_by_vlan() {
        for frame_limit in [1, 256] {
            // A is at port 3 in VLAN 10, and unknown in VLAN 20.
            let packets = format!(
                "{ALL}{A}8100000a0800 {A}{B}8100000a0800 {A}{B}810000140800 {B}{A}8100000a0800"
            );
            let [a, b, trunk, own] = switched(3, &packets, frame_limit);
            assert_eq!(a, format!("{ALL}{A}0800"));
            assert_eq!(b, format!("{A}{B}0800"));
            assert_eq!(trunk, format!("{ALL}{A}8100000a0800\n{A}{B}810000140800"));
            assert_eq!(own, "");
        }
    }

    #[test]
    fn ports_are_described_one_by_one() {
        for (ports, error) in [
            ("ACCESS 10", "need 2 arguments, one per port"),
            ("ACCESS 0, ACCESS 1", "argument 0: expected ACCESS VLAN"),
            ("TRUNK 1-4095, ACCESS 1 2", "argument 0: expected ACCESS VLAN"),
            ("TRUNK NATIVE 5, FOO 1", "argument 1: expected ACCESS VLAN"),
        ] {
            let errors = Run::errors(&format!(
                "s :: VLANSwitch({ports}); Idle -> s -> Discard; Idle -> [1] s [1] -> Discard"
            ));
            assert!(errors.contains(error), "{errors}");
        }
    }
}
