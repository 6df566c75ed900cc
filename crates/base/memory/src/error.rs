//! Errors of packet memory.

use std::io;

/// Why an arena, or memory for a table, could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// An option is out of its range.
    #[error("arena {option}: {value} is not possible: {reason}")]
    Option {
        /// The option, as the field of [`ArenaOptions`](crate::ArenaOptions).
        option: &'static str,
        /// The value asked for.
        value: u64,
        /// The rule it breaks and what to choose instead.
        reason: String,
    },
    /// The machine has less memory than asked for.
    #[error(
        "an arena of {wanted} MiB does not fit in this machine's memory: {available} MiB are \
         available; ask for a smaller arena"
    )]
    TooLarge {
        /// Asked for, in MiB.
        wanted: u64,
        /// Available, in MiB.
        available: u64,
    },
    /// The kernel refused a step.
    #[error("arena: {step}: {source}")]
    System {
        /// The step that failed.
        step: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// The kernel has not the addresses or the memory for a table.
    #[error("{bytes} bytes for a table: {step}: {source}")]
    Reserve {
        /// The step that failed.
        step: &'static str,
        /// Size asked for, in bytes.
        bytes: u64,
        /// The kernel's error.
        source: io::Error,
    },
    /// The process has used up the numbers buffers are named by.
    #[error("no buffer numbers left: this process has more than 2^30 packet buffers in use")]
    NumbersExhausted,
}
