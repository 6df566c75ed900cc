//! The four rings shared with the kernel.
//!
//! Each is an array of a power-of-two size with a producer and a consumer
//! index that run freely over all 32-bit values. We write one of the two and
//! the kernel the other: plain loads and stores suffice, acquire where the
//! other side's entries are read or reused, release where ours are handed
//! over. The other side's index is cached and only read again when the cached
//! value is not enough (`Documentation/networking/af_xdp.rst`).

use std::{
    io,
    marker::PhantomData,
    os::fd::BorrowedFd,
    ptr::{self, NonNull},
    sync::atomic::{AtomicU32, Ordering},
};

use rustix::{
    mm::{MapFlags, ProtFlags},
    net::xdp::XdpRingOffset,
};

/// An entry of the receive and transmit rings, `struct xdp_desc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Descriptor {
    pub(super) address: u64,
    pub(super) length: u32,
    pub(super) options: u32,
}

const _: () = assert!(size_of::<Descriptor>() == 16);

/// One of a socket's four rings.
#[derive(Debug, Clone, Copy)]
pub(super) enum RingKind {
    Receive,
    Transmit,
    Fill,
    Completion,
}

impl RingKind {
    /// The offset that names the ring to mmap(2).
    fn offset(self) -> u64 {
        match self {
            RingKind::Receive => 0,
            RingKind::Transmit => 0x8000_0000,
            RingKind::Fill => libc::XDP_UMEM_PGOFF_FILL_RING,
            RingKind::Completion => libc::XDP_UMEM_PGOFF_COMPLETION_RING,
        }
    }
}

/// A mapped ring of entries `T`, whichever of its sides is ours.
struct Ring<T> {
    map: NonNull<u8>,
    map_len: usize,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: Option<NonNull<AtomicU32>>,
    entries: NonNull<T>,
    /// Size less one.
    mask: u32,
    _entries: PhantomData<T>,
}

// SAFETY: the mapping belongs to the ring, and all access to it is atomic or
// confined to the entries whose turn it is on our side.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    /// Maps a ring of `size` entries, as was set on the socket.
    fn map(
        socket: BorrowedFd<'_>,
        kind: RingKind,
        size: u32,
        offsets: &XdpRingOffset,
    ) -> io::Result<Ring<T>> {
        assert!(size.is_power_of_two());
        let map_len = offsets.desc as usize + size as usize * size_of::<T>();
        // SAFETY: a new mapping at an address the kernel chooses.
        let map = unsafe {
            rustix::mm::mmap(
                ptr::null_mut(),
                map_len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::POPULATE,
                socket,
                kind.offset(),
            )?
        };
        let map = NonNull::new(map.cast::<u8>()).expect("the kernel maps nothing at zero");
        // SAFETY: that much was just mapped, and there are no other pointers to it.
        Ok(unsafe { Ring::over(map, map_len, size, offsets) })
    }

    /// The ring in a mapping that becomes its own.
    ///
    /// # Safety
    ///
    /// `map_len` bytes are mapped at `map`, and they are unmapped by the ring alone.
    unsafe fn over(
        map: NonNull<u8>,
        map_len: usize,
        size: u32,
        offsets: &XdpRingOffset,
    ) -> Ring<T> {
        let at = |offset: u64| {
            assert!(offset as usize + 4 <= map_len, "ring offset outside its mapping");
            // SAFETY: inside the mapping, by the assertion.
            unsafe { map.add(offset as usize) }
        };
        Ring {
            map,
            map_len,
            producer: at(offsets.producer).cast(),
            consumer: at(offsets.consumer).cast(),
            flags: offsets.flags.map(|offset| at(offset).cast()),
            entries: at(offsets.desc).cast(),
            mask: size - 1,
            _entries: PhantomData,
        }
    }

    #[inline]
    fn producer(&self) -> &AtomicU32 {
        // SAFETY: inside the mapping, which lives as long as `self`.
        unsafe { self.producer.as_ref() }
    }

    #[inline]
    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as in `producer`.
        unsafe { self.consumer.as_ref() }
    }

    #[inline]
    fn size(&self) -> u32 {
        self.mask + 1
    }

    #[inline]
    fn entry(&self, index: u32) -> NonNull<T> {
        // SAFETY: masked to the size of the array.
        unsafe { self.entries.add((index & self.mask) as usize) }
    }

    /// Returns true if the kernel asks to be called to go on.
    #[inline]
    fn wants_wakeup(&self) -> bool {
        let Some(flags) = self.flags else { return true };
        // SAFETY: as in `producer`.
        let flags = unsafe { flags.as_ref() };
        flags.load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `map` mapped; nothing else points into it.
        let _ = unsafe { rustix::mm::munmap(self.map.as_ptr().cast(), self.map_len) };
    }
}

/// A ring we write: fill and transmit.
pub(super) struct Producer<T> {
    ring: Ring<T>,
    /// Our index, ahead of the shared one until [`Producer::publish`].
    next: u32,
    /// The kernel's index as last seen.
    seen: u32,
}

impl<T: Copy> Producer<T> {
    pub(super) fn map(
        socket: BorrowedFd<'_>,
        kind: RingKind,
        size: u32,
        offsets: &XdpRingOffset,
    ) -> io::Result<Producer<T>> {
        let ring = Ring::map(socket, kind, size, offsets)?;
        Ok(Producer { ring, next: 0, seen: 0 })
    }

    /// Places free, at most `wanted`.
    #[inline]
    pub(super) fn free(&mut self, wanted: usize) -> usize {
        if self.room() < wanted {
            self.seen = self.ring.consumer().load(Ordering::Acquire);
        }
        self.room().min(wanted)
    }

    #[inline]
    fn room(&self) -> usize {
        // Saturating: an index out of its range frees nothing.
        self.ring.size().saturating_sub(self.next.wrapping_sub(self.seen)) as usize
    }

    /// Writes the next entry. The caller has asked [`Producer::free`]; writing
    /// more loses entries, not memory safety.
    #[inline]
    pub(super) fn write(&mut self, entry: T) {
        // SAFETY: inside the array, and the kernel reads only entries before
        // the published index.
        unsafe { self.ring.entry(self.next).as_ptr().write(entry) };
        self.next = self.next.wrapping_add(1);
    }

    /// Hands over the entries written.
    #[inline]
    pub(super) fn publish(&mut self) {
        self.ring.producer().store(self.next, Ordering::Release);
    }

    /// The index behind the last entry the kernel has taken.
    #[inline]
    pub(super) fn taken(&self) -> u32 {
        self.ring.consumer().load(Ordering::Acquire)
    }

    /// The index behind the last entry written.
    #[inline]
    pub(super) fn written(&self) -> u32 {
        self.next
    }

    /// An entry written earlier and not yet overwritten.
    pub(super) fn earlier(&self, index: u32) -> T {
        // SAFETY: inside the array and initialised by the kernel or us; only
        // we write this ring.
        unsafe { self.ring.entry(index).as_ptr().read() }
    }

    #[inline]
    pub(super) fn wants_wakeup(&self) -> bool {
        self.ring.wants_wakeup()
    }
}

/// A ring we read: receive and completion.
pub(super) struct Consumer<T> {
    ring: Ring<T>,
    /// Our index, ahead of the shared one until [`Consumer::release`].
    next: u32,
    /// The kernel's index as last seen.
    seen: u32,
}

impl<T: Copy> Consumer<T> {
    pub(super) fn map(
        socket: BorrowedFd<'_>,
        kind: RingKind,
        size: u32,
        offsets: &XdpRingOffset,
    ) -> io::Result<Consumer<T>> {
        let ring = Ring::map(socket, kind, size, offsets)?;
        Ok(Consumer { ring, next: 0, seen: 0 })
    }

    /// Entries ready, at most `wanted`.
    #[inline]
    pub(super) fn ready(&mut self, wanted: usize) -> usize {
        if self.behind() < wanted {
            self.seen = self.ring.producer().load(Ordering::Acquire);
        }
        self.behind().min(wanted)
    }

    #[inline]
    fn behind(&self) -> usize {
        // An index out of its range is as good as a full ring: entries are
        // checked one by one.
        self.seen.wrapping_sub(self.next).min(self.ring.size()) as usize
    }

    /// Copies the next entry out. The caller has asked [`Consumer::ready`].
    #[inline]
    pub(super) fn read(&mut self) -> T {
        // SAFETY: inside the array. Volatile, so that the copy is made once and the checked entry
        // is the one that is used.
        let entry = unsafe { self.ring.entry(self.next).as_ptr().read_volatile() };
        self.next = self.next.wrapping_add(1);
        entry
    }

    /// Gives the places of the entries read back to the kernel.
    #[inline]
    pub(super) fn release(&mut self) {
        self.ring.consumer().store(self.next, Ordering::Release);
    }
}

/// Rings without a kernel, for tests that play its part.
#[cfg(test)]
pub(super) mod fake {
    use super::*;

    /// The kernel's end of a ring that we read.
    pub(crate) struct Kernel {
        producer: NonNull<AtomicU32>,
        entries: NonNull<u64>,
        mask: u32,
    }

    /// A completion ring, and the kernel at its other end, which is gone before it.
    pub(crate) fn completion(size: u32) -> (Consumer<u64>, Kernel) {
        let offsets = XdpRingOffset { producer: 0, consumer: 64, desc: 128, flags: None };
        let map_len = 128 + size as usize * size_of::<u64>();
        // SAFETY: a new mapping at an address the kernel chooses, handed over to
        // the ring at once.
        let ring = unsafe {
            let flags = MapFlags::SHARED;
            let access = ProtFlags::READ | ProtFlags::WRITE;
            let map = rustix::mm::mmap_anonymous(ptr::null_mut(), map_len, access, flags).unwrap();
            Ring::over(NonNull::new(map.cast()).unwrap(), map_len, size, &offsets)
        };
        let kernel = Kernel { producer: ring.producer, entries: ring.entries, mask: ring.mask };
        (Consumer { ring, next: 0, seen: 0 }, kernel)
    }

    impl Kernel {
        pub(crate) fn complete(&self, addresses: &[u64]) {
            // SAFETY: the ring is still there, by the contract of `completion`;
            // the entries written are behind those it may read.
            unsafe {
                let at = self.producer.as_ref().load(Ordering::Relaxed);
                for (at, address) in (at..).zip(addresses) {
                    self.entries.add((at & self.mask) as usize).write(*address);
                }
                let behind = at + addresses.len() as u32;
                self.producer.as_ref().store(behind, Ordering::Release);
            }
        }
    }
}
