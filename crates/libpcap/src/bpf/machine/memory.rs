//! Memory of code: written first, and executed when it is not writable any more.

use std::{ffi::c_void, fmt, ptr::NonNull, slice};

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// Function type of the code of a filter: a packet's first byte, the bytes there are, its length on
/// its link, and [metadata](crate::bpf::Metadata), packed.
type Entry = unsafe extern "sysv64" fn(*const u8, usize, u32, u32) -> u32;

/// Code in pages of its own, which can be read and executed.
pub(super) struct Executable {
    pages: NonNull<c_void>,
    /// Bytes of code.
    length: usize,
}

// SAFETY: there are no writes to the pages after `new`, and they are unmapped only by the owner of
// this.
unsafe impl Send for Executable {}
// SAFETY: as above; reading and executing the same memory needs no order among threads.
unsafe impl Sync for Executable {}

impl Executable {
    /// `None` when the system gives no such memory, or forbids to execute memory that has been
    /// written.
    pub(super) fn new(code: &[u8]) -> Option<Executable> {
        let writable = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at a place the kernel chooses, so nothing else is there.
        let pages = unsafe {
            mmap_anonymous(std::ptr::null_mut(), code.len(), writable, MapFlags::PRIVATE)
        };
        let pages = NonNull::new(pages.ok()?)?;
        let made = Executable { pages, length: code.len() };
        // SAFETY: the mapping is `code.len()` bytes long, writable, and known here alone.
        unsafe { pages.cast::<u8>().as_ptr().copy_from_nonoverlapping(code.as_ptr(), code.len()) };
        // SAFETY: the whole mapping, to which there are no references.
        unsafe { mprotect(pages.as_ptr(), code.len(), MprotectFlags::READ | MprotectFlags::EXEC) }
            .ok()?;
        Some(made)
    }

    /// The code.
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: so many bytes have been written, there are no writes to them, and they stay as
        // long as `self`.
        unsafe { slice::from_raw_parts(self.pages.cast().as_ptr(), self.length) }
    }

    /// Runs the code on a packet.
    ///
    /// # Safety
    ///
    /// The code was made by `translate` from a checked program, and the packet has at most
    /// `PACKET_MAX` bytes.
    #[inline]
    pub(super) unsafe fn run(&self, packet: &[u8], length: u32, about: u32) -> u32 {
        // SAFETY: the pages begin with a function of this type: `translate` writes one.
        let entry: Entry = unsafe { std::mem::transmute(self.pages) };
        // SAFETY: it reads packets only below the length given (see `translate`), writes no memory but
        // the 128 bytes below its stack pointer that are its own, and keeps the registers that
        // belong to the caller.
        unsafe { entry(packet.as_ptr(), packet.len(), length, about) }
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length; references to it cannot outlive `self`.
        let unmapped = unsafe { munmap(self.pages.as_ptr(), self.length) };
        debug_assert!(unmapped.is_ok());
    }
}

impl fmt::Debug for Executable {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{:02x?}", self.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_executed_and_cannot_be_written() {
        // mov eax, edx; ret
        let code = Executable::new(&[0x89, 0xd0, 0xc3]).expect("executable memory");
        // SAFETY: it reads nothing.
        assert_eq!(unsafe { code.run(&[], 7, 0) }, 7);
        let at = code.pages.as_ptr() as usize;
        let maps = std::fs::read_to_string("/proc/self/maps").expect("the memory of a process");
        let line = maps.lines().find(|line| line.starts_with(&format!("{at:x}-"))).expect("a line");
        assert!(line.contains(" r-xp "), "{line}");
    }
}
