//! Time for which an object has existed.

use std::time::Duration;

use super::bytes::{Reader, Writer};
use super::fault::Fault;

/// A time of seconds and nanoseconds, or none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Elapsed {
    /// Seconds; at most 136 years.
    pub seconds: u32,
    /// And nanoseconds, less than a second's.
    pub nanoseconds: u32,
}

impl Elapsed {
    /// Unknown time.
    pub const UNKNOWN: Elapsed = Elapsed { seconds: u32::MAX, nanoseconds: u32::MAX };

    /// The time, where it is known.
    #[must_use]
    pub fn duration(self) -> Option<Duration> {
        let known = self.nanoseconds < 1_000_000_000;
        known.then(|| Duration::new(self.seconds.into(), self.nanoseconds))
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Elapsed, Fault> {
        Ok(Elapsed { seconds: reader.u32()?, nanoseconds: reader.u32()? })
    }

    pub(crate) fn encode(self, out: &mut Writer) {
        out.u32(self.seconds);
        out.u32(self.nanoseconds);
    }
}

impl From<Duration> for Elapsed {
    /// A time beyond the range is the longest in it.
    fn from(duration: Duration) -> Elapsed {
        let seconds = u32::try_from(duration.as_secs()).unwrap_or(u32::MAX);
        Elapsed { seconds, nanoseconds: duration.subsec_nanos() }
    }
}
