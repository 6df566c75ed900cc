//! Elements that rewrite flows: addresses, ports and identifiers, in both directions.
//!
//! A rewriter looks its packets up in a flow table, a frame at a time ([`linerate_tables::exact`]).
//! Each direction of a flow is an entry, with all that is needed to rewrite a packet: new addresses
//! and ports, and checksum differences. The input's specification ([`spec`]) decides on new flows: a
//! pattern, perhaps with a range from which a free value is chosen ([`port_alloc`]), or an element
//! that chooses among patterns ([`mapper`]).
//!
//! Rewriters that share a capacity share a table ([`flow_set`]), and so do the replicas of a
//! rewriter on several workers, since the two directions of a rewritten flow have different hashes
//! and arrive at different workers. Nearly every packet changes only the time its flow was last used,
//! an atomic word of the entry. Such packets need a read lock alone, taken once for a frame, so that
//! workers do not wait for each other. A packet that begins or ends a flow, or is among its first,
//! takes the write lock, for itself and a few packets behind it. Tables per worker would need no
//! locks, but a hand-over between workers for nearly every reply. Elements find each other's tables in
//! [`registry`], and each other's patterns in [`names`].
#![forbid(unsafe_code)]

use linerate_graph::Class;

mod arguments;
mod batch_state;
#[cfg(test)]
mod expiry_tests;
mod flow_lookup;
mod flow_set;
mod ftp_port_mapper;
mod handlers;
mod icmp_ping_rewriter;
mod icmp_rewriter;
mod ip_addr_pair_rewriter;
mod ip_addr_rewriter;
mod ip_rewriter;
mod ip_rewriter_patterns;
mod locks;
mod mapper;
mod mapping;
#[cfg(test)]
mod model_tests;
mod names;
mod pattern;
mod port_alloc;
mod port_bitmap;
mod registry;
mod rewrite;
mod rewriter;
mod rewriter_type;
mod ring;
mod round_robin_ip_mapper;
mod seq_adjust;
mod sequence;
mod source_ip_hash_mapper;
mod spec;
mod table;
mod tcp_rewriter;
#[cfg(test)]
mod testing;
mod times;
mod udp_rewriter;
#[cfg(test)]
mod worker_tests;

/// The classes of this crate, by family.
pub const FAMILIES: &[&[&Class]] = &[CLASSES];

const CLASSES: &[&Class] = &[
    &ftp_port_mapper::CLASS,
    &icmp_ping_rewriter::CLASS,
    &icmp_rewriter::CLASS,
    &ip_addr_pair_rewriter::CLASS,
    &ip_addr_rewriter::CLASS,
    &ip_rewriter::CLASS,
    &ip_rewriter_patterns::CLASS,
    &round_robin_ip_mapper::CLASS,
    &source_ip_hash_mapper::CLASS,
    &tcp_rewriter::CLASS,
    &udp_rewriter::CLASS,
];

/// The name of the family in the reference.
const FAMILY: &str = "rewriting";

/// Classes with a flow table.
const REWRITERS: &[&Class] = &[
    &icmp_ping_rewriter::CLASS,
    &ip_addr_pair_rewriter::CLASS,
    &ip_addr_rewriter::CLASS,
    &ip_rewriter::CLASS,
    &tcp_rewriter::CLASS,
    &udp_rewriter::CLASS,
];

/// Returns true if a class has a flow table.
fn is_rewriter(class: &Class) -> bool {
    REWRITERS.iter().any(|rewriter| rewriter.name == class.name)
}
