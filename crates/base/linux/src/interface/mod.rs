//! The network interfaces of the current network namespace: a list, their capabilities, and events.
//!
//! Everything is asked of the kernel through netlink and `ioctl`, which answer
//! for the namespace of the calling thread; `/sys/class/net` would answer for
//! the namespace it was mounted in. Nothing here is for the packet path.
//!
//! - [`links`] and [`find`] give the link layer's properties;
//! - [`ipv4()`] gives the address of one, and [`host_uses`] the host's uses of it;
//! - [`Inspector`] adds the drivers' reports: queues, speed, offloads, XDP;
//! - [`LinkMonitor`] tells when an interface changes, goes or comes;
//! - [`RoutingMonitor`] tells the kernel's routes and neighbours;
//! - [`set_up`] and [`Promiscuous`] change it;
//! - [`attach_tun`] and its kin make the other end of a TAP or TUN interface.

mod control;
mod error;
#[allow(unsafe_code, reason = "ioctl(2)")]
mod ethtool;
mod host_use;
mod ipv4;
mod link;
mod monitor;
pub(crate) mod netlink;
#[allow(unsafe_code, reason = "ioctl(2)")]
mod request;
mod routing;
mod transmit_drops;
mod xdp;

use std::{fs, path::Path};

use netlink_packet_core::Emitable;
use netlink_packet_route::link::{LinkAttribute, LinkMessage};
use serde::Serialize;

pub use self::{
    control::{Promiscuous, add_address, add_default_route, set_mac, set_mtu, set_up},
    error::InterfaceError,
    ethtool::{Channels, Descriptors, DriverInfo, Offloads},
    host_use::{HostUse, host_uses},
    ipv4::{Ipv4, ipv4},
    link::{Link, XdpMode, XdpProgram},
    monitor::{LinkEvent, LinkMonitor, LinkState},
    request::{attach_tun, is_running, is_tun_deleted, mtu, set_tun_header, set_tun_offloads},
    routing::{Hop, MAIN_TABLE, Prefix, RoutingEvent, RoutingMonitor, Target},
    transmit_drops::TransmitDrops,
    xdp::XdpSupport,
};
use self::{
    ethtool::Ethtool,
    netlink::{Message, Netlink},
    xdp::Netdev,
};

/// The longest interface name, `IFNAMSIZ` less the terminating NUL.
pub const NAME_LIMIT: usize = 15;

/// Everything known about an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Interface {
    /// Properties of the link layer.
    #[serde(flatten)]
    pub link: Link,
    /// The driver.
    pub driver: Option<DriverInfo>,
    /// Queues in use; `None` where the driver cannot change them, so all that
    /// `link` counts are.
    pub channels: Option<Channels>,
    /// Descriptors of its rings.
    pub descriptors: Option<Descriptors>,
    /// Link speed in bit/s. For a virtual interface a figure the kernel made
    /// up (a veth says 10 Gbit/s), not a limit.
    pub speed: Option<u64>,
    /// The NUMA node its device is attached to.
    pub numa_node: Option<u32>,
    /// Offloads.
    pub offloads: Option<Offloads>,
    /// XDP support of the driver; `None` where the kernel cannot say.
    pub xdp: Option<XdpSupport>,
}

impl Interface {
    /// Queues that receive.
    pub fn receive_queues(&self) -> u32 {
        self.channels.map_or(self.link.receive_queues, |channels| channels.receive).max(1)
    }

    /// Queues that transmit.
    pub fn transmit_queues(&self) -> u32 {
        self.channels.map_or(self.link.transmit_queues, |channels| channels.transmit).max(1)
    }
}

/// All links, by index.
///
/// # Errors
///
/// When the kernel gives no answer over netlink.
pub fn links() -> Result<Vec<Link>, InterfaceError> {
    let step = InterfaceError::system("list interfaces");
    let mut netlink = Netlink::route().map_err(&step)?;
    list(&mut netlink).map_err(&step)
}

/// The link of that name, its own or an alternative one.
///
/// # Errors
///
/// [`InterfaceError::Unknown`], with the name probably meant and those there are; or when the
/// kernel gives no answer over netlink.
pub fn find(name: &str) -> Result<Link, InterfaceError> {
    let step = InterfaceError::system("look up an interface");
    let mut netlink = Netlink::route().map_err(&step)?;
    let mut message = LinkMessage::default();
    message.attributes.push(LinkAttribute::IfName(name.into()));
    let answer = if (1..=NAME_LIMIT).contains(&name.len()) && !name.contains('\0') {
        netlink.request(libc::RTM_GETLINK, &bytes(&message))
    } else {
        Err(std::io::Error::from_raw_os_error(libc::ENODEV))
    };
    match answer {
        Ok(reply) => {
            if let Some(link) = parsed(&reply).next() {
                return Ok(link);
            }
        }
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
        Err(error) => return Err(step(error)),
    }
    // Alternative names may be longer than the kernel looks up by this key.
    let links = list(&mut netlink).map_err(&step)?;
    if let Some(link) =
        links.iter().find(|link| link.alternative_names.iter().any(|other| other == name))
    {
        return Ok(link.clone());
    }
    let names: Vec<String> = links.into_iter().map(|link| link.name).collect();
    Err(InterfaceError::unknown(name, &names))
}

/// Asks drivers about their interfaces, in the namespace of the thread that
/// opened it.
#[derive(Debug)]
pub struct Inspector {
    ethtool: Ethtool,
    /// Kernels before 6.3 have no such family.
    netdev: Option<Netdev>,
}

impl Inspector {
    /// Opens the sockets to ask through.
    ///
    /// # Errors
    ///
    /// When sockets cannot be opened at all.
    pub fn open() -> Result<Inspector, InterfaceError> {
        let ethtool =
            Ethtool::open().map_err(InterfaceError::system("open a socket to ask drivers"))?;
        Ok(Inspector { ethtool, netdev: Netdev::open().ok() })
    }

    /// Everything known about `link`'s interface.
    pub fn inspect(&mut self, link: Link) -> Interface {
        let name = &link.name;
        Interface {
            driver: self.ethtool.driver(name),
            channels: self.ethtool.channels(name),
            descriptors: self.ethtool.descriptors(name),
            speed: self.ethtool.speed(name),
            offloads: self.ethtool.offloads(name),
            numa_node: link.parent.as_ref().and_then(|(bus, device)| numa_node(bus, device)),
            xdp: self.netdev.as_mut().and_then(|netdev| netdev.support(link.index).ok().flatten()),
            link,
        }
    }
}

/// Everything known about all interfaces.
///
/// # Errors
///
/// As [`links`] and [`Inspector::open`].
pub fn inspect_all() -> Result<Vec<Interface>, InterfaceError> {
    let mut inspector = Inspector::open()?;
    Ok(links()?.into_iter().map(|link| inspector.inspect(link)).collect())
}

/// Everything known about one interface.
///
/// # Errors
///
/// As [`find`] and [`Inspector::open`].
pub fn inspect(name: &str) -> Result<Interface, InterfaceError> {
    Ok(Inspector::open()?.inspect(find(name)?))
}

fn list(netlink: &mut Netlink) -> std::io::Result<Vec<Link>> {
    let reply = netlink.dump(libc::RTM_GETLINK, &bytes(&LinkMessage::default()))?;
    let mut links: Vec<Link> = parsed(&reply).collect();
    links.sort_by_key(|link| link.index);
    Ok(links)
}

fn parsed(reply: &[Message]) -> impl Iterator<Item = Link> {
    reply
        .iter()
        .filter(|message| message.kind == libc::RTM_NEWLINK)
        .filter_map(|message| Link::parse(&message.body))
}

fn bytes(message: &LinkMessage) -> Vec<u8> {
    let mut body = vec![0; message.buffer_len()];
    message.emit(&mut body);
    body
}

/// The NUMA node of a device: its own `numa_node`, or that of the closest
/// device above it (a virtio device's is its PCI function's). Bus directories
/// are the same in every network namespace.
fn numa_node(bus: &str, device: &str) -> Option<u32> {
    let path = Path::new("/sys/bus").join(bus).join("devices").join(device);
    let path = fs::canonicalize(path).ok()?;
    path.ancestors().find_map(|path| {
        let node = fs::read_to_string(path.join("numa_node")).ok()?;
        // -1 means the firmware did not say.
        node.trim().parse().ok()
    })
}
