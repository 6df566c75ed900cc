//! Results of a handle of ours, beside those of one of libpcap's: numbers and texts.

use std::ffi::{CStr, c_int};

use linerate_pcap::{abi::*, exports::*};

use crate::support::{Handle, pair, ring, text};

/// Results of all calls on a handle that has not been activated.
fn before_activation(handle: &Handle) -> Vec<(&'static str, c_int, String)> {
    let mut said = Vec::new();
    let mut errbuf = [0; ERRBUF_SIZE];
    let mut header = std::ptr::null_mut();
    let mut bytes = std::ptr::null();
    let mut list = std::ptr::null_mut();
    let mut statistics = Statistics::default();
    let mut program = BpfProgram { length: 0, instructions: std::ptr::null_mut() };
    macro_rules! say {
        ($($call:ident($($argument:expr),*);)*) => {
            $(
                // SAFETY: each is given its arguments.
                let status = unsafe { $call(handle.0 $(, $argument)*) };
                said.push((stringify!($call), status, handle.error()));
            )*
        };
    }
    say! {
        pcap_dispatch(1, None, std::ptr::null_mut());
        pcap_loop(1, None, std::ptr::null_mut());
        pcap_next_ex(&raw mut header, &raw mut bytes);
        pcap_inject(c"a".as_ptr().cast(), 1);
        pcap_sendpacket(c"a".as_ptr().cast(), 1);
        pcap_stats(&raw mut statistics);
        pcap_setfilter(&raw mut program);
        pcap_compile(&raw mut program, c"tcp".as_ptr(), 1, 0);
        pcap_setdirection(DIRECTION_IN);
        pcap_getnonblock(errbuf.as_mut_ptr());
        pcap_setnonblock(0, errbuf.as_mut_ptr());
        pcap_getnonblock(errbuf.as_mut_ptr());
        pcap_datalink();
        pcap_datalink_ext();
        pcap_list_datalinks(&raw mut list);
        pcap_set_datalink(9);
        pcap_set_datalink(99_999);
        pcap_snapshot();
        pcap_is_swapped();
        pcap_major_version();
        pcap_minor_version();
        pcap_bufsize();
        pcap_fileno();
        pcap_get_selectable_fd();
        pcap_can_set_rfmon();
        pcap_get_tstamp_precision();
        pcap_list_tstamp_types(&raw mut list);
        pcap_set_tstamp_type(3);
        pcap_set_tstamp_type(99);
        pcap_set_tstamp_type(0);
        pcap_set_tstamp_precision(7);
        pcap_set_tstamp_precision(1);
        pcap_get_tstamp_precision();
        pcap_set_snaplen(-1);
        pcap_set_buffer_size(-1);
        pcap_set_timeout(-1);
        pcap_set_promisc(1);
        pcap_set_immediate_mode(1);
        pcap_set_protocol_linux(0);
        pcap_set_rfmon(0);
    }
    // SAFETY: as above.
    unsafe {
        assert!(pcap_dump_open(handle.0, c"/nonesuch/x".as_ptr()).is_null());
        said.push(("pcap_dump_open", 0, handle.error()));
        assert!(pcap_dump_open_append(handle.0, c"/nonesuch/x".as_ptr()).is_null());
        said.push(("pcap_dump_open_append", 0, handle.error()));
        assert!(pcap_file(handle.0).is_null());
        assert!(pcap_get_required_select_timeout(handle.0).is_null());
    }
    said
}

#[test]
#[ignore = "needs libpcap"]
fn a_handle_before_activation_answers_as_libpcaps() {
    let ours = before_activation(&Handle::create(&ring()));
    let theirs = before_activation(&Handle::create("lo"));
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs);
    }
}

#[test]
#[ignore = "needs libpcap"]
fn an_activated_handle_refuses_late_settings() {
    let (a, _b) = pair(0);
    // SAFETY: it is open.
    unsafe {
        for status in [
            pcap_activate(a.0),
            pcap_set_snaplen(a.0, 5),
            pcap_set_promisc(a.0, 5),
            pcap_set_rfmon(a.0, 1),
            pcap_set_timeout(a.0, 5),
            pcap_set_tstamp_type(a.0, 0),
            pcap_set_immediate_mode(a.0, 0),
            pcap_set_buffer_size(a.0, 5),
            pcap_set_tstamp_precision(a.0, 0),
            pcap_set_protocol_linux(a.0, 0),
        ] {
            assert_eq!(status, ERROR_ACTIVATED);
            assert_eq!(a.error(), "can't perform  operation on activated capture");
        }
        assert_eq!((pcap_datalink(a.0), pcap_datalink_ext(a.0)), (DLT_EN10MB, 0));
        assert_eq!((pcap_is_swapped(a.0), pcap_major_version(a.0)), (0, 0));
        assert_eq!(pcap_minor_version(a.0), 0);
        assert!(pcap_bufsize(a.0) > 0 && pcap_file(a.0).is_null());
        assert_eq!(pcap_set_datalink(a.0, DLT_EN10MB), 0);
        assert_eq!(pcap_set_datalink(a.0, 9), ERROR);
        assert_eq!(a.error(), "PPP is not one of the DLTs supported by this device");
        let mut list = std::ptr::null_mut();
        // As libpcap's of an Ethernet interface.
        assert_eq!(pcap_list_datalinks(a.0, &raw mut list), 2);
        assert_eq!((*list, *list.add(1)), (DLT_EN10MB, DLT_DOCSIS));
        pcap_free_datalinks(list);
        assert_eq!((pcap_set_datalink(a.0, DLT_DOCSIS), pcap_datalink(a.0)), (0, DLT_DOCSIS));
        assert_eq!((pcap_set_datalink(a.0, DLT_EN10MB), pcap_datalink(a.0)), (0, DLT_EN10MB));
        assert_eq!(pcap_list_tstamp_types(a.0, &raw mut list), 1);
        assert_eq!(*list, TSTAMP_HOST);
        pcap_free_tstamp_types(list);
        pcap_perror(a.0, c"prefix".as_ptr());
        let said = a.compile("tcp port").unwrap_err();
        assert_eq!(said, "can't parse filter expression: syntax error");
    }
}

#[test]
#[ignore = "needs libpcap"]
fn filters_without_vlans_are_compiled_as_without_a_device() {
    let (a, _b) = pair(0);
    // SAFETY: plain numbers.
    let dead = Handle(unsafe { pcap_open_dead(DLT_EN10MB, SNAPLEN_MAX) });
    for expression in ["", "tcp port 80", "ip6 and not icmp6", "len > 100"] {
        let instructions = |handle: &Handle| {
            let mut program = handle.compile(expression).unwrap();
            // SAFETY: it was compiled.
            unsafe {
                let length = program.length as usize;
                let copy = std::slice::from_raw_parts(program.instructions, length).to_vec();
                assert_eq!(bpf_validate(program.instructions, length as c_int), 1);
                pcap_freecode(&raw mut program);
                copy
            }
        };
        assert_eq!(instructions(&a), instructions(&dead), "{expression}");
    }
    let mut program = BpfProgram { length: 0, instructions: std::ptr::null_mut() };
    // SAFETY: a program to be written, which is then run on a packet of that length.
    unsafe {
        let text = c"udp".as_ptr();
        assert_eq!(pcap_compile_nopcap(100, DLT_EN10MB, &raw mut program, text, 1, 0), 0);
        let frame = crate::support::frame(1);
        let time = libc::timeval { tv_sec: 0, tv_usec: 0 };
        let header = PacketHeader { time, captured: 60, length: 60 };
        assert!(pcap_offline_filter(&raw const program, &raw const header, frame.as_ptr()) > 0);
        assert!(bpf_filter(program.instructions, frame.as_ptr(), 60, 60) > 0);
        assert!(text_of(bpf_image(program.instructions, 0)).contains("ldh"));
        bpf_dump(&raw const program, 0);
        pcap_freecode(&raw mut program);
        assert!(program.instructions.is_null());
    }
}

fn text_of(pointer: *const std::ffi::c_char) -> String {
    assert!(!pointer.is_null());
    text(pointer)
}

#[test]
#[ignore = "needs libpcap"]
fn names_and_numbers_are_the_system_librarys() {
    // SAFETY: each is given its arguments, and gives a string that ends.
    unsafe {
        assert!(text_of(pcap_lib_version()).starts_with("libpcap version 1."));
        assert_eq!(text_of(pcap_statustostr(ERROR_BREAK)), "Loop terminated by pcap_breakloop");
        assert_eq!(text_of(pcap_strerror(libc::ENOENT)), "No such file or directory");
        assert_eq!(pcap_datalink_name_to_val(c"EN10MB".as_ptr()), DLT_EN10MB);
        assert_eq!(text_of(pcap_datalink_val_to_name(DLT_EN10MB)), "EN10MB");
        assert_eq!(text_of(pcap_datalink_val_to_description(DLT_EN10MB)), "Ethernet");
        assert_eq!(text_of(pcap_datalink_val_to_description_or_dlt(99_999)), "DLT 99999");
        assert_eq!(pcap_tstamp_type_name_to_val(c"host".as_ptr()), TSTAMP_HOST);
        assert_eq!(text_of(pcap_tstamp_type_val_to_name(TSTAMP_HOST)), "host");
        assert_eq!(text_of(pcap_tstamp_type_val_to_description(TSTAMP_HOST)), "Host");
        assert_eq!(pcap_nametoproto(c"tcp".as_ptr()), 6);
        assert_eq!(pcap_nametoeproto(c"arp".as_ptr()), 0x806);
        assert_eq!(pcap_nametollc(c"stp".as_ptr()), 0x42);
        let (mut port, mut last, mut protocol) = (0, 0, 0);
        assert_eq!(pcap_nametoport(c"80".as_ptr(), &raw mut port, &raw mut protocol), 1);
        let range = c"80-90".as_ptr();
        assert_eq!(pcap_nametoportrange(range, &raw mut port, &raw mut last, &raw mut protocol), 1);
        assert_eq!((port, last), (80, 90));
        let addresses = pcap_nametoaddrinfo(c"127.0.0.1".as_ptr());
        assert!(!addresses.is_null());
        libc::freeaddrinfo(addresses);
        assert!(!pcap_nametoaddr(c"127.0.0.1".as_ptr()).is_null());
        pcap_nametonetaddr(c"loopback".as_ptr());
        let station = pcap_ether_aton(c"02:00:00:00:00:01".as_ptr());
        assert_eq!(*station.add(5), 1);
        libc::free(station.cast());
        assert!(pcap_ether_hostton(c"nobody-has-this-name".as_ptr()).is_null());
        let file = libc::tmpfile();
        assert!(pcap_next_etherent(file).is_null());
        libc::fclose(file);
    }
}

/// Without a device there is nothing of ours.
#[test]
#[ignore = "needs libpcap"]
fn files_and_dead_handles_are_the_system_librarys() {
    let mut errbuf = [0; ERRBUF_SIZE];
    let missing = c"/nonesuch/file.pcap".as_ptr();
    // SAFETY: each is given its arguments.
    unsafe {
        assert!(pcap_open_offline(missing, errbuf.as_mut_ptr()).is_null());
        assert!(text(errbuf.as_ptr()).contains("No such file or directory"));
        let fine = TSTAMP_NANO as u32;
        let opened = pcap_open_offline_with_tstamp_precision(missing, fine, errbuf.as_mut_ptr());
        assert!(opened.is_null());
        let (ours, _b) = pair(0);
        for file in [libc::tmpfile(), libc::tmpfile()] {
            let dumper = pcap_dump_fopen(ours.0, file);
            assert!(!dumper.is_null(), "{}", ours.error());
            assert_eq!(pcap_dump_flush(dumper), 0);
            libc::rewind(file);
            let read = if errbuf[0] == 0 {
                pcap_fopen_offline(file, errbuf.as_mut_ptr())
            } else {
                pcap_fopen_offline_with_tstamp_precision(file, fine, errbuf.as_mut_ptr())
            };
            assert!(!read.is_null(), "{}", text(errbuf.as_ptr()));
            errbuf[0] = 0;
            let read = Handle(read);
            assert_eq!(pcap_datalink(read.0), DLT_EN10MB);
            assert_eq!((pcap_major_version(read.0), pcap_minor_version(read.0)), (2, 4));
            assert_eq!((pcap_is_swapped(read.0), pcap_snapshot(read.0)), (0, SNAPLEN_MAX));
            assert_eq!(read.dispatch(-1).0, 0);
        }
        let dead = Handle(pcap_open_dead_with_tstamp_precision(DLT_EN10MB, 100, fine));
        assert_eq!(pcap_snapshot(dead.0), 100);
        assert_eq!(pcap_get_tstamp_precision(dead.0), TSTAMP_NANO);
    }
}

#[test]
fn the_version_is_an_array_of_seven_bytes() {
    assert_eq!(CStr::from_bytes_with_nul(&pcap_version).unwrap(), c"1.10.3");
    assert_eq!(size_of_val(&eproto_db), 208);
}

#[test]
#[ignore = "needs libpcap"]
fn devices_are_listed_and_looked_up() {
    let mut errbuf = [0; ERRBUF_SIZE];
    let mut devices = std::ptr::null_mut();
    let (mut network, mut mask) = (1u32, 1u32);
    // SAFETY: each is given its arguments.
    unsafe {
        assert_eq!(pcap_init(0, errbuf.as_mut_ptr()), 0);
        assert_eq!(pcap_findalldevs(&raw mut devices, errbuf.as_mut_ptr()), 0);
        let mut names = Vec::new();
        let mut device: *mut Interface = devices;
        while !device.is_null() {
            names.push(text((*device).name));
            device = (*device).next;
        }
        pcap_freealldevs(devices);
        assert!(names.iter().any(|name| name == "lo"), "{names:?}");
        // Of a program that has called pcap_init, as this one.
        assert!(pcap_lookupdev(errbuf.as_mut_ptr()).is_null());
        assert!(text(errbuf.as_ptr()).contains("deprecated"));
        let numbers = (&raw mut network, &raw mut mask);
        let looked = |device: &CStr, errbuf: &mut [i8; ERRBUF_SIZE]| {
            pcap_lookupnet(device.as_ptr(), numbers.0, numbers.1, errbuf.as_mut_ptr())
        };
        assert_eq!(looked(c"packet:lo", &mut errbuf), looked(c"lo", &mut errbuf));
        assert_eq!(looked(c"ring:x", &mut errbuf), ERROR);
        assert_eq!(text(errbuf.as_ptr()), "ring:x: no IPv4 address assigned");
    }
}
