//! The receive ring: memory shared with the kernel, walked slot by slot.
//!
//! The kernel fills slots in order and hands each over by a flag in its first
//! word; we hand it back by clearing the word.

use std::{
    io,
    os::fd::BorrowedFd,
    ptr::NonNull,
    sync::atomic::{AtomicU32, Ordering},
};

use linerate_linux::socket::set_option;
use rustix::mm::{MapFlags, ProtFlags};

/// Memory is had from the kernel in blocks of this size, which it tries to
/// find in one piece; slots do not cross from one to the next.
const BLOCK: usize = 256 << 10;

/// A `TPACKET_V2` receive ring of a socket.
pub(super) struct Ring {
    start: NonNull<u8>,
    /// Bytes mapped.
    length: usize,
    /// Bytes of a slot: a multiple of a cache line, at most a block.
    stride: usize,
    /// Offsets of the slots: `block * BLOCK + slot * stride`.
    places: Box<[u32]>,
    /// The slot that is next to be handed over.
    next: usize,
}

// SAFETY: the mapping belongs to the ring alone on this side, and the kernel
// does not care which thread reads it.
unsafe impl Send for Ring {}

impl Ring {
    /// Makes a ring of at least `slots` slots of `stride` bytes for a socket
    /// that has not been bound yet.
    pub(super) fn new(socket: BorrowedFd<'_>, slots: usize, stride: usize) -> io::Result<Ring> {
        debug_assert!(stride.is_multiple_of(64));
        let block = BLOCK.max(stride.next_multiple_of(4096));
        let per_block = block / stride;
        let blocks = slots.div_ceil(per_block);
        let number = |n: usize| u32::try_from(n).map_err(|_| io::ErrorKind::InvalidInput);
        let request = libc::tpacket_req {
            tp_block_size: number(block)?,
            tp_block_nr: number(blocks)?,
            tp_frame_size: number(stride)?,
            tp_frame_nr: number(blocks * per_block)?,
        };
        let length = block * blocks;
        number(length)?;
        let version = libc::tpacket_versions::TPACKET_V2 as libc::c_int;
        set_option(socket, libc::SOL_PACKET, libc::PACKET_VERSION, version)?;
        set_option(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, request)?;
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let start = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::POPULATE,
                socket,
                0,
            )?
        };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let places = (0..blocks)
            .flat_map(|at| (0..per_block).map(move |slot| (at * block + slot * stride) as u32))
            .collect();
        Ok(Ring { start, length, stride, places, next: 0 })
    }

    fn place(&self) -> NonNull<u8> {
        // SAFETY: every place is the start of `stride` bytes inside the
        // mapping, and `next` is a place's index.
        unsafe { self.start.add(self.places[self.next] as usize) }
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: a slot starts with the status word, aligned since blocks and
        // strides are multiples of 64; it is only accessed atomically while
        // the kernel may write it.
        unsafe { AtomicU32::from_ptr(self.place().as_ptr().cast()) }
    }

    /// The bytes of the next slot, when the kernel has handed it over.
    #[inline]
    pub(super) fn peek(&self) -> Option<&[u8]> {
        // Acquire: the kernel wrote the frame before the status.
        if self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: `stride` bytes inside the mapping; the kernel does not touch
        // a slot between handing it over and getting it back, which takes
        // `&mut self`.
        Some(unsafe { std::slice::from_raw_parts(self.place().as_ptr(), self.stride) })
    }

    /// Hands the slot that [`Ring::peek`] returned back to the kernel, and goes
    /// on to the next. Call it only after `peek` returned one: going on past a
    /// slot the kernel has not filled, we would wait for the wrong one.
    #[inline]
    pub(super) fn release(&mut self) {
        // Release: we read the frame before the kernel may overwrite it.
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next += 1;
        if self.next == self.places.len() {
            self.next = 0;
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `new`; no slot is borrowed. A failure leaves it
        // mapped, which is harmless.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.length) };
    }
}
