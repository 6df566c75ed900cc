//! Instructions that not every processor has, for crates that forbid unsafe code.

/// Work that is compiled twice: see [`with_bit_instructions`] and [`with_vectors`].
pub trait BitWork {
    /// Result of the work.
    type Output;

    /// Does it. Implementations say `#[inline(always)]`, or it is compiled for
    /// the oldest processor after all.
    fn run(self) -> Self::Output;
}

/// Runs `work` as compiled for processors that count and shift bits in one
/// instruction (POPCNT, BMI1, BMI2; any of the last ten years) where this is
/// one, else as compiled for the oldest. The check costs a load and a predicted
/// branch: call it once per burst.
#[inline]
pub fn with_bit_instructions<W: BitWork>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("popcnt")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
        {
            // SAFETY: the processor was just found to have the instructions the function is
            // compiled for.
            return unsafe { compiled_with_bit_instructions(work) };
        }
    }
    work.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "popcnt,bmi1,bmi2")]
fn compiled_with_bit_instructions<W: BitWork>(work: W) -> W::Output {
    work.run()
}

/// Runs work on vectors of eight words, compiled for AVX2 and the bit instructions where the
/// processor has both.
#[inline]
pub fn with_vectors<W: BitWork>(work: W) -> W::Output {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        if is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
        {
            // SAFETY: the processor was just found to have the instructions the function is
            // compiled for.
            return unsafe { compiled_with_vectors(work) };
        }
    }
    work.run()
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn compiled_with_vectors<W: BitWork>(work: W) -> W::Output {
    work.run()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Count(u64);

    impl BitWork for Count {
        type Output = u32;

        #[inline(always)]
        fn run(self) -> u32 {
            self.0.count_ones()
        }
    }

    #[test]
    fn both_ways_count_the_same() {
        for bits in [0, 1, 0xf0f0, u64::MAX] {
            assert_eq!(with_bit_instructions(Count(bits)), Count(bits).run());
        }
    }
}
