//! Flow records as messages of IPFIX (RFC 7011).
//!
//! Templates for flows of IPv4, of IPv6, of the ICMP of either and of all else, each a list of
//! information elements of IANA's registry (RFC 5102, RFC 7012; the names below are the
//! registry's); with sampling, an option has its interval (RFC 5476: one packet of so many,
//! counted). Over UDP, templates are repeated now and then, since nothing confirms their arrival
//! (RFC 7011 section 8.4). Variable lengths, elements of enterprises and withdrawn templates are
//! not there.

use super::record::FlowRecord;

/// An information element: its number and how many bytes it has here.
type Element = (u16, u16);

const FLOW_START_MILLISECONDS: Element = (152, 8);
const FLOW_END_MILLISECONDS: Element = (153, 8);
const PACKET_DELTA_COUNT: Element = (2, 8);
const OCTET_DELTA_COUNT: Element = (1, 8);
const LAYER_2_OCTET_DELTA_COUNT: Element = (352, 8);
const FLOW_END_REASON: Element = (136, 1);
const FLOW_DIRECTION: Element = (61, 1);
const INGRESS_INTERFACE: Element = (10, 4);
const EGRESS_INTERFACE: Element = (14, 4);
const SOURCE_MAC_ADDRESS: Element = (56, 6);
const DESTINATION_MAC_ADDRESS: Element = (80, 6);
const ETHERNET_TYPE: Element = (256, 2);
const VLAN_ID: Element = (58, 2);
const DOT1Q_PRIORITY: Element = (244, 1);
const OBSERVATION_POINT_ID: Element = (138, 8);
const IP_VERSION: Element = (60, 1);
const SOURCE_IPV4_ADDRESS: Element = (8, 4);
const DESTINATION_IPV4_ADDRESS: Element = (12, 4);
const SOURCE_IPV6_ADDRESS: Element = (27, 16);
const DESTINATION_IPV6_ADDRESS: Element = (28, 16);
const PROTOCOL_IDENTIFIER: Element = (4, 1);
const IP_CLASS_OF_SERVICE: Element = (5, 1);
const SOURCE_TRANSPORT_PORT: Element = (7, 2);
const DESTINATION_TRANSPORT_PORT: Element = (11, 2);
const TCP_CONTROL_BITS: Element = (6, 2);
const MINIMUM_TTL: Element = (52, 1);
const MAXIMUM_TTL: Element = (53, 1);
const ICMP_TYPE_CODE_IPV4: Element = (32, 2);
const ICMP_TYPE_CODE_IPV6: Element = (139, 2);
const SELECTOR_ID: Element = (302, 8);
const SELECTOR_ALGORITHM: Element = (304, 2);
const SAMPLING_PACKET_INTERVAL: Element = (305, 4);
const SAMPLING_PACKET_SPACE: Element = (306, 4);

/// Elements of every flow, in the order of `common`.
const COMMON: [Element; 16] = [
    FLOW_START_MILLISECONDS,
    FLOW_END_MILLISECONDS,
    PACKET_DELTA_COUNT,
    OCTET_DELTA_COUNT,
    LAYER_2_OCTET_DELTA_COUNT,
    FLOW_END_REASON,
    FLOW_DIRECTION,
    INGRESS_INTERFACE,
    EGRESS_INTERFACE,
    SOURCE_MAC_ADDRESS,
    DESTINATION_MAC_ADDRESS,
    ETHERNET_TYPE,
    VLAN_ID,
    DOT1Q_PRIORITY,
    OBSERVATION_POINT_ID,
    SELECTOR_ID,
];

const IPV4: [Element; 2] = [SOURCE_IPV4_ADDRESS, DESTINATION_IPV4_ADDRESS];
const IPV6: [Element; 2] = [SOURCE_IPV6_ADDRESS, DESTINATION_IPV6_ADDRESS];

/// Elements of IP flows behind the addresses.
const IP: [Element; 5] =
    [IP_VERSION, PROTOCOL_IDENTIFIER, IP_CLASS_OF_SERVICE, MINIMUM_TTL, MAXIMUM_TTL];

/// Last elements: ICMP has a type and code, others have ports. Collectors take a type and code that
/// is there for a port.
const PORTS: [Element; 3] = [SOURCE_TRANSPORT_PORT, DESTINATION_TRANSPORT_PORT, TCP_CONTROL_BITS];

/// A kind of flow, and the number of its template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
enum FlowTemplate {
    Ipv4 = 256,
    Ipv6 = 257,
    Icmpv4 = 258,
    Icmpv6 = 259,
    Other = 260,
}

impl FlowTemplate {
    const ALL: [FlowTemplate; 5] = [
        FlowTemplate::Ipv4,
        FlowTemplate::Ipv6,
        FlowTemplate::Icmpv4,
        FlowTemplate::Icmpv6,
        FlowTemplate::Other,
    ];

    fn for_record(record: &FlowRecord) -> FlowTemplate {
        match (record.tuple.ether_type(), record.tuple.protocol()) {
            (0x0800, 1) => FlowTemplate::Icmpv4,
            (0x0800, _) => FlowTemplate::Ipv4,
            (0x86dd, 58) => FlowTemplate::Icmpv6,
            (0x86dd, _) => FlowTemplate::Ipv6,
            _ => FlowTemplate::Other,
        }
    }

    /// The elements of its template.
    fn elements(self) -> Vec<Element> {
        let (addresses, rest): (&[Element], &[Element]) = match self {
            FlowTemplate::Ipv4 => (&IPV4, &PORTS),
            FlowTemplate::Ipv6 => (&IPV6, &PORTS),
            FlowTemplate::Icmpv4 => (&IPV4, &[ICMP_TYPE_CODE_IPV4]),
            FlowTemplate::Icmpv6 => (&IPV6, &[ICMP_TYPE_CODE_IPV6]),
            FlowTemplate::Other => return COMMON.to_vec(),
        };
        [&COMMON[..], addresses, &IP, rest].concat()
    }
}

/// The template for sampling, and the number of the selector.
const SAMPLING: u16 = 261;
const SELECTOR: u64 = 1;

/// Numbers of sets that have templates.
const TEMPLATES: u16 = 2;
const OPTIONS_TEMPLATES: u16 = 3;

const HEADER: usize = 16;
const VERSION: u16 = 10;

/// Writes the messages of one observation domain to one set of collectors.
#[derive(Debug)]
pub struct Ipfix {
    domain: u32,
    limit: usize,
    sampling: u32,
    /// Records so far, which includes those of options.
    sequence: u32,
    message: Vec<u8>,
    /// Begin of the set under way, and the records in this message.
    set: Option<(usize, FlowTemplate)>,
    records: u32,
}

/// Takes the times of records to the wall clock.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// A time of the steady clock, in nanoseconds.
    pub steady: u64,
    /// Time of the wall clock then, in milliseconds since 1970.
    pub wall: u64,
}

impl Clock {
    /// Converts a time to milliseconds since 1970.
    #[must_use]
    pub fn milliseconds(&self, steady: u64) -> u64 {
        if steady > self.steady {
            self.wall + (steady - self.steady) / 1_000_000
        } else {
            self.wall.saturating_sub((self.steady - steady) / 1_000_000)
        }
    }
}

impl Ipfix {
    /// Creates a writer for a domain, with messages of at most so many bytes; one of `sampling`
    /// packets is looked at.
    #[must_use]
    pub fn new(domain: u32, limit: usize, sampling: u32) -> Ipfix {
        let limit = limit.clamp(512, usize::from(u16::MAX));
        let message = Vec::with_capacity(limit);
        Ipfix { domain, limit, sampling, sequence: 0, message, set: None, records: 0 }
    }

    /// Sends templates, and how packets are sampled.
    pub fn templates(&mut self, now: &Clock, send: &mut impl FnMut(&[u8])) {
        self.finish(now, send);
        self.begin();
        let set = self.begin_set(TEMPLATES);
        for kind in FlowTemplate::ALL {
            let elements = kind.elements();
            self.u16(kind as u16);
            self.u16(elements.len() as u16);
            self.elements(&elements);
        }
        self.end_set(set);
        if self.sampling > 1 {
            let elements =
                [SELECTOR_ID, SELECTOR_ALGORITHM, SAMPLING_PACKET_INTERVAL, SAMPLING_PACKET_SPACE];
            let set = self.begin_set(OPTIONS_TEMPLATES);
            self.u16(SAMPLING);
            self.u16(elements.len() as u16);
            // The first field is the scope of the others.
            self.u16(1);
            self.elements(&elements);
            self.end_set(set);
            let set = self.begin_set(SAMPLING);
            self.u64(SELECTOR);
            // Systematic, by count.
            self.u16(1);
            self.u32(1);
            self.u32(self.sampling - 1);
            self.end_set(set);
            self.records += 1;
        }
        self.finish(now, send);
    }

    /// Adds a record, and sends the message before it where both do not fit in one.
    pub fn add(&mut self, record: &FlowRecord, now: &Clock, send: &mut impl FnMut(&[u8])) {
        /// No record has more.
        const LONGEST: usize = 160;
        let kind = FlowTemplate::for_record(record);
        if self.message.len() + LONGEST > self.limit {
            self.finish(now, send);
        }
        if self.message.is_empty() {
            self.begin();
        }
        if self.set.is_none_or(|(_, other)| other != kind) {
            if let Some((set, _)) = self.set {
                self.end_set(set);
            }
            self.set = Some((self.begin_set(kind as u16), kind));
        }
        let start = self.message.len();
        self.common(record, now);
        let tuple = &record.tuple;
        let version = match kind {
            FlowTemplate::Ipv4 | FlowTemplate::Icmpv4 => {
                tuple.ipv4().iter().for_each(|address| self.u32(*address));
                Some(4)
            }
            FlowTemplate::Ipv6 | FlowTemplate::Icmpv6 => {
                let addresses = tuple.ipv6().map(u128::to_be_bytes);
                self.message.extend(addresses.as_flattened());
                Some(6)
            }
            FlowTemplate::Other => None,
        };
        if let Some(version) = version {
            let [smallest, largest] = record.ttl;
            self.message.extend([version, tuple.protocol(), tuple.tos(), smallest, largest]);
            let [source, destination] = tuple.ports();
            if matches!(kind, FlowTemplate::Icmpv4 | FlowTemplate::Icmpv6) {
                self.u16(source << 8 | destination);
            } else {
                self.u16(source);
                self.u16(destination);
                self.u16(record.tcp_flags);
            }
        }
        debug_assert_eq!(
            self.message.len() - start,
            kind.elements().iter().map(|(_, length)| usize::from(*length)).sum::<usize>(),
        );
        self.records += 1;
    }

    /// Sends the message under way.
    pub fn finish(&mut self, now: &Clock, send: &mut impl FnMut(&[u8])) {
        if let Some((set, _)) = self.set.take() {
            self.end_set(set);
        }
        if self.message.is_empty() {
            return;
        }
        let length = self.message.len() as u16;
        let mut header = Vec::with_capacity(HEADER);
        header.extend(VERSION.to_be_bytes());
        header.extend(length.to_be_bytes());
        header.extend(((now.wall / 1000) as u32).to_be_bytes());
        header.extend(self.sequence.to_be_bytes());
        header.extend(self.domain.to_be_bytes());
        self.message[..HEADER].copy_from_slice(&header);
        send(&self.message);
        self.sequence = self.sequence.wrapping_add(self.records);
        self.records = 0;
        self.message.clear();
    }

    fn begin(&mut self) {
        self.message.resize(HEADER, 0);
    }

    fn begin_set(&mut self, number: u16) -> usize {
        let at = self.message.len();
        self.u16(number);
        self.u16(0);
        at
    }

    fn end_set(&mut self, at: usize) {
        let length = (self.message.len() - at) as u16;
        self.message[at + 2..at + 4].copy_from_slice(&length.to_be_bytes());
    }

    fn elements(&mut self, elements: &[Element]) {
        for (number, length) in elements {
            self.u16(*number);
            self.u16(*length);
        }
    }

    fn common(&mut self, record: &FlowRecord, now: &Clock) {
        let tci = record.tuple.vlan_tci();
        self.u64(now.milliseconds(record.first));
        self.u64(now.milliseconds(record.last));
        self.u64(record.packets);
        self.u64(record.bytes);
        self.u64(record.frame_bytes);
        self.u8(record.reason as u8);
        // As they come in.
        self.u8(0);
        self.u32(record.tuple.in_port());
        self.u32(record.out_port);
        let [destination, source] = record.addresses;
        self.message.extend(&source.to_be_bytes()[2..]);
        self.message.extend(&destination.to_be_bytes()[2..]);
        self.u16(record.tuple.ether_type());
        self.u16(tci & 0xfff);
        self.u8((tci >> 13) as u8);
        self.u64(record.stream.point.into());
        self.u64(if self.sampling > 1 { SELECTOR } else { 0 });
    }

    fn u8(&mut self, value: u8) {
        self.message.push(value);
    }

    fn u16(&mut self, value: u16) {
        self.message.extend(value.to_be_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.message.extend(value.to_be_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.message.extend(value.to_be_bytes());
    }
}
