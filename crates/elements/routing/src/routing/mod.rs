//! Elements that look destinations up in tables of routes.
//!
//! Click has a class for each data structure; here all of them stand on the one of
//! [`linerate_tables::prefix`], and differ in their handlers, in their reports and in the order
//! they list routes in.
//!
//! `class` declares them, `element` is their element: `sending` looks a frame up and sends it on,
//! or drops packets without a route. `table` is the table and its writer's side, `route`, `hops`
//! and `list` are its parts, `handlers` and `change` change it. `lookup_ip6`, `lookup_mp` and
//! `ipsec` are classes of their own.

use linerate_graph::Class;

mod change;
mod class;
mod element;
mod family;
mod handlers;
mod hops;
mod ipsec;
mod list;
mod lookup_ip6;
mod lookup_mp;
mod route;
mod sending;
mod table;
#[cfg(test)]
mod tests;

/// The family's classes.
pub(crate) const CLASSES: &[&Class] = &[
    &class::DIRECT,
    &class::LINEAR,
    &class::LOOKUP_ROUTE,
    &class::RADIX,
    &class::RANGE,
    &class::SORTED,
    &class::STATIC,
    &ipsec::CLASS,
    &lookup_ip6::CLASS,
    &lookup_mp::CLASS,
];

/// The name of the family in the reference.
const FAMILY: &str = linerate_element_support::routes::ROUTING;
