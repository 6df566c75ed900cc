//! Descriptions of traffic, and the frames they mean.
//!
//! A [`FrameMaker`] prepares one template per frame size and then makes each
//! frame by copying it and changing the fields that vary, checksums included
//! by increments, so that a frame costs some ten nanoseconds whatever varies.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

use linerate_packet::{
    EtherType, MacAddr,
    build::{BuildError, EchoFrame, Ip, Layout, Link, Tagging, TcpFrame, UdpFrame},
    patch::Patch,
    tcp::Flags,
    vlan::Tci,
};

use crate::{
    signature::{SIGNATURE_LEN, Signature},
    sizes::{FCS, Sizes},
    values::Values,
};

/// What the frames carry.
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

/// How varying fields go through their values.
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

/// A description of traffic.
#[derive(Debug, Clone, PartialEq)]
pub struct Traffic {
    /// Frame sizes.
    pub sizes: Sizes,
    /// What the frames carry.
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
    /// What varies.
    pub variation: Variation,
    /// How it does.
    pub order: Order,
    /// Whether each frame carries a [`Signature`].
    pub signed: bool,
    /// Seed of what is random.
    pub seed: u64,
}

/// Why a description cannot be made into frames.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrafficError {
    /// Headers and signature are longer than the smallest frame.
    #[error(
        "frames of {size} bytes are too short: these headers{signature} need {need} bytes with FCS"
    )]
    TooShort {
        /// The smallest size, FCS included.
        size: usize,
        /// What is needed, FCS included.
        need: usize,
        /// ` and the signature`, or nothing.
        signature: &'static str,
    },
    /// A value is outside what its field holds.
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

/// One prepared frame.
#[derive(Debug, Clone)]
struct Template {
    bytes: Vec<u8>,
    /// How its fields are changed; `None` for frames sent as they are.
    fields: Option<Fields>,
}

/// Where the fields of a template are.
#[derive(Debug, Clone, Copy)]
struct Fields {
    patch: Patch,
    /// Offset of the payload behind the transport header's start, and in the
    /// frame.
    payload: (usize, usize),
}

/// A field that takes several values.
#[derive(Debug, Clone, Copy)]
struct Varying {
    field: Field,
    values: Values,
    index: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    SourcePort,
    DestinationPort,
    Source,
    Destination,
    Vlan,
    SourceMac,
    DestinationMac,
}

/// Makes the frames of a description, one after the other.
#[derive(Debug, Clone)]
pub struct FrameMaker {
    templates: Arc<[Template]>,
    next: usize,
    varying: Vec<Varying>,
    order: Order,
    random: fastrand::Rng,
    traffic: Option<Traffic>,
    stream: u16,
    sequence: u64,
}

impl Traffic {
    /// Prepares the frames of one worker. Workers get different `stream`s,
    /// which also makes them begin at different places of the variation.
    ///
    /// # Errors
    ///
    /// When the description contradicts itself.
    pub fn maker(&self, stream: u16) -> Result<FrameMaker, TrafficError> {
        self.check()?;
        let templates: Vec<Template> =
            self.sizes.all().iter().map(|&size| self.template(size)).collect::<Result<_, _>>()?;
        let v = &self.variation;
        let ports = matches!(self.protocol, Protocol::Udp | Protocol::Tcp);
        let ip = !matches!(self.protocol, Protocol::Raw(_));
        let varying = [
            (Field::SourcePort, ports.then_some(v.source_ports)),
            (Field::DestinationPort, ports.then_some(v.destination_ports)),
            (Field::Source, ip.then_some(v.sources)),
            (Field::Destination, ip.then_some(v.destinations)),
            (Field::Vlan, v.vlans),
            (Field::SourceMac, Some(v.source_macs)),
            (Field::DestinationMac, Some(v.destination_macs)),
        ];
        let varying = varying
            .into_iter()
            .filter_map(|(field, values)| Some((field, values?)))
            .filter(|(_, values)| values.count() > 1)
            .map(|(field, values)| Varying { field, values, index: 0 })
            .collect();
        Ok(FrameMaker {
            templates: templates.into(),
            next: 0,
            varying,
            order: self.order,
            random: fastrand::Rng::with_seed(self.seed),
            traffic: Some(self.clone()),
            stream,
            sequence: 0,
        })
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
        // The headers' length first: what is left is payload.
        let headers = self.emit(&mut [0; 256], 0)?.payload;
        let need = headers + if self.signed { SIGNATURE_LEN } else { 0 };
        if wire < need {
            let signature = if self.signed { " and the signature" } else { "" };
            return Err(TrafficError::TooShort { size, need: need + FCS, signature });
        }
        let mut bytes = vec![0; wire];
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

impl FrameMaker {
    /// Sends given frames as they are, one after the other, for ever.
    ///
    /// # Errors
    ///
    /// When there are none.
    pub fn of_frames(frames: Vec<Vec<u8>>) -> Result<FrameMaker, TrafficError> {
        if frames.is_empty() {
            return Err(TrafficError::Empty);
        }
        let template = |bytes| Template { bytes, fields: None };
        Ok(FrameMaker {
            templates: frames.into_iter().map(template).collect(),
            next: 0,
            varying: Vec::new(),
            order: Order::Sequential,
            random: fastrand::Rng::with_seed(0),
            traffic: None,
            stream: 0,
            sequence: 0,
        })
    }

    /// Length of the next frame, in bytes without FCS.
    #[inline]
    pub fn next_len(&self) -> usize {
        self.templates[self.next].bytes.len()
    }

    /// Length of the longest frame, in bytes without FCS.
    pub fn longest(&self) -> usize {
        self.templates.iter().map(|template| template.bytes.len()).max().unwrap_or(0)
    }

    /// Mean length of the frames, in bytes without FCS.
    pub fn mean_len(&self) -> f64 {
        let sum: usize = self.templates.iter().map(|template| template.bytes.len()).sum();
        sum as f64 / self.templates.len() as f64
    }

    /// Writes the next frame, which is [`FrameMaker::next_len`] bytes long, to
    /// `frame`, signed with `time` ([`now`](crate::now)).
    ///
    /// # Panics
    ///
    /// When `frame` has another length.
    #[inline]
    pub fn make(&mut self, frame: &mut [u8], time: u64) {
        let template = &self.templates[self.next];
        self.next += 1;
        if self.next == self.templates.len() {
            self.next = 0;
        }
        frame.copy_from_slice(&template.bytes);
        let (Some(fields), Some(traffic)) = (template.fields, &self.traffic) else { return };
        if !self.varying.is_empty() {
            for varying in &mut self.varying {
                if self.order == Order::Random {
                    varying.index = self.random.u64(..varying.values.count());
                }
                varying.write(frame, &fields, traffic);
            }
            if self.order == Order::Sequential {
                advance(&mut self.varying);
            }
        }
        if traffic.signed {
            let signature = Signature { stream: self.stream, sequence: self.sequence, time };
            let (behind_transport, in_frame) = fields.payload;
            let signed = match traffic.protocol {
                Protocol::Raw(_) => set(frame, in_frame, &signature.to_bytes()),
                _ => fields.patch.set_payload(frame, behind_transport, &signature.to_bytes()),
            };
            debug_assert!(signed, "templates have room for the signature");
        }
        self.sequence += 1;
    }
}

/// To the next combination: the first index that does not wrap stops the carry.
#[inline]
fn advance(varying: &mut [Varying]) {
    for varying in varying {
        varying.index += 1;
        if varying.index < varying.values.count() {
            return;
        }
        varying.index = 0;
    }
}

impl Varying {
    /// Writes the current value. The templates were made with these fields, so
    /// that they are there is known.
    #[inline]
    fn write(&self, frame: &mut [u8], fields: &Fields, traffic: &Traffic) {
        let value = self.values.at(self.index);
        let patch = &fields.patch;
        let v4 = || Ipv4Addr::from_bits(value as u32);
        let v6 = || Ipv6Addr::from_bits(value);
        let written = match self.field {
            Field::SourcePort => patch.set_src_port(frame, value as u16),
            Field::DestinationPort => patch.set_dst_port(frame, value as u16),
            Field::Source if traffic.ipv6 => patch.set_src_v6(frame, v6()),
            Field::Source => patch.set_src_v4(frame, v4()),
            Field::Destination if traffic.ipv6 => patch.set_dst_v6(frame, v6()),
            Field::Destination => patch.set_dst_v4(frame, v4()),
            Field::Vlan => {
                let tag = if traffic.outer_vlan.is_some() { 18 } else { 14 };
                let tci = Tci::new(traffic.priority, false, value as u16);
                set(frame, tag, &tci.0.to_be_bytes())
            }
            Field::SourceMac => set(frame, 6, &MacAddr::from_u64(value as u64).octets()),
            Field::DestinationMac => set(frame, 0, &MacAddr::from_u64(value as u64).octets()),
        };
        debug_assert!(written, "templates have all their fields");
    }
}

/// Writes bytes that no checksum covers.
#[inline]
fn set<const N: usize>(frame: &mut [u8], at: usize, bytes: &[u8; N]) -> bool {
    match frame.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        Some(field) => {
            *field = *bytes;
            true
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use linerate_packet::{Ethernet, Ipv4, Ipv6, Tcp, Udp, checksum, vlan};

    use super::*;

    fn traffic() -> Traffic {
        let one = Values::one;
        Traffic {
            sizes: "64".parse().unwrap(),
            protocol: Protocol::Udp,
            ipv6: false,
            traffic_class: 0,
            ttl: 64,
            outer_vlan: None,
            priority: 0,
            variation: Variation {
                source_ports: one(1000),
                destination_ports: one(9),
                sources: one(0x0a00_0001),
                destinations: one(0x0a00_0002),
                vlans: None,
                source_macs: one(0x0200_0000_0001),
                destination_macs: one(0x0200_0000_0002),
            },
            order: Order::Sequential,
            signed: true,
            seed: 1,
        }
    }

    fn frames(traffic: &Traffic, count: usize) -> Vec<Vec<u8>> {
        let mut maker = traffic.maker(3).unwrap();
        let mut make = || {
            let mut frame = vec![0; maker.next_len()];
            maker.make(&mut frame, 12345);
            frame
        };
        (0..count).map(|_| make()).collect()
    }

    /// Parses with our views and verifies every checksum.
    fn assert_valid(frame: &[u8]) {
        let tags = vlan::walk(frame).unwrap();
        let packet = &frame[tags.payload..];
        let (pseudo, transport, protocol) = if tags.ether_type == EtherType::IPV6 {
            let ip = Ipv6::new_checked(packet).unwrap();
            let protocol = ip.next_header();
            (ip.pseudo_header(protocol, u32::from(ip.payload_len())), &packet[40..], protocol)
        } else {
            assert!(checksum::verify(&packet[..20]));
            let ip = Ipv4::new_checked(packet).unwrap();
            (ip.pseudo_header(), &packet[20..], ip.protocol())
        };
        let mut sum = match protocol.0 {
            1 => checksum::Sum::default(),
            _ => pseudo,
        };
        sum.add_bytes(transport);
        assert!(sum.is_valid(), "{frame:02x?}");
    }

    #[test]
    fn the_smallest_signed_frame() {
        let frames = frames(&traffic(), 2);
        assert_eq!(frames[0].len(), 60);
        let signature = Signature::from_bytes(&frames[1][42..]).unwrap();
        assert_eq!(signature, Signature { stream: 3, sequence: 1, time: 12345 });
        frames.iter().for_each(|frame| assert_valid(frame));
        assert_eq!(
            Ethernet::new_checked(&frames[0][..]).unwrap().src(),
            MacAddr([2, 0, 0, 0, 0, 1])
        );
    }

    #[test]
    fn checksums_hold_whatever_varies() {
        for protocol in [Protocol::Udp, Protocol::Tcp, Protocol::Icmp] {
            for ipv6 in [false, true] {
                for order in [Order::Sequential, Order::Random] {
                    for tags in 0..3 {
                        let mut t = traffic();
                        t.protocol = protocol;
                        t.ipv6 = ipv6;
                        t.order = order;
                        t.sizes = "128,105,1518".parse().unwrap();
                        t.variation.source_ports = Values::between(1, 65535).unwrap();
                        t.variation.sources = Values::between(0xff00, 0x2_0000).unwrap();
                        t.variation.vlans = (tags > 0).then(|| Values::between(1, 9).unwrap());
                        t.outer_vlan = (tags > 1).then_some(7);
                        frames(&t, 500).iter().for_each(|frame| assert_valid(frame));
                    }
                }
            }
        }
    }

    #[test]
    fn sequential_order_goes_through_all_combinations() {
        let mut t = traffic();
        t.variation.source_ports = Values::between(10, 11).unwrap();
        t.variation.destination_ports = Values::between(20, 22).unwrap();
        let pairs: Vec<(u16, u16)> = frames(&t, 7)
            .iter()
            .map(|frame| Udp::new_checked(&frame[34..]).unwrap())
            .map(|udp| (udp.src_port(), udp.dst_port()))
            .collect();
        let expected = [(10, 20), (11, 20), (10, 21), (11, 21), (10, 22), (11, 22), (10, 20)];
        assert_eq!(pairs, expected);
    }

    #[test]
    fn tags_and_addresses_vary() {
        let mut t = traffic();
        t.sizes = "128".parse().unwrap();
        t.protocol = Protocol::Tcp;
        t.outer_vlan = Some(100);
        t.priority = 5;
        t.variation.vlans = Values::between(1, 2);
        t.variation.destination_macs = Values::between(1, 4).unwrap();
        let frames = frames(&t, 8);
        let tags = vlan::walk(&frames[1]).unwrap();
        assert_eq!(tags.outer.unwrap(), Tci::new(5, false, 100));
        assert_eq!(tags.inner.unwrap(), Tci::new(5, false, 2));
        assert_eq!(frames[7][..6], [0, 0, 0, 0, 0, 4]);
        assert_eq!(Tcp::new_checked(&frames[0][42..]).unwrap().src_port(), 1000);
    }

    #[test]
    fn raw_frames_are_signed_behind_the_type() {
        let mut t = traffic();
        t.protocol = Protocol::Raw(0x88b5);
        let frames = frames(&t, 2);
        assert_eq!(frames[1][12..14], [0x88, 0xb5]);
        assert_eq!(Signature::from_bytes(&frames[1][14..]).unwrap().sequence, 1);
    }

    #[test]
    fn contradictions_are_named() {
        let mut t = traffic();
        t.ipv6 = true;
        let error = t.maker(0).unwrap_err();
        assert_eq!(
            error.to_string(),
            "frames of 64 bytes are too short: these headers and the \
                                       signature need 84 bytes with FCS"
        );
        t.signed = false;
        assert!(t.maker(0).unwrap_err().to_string().contains("need 66"));
        let mut t = traffic();
        t.variation.vlans = Values::between(1, 5000);
        assert!(t.maker(0).unwrap_err().to_string().contains("vlan 5000 is above 4094"));
        assert!(FrameMaker::of_frames(Vec::new()).is_err());
    }

    #[test]
    fn given_frames_go_out_as_they_are() {
        let mut maker = FrameMaker::of_frames(vec![vec![1; 60], vec![2; 70]]).unwrap();
        let mut frame = [0; 60];
        maker.make(&mut frame, 0);
        assert_eq!((frame, maker.next_len(), maker.longest()), ([1; 60], 70, 70));
    }
}
