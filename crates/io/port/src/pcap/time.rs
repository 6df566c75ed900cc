//! pcapng time: units of any power of ten or two of a second, from any offset.

const SECOND: u64 = 1_000_000_000;

/// Time unit and offset of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Clock {
    units_per_second: u64,
    /// Seconds to add.
    offset: i64,
}

impl Clock {
    /// From the options `if_tsresol` and `if_tsoffset`; none if the units are too fine for 64 bits.
    pub(super) fn new(resolution: u8, offset: i64) -> Option<Self> {
        let exponent = u32::from(resolution & 0x7f);
        let base: u64 = if resolution & 0x80 == 0 { 10 } else { 2 };
        Some(Self { units_per_second: base.checked_pow(exponent)?, offset })
    }

    /// Nanoseconds since 1970, rounded down; none before 1970 or after 2554.
    pub(super) fn nanoseconds(self, units: u64) -> Option<u64> {
        if self.offset == 0 {
            // The two resolutions in use do without the division.
            match self.units_per_second {
                SECOND => return Some(units),
                1_000_000 => return units.checked_mul(1000),
                _ => {}
            }
        }
        let per_second = self.units_per_second;
        let (seconds, rest) = (units / per_second, units % per_second);
        let rest_ns = u128::from(rest) * u128::from(SECOND) / u128::from(per_second);
        let seconds = u64::try_from(i128::from(seconds) + i128::from(self.offset)).ok()?;
        // The rest is less than a second, so it fits.
        seconds.checked_mul(SECOND)?.checked_add(rest_ns as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::Clock;

    #[test]
    fn resolutions_and_offsets() {
        let cases: &[(u8, i64, u64, Option<u64>)] = &[
            (6, 0, 1_700_000_000_123_456, Some(1_700_000_000_123_456_000)),
            (9, 0, 1_700_000_000_123_456_789, Some(1_700_000_000_123_456_789)),
            (9, 1, 1_700_000_000_123_456_789, Some(1_700_000_001_123_456_789)),
            (0, 0, 17, Some(17_000_000_000)),
            (3, -1, 1500, Some(500_000_000)),
            (3, -2, 1500, None),
            (12, 0, 1_999_999, Some(1_999)),
            (19, 0, u64::MAX, Some(1_844_674_407)),
            (0x80 | 10, 0, 1536, Some(1_500_000_000)),
            (0x80 | 32, 7, 1 << 31, Some(7_500_000_000)),
            (0x80 | 63, 0, u64::MAX, Some(1_999_999_999)),
            (0x80, 0, 3, Some(3_000_000_000)),
            (6, 0, u64::MAX, None),
            (0, 0, u64::MAX, None),
            (0, i64::MAX, 1, None),
            (0, i64::MIN, u64::MAX, None),
        ];
        for &(resolution, offset, units, expected) in cases {
            let clock = Clock::new(resolution, offset).unwrap();
            assert_eq!(clock.nanoseconds(units), expected, "{resolution:#x} {offset} {units}");
        }
    }

    #[test]
    fn units_too_fine_for_64_bits_are_refused() {
        for resolution in [20, 127, 0x80 | 64, 0xff] {
            assert_eq!(Clock::new(resolution, 0), None, "{resolution:#x}");
        }
    }
}
