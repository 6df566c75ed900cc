//! Filters and the direction.

use std::ffi::{CStr, c_char, c_int};

use linerate_filter::{Instruction, code};

use super::companion;
use crate::{
    abi::{BpfProgram, DIRECTION_BOTH, DIRECTION_IN, DIRECTION_OUT, ERROR},
    bpf::{Invalid, Program},
    compile::Frames,
    handle::Handle,
    no_libpcap,
    system::{self, load},
};

/// Compiled by the system library, so that a program gets the bytecode it would get of it, or here
/// where there is none. Expressions with VLANs are compiled for an interface, as libpcap does for a
/// live handle.
///
/// # Safety
///
/// As `pcap_compile`.
pub(crate) unsafe fn compile(
    handle: &Handle,
    program: *mut BpfProgram,
    text: *const c_char,
    optimize: c_int,
    mask: u32,
) -> c_int {
    if handle.capture().is_none() {
        handle.error.set("not-yet-activated pcap_t passed to pcap_compile");
        return ERROR;
    }
    let Some(capture) = handle.capture() else { return ERROR };
    // SAFETY: the reference ends here; the text is as the caller says.
    let asks_for_tags = unsafe { !(*capture).is_file && speaks_of_vlans(text) };
    if !load() {
        // SAFETY: as the caller says.
        return unsafe { compile_here(handle, program, text, mask) };
    }
    let compile = |theirs| {
        // SAFETY: as the caller says, with a handle of the system library's.
        let status = unsafe { system::pcap_compile(theirs, program, text, optimize, mask) };
        if status != Some(0) {
            // SAFETY: it is that library's.
            unsafe { companion::take_error(handle, theirs) };
        }
        status.unwrap_or(ERROR)
    };
    // SAFETY: it is activated, and one thread calls; the rest is as the caller says.
    unsafe {
        if asks_for_tags {
            return companion::with_live(handle, compile)
                .unwrap_or_else(|| compile_here(handle, program, text, mask));
        }
        companion::with(handle, compile).unwrap_or(ERROR)
    }
}

/// Returns true if an expression may ask for a VLAN.
///
/// # Safety
///
/// `text` is null or a string that ends.
unsafe fn speaks_of_vlans(text: *const c_char) -> bool {
    if text.is_null() {
        return false;
    }
    // SAFETY: as the caller says.
    let text = unsafe { CStr::from_ptr(text) }.to_bytes();
    text.split(|byte| !byte.is_ascii_alphanumeric()).any(|word| word == b"vlan")
}

/// # Safety
///
/// As `pcap_compile`, on a handle that is activated.
#[cold]
unsafe fn compile_here(
    handle: &Handle,
    program: *mut BpfProgram,
    text: *const c_char,
    mask: u32,
) -> c_int {
    let Some(capture) = handle.capture() else { return ERROR };
    // SAFETY: the references end here.
    let (link, snapshot, is_file) =
        unsafe { ((*capture).datalink, (*capture).settings().snapshot(), (*capture).is_file) };
    let frames = if is_file { Frames::Whole } else { Frames::Untagged };
    // SAFETY: as the caller says.
    match unsafe { no_libpcap::compile((link, frames), snapshot, program, text, mask) } {
        Ok(()) => 0,
        Err(words) => {
            handle.error.set(&words);
            ERROR
        }
    }
}

/// # Safety
///
/// `program` is null or has as many instructions as it says.
pub(crate) unsafe fn set(handle: &Handle, program: *mut BpfProgram) -> c_int {
    let capture = match handle.activated() {
        Ok(capture) => capture,
        Err(status) => return status,
    };
    // SAFETY: as the caller says.
    let Some(program) = (unsafe { program.as_ref() }) else {
        handle.error.set("setfilter: No filter specified");
        return ERROR;
    };
    let instructions = if program.instructions.is_null() {
        &[]
    } else {
        // SAFETY: as the caller says.
        unsafe { std::slice::from_raw_parts(program.instructions, program.length as usize) }
    };
    let cleared;
    let (checked, instructions) = match Program::new(instructions) {
        Err(Invalid::Unwritten { .. }) => {
            cleared = with_cleared_memory(instructions);
            (Program::new(&cleared), &cleared[..])
        }
        checked => (checked, instructions),
    };
    match checked {
        Ok(checked) => {
            // SAFETY: no reference into it is used meanwhile.
            unsafe { (*capture).set_filter(checked, instructions) };
            0
        }
        Err(_) => {
            handle.error.set("BPF program is not valid");
            ERROR
        }
    }
}

/// A program that begins by setting all of its scratch memory to 0. Words that were not written are
/// read in libpcap's program of `geneve or ip`. The kernel refuses it, and libpcap runs it on old
/// bytes of its stack.
fn with_cleared_memory(program: &[Instruction]) -> Vec<Instruction> {
    let plain = |code, k| Instruction { code, jt: 0, jf: 0, k };
    let stores = (0..code::WORDS).map(|word| plain(code::STORE, word));
    let zero = plain(code::LOAD | code::CONSTANT, 0);
    std::iter::once(zero).chain(stores).chain(program.iter().copied()).collect()
}

/// Sets the direction. Packets that this host sends are seen only by ports with directions; others
/// have received packets alone.
pub(crate) unsafe fn set_direction(handle: &Handle, direction: c_int) -> c_int {
    let capture = match handle.activated() {
        Ok(capture) => capture,
        Err(status) => return status,
    };
    // SAFETY: no reference into it is used meanwhile.
    let capture = unsafe { &mut *capture };
    match direction {
        DIRECTION_BOTH | DIRECTION_IN => {}
        DIRECTION_OUT if capture.directions => {}
        DIRECTION_OUT => {
            handle.error.set("Setting direction is not supported on this device");
            return ERROR;
        }
        _ => {
            handle.error.set("Invalid direction");
            return ERROR;
        }
    }
    capture.direction = direction;
    0
}
