//! The transmitting side of a queue.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    sync::Arc,
    time::{Duration, Instant},
};

use linerate_linux::interface::is_running;
use linerate_memory::{Arena, Frame, PoolCache, Slot};

use super::socket;
use crate::{
    counters::{Counters, DropReason},
    error::{PortError, PortFault},
    port::{Interest, Transmit, Wake},
    uri::PortUri,
};

/// Packets per system call. More gain nothing that can be measured, and the
/// lists of 64 stay in the first-level cache.
const BATCH: usize = 64;
/// Interval of retries while the interface's queue is full, which gives no event when it has room.
const FULL_RETRY: Duration = Duration::from_micros(50);

/// The transmitting side of a queue.
pub(super) struct PacketTransmit {
    uri: PortUri,
    interface: String,
    socket: OwnedFd,
    messages: Messages,
    counters: Arc<Counters>,
    full: Full,
    /// Whether the interface was found deleted.
    gone: bool,
}

/// The queue that was full for the last packet offered, if any.
#[derive(PartialEq, Eq)]
enum Full {
    No,
    Socket,
    Interface,
}

/// Lists for sendmmsg(2), made once.
struct Messages {
    headers: Box<[libc::mmsghdr; BATCH]>,
    parts: Box<[libc::iovec; BATCH]>,
}

// SAFETY: the pointers in the lists are set anew in each `send`, before the
// kernel reads them, and mean nothing after it.
unsafe impl Send for Messages {}

impl Messages {
    fn new() -> Messages {
        // SAFETY: both structures are integers and raw pointers, for which
        // zero is a value.
        let (header, part) = unsafe { std::mem::zeroed() };
        Messages { headers: Box::new([header; BATCH]), parts: Box::new([part; BATCH]) }
    }

    /// Sends packets in order until one is refused; returns how many were
    /// sent, or why the first was not.
    fn send(&mut self, socket: &OwnedFd, arena: &Arena, slots: &[Slot]) -> io::Result<usize> {
        let count = slots.len().min(BATCH);
        for ((header, part), slot) in
            self.headers.iter_mut().zip(self.parts.iter_mut()).zip(&slots[..count])
        {
            let bytes = arena.packet(slot);
            part.iov_base = bytes.as_ptr().cast_mut().cast();
            part.iov_len = bytes.len();
            header.msg_hdr.msg_iov = part;
            header.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: the descriptor is open. The first `count` headers name one
        // part each, set just above, and those name packets that `slots`
        // keeps from being written; the kernel only reads them. Name and
        // control pointers are null.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                count as libc::c_uint,
                libc::MSG_DONTWAIT as _,
            )
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
    }
}

impl PacketTransmit {
    pub(super) fn new(uri: &PortUri, socket: OwnedFd, interface: &str) -> PacketTransmit {
        PacketTransmit {
            uri: uri.clone(),
            interface: interface.into(),
            socket,
            messages: Messages::new(),
            counters: Counters::shared(),
            full: Full::No,
            gone: false,
        }
    }

    /// Drops the first `count` packets of `frame`; returns how many.
    fn discard(
        &self,
        pool: &mut PoolCache,
        frame: &mut Frame,
        count: usize,
        reason: DropReason,
    ) -> usize {
        self.counters.dropped(reason, count);
        pool.give_front(frame, count);
        count
    }
}

impl Transmit for PacketTransmit {
    fn transmit(&mut self, pool: &mut PoolCache, frame: &mut Frame) -> Result<usize, PortError> {
        let mut done = 0;
        self.full = Full::No;
        while !frame.is_empty() {
            let error = match self.messages.send(&self.socket, pool.arena(), frame.slots()) {
                Ok(sent) => {
                    let bytes = frame.slots()[..sent].iter().map(|slot| slot.len() as u64).sum();
                    self.counters.passed(sent, bytes);
                    pool.give_front(frame, sent);
                    done += sent;
                    continue;
                }
                Err(error) => error,
            };
            let left = frame.len();
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EAGAIN) => {
                    self.full = Full::Socket;
                    break;
                }
                // The interface has no room for it, or no peer at its other end.
                Some(libc::ENOBUFS | libc::ENOMEM) => {
                    if is_running(&self.socket, &self.interface).is_ok_and(|is| !is) {
                        done += self.discard(pool, frame, left, DropReason::LinkDown);
                    } else {
                        self.full = Full::Interface;
                        break;
                    }
                }
                Some(libc::ENETDOWN) => {
                    done += self.discard(pool, frame, left, DropReason::LinkDown);
                }
                Some(libc::ENXIO | libc::ENODEV) if socket::gone(&self.socket) => {
                    self.discard(pool, frame, left, DropReason::LinkDown);
                    return Err(PortFault::Gone { port: self.uri.to_string() }.into());
                }
                Some(libc::EMSGSIZE) => done += self.discard(pool, frame, 1, DropReason::TooLong),
                _ => done += self.discard(pool, frame, 1, DropReason::Refused),
            }
        }
        Ok(done)
    }

    fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Everything was sent when it was taken. A port that has nothing to send
    /// learns here that it no longer can.
    fn flush(&mut self, _: &mut PoolCache) -> Result<usize, PortError> {
        if self.gone { Err(PortFault::Gone { port: self.uri.to_string() }.into()) } else { Ok(0) }
    }

    fn refresh(&mut self) {
        self.gone = socket::gone(&self.socket);
    }

    fn wake(&mut self) -> Wake<'_> {
        match self.full {
            Full::No => Wake::Now,
            Full::Socket => Wake::Fd(self.socket.as_fd(), Interest::Write),
            Full::Interface => Wake::At(Instant::now() + FULL_RETRY),
        }
    }
}
