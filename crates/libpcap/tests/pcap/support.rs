//! Handles that close themselves.

use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    sync::atomic::{AtomicU32, Ordering},
};

use linerate_pcap::{abi::*, exports::*};

/// An open handle.
pub(crate) struct Handle(pub(crate) *mut Pcap);

// SAFETY: tests that give it to another thread call functions allowed from there.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: it is open.
        unsafe { pcap_close(self.0) };
    }
}

/// A packet as it was given out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) bytes: Vec<u8>,
    pub(crate) length: u32,
    pub(crate) seconds: i64,
    pub(crate) fraction: i64,
}

impl Packet {
    /// # Safety
    ///
    /// As given to a callback.
    pub(crate) unsafe fn from_raw(header: *const PacketHeader, bytes: *const u8) -> Packet {
        // SAFETY: as the caller says.
        unsafe {
            let header = *header;
            Packet {
                bytes: std::slice::from_raw_parts(bytes, header.captured as usize).to_vec(),
                length: header.length,
                seconds: header.time.tv_sec,
                fraction: header.time.tv_usec,
            }
        }
    }
}

extern "C-unwind" fn collect(user: *mut u8, header: *const PacketHeader, bytes: *const u8) {
    // SAFETY: `Handle::dispatch` gives a vector; the rest is the library's promise.
    unsafe { (*user.cast::<Vec<Packet>>()).push(Packet::from_raw(header, bytes)) };
}

impl Handle {
    /// A handle that is not activated.
    #[track_caller]
    pub(crate) fn create(device: &str) -> Handle {
        let mut errbuf = [0; ERRBUF_SIZE];
        let device = CString::new(device).unwrap();
        // SAFETY: a string, and a buffer of that size.
        let pcap = unsafe { pcap_create(device.as_ptr(), errbuf.as_mut_ptr()) };
        assert!(!pcap.is_null(), "{}", text(errbuf.as_ptr()));
        Handle(pcap)
    }

    /// A handle that waits so many milliseconds.
    #[track_caller]
    pub(crate) fn open(device: &str, timeout: c_int) -> Handle {
        let handle = Handle::create(device);
        // SAFETY: it is open.
        unsafe {
            assert_eq!(pcap_set_timeout(handle.0, timeout), 0);
            assert_eq!(pcap_activate(handle.0), 0, "{}", handle.error());
        }
        handle
    }

    pub(crate) fn error(&self) -> String {
        // SAFETY: it is open.
        text(unsafe { pcap_geterr(self.0) })
    }

    pub(crate) fn dispatch(&self, count: c_int) -> (c_int, Vec<Packet>) {
        let mut packets = Vec::new();
        let user: *mut Vec<Packet> = &raw mut packets;
        // SAFETY: the callback takes a vector.
        let status = unsafe { pcap_dispatch(self.0, count, Some(collect), user.cast()) };
        (status, packets)
    }

    pub(crate) fn run_loop(&self, count: c_int) -> (c_int, Vec<Packet>) {
        let mut packets = Vec::new();
        let user: *mut Vec<Packet> = &raw mut packets;
        // SAFETY: as above.
        let status = unsafe { pcap_loop(self.0, count, Some(collect), user.cast()) };
        (status, packets)
    }

    pub(crate) fn next_ex(&self) -> (c_int, Option<Packet>) {
        let mut header = std::ptr::dangling_mut();
        let mut bytes = std::ptr::dangling();
        // SAFETY: both can be written to.
        let status = unsafe { pcap_next_ex(self.0, &raw mut header, &raw mut bytes) };
        // SAFETY: where there is one it is as promised.
        (status, (status == 1).then(|| unsafe { Packet::from_raw(header, bytes) }))
    }

    pub(crate) fn inject(&self, packet: &[u8]) -> c_int {
        // SAFETY: the packet has so many bytes.
        unsafe { pcap_inject(self.0, packet.as_ptr().cast::<c_void>(), packet.len()) }
    }

    /// Sends packets whose last byte counts from `first`.
    #[track_caller]
    pub(crate) fn send(&self, first: u8, count: u8) {
        for number in first..first + count {
            assert_eq!(self.inject(&frame(number)), 60, "{}", self.error());
        }
    }

    pub(crate) fn set_nonblocking(&self, nonblocking: bool) {
        let mut errbuf = [0; ERRBUF_SIZE];
        // SAFETY: it is open, and the buffer has that size.
        let status = unsafe { pcap_setnonblock(self.0, nonblocking.into(), errbuf.as_mut_ptr()) };
        assert_eq!(status, 0);
    }

    #[track_caller]
    pub(crate) fn set_filter(&self, expression: &str) {
        let mut program = self.compile(expression).unwrap();
        // SAFETY: it was compiled.
        unsafe {
            assert_eq!(pcap_setfilter(self.0, &raw mut program), 0, "{}", self.error());
            pcap_freecode(&raw mut program);
        }
    }

    pub(crate) fn compile(&self, expression: &str) -> Result<BpfProgram, String> {
        let mut program = BpfProgram { length: 0, instructions: std::ptr::null_mut() };
        let text = CString::new(expression).unwrap();
        // SAFETY: a string, and a program to be written.
        let status = unsafe { pcap_compile(self.0, &raw mut program, text.as_ptr(), 1, 0) };
        if status == 0 { Ok(program) } else { Err(self.error()) }
    }

    pub(crate) fn statistics(&self) -> Statistics {
        let mut statistics = Statistics::default();
        // SAFETY: it can be written to.
        assert_eq!(unsafe { pcap_stats(self.0, &raw mut statistics) }, 0);
        statistics
    }

    pub(crate) fn break_loop(&self) {
        // SAFETY: it is open.
        unsafe { pcap_breakloop(self.0) };
    }
}

pub(crate) fn text(text: *const c_char) -> String {
    // SAFETY: all that are given here end.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// A frame of UDP over IPv4 to port 9, or to 768 and its number where that is odd.
pub(crate) fn frame(number: u8) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14..24].copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17]);
    frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    frame[36..38].copy_from_slice(&if number % 2 == 1 { [3, number] } else { [0, 9] });
    frame[59] = number;
    frame
}

/// The numbers of packets.
pub(crate) fn numbers(packets: &[Packet]) -> Vec<u8> {
    packets.iter().map(|packet| *packet.bytes.last().unwrap()).collect()
}

/// The name of a ring of a test's own.
pub(crate) fn ring() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("ring:test{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Both ends of a ring.
pub(crate) fn pair(timeout: c_int) -> (Handle, Handle) {
    let name = ring();
    (Handle::open(&name, timeout), Handle::open(&name, timeout))
}

/// A callback that sends a packet by another handle.
pub(crate) extern "C-unwind" fn forward(
    user: *mut u8,
    header: *const PacketHeader,
    bytes: *const u8,
) {
    // SAFETY: the other handle is given as `user`.
    let sent = unsafe { pcap_inject(user.cast(), bytes.cast(), (*header).captured as usize) };
    assert_eq!(sent, 60);
}
