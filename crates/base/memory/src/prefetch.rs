//! A hint to the processor, safe to give from any crate.

/// Prefetches the cache line of `place` into all levels of the cache. The value is neither read nor
/// locked.
#[inline(always)]
pub fn prefetch<T: ?Sized>(place: &T) {
    prefetch_address(std::ptr::from_ref(place).cast());
}

/// As [`prefetch`], into the second level of the cache and those behind it. There are more of these
/// under way at once than the first level can wait for (16 fill buffers against 48 requests of the
/// second on Intel's Golden Cove), so it is for lines that are asked for long before they are read.
#[inline(always)]
pub fn prefetch_second<T: ?Sized>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing and cannot fault at any address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(std::ptr::from_ref(place).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// As [`prefetch`], for writing: where another processor has the line it is taken from that. On a processor
/// without the instruction, or another architecture, nothing.
#[inline(always)]
pub(crate) fn prefetch_for_writing<T>(place: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: as above; a processor that has no PREFETCHW takes it for a NOP (Intel's SDM and AMD's APM).
    unsafe {
        let place = std::ptr::from_ref(place);
        std::arch::asm!("prefetchw [{}]", in(reg) place, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = place;
}

/// As [`prefetch`], for an address that need not be valid.
#[inline(always)]
pub(crate) fn prefetch_address(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing and cannot fault at any address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
