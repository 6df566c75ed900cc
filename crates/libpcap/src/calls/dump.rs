//! Files that are written, by the system library: it takes link type, snapshot length and precision from
//! a handle, and does not keep it.

use std::ffi::{CStr, c_char};

use super::companion;
use crate::{
    abi::{Dumper, Pcap},
    handle::Handle,
    system,
};

/// # Safety
///
/// `open` may be called with a handle of the system library's.
unsafe fn with(
    handle: &Handle,
    complaint: impl FnOnce() -> String,
    open: impl FnOnce(*mut Pcap) -> Option<*mut Dumper>,
) -> *mut Dumper {
    if handle.capture().is_none() {
        handle.error.set(&complaint());
        return std::ptr::null_mut();
    }
    let run = |theirs| {
        let dumper = open(theirs).unwrap_or(std::ptr::null_mut());
        if dumper.is_null() {
            // SAFETY: it is that library's.
            unsafe { companion::take_error(handle, theirs) };
        }
        dumper
    };
    // SAFETY: it is activated, and one thread calls.
    unsafe { companion::with(handle, run) }.unwrap_or(std::ptr::null_mut())
}

/// libpcap's error for a file that is to be appended to: it opens that before it looks at the
/// handle.
///
/// # Safety
///
/// `name` is a string that ends.
unsafe fn not_appended(name: *const c_char) -> String {
    // SAFETY: as the caller says, and the file opened is closed.
    unsafe {
        let file = libc::fopen(name, c"ab+".as_ptr());
        if file.is_null() {
            let why = CStr::from_ptr(libc::strerror(*libc::__errno_location()));
            let name = CStr::from_ptr(name).to_string_lossy();
            return format!("{name}: {}", why.to_string_lossy());
        }
        libc::fclose(file);
        not_activated(name, "pcap_dump_open_append")
    }
}

/// # Safety
///
/// `name` is a string that ends.
unsafe fn not_activated(name: *const c_char, function: &str) -> String {
    // SAFETY: as the caller says.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    format!("{name}: not-yet-activated pcap_t passed to {function}")
}

/// # Safety
///
/// `name` is a string that ends.
pub(crate) unsafe fn open(handle: &Handle, name: *const c_char) -> *mut Dumper {
    // SAFETY: as the caller says.
    unsafe {
        with(
            handle,
            || not_activated(name, "pcap_dump_open"),
            |theirs| system::pcap_dump_open(theirs, name),
        )
    }
}

/// # Safety
///
/// `name` is a string that ends.
pub(crate) unsafe fn open_append(handle: &Handle, name: *const c_char) -> *mut Dumper {
    // SAFETY: as the caller says.
    unsafe {
        with(handle, || not_appended(name), |theirs| system::pcap_dump_open_append(theirs, name))
    }
}

/// # Safety
///
/// `file` is an open one.
pub(crate) unsafe fn open_file(handle: &Handle, file: *mut libc::FILE) -> *mut Dumper {
    // SAFETY: as the caller says.
    unsafe {
        with(
            handle,
            || "stream: not-yet-activated pcap_t passed to pcap_dump_fopen".into(),
            |theirs| system::pcap_dump_fopen(theirs, file),
        )
    }
}
