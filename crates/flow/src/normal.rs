//! `NORMAL`: what a switch without a controller does, which is to learn where addresses are.
//!
//! All ports carry all VLANs. There is no spanning tree, no bonding and no snooping of multicast.

/// Where addresses were seen, by VLAN.
#[derive(Debug, Default)]
pub struct Hosts {}

impl Hosts {
    /// Forgets addresses that were not seen for long; each is given to `gone` with its VLAN.
    pub fn expire(&self, _now: u64, _gone: &mut dyn FnMut(u16, u64)) {}

    /// Forgets all addresses at a port; each is given to `gone` with its VLAN.
    pub fn forget_port(&self, _port: u32, _gone: &mut dyn FnMut(u16, u64)) {}
}
