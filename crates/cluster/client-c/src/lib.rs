//! The C interface of a cluster's consumers.
//!
//! The header `include/linerate_client.h` is generated from this file, with its comments; a test
//! compares them. Callers guarantee that a consumer comes from `lr_attach`, was not detached, and is
//! used by one thread at a time, that arrays have the stated size, and that strings end with a zero
//! byte. SAFETY comments refer to this as the caller's promise.
#![allow(unsafe_code, reason = "a C interface")]
#![allow(clippy::missing_safety_doc, reason = "stated once, above")]

use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    os::fd::{AsFd, AsRawFd},
    ptr, slice,
    time::Duration,
};

use linerate_client::{ClientError, Consumer, Verdict};

/// Most packets of a burst.
pub const LR_BURST: usize = 64;

/// Verdict: drop the packet.
pub const LR_DROP: u8 = 0;
/// Verdict: pass the packet, changed or not.
pub const LR_PASS: u8 = 1;
/// Verdict: drop the packet and, without asking again, its flow in both directions.
pub const LR_DROP_FLOW: u8 = 2;
/// Verdict: pass the packet and, without asking again, its flow in both directions.
pub const LR_PASS_FLOW: u8 = 3;

/// A consumer that is attached to a cluster.
#[derive(Debug)]
pub struct Handle {
    consumer: Consumer,
    /// Text of the last error.
    error: CString,
}

/// A packet of a burst, valid until the next call of `lr_receive`, `lr_send`, `lr_answer`, `lr_wait`,
/// `lr_prepare_wait` or `lr_detach`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Packet {
    /// Its bytes.
    data: *const u8,
    /// Number of its bytes.
    length: usize,
    /// Time of reception, in nanoseconds since the epoch; 0 unless the port was asked for timestamps.
    time: u64,
}

/// The server's counters of a consumer, over all programs that were attached under its name.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Figures {
    /// Packets handed to the consumer.
    packets: u64,
    /// Bytes of these packets.
    bytes: u64,
    /// Packets lost because the consumer did not keep up.
    lost_full: u64,
    /// Packets lost because no program was attached.
    lost_absent: u64,
    /// Packets that the consumer has sent.
    sent: u64,
    /// Buffers that the consumer holds now.
    held: u64,
    /// Packets that wait for the consumer now.
    waiting: u64,
}

const _: () = assert!(size_of::<Packet>() == 24 && size_of::<Figures>() == 56);

impl Handle {
    /// Returns the C value of a result: `number` of the value, or -1 after the error is stored.
    fn finish<T>(&mut self, result: Result<T, ClientError>, number: impl Fn(T) -> c_int) -> c_int {
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

/// Returns the text of a C string; `None` if it is null or not UTF-8.
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

/// Attaches to the cluster at `socket`, a path or @NAME, as the consumer `name`. Returns NULL on failure,
/// and writes the reason to `error`, of `size` bytes, unless that is NULL.
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
        _ => Err(ClientError::Protocol("the socket or the name of the consumer is not UTF-8")),
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

/// Gives back the rest of the last burst, takes the next burst and puts its packets into an array of
/// `LR_BURST`. Returns their number. Never waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lr_receive(consumer: *mut Handle, packets: *mut Packet) -> c_int {
    // SAFETY: the caller's promise.
    let handle = unsafe { &mut *consumer };
    let received = handle.consumer.receive();
    for (at, (time, packet)) in handle.consumer.timed_packets().take(LR_BURST).enumerate() {
        let packet = Packet { data: packet.as_ptr(), length: packet.len(), time };
        // SAFETY: `at` is below the number for which the caller has room.
        unsafe { packets.add(at).write(packet) };
    }
    handle.finish(received, |received| received as c_int)
}

/// Returns the bytes of packet `at` of the burst for writing; NULL if other consumers have the packet, too,
/// if this consumer may only read, or if the burst has fewer packets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lr_writable(consumer: *mut Handle, at: usize) -> *mut u8 {
    // SAFETY: the caller's promise.
    let handle = unsafe { &mut *consumer };
    if at >= handle.consumer.packets().count() {
        return ptr::null_mut();
    }
    handle.consumer.packet_mut(at).map_or(ptr::null_mut(), |bytes| bytes.as_mut_ptr())
}

/// Sends the packets of the burst that are not zero in `chosen`, an array of `LR_BURST` bytes, or all if
/// that is NULL. Returns the number sent. Ends the burst.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lr_send(consumer: *mut Handle, chosen: *const u8) -> c_int {
    // SAFETY: the caller's promise.
    let handle = unsafe { &mut *consumer };
    // SAFETY: likewise.
    let chosen = (!chosen.is_null()).then(|| unsafe { slice::from_raw_parts(chosen, LR_BURST) });
    let mut at = 0;
    let sent = handle.consumer.send(|_| {
        let this = at;
        at += 1;
        chosen.is_none_or(|chosen| chosen[this] != 0)
    });
    handle.finish(sent, |sent| sent as c_int)
}

/// Returns 1 if an `InlineConsumer` of the configuration asks this consumer for verdicts, else 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lr_is_asked(consumer: *const Handle) -> c_int {
    // SAFETY: the caller's promise.
    c_int::from(unsafe { &*consumer }.consumer.is_asked())
}

/// Gives a verdict on each packet of the burst, from an array of `LR_BURST`; all packets pass if that is
/// NULL, and values that are no verdict drop. Returns the number that pass. Ends the burst. A consumer that
/// is asked for verdicts can also pass packets by `lr_send`; those left at the end of a burst are dropped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lr_answer(consumer: *mut Handle, verdicts: *const u8) -> c_int {
    // SAFETY: the caller's promise.
    let handle = unsafe { &mut *consumer };
    // SAFETY: likewise.
    let verdicts =
        (!verdicts.is_null()).then(|| unsafe { slice::from_raw_parts(verdicts, LR_BURST) });
    let mut at = 0;
    let passed = handle.consumer.answer(|_| {
        let this = at;
        at += 1;
        match verdicts.map_or(LR_PASS, |verdicts| verdicts[this]) {
            LR_PASS => Verdict::Pass,
            LR_DROP_FLOW => Verdict::DropFlow,
            LR_PASS_FLOW => Verdict::PassFlow,
            _ => Verdict::Drop,
        }
    });
    handle.finish(passed, |passed| passed as c_int)
}

/// Sends a copy of `length` bytes as a packet. Returns 1, or 0 if no buffer is free now.
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
    handle.finish(sent, c_int::from)
}

/// Waits for packets, at most `milliseconds`, or without a limit if that is negative. Returns 1 if there are
/// packets, else 0. A signal does not end the wait. Ends the burst.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lr_wait(consumer: *mut Handle, milliseconds: c_int) -> c_int {
    // SAFETY: the caller's promise.
    let handle = unsafe { &mut *consumer };
    let limit = u64::try_from(milliseconds).ok().map(Duration::from_millis);
    let there = handle.consumer.wait(limit);
    handle.finish(there, c_int::from)
}

/// Prepares a wait for `lr_fd` by poll(2) or epoll(7); call it before each. Returns 1 if the program can
/// wait, 0 if there are packets already. Ends the burst.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lr_prepare_wait(consumer: *mut Handle) -> c_int {
    // SAFETY: the caller's promise.
    let handle = unsafe { &mut *consumer };
    let waits = handle.consumer.prepare_wait();
    handle.finish(waits, c_int::from)
}

/// Returns the descriptor that becomes readable, after `lr_prepare_wait`, when there are packets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lr_fd(consumer: *const Handle) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { &*consumer }.consumer.as_fd().as_raw_fd()
}

/// Reads the server's counters of this consumer, or the last ones if the server has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lr_read_figures(consumer: *const Handle, figures: *mut Figures) {
    // SAFETY: the caller's promise.
    let counts = unsafe { &*consumer }.consumer.figures();
    let read = Figures {
        packets: counts.packets,
        bytes: counts.bytes,
        lost_full: counts.lost_full,
        lost_absent: counts.lost_absent,
        sent: counts.sent,
        held: counts.held,
        waiting: counts.waiting,
    };
    // SAFETY: likewise.
    unsafe { figures.write(read) };
}

/// Returns the text of the last error, valid until the next call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lr_error(consumer: *const Handle) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { &*consumer }.error.as_ptr()
}

/// Gives all packets back and frees the consumer. Does nothing if it is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lr_detach(consumer: *mut Handle) {
    if !consumer.is_null() {
        // SAFETY: the caller's promise: it comes from `Box::into_raw` in `lr_attach`.
        drop(unsafe { Box::from_raw(consumer) });
    }
}
