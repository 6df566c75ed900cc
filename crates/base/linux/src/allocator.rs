//! Memory that the allocator of the C library keeps after it was freed.

/// Most arenas, of which each keeps up to [`KEPT`] bytes at its top. By default there are eight for each core, and each
/// keeps up to 64 MiB once large blocks were freed: after a burst of hostile connections, each with a thread, more
/// than a gigabyte.
#[cfg(target_env = "gnu")]
const ARENAS: libc::c_int = 8;

/// Free bytes at the top of an arena beyond which they are given back.
#[cfg(target_env = "gnu")]
const KEPT: libc::c_int = 8 << 20;

/// Bytes of a block that has pages of its own, which are given back when it is freed.
#[cfg(target_env = "gnu")]
const OWN_PAGES: libc::c_int = 4 << 20;

/// Bounds the memory that the allocator keeps for later, for all threads. For the start of a program: arenas that
/// exist stay. Does nothing where the C library is not the GNU one.
///
/// `mallopt(3)`.
pub fn bound_kept_memory() {
    #[cfg(target_env = "gnu")]
    for (parameter, value) in [
        (libc::M_ARENA_MAX, ARENAS),
        (libc::M_TRIM_THRESHOLD, KEPT),
        (libc::M_MMAP_THRESHOLD, OWN_PAGES),
    ] {
        // SAFETY: mallopt(3) takes any values, and no memory but the allocator's own. A refused
        // parameter stays as it was.
        unsafe { libc::mallopt(parameter, value) };
    }
}
