//! The functions of libpcap: signature of each, and the way in which it is exported.

/// Passes the list to a macro. An export takes the implementation of each function, and a call of the
/// system library's takes the signature alone.
macro_rules! for_each_function {
    ($reader:ident) => {
        $reader! {
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
    };
}

pub(crate) use for_each_function;
