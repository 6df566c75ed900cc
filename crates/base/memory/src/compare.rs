//! Comparison of a value with eight at once, safe to call from any crate.

/// Compares eight values with `wanted`: bit `i` is set if the value `i` is equal. Six instructions
/// on x86-64, where compilers make twenty of the plain loop.
#[inline(always)]
pub fn equal_lanes(lanes: &[u32; 8], wanted: u32) -> u32 {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
    // SAFETY: the two unaligned loads read exactly the array; the rest works on
    // registers, with instructions every x86-64 processor has.
    unsafe {
        use std::arch::x86_64::{
            _mm_cmpeq_epi32, _mm_loadu_si128, _mm_movemask_epi8, _mm_packs_epi16, _mm_packs_epi32,
            _mm_set1_epi32,
        };
        let wanted = _mm_set1_epi32(wanted.cast_signed());
        let low = _mm_loadu_si128(lanes.as_ptr().cast());
        let high = _mm_loadu_si128(lanes.as_ptr().add(4).cast());
        let words = _mm_packs_epi32(_mm_cmpeq_epi32(low, wanted), _mm_cmpeq_epi32(high, wanted));
        _mm_movemask_epi8(_mm_packs_epi16(words, words)).cast_unsigned() & 0xff
    }
    #[cfg(not(all(target_arch = "x86_64", target_feature = "sse2", not(miri))))]
    plain(lanes, wanted)
}

#[cfg(any(test, miri, not(all(target_arch = "x86_64", target_feature = "sse2"))))]
fn plain(lanes: &[u32; 8], wanted: u32) -> u32 {
    let bit = |(lane, &value): (usize, &u32)| u32::from(value == wanted) << lane;
    lanes.iter().enumerate().map(bit).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lanes_are_found_as_by_the_plain_loop(
            lanes: [u32; 8],
            copies: u8,
            wanted in prop_oneof![Just(0), Just(u32::MAX), Just(1 << 31), any::<u32>()],
        ) {
            let mut lanes = lanes;
            for (lane, value) in lanes.iter_mut().enumerate() {
                if copies >> lane & 1 != 0 {
                    *value = wanted;
                }
            }
            let found = super::equal_lanes(&lanes, wanted);
            prop_assert_eq!(found, super::plain(&lanes, wanted));
            prop_assert_eq!(found & u32::from(copies), u32::from(copies));
        }
    }
}
