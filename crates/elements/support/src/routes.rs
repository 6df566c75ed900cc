//! Interface of tables of routes for elements that look up in them.

use linerate_graph::Class;

/// The family of tables of routes.
pub const ROUTING: &str = "routing";
/// The handler of a table that looks an address up.
pub const LOOKUP: &str = "lookup";
/// The table of IPv6 routes.
pub const LOOKUP_IP6: &str = "LookupIP6Route";

/// Returns true if elements of a class are tables of IPv4 routes with a `lookup` handler: those
/// that stand on Click's `IPRouteTable`.
pub fn is_ipv4_table(class: &Class) -> bool {
    class.family == ROUTING
        && class.name != LOOKUP_IP6
        && class.handlers.iter().any(|handler| handler.name == LOOKUP)
}
