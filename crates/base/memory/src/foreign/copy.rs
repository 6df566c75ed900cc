//! Copies out of and into memory that another process writes at the same time.
//!
//! In assembly, because nothing in Rust or C expresses this: a `memcpy` of bytes that change is a
//! data race, which is undefined behaviour, and volatile loads and stores are one instruction for
//! each word. To the compiler the instructions here are a call it does not see through: it cannot
//! read twice a value to be read once, nor assume that a value it has read is still there.
//!
//! Short copies end with a piece that overlaps the one before, instead of a loop over bytes.

/// From here on the processor's own loop is faster than ours of 16 bytes at a time, where it has no
/// better.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const STRING: usize = 1024;
/// From here on it pays to call a loop of 32 bytes at a time.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const WIDE: usize = 128;

/// Copies `len` bytes. Those of the shortest frames, and of headers of rings, are copied without a
/// call.
///
/// # Safety
///
/// Both ranges are mapped, `to` for writing, and they do not overlap. The range of the two that is
/// ours is not accessed by other code meanwhile.
#[inline(always)]
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: two pieces of as many bytes as there are, or fewer; else the caller's promise.
    unsafe {
        match len {
            32..=64 => {
                copy_32(from, to);
                copy_32(from.add(len - 32), to.add(len - 32));
            }
            8..=16 => {
                copy_8(from, to);
                copy_8(from.add(len - 8), to.add(len - 8));
            }
            _ => copy_any(from, to, len),
        }
    }
}

/// # Safety
///
/// As of [`copy`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn copy_any(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: every access below is inside `len` bytes, by the branch it is in.
    unsafe {
        match len {
            // Faster than the processor's own loop where another processor has the lines
            // (docs/design/ports.md, stores of 64 bytes).
            WIDE.. if std::arch::is_x86_feature_detected!("avx") => copy_wide(from, to, len),
            STRING.. => {
                std::arch::asm!(
                    "rep movsb",
                    inout("rcx") len => _, inout("rsi") from => _, inout("rdi") to => _,
                    options(nostack, preserves_flags),
                );
            }
            65.. => {
                let mut at = 0;
                while at + 64 < len {
                    copy_64(from.add(at), to.add(at));
                    at += 64;
                }
                copy_64(from.add(len - 64), to.add(len - 64));
            }
            33.. => {
                copy_32(from, to);
                copy_32(from.add(len - 32), to.add(len - 32));
            }
            17.. => {
                copy_16(from, to);
                copy_16(from.add(len - 16), to.add(len - 16));
            }
            8.. => {
                copy_8(from, to);
                copy_8(from.add(len - 8), to.add(len - 8));
            }
            _ => {
                for at in 0..len {
                    to.add(at).write_volatile(from.add(at).read_volatile());
                }
            }
        }
    }
}

/// # Safety
///
/// As of [`copy`], with more than 64 bytes, on a processor with AVX.
#[inline(never)]
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx")]
unsafe fn copy_wide(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: whole pieces of 64 bytes from the start as long as more than that is left, then the
    // last 64 bytes.
    unsafe {
        std::arch::asm!(
            "2:",
            "vmovdqu {a}, [{from}]", "vmovdqu {b}, [{from} + 32]",
            "vmovdqu [{to}], {a}", "vmovdqu [{to} + 32], {b}",
            "add {from}, 64", "add {to}, 64", "sub {left}, 64",
            "cmp {left}, 64", "ja 2b",
            "vmovdqu {a}, [{from} + {left} - 64]", "vmovdqu {b}, [{from} + {left} - 32]",
            "vmovdqu [{to} + {left} - 64], {a}", "vmovdqu [{to} + {left} - 32], {b}",
            "vzeroupper",
            from = inout(reg) from => _, to = inout(reg) to => _, left = inout(reg) len => _,
            a = out(ymm_reg) _, b = out(ymm_reg) _,
            options(nostack),
        );
    }
}

/// # Safety
///
/// As of [`copy`], with 64 bytes; as for the others below.
#[inline(always)]
#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn copy_64(from: *const u8, to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        std::arch::asm!(
            "movdqu {a}, [{from}]", "movdqu {b}, [{from} + 16]",
            "movdqu {c}, [{from} + 32]", "movdqu {d}, [{from} + 48]",
            "movdqu [{to}], {a}", "movdqu [{to} + 16], {b}",
            "movdqu [{to} + 32], {c}", "movdqu [{to} + 48], {d}",
            from = in(reg) from, to = in(reg) to,
            a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _,
            options(nostack, preserves_flags),
        );
    }
}

/// # Safety
///
/// As above.
#[inline(always)]
#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn copy_32(from: *const u8, to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        std::arch::asm!(
            "movdqu {a}, [{from}]", "movdqu {b}, [{from} + 16]",
            "movdqu [{to}], {a}", "movdqu [{to} + 16], {b}",
            from = in(reg) from, to = in(reg) to, a = out(xmm_reg) _, b = out(xmm_reg) _,
            options(nostack, preserves_flags),
        );
    }
}

/// # Safety
///
/// As above.
#[inline(always)]
#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn copy_16(from: *const u8, to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        std::arch::asm!(
            "movdqu {a}, [{from}]", "movdqu [{to}], {a}",
            from = in(reg) from, to = in(reg) to, a = out(xmm_reg) _,
            options(nostack, preserves_flags),
        );
    }
}

/// # Safety
///
/// As above.
#[inline(always)]
#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn copy_8(from: *const u8, to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        std::arch::asm!(
            "mov {a}, [{from}]", "mov [{to}], {a}",
            from = in(reg) from, to = in(reg) to, a = out(reg) _,
            options(nostack, preserves_flags),
        );
    }
}

/// Copies a word at a time, where there is no assembly of ours and under Miri, which interprets
/// none: volatile accesses are neither joined nor repeated.
///
/// # Safety
///
/// As above.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    let mut at = 0;
    // SAFETY: every access is inside `len` bytes, and those of words are aligned.
    unsafe {
        let aligned = (from as usize).wrapping_sub(to as usize) % 8 == 0;
        while at < len && (!aligned || (from as usize + at) % 8 != 0 || len - at < 8) {
            to.add(at).write_volatile(from.add(at).read_volatile());
            at += 1;
        }
        while len - at >= 8 {
            let word = from.add(at).cast::<u64>().read_volatile();
            to.add(at).cast::<u64>().write_volatile(word);
            at += 8;
        }
        while at < len {
            to.add(at).write_volatile(from.add(at).read_volatile());
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_length_at_every_alignment() {
        let bytes: Vec<u8> = (0..1300u32).map(|n| (n * 7 + n / 256 + 1) as u8).collect();
        let lengths = if cfg!(miri) { 0..40 } else { 0..1100 };
        for len in lengths {
            for (from, to) in [(0, 0), (0, 1), (3, 0), (5, 5), (8, 16)] {
                let mut copied = vec![0u8; len + 20];
                // SAFETY: both are longer than that, and neither is the other.
                unsafe { super::copy(bytes.as_ptr().add(from), copied.as_mut_ptr().add(to), len) };
                assert_eq!(copied[to..to + len], bytes[from..from + len]);
                assert!(copied[..to].iter().chain(&copied[to + len..]).all(|&byte| byte == 0));
            }
        }
    }
}
