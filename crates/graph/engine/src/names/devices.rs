//! Addresses of this machine's network devices: for names that the configuration does not define.

use std::net::Ipv4Addr;

use linerate_linux::interface::{self, Ipv4};
use linerate_packet::MacAddr;

/// Names of devices are no longer; the kernel is not asked for others.
const LONGEST: usize = 15;

fn can_be_device(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_graphic() && b != b'/';
    (1..=LONGEST).contains(&name.len()) && name.bytes().all(plain)
}

/// The Ethernet address of a device.
pub(crate) fn device_mac(name: &str) -> Option<MacAddr> {
    let link = can_be_device(name).then(|| interface::find(name).ok())??;
    // The loopback device has one that is all zeros.
    link.mac.filter(|mac| link.ethernet && *mac != [0; 6]).map(MacAddr)
}

/// The IPv4 address of a device and its mask.
pub fn device_ipv4(name: &str) -> Option<(Ipv4Addr, Ipv4Addr)> {
    let Ipv4 { address, prefix, .. } = device(name)?;
    let mask = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
    Some((address, mask.into()))
}

/// The gateway of the default route through a device.
pub(crate) fn device_gateway(name: &str) -> Option<Ipv4Addr> {
    device(name)?.gateway
}

fn device(name: &str) -> Option<Ipv4> {
    can_be_device(name).then(|| interface::ipv4(name).ok().flatten())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_device() {
        let expected = (Ipv4Addr::LOCALHOST, Ipv4Addr::new(255, 0, 0, 0));
        assert_eq!(device_ipv4("lo"), Some(expected));
        assert_eq!(device_gateway("lo"), None);
        assert_eq!(device_mac("lo"), None, "it carries no Ethernet");
        assert_eq!(device_ipv4("no such device"), None);
    }
}
