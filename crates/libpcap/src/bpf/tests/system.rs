//! The system's libpcap, loaded by name.

use std::{
    ffi::{CStr, CString, c_char, c_int, c_uint, c_void},
    mem::transmute,
    ptr,
};

use linerate_filter::Instruction;

use crate::abi::DLT_EN10MB;

/// `struct bpf_program`.
#[repr(C)]
struct RawProgram {
    length: c_uint,
    instructions: *mut Instruction,
}

/// `PCAP_NETMASK_UNKNOWN`.
const NO_MASK: c_uint = 0xffff_ffff;
const SNAP_LENGTH: c_int = 262_144;

type Filter = unsafe extern "C" fn(*const Instruction, *const u8, c_uint, c_uint) -> c_uint;
type Validate = unsafe extern "C" fn(*const Instruction, c_int) -> c_int;
type Compile =
    unsafe extern "C" fn(*mut c_void, *mut RawProgram, *const c_char, c_int, c_uint) -> c_int;
type Free = unsafe extern "C" fn(*mut RawProgram);
type OpenDead = unsafe extern "C" fn(c_int, c_int) -> *mut c_void;
type GetError = unsafe extern "C" fn(*mut c_void) -> *const c_char;

/// Its functions that are compared with ours.
pub(super) struct System {
    filter: Filter,
    validate: Validate,
    compile: Compile,
    free: Free,
    error: GetError,
    /// A handle on no device.
    dead: *mut c_void,
}

impl System {
    /// For Ethernet.
    pub(super) fn new() -> System {
        System::on(DLT_EN10MB)
    }

    /// For a link.
    pub(super) fn on(link: c_int) -> System {
        let name = c"libpcap.so.0.8";
        // SAFETY: the names are strings, and libpcap does nothing when it is loaded.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!library.is_null(), "this test needs Debian's libpcap0.8, which tcpdump installs");
        let symbol = |name: &CStr| {
            // SAFETY: as above.
            let found = unsafe { libc::dlsym(library, name.as_ptr()) };
            assert!(!found.is_null(), "libpcap has no {name:?}");
            found
        };
        // SAFETY: these are the types that `pcap/pcap.h` says, and the library is never unloaded.
        unsafe {
            let open = transmute::<*mut c_void, OpenDead>(symbol(c"pcap_open_dead"));
            System {
                filter: transmute::<*mut c_void, Filter>(symbol(c"bpf_filter")),
                validate: transmute::<*mut c_void, Validate>(symbol(c"bpf_validate")),
                compile: transmute::<*mut c_void, Compile>(symbol(c"pcap_compile")),
                free: transmute::<*mut c_void, Free>(symbol(c"pcap_freecode")),
                error: transmute::<*mut c_void, GetError>(symbol(c"pcap_geterr")),
                dead: open(link, SNAP_LENGTH),
            }
        }
    }

    pub(super) fn is_valid(&self, program: &[Instruction]) -> bool {
        // SAFETY: so many instructions are there.
        unsafe { (self.validate)(program.as_ptr(), program.len() as c_int) != 0 }
    }

    /// Result of the system's interpreter; for valid programs without words that it does not know.
    pub(super) fn accepts(&self, program: &[Instruction], packet: &[u8], length: u32) -> u32 {
        // SAFETY: the program is valid, and so many bytes are there.
        unsafe { (self.filter)(program.as_ptr(), packet.as_ptr(), length, packet.len() as c_uint) }
    }

    pub(super) fn compile(
        &self,
        expression: &str,
        optimize: bool,
    ) -> Result<Vec<Instruction>, String> {
        let text = CString::new(expression).expect("no zero in an expression");
        let mut program = RawProgram { length: 0, instructions: ptr::null_mut() };
        // SAFETY: the handle is open, the text ends with a zero, and the program is there to be written.
        let compiled = unsafe {
            (self.compile)(self.dead, &mut program, text.as_ptr(), optimize.into(), NO_MASK)
        };
        if compiled != 0 {
            // SAFETY: the handle has the error's text until it is used again.
            let error = unsafe { CStr::from_ptr((self.error)(self.dead)) };
            return Err(error.to_string_lossy().into_owned());
        }
        // SAFETY: libpcap has written so many instructions there, which are freed once.
        unsafe {
            let instructions =
                std::slice::from_raw_parts(program.instructions, program.length as usize).to_vec();
            (self.free)(&mut program);
            Ok(instructions)
        }
    }
}
