//! All exports of libpcap: those that are ours, those that depend on the handle's owner, and those
//! of the system library. [`FUNCTIONS`] says which is which; their signatures are in the list of
//! `functions`.

use std::ffi::{c_char, c_int, c_long, c_uint, c_void};

use crate::{
    abi::{BpfProgram, Callback, Dumper, ERROR, Interface, PacketHeader, Pcap, Statistics},
    bpf::Instruction,
    calls::{device, dump, filter, link, options, read, send, state},
    functions::for_each_function,
    handle::Handle,
    no_libpcap, system,
};

/// A value that says that a function could not do it.
pub(crate) trait Failing {
    /// The failure value.
    const VALUE: Self;
}

macro_rules! failing {
    ($($type:ty = $value:expr;)*) => {
        $(impl Failing for $type {
            const VALUE: $type = $value;
        })*
    };
}

failing! {
    () = ();
    c_int = ERROR;
    c_long = -1;
    c_uint = 0;
}

impl<T> Failing for *mut T {
    const VALUE: *mut T = std::ptr::null_mut();
}

impl<T> Failing for *const T {
    const VALUE: *const T = std::ptr::null();
}

/// Implementation of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportSource {
    /// By the system library.
    Forwarded,
    /// Here for our handles, by the system library for its own.
    ByHandle,
    /// Here, which asks the system library where the device is not ours.
    ByName,
    /// By the system library, or here where there is none.
    Alone,
    /// A variable.
    Data,
}

/// An export for each function of libpcap.
macro_rules! exports {
    ($($how:ident fn $name:ident($($argument:ident: $type:ty),*) -> $return:ty $(= $ours:path)?;)*) => {
        /// Every function that is exported, and how it is done.
        pub const FUNCTIONS: &[(&str, ExportSource)] = &[$((stringify!($name), how!($how))),*];

        $(
            /// libpcap's function of that name.
            ///
            /// # Safety
            ///
            /// As libpcap's documentation says.
            #[unsafe(no_mangle)]
            pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $return {
                export!($how $name($($argument),*) -> $return $(= $ours)?)
            }
        )*
    };
}

macro_rules! how {
    (forward) => {
        ExportSource::Forwarded
    };
    (handle) => {
        ExportSource::ByHandle
    };
    (last) => {
        ExportSource::ByHandle
    };
    (name) => {
        ExportSource::ByName
    };
    (alone) => {
        ExportSource::Alone
    };
}

macro_rules! export {
    (forward $name:ident($($argument:ident),*) -> $return:ty) => {
        // SAFETY: it is called as this was.
        unsafe { system::$name($($argument),*) }.unwrap_or(<$return as Failing>::VALUE)
    };
    (handle $name:ident($pcap:ident $(, $argument:ident)*) -> $return:ty = $ours:path) => {
        // SAFETY: the caller gives a handle that has not been closed.
        match unsafe { Handle::from_pointer($pcap) } {
            // SAFETY: the other arguments are as libpcap's documentation says.
            Some(handle) => unsafe { $ours(handle $(, $argument)*) },
            // SAFETY: it is called as this was.
            None => unsafe { system::$name($pcap $(, $argument)*) }
                .unwrap_or(<$return as Failing>::VALUE),
        }
    };
    (last $name:ident($pcap:ident) -> $return:ty = $ours:path) => {
        // SAFETY: the caller gives a handle that has not been closed. No reference to it stays.
        if unsafe { Handle::from_pointer($pcap) }.is_some() {
            // SAFETY: it is ours, and the caller does not use it any more.
            unsafe { $ours($pcap) }
        } else {
            // SAFETY: it is called as this was.
            unsafe { system::$name($pcap) }.unwrap_or(<$return as Failing>::VALUE)
        }
    };
    (name $name:ident($($argument:ident),*) -> $return:ty = $ours:path) => {
        // SAFETY: it is called as this was.
        unsafe { $ours($($argument),*) }
    };
    (alone $name:ident($($argument:ident),*) -> $return:ty = $ours:path) => {
        // SAFETY: they are called as this was.
        unsafe { system::$name($($argument),*).unwrap_or_else(|| $ours($($argument),*)) }
    };
}

for_each_function!(exports);

/// libpcap's version, as programs that hold a copy of this array have room for it: seven bytes.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "libpcap's name")]
pub static pcap_version: [u8; 7] = *b"1.10.3\0";

/// A type of Ethernet and its name.
#[derive(Debug)]
#[repr(C)]
pub struct EthernetType {
    name: *const c_char,
    number: u16,
}

// SAFETY: the names are constants.
unsafe impl Sync for EthernetType {}

const fn ethernet_type(name: &'static std::ffi::CStr, number: u16) -> EthernetType {
    EthernetType { name: name.as_ptr(), number }
}

/// The types of Ethernet that filters know by name. Programs that were linked with it hold a copy.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "libpcap's name")]
pub static eproto_db: [EthernetType; 13] = [
    ethernet_type(c"aarp", 0x80f3),
    ethernet_type(c"arp", 0x0806),
    ethernet_type(c"atalk", 0x809b),
    ethernet_type(c"decnet", 0x6003),
    ethernet_type(c"ip", 0x0800),
    ethernet_type(c"ip6", 0x86dd),
    ethernet_type(c"lat", 0x6004),
    ethernet_type(c"loopback", 0x9000),
    ethernet_type(c"mopdl", 0x6001),
    ethernet_type(c"moprc", 0x6002),
    ethernet_type(c"rarp", 0x8035),
    ethernet_type(c"sca", 0x6007),
    EthernetType { name: std::ptr::null(), number: 0 },
];

/// The variables that are exported.
pub const VARIABLES: &[&str] = &["pcap_version", "eproto_db"];
