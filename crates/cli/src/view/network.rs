//! IPv4 and IPv6.

use std::{fmt::Write as _, net::IpAddr};

use linerate_packet::{
    IpProtocol,
    ipv6_ext::{UpperLayer, upper_layer},
};

use super::{number, transport};

const LEAST: usize = 20;
const IPV6_HEADER: usize = 40;

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

/// Writes a packet that had so many bytes more when it was captured.
pub(super) fn six(packet: &[u8], missing: usize, to: &mut String) {
    let Some(length) = number::<2>(packet, 4) else {
        to.push_str("[|ip6]");
        return;
    };
    let length = length as usize;
    let end = IPV6_HEADER + length;
    let is_whole = packet[0] >> 4 == 6 && end <= packet.len() + missing;
    let address = |at: usize| packet.get(at..).and_then(<[u8]>::first_chunk::<16>).copied();
    let (Some(source), Some(destination), true) = (address(8), address(24), is_whole) else {
        let _ = write!(to, "[|ip6], length {length}");
        return;
    };
    let ends = Ends { source: source.into(), destination: destination.into() };
    let (next, payload) = (IpProtocol(packet[6]), &packet[IPV6_HEADER..end.min(packet.len())]);
    let Ok(upper) = upper_layer(next, payload) else {
        ends.write(to);
        let _ = write!(to, "ip-proto-{} {length}", next.0);
        return;
    };
    let UpperLayer { protocol, offset, .. } = upper;
    let bytes = payload.get(offset..).unwrap_or_default();
    let length = length.saturating_sub(offset);
    if !upper.has_header() {
        ends.write(to);
        let _ = write!(to, "frag ({}|{length})", upper.fragment.map_or(0, |f| f.offset));
        return;
    }
    transport::write(&transport::Carried { ends, bytes, length }, protocol, to);
}
