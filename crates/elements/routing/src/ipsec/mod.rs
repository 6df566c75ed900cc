//! Elements for ESP tunnels of `IPsec` (RFC 2406), as Click has them.
//!
//! The routes of `RadixIPsecLookup` have keys, and it marks packets with theirs: by the number of a
//! security association, where Click puts a pointer into the annotations. The upper half of that
//! number is the graph's, so a packet that waited while a graph was replaced is dropped instead of
//! handled with other keys. A route into a tunnel is a route whose output is a place in a list of
//! targets, so such routes share the table and its all-or-nothing changes. There is no key
//! exchange. Packets are treated as by Click, so that either end of a tunnel may be Click; its
//! algorithms are no longer recommended, and its way to chain AES blocks is its own.

use linerate_graph::{Class, Inert};

pub(crate) mod association;
mod auth;
mod cipher;
mod encap;
mod esp;
#[cfg(test)]
mod tests;

/// The family's classes.
pub(crate) const CLASSES: &[&Class] = &[
    &auth::HMAC,
    &auth::PLAIN,
    &cipher::AES,
    &cipher::DES,
    &encap::CLASS,
    &esp::ENCAP,
    &esp::UNENCAP,
    &SA_TABLE,
];

/// The name of the family in the reference.
pub(crate) const FAMILY: &str = "ipsec";

/// Bytes of the ESP header: parameters index, sequence number, and 8 bytes that
/// begin the chain of blocks.
const ESP: usize = 16;
/// Bytes of the digest behind a packet.
const DIGEST: usize = 12;

pub(crate) use esp::EXAMPLE;

const SA_TABLE: Class = Class {
    name: "SATable",
    family: FAMILY,
    summary: "security associations; accepted, not needed",
    description: "RadixIPsecLookup keeps those of its routes itself, in Click as well.",
    ports: "0/0",
    cost: "Nothing while packets are handled.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> Discard; SATable;",
    make: |_| Box::new(Inert),
    ..Class::here()
};
