//! Typed ranges of addresses, ports and tags.

use std::{net::IpAddr, str::FromStr};

use linerate_lab::Values;
use linerate_packet::MacAddr;

/// IP addresses of one family: one, `A-B`, or a prefix `A/24`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Addresses {
    pub(crate) ipv6: bool,
    pub(crate) values: Values,
}

impl FromStr for Addresses {
    type Err = String;

    fn from_str(text: &str) -> Result<Addresses, String> {
        let wrong = || {
            format!(
                "{text:?} are not addresses: write one, a range 10.0.0.1-10.0.0.9, or 10.0.0.0/24"
            )
        };
        let bits = |text: &str| -> Result<(bool, u128), String> {
            Ok(match text.trim().parse().map_err(|_| wrong())? {
                IpAddr::V4(address) => (false, address.to_bits().into()),
                IpAddr::V6(address) => (true, address.to_bits()),
            })
        };
        let too_many = || format!("{text:?}: a range holds at most 2^32 addresses");
        let (ipv6, first, last) = if let Some((address, length)) = text.split_once('/') {
            let (ipv6, address) = bits(address)?;
            let width = if ipv6 { 128 } else { 32 };
            let length: u32 = length.parse().map_err(|_| wrong())?;
            let host = width - Some(length).filter(|&l| l <= width).ok_or_else(wrong)?;
            let mask = 1u128.checked_shl(host).map_or(u128::MAX, |size| size - 1);
            (ipv6, address & !mask, address | mask)
        } else {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            let ((ipv6, first), (other, last)) = (bits(first)?, bits(last)?);
            if ipv6 != other || first > last {
                return Err(wrong());
            }
            (ipv6, first, last)
        };
        let values = Values::between(first, last).ok_or_else(too_many)?;
        Ok(Addresses { ipv6, values })
    }
}

/// Numbers up to 65535: one or `A-B`.
pub(crate) fn parse_numbers(text: &str) -> Result<Values, String> {
    let wrong = || format!("{text:?} is not a number or a range A-B of numbers up to 65535");
    let number = |text: &str| text.trim().parse::<u16>().map_err(|_| wrong());
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Values::between(number(first)?.into(), number(last)?.into()).ok_or_else(wrong)
}

/// Ethernet addresses: one, or `A-B` with colons in both.
pub(crate) fn parse_macs(text: &str) -> Result<Values, String> {
    let wrong = || {
        format!("{text:?} is not an Ethernet address like 02:00:00:00:00:01 or a range A-B of them")
    };
    let mac = |text: &str| -> Result<u128, String> {
        Ok(text.trim().parse::<MacAddr>().map_err(|_| wrong())?.to_u64().into())
    };
    match text.split_once('-').filter(|_| text.contains(':')) {
        Some((first, last)) => Values::between(mac(first)?, mac(last)?).ok_or_else(wrong),
        None => Ok(Values::one(mac(text)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(text: &str) -> (bool, u64, u128) {
        let parsed: Addresses = text.parse().unwrap();
        (parsed.ipv6, parsed.values.count(), parsed.values.at(0))
    }

    #[test]
    fn addresses_ranges_and_prefixes() {
        assert_eq!(addresses("10.0.0.1"), (false, 1, 0x0a00_0001));
        assert_eq!(addresses("10.0.0.1-10.0.0.9"), (false, 9, 0x0a00_0001));
        assert_eq!(addresses("10.0.0.7/24"), (false, 256, 0x0a00_0000));
        assert_eq!(addresses("2001:2::/120"), (true, 256, 0x2001_0002 << 96));
        assert_eq!(addresses("0.0.0.0/0").1, 1 << 32);
        for text in ["", "10.0.0", "10.0.0.9-10.0.0.1", "1.2.3.4-::1", "1.2.3.4/33", "::/0"] {
            assert!(text.parse::<Addresses>().is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_and_macs() {
        assert_eq!(parse_numbers("80").unwrap().count(), 1);
        assert_eq!(parse_numbers("1000-1999").unwrap().count(), 1000);
        assert_eq!(parse_macs("02:00:00:00:00:01-02:00:00:00:00:10").unwrap().count(), 16);
        assert_eq!(parse_macs("02-00-00-00-00-01").unwrap().count(), 1);
        for text in ["", "70000", "5-4", "a"] {
            assert!(parse_numbers(text).is_err(), "{text}");
            assert!(parse_macs(text).is_err(), "{text}");
        }
    }
}
