//! Arguments that describe frames.

use std::{path::PathBuf, str::FromStr};

use clap::Args;
use linerate_lab::{Order, Protocol, Rate, Sizes, Traffic, Values};
use linerate_packet::MacAddr;

use crate::{
    exit::UsageError,
    ranges::{Addresses, parse_macs, parse_numbers},
    units::whole,
};

/// Sizes and addresses of frames.
#[derive(Debug, Clone, Args)]
pub(crate) struct Flows {
    /// Frame sizes: 64, a list 64,128,1518, a sweep 64-1518/64, or imix
    #[arg(long, short = 's', value_name = "SIZES", default_value = "64")]
    pub(crate) size: Sizes,

    /// IPv6 with the default test addresses
    #[arg(long, short = '6')]
    ipv6: bool,

    /// Source addresses: one, A-B, or a prefix [default: 198.18.0.1]
    #[arg(long, value_name = "ADDRESSES")]
    src: Option<Addresses>,

    /// Destination addresses: one, A-B, or a prefix [default: 198.19.0.1]
    #[arg(long, value_name = "ADDRESSES")]
    dst: Option<Addresses>,

    /// Source ports: one or A-B
    #[arg(long, value_name = "PORTS", default_value = "1024", value_parser = parse_numbers)]
    sport: Values,

    /// Destination ports: one or A-B
    #[arg(long, value_name = "PORTS", default_value = "9", value_parser = parse_numbers)]
    dport: Values,

    /// Source Ethernet addresses: one or A-B [default: the port's]
    #[arg(long, value_name = "MACS", value_parser = parse_macs)]
    src_mac: Option<Values>,

    /// Destination Ethernet addresses: one or A-B [default: 02:00:00:00:00:02]
    #[arg(long, value_name = "MACS", value_parser = parse_macs)]
    dst_mac: Option<Values>,
}

impl Flows {
    /// Traffic of such frames from a port with this address.
    pub(crate) fn traffic(&self, own: Option<MacAddr>) -> Result<Traffic, UsageError> {
        let mut given = [self.src, self.dst].into_iter().flatten();
        let ipv6 = self.ipv6 || given.clone().any(|addresses| addresses.ipv6);
        if given.any(|addresses| addresses.ipv6 != ipv6) {
            let reason = "--src and --dst must be both IPv4 or both IPv6 addresses";
            return Err(UsageError(reason.into()));
        }
        let mut traffic = Traffic::new(self.size.clone(), ipv6);
        let varied = &mut traffic.variation;
        varied.source_ports = self.sport;
        varied.destination_ports = self.dport;
        let own = own.map(|mac| Values::one(mac.to_u64().into()));
        for (field, values) in [
            (&mut varied.sources, self.src.map(|addresses| addresses.values)),
            (&mut varied.destinations, self.dst.map(|addresses| addresses.values)),
            (&mut varied.source_macs, self.src_mac.or(own)),
            (&mut varied.destination_macs, self.dst_mac),
        ] {
            *field = values.unwrap_or(*field);
        }
        Ok(traffic)
    }
}

/// The frames of a stream, and how many of them.
#[derive(Debug, Clone, Args)]
pub(crate) struct Stream {
    #[command(flatten)]
    pub(crate) flows: Flows,

    /// How fast: max, 1.5Mpps, 100Mbit/s (on the wire), or 25% of the link
    #[arg(long, short = 'r', value_name = "RATE", default_value = "max")]
    pub(crate) rate: Rate,

    /// Payload protocol: udp, tcp, icmp, or an ethertype such as 0x88b5
    #[arg(long, value_name = "PROTOCOL", default_value = "udp")]
    pub(crate) protocol: ProtocolArg,

    /// VLANs of an 802.1Q tag: one or A-B
    #[arg(long, value_name = "VLANS", value_parser = parse_numbers)]
    pub(crate) vlan: Option<Values>,

    /// VLAN of an 802.1ad tag around the 802.1Q tag
    #[arg(long, value_name = "VLAN", requires = "vlan", value_parser = whole(0u16..=u16::MAX))]
    pub(crate) outer_vlan: Option<u16>,

    /// Priority of the tags, 0 to 7
    #[arg(long, value_name = "PRIORITY", default_value_t = 0, value_parser = whole(0u8..=255))]
    pub(crate) priority: u8,

    /// Time to live or hop limit
    #[arg(long, value_name = "HOPS", default_value_t = 64, value_parser = whole(0u8..=255))]
    pub(crate) ttl: u8,

    /// Type of service or traffic class: DSCP and ECN in one byte
    #[arg(long, value_name = "BYTE", default_value_t = 0, value_parser = whole(0u8..=255))]
    pub(crate) tos: u8,

    /// How ranges are gone through: sequential (all combinations) or random
    #[arg(long, value_name = "ORDER", default_value = "sequential")]
    pub(crate) order: OrderArg,

    /// Send frames without sequence number and time
    #[arg(long)]
    pub(crate) unsigned: bool,

    /// Send the frames of this capture, over and over, instead
    #[arg(long, value_name = "FILE", conflicts_with_all = ["size", "protocol", "ipv6", "src",
          "dst", "sport", "dport", "vlan", "outer_vlan", "src_mac", "dst_mac", "order"])]
    pub(crate) pcap: Option<PathBuf>,

    /// Payload behind sequence number and time, repeated to its end: text, or bytes as in
    /// 0xdeadbeef [default: zeros]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub(crate) payload: Option<Bytes>,
}

/// Bytes of a payload.
#[derive(Debug, Clone)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

pub(super) fn parse_bytes(text: &str) -> Result<Bytes, String> {
    let Some(digits) = text.strip_prefix("0x") else { return Ok(Bytes(text.into())) };
    let pair = |at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(pair).collect();
    let bytes = bytes.filter(|bytes| !bytes.is_empty());
    Ok(Bytes(bytes.ok_or("after 0x come bytes of two hexadecimal digits each")?))
}

impl Stream {
    /// The frames to be sent from a port with this address.
    pub(crate) fn traffic(&self, own: Option<MacAddr>, seed: u64) -> Result<Traffic, UsageError> {
        let mut traffic = self.flows.traffic(own)?;
        traffic.variation.vlans = self.vlan;
        Ok(Traffic {
            protocol: self.protocol.0,
            traffic_class: self.tos,
            ttl: self.ttl,
            outer_vlan: self.outer_vlan,
            priority: self.priority,
            order: self.order.0,
            signed: !self.unsigned,
            payload: self.payload.clone().map_or(Vec::new(), |bytes| bytes.0),
            seed,
            ..traffic
        })
    }

    /// The frames in words, for people.
    pub(crate) fn describe(&self) -> String {
        match (&self.pcap, self.protocol.0) {
            (Some(path), _) => format!("frames of {}", path.display()),
            (None, Protocol::Raw(ether_type)) => {
                format!("{} bytes, ethertype {ether_type:#06x}", self.flows.size)
            }
            (None, protocol) => {
                format!("{} bytes, {}", self.flows.size, format!("{protocol:?}").to_lowercase())
            }
        }
    }
}

/// A protocol as people type it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProtocolArg(pub(crate) Protocol);

impl FromStr for ProtocolArg {
    type Err = String;

    fn from_str(text: &str) -> Result<ProtocolArg, String> {
        let protocol = match text {
            "udp" => Protocol::Udp,
            "tcp" => Protocol::Tcp,
            "icmp" => Protocol::Icmp,
            _ => {
                let digits = text.strip_prefix("0x");
                let number = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
                // Below are lengths, not types (IEEE Std 802.3, 3.2.6).
                Protocol::Raw(number.filter(|&number| number >= 0x600).ok_or_else(|| {
                    format!("{text:?} is not a protocol: write udp, tcp, icmp or 0x88b5")
                })?)
            }
        };
        Ok(ProtocolArg(protocol))
    }
}

/// An order as people type it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OrderArg(pub(crate) Order);

impl FromStr for OrderArg {
    type Err = String;

    fn from_str(text: &str) -> Result<OrderArg, String> {
        match text {
            "sequential" => Ok(OrderArg(Order::Sequential)),
            "random" => Ok(OrderArg(Order::Random)),
            _ => Err(format!("{text:?} is not an order: write sequential or random")),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flows: Flows,
    }

    fn traffic(line: &str) -> Result<Traffic, String> {
        let words = std::iter::once("test").chain(line.split_whitespace());
        let line = Line::try_parse_from(words).unwrap();
        line.flows.traffic(Some(MacAddr([2, 0, 0, 0, 0, 9]))).map_err(|error| error.to_string())
    }

    #[test]
    fn addresses_not_given_are_test_addresses() {
        let made = traffic("--size 128,256 --dst 198.19.0.0/24 --sport 1-9").unwrap();
        assert!(!made.ipv6 && made.sizes.largest() == 256);
        let varied = made.variation;
        assert_eq!(varied.sources, Values::one(0xc612_0001));
        assert_eq!((varied.destinations.count(), varied.source_ports.count()), (256, 9));
        assert_eq!(varied.source_macs, Values::one(0x0200_0000_0009));
        assert_eq!(varied.destination_macs, Values::one(0x0200_0000_0002));
    }

    #[test]
    fn addresses_are_of_one_family() {
        let made = traffic("--dst 2001:2::7").unwrap();
        assert!(made.ipv6);
        assert_eq!(made.variation.sources, Values::one(0x2001_0002 << 96 | 1));
        for wrong in ["--src 198.18.0.1 --dst 2001:2::7", "-6 --dst 198.19.0.1"] {
            assert!(traffic(wrong).unwrap_err().contains("both IPv4 or both IPv6"), "{wrong}");
        }
    }
}
