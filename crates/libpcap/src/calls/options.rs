//! Settings of a handle before it is activated.

use std::ffi::c_int;

use crate::{
    abi::{
        ERROR, ERROR_TSTAMP_PRECISION_NOTSUP, TSTAMP_HOST, TSTAMP_MICRO, TSTAMP_NANO,
        WARNING_TSTAMP_TYPE_NOTSUP,
    },
    handle::{Handle, Settings},
};

/// Changes a setting, as long as that can be.
fn set(handle: &Handle, change: impl FnOnce(&mut Settings) -> c_int) -> c_int {
    match handle.not_activated() {
        // SAFETY: one thread calls, and callbacks are made only once it is activated.
        Ok(()) => change(unsafe { handle.settings() }),
        Err(status) => status,
    }
}

/// # Safety
///
/// None beyond the handle's; as all here, for the macro that calls them.
pub(crate) unsafe fn set_snaplen(handle: &Handle, snaplen: c_int) -> c_int {
    set(handle, |settings| {
        settings.snaplen = snaplen;
        0
    })
}

pub(crate) unsafe fn set_promisc(handle: &Handle, promiscuous: c_int) -> c_int {
    set(handle, |settings| {
        settings.promiscuous = promiscuous != 0;
        0
    })
}

/// No port has a monitor mode.
pub(crate) unsafe fn can_set_rfmon(_: &Handle) -> c_int {
    0
}

pub(crate) unsafe fn set_rfmon(handle: &Handle, monitor: c_int) -> c_int {
    set(handle, |settings| {
        settings.monitor = monitor != 0;
        0
    })
}

pub(crate) unsafe fn set_timeout(handle: &Handle, timeout: c_int) -> c_int {
    set(handle, |settings| {
        settings.timeout = timeout;
        0
    })
}

/// Packets are given out as soon as they are there, in this mode and without it.
pub(crate) unsafe fn set_immediate_mode(handle: &Handle, _: c_int) -> c_int {
    set(handle, |_| 0)
}

pub(crate) unsafe fn set_buffer_size(handle: &Handle, size: c_int) -> c_int {
    set(handle, |settings| {
        // A size that makes no sense is not taken, without an error.
        if size > 0 {
            settings.buffer_size = size;
        }
        0
    })
}

pub(crate) unsafe fn set_tstamp_type(handle: &Handle, kind: c_int) -> c_int {
    set(handle, |_| if kind == TSTAMP_HOST { 0 } else { WARNING_TSTAMP_TYPE_NOTSUP })
}

pub(crate) unsafe fn set_tstamp_precision(handle: &Handle, precision: c_int) -> c_int {
    set(handle, |settings| match precision {
        TSTAMP_MICRO | TSTAMP_NANO => {
            settings.precision = precision;
            0
        }
        _ => ERROR_TSTAMP_PRECISION_NOTSUP,
    })
}

pub(crate) unsafe fn get_tstamp_precision(handle: &Handle) -> c_int {
    // SAFETY: the reference ends here.
    unsafe { handle.settings() }.precision
}

/// A number that is no type of Ethernet stands for none, as with libpcap, which has it cut.
pub(crate) unsafe fn set_protocol(handle: &Handle, protocol: c_int) -> c_int {
    const ALL: u16 = libc::ETH_P_ALL as u16;
    set(handle, |settings| {
        settings.protocol = if protocol as u16 == ALL { 0 } else { protocol as u16 };
        0
    })
}

/// # Safety
///
/// `types` can be written to.
pub(crate) unsafe fn list_tstamp_types(handle: &Handle, types: *mut *mut c_int) -> c_int {
    // SAFETY: as the caller says.
    unsafe { super::give_list(&[TSTAMP_HOST], types) }.unwrap_or_else(|| {
        handle.error.set("malloc: Cannot allocate memory");
        ERROR
    })
}
