//! Descriptions of traffic, and the frames made from them.
//!
//! A [`FrameMaker`] prepares one template per frame size and then makes each
//! frame by copying it and changing the fields that vary, checksums included
//! incrementally, so that a frame costs some ten nanoseconds whatever varies.

mod maker;
mod mix;

use std::net::{Ipv4Addr, Ipv6Addr};

use linerate_packet::{
    EtherType, MacAddr,
    build::{BuildError, EchoFrame, Ip, Layout, Link, Tagging, TcpFrame, UdpFrame},
    tcp::Flags,
    vlan::Tci,
};

use self::maker::{Fields, Template};
pub use self::{
    maker::FrameMaker,
    mix::{Frames, Mix},
};
use crate::{
    signature::{SIGNATURE_LEN, Signature},
    sizes::{FCS, Sizes},
    values::Values,
};

/// Protocol of the frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// UDP datagrams.
    Udp,
    /// TCP segments with ACK set, of no connection.
    Tcp,
    /// ICMP or `ICMPv6` echo requests.
    Icmp,
    /// No IP: the payload follows this `EtherType`.
    Raw(u16),
}

/// Order in which varying fields go through their values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Through all combinations, the first of [`Variation`]'s fields fastest.
    #[default]
    Sequential,
    /// Each field at random, independently.
    Random,
}

/// Fields that vary from frame to frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variation {
    /// UDP or TCP source ports.
    pub source_ports: Values,
    /// UDP or TCP destination ports.
    pub destination_ports: Values,
    /// Source addresses: all IPv4 or all IPv6, as [`Traffic::ipv6`] says.
    pub sources: Values,
    /// Destination addresses, of the same kind.
    pub destinations: Values,
    /// VLANs of the innermost tag; untagged when `None`.
    pub vlans: Option<Values>,
    /// Source Ethernet addresses.
    pub source_macs: Values,
    /// Destination Ethernet addresses.
    pub destination_macs: Values,
}

impl Variation {
    /// Returns fields that do not vary: the first addresses of the two networks
    /// reserved for benchmarks (RFC 2544, C.2.2; RFC 5180, 8), and the discard port.
    pub const fn none(ipv6: bool) -> Variation {
        let one = Values::one;
        let [source, destination] = if ipv6 {
            [0x2001_0002 << 96 | 1, 0x2001_0002 << 96 | 2]
        } else {
            [0xc612_0001, 0xc613_0001]
        };
        Variation {
            source_ports: one(1024),
            destination_ports: one(9),
            sources: one(source),
            destinations: one(destination),
            vlans: None,
            source_macs: one(0x0200_0000_0001),
            destination_macs: one(0x0200_0000_0002),
        }
    }
}

/// A description of traffic.
#[derive(Debug, Clone, PartialEq)]
pub struct Traffic {
    /// Frame sizes.
    pub sizes: Sizes,
    /// Protocol of the frames.
    pub protocol: Protocol,
    /// Whether the addresses are IPv6.
    pub ipv6: bool,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// 802.1ad tag around the 802.1Q tag.
    pub outer_vlan: Option<u16>,
    /// 802.1Q priority.
    pub priority: u8,
    /// The fields that vary.
    pub variation: Variation,
    /// The order of their values.
    pub order: Order,
    /// Whether each frame carries a [`Signature`].
    pub signed: bool,
    /// Payload behind the signature, repeated; zeros when empty.
    pub payload: Vec<u8>,
    /// Seed of random values.
    pub seed: u64,
}

/// The reason why a description cannot be made into frames.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrafficError {
    /// Headers and signature are longer than the smallest frame.
    #[error(
        "frames of {size} bytes are too short: these headers{signature} need {need} bytes with FCS"
    )]
    TooShort {
        /// The smallest size, FCS included.
        size: usize,
        /// Bytes needed, FCS included.
        need: usize,
        /// ` and the signature`, or nothing.
        signature: &'static str,
    },
    /// A value is outside the range of its field.
    #[error("{field} {value} is above {limit}")]
    Value {
        /// The field.
        field: &'static str,
        /// The value.
        value: u128,
        /// The largest possible.
        limit: u128,
    },
    /// The frame is longer than IP allows.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// There is nothing to send.
    #[error("the capture holds no frames to send")]
    Empty,
}

impl Traffic {
    /// Returns signed UDP datagrams of these sizes in which no field varies.
    pub fn new(sizes: Sizes, ipv6: bool) -> Traffic {
        Traffic {
            sizes,
            protocol: Protocol::Udp,
            ipv6,
            traffic_class: 0,
            ttl: 64,
            outer_vlan: None,
            priority: 0,
            variation: Variation::none(ipv6),
            order: Order::Sequential,
            signed: true,
            payload: Vec::new(),
            seed: 1,
        }
    }

    /// Checks every field against its width.
    fn check(&self) -> Result<(), TrafficError> {
        let v = &self.variation;
        let address = if self.ipv6 { u128::MAX } else { u32::MAX.into() };
        let mac = (1 << 48) - 1;
        let limits = [
            ("source port", Some(v.source_ports), u16::MAX.into()),
            ("destination port", Some(v.destination_ports), u16::MAX.into()),
            ("source address", Some(v.sources), address),
            ("destination address", Some(v.destinations), address),
            ("vlan", v.vlans, 4094),
            ("outer vlan", self.outer_vlan.map(|id| Values::one(id.into())), 4094),
            ("priority", Some(Values::one(self.priority.into())), 7),
            ("source mac", Some(v.source_macs), mac),
            ("destination mac", Some(v.destination_macs), mac),
        ];
        for (field, values, limit) in limits {
            if let Some(value) = values.map(|values| values.last()).filter(|&last| last > limit) {
                return Err(TrafficError::Value { field, value, limit });
            }
        }
        Ok(())
    }

    fn link(&self) -> Link {
        let v = &self.variation;
        let tci = |id: u16| Tci::new(self.priority, false, id);
        let inner = v.vlans.map(|vlans| tci(vlans.at(0) as u16));
        let tags = match (self.outer_vlan.map(tci), inner) {
            (Some(outer), inner) => Tagging::Double { outer, inner: inner.unwrap_or(tci(0)) },
            (None, Some(tag)) => Tagging::Single(tag),
            (None, None) => Tagging::Untagged,
        };
        let mac = |values: Values| MacAddr::from_u64(values.at(0) as u64);
        Link { src: mac(v.source_macs), dst: mac(v.destination_macs), tags }
    }

    fn ip(&self) -> Ip {
        let (source, destination) =
            (self.variation.sources.at(0), self.variation.destinations.at(0));
        let ip = if self.ipv6 {
            Ip::v6(Ipv6Addr::from_bits(source), Ipv6Addr::from_bits(destination))
        } else {
            let v4 = |bits: u128| Ipv4Addr::from_bits(bits as u32);
            Ip::v4(v4(source), v4(destination))
        };
        Ip { traffic_class: self.traffic_class, ttl: self.ttl, ..ip }
    }

    /// The frame of `size` bytes with FCS, with the first of all values.
    fn template(&self, size: usize) -> Result<Template, TrafficError> {
        let wire = size - FCS;
        // Emitted once for the length of the headers: the rest is payload.
        let headers = self.emit(&mut [0; 256], 0)?.payload;
        let need = headers + if self.signed { SIGNATURE_LEN } else { 0 };
        if wire < need {
            let signature = if self.signed { " and the signature" } else { "" };
            return Err(TrafficError::TooShort { size, need: need + FCS, signature });
        }
        let mut bytes = vec![0; wire];
        let payload = bytes[need..].iter_mut().zip(self.payload.iter().cycle());
        payload.for_each(|(byte, given)| *byte = *given);
        if self.signed {
            let signature = Signature { stream: 0, sequence: 0, time: 0 };
            bytes[headers..need].copy_from_slice(&signature.to_bytes());
        }
        let layout = self.emit(&mut bytes, wire - headers)?;
        let fields = Fields {
            patch: layout.patch(),
            payload: (layout.payload - layout.transport, layout.payload),
        };
        Ok(Template { bytes, fields: Some(fields) })
    }

    /// Writes the headers in front of `payload_len` bytes of payload.
    fn emit(&self, frame: &mut [u8], payload_len: usize) -> Result<Layout, BuildError> {
        let (link, ip) = (self.link(), self.ip());
        let v = &self.variation;
        let (src_port, dst_port) = (v.source_ports.at(0) as u16, v.destination_ports.at(0) as u16);
        match self.protocol {
            Protocol::Udp => UdpFrame { link, ip, src_port, dst_port, payload_len }.emit(frame),
            Protocol::Tcp => TcpFrame {
                link,
                ip,
                src_port,
                dst_port,
                seq: 1,
                ack: 1,
                flags: Flags::ACK,
                window: u16::MAX,
                options: &[],
                payload_len,
            }
            .emit(frame),
            Protocol::Icmp => {
                EchoFrame { link, ip, reply: false, ident: 1, seq: 1, payload_len }.emit(frame)
            }
            Protocol::Raw(ether_type) => {
                let payload = link.emit_header(frame, EtherType(ether_type))?;
                let protocol = linerate_packet::IpProtocol::NO_NEXT;
                let len = payload + payload_len;
                Ok(Layout { network: payload, transport: payload, protocol, payload, len })
            }
        }
    }
}

#[cfg(test)]
mod tests;
