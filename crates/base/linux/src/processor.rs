//! Check whether this processor has the instructions this program was compiled to.
//!
//! A program for `target-cpu=native` dies of an illegal instruction on a processor that lacks one
//! of its instructions, wherever it first meets it. [`missing`] finds that out before, so it must
//! not need the instructions it looks for, although the compiler may use them here as well: it
//! compares single words with constants, in which there is nothing to gain by newer instructions,
//! and calls nothing. The standard library's `is_x86_feature_detected!` cannot be asked: it answers
//! yes, without a look at the processor, for all features that the compiler was told.
//!
//! Words and bits are those of the instruction CPUID (Intel's Software Developer's Manual, volume 2;
//! AMD's Architecture Programmer's Manual, volume 3, appendix E).

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__cpuid, __cpuid_count};

/// Words of CPUID, as far as they are asked for.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Clone, Copy, Default)]
struct Words {
    /// Leaf 1.
    basic_ecx: u32,
    /// Leaf 7, subleaf 0.
    extended_ebx: u32,
    extended_ecx: u32,
    extended_edx: u32,
    /// Leaf 7, subleaf 1.
    more_eax: u32,
    /// Leaf `0x8000_0001`.
    amd_ecx: u32,
}

#[cfg(target_arch = "x86_64")]
impl Words {
    #[inline(always)]
    #[allow(unused_unsafe, reason = "the functions are safe in newer toolchains")]
    fn read() -> Words {
        // SAFETY: all x86-64 processors have CPUID.
        let leaf = |leaf| unsafe { __cpuid(leaf) };
        // SAFETY: as above.
        let part = |part| unsafe { __cpuid_count(7, part) };
        let mut words = Words { basic_ecx: leaf(1).ecx, ..Words::default() };
        // A leaf beyond the last is answered with another's words.
        if leaf(0).eax >= 7 {
            let extended = part(0);
            words.extended_ebx = extended.ebx;
            words.extended_ecx = extended.ecx;
            words.extended_edx = extended.edx;
            if extended.eax >= 1 {
                words.more_eax = part(1).eax;
            }
        }
        if leaf(0x8000_0000).eax > 0x8000_0000 {
            words.amd_ecx = leaf(0x8000_0001).ecx;
        }
        words
    }
}

/// Makes the function that compares, and for tests the one that lists, from names, words and bits.
#[cfg(target_arch = "x86_64")]
macro_rules! features {
    ($($name:tt $word:ident $bit:literal,)*) => {
        /// The first of those the compiler was told of that is not there.
        #[inline(always)]
        fn first_missing(words: Words) -> Option<&'static str> {
            $(if cfg!(target_feature = $name) && words.$word & (1 << $bit) == 0 {
                return Some($name);
            })*
            // The registers of AVX are there when the kernel saves them, too (OSXSAVE).
            if cfg!(target_feature = "avx") && words.basic_ecx & (1 << 27) == 0 {
                return Some("avx");
            }
            None
        }

        /// Each name, whether it is there, and the standard library's answer.
        #[cfg(test)]
        fn all(words: Words) -> Vec<(&'static str, bool, bool)> {
            vec![$((
                $name,
                words.$word & (1 << $bit) != 0,
                std::arch::is_x86_feature_detected!($name),
            ),)*]
        }
    };
}

#[cfg(target_arch = "x86_64")]
features! {
    "sse3" basic_ecx 0,
    "pclmulqdq" basic_ecx 1,
    "ssse3" basic_ecx 9,
    "fma" basic_ecx 12,
    "cmpxchg16b" basic_ecx 13,
    "sse4.1" basic_ecx 19,
    "sse4.2" basic_ecx 20,
    "movbe" basic_ecx 22,
    "popcnt" basic_ecx 23,
    "aes" basic_ecx 25,
    "avx" basic_ecx 28,
    "f16c" basic_ecx 29,
    "rdrand" basic_ecx 30,
    "bmi1" extended_ebx 3,
    "avx2" extended_ebx 5,
    "bmi2" extended_ebx 8,
    "avx512f" extended_ebx 16,
    "avx512dq" extended_ebx 17,
    "rdseed" extended_ebx 18,
    "adx" extended_ebx 19,
    "avx512ifma" extended_ebx 21,
    "avx512cd" extended_ebx 28,
    "sha" extended_ebx 29,
    "avx512bw" extended_ebx 30,
    "avx512vl" extended_ebx 31,
    "avx512vbmi" extended_ecx 1,
    "avx512vbmi2" extended_ecx 6,
    "gfni" extended_ecx 8,
    "vaes" extended_ecx 9,
    "vpclmulqdq" extended_ecx 10,
    "avx512vnni" extended_ecx 11,
    "avx512bitalg" extended_ecx 12,
    "avx512vpopcntdq" extended_ecx 14,
    "avx512vp2intersect" extended_edx 8,
    "avx512fp16" extended_edx 23,
    "avx512bf16" more_eax 5,
    "lzcnt" amd_ecx 5,
    "sse4a" amd_ecx 6,
}

/// The first feature that this program was compiled to use and this processor lacks, by the
/// compiler's name.
#[inline(never)]
pub fn missing() -> Option<&'static str> {
    #[cfg(target_arch = "x86_64")]
    return first_missing(Words::read());
    #[cfg(not(target_arch = "x86_64"))]
    return None;
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn the_standard_library_sees_the_same() {
        for (name, is_there, detected) in all(Words::read()) {
            assert_eq!(is_there, detected, "{name}");
        }
    }

    #[test]
    fn this_processor_has_all_features_of_the_build() {
        assert_eq!(missing(), None);
        let needs_more = cfg!(target_feature = "sse3");
        assert_eq!(first_missing(Words::default()).is_some(), needs_more);
    }
}
