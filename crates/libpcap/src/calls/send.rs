//! Sending packets.

use std::{
    ffi::{c_int, c_void},
    io,
};

use crate::{abi::ERROR, handle::Handle, inject::SendFailure};

/// Sends a packet: how many bytes it has.
fn send(handle: &Handle, packet: &[u8]) -> Result<c_int, c_int> {
    // Another thread than the one that receives may come here: it has no business with the capture.
    handle.activated()?;
    let Some(sender) = handle.sender() else {
        handle.error.set("Writing packets is not supported on this device");
        return Err(ERROR);
    };
    let ends = || {
        let broken = handle.interrupt.is_wanted().then_some(libc::EINTR);
        handle.is_nonblocking().then_some(libc::EAGAIN).or(broken)
    };
    match sender.send(packet, ends) {
        Ok(()) => Ok(packet.len() as c_int),
        Err(SendFailure::Text(text)) => {
            handle.error.set(&format!("send: {text}"));
            Err(ERROR)
        }
        Err(failure) => {
            let number = match failure {
                SendFailure::Errno(number) => number,
                _ => libc::EAGAIN,
            };
            let text = io::Error::from_raw_os_error(number).to_string();
            // The kernel's text, without the library's addition.
            let text = text.split(" (os error").next().unwrap_or_default();
            handle.error.set(&format!("send: {text}"));
            // SAFETY: `errno` is this thread's.
            unsafe { *libc::__errno_location() = number };
            Err(ERROR)
        }
    }
}

/// # Safety
///
/// `packet` has so many bytes.
pub(crate) unsafe fn inject(handle: &Handle, packet: *const c_void, length: usize) -> c_int {
    if length > c_int::MAX as usize {
        let most = c_int::MAX;
        let text = format!("More than {most} bytes cannot be injected: Invalid argument");
        handle.error.set(&text);
        return ERROR;
    }
    if length == 0 {
        handle.error.set("The number of bytes to be injected must not be zero: Invalid argument");
        return ERROR;
    }
    // SAFETY: as the caller says.
    let packet = unsafe { std::slice::from_raw_parts(packet.cast(), length) };
    send(handle, packet).unwrap_or_else(|status| status)
}

/// # Safety
///
/// `packet` has so many bytes.
pub(crate) unsafe fn send_packet(handle: &Handle, packet: *const u8, length: c_int) -> c_int {
    let Ok(length @ 1..) = usize::try_from(length) else {
        let text = "The number of bytes to be sent must be positive: Invalid argument";
        handle.error.set(text);
        return ERROR;
    };
    // SAFETY: as the caller says.
    let packet = unsafe { std::slice::from_raw_parts(packet, length) };
    // libpcap's result before it is activated is not an error either.
    match send(handle, packet) {
        Ok(_) => 0,
        Err(ERROR) => ERROR,
        Err(_) => 0,
    }
}
