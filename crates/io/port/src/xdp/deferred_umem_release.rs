//! Deferred release of UMEM buffers: sockets that are not used any more, but the kernel may still
//! use their buffers.
//!
//! Guarantees of the kernel (`net/xdp/xsk.c`, `net/xdp/xsk_buff_pool.c`):
//!
//! - In copy mode it puts packets into buffers of the fill ring only while the
//!   socket is bound: close(2) unbinds it and waits for those under way.
//! - A packet sent in copy mode has its bytes copied, but on devices that take
//!   packets without a linear part (`IFF_TX_SKB_NO_LINEAR`: `virtio_net`) it is made
//!   of the buffer's own pages. They stay pinned after close(2), and are ours to
//!   write to all the same: another packet's bytes would go out. The entry in the
//!   completion ring, made when the packet is freed, says when it is done with, and
//!   is made for as long as the socket is open, whether its interface is or not.
//! - Kernels before 6.17 that stop in the middle of the transmit ring say late how far they read
//!   it. A packet that seems unsent there may be under way.
//! - Without a copy, the device has buffers of both directions until it is told to
//!   stop, some time after close(2), by a worker of the kernel. That worker frees
//!   the queue for other sockets when the device has stopped, and it is not started
//!   before the last packet sent has been freed, in either mode. An interface has
//!   been stopped before it leaves the list of interfaces.
//!
//! So in copy mode a socket lingers, open, until everything that was sent has
//! completed. Buffers that the kernel owns after it is closed are reclaimed when
//! its queue is known to be free: another socket could be bound to it, one of ours
//! or one made to try, or its interface has gone. Nothing waits for that: it is
//! looked at when a socket is opened or closed, and now and then by open ones.

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

use super::{rings::Consumer, socket::CHUNK_MIN, umem::KernelOwned};

/// From the first look whether a queue is free to the second; the pauses double
/// from then on, up to the longest.
const PAUSE: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Entries of the rings of a socket that is only to be bound.
const PROBE_RING: u32 = 64;
/// Buffers on their way home.
const CACHE: usize = 64;

/// Buffers of a direction of a queue that were outstanding when it was dropped.
pub(super) enum Outstanding {
    Receive(KernelOwned),
    Transmit {
        owned: KernelOwned,
        completion: Consumer<u64>,
        /// Packets the kernel has not taken, as far as it says.
        unsent: usize,
    },
}

impl Outstanding {
    /// Gives completed buffers back. Whether that is all that was sent.
    fn reap_completions(&mut self, pool: &mut PoolCache) -> bool {
        let Outstanding::Transmit { owned, completion, unsent } = self else { return true };
        for _ in 0..completion.ready(usize::MAX) {
            if let Ok(slot) = owned.take_back(completion.read(), 0) {
                pool.give_one(slot);
            }
        }
        completion.release();
        owned.count() <= *unsent
    }
}

/// A queue of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QueueId {
    /// The network namespace by device and inode; `None` when it is not known.
    namespace: Option<(u64, u64)>,
    interface: u32,
    queue: u32,
}

impl QueueId {
    /// A queue of an interface in the calling thread's namespace.
    pub(super) fn here(interface: u32, queue: u32) -> QueueId {
        let namespace = rustix::fs::stat("/proc/thread-self/ns/net");
        let namespace = namespace.ok().map(|stat| (stat.st_dev, stat.st_ino));
        QueueId { namespace, interface, queue }
    }

    /// Returns true if a queue seen from here is this one. Not if in doubt.
    fn is(&self, other: &QueueId) -> bool {
        self.namespace.is_some() && self == other
    }
}

/// Knows when a queue is free.
trait QueueWatch: Send {
    /// Returns true if no socket is bound to the queue any more, or it does not exist.
    fn is_free(&mut self) -> bool;
}

/// A socket that is not used any more, and the buffers the kernel owns through it.
pub(super) struct LingeringSocket {
    arena: Arena,
    /// `None` when it has been closed.
    socket: Option<OwnedFd>,
    /// Outstanding buffers; directions whose rings are unmapped have only buffers.
    outstanding: Vec<Outstanding>,
    /// Buffers to be reclaimed when the queue is free.
    kernel_owned: Vec<KernelOwned>,
    zero_copy: bool,
    queue: QueueId,
    watch: Box<dyn QueueWatch>,
    /// A socket could bind to the queue since this one was closed.
    free: bool,
    next_look: Instant,
    pause: Duration,
}

/// All lingering sockets of this process.
static LINGERING: Mutex<Vec<LingeringSocket>> = Mutex::new(Vec::new());
/// Whether there are any, so that threads with other work need not lock.
static ANY: AtomicBool = AtomicBool::new(false);

fn lingering() -> MutexGuard<'static, Vec<LingeringSocket>> {
    LINGERING.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Reclaims the buffers the kernel has let go of, unless another thread is at it. Almost free when
/// nothing lingers.
pub(super) fn reap() {
    if ANY.load(Ordering::Relaxed)
        && let Ok(mut sockets) = LINGERING.try_lock()
    {
        sockets.retain_mut(|socket| !socket.release());
        ANY.store(!sockets.is_empty(), Ordering::Relaxed);
    }
}

/// A socket of ours could be bound to a queue, which therefore was free.
pub(super) fn queue_was_free(queue: &QueueId) {
    for socket in lingering().iter_mut() {
        socket.queue_was_free(queue);
    }
    reap();
}

impl LingeringSocket {
    pub(super) fn new(
        arena: Arena,
        socket: OwnedFd,
        outstanding: Vec<Outstanding>,
        zero_copy: bool,
        queue: QueueId,
    ) -> LingeringSocket {
        let watch =
            Box::new(BindProbe { queue: queue.clone(), page: arena.region().0.as_ptr() as u64 });
        LingeringSocket::watched_by(watch, arena, socket, outstanding, zero_copy, queue)
    }

    fn watched_by(
        watch: Box<dyn QueueWatch>,
        arena: Arena,
        socket: OwnedFd,
        outstanding: Vec<Outstanding>,
        zero_copy: bool,
        queue: QueueId,
    ) -> LingeringSocket {
        LingeringSocket {
            arena,
            socket: Some(socket),
            outstanding,
            kernel_owned: Vec::new(),
            zero_copy,
            queue,
            watch,
            free: false,
            next_look: Instant::now(),
            pause: PAUSE,
        }
    }

    /// Reclaims the buffers that can be at once, and the rest later.
    pub(super) fn linger(mut self) {
        // Locked before the socket is closed, so that the next to bind to its queue then finds it
        // here.
        let mut sockets = lingering();
        if !self.release() {
            sockets.push(self);
            ANY.store(true, Ordering::Relaxed);
        }
    }

    fn queue_was_free(&mut self, queue: &QueueId) {
        self.free |= self.socket.is_none() && self.queue.is(queue);
    }

    /// Reclaims the buffers the kernel has let go of. Returns true if those were all.
    fn release(&mut self) -> bool {
        let mut pool = self.arena.cache(CACHE);
        if self.socket.is_some() {
            let mut collected = true;
            for outstanding in &mut self.outstanding {
                collected &= outstanding.reap_completions(&mut pool);
            }
            if !collected && !self.zero_copy {
                return false;
            }
            self.close(&mut pool);
        }
        if self.kernel_owned.is_empty() {
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
            for mut owned in self.kernel_owned.drain(..) {
                // SAFETY: the queue was free after the socket had been closed, or is gone, and in
                // copy mode all packets sent were completed.
                unsafe { owned.reclaim(|slot| pool.give_one(slot)) };
            }
        }
        self.free
    }

    /// Closes the socket, for good since no ring is mapped any more.
    fn close(&mut self, pool: &mut PoolCache) {
        let mut kernel_owned: Vec<(KernelOwned, bool)> = Vec::new();
        for outstanding in self.outstanding.drain(..) {
            kernel_owned.push(match outstanding {
                Outstanding::Receive(owned) => (owned, !self.zero_copy),
                Outstanding::Transmit { owned, .. } => (owned, false),
            });
        }
        self.socket = None;
        for (mut owned, unused) in kernel_owned {
            if unused {
                // SAFETY: the socket is closed, and in copy mode the kernel has
                // waited for everything that put packets in its buffers.
                unsafe { owned.reclaim(|slot| pool.give_one(slot)) };
            }
            if owned.count() > 0 {
                self.kernel_owned.push(owned);
            }
        }
    }
}

/// Asks the kernel by binding to the queue.
struct BindProbe {
    queue: QueueId,
    /// A page of the arena, for the socket to have some memory. It is never put
    /// into a ring.
    page: u64,
}

impl QueueWatch for BindProbe {
    fn is_free(&mut self) -> bool {
        let QueueId { interface, queue, .. } = self.queue;
        // Interfaces have their numbers per namespace.
        if !QueueId::here(interface, queue).is(&self.queue) {
            return false;
        }
        // An interface that is not there was stopped before it went.
        matches!(self.bind(), Ok(()) | Err(Errno::NODEV))
    }
}

impl BindProbe {
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
        let QueueId { interface, queue, .. } = self.queue;
        bind(&fd, &SocketAddrXdp::new(SocketAddrXdpFlags::XDP_COPY, interface, queue))
    }
}

#[cfg(test)]
mod tests;
