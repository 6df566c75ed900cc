//! Settings of a handle before it is activated.

use std::ffi::c_int;

use crate::{
    abi::{SNAPLEN_MAX, TSTAMP_MICRO},
    source::OpenOptions,
};

/// As libpcap has it after `pcap_create`.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) snaplen: c_int,
    pub(crate) promiscuous: bool,
    pub(crate) monitor: bool,
    /// Milliseconds; 0 for no end.
    pub(crate) timeout: c_int,
    pub(crate) buffer_size: c_int,
    pub(crate) precision: c_int,
    /// The type of Ethernet that is wanted; 0 for all.
    pub(crate) protocol: u16,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            snaplen: SNAPLEN_MAX,
            promiscuous: false,
            monitor: false,
            timeout: 0,
            buffer_size: 0,
            precision: TSTAMP_MICRO,
            protocol: 0,
        }
    }
}

impl Settings {
    /// The snapshot length that is meant.
    pub(crate) fn snapshot(&self) -> u32 {
        if (1..=SNAPLEN_MAX).contains(&self.snaplen) {
            self.snaplen.unsigned_abs()
        } else {
            SNAPLEN_MAX.unsigned_abs()
        }
    }

    /// The settings that the port is opened with.
    pub(crate) fn wishes(&self) -> OpenOptions {
        OpenOptions {
            promiscuous: self.promiscuous,
            buffer_size: usize::try_from(self.buffer_size).unwrap_or(0),
        }
    }
}
