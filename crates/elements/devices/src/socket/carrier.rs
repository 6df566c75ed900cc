//! Packets in and out of sockets: receiving, sending, packets that wait for the peer, connections
//! that come and go. The kind of socket is decided in `open`.

use std::{
    os::fd::{AsFd, AsRawFd, OwnedFd},
    time::{Duration, Instant},
};

use linerate_graph::{Context, DropReason, Element, ElementBuilder, Next};
use linerate_linux::socket_file::SocketFile;
use linerate_memory::{FRAME_DEFAULT, Frame, Slot};
use linerate_port::{Interest, Wake};
use rustix::{
    io::Errno,
    net::{
        RecvFlags, SendFlags, SocketAddrAny, SocketAddrV4, SocketFlags, acceptfrom_with, recvfrom,
        send, sendto,
    },
};

use super::{super::filter::Filter, access::Access};
use linerate_element_support::{annotations::set_extra_length, output::reason};

/// Time until a source without notification is pulled again.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// Shortest IP packet.
const IP_LEAST: usize = 20;

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
pub(super) enum Reason {
    /// no peer
    NoPeer,
    /// peer too slow
    TooSlow,
    /// refused
    Refused,
    /// no IP packet
    NoIp,
    /// not allowed
    NotAllowed,
}

/// Maker of the sockets of a [`Carrier`].
pub(super) trait Open: PartialEq + Send + 'static {
    /// Opens the sockets.
    ///
    /// # Errors
    ///
    /// The system call that failed, and why.
    fn open(&self, sockets: &mut Sockets) -> Result<(), Failed>;
}

/// A system call that failed.
pub(super) type Failed = (&'static str, Errno);

/// The sockets of an element.
#[derive(Default)]
pub(super) struct Sockets {
    /// Accepts connections, one at a time.
    pub(super) listener: Option<OwnedFd>,
    /// Receives, and sends unless there is another that does.
    pub(super) active: Option<OwnedFd>,
    /// Sends, where that is not the receiving one.
    pub(super) sender: Option<OwnedFd>,
    pub(super) peer: Peer,
    /// Packets from this address are our own.
    pub(super) own: Option<SocketAddrAny>,
    /// Keeps a port reserved.
    pub(super) reserved: Option<OwnedFd>,
    /// The file of a UNIX socket, removed with the sockets.
    pub(super) file: Option<SocketFile>,
}

/// Destination of packets.
#[derive(Default)]
pub(super) enum Peer {
    /// None.
    #[default]
    None,
    /// Down a stream.
    Stream,
    /// To this address.
    Address(SocketAddrAny),
    /// The sender of the last packet received.
    Last(Option<SocketAddrAny>),
    /// To this port of the destination annotation.
    Annotation(u16),
    /// To the destination in their IP header.
    Header,
}

/// Arguments of the elements about packets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    pub(super) snaplen: usize,
    pub(super) timestamp: bool,
    pub(super) verbose: bool,
    /// Whether packets whose first byte is not that of IP are refused.
    pub(super) raw: bool,
    /// Peers that a server takes packets from.
    pub(super) access: Access,
    pub(super) outputs: bool,
    pub(super) pulls: bool,
    pub(super) burst: usize,
}

pub(super) struct Carrier<O> {
    open: O,
    settings: Settings,
    /// Whether it is to get its sockets from the element it takes over from.
    inherits: bool,
    sockets: Sockets,
    /// Packets the peer had no place for; the first may be sent in part.
    held: Frame,
    /// A buffer to receive into.
    spare: Option<Slot>,
}

/// Result of sending a packet.
enum Sent {
    Yes,
    /// The peer has no place.
    Full,
    /// The connection is gone.
    Closed,
    Dropped(Reason),
}

impl<O: Open> Carrier<O> {
    /// Makes an element from the arguments that `read` reads. If it replaces one with equal
    /// sockets, these are taken over.
    pub(super) fn new(
        make: &mut ElementBuilder<'_>,
        read: impl Fn(&mut ElementBuilder<'_>) -> (O, Settings),
    ) -> Carrier<O> {
        let (open, settings) = read(make);
        let inherits = make.predecessor().is_some_and(|mut before| read(&mut before).0 == open);
        let held = Frame::new(settings.burst.max(FRAME_DEFAULT));
        Carrier { open, settings, inherits, sockets: Sockets::default(), held, spare: None }
    }

    fn tell(&self, cx: &Context, text: &str) {
        if self.settings.verbose {
            cx.console().report(&format!("{}: {text}\n", declaration(cx)));
        }
    }

    /// Takes the next connection, when there is none.
    fn accept(&mut self, cx: &mut Context) {
        let Sockets { listener: Some(listener), active: None, .. } = &self.sockets else { return };
        match acceptfrom_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok((active, from)) => {
                let number = active.as_raw_fd();
                let permitted = self.settings.access.permits(cx, from.as_ref());
                let from = from.and_then(|from| SocketAddrV4::try_from(from).ok());
                let from = from.map_or_else(String::new, |from| format!(" from {from}"));
                let what = if permitted { "opened" } else { "denied" };
                self.sockets.active = Some(active).filter(|_| permitted);
                self.tell(cx, &format!("{what} connection {number}{from}"));
            }
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => {}
            Err(errno) => {
                cx.console().report(&format!("{}: accept: {}\n", declaration(cx), text(errno)));
            }
        }
    }

    #[cold]
    fn close_active(&mut self, cx: &mut Context, why: Option<Errno>) {
        if let Some(errno) = why {
            self.tell(cx, &text(errno));
        }
        if let Some(active) = self.sockets.active.take() {
            self.tell(cx, &format!("closed connection {}", active.as_raw_fd()));
        }
        // They were for a peer that is gone.
        cx.drop_frame(&mut self.held, Reason::NoPeer);
        cx.set_full(false);
    }

    /// Receives the packets there are, a burst at most. Returns true if there were any.
    fn receive(&mut self, cx: &mut Context, frame: &mut Frame) -> bool {
        let snaplen = self.settings.snaplen.min(cx.arena().room());
        // On a stream the flag would have the bytes thrown away.
        let is_stream = matches!(self.sockets.peer, Peer::Stream);
        let flags = if is_stream { RecvFlags::empty() } else { RecvFlags::TRUNC };
        let mut any = false;
        // Those that are left out count: they could come for ever.
        for _ in 0..self.settings.burst.min(frame.room()) {
            let Some(active) = &self.sockets.active else { break };
            let Some(mut slot) = self.spare.take().or_else(|| cx.pool.take_one(snaplen)) else {
                break;
            };
            let Some(bytes) = cx.pool.arena().packet_mut(&mut slot) else {
                cx.pool.give_one(slot);
                break;
            };
            match recvfrom(active, bytes, flags) {
                Ok((_, 0, _)) => {
                    self.spare = Some(slot);
                    if is_stream {
                        self.close_active(cx, None);
                        break;
                    }
                    // An empty datagram is no packet.
                    any = true;
                    break;
                }
                Ok((_, length, from)) => {
                    any = true;
                    if from.is_some() && from == self.sockets.own {
                        self.spare = Some(slot);
                        continue;
                    }
                    if let Peer::Last(peer) = &mut self.sockets.peer {
                        if !self.settings.access.permits(cx, from.as_ref()) {
                            self.leave_out(cx, slot, from);
                            continue;
                        }
                        *peer = from;
                    }
                    slot.truncate(length);
                    self.begin(cx, frame, slot, length);
                }
                Err(errno) => {
                    self.spare = Some(slot);
                    match errno {
                        Errno::AGAIN | Errno::INTR => {}
                        errno => self.close_active(cx, Some(errno)),
                    }
                    break;
                }
            }
        }
        if any && self.settings.raw {
            let filter = Filter::RAW_IP;
            filter.apply(cx, frame);
        }
        any
    }

    /// Drops a packet of a peer that is not allowed.
    #[cold]
    fn leave_out(&mut self, cx: &Context, slot: Slot, from: Option<SocketAddrAny>) {
        self.spare = Some(slot);
        cx.count_drops(Reason::NotAllowed, 1);
        if let Some(from) = from.and_then(|from| SocketAddrV4::try_from(from).ok()) {
            self.tell(cx, &format!("dropped datagram from {from}"));
        }
    }

    /// Puts a packet that was `length` bytes long into the frame.
    fn begin(&self, cx: &Context, frame: &mut Frame, mut slot: Slot, length: usize) {
        if cx.world().annotated
            && let Some(meta) = cx.pool.arena().meta_mut(&mut slot)
        {
            meta.reset();
            if self.settings.timestamp {
                meta.timestamp = cx.now();
            }
            set_extra_length(meta, (length.saturating_sub(self.settings.snaplen)) as u32);
        }
        // There was room.
        let _ = frame.push(slot);
    }

    /// Sends a packet; on a stream the rest of it.
    fn send_one(&self, cx: &Context, slot: &mut Slot) -> Sent {
        let Sockets { active, sender, peer, .. } = &self.sockets;
        let Some(socket) = sender.as_ref().or(active.as_ref()) else {
            return Sent::Dropped(Reason::NoPeer);
        };
        let arena = cx.pool.arena();
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        loop {
            let bytes = arena.packet(slot);
            if bytes.is_empty() {
                return Sent::Yes;
            }
            let sent = match peer {
                Peer::None | Peer::Last(None) => return Sent::Dropped(Reason::NoPeer),
                Peer::Stream => send(socket, bytes, flags),
                Peer::Address(peer) | Peer::Last(Some(peer)) => sendto(socket, bytes, flags, peer),
                Peer::Annotation(port) => {
                    let [a, b, c, d, ..] = arena.meta(slot).destination;
                    let to = SocketAddrV4::new([a, b, c, d].into(), *port);
                    sendto(socket, bytes, flags, &to)
                }
                Peer::Header => {
                    let Some(&to) = bytes.get(16..IP_LEAST).and_then(<[u8]>::first_chunk::<4>)
                    else {
                        let length = bytes.len();
                        cx.console().report(&format!("runt IP packet ({length} bytes)\n"));
                        return Sent::Dropped(Reason::NoIp);
                    };
                    sendto(socket, bytes, flags, &SocketAddrV4::new(to.into(), 0))
                }
            };
            match sent {
                Ok(length) if matches!(peer, Peer::Stream) => {
                    slot.pull(length);
                }
                Ok(_) => return Sent::Yes,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN | Errno::NOBUFS) => return Sent::Full,
                Err(errno) => {
                    if matches!(peer, Peer::Stream) {
                        self.tell(cx, &text(errno));
                        return Sent::Closed;
                    }
                    self.tell(cx, &text(errno));
                    return Sent::Dropped(Reason::Refused);
                }
            }
        }
    }

    /// Sends the packets of a frame from its front until the peer has no place;
    /// those that are done with are given back.
    fn send(&mut self, cx: &mut Context, frame: &mut Frame) {
        let (mut done, mut closed) = (0, false);
        let mut drops = [0; Reason::REASONS.len()];
        while done < frame.len() {
            match self.send_one(cx, &mut frame.slots_mut()[done]) {
                Sent::Yes => {}
                Sent::Full => break,
                Sent::Dropped(reason) => drops[reason.index()] += 1,
                Sent::Closed => {
                    drops[Reason::Refused.index()] += 1;
                    closed = true;
                }
            }
            done += 1;
            if closed {
                break;
            }
        }
        cx.count_drops_by_reason::<Reason>(&drops);
        cx.pool.give_front(frame, done);
        if closed {
            self.close_active(cx, None);
            cx.drop_frame(frame, Reason::NoPeer);
        }
    }

    /// Sends the waiting packets, then those of a frame.
    fn transmit(&mut self, cx: &mut Context, frame: &mut Frame) {
        if !self.held.is_empty() {
            let mut held = std::mem::replace(&mut self.held, Frame::new(1));
            self.send(cx, &mut held);
            std::mem::swap(&mut self.held, &mut held);
        }
        if self.held.is_empty() {
            self.send(cx, frame);
        }
        self.held.append(frame, usize::MAX);
        cx.drop_frame(frame, Reason::TooSlow);
        cx.set_full(!self.held.is_empty());
    }
}

impl<O: Open> Element for Carrier<O> {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        self.transmit(cx, frame);
        if !self.held.is_empty() {
            cx.schedule();
        }
    }

    fn run(&mut self, cx: &mut Context, frame: &mut Frame) -> Next {
        self.accept(cx);
        let mut moved = false;
        if !self.held.is_empty() {
            let before = self.held.len();
            self.transmit(cx, frame);
            moved = self.held.len() < before;
        }
        let connected = self.sockets.active.is_some() || self.sockets.sender.is_some();
        if self.settings.pulls && connected && self.held.is_empty() {
            moved |= cx.pull(0, self.settings.burst, frame) > 0;
            self.transmit(cx, frame);
        }
        if self.settings.outputs {
            moved |= self.receive(cx, frame);
        }
        if moved { Next::Again } else { Next::Wait }
    }

    fn room(&self) -> usize {
        if self.held.is_empty() { self.held.limit() } else { 0 }
    }

    fn wakes<'a>(&'a mut self, add: &mut dyn FnMut(Wake<'a>)) {
        let Settings { outputs, pulls, .. } = self.settings;
        let Sockets { listener, active, sender, .. } = &self.sockets;
        match (listener, active) {
            (_, Some(active)) if outputs => add(Wake::Fd(active.as_fd(), Interest::Read)),
            (Some(listener), None) => add(Wake::Fd(listener.as_fd(), Interest::Read)),
            _ => {}
        }
        let socket = sender.as_ref().or(active.as_ref());
        match socket {
            Some(socket) if !self.held.is_empty() => {
                add(Wake::Fd(socket.as_fd(), Interest::Write));
            }
            Some(_) if pulls => add(Wake::At(Instant::now() + LOOK_AGAIN)),
            _ => {}
        }
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        if !self.inherits {
            let opened = self.open.open(&mut self.sockets);
            opened.map_err(|(call, errno)| format!("{call}: {}", text(errno)))?;
        }
        cx.schedule();
        Ok(())
    }

    fn take_state(&mut self, cx: &mut Context, old: &mut dyn Element) {
        let Some(old) = old.downcast_mut::<Carrier<O>>().filter(|_| self.inherits) else { return };
        self.sockets = std::mem::take(&mut old.sockets);
        self.held.append(&mut old.held, usize::MAX);
        cx.set_full(!self.held.is_empty());
        cx.schedule();
    }

    fn close(&mut self, cx: &mut Context) {
        let mut held = std::mem::replace(&mut self.held, Frame::new(1));
        self.send(cx, &mut held);
        cx.drop_frame(&mut held, Reason::TooSlow);
        if let Some(spare) = self.spare.take() {
            cx.pool.give_one(spare);
        }
        self.sockets = Sockets::default();
    }
}

/// Returns the element's declaration as in Click's messages.
fn declaration(cx: &Context) -> String {
    let element = &cx.plan().elements[cx.element()];
    format!("{} :: {}", element.name, element.class.name)
}

/// Returns the C library's text for an error.
fn text(errno: Errno) -> String {
    reason(&std::io::Error::from(errno))
}
