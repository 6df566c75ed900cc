//! The C interface of a cluster's consumers.
//!
//! The comments of functions and structures here are those of the header, which is made of them
//! (`include/linerate_client.h`; a test compares it). Its users vouch for the statements at its
//! beginning: a consumer comes from `lr_attach`, was not detached, and is used by one thread at a
//! time; arrays have the size that is said, texts end with a zero.
//!
//! Unsafe code is the substance of a C interface: pointers that callers vouch for.
#![allow(unsafe_code, reason = "a C interface")]
#![allow(clippy::missing_safety_doc, reason = "said once, above, and to users of the header")]

use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    os::fd::{AsFd, AsRawFd},
    ptr, slice,
    time::Duration,
};

use linerate_client::{ClientError, Consumer, Verdict};

/// Most packets of a burst.
pub const LR_BURST: usize = 64;

/// A verdict: the packet is dropped.
pub const LR_DROP: u8 = 0;
/// A verdict: it goes on, changed or not.
pub const LR_PASS: u8 = 1;
/// A verdict: it is dropped, and so are from now on all of its flow, in both directions, unasked.
pub const LR_DROP_FLOW: u8 = 2;
/// A verdict: it goes on, and so do from now on all of its flow, in both directions, unasked.
pub const LR_PASS_FLOW: u8 = 3;

/// A place in a cluster.
#[derive(Debug)]
pub struct Handle {
    consumer: Consumer,
    /// Text of the last error.
    error: CString,
}

/// A packet of a burst. It is there until the next call of `lr_receive`, `lr_send`, `lr_answer`,
/// `lr_wait`, `lr_prepare_wait` or `lr_detach`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Packet {
    /// Its bytes.
    data: *const u8,
    /// Their number.
    length: usize,
    /// Time of reception, in nanoseconds since the epoch; 0 where its port was not asked for it.
    time: u64,
}

/// The server's counts of a consumer, over all programs that were attached by its name.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Figures {
    /// Packets lent to it.
    packets: u64,
    /// Their bytes.
    bytes: u64,
    /// Packets it did not get because it did not keep up.
    lost_full: u64,
    /// Packets it did not get because no program was attached.
    lost_absent: u64,
    /// Packets it has sent.
    sent: u64,
    /// Buffers it holds now.
    held: u64,
    /// Packets that wait for it now.
    waiting: u64,
}

const _: () = assert!(size_of::<Packet>() == 24 && size_of::<Figures>() == 56);

impl Handle {
    /// The return value of a function: `number` of the value, or -1 with the error kept.
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

/// Attaches to the cluster at a socket, a file's name or @NAME, as the consumer of that name. NULL when
/// it cannot: `error`, of `size` bytes and perhaps NULL, then has a text that says why.
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

/// Gives back the rest of the last burst, takes the next and puts its packets into an array of
/// `LR_BURST`; returns how many. Never waits.
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

/// The bytes of a packet of the burst, for writing; NULL where others have it too, this consumer may only
/// read, or there are not so many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lr_writable(consumer: *mut Handle, at: usize) -> *mut u8 {
    // SAFETY: the caller's promise.
    let handle = unsafe { &mut *consumer };
    if at >= handle.consumer.packets().count() {
        return ptr::null_mut();
    }
    handle.consumer.packet_mut(at).map_or(ptr::null_mut(), |bytes| bytes.as_mut_ptr())
}

/// Sends those packets of the burst whose byte in an array of `LR_BURST` is not zero, or all where it is
/// NULL; returns how many. The burst is over then.
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

/// 1 where an `InlineConsumer` of the configuration asks this consumer about packets, else 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lr_is_asked(consumer: *const Handle) -> c_int {
    // SAFETY: the caller's promise.
    c_int::from(unsafe { &*consumer }.consumer.is_asked())
}

/// Answers for the packets of the burst: a verdict for each in an array of `LR_BURST`, or
/// all pass where it is NULL; any other value drops. Returns how many pass. The burst is over then. For
/// packets that were asked about `lr_send` says that they pass, and the end of a burst that they are dropped.
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

/// Sends a packet of this program's own, which is copied: 1, or 0 when there is no buffer for it now.
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

/// Waits for packets, for so many milliseconds at most, without limit below zero: 1 when there are some,
/// else 0. A signal does not end it. The burst is over then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lr_wait(consumer: *mut Handle, milliseconds: c_int) -> c_int {
    // SAFETY: the caller's promise.
    let handle = unsafe { &mut *consumer };
    let limit = u64::try_from(milliseconds).ok().map(Duration::from_millis);
    let there = handle.consumer.wait(limit);
    handle.finish(there, c_int::from)
}

/// To be called before each wait by poll(2) or epoll(7): 1 when there is something to wait
/// for, 0 when there are packets already. The burst is over then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lr_prepare_wait(consumer: *mut Handle) -> c_int {
    // SAFETY: the caller's promise.
    let handle = unsafe { &mut *consumer };
    let waits = handle.consumer.prepare_wait();
    handle.finish(waits, c_int::from)
}

/// The descriptor that is readable then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lr_fd(consumer: *const Handle) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { &*consumer }.consumer.as_fd().as_raw_fd()
}

/// The figures of this consumer, as the server has them, or had when it ended.
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

/// The text of the last error, which is there until the next call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lr_error(consumer: *const Handle) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { &*consumer }.error.as_ptr()
}

/// Gives all back and ends the consumer. NULL is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lr_detach(consumer: *mut Handle) {
    if !consumer.is_null() {
        // SAFETY: the caller's promise: it comes from `Box::into_raw` in `lr_attach`.
        drop(unsafe { Box::from_raw(consumer) });
    }
}
