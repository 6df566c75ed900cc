//! Elements for Ethernet: headers, VLAN tags, tunnels, switches, and ARP.
#![forbid(unsafe_code)]

use std::net::Ipv4Addr;

use linerate_element_support::handler_values::value_of;
use linerate_graph::{Class, Context, HandlerError, Value};
use linerate_packet::MacAddr;

mod arp;
mod bpdu_guard;
mod drop_broadcasts;
mod ensure_ether;
mod ether_address;
pub(crate) mod ether_encap;
mod ether_mirror;
mod ether_pause_source;
mod ether_rewrite;
mod ether_switch;
mod header;
mod host_ether_filter;
pub(crate) mod mac_header;
mod mac_table;
mod set_packet_type;
mod set_vlan_anno;
mod span_tree;
mod tag;
#[cfg(test)]
mod testing;
mod vlan_decap;
mod vlan_encap;
mod vlan_switch;
mod vxlan;

/// The classes of its families.
pub const FAMILIES: &[&[&Class]] = &[CLASSES];

const CLASSES: &[&Class] = &[
    &arp::CHECK,
    &arp::FAKER,
    &arp::PRINT,
    &arp::QUERIER,
    &arp::RESPONDER,
    &arp::TABLE,
    &bpdu_guard::CLASS,
    &drop_broadcasts::CLASS,
    &ensure_ether::CLASS,
    &ether_address::GET,
    &ether_address::SET,
    &ether_address::STORE,
    &ether_encap::CLASS,
    &ether_mirror::CLASS,
    &ether_pause_source::CLASS,
    &ether_rewrite::CLASS,
    &ether_switch::CLASS,
    &ether_switch::LISTEN,
    &host_ether_filter::CLASS,
    &mac_header::CLASS,
    &set_packet_type::CLASS,
    &set_vlan_anno::CLASS,
    &set_vlan_anno::OLD,
    &span_tree::CLASS,
    &vlan_decap::STRIP,
    &vlan_decap::STRIP_OLD,
    &vlan_decap::CLASS,
    &vlan_encap::ETHER,
    &vlan_encap::ETHER_OLD,
    &vlan_encap::SHIM,
    &vlan_switch::CLASS,
    &vxlan::DECAP,
    &vxlan::ENCAP,
];

/// The name of the family in the reference.
const FAMILY: &str = "ethernet";

/// Bytes of the two addresses in front of it.
const ADDRESSES: usize = 12;
/// Bytes of a VLAN tag.
const TAG: usize = 4;

/// An Ethernet address written to a handler that is one.
fn written_mac(cx: &Context, text: &str) -> Result<MacAddr, HandlerError> {
    value_of(cx, text).map_err(|_| HandlerError::refused("expected Ethernet address"))
}

/// An IPv4 address written to a handler that is one.
fn written_ip(cx: &Context, text: &str) -> Result<Ipv4Addr, HandlerError> {
    value_of(cx, text).map_err(|_| HandlerError::refused("expected IP address"))
}

/// A value for an argument of that name, written to a handler.
fn written<T: Value>(cx: &Context, argument: &str, text: &str) -> Result<T, HandlerError> {
    value_of(cx, text).map_err(|error| HandlerError::refused(format!("{argument}: {error}")))
}
