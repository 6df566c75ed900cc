//! Elements for IPv6 packets.
#![forbid(unsafe_code)]

use linerate_graph::Class;

mod address_translator;
mod check_ip6_header;
mod dec_ip6_hlim;
mod discovery;
mod get_ip6_address;
mod header;
mod icmp6_error;
mod icmp6_ping_responder;
mod ip6_encap;
mod ip6_fragmenter;
mod ip6_mirror;
mod ip6_print;
mod mark_ip6_header;
mod set_ip6_dscp;
#[cfg(test)]
mod testing;
mod translation;
mod udp_ip6_encap;

/// The classes of its families.
pub const FAMILIES: &[&[&Class]] = &[CLASSES];

const CLASSES: &[&Class] = &[
    &address_translator::CLASS,
    &check_ip6_header::CLASS,
    &dec_ip6_hlim::CLASS,
    &discovery::ADVERTISER,
    &discovery::SOLICITOR,
    &get_ip6_address::GET,
    &get_ip6_address::SET,
    &icmp6_error::CLASS,
    &icmp6_ping_responder::CLASS,
    &ip6_encap::CLASS,
    &ip6_fragmenter::CLASS,
    &ip6_mirror::CLASS,
    &ip6_print::CLASS,
    &mark_ip6_header::CLASS,
    &set_ip6_dscp::CLASS,
    &translation::FROM_V4,
    &translation::FROM_V6,
    &udp_ip6_encap::CLASS,
];

/// The name of the family in the reference.
const FAMILY: &str = "ip6";
