//! Buffers the kernel may still use though nobody uses their socket any more.
//!
//! What the kernel guarantees (`net/xdp/xsk.c`, `net/xdp/xsk_buff_pool.c`):
//!
//! - In copy mode it puts packets into buffers of the fill ring only while the
//!   socket is bound: close(2) unbinds it and waits for those under way.
//! - A packet sent in copy mode has its bytes copied, but on devices that take
//!   packets without a linear part (`IFF_TX_SKB_NO_LINEAR`: `virtio_net`) it is made
//!   of the buffer's own pages. They stay pinned after close(2), and are ours to
//!   write to all the same: another packet's bytes would go out. The entry in the
//!   completion ring, made when the packet is freed, says when it is done with, and
//!   is made for as long as the socket is open, whether its interface is or not.
//! - How far the transmit ring was read, kernels before 6.17 say late when they
//!   stop in the middle of it. What seems to be unsent there may be under way.
//! - Without a copy, the device has buffers of both directions until it is told to
//!   stop, some time after close(2), by a worker of the kernel. That worker frees
//!   the queue for other sockets when the device has stopped, and it is not started
//!   before the last packet sent has been freed, in either mode. An interface has
//!   been stopped before it leaves the list of interfaces.
//!
//! So a socket nobody uses stays open, in copy mode, until everything that was sent
//! has completed. What cannot be told then comes home when its queue can be bound
//! to again, which is tried with a socket made for that, or has been by one of
//! ours, or when its interface has gone. Nothing waits for it: it is looked at when
//! a socket is opened or closed and now and then by those that are open.

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use linerate_memory::{Arena, PoolCache};
use rustix::{
    io::Errno,
    net::{
        AddressFamily, SocketFlags, SocketType, bind, sockopt,
        xdp::{SocketAddrXdp, SocketAddrXdpFlags, XdpUmemReg, XdpUmemRegFlags},
    },
};

use super::{lent::Lent, rings::Consumer, socket::CHUNK_MIN};

/// From the first look whether a queue is free to the second; the pauses double
/// from then on, up to the longest.
const PAUSE: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Entries of the rings of a socket that is only to be bound.
const PROBE_RING: u32 = 64;
/// Buffers on their way home.
const CACHE: usize = 64;

/// What a direction of a queue had with the kernel when it was dropped.
pub(super) enum Side {
    Receive(Lent),
    Transmit {
        lent: Lent,
        completion: Consumer<u64>,
        /// Packets the kernel has not taken, as far as it says.
        unsent: usize,
    },
}

impl Side {
    /// Takes home what has been completed. Whether that is all that was sent.
    fn collect(&mut self, pool: &mut PoolCache) -> bool {
        let Side::Transmit { lent, completion, unsent } = self else { return true };
        for _ in 0..completion.ready(usize::MAX) {
            if let Ok(slot) = lent.take_back(completion.read(), 0) {
                pool.give_one(slot);
            }
        }
        completion.release();
        lent.count() <= *unsent
    }
}

/// A queue of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The network namespace by device and inode; `None` when it is not known.
    namespace: Option<(u64, u64)>,
    interface: u32,
    queue: u32,
}

impl Place {
    /// A queue of an interface in the calling thread's namespace.
    pub(super) fn here(interface: u32, queue: u32) -> Place {
        let namespace = rustix::fs::stat("/proc/thread-self/ns/net");
        let namespace = namespace.ok().map(|stat| (stat.st_dev, stat.st_ino));
        Place { namespace, interface, queue }
    }

    /// Whether a queue seen from here is this one. Not if in doubt.
    fn is(&self, other: &Place) -> bool {
        self.namespace.is_some() && self == other
    }
}

/// Knows when a queue is free.
trait Watch: Send {
    /// Whether no socket is bound to the queue any more, or it does not exist.
    fn is_free(&mut self) -> bool;
}

/// A socket nobody uses any more, and the buffers the kernel has through it.
pub(super) struct Departed {
    arena: Arena,
    /// `None` when it has been closed.
    socket: Option<OwnedFd>,
    /// Those whose rings are unmapped have only buffers.
    sides: Vec<Side>,
    /// Buffers that come home when the queue is free.
    lents: Vec<Lent>,
    zero_copy: bool,
    place: Place,
    watch: Box<dyn Watch>,
    /// Somebody could bind to the queue since the socket was closed.
    free: bool,
    next_look: Instant,
    pause: Duration,
}

/// All of them, in this process.
static DEPARTED: Mutex<Vec<Departed>> = Mutex::new(Vec::new());
/// Whether there are any, so that those who have other things to do need not lock.
static ANY: AtomicBool = AtomicBool::new(false);

fn departed() -> MutexGuard<'static, Vec<Departed>> {
    DEPARTED.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Takes home what the kernel has let go of, unless another is at it. Almost free
/// when it has nothing.
pub(super) fn reap() {
    if ANY.load(Ordering::Relaxed)
        && let Ok(mut departed) = DEPARTED.try_lock()
    {
        departed.retain_mut(|departed| !departed.release());
        ANY.store(!departed.is_empty(), Ordering::Relaxed);
    }
}

/// A socket of ours could be bound to a queue, which therefore was free.
pub(super) fn taken_over(place: &Place) {
    for departed in departed().iter_mut() {
        departed.taken_over(place);
    }
    reap();
}

impl Departed {
    pub(super) fn new(
        arena: Arena,
        socket: OwnedFd,
        sides: Vec<Side>,
        zero_copy: bool,
        place: Place,
    ) -> Departed {
        let watch =
            Box::new(Probe { place: place.clone(), page: arena.region().0.as_ptr() as u64 });
        Departed::watched_by(watch, arena, socket, sides, zero_copy, place)
    }

    fn watched_by(
        watch: Box<dyn Watch>,
        arena: Arena,
        socket: OwnedFd,
        sides: Vec<Side>,
        zero_copy: bool,
        place: Place,
    ) -> Departed {
        Departed {
            arena,
            socket: Some(socket),
            sides,
            lents: Vec::new(),
            zero_copy,
            place,
            watch,
            free: false,
            next_look: Instant::now(),
            pause: PAUSE,
        }
    }

    /// Takes home what can be, and the rest later.
    pub(super) fn part(mut self) {
        // Locked before the socket is closed, so that whoever binds to its queue
        // then finds it here.
        let mut departed = departed();
        if !self.release() {
            departed.push(self);
            ANY.store(true, Ordering::Relaxed);
        }
    }

    fn taken_over(&mut self, place: &Place) {
        self.free |= self.socket.is_none() && self.place.is(place);
    }

    /// Takes home what the kernel has let go of. Whether that is everything.
    fn release(&mut self) -> bool {
        let mut pool = self.arena.cache(CACHE);
        if self.socket.is_some() {
            let mut collected = true;
            for side in &mut self.sides {
                collected &= side.collect(&mut pool);
            }
            if !collected && !self.zero_copy {
                return false;
            }
            self.close(&mut pool);
        }
        if self.lents.is_empty() {
            return true;
        }
        if !self.free {
            if Instant::now() < self.next_look {
                return false;
            }
            self.free = self.watch.is_free();
            self.next_look = Instant::now() + self.pause;
            self.pause = (self.pause * 2).min(PAUSE_MAX);
        }
        if self.free {
            for mut lent in self.lents.drain(..) {
                // SAFETY: the queue was free after the socket had been closed, or
                // is gone, and in copy mode what had been sent was completed.
                unsafe { lent.reclaim(|slot| pool.give_one(slot)) };
            }
        }
        self.free
    }

    /// Closes the socket, for good since no ring is mapped any more.
    fn close(&mut self, pool: &mut PoolCache) {
        let mut lents: Vec<(Lent, bool)> = Vec::new();
        for side in self.sides.drain(..) {
            lents.push(match side {
                Side::Receive(lent) => (lent, !self.zero_copy),
                Side::Transmit { lent, .. } => (lent, false),
            });
        }
        self.socket = None;
        for (mut lent, unused) in lents {
            if unused {
                // SAFETY: the socket is closed, and in copy mode the kernel has
                // waited for everything that put packets in its buffers.
                unsafe { lent.reclaim(|slot| pool.give_one(slot)) };
            }
            if lent.count() > 0 {
                self.lents.push(lent);
            }
        }
    }
}

/// Asks the kernel by binding to the queue.
struct Probe {
    place: Place,
    /// A page of the arena, for the socket to have some memory. It is never put
    /// into a ring.
    page: u64,
}

impl Watch for Probe {
    fn is_free(&mut self) -> bool {
        let Place { interface, queue, .. } = self.place;
        // Interfaces have their numbers per namespace.
        if !Place::here(interface, queue).is(&self.place) {
            return false;
        }
        // An interface that is not there was stopped before it went.
        matches!(self.bind(), Ok(()) | Err(Errno::NODEV))
    }
}

impl Probe {
    fn bind(&self) -> rustix::io::Result<()> {
        let flags = SocketFlags::CLOEXEC;
        let fd = rustix::net::socket_with(AddressFamily::XDP, SocketType::RAW, flags, None)?;
        let memory = XdpUmemReg {
            addr: self.page,
            len: 2 * CHUNK_MIN as u64,
            chunk_size: CHUNK_MIN as u32,
            headroom: 0,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        };
        sockopt::set_xdp_umem_reg(fd.as_fd(), memory)?;
        sockopt::set_xdp_umem_fill_ring_size(&fd, PROBE_RING)?;
        sockopt::set_xdp_umem_completion_ring_size(&fd, PROBE_RING)?;
        sockopt::set_xdp_rx_ring_size(&fd, PROBE_RING)?;
        let Place { interface, queue, .. } = self.place;
        bind(&fd, &SocketAddrXdp::new(SocketAddrXdpFlags::XDP_COPY, interface, queue))
    }
}

#[cfg(test)]
mod tests;
