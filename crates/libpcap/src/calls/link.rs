//! The link type, and other properties of a handle.

use std::ffi::{CStr, c_int};

use crate::{
    abi::{DLT_DOCSIS, DLT_EN10MB, DLT_RAW, ERROR},
    handle::{Capture, Handle},
    system,
};

/// Looks at the open port, or says that there is none.
fn look(handle: &Handle, at: impl FnOnce(&Capture) -> c_int) -> c_int {
    // These calls are allowed at any time; no error text is left behind.
    match handle.capture() {
        // SAFETY: the reference ends here.
        Some(capture) => at(unsafe { &*capture }),
        None => crate::abi::ERROR_NOT_ACTIVATED,
    }
}

pub(crate) unsafe fn datalink(handle: &Handle) -> c_int {
    look(handle, |capture| capture.datalink)
}

pub(crate) unsafe fn datalink_ext(handle: &Handle) -> c_int {
    look(handle, |_| 0)
}

/// # Safety
///
/// `links` can be written to.
pub(crate) unsafe fn list(handle: &Handle, links: *mut *mut c_int) -> c_int {
    look(handle, |capture| {
        // SAFETY: as the caller says.
        unsafe { super::give_list(links_of(capture.datalink), links) }.unwrap_or_else(|| {
            handle.error.set("malloc: Cannot allocate memory");
            ERROR
        })
    })
}

/// Link types that a port's frames may be given.
fn links_of(link: c_int) -> &'static [c_int] {
    if matches!(link, DLT_EN10MB | DLT_DOCSIS) { &[DLT_EN10MB, DLT_DOCSIS] } else { &[DLT_RAW] }
}

pub(crate) unsafe fn set(handle: &Handle, link: c_int) -> c_int {
    if let Some(capture) = handle.capture()
        // SAFETY: no reference into it is used meanwhile.
        && links_of(unsafe { (*capture).datalink }).contains(&link)
    {
        // SAFETY: as above.
        unsafe { (*capture).datalink = link };
        return 0;
    }
    // SAFETY: a number.
    let name = unsafe { system::pcap_datalink_val_to_name(link) }.filter(|name| !name.is_null());
    let name = name.map_or_else(
        || format!("DLT {link}"),
        // SAFETY: a constant of that library's, which ends.
        |name| unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned(),
    );
    handle.error.set(&format!("{name} is not one of the DLTs supported by this device"));
    ERROR
}

pub(crate) unsafe fn snapshot(handle: &Handle) -> c_int {
    look(handle, |capture| capture.settings().snapshot() as c_int)
}

/// Result of calls about files: no live handle is of the other byte order, or has a version.
pub(crate) unsafe fn zero(handle: &Handle) -> c_int {
    look(handle, |_| 0)
}

pub(crate) unsafe fn buffer_size(handle: &Handle) -> c_int {
    look(handle, |capture| c_int::try_from(capture.buffer_size()).unwrap_or(c_int::MAX))
}

/// There is none.
pub(crate) unsafe fn file(_: &Handle) -> *mut libc::FILE {
    std::ptr::null_mut()
}
