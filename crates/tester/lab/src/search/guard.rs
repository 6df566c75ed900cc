//! RFC 6815's guard: benchmarks are for isolated networks.

use std::net::IpAddr;

use linerate_model::units::PacketsPerSecond;

/// Rates above this are refused outside of the test networks.
pub const HIGH_RATE: PacketsPerSecond = PacketsPerSecond::new(1000.0);

/// Test traffic that might harm others.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "{address} is not in 198.18.0.0/15 or 2001:2::/48, and more than {HIGH_RATE} may harm the \
     network it belongs to (RFC 6815): use test addresses, or say that the network is isolated"
)]
pub struct OutsideTestNetworks {
    /// The first address outside.
    pub address: IpAddr,
}

/// Returns true if an address is one of those set aside for benchmarks: 198.18.0.0/15 (RFC 2544) or
/// `2001:2::/48` (RFC 5180).
pub fn is_test_address(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let [first, second, ..] = address.octets();
            first == 198 && second & 0xfe == 18
        }
        IpAddr::V6(address) => address.segments()[..3] == [0x2001, 2, 0],
    }
}

/// Permits traffic to and from these addresses at a rate; `None` is as fast as possible.
///
/// # Errors
///
/// Names an address outside of the test networks, unless the rate is low or the network is said to
/// be isolated.
pub fn permit(
    addresses: impl IntoIterator<Item = IpAddr>,
    rate: Option<PacketsPerSecond>,
    isolated: bool,
) -> Result<(), OutsideTestNetworks> {
    if isolated || rate.is_some_and(|rate| rate <= HIGH_RATE) {
        return Ok(());
    }
    match addresses.into_iter().find(|&address| !is_test_address(address)) {
        Some(address) => Err(OutsideTestNetworks { address }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn test_networks_are_known_to_the_bit() {
        for inside in
            ["198.18.0.0", "198.19.255.255", "2001:2::", "2001:2:0:ffff::1", "::ffff:198.18.0.1"]
        {
            assert!(is_test_address(address(inside)), "{inside}");
        }
        for outside in [
            "198.17.255.255",
            "198.20.0.0",
            "10.0.0.1",
            "2001:2:1::",
            "2001:1:ffff::",
            "::198.18.0.1",
        ] {
            assert!(!is_test_address(address(outside)), "{outside}");
        }
    }

    #[test]
    fn high_rates_need_test_addresses_or_isolation() {
        let fast = Some(PacketsPerSecond::new(1e6));
        let slow = Some(HIGH_RATE);
        let test = [address("198.18.0.1"), address("198.19.0.1")];
        let other = [address("198.18.0.1"), address("192.0.2.1")];
        assert_eq!(permit(test, fast, false), Ok(()));
        assert_eq!(permit(other, slow, false), Ok(()));
        assert_eq!(permit(other, fast, true), Ok(()));
        let refused = permit(other, fast, false).unwrap_err();
        assert_eq!(refused.address, address("192.0.2.1"));
        assert!(refused.to_string().contains("1 kpps"), "{refused}");
        // As fast as possible is fast.
        assert!(permit(other, None, false).is_err());
    }
}
