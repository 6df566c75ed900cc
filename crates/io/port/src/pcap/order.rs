//! Byte order of a capture: both formats are written in the order of the recording machine.

/// The byte order a file or section is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Little,
    Big,
}

impl Order {
    /// The 16-bit number at `at`, which must lie within `bytes`.
    #[inline]
    pub(super) fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let raw = [bytes[at], bytes[at + 1]];
        match self {
            Self::Little => u16::from_le_bytes(raw),
            Self::Big => u16::from_be_bytes(raw),
        }
    }

    /// The 32-bit number at `at`, which must lie within `bytes`.
    #[inline]
    pub(super) fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let raw = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        match self {
            Self::Little => u32::from_le_bytes(raw),
            Self::Big => u32::from_be_bytes(raw),
        }
    }

    /// The 64-bit number at `at`, which must lie within `bytes`.
    #[inline]
    pub(super) fn u64(self, bytes: &[u8], at: usize) -> u64 {
        let (first, second) = (self.u32(bytes, at), self.u32(bytes, at + 4));
        match self {
            Self::Little => u64::from(second) << 32 | u64::from(first),
            Self::Big => u64::from(first) << 32 | u64::from(second),
        }
    }
}
