//! Elements that rewrite flows: addresses, ports and identifiers, in both directions.
//!
//! A rewriter's packets are looked up in a table of flows, a frame at a time
//! ([`linerate_lookup::exact`]). Both directions of a flow are entries of it, with all that is
//! needed to rewrite a packet: new addresses and ports, and the changes of the checksums. New flows
//! are decided by the input's specification ([`spec`]): a pattern, perhaps with a range of which a
//! free value is chosen ([`port_alloc`]), or an element that chooses among patterns ([`mapper`]).
//!
//! Rewriters that share a capacity share a table ([`flow_set`]), and so do the replicas of a
//! rewriter on several workers, since the two directions of a rewritten flow have different hashes
//! and come to different workers. Nearly all packets change nothing of their flow but when it was last
//! used, which is an atomic word of their direction: they need the table only to read, so all workers
//! have it at once, by a lock of readers taken once for a frame. One that begins a flow, ends it, or is
//! among its first has the table to itself, for itself and a few packets behind it. A table per worker
//! would need no lock, and hands from worker to worker wherever answers come elsewhere, which is
//! everywhere. [`registry`] is where elements find each other's tables, and [`names`] each other's
//! patterns.
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
mod times;
mod udp_rewriter;
#[cfg(test)]
mod worker_tests;

/// The classes of its families.
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

/// Classes that have flows.
const REWRITERS: &[&Class] = &[
    &icmp_ping_rewriter::CLASS,
    &ip_addr_pair_rewriter::CLASS,
    &ip_addr_rewriter::CLASS,
    &ip_rewriter::CLASS,
    &tcp_rewriter::CLASS,
    &udp_rewriter::CLASS,
];

/// Returns true if elements of a class have flows.
fn is_rewriter(class: &Class) -> bool {
    REWRITERS.iter().any(|rewriter| rewriter.name == class.name)
}
