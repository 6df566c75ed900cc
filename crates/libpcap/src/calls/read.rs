//! Reading packets.

use std::ffi::c_int;

use crate::{
    abi::{Callback, ERROR, ERROR_BREAK, ERROR_NOT_ACTIVATED, PacketHeader},
    handle::{Capture, Handle, Outcome},
};

/// Limit that a count stands for: none when it is not above zero.
fn limit(count: c_int) -> Option<usize> {
    usize::try_from(count).ok().filter(|count| *count > 0)
}

/// Gives packets to a callback.
///
/// # Safety
///
/// As `pcap_dispatch`: the callback takes `user`, and does not close the handle.
unsafe fn read(
    handle: &Handle,
    limit: Option<usize>,
    callback: Callback,
    user: *mut u8,
) -> Result<Outcome, c_int> {
    let capture = handle.activated()?;
    // SAFETY: no reference into it is used meanwhile; the callback is as the caller says.
    Ok(unsafe {
        Capture::read(capture, handle, limit, |header, bytes| {
            if let Some(callback) = callback {
                callback(user, header, bytes);
            }
        })
    })
}

/// # Safety
///
/// The callback takes `user`, and does not close the handle.
pub(crate) unsafe fn dispatch(
    handle: &Handle,
    count: c_int,
    callback: Callback,
    user: *mut u8,
) -> c_int {
    // SAFETY: as the caller says.
    match unsafe { read(handle, limit(count), callback, user) } {
        Ok(Outcome::Packets(given)) => given as c_int,
        // As at the end of a file.
        Ok(Outcome::Ended) => 0,
        Ok(Outcome::Broken) => ERROR_BREAK,
        Ok(Outcome::Failed) => ERROR,
        Err(status) => status,
    }
}

/// Does not end because a time is over.
///
/// # Safety
///
/// As [`dispatch`].
pub(crate) unsafe fn run_loop(
    handle: &Handle,
    count: c_int,
    callback: Callback,
    user: *mut u8,
) -> c_int {
    let mut left = limit(count);
    loop {
        // SAFETY: as the caller says.
        match unsafe { read(handle, left, callback, user) } {
            Ok(Outcome::Packets(given)) => {
                left = left.map(|left| left - given);
                if left == Some(0) {
                    return 0;
                }
            }
            Ok(Outcome::Ended) => return 0,
            Ok(Outcome::Broken) => return ERROR_BREAK,
            Ok(Outcome::Failed) => return ERROR,
            Err(status) => return status,
        }
    }
}

/// Reads one packet. Header and bytes stay until the next call.
fn read_one(handle: &Handle) -> Result<(Outcome, PacketHeader, *const u8), c_int> {
    let capture = handle.activated()?;
    let mut found = None;
    // SAFETY: no reference into it is used meanwhile, and nothing is called back.
    let outcome = unsafe {
        Capture::read(capture, handle, Some(1), |header, bytes| found = Some((*header, bytes)))
    };
    let none =
        PacketHeader { time: libc::timeval { tv_sec: 0, tv_usec: 0 }, captured: 0, length: 0 };
    let (header, bytes) = found.unwrap_or((none, std::ptr::null()));
    Ok((outcome, header, bytes))
}

/// # Safety
///
/// `header` can be written to.
pub(crate) unsafe fn next(handle: &Handle, header: *mut PacketHeader) -> *const u8 {
    match read_one(handle) {
        Ok((Outcome::Packets(1), found, bytes)) => {
            // SAFETY: as the caller says.
            unsafe { *header = found };
            bytes
        }
        _ => std::ptr::null(),
    }
}

/// # Safety
///
/// Both can be written to.
pub(crate) unsafe fn next_ex(
    handle: &Handle,
    header: *mut *mut PacketHeader,
    data: *mut *const u8,
) -> c_int {
    // The packet before is not there any more, with any result of this call.
    // SAFETY: as the caller says.
    unsafe {
        *header = std::ptr::null_mut();
        *data = std::ptr::null();
    }
    let (outcome, found, bytes) = match read_one(handle) {
        Ok(read) => read,
        Err(status) => return status,
    };
    match outcome {
        Outcome::Packets(0) => 0,
        Outcome::Packets(_) => {
            let Some(capture) = handle.capture() else { return ERROR_NOT_ACTIVATED };
            // SAFETY: no reference into it is used meanwhile, and it stays until the handle is closed;
            // the caller says the rest.
            unsafe {
                (*capture).header = found;
                *header = &raw mut (*capture).header;
                *data = bytes;
            }
            1
        }
        Outcome::Ended | Outcome::Broken => ERROR_BREAK,
        Outcome::Failed => ERROR,
    }
}

pub(crate) unsafe fn break_loop(handle: &Handle) {
    handle.interrupt.raise();
}
