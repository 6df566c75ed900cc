//! `AddressInfo`: names for addresses.

use std::net::{Ipv4Addr, Ipv6Addr};

use linerate_graph::{
    Addresses, Arg, Class, ElementBuilder, ElementStatements, Ipv4Prefix, Ipv6Prefix, Scope, Value,
    lang::config::words,
};
use linerate_packet::MacAddr;

use super::INFORMATION;

pub(super) const CLASS: Class = Class {
    name: "AddressInfo",
    summary: "gives names to addresses",
    description: "Each argument is a name and the addresses it stands for: IPv4 and IPv6 addresses \
        and prefixes and Ethernet addresses. Which of them is meant follows from where the name is \
        used, or from a suffix: `NAME:ip`, `NAME:ipnet`, `NAME:bcast` (the prefix's broadcast \
        address), `NAME:gw` (its first address), `NAME:ip6`, `NAME:ip6net`, `NAME:eth`. \
        `10.0.0.1/24` defines both an address and a prefix.\n\n\
        A name holds in the compound it is defined in and inside it. A name nobody defined is that \
        of a network device: its Ethernet address, its first IPv4 address and prefix, and for `:gw` \
        its default route's gateway.",
    args: &[Arg::rest("NAME ADDRESS...", "name and addresses", "a name and what it stands for")],
    example: "AddressInfo(here 10.0.0.1/24 02:00:00:00:00:01, there 10.0.0.2);\n\
        InfiniteSource(LIMIT 10, STOP true) -> Discard;",
    prepare: Some(define),
    file: file!(),
    ..INFORMATION
};

/// Kinds that an address text can stand for; `00-00-00-00-00-00` is one, `::1` another, and a name
/// may be several.
#[derive(Default)]
struct Kinds {
    mac: Option<MacAddr>,
    ipv4: Option<Ipv4Addr>,
    ipv4_net: Option<(Ipv4Addr, Ipv4Addr)>,
    ipv6: Option<Ipv6Addr>,
    ipv6_net: Option<(Ipv6Addr, u8)>,
}

impl Kinds {
    fn parse(text: &str, scope: &Scope<'_>) -> Kinds {
        let mut kinds = Kinds { mac: MacAddr::parse(text, scope).ok(), ..Kinds::default() };
        if let Ok(address) = Ipv4Addr::parse(text, scope) {
            kinds.ipv4 = Some(address);
        } else if let Ok(Ipv4Prefix { address, mask }) = Ipv4Prefix::parse(text, scope) {
            kinds.ipv4_net = Some((address, mask));
            // With bits behind the prefix it is a host's address as well.
            kinds.ipv4 = Some(address).filter(|address| address & !mask != Ipv4Addr::UNSPECIFIED);
        }
        if let Ok(address) = Ipv6Addr::parse(text, scope) {
            kinds.ipv6 = Some(address);
        } else if let Ok(Ipv6Prefix { address, length }) = Ipv6Prefix::parse(text, scope) {
            kinds.ipv6_net = Some((address, length));
            let behind = u128::MAX.checked_shr(length.into()).unwrap_or(0);
            kinds.ipv6 = Some(address).filter(|address| address.to_bits() & behind != 0);
        }
        kinds
    }

    fn count(&self) -> usize {
        let found = [
            self.mac.is_some(),
            self.ipv4.is_some(),
            self.ipv4_net.is_some(),
            self.ipv6.is_some(),
            self.ipv6_net.is_some(),
        ];
        found.into_iter().filter(|found| *found).count()
    }

    /// Writes each kind into `entry`. An ambiguous text does not replace the kinds of an earlier
    /// text in the same argument.
    fn store(self, entry: &mut Addresses, earlier: &mut Addresses) {
        let sure = self.count() == 1;
        fn put<T: Copy>(sure: bool, new: Option<T>, at: &mut Option<T>, earlier: &mut Option<T>) {
            if new.is_some() && (sure || earlier.is_none()) {
                *at = new;
            }
            *earlier = earlier.or(new);
        }
        put(sure, self.mac, &mut entry.mac, &mut earlier.mac);
        put(sure, self.ipv4, &mut entry.ipv4, &mut earlier.ipv4);
        put(sure, self.ipv4_net, &mut entry.ipv4_net, &mut earlier.ipv4_net);
        put(sure, self.ipv6, &mut entry.ipv6, &mut earlier.ipv6);
        put(sure, self.ipv6_net, &mut entry.ipv6_net, &mut earlier.ipv6_net);
    }
}

fn define(make: &mut ElementBuilder<'_>, said: &mut ElementStatements) {
    for argument in make.rest() {
        let mut parts = words(&argument).into_iter();
        let Some(name) = parts.next() else { continue };
        if parts.len() == 0 {
            make.error("expected 'NAME [ADDRS]'");
        }
        let mut earlier = Addresses::default();
        for text in parts {
            // Earlier definitions can be used in the next.
            let scope = Scope { plan: make.plan(), names: &said.names, name: make.name() };
            let kinds = Kinds::parse(text, &scope);
            if kinds.count() == 0 {
                make.error(format!("'{text}' is not a recognizable address"));
            } else {
                kinds.store(said.names.define(make.name(), name), &mut earlier);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn wrong_addresses_are_refused() {
        assert_eq!(
            Run::errors("AddressInfo(a, , b 1.2.3.4 x 5,);"),
            "config:1: While configuring 'AddressInfo@1 :: AddressInfo':\n  \
             expected 'NAME [ADDRS]'\n  \
             'x' is not a recognizable address\n  \
             '5' is not a recognizable address\n"
        );
    }

    #[test]
    fn names_stand_for_names() {
        assert_eq!(Run::errors("AddressInfo(a 10.0.0.1/8 ::1 0:1:2:3:4:5, b a, c b/16);"), "");
        assert_eq!(
            Run::errors("c :: { AddressInfo(a 10.0.0.1) }; d :: AddressInfo(b a);"),
            "config:1: While configuring 'd :: AddressInfo':\n  \
             'a' is not a recognizable address\n"
        );
    }
}
