//! Elements for IPv4 packets.

use linerate_graph::Class;

mod check;
mod check_ip_header;
mod combos;
mod dec_ip_ttl;
mod fix_ip_src;
mod get_ip_address;
mod ip_encap;
mod ip_fragmenter;
mod ip_gw_options;
mod ip_mirror;
mod ip_print;
mod ip_rate_monitor;
mod ip_reassembler;
mod mark_ip_header;
mod middlebox;
mod options;
mod print_lines;
mod rate_tree;
mod reassembly;
mod rip_send;
mod service;
mod set_ip_checksum;
mod set_rand_ip_address;
mod store_ip_address;
mod strip_ip_header;
#[cfg(test)]
mod tests;
mod truncate_ip_payload;

/// The family's classes.
pub(crate) const CLASSES: &[&Class] = &[
    &check_ip_header::CLASS,
    &check_ip_header::CLASS_2,
    &combos::INPUT,
    &combos::OUTPUT,
    &dec_ip_ttl::CLASS,
    &fix_ip_src::CLASS,
    &get_ip_address::GET,
    &get_ip_address::SET,
    &ip_encap::CLASS,
    &ip_fragmenter::CLASS,
    &ip_gw_options::CLASS,
    &ip_mirror::CLASS,
    &ip_print::CLASS,
    &ip_rate_monitor::CLASS,
    &ip_reassembler::CLASS,
    &mark_ip_header::CLASS,
    &middlebox::IN,
    &middlebox::OUT,
    &rip_send::CLASS,
    &service::MARK_CE,
    &service::SET_DSCP,
    &service::SET_ECN,
    &set_ip_checksum::RESET,
    &set_ip_checksum::SET,
    &set_rand_ip_address::CLASS,
    &store_ip_address::CLASS,
    &strip_ip_header::STRIP,
    &strip_ip_header::STRIP_TCP,
    &strip_ip_header::STRIP_TRANSPORT,
    &strip_ip_header::STRIP_UDP,
    &strip_ip_header::UNSTRIP,
    &strip_ip_header::UNSTRIP_TCP,
    &strip_ip_header::UNSTRIP_TRANSPORT,
    &truncate_ip_payload::CLASS,
];

/// The name of the family in the reference.
const FAMILY: &str = "ip";

/// A time of day as IP and ICMP have it, from nanoseconds since the epoch.
fn milliseconds_of_day(now: u64) -> u32 {
    (now / 1_000_000 % 86_400_000) as u32
}
