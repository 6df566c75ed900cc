//! Access control of a server: `ALLOW` and `DENY`.

use linerate_graph::{Context, ElementBuilder, ElementRef, HandlerRef};
use rustix::net::{SocketAddrAny, SocketAddrV4};

use linerate_element_support::routes::is_ipv4_table;

/// Route tables, by their places in the plan: peers with a route in the first are let in, and of
/// the others those with one in the second are not.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Access {
    allow: Option<usize>,
    deny: Option<usize>,
}

impl Access {
    pub(super) fn new(make: &mut ElementBuilder<'_>) -> Access {
        let mut table = |argument| {
            let ElementRef(element) = make.get(argument)?;
            let found = &make.plan().elements[element];
            if is_ipv4_table(found.class) {
                return Some(element);
            }
            let name = found.name.clone();
            make.error(format!("{name} is not an IPRouteTable"));
            None
        };
        Access { allow: table("ALLOW"), deny: table("DENY") }
    }

    /// Returns true if `from` may use this server, as any peer without an IP address may. A call of
    /// a handler for each table.
    pub(super) fn permits(self, cx: &mut Context, from: Option<&SocketAddrAny>) -> bool {
        if self.allow.is_none() && self.deny.is_none() {
            return true;
        }
        let from = from.and_then(|from| SocketAddrV4::try_from(from.clone()).ok());
        from.is_none_or(|from| self.permits_address(cx, from))
    }

    fn permits_address(self, cx: &mut Context, from: SocketAddrV4) -> bool {
        let address = from.ip().to_string();
        let mut routed = |element| {
            let lookup = HandlerRef { element: Some(element), handler: "lookup".into() };
            cx.read_handler(&lookup, &address).map(|route| !route.starts_with('-'))
        };
        // A table that cannot be looked up lets no peer in.
        self.allow.is_some_and(|table| routed(table).unwrap_or(false))
            || !self.deny.is_some_and(|table| routed(table).unwrap_or(true))
    }
}
