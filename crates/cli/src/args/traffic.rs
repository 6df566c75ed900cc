//! Arguments that describe frames.

use clap::Args;
use linerate_lab::{Sizes, Traffic, Values};
use linerate_packet::MacAddr;

use crate::{
    exit::UsageError,
    ranges::{Addresses, parse_macs, parse_numbers},
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
    fn what_is_not_said_has_test_addresses() {
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
