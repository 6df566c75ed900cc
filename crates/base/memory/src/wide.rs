//! Eight words of 64 bits side by side (AVX-512), for crates that forbid unsafe code.
//!
//! [`with_wide`] runs work where the processor can do this and hands it a [`Wide`], the proof that
//! it can; everything else is made from that. Masks have a bit for each word, the lowest for the
//! first.

use std::{
    arch::{asm, x86_64::*},
    sync::atomic::AtomicU64,
};

/// The words side by side.
pub const WIDE: usize = 8;

/// Proof that the processor has AVX-512 with conversions, short vectors and population counts
/// (F, DQ, VL, VPOPCNTDQ), and the bit instructions.
#[derive(Debug, Clone, Copy)]
pub struct Wide(());

/// Eight words of 64 bits.
#[derive(Debug, Clone, Copy)]
pub struct Eight(__m512i);

/// Work on eight words at a time: see [`with_wide`].
pub trait WideWork {
    /// Does it. Implementations say `#[inline(always)]`, as do functions they call, or every
    /// instruction is a call.
    fn run(self, wide: Wide);
}

/// Runs `work` where the processor can, else returns it. The check costs a load and a predicted
/// branch: call it once per burst.
///
/// # Errors
///
/// The work, where it was not done.
#[inline]
pub fn with_wide<W: WideWork>(work: W) -> Result<(), W> {
    if is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vpopcntdq")
        && is_x86_feature_detected!("popcnt")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
    {
        // SAFETY: the processor was just found to have the instructions the function is compiled
        // for.
        unsafe { compiled_wide(work) };
        return Ok(());
    }
    Err(work)
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512vpopcntdq,popcnt,bmi1,bmi2")]
fn compiled_wide<W: WideWork>(work: W) {
    work.run(Wide(()));
}

impl Wide {
    /// Broadcasts a word to all eight lanes.
    #[inline(always)]
    pub fn splat(self, word: u64) -> Eight {
        // SAFETY: a `Wide` is only made where the processor has the instructions.
        Eight(unsafe { _mm512_set1_epi64(word.cast_signed()) })
    }

    /// Eight words.
    #[inline(always)]
    pub fn load(self, words: &[u64; WIDE]) -> Eight {
        // SAFETY: as in `splat`; the words are there, and need not be aligned.
        Eight(unsafe { _mm512_loadu_si512(words.as_ptr().cast()) })
    }

    /// Eight words of 32 bits, the upper half of each made zero.
    #[inline(always)]
    pub fn load_short(self, words: &[u32; WIDE]) -> Eight {
        // SAFETY: as in `load`.
        Eight(unsafe { _mm512_cvtepu32_epi64(_mm256_loadu_si256(words.as_ptr().cast())) })
    }

    /// Four words of each of eight rows: the first words of all, the second ones, and so on. Each
    /// is loaded as by `load(Relaxed)`, in no order.
    #[inline(always)]
    pub fn columns(self, rows: [&[AtomicU64; 4]; WIDE]) -> [Eight; 4] {
        // SAFETY: as in `splat`; the rows are there.
        unsafe {
            let (even, odd) = (pair(rows[0], rows[2]), pair(rows[1], rows[3]));
            let (even_later, odd_later) = (pair(rows[4], rows[6]), pair(rows[5], rows[7]));
            // Words 0 and 2 of rows 0 and 1, then of 2 and 3; words 1 and 3 of these; the same of
            // the later rows.
            let first = _mm512_unpacklo_epi64(even, odd);
            let second = _mm512_unpackhi_epi64(even, odd);
            let first_later = _mm512_unpacklo_epi64(even_later, odd_later);
            let second_later = _mm512_unpackhi_epi64(even_later, odd_later);
            const WORDS_0_1: i32 = 0b10_00_10_00;
            const WORDS_2_3: i32 = 0b11_01_11_01;
            [
                Eight(_mm512_shuffle_i64x2::<WORDS_0_1>(first, first_later)),
                Eight(_mm512_shuffle_i64x2::<WORDS_0_1>(second, second_later)),
                Eight(_mm512_shuffle_i64x2::<WORDS_2_3>(first, first_later)),
                Eight(_mm512_shuffle_i64x2::<WORDS_2_3>(second, second_later)),
            ]
        }
    }
}

/// Two rows in a register, one behind the other.
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn pair(one: &[AtomicU64; 4], other: &[AtomicU64; 4]) -> __m512i {
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(row(one)), row(other))
}

/// A row. In assembly because the words are atomics that others store to, which the intrinsic function
/// may not be given; and not both rows of a pair there, since compiled for a processor that has
/// AVX-512 everywhere (`-C target-cpu=znver5`) the register of an operand `zmm_reg` is one for masks
/// (rustc 1.95).
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn row(row: &[AtomicU64; 4]) -> __m256i {
    let words;
    // SAFETY: it reads the row, each aligned word in one access, and changes one register.
    unsafe {
        asm!(
            "vmovdqu64 {words}, [{row}]",
            words = out(ymm_reg) words,
            row = in(reg) row.as_ptr(),
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    words
}

macro_rules! two {
    ($($(#[$doc:meta])* $name:ident: $intrinsic:ident -> $result:ty { $wrap:expr })*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name(self, other: Eight) -> $result {
            // SAFETY: an `Eight` is only made from a `Wide`, where the processor has the
            // instruction.
            $wrap(unsafe { $intrinsic(self.0, other.0) })
        }
    )*};
}

impl Eight {
    two! {
        /// Bits that are in both.
        and: _mm512_and_si512 -> Eight { Eight }
        /// Bits that are in one of them.
        xor: _mm512_xor_si512 -> Eight { Eight }
        /// Sums, wrapping.
        plus: _mm512_add_epi64 -> Eight { Eight }
        /// Differences, wrapping.
        minus: _mm512_sub_epi64 -> Eight { Eight }
        /// Shifted to the left; zero from 64 on.
        left: _mm512_sllv_epi64 -> Eight { Eight }
        /// Shifted to the right, zeros moving in; zero from 64 on.
        right: _mm512_srlv_epi64 -> Eight { Eight }
        /// The words that have a bit in common.
        meets: _mm512_test_epi64_mask -> u8 { u8::from }
    }

    /// Counts the bits that are set in each word.
    #[inline(always)]
    pub fn ones(self) -> Eight {
        // SAFETY: as in the functions above.
        Eight(unsafe { _mm512_popcnt_epi64(self.0) })
    }

    /// These words, and the others' where `mask` says so.
    #[inline(always)]
    pub fn or_where(self, mask: u8, other: Eight) -> Eight {
        // SAFETY: as in the functions above.
        Eight(unsafe { _mm512_mask_blend_epi64(mask, self.0, other.0) })
    }

    /// The words that `mask` names, moved to the front; zero behind them.
    #[inline(always)]
    pub fn compressed(self, mask: u8) -> Eight {
        // SAFETY: as in the functions above.
        Eight(unsafe { _mm512_maskz_compress_epi64(mask, self.0) })
    }

    /// Puts them there.
    #[inline(always)]
    pub fn store(self, to: &mut [u64; WIDE]) {
        // SAFETY: as in the functions above; there is room for eight words, not aligned.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), self.0) }
    }

    /// Puts the lower halves of the words there.
    #[inline(always)]
    pub fn store_short(self, to: &mut [u32; WIDE]) {
        // SAFETY: as in `store`, of half the size.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), _mm512_cvtepi64_epi32(self.0)) }
    }
}

#[cfg(test)]
mod tests {
    use std::{array, sync::atomic::Ordering};

    use super::*;

    const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

    struct Check(Vec<AtomicU64>);

    impl WideWork for &Check {
        #[inline(always)]
        fn run(self, wide: Wide) {
            let read = |eight: Eight| {
                let mut words = [0; WIDE];
                eight.store(&mut words);
                words
            };
            let numbers: [u64; WIDE] = array::from_fn(|at| SEED.rotate_left(9 * at as u32));
            let others: [u64; WIDE] = array::from_fn(|at| [3, 63, 64, 0, u64::MAX, 5, 1, 9][at]);
            let (a, b) = (wide.load(&numbers), wide.load(&others));
            let each = |f: fn(u64, u64) -> u64| array::from_fn(|at| f(numbers[at], others[at]));
            assert_eq!(read(a.and(b)), each(|a, b| a & b));
            assert_eq!(read(a.xor(b)), each(|a, b| a ^ b));
            assert_eq!(read(a.plus(b)), each(u64::wrapping_add));
            assert_eq!(read(a.minus(b)), each(u64::wrapping_sub));
            let shift = |by: u64| u32::try_from(by).unwrap_or(64);
            let left: [u64; WIDE] =
                array::from_fn(|at| numbers[at].checked_shl(shift(others[at])).unwrap_or(0));
            let right: [u64; WIDE] =
                array::from_fn(|at| numbers[at].checked_shr(shift(others[at])).unwrap_or(0));
            assert_eq!((read(a.left(b)), read(a.right(b))), (left, right));
            assert_eq!(read(a.ones()), numbers.map(|word| word.count_ones().into()));
            let bit = |at| u8::from(numbers[at] & others[at] != 0) << at;
            assert_eq!(a.meets(b), (0..WIDE).map(bit).sum());
            let mut blended = numbers;
            (blended[1], blended[6]) = (others[1], others[6]);
            assert_eq!(read(a.or_where(0b100_0010, b)), blended);
            let compressed = [numbers[1], numbers[6], 0, 0, 0, 0, 0, 0];
            assert_eq!(read(a.compressed(0b100_0010)), compressed);
            let mut short = [0; WIDE];
            a.store_short(&mut short);
            assert_eq!(short, numbers.map(|word| word as u32));
            assert_eq!(read(wide.load_short(&short)), short.map(u64::from));
            assert_eq!(read(wide.splat(SEED)), [SEED; WIDE]);
            let (rows, _) = self.0.as_chunks::<4>();
            let chosen: [usize; WIDE] = [3, 0, 24, 7, 7, 1, 19, 12];
            let columns = wide.columns(chosen.map(|row| &rows[row])).map(read);
            let column = |at: usize| chosen.map(|row| rows[row][at].load(Ordering::Relaxed));
            assert_eq!(columns, [0, 1, 2, 3].map(column));
        }
    }

    #[test]
    fn eight_words_are_as_one_after_the_other() {
        let check = Check((0..100).map(|at| AtomicU64::new(SEED.rotate_right(at))).collect());
        // Nothing to check where the processor has no such instructions.
        let _ = with_wide(&check);
    }
}
