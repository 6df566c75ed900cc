//! Ethernet addresses: a six-byte newtype with parsing and printing.

use core::fmt;
use core::str::FromStr;

/// A 48-bit Ethernet address.
///
/// ```
/// use linerate_packet::MacAddr;
/// let mac: MacAddr = "02:00:5e:10:00:01".parse().unwrap();
/// assert!(mac.is_unicast() && mac.is_local());
/// assert_eq!(mac.to_string(), "02:00:5e:10:00:01");
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// `ff:ff:ff:ff:ff:ff`.
    pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);
    /// `00:00:00:00:00:00`.
    pub const ZERO: MacAddr = MacAddr([0; 6]);

    /// The six octets in transmission order.
    #[inline]
    #[must_use]
    pub const fn octets(self) -> [u8; 6] {
        self.0
    }

    /// The address as a number below 2^48, first octet most significant; for table keys.
    #[inline]
    #[must_use]
    pub const fn to_u64(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// The address with the low 48 bits of `value` as its number; for address ranges.
    #[inline]
    #[must_use]
    pub const fn from_u64(value: u64) -> MacAddr {
        let [_, _, a, b, c, d, e, f] = value.to_be_bytes();
        MacAddr([a, b, c, d, e, f])
    }

    /// Is it a group address (multicast or broadcast)?
    #[inline]
    #[must_use]
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Is it the address of a single station? The all-zero address is not.
    #[inline]
    #[must_use]
    pub const fn is_unicast(self) -> bool {
        !self.is_multicast() && self.to_u64() != 0
    }

    /// Is it the broadcast address?
    #[inline]
    #[must_use]
    pub const fn is_broadcast(self) -> bool {
        self.to_u64() == MacAddr::BROADCAST.to_u64()
    }

    /// Is it locally administered rather than assigned by a manufacturer?
    #[inline]
    #[must_use]
    pub const fn is_local(self) -> bool {
        self.0[0] & 2 != 0
    }
}

impl From<[u8; 6]> for MacAddr {
    fn from(octets: [u8; 6]) -> Self {
        MacAddr(octets)
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not an Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an ethernet address: expected six hexadecimal octets such as 02:00:00:00:00:01")]
pub struct ParseMacError;

impl FromStr for MacAddr {
    type Err = ParseMacError;

    /// Six octets of one or two hexadecimal digits, all separated by `:` or all by `-`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let separator = if text.contains('-') { '-' } else { ':' };
        let mut octets = [0; 6];
        let mut parts = text.split(separator);
        for octet in &mut octets {
            let part = parts.next().ok_or(ParseMacError)?;
            // from_str_radix would accept a sign.
            if !matches!(part.len(), 1 | 2) || !part.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(ParseMacError);
            }
            *octet = u8::from_str_radix(part, 16).map_err(|_| ParseMacError)?;
        }
        match parts.next() {
            None => Ok(MacAddr(octets)),
            Some(_) => Err(ParseMacError),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn text_round_trip() {
        for (text, octets) in [
            ("00:00:00:00:00:00", [0; 6]),
            ("ff:ff:ff:ff:ff:ff", [0xff; 6]),
            ("02:00:5e:10:ab:01", [2, 0, 0x5e, 0x10, 0xab, 1]),
        ] {
            assert_eq!(text.parse(), Ok(MacAddr(octets)));
            assert_eq!(MacAddr(octets).to_string(), text);
            assert_eq!(MacAddr::from_u64(MacAddr(octets).to_u64()), MacAddr(octets));
        }
        assert_eq!("2-0-5E-10-AB-1".parse(), Ok(MacAddr([2, 0, 0x5e, 0x10, 0xab, 1])));
    }

    #[test]
    fn bad_text_is_refused() {
        for text in [
            "",
            "02",
            "02:00:00:00:00",
            "02:00:00:00:00:00:00",
            "02:00:00:00:00:0g",
            "02:00:00:00:00:",
            "02:00:00:00:00:+1",
            "02:00:00:00:00:001",
            "02:00-00:00:00:00",
            "020000000000",
        ] {
            assert_eq!(text.parse::<MacAddr>(), Err(ParseMacError), "{text}");
        }
    }

    #[test]
    fn kinds_of_address() {
        assert!(MacAddr::BROADCAST.is_broadcast() && MacAddr::BROADCAST.is_multicast());
        assert!(!MacAddr::ZERO.is_unicast() && !MacAddr::ZERO.is_multicast());
        let multicast = MacAddr([0x01, 0, 0x5e, 0, 0, 1]);
        assert!(multicast.is_multicast() && !multicast.is_broadcast() && !multicast.is_local());
    }
}
