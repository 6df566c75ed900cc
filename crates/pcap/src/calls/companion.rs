//! A handle of the system library beside ours, without a device, for what that library does with
//! handles and we do not: compiling filters, and writing files.
//!
//! It is for Ethernet, or what else the link is, with our snapshot length and precision. On a live handle
//! libpcap would compile loads of what Linux's sockets know besides a packet.

use std::ffi::CStr;

use crate::{abi::Pcap, exports::system, handle::Handle, system::MISSING};

/// Calls `run` with it. `None`, with an error, when there is none.
///
/// # Safety
///
/// The handle has been activated, and one thread calls.
pub(super) unsafe fn with<T>(handle: &Handle, run: impl FnOnce(*mut Pcap) -> T) -> Option<T> {
    let capture = handle.capture()?;
    // SAFETY: the references end here.
    let (link, snapshot, precision) = unsafe {
        let settings = (*capture).settings();
        ((*capture).datalink, settings.snapshot(), settings.precision)
    };
    // SAFETY: plain numbers.
    let made = unsafe {
        system::pcap_open_dead_with_tstamp_precision(link, snapshot as i32, precision as u32)
    };
    match made.filter(|made| !made.is_null()) {
        Some(made) => {
            let result = run(made);
            // SAFETY: it was made here, and nothing keeps it.
            unsafe { system::pcap_close(made) };
            Some(result)
        }
        None => {
            handle.error.set(MISSING);
            None
        }
    }
}

/// Takes over what went wrong there.
///
/// # Safety
///
/// `theirs` is a handle of the system library's.
pub(super) unsafe fn take_error(handle: &Handle, theirs: *mut Pcap) {
    // SAFETY: as the caller says.
    if let Some(text) = unsafe { system::pcap_geterr(theirs) } {
        // SAFETY: it points to a string that ends, inside of the handle.
        handle.error.set(&unsafe { CStr::from_ptr(text) }.to_string_lossy());
    }
}
