//! Requests to the kernel over netlink, route and generic, one at a time.
//!
//! A thin synchronous layer over `netlink-sys` and `netlink-packet-core`: it frames requests,
//! follows a reply to its end and turns the kernel's answer into an [`io::Result`]. The meaning of
//! the bodies is left to the callers. A socket belongs to the network namespace of the thread that
//! opened it, for good. Sources: `linux/netlink.h`, `linux/genetlink.h`.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
};

use netlink_packet_core::{
    DefaultNla, Emitable, ErrorBuffer, NLA_HEADER_SIZE, NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP,
    NLM_F_DUMP_INTR, NLM_F_EXCL, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NLMSG_NOOP, NLMSG_OVERRUN,
    NetlinkBuffer, NetlinkHeader, NlasIterator,
};
use netlink_sys::{Socket, SocketAddr, protocols};

/// The kernel cuts a dump into datagrams of at most 32 KiB; a single message
/// (an interface with many virtual functions) may be longer.
const BUFFER: usize = 128 * 1024;
/// Attempts at a dump that the kernel says changed meanwhile.
const DUMP_ATTEMPTS: usize = 8;
/// Bytes of `struct genlmsghdr`: command, version, reserved.
const GENERIC_HEADER: usize = 4;

/// One message of a reply or a notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    /// `nlmsg_type`.
    pub(super) kind: u16,
    /// `nlmsg_flags`.
    pub(super) flags: u16,
    /// Bytes behind the netlink header.
    pub(crate) body: Vec<u8>,
}

/// A generic netlink family, as the kernel numbered it at start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Family {
    /// Its message type.
    pub(super) id: u16,
    /// Its multicast groups.
    pub(super) groups: Vec<(String, u32)>,
}

/// A netlink socket.
pub(crate) struct Netlink {
    socket: Socket,
    sequence: u32,
    buffer: Vec<u8>,
}

impl std::fmt::Debug for Netlink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Netlink").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl AsFd for Netlink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Netlink {
    /// A socket for links, addresses and routes.
    pub(super) fn route() -> io::Result<Netlink> {
        Netlink::open(protocols::NETLINK_ROUTE)
    }

    /// A socket for generic netlink families.
    pub(super) fn generic() -> io::Result<Netlink> {
        Netlink::open(protocols::NETLINK_GENERIC)
    }

    /// A socket for questions about sockets.
    pub(crate) fn sockets() -> io::Result<Netlink> {
        Netlink::open(protocols::NETLINK_SOCK_DIAG)
    }

    fn open(protocol: isize) -> io::Result<Netlink> {
        let mut socket = Socket::new(protocol)?;
        socket.bind_auto()?;
        // Connected to port 0, only the kernel can send us anything.
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Netlink { socket, sequence: 0, buffer: Vec::with_capacity(BUFFER) })
    }

    /// Joins a multicast group; its messages come from [`Netlink::notices`].
    pub(super) fn subscribe(&self, group: u32) -> io::Result<()> {
        self.socket.add_membership(group)
    }

    /// Asks for one thing and collects the reply.
    pub(crate) fn request(&mut self, kind: u16, body: &[u8]) -> io::Result<Vec<Message>> {
        Ok(self.exchange(kind, NLM_F_REQUEST | NLM_F_ACK, body)?.0)
    }

    /// As [`Netlink::request`], for something that is not there yet.
    pub(super) fn create(&mut self, kind: u16, body: &[u8]) -> io::Result<()> {
        let flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
        self.exchange(kind, flags, body).map(|_| ())
    }

    /// Asks for a whole table. It is consistent unless the table changed
    /// during each of several attempts.
    pub(crate) fn dump(&mut self, kind: u16, body: &[u8]) -> io::Result<Vec<Message>> {
        let mut messages = Vec::new();
        for _ in 0..DUMP_ATTEMPTS {
            let interrupted;
            (messages, interrupted) = self.exchange(kind, NLM_F_REQUEST | NLM_F_DUMP, body)?;
            if !interrupted {
                break;
            }
        }
        Ok(messages)
    }

    /// The messages waiting on a subscribed socket; none if there are none.
    ///
    /// # Errors
    ///
    /// `ENOBUFS` when the kernel dropped some because they were not read fast enough: the state has
    /// to be read again.
    pub(super) fn notices(&mut self) -> io::Result<Vec<Message>> {
        let mut messages = Vec::new();
        loop {
            match self.receive(libc::MSG_DONTWAIT) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(messages),
                Err(error) => return Err(error),
            }
            each(&self.buffer, |header, body| {
                let (kind, flags) = (header.message_type, header.flags);
                messages.push(Message { kind, flags, body: body.to_vec() });
                Ok(())
            })?;
        }
    }

    /// Looks a generic netlink family up by name.
    pub(super) fn family(&mut self, name: &str) -> io::Result<Family> {
        let body = generic(
            libc::CTRL_CMD_GETFAMILY as u8,
            &[(libc::CTRL_ATTR_FAMILY_NAME as u16, [name.as_bytes(), &[0]].concat())],
        );
        let reply = self.request(libc::GENL_ID_CTRL as u16, &body)?;
        reply
            .iter()
            .find_map(|message| family(&message.body))
            .ok_or_else(|| malformed("generic netlink family"))
    }

    fn exchange(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<(Vec<Message>, bool)> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.message_type = kind;
        header.flags = flags;
        header.sequence_number = self.sequence;
        let length = header.buffer_len() + body.len();
        header.length = u32::try_from(length).map_err(|_| malformed("request"))?;
        let mut request = vec![0; header.buffer_len()];
        header.emit(&mut request);
        request.extend_from_slice(body);
        self.socket.send(&request, 0)?;

        let (mut messages, mut interrupted, mut finished) = (Vec::new(), false, false);
        while !finished {
            self.receive(0)?;
            let sequence = self.sequence;
            each(&self.buffer, |header, body| {
                if header.sequence_number != sequence {
                    return Ok(());
                }
                interrupted |= header.flags & NLM_F_DUMP_INTR != 0;
                match header.message_type {
                    NLMSG_DONE => {
                        finished = true;
                        // A dump that failed on its way ends with its error.
                        let code = body.get(..4).and_then(number).unwrap_or(0) as u32 as i32;
                        if code < 0 {
                            return Err(io::Error::from_raw_os_error(code.saturating_neg()));
                        }
                    }
                    NLMSG_ERROR => {
                        finished = true;
                        let error =
                            ErrorBuffer::new_checked(&body).map_err(|_| malformed("error"))?;
                        if let Some(code) = error.code() {
                            return Err(io::Error::from_raw_os_error(code.get().saturating_neg()));
                        }
                    }
                    NLMSG_NOOP | NLMSG_OVERRUN => {}
                    kind => {
                        let flags = header.flags;
                        messages.push(Message { kind, flags, body: body.to_vec() });
                    }
                }
                Ok(())
            })?;
        }
        Ok((messages, interrupted))
    }

    /// Reads one datagram into the buffer.
    fn receive(&mut self, flags: i32) -> io::Result<()> {
        loop {
            self.buffer.clear();
            match self.socket.recv(&mut self.buffer, flags | libc::MSG_TRUNC) {
                Ok(length) if length > self.buffer.len() => {
                    return Err(malformed("a datagram longer than the buffer"));
                }
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// The body of a generic netlink request: a command and its attributes.
pub(super) fn generic(command: u8, attributes: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let attributes: Vec<DefaultNla> =
        attributes.iter().map(|(kind, value)| DefaultNla::new(*kind, value.clone())).collect();
    let attributes = attributes.as_slice();
    let mut body = vec![0; GENERIC_HEADER + attributes.buffer_len()];
    body[0] = command;
    body[1] = 1;
    attributes.emit(&mut body[GENERIC_HEADER..]);
    body
}

/// The command and the attributes of a generic netlink message.
pub(super) fn generic_parts(body: &[u8]) -> Option<(u8, &[u8])> {
    Some((*body.first()?, body.get(GENERIC_HEADER..)?))
}

/// The attributes in `bytes`, up to the first that is not well-formed.
pub(crate) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    NlasIterator::new(bytes).map_while(Result::ok).filter_map(|nla| {
        let (kind, length) = (nla.kind(), nla.length().into());
        Some((kind, nla.into_inner().get(NLA_HEADER_SIZE..length)?))
    })
}

/// An attribute's value as a number of the machine's byte order.
pub(crate) fn number(value: &[u8]) -> Option<u64> {
    match *value {
        [a] => Some(u64::from(a)),
        [a, b] => Some(u64::from(u16::from_ne_bytes([a, b]))),
        [a, b, c, d] => Some(u64::from(u32::from_ne_bytes([a, b, c, d]))),
        [a, b, c, d, e, f, g, h] => Some(u64::from_ne_bytes([a, b, c, d, e, f, g, h])),
        _ => None,
    }
}

/// An attribute's value as text, without the terminating NUL.
pub(super) fn text(value: &[u8]) -> String {
    let end = value.iter().position(|&byte| byte == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

fn family(body: &[u8]) -> Option<Family> {
    let (mut id, mut groups) = (None, Vec::new());
    for (kind, value) in attributes(generic_parts(body)?.1) {
        match i32::from(kind) {
            libc::CTRL_ATTR_FAMILY_ID => id = number(value).and_then(|id| u16::try_from(id).ok()),
            libc::CTRL_ATTR_MCAST_GROUPS => {
                groups.extend(attributes(value).filter_map(|(_, group)| multicast_group(group)));
            }
            _ => {}
        }
    }
    Some(Family { id: id?, groups })
}

fn multicast_group(bytes: &[u8]) -> Option<(String, u32)> {
    let (mut name, mut id) = (None, None);
    for (kind, value) in attributes(bytes) {
        match i32::from(kind) {
            libc::CTRL_ATTR_MCAST_GRP_NAME => name = Some(text(value)),
            libc::CTRL_ATTR_MCAST_GRP_ID => {
                id = number(value).and_then(|id| u32::try_from(id).ok());
            }
            _ => {}
        }
    }
    Some((name?, id?))
}

/// Calls `visit` with the header and body of each message of a datagram.
fn each(
    datagram: &[u8],
    mut visit: impl FnMut(&NetlinkHeader, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut rest = datagram;
    while !rest.is_empty() {
        let message = NetlinkBuffer::new_checked(&rest).map_err(|_| malformed("message"))?;
        let mut header = NetlinkHeader::default();
        header.length = message.length();
        header.message_type = message.message_type();
        header.flags = message.flags();
        header.sequence_number = message.sequence_number();
        visit(&header, message.payload())?;
        // Messages are aligned to four bytes, the last one need not be padded.
        let next = (message.length() as usize).next_multiple_of(4).min(rest.len());
        rest = &rest[next..];
    }
    Ok(())
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("malformed netlink {what}"))
}
