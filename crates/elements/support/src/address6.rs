//! IPv6 addresses as Click writes them.

use std::net::Ipv6Addr;

/// An address as text: that of RFC 5952, but with the last four bytes as an
/// IPv4 address wherever the first twelve are zero and these are not.
pub fn text(address: Ipv6Addr) -> String {
    match address.to_bits() {
        bits @ 1..=0xffff_ffff => format!("::{}", std::net::Ipv4Addr::from(bits as u32)),
        _ => address.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Click 2.1's form of addresses.
    #[test]
    fn addresses_are_written_as_click_writes_them() {
        for (address, expected) in [
            ("::", "::"),
            ("::1", "::0.0.0.1"),
            ("::ffff:1.2.3.4", "::ffff:1.2.3.4"),
            ("fe80::1", "fe80::1"),
            ("3ffe::", "3ffe::"),
            ("1:0:0:2:0:0:0:3", "1:0:0:2::3"),
            ("1:0:2:3:4:5:6:7", "1:0:2:3:4:5:6:7"),
            ("::1:0:0", "::1:0:0"),
        ] {
            assert_eq!(text(address.parse().unwrap()), expected);
        }
    }
}
