//! XDP programs through bpf(2): a socket map, a program, and a link that
//! attaches the program for as long as its file descriptor is open.
//!
//! Layouts are those of `union bpf_attr` in `linux/bpf.h`; the kernel takes
//! any prefix of the union, so each structure ends with the last field used.

use std::{
    cell::UnsafeCell,
    io,
    marker::PhantomData,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

/// One instruction, `struct bpf_insn`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    /// Operation code.
    pub code: u8,
    /// Destination in the low half, source in the high half.
    pub registers: u8,
    /// Of a jump, or of an address in a register.
    pub offset: i16,
    /// The operand that is not in a register.
    pub immediate: i32,
}

const _: () = assert!(size_of::<Instruction>() == 8);

const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
const PROG_TEST_RUN: libc::c_int = 10;
const LINK_CREATE: libc::c_int = 28;

const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
/// The program copes with packets in several pieces.
const XDP_HAS_FRAGS: u32 = 1 << 5;
const TEST_XDP_LIVE_FRAMES: u32 = 1 << 1;

/// Place in the kernel at which the program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// In the interface's driver, before the kernel makes a packet of it.
    Native,
    /// After the driver, for any interface.
    Generic,
}

impl Hook {
    /// `XDP_FLAGS_DRV_MODE` or `XDP_FLAGS_SKB_MODE`.
    fn flags(self) -> u32 {
        match self {
            Hook::Native => 1 << 2,
            Hook::Generic => 1 << 1,
        }
    }
}

/// A map from queue numbers to `AF_XDP` sockets.
///
/// # Errors
///
/// Without `CAP_BPF`, or when the kernel has no such maps.
pub fn socket_map(entries: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct MapCreate {
        map_type: u32,
        key_size: u32,
        value_size: u32,
        max_entries: u32,
    }
    let attributes =
        MapCreate { map_type: MAP_TYPE_XSKMAP, key_size: 4, value_size: 4, max_entries: entries };
    // SAFETY: the attributes hold no pointers, and the call returns a new
    // file descriptor.
    unsafe { owned(bpf(MAP_CREATE, &attributes)?) }
}

/// Makes the map send the packets of `queue` to `socket`. The entry goes with
/// the socket.
///
/// # Errors
///
/// When the socket is not bound to that queue of the program's interface.
pub fn map_socket(map: BorrowedFd<'_>, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
    #[repr(C)]
    struct MapUpdate {
        map: u32,
        _padding: u32,
        key: u64,
        value: u64,
        flags: u64,
    }
    let value = socket.as_raw_fd() as u32;
    let attributes = MapUpdate {
        map: map.as_raw_fd() as u32,
        _padding: 0,
        key: (&raw const queue) as u64,
        value: (&raw const value) as u64,
        flags: 0,
    };
    // SAFETY: key and value point to four bytes each, as the map was made
    // with, alive during the call.
    unsafe { bpf(MAP_UPDATE_ELEM, &attributes) }.map(drop)
}

/// Loads an XDP program; `fragments` says that it copes with packets in
/// several pieces, which some drivers want to know at large MTUs.
///
/// # Errors
///
/// When the kernel's verifier refuses the program, or without `CAP_BPF`.
pub fn load(program: &[Instruction], fragments: bool) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct ProgLoad {
        prog_type: u32,
        instruction_count: u32,
        instructions: u64,
        license: u64,
        log_level: u32,
        log_size: u32,
        log: u64,
        kernel_version: u32,
        flags: u32,
        name: [u8; 16],
    }
    let attributes = ProgLoad {
        prog_type: PROG_TYPE_XDP,
        instruction_count: program.len() as u32,
        instructions: program.as_ptr() as u64,
        // No helper the program calls is reserved to a licence.
        license: c"Apache-2.0".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: 0,
        flags: if fragments { XDP_HAS_FRAGS } else { 0 },
        name: *b"linerate_xdp\0\0\0\0",
    };
    // SAFETY: the instructions and the zero-terminated licence live during the
    // call, and it returns a new file descriptor.
    unsafe { owned(bpf(PROG_LOAD, &attributes)?) }
}

/// Attaches a program until the returned file descriptor is closed, by us or,
/// however the process ends, by the kernel.
///
/// # Errors
///
/// When the interface has a program already, or its driver takes none there.
pub fn attach(program: BorrowedFd<'_>, interface: u32, hook: Hook) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct LinkCreate {
        program: u32,
        interface: u32,
        attach_type: u32,
        flags: u32,
    }
    let attributes = LinkCreate {
        program: program.as_raw_fd() as u32,
        interface,
        attach_type: ATTACH_XDP,
        flags: hook.flags(),
    };
    // SAFETY: the attributes hold no pointers, and the call returns a new
    // file descriptor.
    unsafe { owned(bpf(LINK_CREATE, &attributes)?) }
}

/// Runs a program on one packet and returns its verdict.
///
/// # Errors
///
/// When the kernel cannot run it, or the packet is too short for one.
pub fn test_run(program: BorrowedFd<'_>, packet: &[u8]) -> io::Result<u32> {
    TestRun { repeat: 1, ..TestRun::on(program, packet) }.run()
}

/// Runs a program `repeat` times on frames from a page pool that begin as `frame`, and has the
/// kernel act on each verdict: `BPF_F_TEST_XDP_LIVE_FRAMES`, since Linux 5.18. `batch` of them, at
/// most 256, are a turn of the kernel's loop. A signal ends the run early, without an error.
///
/// # Errors
///
/// When the kernel cannot run it, or the frame is too short or too long for one.
pub fn run_live_frames(
    program: BorrowedFd<'_>,
    frame: &[u8],
    repeat: u32,
    batch: u32,
) -> io::Result<()> {
    let run = TestRun {
        repeat,
        flags: TEST_XDP_LIVE_FRAMES,
        batch_size: batch,
        ..TestRun::on(program, frame)
    };
    match run.run() {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(()),
    }
}

/// Attributes of `BPF_PROG_TEST_RUN`.
#[repr(C)]
#[derive(Default)]
struct TestRun<'a> {
    program: u32,
    answer: u32,
    size_in: u32,
    size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    context_size_in: u32,
    context_size_out: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    _padding: u32,
    /// The packet behind `data_in`, and the program.
    lives: PhantomData<(&'a [u8], BorrowedFd<'a>)>,
}

const _: () = assert!(size_of::<TestRun<'_>>() == 80);

impl<'a> TestRun<'a> {
    fn on(program: BorrowedFd<'a>, packet: &'a [u8]) -> TestRun<'a> {
        TestRun {
            program: program.as_raw_fd() as u32,
            size_in: packet.len() as u32,
            data_in: packet.as_ptr() as u64,
            ..TestRun::default()
        }
    }

    /// Runs the program and returns its verdict.
    fn run(self) -> io::Result<u32> {
        // The kernel writes the answer behind the shared reference, so it is
        // looked at through a cell.
        let attributes = UnsafeCell::new(self);
        // SAFETY: the packet lives as long as the attributes, neither an output
        // buffer nor a context is given; the attributes may be written, being in
        // a cell.
        unsafe {
            bpf(PROG_TEST_RUN, &attributes)?;
            Ok((*attributes.get()).answer)
        }
    }
}

/// # Safety
///
/// Every pointer in `attributes` must be valid for the accesses of `command`, and `T` must have the
/// layout of that command's attributes, without padding.
unsafe fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<libc::c_long> {
    // SAFETY: by the contract; the kernel reads `size` bytes of attributes.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>())
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// # Safety
///
/// `fd` is a file descriptor without another owner.
unsafe fn owned(fd: libc::c_long) -> io::Result<OwnedFd> {
    // SAFETY: by the contract. BPF descriptors are always close-on-exec.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
