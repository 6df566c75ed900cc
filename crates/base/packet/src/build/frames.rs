//! Frame descriptions, one per kind of packet a generator sends.

use core::net::Ipv4Addr;

use super::{Addresses, BuildError, Ip, Layout, Link, room};
use crate::arp::Operation;
use crate::tcp::Flags;
use crate::{
    Arp, EtherType, Icmp, Icmpv6, IpProtocol, MacAddr, Tcp, Udp, Vxlan, arp, icmp, icmpv6, tcp,
    udp, vxlan,
};

/// A UDP datagram in a frame of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpFrame {
    /// Ethernet header.
    pub link: Link,
    /// IP header.
    pub ip: Ip,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Length of the payload.
    pub payload_len: usize,
}

impl UdpFrame {
    /// Returns the offsets of the frame's parts.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        Layout::new(&self.link, &self.ip, IpProtocol::UDP, udp::HEADER_LEN, self.payload_len)
    }

    /// Writes the headers in front of the payload.
    ///
    /// # Errors
    ///
    /// The buffer is shorter than the frame, or the packet too long for IP.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<Layout, BuildError> {
        self.layout().emit(buffer, &self.link, &self.ip, |bytes, pseudo| {
            let len = bytes.len() as u16;
            let mut udp = Udp::init(bytes)?;
            udp.set_src_port(self.src_port);
            udp.set_dst_port(self.dst_port);
            udp.set_length(len);
            udp.fill_checksum(pseudo);
            Ok(())
        })
    }
}

/// A TCP segment in a frame of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpFrame<'a> {
    /// Ethernet header.
    pub link: Link,
    /// IP header.
    pub ip: Ip,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Control bits.
    pub flags: Flags,
    /// Window.
    pub window: u16,
    /// Options as they go on the wire, padded to a multiple of 4 bytes.
    pub options: &'a [u8],
    /// Length of the payload.
    pub payload_len: usize,
}

impl TcpFrame<'_> {
    /// Returns the offsets of the frame's parts.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        let header_len = tcp::HEADER_LEN + self.options.len();
        Layout::new(&self.link, &self.ip, IpProtocol::TCP, header_len, self.payload_len)
    }

    /// Writes the headers in front of the payload.
    ///
    /// # Errors
    ///
    /// The buffer is shorter than the frame, the packet too long for IP, or the options do not fit
    /// a header.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<Layout, BuildError> {
        let header_len = tcp::HEADER_LEN + self.options.len();
        if header_len > tcp::MAX_HEADER_LEN || !header_len.is_multiple_of(4) {
            return Err(BuildError::Options(self.options.len()));
        }
        self.layout().emit(buffer, &self.link, &self.ip, |bytes, pseudo| {
            let mut tcp = Tcp::init(bytes)?;
            tcp.set_src_port(self.src_port);
            tcp.set_dst_port(self.dst_port);
            tcp.set_seq(self.seq);
            tcp.set_ack(self.ack);
            tcp.set_header_len(header_len as u8);
            tcp.set_flags(self.flags);
            tcp.set_window(self.window);
            tcp.options_mut().copy_from_slice(self.options);
            tcp.fill_checksum(pseudo);
            Ok(())
        })
    }
}

/// An echo request or reply, ICMP or `ICMPv6` as the addresses say, in a frame of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoFrame {
    /// Ethernet header.
    pub link: Link,
    /// IP header.
    pub ip: Ip,
    /// A reply and not a request?
    pub reply: bool,
    /// Identifier.
    pub ident: u16,
    /// Sequence number.
    pub seq: u16,
    /// Length of the payload.
    pub payload_len: usize,
}

impl EchoFrame {
    /// Returns the offsets of the frame's parts.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        let protocol = match self.ip.addresses {
            Addresses::V4 { .. } => IpProtocol::ICMP,
            Addresses::V6 { .. } => IpProtocol::ICMPV6,
        };
        Layout::new(&self.link, &self.ip, protocol, icmp::HEADER_LEN, self.payload_len)
    }

    /// Writes the headers in front of the payload.
    ///
    /// # Errors
    ///
    /// The buffer is shorter than the frame, or the packet too long for IP.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<Layout, BuildError> {
        let layout = self.layout();
        layout.emit(buffer, &self.link, &self.ip, |bytes, pseudo| {
            if layout.protocol == IpProtocol::ICMP {
                let mut echo = Icmp::init(bytes)?;
                echo.set_kind(if self.reply {
                    icmp::IcmpType::ECHO_REPLY
                } else {
                    icmp::IcmpType::ECHO_REQUEST
                });
                echo.set_ident(self.ident);
                echo.set_seq(self.seq);
                echo.fill_checksum();
            } else {
                let mut echo = Icmpv6::init(bytes)?;
                echo.set_kind(if self.reply {
                    icmpv6::Icmpv6Type::ECHO_REPLY
                } else {
                    icmpv6::Icmpv6Type::ECHO_REQUEST
                });
                echo.set_ident(self.ident);
                echo.set_seq(self.seq);
                echo.fill_checksum(pseudo);
            }
            Ok(())
        })
    }
}

/// An inner frame in VXLAN: the payload is that frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VxlanFrame {
    /// Outer Ethernet header.
    pub link: Link,
    /// Outer IP header.
    pub ip: Ip,
    /// UDP source port, which should vary with the inner flow.
    pub src_port: u16,
    /// Virtual network identifier, 24 bits.
    pub vni: u32,
    /// Length of the inner frame.
    pub payload_len: usize,
}

impl VxlanFrame {
    /// Returns the offsets of the frame's parts; the payload is the inner frame.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        let header_len = udp::HEADER_LEN + vxlan::HEADER_LEN;
        Layout::new(&self.link, &self.ip, IpProtocol::UDP, header_len, self.payload_len)
    }

    /// Writes the headers in front of the inner frame. Over IPv4 the UDP checksum is zero, as RFC
    /// 7348 wants it; over IPv6 it is computed.
    ///
    /// # Errors
    ///
    /// The buffer is shorter than the frame, or the packet too long for IP.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<Layout, BuildError> {
        self.layout().emit(buffer, &self.link, &self.ip, |bytes, pseudo| {
            let len = bytes.len() as u16;
            let mut udp = Udp::init(bytes)?;
            udp.set_src_port(self.src_port);
            udp.set_dst_port(vxlan::UDP_PORT);
            udp.set_length(len);
            Vxlan::init(udp.payload_mut())?.set_vni(self.vni);
            if let Addresses::V6 { .. } = self.ip.addresses {
                udp.fill_checksum(pseudo);
            }
            Ok(())
        })
    }
}

/// An ARP message in a frame of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArpFrame {
    /// Ethernet header.
    pub link: Link,
    /// Request or reply.
    pub operation: Operation,
    /// The sender's addresses.
    pub sender: (MacAddr, Ipv4Addr),
    /// The target's addresses.
    pub target: (MacAddr, Ipv4Addr),
}

impl ArpFrame {
    /// The broadcast request for the MAC address of `target`.
    #[must_use]
    pub const fn request(mac: MacAddr, ip: Ipv4Addr, target: Ipv4Addr) -> ArpFrame {
        ArpFrame {
            link: Link::new(mac, MacAddr::BROADCAST),
            operation: Operation::REQUEST,
            sender: (mac, ip),
            target: (MacAddr::ZERO, target),
        }
    }

    /// Length of the frame.
    #[must_use]
    pub const fn frame_len(&self) -> usize {
        self.link.header_len() + arp::HEADER_LEN
    }

    /// Writes the frame and returns its length.
    ///
    /// # Errors
    ///
    /// The buffer is shorter than the frame.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, BuildError> {
        let (need, have) = (self.frame_len(), buffer.len());
        let frame = room(buffer, need)?;
        let short = |_| BuildError::Buffer { need, have };
        self.link.emit(frame, EtherType::ARP).map_err(short)?;
        let mut arp = Arp::init(&mut frame[self.link.header_len()..]).map_err(short)?;
        arp.set_operation(self.operation);
        arp.set_sender_mac(self.sender.0);
        arp.set_sender_ip(self.sender.1);
        arp.set_target_mac(self.target.0);
        arp.set_target_ip(self.target.1);
        Ok(need)
    }
}
