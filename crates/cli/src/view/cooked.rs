//! Packets of several interfaces: the name of that by which each came, and how it was addressed, as tcpdump
//! has them of `-i any`.

use std::{collections::HashMap, fmt::Write as _};

use linerate_linux::interface;
use linerate_memory::{Meta, Origin};
use linerate_packet::{EtherType, MacAddr};

use super::{View, link, number};

/// Bytes of the header that such packets have in a capture file, for their lengths.
const HEADER: usize = 20;

/// By which interface a packet came, and how it was addressed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) origin: Origin,
    /// [`Meta::packet_type`].
    pub(crate) kind: u8,
}

impl Arrival {
    /// Of a packet of which it was noted.
    pub(crate) fn of(meta: &Meta) -> Option<Arrival> {
        Some(Arrival { origin: meta.origin()?, kind: meta.packet_type })
    }

    /// The direction, in tcpdump's words.
    fn direction(self) -> &'static str {
        match self.kind {
            Meta::TO_HOST => "In",
            Meta::BROADCAST => "B",
            Meta::MULTICAST => "M",
            Meta::OTHER_HOST => "P",
            Meta::OUTGOING => "Out",
            _ => "?",
        }
    }

    /// The direction, for programs.
    pub(crate) fn direction_name(self) -> &'static str {
        match self.kind {
            Meta::TO_HOST => "in",
            Meta::BROADCAST => "broadcast",
            Meta::MULTICAST => "multicast",
            Meta::OTHER_HOST => "other-host",
            Meta::OUTGOING => "out",
            _ => "unknown",
        }
    }
}

/// Names of interfaces by their index.
#[derive(Debug, Default)]
pub(super) struct Interfaces(HashMap<u32, String>);

impl Interfaces {
    /// The name of one that is there, or was there when it was first asked for.
    pub(super) fn name(&mut self, index: u32) -> &str {
        let Interfaces(names) = self;
        if !names.contains_key(&index) {
            let links = interface::links().unwrap_or_default();
            names.extend(links.into_iter().map(|link| (link.index, link.name)));
        }
        names.entry(index).or_insert_with(|| "?".into())
    }
}

/// Writes a frame that had so many bytes more.
pub(super) fn write(
    frame: &[u8],
    missing: usize,
    arrival: Arrival,
    view: &mut View,
    to: &mut String,
) {
    let name = view.interfaces.name(arrival.origin.index);
    let _ = write!(to, "{name:<5} {:<3} ", arrival.direction());
    let Some(kind) = number::<2>(frame, 12) else {
        to.push_str("[|sll2]");
        return;
    };
    let kind = EtherType(kind as u16);
    let length = frame.len() + missing - link::HEADER + HEADER;
    if view.style.link {
        header(frame, arrival, kind, length, to);
    }
    if let Some(kind) = link::payload(kind, &frame[link::HEADER..], missing, true, view, to) {
        header(frame, arrival, kind, length, to);
    }
}

/// Writes what there is of a link's header.
fn header(frame: &[u8], arrival: Arrival, kind: EtherType, length: usize, to: &mut String) {
    let Origin { index, address_length, .. } = arrival.origin;
    let _ = write!(to, "ifindex {index} ");
    if let Some(source) = frame[6..].first_chunk::<6>()
        && usize::from(address_length) == source.len()
    {
        let _ = write!(to, "{} ", MacAddr(*source));
    }
    let kind = if kind.0 < link::LEAST_TYPE { "802.2".into() } else { link::type_of(kind) };
    let _ = write!(to, "{kind}, length {length}: ");
}
