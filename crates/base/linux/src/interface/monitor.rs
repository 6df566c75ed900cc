//! Events of interfaces: set up or down, MTU or queues changed, renamed, gone, new.
//!
//! Two subscriptions stand behind one descriptor to poll: the route family's
//! link notices, and the ethtool family's, which alone tell that the number of
//! queues changed. If the kernel had to drop notices, the state is read again
//! and the differences are reported, so no lasting change goes unseen; of
//! changes that were undone meanwhile, nothing is said.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::event::epoll;
use serde::Serialize;

use super::{
    InterfaceError,
    ethtool::Ethtool,
    link::Link,
    list,
    netlink::{Family, Message, Netlink, attributes, generic_parts, number},
};

/// Values of `linux/ethtool_netlink.h`.
const ETHTOOL_MSG_CHANNELS_NTF: u8 = 19;
const ETHTOOL_A_CHANNELS_HEADER: u16 = 1;
const ETHTOOL_A_CHANNELS_RX_COUNT: u16 = 6;
const ETHTOOL_A_CHANNELS_TX_COUNT: u16 = 7;
const ETHTOOL_A_CHANNELS_COMBINED_COUNT: u16 = 9;
const ETHTOOL_A_HEADER_DEV_INDEX: u16 = 1;

/// Bytes of `struct ifinfomsg`, in front of the attributes of a link notice.
const LINK_HEADER: usize = 16;

/// State that the monitor follows of an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LinkState {
    /// Its number, never used again after it is gone (until the kernel's
    /// counter wraps).
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Whether it is set up.
    pub up: bool,
    /// Whether the other end is there.
    pub carrier: bool,
    /// The longest packet it takes, Ethernet header not included.
    pub mtu: u32,
    /// Its Ethernet address.
    #[serde(skip)]
    pub mac: Option<[u8; 6]>,
    /// Queues that receive.
    pub receive_queues: u32,
    /// Queues that transmit.
    pub transmit_queues: u32,
}

impl LinkState {
    /// Returns true if packets can pass.
    pub fn running(&self) -> bool {
        self.up && self.carrier
    }
}

/// Something that happened to an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkEvent {
    /// There is a new interface, maybe of a name that was there before.
    Added(LinkState),
    /// An interface was deleted.
    Removed(LinkState),
    /// An interface was moved to another network namespace.
    Moved(LinkState),
    /// Something about an interface is different.
    Changed {
        /// State before.
        before: LinkState,
        /// State now.
        now: LinkState,
    },
}

impl LinkEvent {
    /// The interface, as it is now or was last.
    pub fn state(&self) -> &LinkState {
        match self {
            LinkEvent::Added(state) | LinkEvent::Removed(state) | LinkEvent::Moved(state) => state,
            LinkEvent::Changed { now, .. } => now,
        }
    }
}

/// Follows the interfaces of the network namespace it was opened in.
///
/// Poll its descriptor for reading; [`LinkMonitor::next_event`] never waits.
#[derive(Debug)]
pub struct LinkMonitor {
    route: Netlink,
    /// Kernels before 5.6 have no such family.
    ethtool_notices: Option<(Netlink, u16)>,
    ethtool: Ethtool,
    epoll: OwnedFd,
    known: BTreeMap<u32, LinkState>,
    events: VecDeque<LinkEvent>,
}

impl AsFd for LinkMonitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl LinkMonitor {
    /// Starts following. Interfaces there are already are not reported as added; see
    /// [`LinkMonitor::known`].
    ///
    /// # Errors
    ///
    /// When the kernel gives no notices over netlink.
    pub fn open() -> Result<LinkMonitor, InterfaceError> {
        LinkMonitor::subscribe().map_err(InterfaceError::system("follow interfaces"))
    }

    fn subscribe() -> io::Result<LinkMonitor> {
        // First subscribe, then read the state: changes in between are told twice rather than
        // never.
        let route = Netlink::route()?;
        route.subscribe(libc::RTNLGRP_LINK)?;
        let ethtool_notices = queue_notices().ok();
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let sockets = std::iter::once(&route).chain(ethtool_notices.as_ref().map(|pair| &pair.0));
        for socket in sockets {
            epoll::add(&epoll, socket, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        }
        let mut monitor = LinkMonitor {
            route,
            ethtool_notices,
            ethtool: Ethtool::open()?,
            epoll,
            known: BTreeMap::new(),
            events: VecDeque::new(),
        };
        monitor.synchronize()?;
        monitor.events.clear();
        Ok(monitor)
    }

    /// The interfaces as of the last event taken or about to be taken.
    pub fn known(&self) -> impl Iterator<Item = &LinkState> {
        self.known.values()
    }

    /// The next thing that happened, or `None` if nothing did since.
    ///
    /// # Errors
    ///
    /// When the kernel gives no answer over netlink.
    pub fn next_event(&mut self) -> Result<Option<LinkEvent>, InterfaceError> {
        if self.events.is_empty() {
            self.read().map_err(InterfaceError::system("follow interfaces"))?;
        }
        Ok(self.events.pop_front())
    }

    fn read(&mut self) -> io::Result<()> {
        let mut lost = false;
        match self.route.notices() {
            Ok(messages) => messages.iter().for_each(|message| self.link_notice(message)),
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => lost = true,
            Err(error) => return Err(error),
        }
        if let Some((netlink, family)) = &mut self.ethtool_notices {
            let family = *family;
            match netlink.notices() {
                Ok(messages) => messages
                    .iter()
                    .filter(|message| message.kind == family)
                    .for_each(|message| self.queue_notice(message)),
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => lost = true,
                Err(error) => return Err(error),
            }
        }
        if lost { self.catch_up() } else { Ok(()) }
    }

    /// After notices were lost: those still queued are older than the loss, so
    /// they go too, and the state is read.
    fn catch_up(&mut self) -> io::Result<()> {
        let sockets = std::iter::once(&mut self.route)
            .chain(self.ethtool_notices.as_mut().map(|pair| &mut pair.0));
        for socket in sockets {
            while let Err(error) = socket.notices() {
                if error.raw_os_error() != Some(libc::ENOBUFS) {
                    return Err(error);
                }
            }
        }
        self.synchronize()
    }

    fn link_notice(&mut self, message: &Message) {
        let Some(link) = Link::parse(&message.body) else { return };
        match message.kind {
            libc::RTM_NEWLINK => self.update(&link),
            libc::RTM_DELLINK => {
                let attributes = message.body.get(LINK_HEADER..).map(attributes);
                let moved = |(kind, _): (u16, &[u8])| kind == libc::IFLA_NEW_NETNSID;
                let is_moved = attributes.is_some_and(|mut all| all.any(moved));
                let event = if is_moved { LinkEvent::Moved } else { LinkEvent::Removed };
                self.remove(link.index, event);
            }
            _ => {}
        }
    }

    fn queue_notice(&mut self, message: &Message) {
        let Some((index, receive, transmit)) = parse_queue_notice(&message.body) else { return };
        if let Some(known) = self.known.get(&index) {
            let now =
                LinkState { receive_queues: receive, transmit_queues: transmit, ..known.clone() };
            self.replace(now);
        }
    }

    /// Reads the state of everything and reports the differences.
    fn synchronize(&mut self) -> io::Result<()> {
        // A socket of its own: notices on the subscribed one must not be taken
        // for a part of the answer.
        let links = list(&mut Netlink::route()?)?;
        let gone: Vec<u32> = self
            .known
            .keys()
            .copied()
            .filter(|index| !links.iter().any(|link| link.index == *index))
            .collect();
        gone.into_iter().for_each(|index| self.remove(index, LinkEvent::Removed));
        links.iter().for_each(|link| self.update(link));
        Ok(())
    }

    fn update(&mut self, link: &Link) {
        let channels = self.ethtool.channels(&link.name);
        self.replace(LinkState {
            index: link.index,
            name: link.name.clone(),
            up: link.up,
            carrier: link.carrier,
            mtu: link.mtu,
            mac: link.mac,
            receive_queues: channels.map_or(link.receive_queues, |channels| channels.receive),
            transmit_queues: channels.map_or(link.transmit_queues, |channels| channels.transmit),
        });
    }

    fn replace(&mut self, now: LinkState) {
        match self.known.insert(now.index, now.clone()) {
            None => self.events.push_back(LinkEvent::Added(now)),
            Some(before) if before == now => {}
            Some(before) => self.events.push_back(LinkEvent::Changed { before, now }),
        }
    }

    fn remove(&mut self, index: u32, event: fn(LinkState) -> LinkEvent) {
        if let Some(state) = self.known.remove(&index) {
            self.events.push_back(event(state));
        }
    }
}

/// A socket that is told when a number of queues is changed.
fn queue_notices() -> io::Result<(Netlink, u16)> {
    let mut netlink = Netlink::generic()?;
    let Family { id, groups } = netlink.family("ethtool")?;
    let group = groups
        .iter()
        .find(|(name, _)| name == "monitor")
        .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    netlink.subscribe(group.1)?;
    Ok((netlink, id))
}

/// Interface, receive queues and transmit queues of a notice that these were
/// changed.
fn parse_queue_notice(body: &[u8]) -> Option<(u32, u32, u32)> {
    let (ETHTOOL_MSG_CHANNELS_NTF, rest) = generic_parts(body)? else { return None };
    let count = |value: &[u8]| number(value).and_then(|count| u32::try_from(count).ok());
    let (mut index, mut receive, mut transmit, mut combined) = (None, 0, 0, 0u32);
    for (kind, value) in attributes(rest) {
        match kind {
            ETHTOOL_A_CHANNELS_HEADER => {
                index = attributes(value)
                    .find(|(kind, _)| *kind == ETHTOOL_A_HEADER_DEV_INDEX)
                    .and_then(|(_, value)| count(value));
            }
            ETHTOOL_A_CHANNELS_RX_COUNT => receive = count(value)?,
            ETHTOOL_A_CHANNELS_TX_COUNT => transmit = count(value)?,
            ETHTOOL_A_CHANNELS_COMBINED_COUNT => combined = count(value)?,
            _ => {}
        }
    }
    Some((index?, combined.saturating_add(receive), combined.saturating_add(transmit)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::interface::netlink::generic;

    fn notice(command: u8) -> Vec<u8> {
        let count = |count: u32| count.to_ne_bytes().to_vec();
        let header = generic(0, &[(ETHTOOL_A_HEADER_DEV_INDEX, count(7))])[4..].to_vec();
        generic(
            command,
            &[
                (ETHTOOL_A_CHANNELS_HEADER, header),
                (ETHTOOL_A_CHANNELS_RX_COUNT, count(1)),
                (ETHTOOL_A_CHANNELS_TX_COUNT, count(2)),
                (ETHTOOL_A_CHANNELS_COMBINED_COUNT, count(4)),
            ],
        )
    }

    #[test]
    fn combined_queues_count_in_both_directions() {
        assert_eq!(parse_queue_notice(&notice(ETHTOOL_MSG_CHANNELS_NTF)), Some((7, 5, 6)));
        assert_eq!(parse_queue_notice(&notice(ETHTOOL_MSG_CHANNELS_NTF - 1)), None);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(
            mut body in prop::collection::vec(any::<u8>(), 0..80),
            cut in 0usize..60,
        ) {
            parse_queue_notice(&body);
            if let Some(command) = body.first_mut() {
                *command = ETHTOOL_MSG_CHANNELS_NTF;
            }
            parse_queue_notice(&body);
            let whole = notice(ETHTOOL_MSG_CHANNELS_NTF);
            parse_queue_notice(&whole[..cut.min(whole.len())]);
        }
    }
}
