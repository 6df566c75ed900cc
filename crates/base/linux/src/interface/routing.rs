//! The kernel's routes and neighbours, and their changes.
//!
//! Decisions of routing daemons, `ip route` and the kernel itself, for elements that forward
//! packets past the kernel. One routing table is followed, for IPv4 and IPv6. Of several routes to
//! one prefix the kernel uses the one of the smallest metric, and only that one is told of.
//!
//! The kernel says nothing when it forgets IPv4 routes because an interface was set down or lost an
//! address, and not which of several routes of one metric it has replaced; after such an event, and
//! after notices were lost, the table is read again and the differences are told. Source:
//! `linux/rtnetlink.h`, rtnetlink(7).

use std::{
    collections::{BTreeMap, VecDeque},
    io, mem,
    net::IpAddr,
    os::fd::{AsFd, BorrowedFd},
};

use netlink_packet_core::{NLM_F_APPEND, NLM_F_REPLACE, Parseable};
use netlink_packet_route::{
    neighbour::{
        NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourMessageBuffer,
        NeighbourState,
    },
    route::{
        RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteMessageBuffer,
        RouteNextHopFlags, RouteType, RouteVia,
    },
};

use super::{
    InterfaceError, list,
    netlink::{Message, Netlink},
};

/// The table routes are in unless something else is said: `RT_TABLE_MAIN`.
pub const MAIN_TABLE: u32 = 254;

/// Bytes of `struct rtmsg`, and of `struct ndmsg`, which a request begins with.
const HEADER: usize = 12;

/// Next hop of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hop {
    /// The router to give them to; the destination itself when `None`.
    pub gateway: Option<IpAddr>,
    /// The number of the interface.
    pub device: u32,
    /// Its share among several hops, from 1.
    pub weight: u16,
}

/// Target of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Packets go on to one of these next hops, at least one; sorted.
    Through(Vec<Hop>),
    /// Packets are refused: the route is of the kind `blackhole`, `unreachable` or
    /// `prohibit`.
    Refused,
}

/// A set of addresses: those that begin with the first bits of one.
pub type Prefix = (IpAddr, u8);

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoutingEvent {
    /// The route to a prefix is now another one, or there is none any more.
    Route {
        /// Its addresses.
        prefix: Prefix,
        /// The route.
        target: Option<Target>,
    },
    /// A neighbour's Ethernet address is now another one, or is not known any
    /// more.
    Neighbour {
        /// The number of the interface it is behind.
        device: u32,
        /// Its address.
        address: IpAddr,
        /// Its Ethernet address.
        mac: Option<[u8; 6]>,
    },
}

/// Follows the routes of one table, and the neighbours, of the network
/// namespace it was opened in.
///
/// Poll its descriptor for reading; [`RoutingMonitor::next_event`] does not wait
/// for events, but may read the whole table: a second for a million routes.
#[derive(Debug)]
pub struct RoutingMonitor {
    notices: Netlink,
    /// For questions: on the other socket answers would stand among notices.
    questions: Netlink,
    table: u32,
    routes: BTreeMap<Prefix, Routes>,
    neighbours: BTreeMap<Neighbour, [u8; 6]>,
    /// The interfaces' names by their numbers.
    devices: BTreeMap<u32, String>,
    events: VecDeque<RoutingEvent>,
}

/// A neighbour: the number of the interface it is behind, and its address.
type Neighbour = (u32, IpAddr);

/// The routes to one prefix, by metric. Of those of one metric the first counts.
type Routes = BTreeMap<u32, Vec<Target>>;

impl AsFd for RoutingMonitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.notices.as_fd()
    }
}

impl RoutingMonitor {
    /// Starts following a table. Its present entries are the first events.
    ///
    /// # Errors
    ///
    /// When the kernel gives no notices over netlink.
    pub fn open(table: u32) -> Result<RoutingMonitor, InterfaceError> {
        RoutingMonitor::subscribe(table).map_err(InterfaceError::system("follow routes"))
    }

    fn subscribe(table: u32) -> io::Result<RoutingMonitor> {
        let notices = Netlink::route()?;
        // First subscribe, then read: changes in between are told twice rather than never.
        for group in [
            libc::RTNLGRP_LINK,
            libc::RTNLGRP_NEIGH,
            libc::RTNLGRP_IPV4_IFADDR,
            libc::RTNLGRP_IPV4_ROUTE,
            libc::RTNLGRP_IPV6_ROUTE,
        ] {
            notices.subscribe(group)?;
        }
        let mut monitor = RoutingMonitor {
            notices,
            questions: Netlink::route()?,
            table,
            routes: BTreeMap::new(),
            neighbours: BTreeMap::new(),
            devices: BTreeMap::new(),
            events: VecDeque::new(),
        };
        monitor.synchronize()?;
        Ok(monitor)
    }

    /// The next thing that happened, or `None` if nothing did since.
    ///
    /// # Errors
    ///
    /// When the kernel gives no answer over netlink.
    pub fn next_event(&mut self) -> Result<Option<RoutingEvent>, InterfaceError> {
        if self.events.is_empty() {
            self.read().map_err(InterfaceError::system("follow routes"))?;
        }
        Ok(self.events.pop_front())
    }

    /// The name of an interface, if it is still there.
    pub fn device(&self, number: u32) -> Option<&str> {
        self.devices.get(&number).map(String::as_str)
    }

    fn read(&mut self) -> io::Result<()> {
        let mut stale = false;
        loop {
            match self.notices.notices() {
                Ok(messages) => {
                    for message in &messages {
                        stale |= self.notice(message);
                    }
                    break;
                }
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => stale = true,
                Err(error) => return Err(error),
            }
        }
        if stale { self.synchronize() } else { Ok(()) }
    }

    /// Takes in a notice; `true` when the table has to be read to know the routes now.
    fn notice(&mut self, message: &Message) -> bool {
        match message.kind {
            libc::RTM_NEWROUTE | libc::RTM_DELROUTE => {
                if let Some((prefix, metric, target)) = route(&message.body, self.table) {
                    let before = self.best(&prefix);
                    let routes = self.routes.entry(prefix).or_default();
                    let same = routes.entry(metric).or_default();
                    let replaces = message.flags & NLM_F_REPLACE != 0;
                    if replaces && same.len() > 1 {
                        return true;
                    }
                    match message.kind {
                        libc::RTM_NEWROUTE => add(same, target, prefix.0, message.flags),
                        _ => remove(same, &target),
                    }
                    routes.retain(|_, same| !same.is_empty());
                    if routes.is_empty() {
                        self.routes.remove(&prefix);
                    }
                    self.tell_route(prefix, before.as_ref());
                }
                false
            }
            libc::RTM_NEWNEIGH | libc::RTM_DELNEIGH => {
                if let Some((key, mac)) = neighbour(&message.body) {
                    self.set_neighbour(key, mac.filter(|_| message.kind == libc::RTM_NEWNEIGH));
                }
                false
            }
            _ => true,
        }
    }

    /// Reads everything and tells the differences.
    fn synchronize(&mut self) -> io::Result<()> {
        let links = list(&mut self.questions)?;
        self.devices = links.into_iter().map(|link| (link.index, link.name)).collect();
        let mut header = [0; HEADER];
        header[0] = libc::AF_UNSPEC as u8;
        let routes = self.questions.dump(libc::RTM_GETROUTE, &header)?;
        let before = mem::take(&mut self.routes);
        for message in &routes {
            if let Some((prefix, metric, target)) = route(&message.body, self.table) {
                let same = self.routes.entry(prefix).or_default().entry(metric).or_default();
                same.push(target);
            }
        }
        for prefix in before.keys().filter(|prefix| !self.routes.contains_key(prefix)) {
            self.events.push_back(RoutingEvent::Route { prefix: *prefix, target: None });
        }
        for (prefix, routes) in &self.routes {
            let (now, was) = (best_of(routes), before.get(prefix).and_then(best_of));
            if now != was {
                let target = now.cloned();
                self.events.push_back(RoutingEvent::Route { prefix: *prefix, target });
            }
        }
        let neighbours = self.questions.dump(libc::RTM_GETNEIGH, &header)?;
        let now: BTreeMap<_, _> = neighbours
            .iter()
            .filter_map(|message| neighbour(&message.body))
            .filter_map(|(key, mac)| Some((key, mac?)))
            .collect();
        let keys: Vec<_> = self.neighbours.keys().chain(now.keys()).copied().collect();
        keys.into_iter().for_each(|key| self.set_neighbour(key, now.get(&key).copied()));
        Ok(())
    }

    fn best(&self, prefix: &Prefix) -> Option<Target> {
        self.routes.get(prefix).and_then(best_of).cloned()
    }

    fn tell_route(&mut self, prefix: Prefix, before: Option<&Target>) {
        let target = self.best(&prefix);
        if target.as_ref() != before {
            self.events.push_back(RoutingEvent::Route { prefix, target });
        }
    }

    fn set_neighbour(&mut self, key: Neighbour, mac: Option<[u8; 6]>) {
        let before = match mac {
            Some(mac) => self.neighbours.insert(key, mac),
            None => self.neighbours.remove(&key),
        };
        if before != mac {
            let (device, address) = key;
            self.events.push_back(RoutingEvent::Neighbour { device, address, mac });
        }
    }
}

fn best_of(routes: &Routes) -> Option<&Target> {
    routes.values().find_map(|same| same.first())
}

/// Adds a route to those of its prefix and metric, as the kernel has done.
fn add(same: &mut Vec<Target>, target: Target, prefix: IpAddr, flags: u16) {
    if same.contains(&target) {
        return;
    }
    // An IPv6 route that gets another hop is told with all it has then.
    let grown = same.iter().position(|known| prefix.is_ipv6() && share_a_hop(known, &target));
    if let Some(at) = grown {
        same[at] = target;
    } else if flags & NLM_F_REPLACE != 0 {
        *same = vec![target];
    } else if flags & NLM_F_APPEND != 0 || prefix.is_ipv6() {
        same.push(target);
    } else {
        same.insert(0, target);
    }
}

fn share_a_hop(a: &Target, b: &Target) -> bool {
    let (Target::Through(a), Target::Through(b)) = (a, b) else { return false };
    a.iter().any(|hop| b.contains(hop))
}

/// Removes a route, or one hop of a route.
fn remove(same: &mut Vec<Target>, target: &Target) {
    if let Some(at) = same.iter().position(|known| known == target) {
        same.remove(at);
        return;
    }
    let Target::Through(gone) = target else { return };
    for known in same.iter_mut() {
        if let Target::Through(hops) = known {
            hops.retain(|hop| !gone.contains(hop));
        }
    }
    same.retain(|known| *known != Target::Through(Vec::new()));
}

/// The prefix, the metric and the target of a route of `table` that packets are
/// forwarded by.
fn route(body: &[u8], table: u32) -> Option<(Prefix, u32, Target)> {
    let message = RouteMessage::parse(&RouteMessageBuffer::new_checked(&body).ok()?).ok()?;
    let header = &message.header;
    if header.flags.contains(RouteFlags::Cloned) || header.tos != 0 {
        return None;
    }
    let mut own = u32::from(header.table);
    let (mut to, mut metric, mut hops) = (None, 0, Vec::new());
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Table(number) => own = *number,
            RouteAttribute::Destination(address) => to = ip(address),
            RouteAttribute::Priority(number) => metric = *number,
            RouteAttribute::MultiPath(several) => {
                for hop in several.iter().filter(|hop| is_alive(hop.flags)) {
                    // The kernel counts from 0.
                    let weight = u16::from(hop.hops) + 1;
                    let gateway = gateway(&hop.attributes);
                    hops.push(Hop { gateway, device: hop.interface_index, weight });
                }
            }
            _ => {}
        }
    }
    if own != table {
        return None;
    }
    let everywhere = match i32::from(u8::from(header.address_family)) {
        libc::AF_INET => IpAddr::from([0u8; 4]),
        libc::AF_INET6 => IpAddr::from([0u8; 16]),
        _ => return None,
    };
    let device = message.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Oif(device) => Some(*device),
        _ => None,
    });
    if let Some(device) = device.filter(|_| hops.is_empty()) {
        hops.push(Hop { gateway: gateway(&message.attributes), device, weight: 1 });
    }
    // The kernel gives them in one order now and in another then.
    hops.sort_unstable();
    let target = match header.kind {
        RouteType::Unicast if !hops.is_empty() => Target::Through(hops),
        RouteType::BlackHole | RouteType::Unreachable | RouteType::Prohibit => Target::Refused,
        _ => return None,
    };
    Some(((to.unwrap_or(everywhere), header.destination_prefix_length), metric, target))
}

fn is_alive(flags: RouteNextHopFlags) -> bool {
    !flags.intersects(RouteNextHopFlags::Dead | RouteNextHopFlags::Linkdown)
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some((*address).into()),
        RouteAddress::Inet6(address) => Some((*address).into()),
        _ => None,
    }
}

fn gateway(attributes: &[RouteAttribute]) -> Option<IpAddr> {
    attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Gateway(address) => ip(address),
        // An IPv6 router of an IPv4 route (RFC 8950).
        RouteAttribute::Via(RouteVia::Inet6(address)) => Some((*address).into()),
        _ => None,
    })
}

/// A neighbour, and its Ethernet address if it can be used.
fn neighbour(body: &[u8]) -> Option<(Neighbour, Option<[u8; 6]>)> {
    let message =
        NeighbourMessage::parse(&NeighbourMessageBuffer::new_checked(&body).ok()?).ok()?;
    let (mut address, mut mac) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(to)) => {
                address = Some((*to).into());
            }
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(to)) => {
                address = Some((*to).into());
            }
            NeighbourAttribute::LinkLayerAddress(bytes) => mac = bytes.as_slice().try_into().ok(),
            _ => {}
        }
    }
    let usable = matches!(
        message.header.state,
        NeighbourState::Reachable
            | NeighbourState::Stale
            | NeighbourState::Delay
            | NeighbourState::Probe
            | NeighbourState::Permanent
    );
    Some(((message.header.ifindex, address?), mac.filter(|_| usable)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_bytes_panic(mut body in prop::collection::vec(any::<u8>(), 0..120)) {
            for family in [libc::AF_INET, libc::AF_INET6] {
                if let Some(first) = body.first_mut() {
                    *first = family as u8;
                }
                route(&body, MAIN_TABLE);
                neighbour(&body);
            }
        }
    }
}
