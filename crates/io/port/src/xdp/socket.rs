//! `AF_XDP` sockets over the arena.
//!
//! The buffers of the arena are the kernel's packet memory (UMEM) as they are:
//! in the mode for unaligned chunks a chunk may be as long as the arena's
//! stride, which is no power of two, and a packet received through one socket
//! can be transmitted through any other of the process where it lies.
//!
//! The kernel pins the memory and keeps a page table of it per registration,
//! so it is registered once and shared by all sockets that move packets the
//! same way (`XDP_SHARED_UMEM`); a device that cannot share gets its own.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, Mutex, Weak},
    thread,
    time::{Duration, Instant},
};

use linerate_linux::socket::set_option;
use linerate_memory::Arena;
use rustix::{
    io::Errno,
    net::{
        AddressFamily, SocketFlags, SocketType, bind, sockopt,
        xdp::{
            SocketAddrXdp, SocketAddrXdpFlags, SocketAddrXdpWithSharedUmem, XdpUmemReg,
            XdpUmemRegFlags,
        },
    },
};

use super::{
    deferred_umem_release::{self, LingeringSocket, Outstanding, QueueId},
    rings::{Consumer, Descriptor, Producer, RingKind},
};

/// The kernel keeps this much in front of a received packet
/// (`XDP_PACKET_HEADROOM`).
pub(super) const HEADROOM: usize = 256;
/// Smallest and largest chunk the kernel takes: 2 KiB and a page.
pub(super) const CHUNK_MIN: usize = 2048;
pub(super) const CHUNK_MAX: usize = 4096;
/// Time that a queue may stay busy after its last user has closed it: the kernel lets go of it some
/// time after that.
const BUSY_PATIENCE: Duration = Duration::from_secs(2);
/// The step in which the kernel takes the memory, which it locks.
pub(super) const REGISTER: &str = "register packet memory";

/// Packets a transmit call may send in copy mode, from Linux 6.17;
/// `XDP_MAX_TX_SKB_BUDGET`.
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;
const SO_PREFER_BUSY_POLL: libc::c_int = 69;
const SO_BUSY_POLL_BUDGET: libc::c_int = 70;
/// Packets a busy poll takes at most.
const BUSY_POLL_BUDGET: libc::c_int = 64;

/// Configuration of a socket.
#[derive(Debug, Clone)]
pub(super) struct SocketConfig {
    pub(super) interface: u32,
    pub(super) queue: u32,
    pub(super) zero_copy: bool,
    pub(super) need_wakeup: bool,
    pub(super) ring: u32,
    pub(super) busy_poll: Option<u32>,
    pub(super) receives: bool,
    pub(super) transmits: bool,
}

/// A bound socket. The release of the buffers the kernel owns when it is dropped is in
/// [`deferred_umem_release`].
pub(super) struct Socket {
    /// Always there until `drop`.
    fd: Option<OwnedFd>,
    arena: Arena,
    queue: QueueId,
    zero_copy: bool,
    need_wakeup: bool,
    /// Buffers that the directions had outstanding when they were dropped.
    outstanding: Mutex<Vec<Outstanding>>,
}

/// The rings of a new socket, by direction.
pub(super) struct Rings {
    pub(super) receive: Option<(Consumer<Descriptor>, Producer<u64>)>,
    pub(super) transmit: Option<(Producer<Descriptor>, Consumer<u64>)>,
}

/// A step that failed.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) step: &'static str,
    pub(super) source: io::Error,
}

/// The sockets of this process, whose memory others can share.
static SOCKETS: Mutex<Vec<Weak<Socket>>> = Mutex::new(Vec::new());

impl Socket {
    /// Makes and binds a socket.
    pub(super) fn open(
        arena: &Arena,
        config: &SocketConfig,
    ) -> Result<(Arc<Socket>, Rings), Failure> {
        deferred_umem_release::reap();
        let mut sockets = SOCKETS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        sockets.retain(|socket| socket.strong_count() > 0);
        let other = sockets.iter().filter_map(Weak::upgrade).find(|other| {
            other.arena.region() == arena.region()
                && other.zero_copy == config.zero_copy
                && other.need_wakeup == config.need_wakeup
        });
        let made = match &other {
            Some(other) => Socket::bound(arena, config, Some(other)).or_else(|failure| {
                // Its interface may have gone, or this device cannot share.
                match failure.source.raw_os_error() {
                    Some(libc::EBADF | libc::EINVAL | libc::EOPNOTSUPP | libc::ENXIO) => {
                        Socket::bound(arena, config, None)
                    }
                    _ => Err(failure),
                }
            }),
            None => Socket::bound(arena, config, None),
        };
        let (socket, rings) = made?;
        let socket = Arc::new(socket);
        sockets.push(Arc::downgrade(&socket));
        Ok((socket, rings))
    }

    fn bound(
        arena: &Arena,
        config: &SocketConfig,
        other: Option<&Socket>,
    ) -> Result<(Socket, Rings), Failure> {
        let flags = SocketFlags::CLOEXEC;
        let fd = rustix::net::socket_with(AddressFamily::XDP, SocketType::RAW, flags, None)
            .map_err(failed("open an AF_XDP socket"))?;
        let (start, len) = arena.region();
        if other.is_none() {
            let memory = XdpUmemReg {
                addr: start.as_ptr() as u64,
                len: len as u64,
                chunk_size: arena.buffer_size() as u32,
                headroom: 0,
                flags: XdpUmemRegFlags::XDP_UMEM_UNALIGNED_CHUNK_FLAG,
                tx_metadata_len: 0,
            };
            sockopt::set_xdp_umem_reg(&fd, memory).map_err(failed(REGISTER))?;
        }
        let step = "set up its rings";
        let size = config.ring;
        sockopt::set_xdp_umem_fill_ring_size(&fd, size).map_err(failed(step))?;
        sockopt::set_xdp_umem_completion_ring_size(&fd, size).map_err(failed(step))?;
        if config.receives {
            sockopt::set_xdp_rx_ring_size(&fd, size).map_err(failed(step))?;
        }
        if config.transmits {
            sockopt::set_xdp_tx_ring_size(&fd, size).map_err(failed(step))?;
        }
        let rings = Rings::map(fd.as_fd(), config)
            .map_err(|source| Failure { step: "map its rings", source })?;
        set_limits(fd.as_fd(), config)?;

        let mut flags = SocketAddrXdpFlags::empty();
        if other.is_none() {
            flags |= if config.zero_copy {
                SocketAddrXdpFlags::XDP_ZEROCOPY
            } else {
                SocketAddrXdpFlags::XDP_COPY
            };
            if config.need_wakeup {
                flags |= SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
            }
        } else {
            // The mode comes from the other socket.
            flags |= SocketAddrXdpFlags::XDP_SHARED_UMEM;
        }
        let address = SocketAddrXdp::new(flags, config.interface, config.queue);
        let patience = Instant::now() + BUSY_PATIENCE;
        loop {
            let done = match other {
                Some(other) => {
                    let shared_umem_fd = other.fd();
                    let addr = address.clone();
                    bind(&fd, &SocketAddrXdpWithSharedUmem { addr, shared_umem_fd })
                }
                None => bind(&fd, &address),
            };
            match done {
                Ok(()) => break,
                Err(Errno::BUSY) if Instant::now() < patience => {
                    // Which may be because of one of ours.
                    deferred_umem_release::reap();
                    thread::sleep(Duration::from_millis(10));
                }
                Err(errno) => return Err(failed("bind to its queue")(errno)),
            }
        }
        let queue = QueueId::here(config.interface, config.queue);
        deferred_umem_release::queue_was_free(&queue);
        let socket = Socket {
            fd: Some(fd),
            arena: arena.clone(),
            queue,
            zero_copy: config.zero_copy,
            need_wakeup: config.need_wakeup,
            outstanding: Mutex::default(),
        };
        Ok((socket, rings))
    }

    #[inline]
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_ref().expect("open until dropped").as_fd()
    }

    #[inline]
    pub(super) fn arena(&self) -> &Arena {
        &self.arena
    }

    pub(super) fn zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// Returns true if the kernel says when it wants to be called.
    #[inline]
    pub(super) fn need_wakeup(&self) -> bool {
        self.need_wakeup
    }

    /// Keeps the outstanding buffers of a direction until the socket is closed.
    pub(super) fn keep_outstanding(&self, outstanding: Outstanding) {
        let mut all = self.outstanding.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        all.push(outstanding);
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let outstanding =
            self.outstanding.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(fd) = self.fd.take() {
            let (arena, outstanding) = (self.arena.clone(), std::mem::take(outstanding));
            let queue = self.queue.clone();
            LingeringSocket::new(arena, fd, outstanding, self.zero_copy, queue).linger();
        }
    }
}

impl Rings {
    fn map(fd: BorrowedFd<'_>, config: &SocketConfig) -> io::Result<Rings> {
        let offsets = sockopt::xdp_mmap_offsets(fd)?;
        let size = config.ring;
        let receive = if config.receives {
            let ring = Consumer::map(fd, RingKind::Receive, size, &offsets.rx)?;
            Some((ring, Producer::map(fd, RingKind::Fill, size, &offsets.fr)?))
        } else {
            None
        };
        let transmit = if config.transmits {
            let ring = Producer::map(fd, RingKind::Transmit, size, &offsets.tx)?;
            Some((ring, Consumer::map(fd, RingKind::Completion, size, &offsets.cr)?))
        } else {
            None
        };
        Ok(Rings { receive, transmit })
    }
}

fn set_limits(fd: BorrowedFd<'_>, config: &SocketConfig) -> Result<(), Failure> {
    // One transmit call sends all of the ring. Older kernels send 32 packets
    // per call, which the sender copes with.
    let _ = set_option(fd, libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, config.ring as libc::c_int);
    if let Some(time) = config.busy_poll {
        let step = "set up busy polling";
        let set = |option, value| {
            set_option(fd, libc::SOL_SOCKET, option, value)
                .map_err(|source| Failure { step, source })
        };
        set(SO_PREFER_BUSY_POLL, 1)?;
        set(libc::SO_BUSY_POLL, time as libc::c_int)?;
        set(SO_BUSY_POLL_BUDGET, BUSY_POLL_BUDGET)?;
    }
    Ok(())
}

fn failed(step: &'static str) -> impl Fn(Errno) -> Failure {
    move |errno| Failure { step, source: errno.into() }
}
