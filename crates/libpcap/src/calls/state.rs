//! Activating and closing a handle, and its state in between.

use std::{
    ffi::{CStr, c_char, c_int},
    io::{self, IsTerminal, Write},
    sync::atomic::Ordering,
};

use linerate_port::peer::event;

use crate::{
    abi::{DLT_EN10MB, DLT_RAW, ERROR, ERROR_NOT_ACTIVATED, ERROR_RFMON_NOTSUP, Pcap, Statistics},
    handle::{Capture, Handle, write_to},
    inject::Sender,
    names, no_libpcap, source, system,
};

pub(crate) unsafe fn activate(handle: &Handle) -> c_int {
    if let Err(status) = handle.not_activated() {
        return status;
    }
    // SAFETY: one thread calls, and the reference ends here.
    let settings = unsafe { handle.settings() }.clone();
    if settings.monitor {
        // SAFETY: a constant, which ends.
        let words = unsafe { CStr::from_ptr(no_libpcap::status_text(ERROR_RFMON_NOTSUP)) };
        handle.error.set(&words.to_string_lossy());
        return ERROR_RFMON_NOTSUP;
    }
    let mut opened = match source::open(&handle.target, settings.wishes()) {
        Ok(opened) => opened,
        Err(failure) => {
            handle.error.set(&failure.text);
            return failure.status;
        }
    };
    // Later there may be no file of that name any more.
    system::load();
    say(handle, &opened.mode);
    let datalink = if opened.raw { DLT_RAW } else { DLT_EN10MB };
    let sender = opened.sink.take().map(Sender::new);
    handle.activate(Capture::new(opened, settings, datalink, &handle.target), sender);
    handle.error.set("");
    0
}

/// Reports the opened port on standard error, if asked to. Only on a terminal: programs read the
/// standard error of others, as tshark reads dumpcap's.
fn say(handle: &Handle, mode: &str) {
    if names::variable(names::SAY).is_none() || !io::stderr().is_terminal() {
        return;
    }
    let Handle { device, target, .. } = handle;
    let text = format!("linerate: {device} is {target} ({mode}); {}\n", target.effect());
    let _ = io::stderr().write_all(text.as_bytes());
}

/// # Safety
///
/// It is a handle of ours, and not used any more: there is no reference to it.
pub(crate) unsafe fn close(pcap: *mut Pcap) {
    // SAFETY: as the caller says; it came from `Handle::into_raw`, as all that have the tag.
    let handle = unsafe { Handle::from_raw(pcap) };
    if handle.target.has_helpers() && handle.is_of_another_process() {
        // Threads that are not there cannot be ended, nor is the peer told that its port is gone.
        if let Some(sender) = handle.sender() {
            sender.detach();
        }
        std::mem::forget(handle);
        return;
    }
    if let Some(capture) = handle.capture() {
        // SAFETY: no callback is running.
        unsafe { (*capture).close() };
    }
    if let Some(sender) = handle.sender() {
        sender.close();
    }
}

/// # Safety
///
/// `statistics` can be written to.
pub(crate) unsafe fn stats(handle: &Handle, statistics: *mut Statistics) -> c_int {
    match handle.activated() {
        Ok(_) => {
            let Some(receive_side) = handle.receive_side() else { return ERROR };
            // SAFETY: as the caller says.
            unsafe { *statistics = receive_side.statistics() };
            0
        }
        Err(status) => status,
    }
}

pub(crate) unsafe fn get_nonblock(handle: &Handle, errbuf: *mut c_char) -> c_int {
    if handle.capture().is_none() {
        // SAFETY: the caller gives a buffer of libpcap's size.
        unsafe { write_to(errbuf, "This handle hasn't been activated yet") };
        return ERROR_NOT_ACTIVATED;
    }
    handle.is_nonblocking().into()
}

/// Sets whether reading waits, also before the handle is activated. libpcap opens a descriptor when
/// a handle is to wait again, which ends the wait, and leaves the handle as it is where the process
/// may have no more: ours would do without, but a program gets the same error.
///
/// # Safety
///
/// `errbuf` has libpcap's size.
pub(crate) unsafe fn set_nonblock(handle: &Handle, nonblock: c_int, errbuf: *mut c_char) -> c_int {
    let waits_again = nonblock == 0 && handle.is_nonblocking() && handle.capture().is_some();
    if waits_again && let Err(error) = event::new() {
        handle.error.set(&format!("Could not open eventfd: {}", words_of(&error)));
        // SAFETY: as the caller says.
        unsafe { write_to(errbuf, &handle.error.text()) };
        return ERROR;
    }
    handle.nonblocking.store(nonblock != 0, Ordering::Relaxed);
    0
}

/// The C library's words for an error, without its number.
fn words_of(error: &io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error").map_or(text.as_str(), |(words, _)| words).into()
}

pub(crate) unsafe fn selectable_fd(handle: &Handle) -> c_int {
    let Some(capture) = handle.capture() else { return ERROR };
    // SAFETY: no reference into it is used meanwhile.
    unsafe { &mut *capture }.selectable(handle).unwrap_or_else(|error| {
        handle.error.set(&error.to_string());
        ERROR
    })
}

/// The descriptor tells all there is to tell.
pub(crate) unsafe fn required_select_timeout(_: &Handle) -> *const libc::timeval {
    std::ptr::null()
}

pub(crate) unsafe fn get_error(handle: &Handle) -> *mut c_char {
    handle.error.as_ptr()
}

/// # Safety
///
/// `prefix` is null or a string that ends.
pub(crate) unsafe fn print_error(handle: &Handle, prefix: *const c_char) {
    let prefix = if prefix.is_null() {
        "(null)".into()
    } else {
        // SAFETY: as the caller says.
        unsafe { CStr::from_ptr(prefix) }.to_string_lossy()
    };
    let _ = io::stderr().write_all(format!("{prefix}: {}\n", handle.error.text()).as_bytes());
}
