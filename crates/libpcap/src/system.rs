//! The system's libpcap: found, loaded when a function of it is first needed, and its functions.
//!
//! It is loaded by its full path. By its name the loader would find this library again, which has
//! the same name.

use std::{
    ffi::{CStr, CString, c_char, c_int, c_long, c_uint, c_void},
    mem::MaybeUninit,
    path::Path,
    sync::{
        OnceLock,
        atomic::{AtomicPtr, Ordering},
    },
};

use crate::{
    abi::{BpfProgram, Callback, Dumper, Interface, PacketHeader, Pcap, Statistics},
    bpf::Instruction,
    functions::for_each_function,
    names,
};

/// A variable that names the library, where it is at none of the usual places.
pub const VARIABLE: &str = "LINERATE_PCAP_SYSTEM";

/// Error text where there is none.
pub const MISSING: &str = "this needs the system's libpcap, which is not installed (Debian: \
                           apt-get install libpcap0.8); LINERATE_PCAP_SYSTEM names it where it is \
                           elsewhere";

/// Paths of distributions.
const PLACES: &[&str] = &[
    concat!("/usr/lib/", env!("LINERATE_MULTIARCH"), "/libpcap.so.0.8"),
    concat!("/lib/", env!("LINERATE_MULTIARCH"), "/libpcap.so.0.8"),
    "/usr/lib64/libpcap.so.1",
    "/lib64/libpcap.so.1",
    "/usr/lib/libpcap.so.1",
    "/usr/lib/libpcap.so.0.8",
    "/lib/libpcap.so.1",
    "/usr/local/lib/libpcap.so.1",
];

/// Handle that dlopen(3) gave.
struct Library(*mut c_void);

// SAFETY: dlsym(3) may be called with it by all threads, and it is never closed.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();

/// Loads it, if that was not done yet. Returns true if there is one. Calls that need it when the
/// program may have no files any more (chroot(2)) come here in time.
pub(crate) fn load() -> bool {
    library().is_some()
}

fn library() -> Option<&'static Library> {
    LIBRARY.get_or_init(find).as_ref()
}

fn find() -> Option<Library> {
    let named = names::variable(VARIABLE);
    named.as_deref().into_iter().chain(PLACES.iter().copied()).find_map(|path| {
        // Of names without a folder the loader would give us ourselves.
        if !path.starts_with('/') || !Path::new(path).exists() {
            return None;
        }
        let path = CString::new(path).ok()?;
        // SAFETY: the path is a string that ends. The library's initialisers are libpcap's: none.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL) };
        (!library.is_null() && !is_ours(library)).then_some(Library(library))
    })
}

/// Returns true if a library is this one, installed in the place of the system's.
fn is_ours(library: *mut c_void) -> bool {
    // SAFETY: the name is a string that ends, and the library is open.
    let theirs = unsafe { libc::dlsym(library, c"pcap_lib_version".as_ptr()) };
    let mut here = MaybeUninit::<libc::Dl_info>::zeroed();
    let mut there = MaybeUninit::<libc::Dl_info>::zeroed();
    let ours: *const c_void = (&raw const LIBRARY).cast();
    // SAFETY: both are asked about with room for the answer, which is plain numbers and pointers.
    unsafe {
        libc::dladdr(ours, here.as_mut_ptr()) != 0
            && libc::dladdr(theirs, there.as_mut_ptr()) != 0
            && here.assume_init().dli_fbase == there.assume_init().dli_fbase
    }
}

/// A function of the system library, looked up when it is called first.
#[derive(Debug)]
struct Function {
    name: &'static CStr,
    /// Null until then.
    address: AtomicPtr<c_void>,
}

impl Function {
    /// The one of that name.
    const fn new(name: &'static CStr) -> Function {
        Function { name, address: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Address of the function; `None` when there is no library, or it is too old to have it.
    fn address(&self) -> Option<*mut c_void> {
        // Relaxed: the function was there before its address was.
        let known = self.address.load(Ordering::Relaxed);
        if !known.is_null() {
            return Some(known);
        }
        let library = library()?;
        // SAFETY: the name is a string that ends, and the library is open.
        let found = unsafe { libc::dlsym(library.0, self.name.as_ptr()) };
        self.address.store(found, Ordering::Relaxed);
        (!found.is_null()).then_some(found)
    }
}

/// A function for each of libpcap, which calls that of the system library. `None` when there is none.
macro_rules! system_functions {
    ($($how:ident fn $name:ident($($argument:ident: $type:ty),*) -> $return:ty $(= $ours:path)?;)*) => {
        $(
            /// # Safety
            ///
            /// As libpcap's documentation says.
            #[allow(dead_code, reason = "not all are called from here")]
            pub(crate) unsafe fn $name($($argument: $type),*) -> Option<$return> {
                // The name is an identifier with a zero behind it.
                const NAME: &CStr =
                    match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                        Ok(name) => name,
                        Err(_) => unreachable!(),
                    };
                static FUNCTION: Function = Function::new(NAME);
                let address = FUNCTION.address()?;
                // SAFETY: libpcap's function of that name has this signature, in all versions
                // that have it.
                let function = unsafe {
                    std::mem::transmute::<
                        *mut c_void,
                        unsafe extern "C-unwind" fn($($type),*) -> $return,
                    >(address)
                };
                // SAFETY: as the caller says.
                Some(unsafe { function($($argument),*) })
            }
        )*
    };
}

for_each_function!(system_functions);
