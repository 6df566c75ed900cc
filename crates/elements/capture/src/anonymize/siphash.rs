//! SipHash-2-4 of eight bytes (Aumasson and Bernstein, 2012), a keyed pseudo-random function.

/// The internal state, v0 to v3.
struct State([u64; 4]);

impl State {
    #[inline(always)]
    fn round(&mut self) {
        let State([v0, v1, v2, v3]) = self;
        *v0 = v0.wrapping_add(*v1);
        *v1 = v1.rotate_left(13) ^ *v0;
        *v0 = v0.rotate_left(32);
        *v2 = v2.wrapping_add(*v3);
        *v3 = v3.rotate_left(16) ^ *v2;
        *v0 = v0.wrapping_add(*v3);
        *v3 = v3.rotate_left(21) ^ *v0;
        *v2 = v2.wrapping_add(*v1);
        *v1 = v1.rotate_left(17) ^ *v2;
        *v2 = v2.rotate_left(32);
    }

    #[inline(always)]
    fn absorb(&mut self, word: u64) {
        self.0[3] ^= word;
        self.round();
        self.round();
        self.0[0] ^= word;
    }
}

/// Hashes the eight bytes of a number in little-endian order.
#[inline]
pub(super) fn siphash(key: [u64; 2], number: u64) -> u64 {
    let [first, second] = key;
    let mut state = State([
        first ^ 0x736f_6d65_7073_6575,
        second ^ 0x646f_7261_6e64_6f6d,
        first ^ 0x6c79_6765_6e65_7261,
        second ^ 0x7465_6462_7974_6573,
    ]);
    state.absorb(number);
    // The length, in the highest byte of the last word.
    state.absorb(8 << 56);
    state.0[2] ^= 0xff;
    (0..4).for_each(|_| state.round());
    state.0.into_iter().fold(0, |all, word| all ^ word)
}

#[cfg(test)]
mod tests {
    use std::hash::Hasher;

    use super::*;

    /// The reference implementation's test vector for eight bytes.
    #[test]
    fn the_value_is_that_of_the_reference() {
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        assert_eq!(siphash(key, 0x0706_0504_0302_0100), 0x93f5_f579_9a93_2462_u64);
    }

    #[test]
    #[allow(deprecated, reason = "it is there, and an independent judge")]
    fn values_are_those_of_the_standard_library() {
        for number in [0, 1, u64::MAX, 0x0123_4567_89ab_cdef] {
            let mut hasher = std::hash::SipHasher::new_with_keys(number ^ 5, 7);
            hasher.write(&number.to_le_bytes());
            assert_eq!(siphash([number ^ 5, 7], number), hasher.finish());
        }
    }
}
