//! Elements for TCP and UDP.

use linerate_graph::Class;

pub(crate) mod check;
mod check_headers;
mod fast_udp;
mod set_checksum;
mod udp_ip_encap;

/// The family's classes.
pub(crate) const CLASSES: &[&Class] = &[
    &check_headers::TCP,
    &check_headers::UDP,
    &fast_udp::FLOWS,
    &fast_udp::SOURCE,
    &set_checksum::TCP,
    &set_checksum::UDP,
    &udp_ip_encap::CLASS,
    &udp_ip_encap::DYNAMIC,
];

/// The name of the family in the reference.
const FAMILY: &str = "tcpudp";
