//! All exports of libpcap: those that are ours, those that depend on the handle's owner, and those
//! of the system library. [`FUNCTIONS`] says which is which.

use std::ffi::{c_char, c_int, c_long, c_uint, c_void};

use crate::{
    abi::{BpfProgram, Callback, Dumper, ERROR, Interface, PacketHeader, Pcap, Statistics},
    bpf::Instruction,
    calls::{device, dump, filter, link, options, read, send, state},
    handle::Handle,
    no_libpcap,
    system::Function,
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

/// The functions of libpcap: for each an export, and in `system` a way to call the system library's.
macro_rules! exports {
    ($($how:ident fn $name:ident($($argument:ident: $type:ty),*) -> $return:ty $(= $ours:path)?;)*) => {
        /// Every function that is exported, and how it is done.
        pub const FUNCTIONS: &[(&str, ExportSource)] = &[$((stringify!($name), how!($how))),*];

        /// The functions of the system library. `None` when there is none.
        pub(crate) mod system {
            use super::*;

            $(
                /// # Safety
                ///
                /// As libpcap's documentation says.
                #[allow(dead_code, reason = "not all are called from here")]
                pub(crate) unsafe fn $name($($argument: $type),*) -> Option<$return> {
                    // The name is an identifier with a zero behind it.
                    const NAME: &std::ffi::CStr =
                        match std::ffi::CStr::from_bytes_with_nul(
                            concat!(stringify!($name), "\0").as_bytes(),
                        ) {
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
        }

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

exports! {
    // Devices.
    name fn pcap_create(device: *const c_char, errbuf: *mut c_char) -> *mut Pcap = device::create;
    name fn pcap_open_live(device: *const c_char, snaplen: c_int, promisc: c_int, timeout: c_int, errbuf: *mut c_char) -> *mut Pcap = device::open_live;
    name fn pcap_findalldevs(devices: *mut *mut Interface, errbuf: *mut c_char) -> c_int = device::find_all;
    name fn pcap_lookupnet(device: *const c_char, network: *mut u32, mask: *mut u32, errbuf: *mut c_char) -> c_int = device::look_up_net;
    name fn pcap_lookupdev(errbuf: *mut c_char) -> *mut c_char = device::look_up_device;

    // Before a handle is activated.
    handle fn pcap_set_snaplen(pcap: *mut Pcap, snaplen: c_int) -> c_int = options::set_snaplen;
    handle fn pcap_set_promisc(pcap: *mut Pcap, promisc: c_int) -> c_int = options::set_promisc;
    handle fn pcap_can_set_rfmon(pcap: *mut Pcap) -> c_int = options::can_set_rfmon;
    handle fn pcap_set_rfmon(pcap: *mut Pcap, monitor: c_int) -> c_int = options::set_rfmon;
    handle fn pcap_set_timeout(pcap: *mut Pcap, timeout: c_int) -> c_int = options::set_timeout;
    handle fn pcap_set_tstamp_type(pcap: *mut Pcap, kind: c_int) -> c_int = options::set_tstamp_type;
    handle fn pcap_set_immediate_mode(pcap: *mut Pcap, immediate: c_int) -> c_int = options::set_immediate_mode;
    handle fn pcap_set_buffer_size(pcap: *mut Pcap, size: c_int) -> c_int = options::set_buffer_size;
    handle fn pcap_set_tstamp_precision(pcap: *mut Pcap, precision: c_int) -> c_int = options::set_tstamp_precision;
    handle fn pcap_get_tstamp_precision(pcap: *mut Pcap) -> c_int = options::get_tstamp_precision;
    handle fn pcap_set_protocol_linux(pcap: *mut Pcap, protocol: c_int) -> c_int = options::set_protocol;
    handle fn pcap_list_tstamp_types(pcap: *mut Pcap, types: *mut *mut c_int) -> c_int = options::list_tstamp_types;
    handle fn pcap_activate(pcap: *mut Pcap) -> c_int = state::activate;

    // Reading.
    handle fn pcap_loop(pcap: *mut Pcap, count: c_int, callback: Callback, user: *mut u8) -> c_int = read::run_loop;
    handle fn pcap_dispatch(pcap: *mut Pcap, count: c_int, callback: Callback, user: *mut u8) -> c_int = read::dispatch;
    handle fn pcap_next(pcap: *mut Pcap, header: *mut PacketHeader) -> *const u8 = read::next;
    handle fn pcap_next_ex(pcap: *mut Pcap, header: *mut *mut PacketHeader, data: *mut *const u8) -> c_int = read::next_ex;
    handle fn pcap_breakloop(pcap: *mut Pcap) -> () = read::break_loop;
    handle fn pcap_stats(pcap: *mut Pcap, statistics: *mut Statistics) -> c_int = state::stats;
    handle fn pcap_getnonblock(pcap: *mut Pcap, errbuf: *mut c_char) -> c_int = state::get_nonblock;
    handle fn pcap_setnonblock(pcap: *mut Pcap, nonblock: c_int, errbuf: *mut c_char) -> c_int = state::set_nonblock;
    handle fn pcap_get_selectable_fd(pcap: *mut Pcap) -> c_int = state::selectable_fd;
    handle fn pcap_fileno(pcap: *mut Pcap) -> c_int = state::selectable_fd;
    handle fn pcap_get_required_select_timeout(pcap: *mut Pcap) -> *const libc::timeval = state::required_select_timeout;
    last fn pcap_close(pcap: *mut Pcap) -> () = state::close;

    // Sending.
    handle fn pcap_inject(pcap: *mut Pcap, packet: *const c_void, length: usize) -> c_int = send::inject;
    handle fn pcap_sendpacket(pcap: *mut Pcap, packet: *const u8, length: c_int) -> c_int = send::send_packet;

    // Filters.
    handle fn pcap_compile(pcap: *mut Pcap, program: *mut BpfProgram, text: *const c_char, optimize: c_int, mask: u32) -> c_int = filter::compile;
    handle fn pcap_setfilter(pcap: *mut Pcap, program: *mut BpfProgram) -> c_int = filter::set;
    handle fn pcap_setdirection(pcap: *mut Pcap, direction: c_int) -> c_int = filter::set_direction;
    alone fn pcap_compile_nopcap(snaplen: c_int, datalink: c_int, program: *mut BpfProgram, text: *const c_char, optimize: c_int, mask: u32) -> c_int = no_libpcap::compile_nopcap;
    alone fn pcap_freecode(program: *mut BpfProgram) -> () = no_libpcap::free_code;
    alone fn pcap_offline_filter(program: *const BpfProgram, header: *const PacketHeader, packet: *const u8) -> c_int = no_libpcap::offline_filter;
    alone fn bpf_filter(instructions: *const Instruction, packet: *const u8, length: c_uint, captured: c_uint) -> c_uint = no_libpcap::bpf_filter;
    alone fn bpf_validate(instructions: *const Instruction, length: c_int) -> c_int = no_libpcap::bpf_validate;
    forward fn bpf_image(instruction: *const Instruction, at: c_int) -> *mut c_char;
    forward fn bpf_dump(program: *const BpfProgram, option: c_int) -> ();

    // Properties of a handle.
    handle fn pcap_geterr(pcap: *mut Pcap) -> *mut c_char = state::get_error;
    handle fn pcap_perror(pcap: *mut Pcap, prefix: *const c_char) -> () = state::print_error;
    handle fn pcap_datalink(pcap: *mut Pcap) -> c_int = link::datalink;
    handle fn pcap_datalink_ext(pcap: *mut Pcap) -> c_int = link::datalink_ext;
    handle fn pcap_list_datalinks(pcap: *mut Pcap, links: *mut *mut c_int) -> c_int = link::list;
    handle fn pcap_set_datalink(pcap: *mut Pcap, link: c_int) -> c_int = link::set;
    handle fn pcap_snapshot(pcap: *mut Pcap) -> c_int = link::snapshot;
    handle fn pcap_is_swapped(pcap: *mut Pcap) -> c_int = link::zero;
    handle fn pcap_major_version(pcap: *mut Pcap) -> c_int = link::zero;
    handle fn pcap_minor_version(pcap: *mut Pcap) -> c_int = link::zero;
    handle fn pcap_bufsize(pcap: *mut Pcap) -> c_int = link::buffer_size;
    handle fn pcap_file(pcap: *mut Pcap) -> *mut libc::FILE = link::file;

    // Capture files that are written.
    handle fn pcap_dump_open(pcap: *mut Pcap, name: *const c_char) -> *mut Dumper = dump::open;
    handle fn pcap_dump_open_append(pcap: *mut Pcap, name: *const c_char) -> *mut Dumper = dump::open_append;
    handle fn pcap_dump_fopen(pcap: *mut Pcap, file: *mut libc::FILE) -> *mut Dumper = dump::open_file;
    forward fn pcap_dump(user: *mut u8, header: *const PacketHeader, packet: *const u8) -> ();
    forward fn pcap_dump_close(dumper: *mut Dumper) -> ();
    forward fn pcap_dump_file(dumper: *mut Dumper) -> *mut libc::FILE;
    forward fn pcap_dump_flush(dumper: *mut Dumper) -> c_int;
    forward fn pcap_dump_ftell(dumper: *mut Dumper) -> c_long;
    forward fn pcap_dump_ftell64(dumper: *mut Dumper) -> i64;

    // Capture files that are read, and handles without a device.
    alone fn pcap_open_offline(name: *const c_char, errbuf: *mut c_char) -> *mut Pcap = no_libpcap::open_offline;
    alone fn pcap_open_offline_with_tstamp_precision(name: *const c_char, precision: c_uint, errbuf: *mut c_char) -> *mut Pcap = no_libpcap::open_offline_with_precision;
    alone fn pcap_fopen_offline(file: *mut libc::FILE, errbuf: *mut c_char) -> *mut Pcap = no_libpcap::open_file;
    alone fn pcap_fopen_offline_with_tstamp_precision(file: *mut libc::FILE, precision: c_uint, errbuf: *mut c_char) -> *mut Pcap = no_libpcap::open_file_with_precision;
    forward fn pcap_open_dead(link: c_int, snaplen: c_int) -> *mut Pcap;
    forward fn pcap_open_dead_with_tstamp_precision(link: c_int, snaplen: c_int, precision: c_uint) -> *mut Pcap;

    // Memory that the caller frees.
    alone fn pcap_freealldevs(devices: *mut Interface) -> () = no_libpcap::free_devices;
    alone fn pcap_free_datalinks(links: *mut c_int) -> () = no_libpcap::free_list;
    alone fn pcap_free_tstamp_types(types: *mut c_int) -> () = no_libpcap::free_list;

    // Names and numbers.
    alone fn pcap_init(options: c_uint, errbuf: *mut c_char) -> c_int = no_libpcap::init;
    alone fn pcap_lib_version() -> *const c_char = no_libpcap::version;
    alone fn pcap_statustostr(status: c_int) -> *const c_char = no_libpcap::status_text;
    alone fn pcap_strerror(error: c_int) -> *const c_char = no_libpcap::error_text;
    forward fn pcap_datalink_name_to_val(name: *const c_char) -> c_int;
    forward fn pcap_datalink_val_to_name(link: c_int) -> *const c_char;
    forward fn pcap_datalink_val_to_description(link: c_int) -> *const c_char;
    forward fn pcap_datalink_val_to_description_or_dlt(link: c_int) -> *const c_char;
    forward fn pcap_tstamp_type_name_to_val(name: *const c_char) -> c_int;
    forward fn pcap_tstamp_type_val_to_name(kind: c_int) -> *const c_char;
    forward fn pcap_tstamp_type_val_to_description(kind: c_int) -> *const c_char;
    forward fn pcap_ether_aton(text: *const c_char) -> *mut u8;
    forward fn pcap_ether_hostton(name: *const c_char) -> *mut u8;
    forward fn pcap_next_etherent(file: *mut libc::FILE) -> *mut c_void;
    forward fn pcap_nametoaddr(name: *const c_char) -> *mut *mut u32;
    forward fn pcap_nametoaddrinfo(name: *const c_char) -> *mut libc::addrinfo;
    forward fn pcap_nametonetaddr(name: *const c_char) -> u32;
    forward fn pcap_nametoport(name: *const c_char, port: *mut c_int, protocol: *mut c_int) -> c_int;
    forward fn pcap_nametoportrange(name: *const c_char, first: *mut c_int, last: *mut c_int, protocol: *mut c_int) -> c_int;
    forward fn pcap_nametoproto(name: *const c_char) -> c_int;
    forward fn pcap_nametoeproto(name: *const c_char) -> c_int;
    forward fn pcap_nametollc(name: *const c_char) -> c_int;
}

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
