//! IPv4 and IPv6.

use std::{fmt::Write as _, net::IpAddr};

use linerate_packet::{IpProtocol, Ipv6, ipv6_ext::UpperLayer};

use super::{number, transport};

const LEAST: usize = 20;

/// One end of a packet, and the other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
}

impl Ends {
    /// `10.0.0.1 > 10.0.0.2: `
    pub(super) fn write(&self, to: &mut String) {
        let _ = write!(to, "{} > {}: ", self.source, self.destination);
    }

    /// `10.0.0.1.1024 > 10.0.0.2.80: `
    pub(super) fn write_with(&self, ports: (u32, u32), to: &mut String) {
        let _ = write!(to, "{}.{} > {}.{}: ", self.source, ports.0, self.destination, ports.1);
    }
}

/// Writes a packet that had so many bytes more when it was captured.
pub(super) fn four(packet: &[u8], missing: usize, to: &mut String) {
    let header = |at: usize| packet.get(at..).and_then(<[u8]>::first_chunk::<4>).copied();
    let (Some(source), Some(destination)) = (header(12), header(16)) else {
        to.push_str("[|ip]");
        return;
    };
    let length = usize::from(packet[0] & 15) * 4;
    if length < LEAST {
        let _ = write!(to, "bad-hlen {length}");
        return;
    }
    let total = number::<2>(packet, 2).unwrap_or(0) as usize;
    // What an interface is to cut into segments has no length yet.
    let had = packet.len() + missing;
    let total = if total == 0 { had } else { total };
    if total < length {
        let _ = write!(to, "bad-len {total}");
        return;
    }
    if had < total {
        let _ = write!(to, "truncated-ip - {} bytes missing! ", total - had);
    }
    let ends = Ends { source: source.into(), destination: destination.into() };
    let fragment = number::<2>(packet, 6).unwrap_or(0);
    let protocol = packet[9];
    let end = total.min(packet.len());
    if fragment & 0x1fff != 0 {
        ends.write(to);
        let _ = write!(to, "ip-proto-{protocol}");
        return;
    }
    let carried = transport::Carried {
        ends,
        bytes: packet.get(length..end).unwrap_or_default(),
        length: total - length,
    };
    transport::write(&carried, IpProtocol(protocol), to);
}

pub(super) fn six(packet: &[u8], to: &mut String) {
    let Some(length) = number::<2>(packet, 4) else {
        to.push_str("[|ip6]");
        return;
    };
    let Ok(ip) = Ipv6::new_checked(packet) else {
        let _ = write!(to, "[|ip6], length {length}");
        return;
    };
    let ends = Ends { source: ip.src().into(), destination: ip.dst().into() };
    let Ok(upper) = ip.upper_layer() else {
        ends.write(to);
        let _ = write!(to, "ip-proto-{} {length}", ip.next_header().0);
        return;
    };
    let UpperLayer { protocol, offset, .. } = upper;
    let bytes = ip.payload().get(offset..).unwrap_or_default();
    if !upper.has_header() {
        ends.write(to);
        let _ = write!(to, "frag ({}|{})", upper.fragment.map_or(0, |f| f.offset), bytes.len());
        return;
    }
    transport::write(&transport::Carried { ends, bytes, length: bytes.len() }, protocol, to);
}
