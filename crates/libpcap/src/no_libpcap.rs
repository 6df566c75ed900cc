//! Functions of libpcap where the system has none: those that our own handles need, filters, and
//! errors that name the missing library.

use std::{
    borrow::Cow,
    ffi::{CStr, c_char, c_int, c_uint},
};

use crate::{
    abi::{BpfProgram, ERROR, Interface, NETMASK_UNKNOWN, PacketHeader, Pcap},
    bpf::{Instruction, Program},
    compile::{self, Frames},
    handle::write_to,
    system::MISSING,
};

/// Compiles a filter for packets of a link, as it is given them, of which so many bytes are wanted. The mask is
/// in the order that it is given in, as libpcap has it.
///
/// # Errors
///
/// The fault of the expression, in libpcap's words where it has some.
///
/// # Safety
///
/// `program` can be written to, `text` is null or a string that ends.
pub(crate) unsafe fn compile(
    (link, frames): (c_int, Frames),
    snapshot: u32,
    program: *mut BpfProgram,
    text: *const c_char,
    mask: u32,
) -> Result<(), String> {
    let text = if text.is_null() {
        Cow::default()
    } else {
        // SAFETY: as the caller says.
        unsafe { CStr::from_ptr(text) }.to_string_lossy()
    };
    let mask = (mask != NETMASK_UNKNOWN).then_some(mask);
    let compiled = compile::compile((link, frames), snapshot, &text, mask).map_err(|error| {
        if error.starts_with("syntax error") {
            return format!("can't parse filter expression: {error}");
        }
        error
    })?;
    // SAFETY: so many instructions are written to memory that has room for them, and the block
    // given away is one that `free_code` frees.
    unsafe {
        let to = libc::malloc(size_of_val(&compiled[..])).cast::<Instruction>();
        if to.is_null() {
            return Err("malloc: Cannot allocate memory".into());
        }
        to.copy_from_nonoverlapping(compiled.as_ptr(), compiled.len());
        program.write(BpfProgram { length: compiled.len() as c_uint, instructions: to });
    }
    Ok(())
}

/// # Safety
///
/// As `pcap_compile_nopcap`.
pub(crate) unsafe fn compile_nopcap(
    snaplen: c_int,
    link: c_int,
    program: *mut BpfProgram,
    text: *const c_char,
    _optimize: c_int,
    mask: u32,
) -> c_int {
    // SAFETY: as the caller says.
    match unsafe { compile((link, Frames::Whole), snaplen as u32, program, text, mask) } {
        Ok(()) => 0,
        Err(_) => ERROR,
    }
}

/// # Safety
///
/// It was compiled by libpcap, or here.
pub(crate) unsafe fn free_code(program: *mut BpfProgram) {
    // SAFETY: as the caller says: its instructions come from malloc(3), or are null.
    unsafe {
        if let Some(program) = program.as_mut() {
            libc::free(program.instructions.cast());
            (program.length, program.instructions) = (0, std::ptr::null_mut());
        }
    }
}

/// # Safety
///
/// The list is one of ours.
pub(crate) unsafe fn free_list(list: *mut c_int) {
    // SAFETY: it comes from malloc(3).
    unsafe { libc::free(list.cast()) };
}

/// # Safety
///
/// The list is one of ours, which has no addresses.
pub(crate) unsafe fn free_devices(mut devices: *mut Interface) {
    while !devices.is_null() {
        // SAFETY: all of it comes from malloc(3).
        unsafe {
            let next = (*devices).next;
            libc::free((*devices).name.cast());
            libc::free((*devices).description.cast());
            libc::free(devices.cast());
            devices = next;
        }
    }
}

/// # Safety
///
/// The program has as many instructions as it says, the packet as many bytes as its header says.
pub(crate) unsafe fn offline_filter(
    program: *const BpfProgram,
    header: *const PacketHeader,
    packet: *const u8,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe {
        let (program, header) = (&*program, &*header);
        if program.instructions.is_null() {
            return 0;
        }
        let instructions =
            std::slice::from_raw_parts(program.instructions, program.length as usize);
        let bytes = std::slice::from_raw_parts(packet, header.captured as usize);
        let accepted =
            Program::new(instructions).map(|checked| checked.accepts(bytes, header.length));
        accepted.unwrap_or(0) as c_int
    }
}

/// # Safety
///
/// The program is null, which wants all, or ends on every way; the packet has `captured` bytes.
pub(crate) unsafe fn bpf_filter(
    instructions: *const Instruction,
    packet: *const u8,
    length: c_uint,
    captured: c_uint,
) -> c_uint {
    if instructions.is_null() {
        return c_uint::MAX;
    }
    // SAFETY: as the caller says.
    unsafe {
        let instructions = std::slice::from_raw_parts(instructions, length_of(instructions));
        let bytes = std::slice::from_raw_parts(packet, captured as usize);
        Program::new(instructions).map_or(0, |checked| checked.accepts(bytes, length))
    }
}

/// Number of instructions of a program without a known length: up to the end that no jump leads
/// beyond.
///
/// # Safety
///
/// It ends on every way.
unsafe fn length_of(instructions: *const Instruction) -> usize {
    const RETURN: u16 = 6;
    const JUMP: u16 = 5;
    let (mut at, mut reached) = (0, 0);
    loop {
        // SAFETY: it was reached: by a jump, or because the one before does not end the program.
        let instruction = unsafe { *instructions.add(at) };
        match instruction.code & 7 {
            RETURN if at >= reached => return at + 1,
            JUMP if instruction.code & 0xf0 == 0 => {
                reached = reached.max(at + 1 + instruction.k as usize);
            }
            JUMP => {
                let jump = usize::from(instruction.jt.max(instruction.jf));
                reached = reached.max(at + 1 + jump);
            }
            _ => {}
        }
        at += 1;
    }
}

/// # Safety
///
/// There are so many instructions.
pub(crate) unsafe fn bpf_validate(instructions: *const Instruction, length: c_int) -> c_int {
    let Ok(length @ 1..) = usize::try_from(length) else { return 0 };
    // SAFETY: as the caller says.
    let instructions = unsafe { std::slice::from_raw_parts(instructions, length) };
    Program::new(instructions).is_ok().into()
}

macro_rules! missing {
    ($($name:ident($($argument:ident: $type:ty),*) -> $return:ty = $failing:expr;)*) => {
        $(
            /// # Safety
            ///
            /// `errbuf` has libpcap's size.
            pub(crate) unsafe fn $name($($argument: $type,)* errbuf: *mut c_char) -> $return {
                // SAFETY: as the caller says.
                unsafe { write_to(errbuf, MISSING) };
                $failing
            }
        )*
    };
}

missing! {
    open_offline(_name: *const c_char) -> *mut Pcap = std::ptr::null_mut();
    open_offline_with_precision(_name: *const c_char, _precision: c_uint) -> *mut Pcap = std::ptr::null_mut();
    open_file(_file: *mut libc::FILE) -> *mut Pcap = std::ptr::null_mut();
    open_file_with_precision(_file: *mut libc::FILE, _precision: c_uint) -> *mut Pcap = std::ptr::null_mut();
    init(_options: c_uint) -> c_int = ERROR;
}

pub(crate) unsafe fn version() -> *const c_char {
    c"libpcap version 1.10.3 (Linerate's, without the system's)".as_ptr()
}

/// libpcap's text for a status that a function returned.
pub(crate) unsafe fn status_text(status: c_int) -> *const c_char {
    let text: &CStr = match status {
        1 => c"Generic warning",
        2 => c"That device doesn't support promiscuous mode",
        3 => c"That type of time stamp is not supported by that device",
        -1 => c"Generic error",
        -2 => c"Loop terminated by pcap_breakloop",
        -3 => c"The pcap_t has not been activated",
        -4 => c"The setting can't be changed after the pcap_t is activated",
        -5 => c"No such device exists",
        -6 => c"That device doesn't support monitor mode",
        -7 => c"That operation is supported only in monitor mode",
        -8 => c"You don't have permission to perform this capture on that device",
        -9 => c"That device is not up",
        -10 => c"That device doesn't support setting the time stamp type",
        -11 => c"You don't have permission to capture in promiscuous mode on that device",
        -12 => c"That device doesn't support that time stamp precision",
        _ => c"Unknown error",
    };
    text.as_ptr()
}

pub(crate) unsafe fn error_text(error: c_int) -> *const c_char {
    // SAFETY: a number; the C library's text ends.
    unsafe { libc::strerror(error) }
}
