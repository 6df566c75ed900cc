//! Elements for TCP and UDP.

use linerate_graph::Class;

pub(crate) mod check;
mod check_headers;
mod fast;
mod fast_tcp;
mod fast_udp;
mod fast_udp6;
mod quota;
mod rfc2507;
mod set_checksum;
mod tcp_fragmenter;
mod tcp_ip_send;
mod tcp_mss_clamp;
mod tcp_reflector;
mod udp_ip_encap;
mod web_gen;

/// The family's classes.
pub(crate) const CLASSES: &[&Class] = &[
    &check_headers::TCP,
    &check_headers::UDP,
    &fast_tcp::CLASS,
    &fast_udp::FLOWS,
    &fast_udp::SOURCE,
    &fast_udp6::CLASS,
    &rfc2507::COMPRESSOR,
    &rfc2507::DECOMPRESSOR,
    &set_checksum::TCP,
    &set_checksum::UDP,
    &tcp_fragmenter::CLASS,
    &tcp_ip_send::CLASS,
    &tcp_mss_clamp::CLASS,
    &tcp_reflector::CLASS,
    &udp_ip_encap::CLASS,
    &udp_ip_encap::DYNAMIC,
    &web_gen::CLASS,
];

/// The name of the family in the reference.
const FAMILY: &str = "tcpudp";
