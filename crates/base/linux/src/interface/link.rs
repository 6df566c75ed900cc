//! A link's properties, read from one `RTM_NEWLINK` message.
//!
//! Pure: bytes in, [`Link`] out. Attributes are taken one by one, so one this
//! program cannot read (from a newer kernel, say) costs that attribute, not
//! the interface. Source: `linux/if_link.h`.

use netlink_packet_core::{NlasIterator, Parseable, ParseableParametrized};
use netlink_packet_route::{
    AddressFamily,
    link::{
        LinkAttribute, LinkFlags, LinkHeader, LinkInfo, LinkLayerType, LinkMessageBuffer, LinkXdp,
        Prop, XdpAttached,
    },
};
use serde::{Serialize, Serializer};

/// Bytes of `struct ifinfomsg`.
pub(super) const HEADER: usize = 16;

/// An interface as the kernel's link layer knows it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Link {
    /// Its number in this network namespace.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its other names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alternative_names: Vec<String>,
    /// `veth`, `tap`, `bridge`, `macvlan`... as `ip -d link` has them (but it
    /// calls a tap `tun`); `loopback`; and `device` where a driver for a real
    /// or virtual card stands behind it.
    pub kind: String,
    /// Whether it carries Ethernet frames (a tun carries IP packets).
    pub ethernet: bool,
    /// Its Ethernet address.
    #[serde(serialize_with = "mac_text")]
    pub mac: Option<[u8; 6]>,
    /// The longest packet it takes, Ethernet header not included.
    pub mtu: u32,
    /// The largest MTU it can be set to, where the driver says.
    pub mtu_limit: Option<u32>,
    /// Whether it is set up.
    pub up: bool,
    /// Whether the other end is there.
    pub carrier: bool,
    /// The operational state of RFC 2863: `up`, `down`, `lowerlayerdown`,
    /// `unknown` (a driver that does not say)...
    pub state: String,
    /// Whether it is promiscuous, through a flag or a socket.
    pub promiscuous: bool,
    /// Receive queues it was created with; [`super::Channels`] has how many
    /// are in use.
    pub receive_queues: u32,
    /// Transmit queues it was created with.
    pub transmit_queues: u32,
    /// The interface it is tied to: a veth's peer, the lower device of a macvlan.
    pub peer: Option<u32>,
    /// The namespace of `peer`, by this namespace's number for it, when it is
    /// another one.
    pub peer_namespace: Option<i32>,
    /// The bridge or bond it belongs to.
    pub controller: Option<u32>,
    /// XDP programs attached to it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub xdp_programs: Vec<XdpProgram>,
    /// The bus its device is on, and the device's name there.
    #[serde(skip)]
    pub parent: Option<(String, String)>,
}

/// An XDP program attached to an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct XdpProgram {
    /// Its number, as in `bpftool prog show id`.
    pub id: u32,
    /// Place at which it runs.
    pub mode: XdpMode,
}

/// Place at which an XDP program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum XdpMode {
    /// In the driver, before the kernel makes a socket buffer.
    Native,
    /// In the kernel's receive path, after that.
    Generic,
    /// On the card.
    Hardware,
}

impl Link {
    /// Reads the body of an `RTM_NEWLINK` or `RTM_DELLINK` message. `None` if
    /// it is not about an interface as such: a bridge speaks of its ports in
    /// the same messages, under its own address family.
    pub(super) fn parse(body: &[u8]) -> Option<Link> {
        let header = LinkHeader::parse(&LinkMessageBuffer::new_checked(&body).ok()?).ok()?;
        if header.interface_family != AddressFamily::Unspec {
            return None;
        }
        let mut link = Link {
            index: header.index,
            ethernet: matches!(
                header.link_layer_type,
                LinkLayerType::Ether | LinkLayerType::Loopback
            ),
            up: header.flags.contains(LinkFlags::Up),
            carrier: header.flags.contains(LinkFlags::LowerUp),
            promiscuous: header.flags.contains(LinkFlags::Promisc),
            ..Link::default()
        };
        let mut programs = XdpPrograms::default();
        for nla in NlasIterator::new(body.get(HEADER..)?).map_while(Result::ok) {
            if let Ok(attribute) = LinkAttribute::parse_with_param(&nla, AddressFamily::Unspec) {
                link.take(attribute, &mut programs);
            }
        }
        link.xdp_programs = programs.attached();
        if link.kind.is_empty() {
            let loopback = header.link_layer_type == LinkLayerType::Loopback;
            link.kind = if loopback { "loopback" } else { "device" }.into();
        } else if link.kind == "tun" && link.ethernet {
            link.kind = "tap".into();
        }
        // Without a name it could not be spoken of.
        (!link.name.is_empty()).then_some(link)
    }

    fn take(&mut self, attribute: LinkAttribute, programs: &mut XdpPrograms) {
        match attribute {
            LinkAttribute::IfName(name) => self.name = name,
            LinkAttribute::PropList(properties) => {
                self.alternative_names.extend(properties.into_iter().filter_map(|property| {
                    match property {
                        Prop::AltIfName(name) => Some(name),
                        _ => None,
                    }
                }));
            }
            LinkAttribute::LinkInfo(infos) => {
                for info in infos {
                    if let LinkInfo::Kind(kind) = info {
                        self.kind = kind.to_string();
                    }
                }
            }
            LinkAttribute::Address(address) => self.mac = address.try_into().ok(),
            LinkAttribute::Mtu(mtu) => self.mtu = mtu,
            // The kernel says 0 where the driver sets no limit.
            LinkAttribute::MaxMtu(mtu) => self.mtu_limit = (mtu != 0).then_some(mtu),
            LinkAttribute::Carrier(carrier) => self.carrier = carrier != 0,
            LinkAttribute::OperState(state) => self.state = state.to_string().to_lowercase(),
            LinkAttribute::Promiscuity(users) => self.promiscuous |= users != 0,
            LinkAttribute::NumRxQueues(queues) => self.receive_queues = queues,
            LinkAttribute::NumTxQueues(queues) => self.transmit_queues = queues,
            LinkAttribute::Link(index) => self.peer = (index != 0).then_some(index),
            LinkAttribute::LinkNetNsId(namespace) => self.peer_namespace = Some(namespace),
            LinkAttribute::Controller(index) => self.controller = (index != 0).then_some(index),
            LinkAttribute::Xdp(attributes) => programs.take(&attributes),
            LinkAttribute::ParentDevBusName(bus) => {
                self.parent.get_or_insert_default().0 = bus;
            }
            LinkAttribute::ParentDevName(device) => {
                self.parent.get_or_insert_default().1 = device;
            }
            _ => {}
        }
    }
}

/// The attributes of `IFLA_XDP`: one identifier per mode when several programs
/// are attached, else one for the mode that is named.
#[derive(Debug, Default)]
struct XdpPrograms {
    mode: Option<XdpMode>,
    only: Option<u32>,
    by_mode: Vec<XdpProgram>,
}

impl XdpPrograms {
    fn take(&mut self, attributes: &[LinkXdp]) {
        for attribute in attributes {
            let (mode, id) = match *attribute {
                LinkXdp::Attached(attached) => {
                    self.mode = match attached {
                        XdpAttached::Driver => Some(XdpMode::Native),
                        XdpAttached::SocketBuffer => Some(XdpMode::Generic),
                        XdpAttached::Hardware => Some(XdpMode::Hardware),
                        _ => None,
                    };
                    continue;
                }
                LinkXdp::ProgId(id) => {
                    self.only = Some(id);
                    continue;
                }
                LinkXdp::DrvProgId(id) => (XdpMode::Native, id),
                LinkXdp::SkbProgId(id) => (XdpMode::Generic, id),
                LinkXdp::HwProgId(id) => (XdpMode::Hardware, id),
                _ => continue,
            };
            self.by_mode.push(XdpProgram { id, mode });
        }
    }

    fn attached(self) -> Vec<XdpProgram> {
        match (self.by_mode.is_empty(), self.mode, self.only) {
            (true, Some(mode), Some(id)) => vec![XdpProgram { id, mode }],
            _ => self.by_mode,
        }
    }
}

fn mac_text<S: Serializer>(mac: &Option<[u8; 6]>, serializer: S) -> Result<S::Ok, S::Error> {
    match mac {
        Some(mac) => serializer.collect_str(&format_args!(
            "{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}",
            mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]
        )),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::interface::netlink::generic;

    /// `RTM_NEWLINK` of family `family` about interface 5, with `attributes`.
    fn message(family: u8, flags: u32, attributes: &[(u16, Vec<u8>)]) -> Vec<u8> {
        let mut body = vec![family, 0, 1, 0, 5, 0, 0, 0];
        body.extend(flags.to_ne_bytes());
        body.extend([0; 4]);
        // A generic message is a four-byte header and attributes.
        body.extend(&generic(0, attributes)[4..]);
        body
    }

    fn nested(attributes: &[(u16, Vec<u8>)]) -> Vec<u8> {
        generic(0, attributes)[4..].to_vec()
    }

    #[test]
    fn two_programs_in_two_modes_are_both_listed() {
        let xdp = nested(&[
            (2, vec![4]), // IFLA_XDP_ATTACHED: several
            (5, 41u32.to_ne_bytes().to_vec()),
            (6, 42u32.to_ne_bytes().to_vec()),
        ]);
        let body = message(0, 1, &[(3, b"eth9\0".to_vec()), (43, xdp)]);
        let link = Link::parse(&body).unwrap();
        assert_eq!(
            link.xdp_programs,
            [
                XdpProgram { id: 41, mode: XdpMode::Native },
                XdpProgram { id: 42, mode: XdpMode::Generic }
            ]
        );
        assert_eq!((link.name.as_str(), link.index, link.up), ("eth9", 5, true));
        assert_eq!(link.kind, "device");
    }

    #[test]
    fn an_attribute_that_cannot_be_read_costs_only_itself() {
        // An MTU of three bytes.
        let body = message(
            0,
            0,
            &[(4, vec![1, 2, 3]), (3, b"eth9\0".to_vec()), (31, 8u32.to_ne_bytes().to_vec())],
        );
        let link = Link::parse(&body).unwrap();
        assert_eq!((link.name.as_str(), link.mtu, link.transmit_queues), ("eth9", 0, 8));
    }

    #[test]
    fn messages_of_a_bridge_about_its_port_are_skipped() {
        let attributes = [(3, b"eth9\0".to_vec())];
        assert!(Link::parse(&message(0, 0, &attributes)).is_some());
        assert_eq!(Link::parse(&message(7, 0, &attributes)), None);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(
            head in prop::collection::vec(any::<u8>(), 0..20),
            attributes in prop::collection::vec(
                (0u16..70, prop::collection::vec(any::<u8>(), 0..40)), 0..12),
            cut in 0usize..200,
        ) {
            Link::parse(&head);
            let mut body = message(0, 0, &attributes);
            Link::parse(&body);
            body.truncate(cut);
            Link::parse(&body);
        }
    }
}
