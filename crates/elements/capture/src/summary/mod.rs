//! IP summary dumps: packets as lines of fields, in text or packed.
//!
//! One table, [`FIELDS`], has for each field its extraction from a packet, its form, and its
//! injection into a packet that is made from a line. [`View`] is a packet being written, [`Draft`]
//! one being made.
//!
//! Source: the description of the format in the documentation of Click's
//! `ToIPSummaryDump`.

mod draft;
mod fields;
mod form;
mod inject;
mod ip_options;
mod md5;
mod tcp_options;
mod view;

pub(super) use draft::{Draft, Flow};
pub(super) use fields::{FIELDS, NONE};
pub(super) use form::Form;
pub(super) use view::{Manner, View};

/// The version of the format that is written.
pub(super) const VERSION: (u32, u32) = (1, 3);

/// IP protocols the fields know.
mod proto {
    pub(super) const ICMP: u8 = 1;
    pub(super) const TCP: u8 = 6;
    pub(super) const UDP: u8 = 17;
    pub(super) const DCCP: u8 = 33;
    pub(super) const UDP_LITE: u8 = 136;

    /// Returns true if the protocol's header begins with two ports.
    pub(super) fn has_ports(protocol: u8) -> bool {
        matches!(protocol, TCP | UDP | DCCP | UDP_LITE)
    }
}

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Datum<'a> {
    /// A number; also times, in nanoseconds, and IPv4 addresses.
    Number(u64),
    /// Bytes of the packet.
    Bytes(&'a [u8]),
}

impl Datum<'_> {
    fn number(self) -> u64 {
        match self {
            Datum::Number(number) => number,
            Datum::Bytes(_) => 0,
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Datum::Number(_) => &[],
            Datum::Bytes(bytes) => bytes,
        }
    }
}

/// Packed form of a field in a binary dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    /// A number of so many bytes, in network order.
    Bytes(usize),
    /// Seconds and microseconds, four bytes each.
    Micro,
    /// Nanoseconds and seconds, four bytes each, in this order: so Click
    /// writes and reads them.
    Nano,
    /// A byte for the length, and as many bytes.
    Counted,
    /// Not at all.
    Text,
}

/// A field.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) form: Form,
    pub(super) width: Width,
    /// Fields of a line are put into a packet in the order of these.
    pub(super) order: u16,
    /// Finds it in a packet; `None` where the packet has none.
    pub(super) extract: for<'a> fn(&mut View<'a>) -> Option<Datum<'a>>,
    /// Puts it into a packet; `None` where that cannot be done.
    pub(super) inject: Option<fn(&mut Draft, Datum<'_>)>,
}

impl Field {
    /// Returns true if it is found behind the link's header.
    pub(super) fn needs_headers(&self) -> bool {
        self.order > fields::LINK
    }
}

/// Other names of fields.
const SYNONYMS: &[(&str, &str)] = &[
    ("utimestamp", "timestamp"),
    ("ts", "timestamp"),
    ("sec", "ts_sec"),
    ("usec", "ts_usec"),
    ("usec1", "ts_usec1"),
    ("first_utimestamp", "first_timestamp"),
    ("first_ts", "first_timestamp"),
    ("pkt_count", "count"),
    ("packet_count", "count"),
    ("agg", "aggregate"),
    ("wire_length", "wire_len"),
    ("ether_src", "eth_src"),
    ("ether_dst", "eth_dst"),
    ("ether_type", "eth_type"),
    ("length", "ip_len"),
    ("ip_p", "ip_proto"),
    ("tcp_seqno", "tcp_seq"),
    ("tcp_ackno", "tcp_ack"),
    ("tcp_win", "tcp_window"),
    ("payload_length", "payload_len"),
];

/// The field of a name; spaces stand for underscores, and `ip_` may be left
/// out.
pub(super) fn find(name: &str) -> Option<&'static Field> {
    let exact = |name: &str| {
        let synonym = SYNONYMS.iter().find(|(other, _)| *other == name);
        let name = synonym.map_or(name, |(_, field)| field);
        FIELDS.iter().find(|field| field.name == name)
    };
    let name = name.replace(' ', "_");
    exact(&name).or_else(|| {
        let prefixed = !name.contains('_');
        prefixed.then(|| exact(&format!("ip_{name}"))).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_synonyms_and_short_forms() {
        for (name, field) in [
            ("ip_src", "ip_src"),
            ("ip src", "ip_src"),
            ("src", "ip_src"),
            ("len", "ip_len"),
            ("length", "ip_len"),
            ("p", "ip_proto"),
            ("ts", "timestamp"),
            ("tcp win", "tcp_window"),
            ("sport", "sport"),
        ] {
            assert_eq!(find(name).map(|field| field.name), Some(field), "{name}");
        }
        assert!(find("ip_nonsense").is_none() && find("nonsense").is_none() && find("").is_none());
    }

    #[test]
    fn no_name_is_used_twice_and_synonyms_lead_somewhere() {
        for (at, field) in FIELDS.iter().enumerate() {
            let first = FIELDS.iter().position(|other| other.name == field.name);
            assert_eq!(first, Some(at), "{}", field.name);
        }
        for (synonym, name) in SYNONYMS {
            assert!(FIELDS.iter().any(|field| field.name == *name), "{synonym}");
            assert!(FIELDS.iter().all(|field| field.name != *synonym), "{synonym}");
        }
    }
}
