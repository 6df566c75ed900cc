//! libpcap's types and numbers, as `pcap/pcap.h` of version 1.10 has them.

use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::bpf::Instruction;

/// A `pcap_t`: ours, or the system library's.
#[derive(Debug)]
#[repr(C)]
pub struct Pcap {
    /// Distinguishes them: in ours it is the address of an object of this library.
    pub first_word: usize,
}

/// `pcap_dumper_t`, which is the system library's.
#[derive(Debug)]
#[repr(C)]
pub struct Dumper {
    _opaque: [u8; 0],
}

/// `struct pcap_pkthdr`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct PacketHeader {
    /// When the packet came. Its microseconds are nanoseconds where a handle was asked for those.
    pub time: libc::timeval,
    /// Bytes there are.
    pub captured: u32,
    /// Bytes the packet had.
    pub length: u32,
}

/// `struct pcap_stat`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Statistics {
    /// Packets the filter wanted.
    pub received: c_uint,
    /// Packets that were lost before they were looked at.
    pub dropped: c_uint,
    /// Packets the interface dropped.
    pub interface_dropped: c_uint,
}

/// `struct bpf_program`.
#[derive(Debug)]
#[repr(C)]
pub struct BpfProgram {
    /// Number of instructions.
    pub length: c_uint,
    /// From malloc(3).
    pub instructions: *mut Instruction,
}

/// `struct pcap_addr`: the parts behind `next` are only freed here.
#[derive(Debug)]
#[repr(C)]
pub struct Address {
    /// The next one.
    pub next: *mut Address,
    /// Address, netmask, broadcast address and the other end's.
    pub parts: [*mut c_void; 4],
}

/// `struct pcap_if`.
#[derive(Debug)]
#[repr(C)]
pub struct Interface {
    /// The next one.
    pub next: *mut Interface,
    /// Device name for `pcap_open_live`.
    pub name: *mut c_char,
    /// Description, for display; may be null.
    pub description: *mut c_char,
    /// Its addresses.
    pub addresses: *mut Address,
    /// `PCAP_IF_` and so on.
    pub flags: c_uint,
}

/// `pcap_handler`.
///
/// It may unwind: an exception of C++, or the end of a thread that is cancelled.
pub type Callback = Option<unsafe extern "C-unwind" fn(*mut u8, *const PacketHeader, *const u8)>;

/// Bytes of a buffer for an error's text.
pub const ERRBUF_SIZE: usize = 256;
/// Longest snapshot: libpcap's value for a length that is 0, negative or larger.
pub const SNAPLEN_MAX: c_int = 262_144;
/// `PCAP_NETMASK_UNKNOWN`.
pub const NETMASK_UNKNOWN: u32 = 0xffff_ffff;

/// Something failed; its text is the handle's.
pub const ERROR: c_int = -1;
/// The loop was broken.
pub const ERROR_BREAK: c_int = -2;
/// The handle has not been activated.
pub const ERROR_NOT_ACTIVATED: c_int = -3;
/// The handle has been activated.
pub const ERROR_ACTIVATED: c_int = -4;
/// There is no such device.
pub const ERROR_NO_SUCH_DEVICE: c_int = -5;
/// There is no monitor mode.
pub const ERROR_RFMON_NOTSUP: c_int = -6;
/// This user may not.
pub const ERROR_PERM_DENIED: c_int = -8;
/// There is no such precision of time stamps.
pub const ERROR_TSTAMP_PRECISION_NOTSUP: c_int = -12;
/// There are no such time stamps: the host's are taken.
pub const WARNING_TSTAMP_TYPE_NOTSUP: c_int = 3;

/// Ethernet.
pub const DLT_EN10MB: c_int = 1;
/// Ethernet, to be written as frames of a cable modem (DOCSIS), for programs that have one beside.
pub const DLT_DOCSIS: c_int = 143;
/// IP packets alone.
pub const DLT_RAW: c_int = 12;

/// `pcap_direction_t`: both.
pub const DIRECTION_BOTH: c_int = 0;
/// `pcap_direction_t`: packets received.
pub const DIRECTION_IN: c_int = 1;
/// `pcap_direction_t`: packets sent.
pub const DIRECTION_OUT: c_int = 2;

/// Time stamps of the host.
pub const TSTAMP_HOST: c_int = 0;
/// Time stamps in microseconds.
pub const TSTAMP_MICRO: c_int = 0;
/// Time stamps in nanoseconds.
pub const TSTAMP_NANO: c_int = 1;

/// Flags of an interface: up, running, and neither connected nor not.
pub const INTERFACE_FLAGS: c_uint = 0x2 | 0x4 | 0x30;
