//! A handle of the system library beside ours, without a device, for calls that need one of that
//! library's: compiling filters, and writing files.
//!
//! It is for the handle's link type, with our snapshot length and precision. Filters that ask for
//! VLANs are compiled for a live handle by libpcap, with loads of the tag that Linux takes out of a packet: for
//! those there is a companion on an interface, too.

use std::ffi::{CStr, CString, c_int};

use crate::{
    abi::Pcap,
    handle::Handle,
    system::{self, MISSING},
};

/// The interface of those that are on none. It is nearly everywhere, and carries frames of Ethernet.
const LOOPBACK: &str = "lo";
/// A type of Ethernet that no packet has (it is reserved), so that none is given to a companion.
const NO_PROTOCOL: c_int = 0xffff;
/// Bytes of its buffer: the least that libpcap makes.
const BUFFER: c_int = 1 << 18;

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

/// Calls `run` with one on an interface, which gets no packets. `None` where there is none to be had: the
/// program may have no right to it any more.
///
/// # Safety
///
/// As [`with`].
pub(super) unsafe fn with_live<T>(handle: &Handle, run: impl FnOnce(*mut Pcap) -> T) -> Option<T> {
    let capture = handle.capture()?;
    // SAFETY: the references end here.
    let (link, snapshot) = unsafe { ((*capture).datalink, (*capture).settings().snapshot()) };
    let interface = handle.target.interface().unwrap_or(LOOPBACK);
    let name = CString::new(interface).ok()?;
    // SAFETY: a string that ends, and a buffer of libpcap's size; the handle made is closed here,
    // and not kept elsewhere.
    unsafe {
        let mut words = [0; crate::abi::ERRBUF_SIZE];
        let made = system::pcap_create(name.as_ptr(), words.as_mut_ptr());
        let made = made.filter(|made| !made.is_null())?;
        system::pcap_set_snaplen(made, snapshot as c_int);
        system::pcap_set_protocol_linux(made, NO_PROTOCOL);
        system::pcap_set_buffer_size(made, BUFFER);
        let is_alike = system::pcap_activate(made).is_some_and(|status| status >= 0)
            && (system::pcap_datalink(made) == Some(link)
                || system::pcap_set_datalink(made, link) == Some(0));
        let result = is_alike.then(|| run(made));
        system::pcap_close(made);
        result
    }
}

/// Takes over the error text of a handle.
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
