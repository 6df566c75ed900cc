//! The C interface of a cluster's consumers. What functions do is said in `include/linerate_client.h`,
//! which is part of the interface; here is what they rely on.
//!
//! Unsafe code is what a C interface consists of: pointers that callers vouch for.
#![allow(unsafe_code, reason = "a C interface")]

use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    os::fd::{AsFd, AsRawFd},
    ptr, slice,
    time::Duration,
};

use linerate_client::{ClientError, Consumer};

/// Most packets of a burst, as the header says.
const BURST: usize = 64;

/// `lr_consumer`.
#[derive(Debug)]
pub struct Handle {
    consumer: Consumer,
    /// What went wrong last.
    error: CString,
}

/// `lr_packet`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Packet {
    data: *const u8,
    length: usize,
}

/// `lr_figures`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Figures {
    packets: u64,
    bytes: u64,
    lost_full: u64,
    lost_absent: u64,
    sent: u64,
    held: u64,
    waiting: u64,
}

const _: () = assert!(size_of::<Packet>() == 16 && size_of::<Figures>() == 56);

impl Handle {
    /// What a function returns.
    fn answer<T>(&mut self, result: Result<T, ClientError>, number: impl Fn(T) -> c_int) -> c_int {
        match result {
            Ok(value) => number(value),
            Err(error) => {
                self.error = text(&error);
                -1
            }
        }
    }
}

fn text(error: &ClientError) -> CString {
    CString::new(error.to_string().replace('\0', "")).unwrap_or_default()
}

/// The text of a C string, if it is one.
///
/// # Safety
///
/// Null, or a string that ends with a zero byte and stays as it is.
unsafe fn string<'a>(pointer: *const c_char) -> Option<&'a str> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(pointer) }.to_str().ok()
}

/// Attaches.
///
/// # Safety
///
/// `socket` and `name` are C strings; `error` is null or has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lr_attach(
    socket: *const c_char,
    name: *const c_char,
    error: *mut c_char,
    size: usize,
) -> *mut Handle {
    // SAFETY: the caller's promise.
    let words = unsafe { (string(socket), string(name)) };
    let attached = match words {
        (Some(socket), Some(name)) => Consumer::attach(socket, name),
        _ => Err(ClientError::Protocol("a name is no text in UTF-8")),
    };
    match attached {
        Ok(consumer) => Box::into_raw(Box::new(Handle { consumer, error: CString::default() })),
        Err(why) => {
            if !error.is_null() && size > 0 {
                let why = text(&why);
                let length = why.as_bytes().len().min(size - 1);
                // SAFETY: there are `size` bytes, the caller says, and `length + 1` are written.
                unsafe {
                    ptr::copy_nonoverlapping(why.as_ptr(), error, length);
                    error.add(length).write(0);
                }
            }
            ptr::null_mut()
        }
    }
}

/// Takes the next burst.
///
/// # Safety
///
/// `consumer` comes from `lr_attach`, is not in use by another thread and not detached, here and in all
/// functions below; `packets` has room for 64.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lr_receive(consumer: *mut Handle, packets: *mut Packet) -> c_int {
    // SAFETY: the caller's promise.
    let handle = unsafe { &mut *consumer };
    let received = handle.consumer.receive();
    for (at, packet) in handle.consumer.packets().take(BURST).enumerate() {
        // SAFETY: `at` is below 64, for which the caller has room.
        unsafe { packets.add(at).write(Packet { data: packet.as_ptr(), length: packet.len() }) };
    }
    handle.answer(received, |received| received as c_int)
}

/// The bytes of a packet, for writing.
///
/// # Safety
///
/// As above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lr_writable(consumer: *mut Handle, at: usize) -> *mut u8 {
    // SAFETY: the caller's promise.
    let handle = unsafe { &mut *consumer };
    if at >= handle.consumer.packets().count() {
        return ptr::null_mut();
    }
    handle.consumer.packet_mut(at).map_or(ptr::null_mut(), |bytes| bytes.as_mut_ptr())
}

/// Sends packets of the burst.
///
/// # Safety
///
/// As above; `chosen` is null or has 64 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lr_send(consumer: *mut Handle, chosen: *const u8) -> c_int {
    // SAFETY: the caller's promise.
    let handle = unsafe { &mut *consumer };
    // SAFETY: likewise.
    let chosen = (!chosen.is_null()).then(|| unsafe { slice::from_raw_parts(chosen, BURST) });
    let mut at = 0;
    let sent = handle.consumer.send(|_| {
        let this = at;
        at += 1;
        chosen.is_none_or(|chosen| chosen[this] != 0)
    });
    handle.answer(sent, |sent| sent as c_int)
}

/// Sends a packet of the caller's.
///
/// # Safety
///
/// As above; `data` has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lr_transmit(
    consumer: *mut Handle,
    data: *const c_void,
    length: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    let handle = unsafe { &mut *consumer };
    let packet = match length {
        0 => &[],
        // SAFETY: likewise.
        _ => unsafe { slice::from_raw_parts(data.cast::<u8>(), length) },
    };
    let sent = handle.consumer.transmit(packet);
    handle.answer(sent, c_int::from)
}

/// Waits for packets.
///
/// # Safety
///
/// As above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lr_wait(consumer: *mut Handle, milliseconds: c_int) -> c_int {
    // SAFETY: the caller's promise.
    let handle = unsafe { &mut *consumer };
    let limit = u64::try_from(milliseconds).ok().map(Duration::from_millis);
    let there = handle.consumer.wait(limit);
    handle.answer(there, c_int::from)
}

/// Prepares to wait.
///
/// # Safety
///
/// As above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lr_prepare_wait(consumer: *mut Handle) -> c_int {
    // SAFETY: the caller's promise.
    let handle = unsafe { &mut *consumer };
    let waits = handle.consumer.prepare_wait();
    handle.answer(waits, c_int::from)
}

/// What is waited for.
///
/// # Safety
///
/// As above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lr_fd(consumer: *const Handle) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { &*consumer }.consumer.as_fd().as_raw_fd()
}

/// Figures.
///
/// # Safety
///
/// As above; `figures` has room for them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lr_read_figures(consumer: *const Handle, figures: *mut Figures) {
    // SAFETY: the caller's promise.
    let of = unsafe { &*consumer }.consumer.figures();
    let read = Figures {
        packets: of.packets,
        bytes: of.bytes,
        lost_full: of.lost_full,
        lost_absent: of.lost_absent,
        sent: of.sent,
        held: of.held,
        waiting: of.waiting,
    };
    // SAFETY: likewise.
    unsafe { figures.write(read) };
}

/// What went wrong last.
///
/// # Safety
///
/// As above. The text is there until the next call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lr_error(consumer: *const Handle) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { &*consumer }.error.as_ptr()
}

/// Ends the consumer.
///
/// # Safety
///
/// As above, or null; the pointer and packets of the burst are used no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lr_detach(consumer: *mut Handle) {
    if !consumer.is_null() {
        // SAFETY: the caller's promise: it comes from `Box::into_raw` in `lr_attach`.
        drop(unsafe { Box::from_raw(consumer) });
    }
}
