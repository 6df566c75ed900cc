//! The transmitting side of a queue: the transmit ring to the kernel, the
//! completion ring back.
//!
//! In copy mode the kernel sends inside our system call, so it takes one call per burst. Its
//! progress shows in the transmit ring's consumer index, and packets count as sent when it has
//! passed them.

use std::sync::{Arc, atomic::Ordering};

use linerate_memory::{Frame, PoolCache};
use rustix::{
    io::Errno,
    net::{SendFlags, send},
};

use super::{
    PortState,
    deferred_umem_release::Outstanding,
    rings::{Consumer, Descriptor, Producer},
    socket::Socket,
    umem::KernelOwned,
};
use crate::{
    counters::{Counters, DropReason},
    error::PortError,
    port::{Interest, Transmit, Wake},
};

/// Calls per burst at most: an old kernel sends 32 packets in each, and a
/// burst has at most 2,048.
const KICKS_MAX: usize = 64;
/// Calls in a row that lost a packet after which the link is looked at.
const REFUSALS: usize = 4;
/// Shortest frame: an Ethernet header.
const LENGTH_MIN: usize = 14;

pub(super) struct XdpTransmit {
    // The rings come first: they are unmapped before the socket can close.
    ring: Producer<Descriptor>,
    /// There until `drop`.
    completion: Option<Consumer<u64>>,
    kernel_owned: KernelOwned,
    /// Buffers on their way from the completion ring to the pool.
    scratch: Frame,
    counters: Arc<Counters>,
    /// Written but not yet counted as sent.
    pending: Pending,
    /// Calls in a row that lost a packet.
    refusals: usize,
    /// The interface cannot send: packets are dropped until it can.
    down: bool,
    socket: Arc<Socket>,
    port: Arc<PortState>,
}

/// Packets in the transmit ring.
#[derive(Debug, Default)]
struct Pending {
    packets: usize,
    bytes: u64,
}

impl XdpTransmit {
    pub(super) fn new(
        (ring, completion): (Producer<Descriptor>, Consumer<u64>),
        socket: Arc<Socket>,
        port: Arc<PortState>,
    ) -> XdpTransmit {
        XdpTransmit {
            ring,
            completion: Some(completion),
            kernel_owned: KernelOwned::new(socket.arena()),
            scratch: Frame::new(linerate_memory::FRAME_DEFAULT),
            counters: Counters::shared(),
            pending: Pending::default(),
            refusals: 0,
            down: false,
            socket,
            port,
        }
    }

    /// Takes back the buffers the kernel is done with.
    #[inline]
    fn reap(&mut self, pool: &mut PoolCache) {
        let Some(completion) = &mut self.completion else { return };
        loop {
            let ready = completion.ready(self.scratch.limit());
            if ready == 0 {
                return;
            }
            for _ in 0..ready {
                // An address that is not of a buffer the kernel owns is nothing
                // to act on; the packet was counted when it was sent.
                if let Ok(slot) = self.kernel_owned.take_back(completion.read(), 0)
                    && let Err(slot) = self.scratch.push(slot)
                {
                    pool.give_one(slot);
                }
            }
            completion.release();
            pool.give(&mut self.scratch);
        }
    }

    /// Moves the first `count` packets into the ring.
    #[inline]
    fn submit(&mut self, pool: &mut PoolCache, frame: &mut Frame, count: usize) {
        let limit = self.port.length_limit.load(Ordering::Relaxed);
        let Self { ring, kernel_owned, counters, pending, socket, .. } = self;
        let arena = socket.arena();
        frame.drain_front(count, |mut slot| {
            let length = slot.len();
            if length > limit || length < LENGTH_MIN {
                let long = length > limit;
                let reason = if long { DropReason::TooLong } else { DropReason::Malformed };
                counters.dropped(reason, 1);
                return pool.give_one(slot);
            }
            let address = loop {
                match kernel_owned.hand_over(arena, slot) {
                    Ok(address) => break address,
                    // Another holder of the same bytes is being sent.
                    Err(mut shared) => {
                        if !pool.unshare(&mut shared) {
                            counters.dropped(DropReason::NoBuffer, 1);
                            return pool.give_one(shared);
                        }
                        slot = shared;
                    }
                }
            };
            ring.write(Descriptor { address, length: length as u32, options: 0 });
            pending.packets += 1;
            pending.bytes += length as u64;
        });
        ring.publish();
    }

    /// Counts the packets the kernel has taken out of the ring since the last time.
    #[inline]
    fn settle(&mut self) {
        let written = self.ring.written();
        let left = written.wrapping_sub(self.ring.taken()) as usize;
        let taken = self.pending.packets.saturating_sub(left);
        let bytes = if left == 0 {
            self.pending.bytes
        } else {
            let first = written.wrapping_sub(self.pending.packets as u32);
            (0..taken as u32)
                .map(|n| u64::from(self.ring.earlier(first.wrapping_add(n)).length))
                .sum()
        };
        self.pending.packets -= taken;
        self.pending.bytes -= bytes;
        self.counters.passed(taken, bytes);
    }

    /// Counts the packet that the kernel took last as refused, not as sent.
    fn refuse_last(&mut self) {
        let taken = self.ring.taken();
        let left = self.ring.written().wrapping_sub(taken) as usize;
        if left >= self.pending.packets {
            return;
        }
        // Settle all but the refused one, which is the last before `taken`.
        let length = u64::from(self.ring.earlier(taken.wrapping_sub(1)).length);
        self.counters.dropped(DropReason::Refused, 1);
        self.pending.bytes -= length;
        let before = self.pending.packets - left - 1;
        let first = self.ring.written().wrapping_sub(self.pending.packets as u32);
        let bytes: u64 = (0..before as u32)
            .map(|n| u64::from(self.ring.earlier(first.wrapping_add(n)).length))
            .sum();
        self.counters.passed(before, bytes);
        self.pending.packets = left;
        self.pending.bytes -= bytes;
    }

    /// Makes the kernel send the packets in the ring, as far as it can now.
    #[inline]
    fn kick(&mut self) -> Result<(), PortError> {
        if self.pending.packets == 0 {
            return Ok(());
        }
        if self.socket.zero_copy() && self.socket.need_wakeup() && !self.ring.wants_wakeup() {
            self.settle();
            return Ok(());
        }
        match send(self.socket.fd(), &[], SendFlags::DONTWAIT) {
            Ok(_) => {
                self.refusals = 0;
                self.settle();
                Ok(())
            }
            Err(errno) => self.kick_again(errno),
        }
    }

    #[cold]
    #[inline(never)]
    fn kick_again(&mut self, mut errno: Errno) -> Result<(), PortError> {
        for _ in 1..KICKS_MAX {
            let before = self.pending.packets;
            match errno {
                Errno::AGAIN | Errno::NOBUFS | Errno::INTR => self.settle(),
                Errno::BUSY => {
                    self.refuse_last();
                    self.refusals += 1;
                    if self.refusals >= REFUSALS {
                        self.refusals = 0;
                        if !self.can_send()? {
                            return Ok(());
                        }
                    }
                }
                Errno::NETDOWN | Errno::NXIO | Errno::NODEV => {
                    self.settle();
                    self.can_send()?;
                    return Ok(());
                }
                // A packet the kernel will not send, in its words; it has
                // taken it from the ring.
                _ => self.refuse_last(),
            }
            if self.pending.packets == 0 || self.pending.packets == before {
                return Ok(());
            }
            match send(self.socket.fd(), &[], SendFlags::DONTWAIT) {
                Ok(_) => {
                    self.settle();
                    return Ok(());
                }
                Err(again) => errno = again,
            }
        }
        Ok(())
    }

    /// Looks whether the interface can send.
    fn can_send(&mut self) -> Result<bool, PortError> {
        match self.port.device.is_running() {
            Ok(running) => self.down = !running,
            Err(_) => self.port.refresh(),
        }
        self.port.check()?;
        Ok(!self.down)
    }
}

impl Transmit for XdpTransmit {
    #[inline]
    fn transmit(&mut self, pool: &mut PoolCache, frame: &mut Frame) -> Result<usize, PortError> {
        self.reap(pool);
        if self.down && !self.can_send()? {
            let count = frame.len();
            self.counters.dropped(DropReason::LinkDown, count);
            pool.give(frame);
            return Ok(count);
        }
        if self.pending.packets > 0 {
            // Before their entries are overwritten.
            self.settle();
        }
        let count = self.ring.free(frame.len());
        self.submit(pool, frame, count);
        self.kick()?;
        Ok(count)
    }

    fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    fn flush(&mut self, pool: &mut PoolCache) -> Result<usize, PortError> {
        if self.down && !self.can_send()? {
            self.reap(pool);
            // Packets in the ring wait for the link; the caller should not.
            return Ok(0);
        }
        self.kick()?;
        self.reap(pool);
        Ok(self.kernel_owned.count())
    }

    fn wake(&mut self) -> Wake<'_> {
        Wake::Fd(self.socket.fd(), Interest::Write)
    }

    fn refresh(&mut self) {
        self.port.refresh();
    }
}

impl Drop for XdpTransmit {
    fn drop(&mut self) {
        self.settle();
        // Counted, because nothing will send them any more.
        self.counters.dropped(DropReason::LinkDown, self.pending.packets);
        let unsent = self.ring.written().wrapping_sub(self.ring.taken()) as usize;
        if let Some(completion) = self.completion.take() {
            let owned = std::mem::take(&mut self.kernel_owned);
            self.socket.keep_outstanding(Outstanding::Transmit { owned, completion, unsent });
        }
    }
}
