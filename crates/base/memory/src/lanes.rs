//! Slots made of buffer numbers, buffer numbers taken out of slots, and sums of their lengths, several
//! at a time.
//!
//! On x86-64 with SSE2, which every such processor has: four numbers are one load, two shuffles and
//! two stores. The compiler vectorises neither loop by itself. Long bursts use AVX-512 or AVX2
//! where the processor has it, since they are bound by the number of stores; short ones would not
//! earn back the call. Elsewhere, and for a remainder that does not divide by four, one by one.

use std::{mem::MaybeUninit, ptr};

use crate::slot::Slot;

/// Bursts from here on are worth a call.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const LONG: usize = 64;

/// Makes slots of buffer numbers.
#[inline(always)]
pub(crate) fn widen(from: &[u32], to: &mut [MaybeUninit<Slot>], offset: u16, length: u16) {
    debug_assert_eq!(from.len(), to.len());
    // Where packets come one by one, choosing a loop costs more than the loop.
    if let ([buffer], [to]) = (from, &mut *to) {
        to.write(Slot::compose(*buffer, offset, length));
        return;
    }
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if from.len() >= LONG {
        return long::widen(from, to, offset, length);
    }
    widen_short(from, to, offset, length);
}

#[inline(always)]
fn widen_short(from: &[u32], to: &mut [MaybeUninit<Slot>], offset: u16, length: u16) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    let (from, to) = sse2::widen(from, to, offset, length);
    for (to, &buffer) in to.iter_mut().zip(from) {
        to.write(Slot::compose(buffer, offset, length));
    }
}

/// Copies the buffer words of slots, and returns every bit in which one of
/// them differs from `tag`.
#[inline(always)]
pub(crate) fn narrow(from: &[Slot], to: &mut [u32], tag: u32) -> u32 {
    debug_assert_eq!(from.len(), to.len());
    if let ([slot], [to]) = (from, &mut *to) {
        *to = slot.buffer;
        return slot.buffer ^ tag;
    }
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if from.len() >= LONG {
        return long::narrow(from, to, tag);
    }
    narrow_short(from, to, tag)
}

#[inline(always)]
fn narrow_short(from: &[Slot], to: &mut [u32], tag: u32) -> u32 {
    let mut differing = 0;
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    let (from, to) = sse2::narrow(from, to, tag, &mut differing);
    for (to, from) in to.iter_mut().zip(from) {
        *to = from.buffer;
        differing |= from.buffer ^ tag;
    }
    differing
}

impl Slot {
    /// Sum of the lengths of packets, in bytes. Under half a cycle per packet.
    // Loaded as whole words, where the two-byte loads of the field itself would go one by one.
    #[inline]
    pub fn total_len(slots: &[Slot]) -> u64 {
        if let [slot] = slots {
            return slot.len() as u64;
        }
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if slots.len() >= LONG {
            return long::total_len(slots);
        }
        total_len_short(slots)
    }
}

#[inline(always)]
fn total_len_short(slots: &[Slot]) -> u64 {
    let little = cfg!(target_endian = "little");
    let length_of = |word: u64| if little { word >> 48 } else { word & 0xffff };
    // SAFETY: a slot is eight initialised bytes without padding, aligned like a
    // word (asserted where it is defined).
    let words = slots.iter().map(|slot| unsafe { ptr::from_ref(slot).cast::<u64>().read() });
    words.map(length_of).sum()
}

/// Bursts that are worth a call, all of them.
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod long {
    use std::mem::MaybeUninit;

    use super::{avx2, avx512, narrow_short, total_len_short, widen_short};
    use crate::slot::Slot;

    #[inline(never)]
    pub(super) fn widen(
        mut from: &[u32],
        mut to: &mut [MaybeUninit<Slot>],
        offset: u16,
        length: u16,
    ) {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has AVX-512F.
            (from, to) = unsafe { avx512::widen(from, to, offset, length) };
        } else if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2.
            (from, to) = unsafe { avx2::widen(from, to, offset, length) };
        }
        widen_short(from, to, offset, length);
    }

    #[inline(never)]
    pub(super) fn narrow(mut from: &[Slot], mut to: &mut [u32], tag: u32) -> u32 {
        let mut differing = 0;
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has AVX-512F.
            (from, to) = unsafe { avx512::narrow(from, to, tag, &mut differing) };
        } else if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2.
            (from, to) = unsafe { avx2::narrow(from, to, tag, &mut differing) };
        }
        differing | narrow_short(from, to, tag)
    }

    #[inline(never)]
    pub(super) fn total_len(slots: &[Slot]) -> u64 {
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2.
            unsafe { avx2::total_len(slots) }
        } else {
            total_len_short(slots)
        }
    }
}

/// The part that divides by sixteen; both return the rest.
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod avx512 {
    use std::{arch::x86_64::*, mem::MaybeUninit};

    use crate::slot::Slot;

    #[target_feature(enable = "avx512f")]
    pub(super) fn widen<'a, 'b>(
        from: &'a [u32],
        to: &'b mut [MaybeUninit<Slot>],
        offset: u16,
        length: u16,
    ) -> (&'a [u32], &'b mut [MaybeUninit<Slot>]) {
        let (from, from_rest) = from.as_chunks::<16>();
        let (to, to_rest) = to.as_chunks_mut::<16>();
        let place = _mm512_set1_epi64(i64::from(offset) << 32 | i64::from(length) << 48);
        for (from, to) in from.iter().zip(to) {
            let from: *const __m256i = from.as_ptr().cast();
            let to: *mut __m512i = to.as_mut_ptr().cast();
            for step in 0..2 {
                // SAFETY: sixteen numbers are read and sixteen slots written,
                // which `as_chunks` says are there, unaligned.
                unsafe {
                    let eight = _mm512_cvtepu32_epi64(_mm256_loadu_si256(from.add(step)));
                    _mm512_storeu_si512(to.add(step), _mm512_or_si512(eight, place));
                }
            }
        }
        (from_rest, to_rest)
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn narrow<'a, 'b>(
        from: &'a [Slot],
        to: &'b mut [u32],
        tag: u32,
        bits: &mut u32,
    ) -> (&'a [Slot], &'b mut [u32]) {
        let (from, from_rest) = from.as_chunks::<16>();
        let (to, to_rest) = to.as_chunks_mut::<16>();
        let tag = _mm512_set1_epi32(tag as i32);
        let mut differing = _mm512_setzero_si512();
        for (from, to) in from.iter().zip(to) {
            let from: *const __m512i = from.as_ptr().cast();
            // SAFETY: as in `widen`, with sixteen slots read and sixteen
            // numbers written.
            unsafe {
                let low = _mm512_cvtepi64_epi32(_mm512_loadu_si512(from));
                let high = _mm512_cvtepi64_epi32(_mm512_loadu_si512(from.add(1)));
                let buffers = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high);
                _mm512_storeu_si512(to.as_mut_ptr().cast(), buffers);
                differing = _mm512_or_si512(differing, _mm512_xor_si512(buffers, tag));
            }
        }
        *bits |= _mm512_reduce_or_epi32(differing) as u32;
        (from_rest, to_rest)
    }
}

/// The part that divides by sixteen; both return the rest.
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod avx2 {
    use std::{arch::x86_64::*, mem::MaybeUninit};

    use crate::slot::Slot;

    #[target_feature(enable = "avx2")]
    pub(super) fn widen<'a, 'b>(
        from: &'a [u32],
        to: &'b mut [MaybeUninit<Slot>],
        offset: u16,
        length: u16,
    ) -> (&'a [u32], &'b mut [MaybeUninit<Slot>]) {
        let (from, from_rest) = from.as_chunks::<16>();
        let (to, to_rest) = to.as_chunks_mut::<16>();
        let place = i64::from(offset) << 32 | i64::from(length) << 48;
        let place = _mm256_set1_epi64x(place);
        for (from, to) in from.iter().zip(to) {
            let from: *const __m128i = from.as_ptr().cast();
            let to: *mut __m256i = to.as_mut_ptr().cast();
            for step in 0..4 {
                // SAFETY: sixteen numbers are read and sixteen slots written,
                // which `as_chunks` says are there, unaligned.
                unsafe {
                    let four = _mm256_cvtepu32_epi64(_mm_loadu_si128(from.add(step)));
                    _mm256_storeu_si256(to.add(step), _mm256_or_si256(four, place));
                }
            }
        }
        (from_rest, to_rest)
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn narrow<'a, 'b>(
        from: &'a [Slot],
        to: &'b mut [u32],
        tag: u32,
        bits: &mut u32,
    ) -> (&'a [Slot], &'b mut [u32]) {
        let (from, from_rest) = from.as_chunks::<16>();
        let (to, to_rest) = to.as_chunks_mut::<16>();
        let tag = _mm256_set1_epi32(tag as i32);
        let mut differing = _mm256_setzero_si256();
        for (from, to) in from.iter().zip(to) {
            let from: *const f32 = from.as_ptr().cast();
            let to: *mut __m256i = to.as_mut_ptr().cast();
            for step in 0..2 {
                // SAFETY: as in `widen`, with sixteen slots read and sixteen
                // numbers written.
                unsafe {
                    // The buffer words of both loads, low halves first; then
                    // back in order.
                    let mixed = _mm256_shuffle_ps::<0b10_00_10_00>(
                        _mm256_loadu_ps(from.add(16 * step)),
                        _mm256_loadu_ps(from.add(16 * step + 8)),
                    );
                    let buffers =
                        _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_castps_si256(mixed));
                    _mm256_storeu_si256(to.add(step), buffers);
                    differing = _mm256_or_si256(differing, _mm256_xor_si256(buffers, tag));
                }
            }
        }
        let mut words = [0; 8];
        // SAFETY: as large as the vector.
        unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), differing) };
        *bits |= words.iter().fold(0, |all, word| all | word);
        (from_rest, to_rest)
    }

    /// Bytes of all packets: the compiler adds sixteen at a time.
    #[target_feature(enable = "avx2")]
    pub(super) fn total_len(slots: &[Slot]) -> u64 {
        super::total_len_short(slots)
    }
}

/// The part that divides by four; both return the rest.
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod sse2 {
    use std::{arch::x86_64::*, mem::MaybeUninit};

    use crate::slot::Slot;

    #[inline(always)]
    pub(super) fn widen<'a, 'b>(
        from: &'a [u32],
        to: &'b mut [MaybeUninit<Slot>],
        offset: u16,
        length: u16,
    ) -> (&'a [u32], &'b mut [MaybeUninit<Slot>]) {
        let (from, from_rest) = from.as_chunks::<4>();
        let (to, to_rest) = to.as_chunks_mut::<4>();
        // SAFETY: SSE2 is part of x86-64. Each step reads four numbers and
        // writes four slots, which `as_chunks` says are there, unaligned.
        unsafe {
            let place = _mm_set1_epi32(i32::from(offset) | i32::from(length) << 16);
            for (from, to) in from.iter().zip(to) {
                let buffers = _mm_loadu_si128(from.as_ptr().cast());
                let to: *mut __m128i = to.as_mut_ptr().cast();
                _mm_storeu_si128(to, _mm_unpacklo_epi32(buffers, place));
                _mm_storeu_si128(to.add(1), _mm_unpackhi_epi32(buffers, place));
            }
        }
        (from_rest, to_rest)
    }

    #[inline(always)]
    pub(super) fn narrow<'a, 'b>(
        from: &'a [Slot],
        to: &'b mut [u32],
        tag: u32,
        bits: &mut u32,
    ) -> (&'a [Slot], &'b mut [u32]) {
        let (from, from_rest) = from.as_chunks::<4>();
        let (to, to_rest) = to.as_chunks_mut::<4>();
        if from.is_empty() {
            return (from_rest, to_rest);
        }
        // SAFETY: as in `widen`, with four slots read and four numbers
        // written.
        unsafe {
            let tag = _mm_set1_epi32(tag as i32);
            let mut differing = _mm_setzero_si128();
            for (from, to) in from.iter().zip(to) {
                let from: *const f32 = from.as_ptr().cast();
                // Lanes 0 and 2 of both halves: the buffer words.
                let buffers = _mm_castps_si128(_mm_shuffle_ps::<0b10_00_10_00>(
                    _mm_loadu_ps(from),
                    _mm_loadu_ps(from.add(4)),
                ));
                _mm_storeu_si128(to.as_mut_ptr().cast(), buffers);
                differing = _mm_or_si128(differing, _mm_xor_si128(buffers, tag));
            }
            let differing = _mm_or_si128(differing, _mm_srli_si128::<8>(differing));
            let differing = _mm_or_si128(differing, _mm_srli_si128::<4>(differing));
            *bits |= _mm_cvtsi128_si32(differing) as u32;
        }
        (from_rest, to_rest)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    type Widen = fn(&[u32], &mut [MaybeUninit<Slot>], u16, u16);
    type Narrow = fn(&[Slot], &mut [u32], u32) -> u32;

    /// The dispatching functions, and every version this processor can run.
    fn versions() -> Vec<(Widen, Narrow)> {
        let mut versions: Vec<(Widen, Narrow)> = vec![(widen, narrow), (widen_short, narrow_short)];
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if is_x86_feature_detected!("avx2") {
            versions.push((
                |from, to, offset, length| {
                    // SAFETY: the processor has AVX2.
                    let (from, to) = unsafe { avx2::widen(from, to, offset, length) };
                    widen_short(from, to, offset, length);
                },
                |from, to, tag| {
                    let mut differing = 0;
                    // SAFETY: the processor has AVX2.
                    let (from, to) = unsafe { avx2::narrow(from, to, tag, &mut differing) };
                    differing | narrow_short(from, to, tag)
                },
            ));
        }
        versions
    }

    #[test]
    fn there_and_back_at_every_length_and_alignment() {
        for (widen, narrow) in versions() {
            for length in (0..40usize).chain(60..90) {
                for skip in 0..4 {
                    let numbers: Vec<u32> = (0..length as u32 + skip).map(|n| 0x100 + n).collect();
                    let numbers = &numbers[skip as usize..];
                    let mut slots: Vec<_> = (0..=length).map(|_| MaybeUninit::uninit()).collect();
                    widen(numbers, &mut slots[..length], 0xabcd, 0xfedc);
                    // SAFETY: all but the last have been written.
                    let slots: Vec<Slot> =
                        slots.drain(..length).map(|slot| unsafe { slot.assume_init() }).collect();
                    for (slot, number) in slots.iter().zip(numbers) {
                        let Slot { buffer, offset, length } = slot;
                        assert_eq!((buffer, *offset, *length), (number, 0xabcd, 0xfedc));
                    }
                    let mut back = vec![0; length];
                    let expected = numbers.iter().fold(0, |all, number| all | number ^ 0x100);
                    assert_eq!(narrow(&slots, &mut back, 0x100), expected);
                    assert_eq!(back, numbers);
                }
            }
        }
    }

    #[test]
    fn one_differing_bit_anywhere_shows() {
        for (_, narrow) in versions() {
            for length in (1..20u32).chain([63, 64, 77]) {
                for at in 0..length {
                    let slots: Vec<Slot> = (0..length)
                        .map(|n| Slot::compose(0x40 | u32::from(n == at) << (n % 25 + 7), 1, 2))
                        .collect();
                    let differing = narrow(&slots, &mut vec![0; length as usize], 0x40);
                    assert_eq!(differing, 1 << (at % 25 + 7));
                }
            }
        }
    }
}
