//! Behaviour that callers of libpcap rely on, on rings.

use std::{
    ffi::c_int,
    sync::atomic::{AtomicPtr, Ordering},
    thread,
    time::{Duration, Instant},
};

use linerate_pcap::{abi::*, bpf::Instruction, exports::*};
use linerate_test_support::{await_waiting, thread_number};

use crate::support::{Handle, forward, frame, numbers, pair, ring, text};

/// Returns true if a descriptor is readable, waiting so long for it.
fn is_readable(fd: c_int, wait: c_int) -> bool {
    let mut polled = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one descriptor.
    unsafe { libc::poll(&raw mut polled, 1, wait) == 1 }
}

#[test]
fn packets_of_one_end_arrive_at_the_other() {
    let (a, b) = pair(0);
    a.send(0, 3);
    let (status, packets) = b.dispatch(-1);
    assert_eq!((status, numbers(&packets)), (3, vec![0, 1, 2]));
    assert_eq!(packets[1].bytes, frame(1));
    // SAFETY: it is open, and the packet has so many bytes.
    assert_eq!(unsafe { pcap_sendpacket(b.0, frame(7).as_ptr(), 60) }, 0);
    assert_eq!(numbers(&a.dispatch(1).1), [7]);
}

#[test]
fn dispatch_without_a_count_gives_all_there_is() {
    let (a, b) = pair(0);
    for count in [-1, 0] {
        // More than a burst.
        for _ in 0..3 {
            a.send(0, 200);
        }
        assert_eq!(b.dispatch(count).0, 600);
    }
}

#[test]
fn a_count_is_of_packets_that_the_filter_wants() {
    let (a, b) = pair(0);
    b.set_filter("udp dst port 9");
    a.send(0, 20);
    let (status, packets) = b.dispatch(4);
    assert_eq!((status, numbers(&packets)), (4, vec![0, 2, 4, 6]));
    // Packets that are not wanted end no call.
    assert_eq!(numbers(&b.run_loop(6).1), [8, 10, 12, 14, 16, 18]);
    assert_eq!(b.statistics().received, 10);
}

#[test]
fn a_call_goes_on_over_bursts_of_which_nothing_is_wanted() {
    let (a, b) = pair(1000);
    b.set_filter("udp dst port 781");
    for _ in 0..4 {
        a.send(20, 200);
    }
    a.send(13, 1);
    assert_eq!(numbers(&b.dispatch(1).1), [13]);
}

#[test]
fn next_ex_returns_its_status_and_keeps_the_packet() {
    let (a, b) = pair(10);
    let mut header = std::ptr::dangling_mut();
    let mut bytes = std::ptr::dangling();
    // SAFETY: both can be written to.
    assert_eq!(unsafe { pcap_next_ex(b.0, &raw mut header, &raw mut bytes) }, 0);
    assert!(header.is_null() && bytes.is_null(), "nothing of old is left there");
    a.send(0, 2);
    // SAFETY: as above.
    assert_eq!(unsafe { pcap_next_ex(b.0, &raw mut header, &raw mut bytes) }, 1);
    // More comes, and the packet stays until the next call.
    a.send(5, 200);
    // SAFETY: it was just given.
    let kept = unsafe { crate::support::Packet::from_raw(header, bytes) };
    assert_eq!((kept.bytes, kept.length), (frame(0), 60));
    assert_eq!(b.next_ex().1.unwrap().bytes, frame(1));
    assert_eq!(b.dispatch(-1).0, 200);
    assert_eq!(b.next_ex(), (0, None));
    b.break_loop();
    assert_eq!(b.next_ex(), (ERROR_BREAK, None));
}

#[test]
fn next_gives_a_packet_or_none() {
    let (a, b) = pair(10);
    let mut header =
        PacketHeader { time: libc::timeval { tv_sec: 0, tv_usec: 0 }, captured: 0, length: 0 };
    // SAFETY: the header can be written to.
    assert!(unsafe { pcap_next(b.0, &raw mut header) }.is_null());
    a.send(3, 1);
    // SAFETY: as above.
    let bytes = unsafe { pcap_next(b.0, &raw mut header) };
    // SAFETY: it was just given.
    let packet = unsafe { crate::support::Packet::from_raw(&raw const header, bytes) };
    assert_eq!(packet.bytes, frame(3));
}

#[test]
fn timeouts_end_dispatch_and_not_loop() {
    let (a, b) = pair(20);
    let start = Instant::now();
    assert_eq!(b.dispatch(-1).0, 0);
    assert!(start.elapsed() >= Duration::from_millis(20));
    thread::scope(|scope| {
        scope.spawn(|| {
            // The scenario: several time-outs of the loop.
            thread::sleep(Duration::from_millis(90));
            a.send(0, 2);
        });
        let (status, packets) = b.run_loop(2);
        assert_eq!((status, numbers(&packets)), (0, vec![0, 1]));
    });
}

/// Unwanted packets do not put off the end.
#[test]
fn a_timeout_comes_although_there_are_packets_that_are_not_wanted() {
    let (a, b) = pair(30);
    b.set_filter("tcp");
    let done = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // The ring may be full: then there are packets enough.
                a.set_nonblocking(true);
                a.inject(&frame(1));
            }
        });
        let status = b.dispatch(-1).0;
        done.store(true, Ordering::Relaxed);
        assert_eq!(status, 0);
    });
}

/// Nor do they when one was wanted, and more are asked for.
#[test]
fn a_timeout_comes_behind_the_first_packet_that_is_wanted() {
    let (a, b) = pair(30);
    b.set_filter("udp dst port 9");
    a.send(2, 1);
    let done = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                a.set_nonblocking(true);
                a.inject(&frame(1));
            }
        });
        let (status, packets) = b.dispatch(1000);
        done.store(true, Ordering::Relaxed);
        assert_eq!((status, numbers(&packets)), (1, vec![2]));
    });
}

#[test]
fn a_negative_timeout_does_not_wait() {
    let (a, b) = pair(-1);
    assert_eq!((b.dispatch(-1).0, b.next_ex().0), (0, 0));
    a.send(4, 1);
    assert_eq!(numbers(&b.dispatch(-1).1), [4]);
}

#[test]
fn without_a_timeout_dispatch_waits_for_a_packet() {
    let (a, b) = pair(0);
    let caller = thread_number();
    thread::scope(|scope| {
        scope.spawn(|| {
            await_waiting(caller);
            a.send(4, 1);
        });
        let (status, packets) = b.dispatch(-1);
        assert_eq!((status, numbers(&packets)), (1, vec![4]));
    });
}

/// A packet is given out as soon as it is there, however long the time-out: libpcap's immediate mode, and
/// here the other, too.
#[test]
fn a_long_timeout_holds_no_packet_back() {
    for immediate in [0, 1] {
        let name = ring();
        let a = Handle::open(&name, 0);
        let b = Handle::create(&name);
        // SAFETY: it is open.
        unsafe {
            assert_eq!(pcap_set_immediate_mode(b.0, immediate), 0);
            assert_eq!(pcap_set_timeout(b.0, 60_000), 0);
            assert_eq!(pcap_activate(b.0), 0);
        }
        a.send(1, 1);
        let start = Instant::now();
        assert_eq!(numbers(&b.dispatch(1).1), [1]);
        assert!(start.elapsed() < Duration::from_secs(30));
    }
}

#[test]
fn nonblocking_calls_return_at_once() {
    let (a, b) = pair(0);
    b.set_nonblocking(true);
    // SAFETY: it is open.
    assert_eq!(unsafe { pcap_getnonblock(b.0, std::ptr::null_mut()) }, 1);
    assert_eq!((b.dispatch(-1).0, b.next_ex().0), (0, 0));
    a.send(0, 1);
    assert_eq!(b.dispatch(-1).0, 1);
    b.set_nonblocking(false);
    // SAFETY: it is open.
    assert_eq!(unsafe { pcap_getnonblock(b.0, std::ptr::null_mut()) }, 0);
}

static BROKEN: AtomicPtr<Pcap> = AtomicPtr::new(std::ptr::null_mut());

extern "C" fn break_it(_: c_int) {
    // SAFETY: it is open as long as the handler is there.
    unsafe { pcap_breakloop(BROKEN.load(Ordering::Relaxed)) };
}

#[test]
fn a_signal_ends_a_loop_that_waits() {
    let (_a, b) = pair(0);
    BROKEN.store(b.0, Ordering::Relaxed);
    // SAFETY: the handler calls functions allowed in one.
    let waiting = unsafe {
        libc::signal(libc::SIGUSR2, break_it as *const () as libc::sighandler_t);
        libc::pthread_self()
    };
    let caller = thread_number();
    thread::scope(|scope| {
        scope.spawn(move || {
            await_waiting(caller);
            // SAFETY: the thread waits for this one.
            unsafe { libc::pthread_kill(waiting, libc::SIGUSR2) };
        });
        assert_eq!(b.run_loop(-1).0, ERROR_BREAK);
    });
    // It is over: the next call waits for packets again.
    b.set_nonblocking(true);
    assert_eq!(b.dispatch(-1).0, 0);
}

#[test]
fn another_thread_ends_a_loop_that_waits() {
    let (_a, b) = pair(0);
    let caller = thread_number();
    thread::scope(|scope| {
        scope.spawn(|| {
            await_waiting(caller);
            b.break_loop();
        });
        assert_eq!(b.run_loop(-1).0, ERROR_BREAK);
    });
}

/// In the middle of a burst, and without losing what is behind.
#[test]
fn breaking_counts_before_packets_that_were_given() {
    extern "C-unwind" fn stop(user: *mut u8, _: *const PacketHeader, _: *const u8) {
        // SAFETY: the handle is given as `user`.
        unsafe { pcap_breakloop(user.cast()) };
    }
    let (a, b) = pair(0);
    a.send(0, 5);
    for _ in 0..2 {
        // SAFETY: the callback takes a handle.
        let status = unsafe { pcap_dispatch(b.0, -1, Some(stop), b.0.cast()) };
        assert_eq!(status, ERROR_BREAK);
    }
    // SAFETY: as above.
    assert_eq!(unsafe { pcap_loop(b.0, 1, Some(stop), b.0.cast()) }, ERROR_BREAK);
    assert_eq!(numbers(&b.dispatch(-1).1), [3, 4]);
}

#[test]
fn the_descriptor_is_readable_while_there_is_something_to_read() {
    let (a, b) = pair(0);
    b.set_nonblocking(true);
    // SAFETY: it is open.
    let fd = unsafe { pcap_get_selectable_fd(b.0) };
    // SAFETY: as above.
    unsafe {
        assert_eq!(pcap_fileno(b.0), fd);
        assert!(pcap_get_required_select_timeout(b.0).is_null());
    }
    assert!(fd >= 0 && !is_readable(fd, 0));
    a.send(0, 5);
    assert!(is_readable(fd, 5000));
    assert_eq!(b.dispatch(2).0, 2);
    assert!(is_readable(fd, 0), "three are left");
    assert_eq!(b.dispatch(-1).0, 3);
    assert!(!is_readable(fd, 0));
    b.break_loop();
    assert!(is_readable(fd, 0), "a wish to end is something, too");
    assert_eq!(b.dispatch(-1).0, ERROR_BREAK);
    assert!(!is_readable(fd, 0));
}

/// Whenever the packet comes: before, while or after the reader looks.
#[test]
fn waiting_by_the_descriptor_misses_no_packet() {
    let (a, b) = pair(0);
    b.set_nonblocking(true);
    // SAFETY: it is open.
    let fd = unsafe { pcap_get_selectable_fd(b.0) };
    const COUNT: usize = 20_000;
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..COUNT {
                a.send(number as u8 % 200, 1);
                if number % 64 == 0 {
                    thread::yield_now();
                }
            }
        });
        let mut received = 0;
        while received < COUNT {
            assert!(is_readable(fd, 20_000), "missed at {received}");
            let (status, packets) = b.dispatch(-1);
            assert_eq!(status as usize, packets.len());
            received += packets.len();
        }
    });
}

#[test]
fn packets_are_cut_at_the_snapshot_length() {
    let name = ring();
    let a = Handle::open(&name, 0);
    let b = Handle::create(&name);
    // SAFETY: it is open.
    unsafe {
        assert_eq!(pcap_set_snaplen(b.0, 20), 0);
        assert_eq!(pcap_activate(b.0), 0);
        assert_eq!((pcap_snapshot(b.0), pcap_snapshot(a.0)), (20, SNAPLEN_MAX));
    }
    a.send(0, 1);
    let (_, packets) = b.dispatch(1);
    assert_eq!((packets[0].bytes.len(), packets[0].length), (20, 60));
    // The filter sees all of it.
    b.set_filter("udp dst port 9");
    a.send(0, 2);
    assert_eq!(b.dispatch(-1).0, 1);
}

#[test]
fn times_are_of_now_and_as_fine_as_asked_for() {
    let name = ring();
    let a = Handle::open(&name, 0);
    let b = Handle::create(&name);
    // SAFETY: it is open.
    unsafe {
        assert_eq!(pcap_set_tstamp_precision(b.0, TSTAMP_NANO), 0);
        assert_eq!(pcap_activate(b.0), 0);
        assert_eq!(pcap_get_tstamp_precision(b.0), TSTAMP_NANO);
        assert_eq!(pcap_get_tstamp_precision(a.0), TSTAMP_MICRO);
    }
    let now = || std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as i64;
    let before = now();
    let mut fine = 0;
    for _ in 0..20 {
        a.send(0, 1);
        b.send(0, 1);
        let nano = b.dispatch(1).1.remove(0);
        let time = nano.seconds * 1_000_000_000 + nano.fraction;
        assert!((before..=now()).contains(&time), "{before} {time}");
        fine += usize::from(nano.fraction % 1000 != 0);
        let micro = a.dispatch(1).1.remove(0);
        assert!((0..1_000_000).contains(&micro.fraction));
    }
    assert!(fine > 0, "all are of whole microseconds");
}

#[test]
fn a_filter_of_another_handle_can_be_set_and_a_wrong_one_cannot() {
    let (a, b) = pair(0);
    let mut program = a.compile("udp dst port 771").unwrap();
    // SAFETY: it was compiled.
    unsafe {
        assert_eq!(pcap_setfilter(b.0, &raw mut program), 0);
        pcap_freecode(&raw mut program);
    }
    a.send(0, 8);
    assert_eq!(numbers(&b.dispatch(-1).1), [3]);
    let mut wrong = BpfProgram { length: 0, instructions: std::ptr::null_mut() };
    // SAFETY: there are no instructions.
    assert_eq!(unsafe { pcap_setfilter(b.0, &raw mut wrong) }, ERROR);
    assert_eq!(b.error(), "BPF program is not valid");
    // An ancillary load that the kernel does not have either: the one behind `SKF_AD_VLAN_TPID`.
    assert_eq!(set_program(&b, &[plain(0x20, 0xffff_f040), plain(0x16, 0)]), ERROR);
    assert_eq!(b.error(), "BPF program is not valid");
    // The one before is still there.
    a.send(0, 8);
    assert_eq!(numbers(&b.dispatch(-1).1), [3]);
}

fn plain(code: u16, k: u32) -> Instruction {
    Instruction { code, jt: 0, jf: 0, k }
}

fn set_program(handle: &Handle, instructions: &[Instruction]) -> c_int {
    let mut instructions = instructions.to_vec();
    let length = instructions.len() as u32;
    let mut program = BpfProgram { length, instructions: instructions.as_mut_ptr() };
    // SAFETY: so many instructions are there.
    unsafe { pcap_setfilter(handle.0, &raw mut program) }
}

/// A frame with a tag of VLAN 5.
fn tagged(number: u8) -> Vec<u8> {
    let mut frame = frame(number);
    frame.splice(12..12, [0x81, 0, 0, 5]);
    frame
}

/// As in the kernel: the return value of a program is the length that is given. A tag is put back
/// behind that.
#[test]
fn a_program_says_how_much_of_a_packet_is_given() {
    let (a, b) = pair(0);
    for (returned, expected) in [
        (40, [(40, 60), (44, 64)]),
        (12, [(12, 60), (16, 64)]),
        (9, [(9, 60), (9, 60)]),
        (60, [(60, 60), (64, 64)]),
        (u32::MAX, [(60, 60), (64, 64)]),
    ] {
        assert_eq!(set_program(&b, &[plain(0x06, returned)]), 0);
        a.send(1, 1);
        assert_eq!(a.inject(&tagged(1)), 64);
        let packets = b.dispatch(2).1;
        let given: Vec<_> =
            packets.iter().map(|packet| (packet.bytes.len(), packet.length)).collect();
        assert_eq!(given, expected, "{returned}");
        assert!(tagged(1).starts_with(&packets[1].bytes), "{returned}");
    }
}

/// Ancillary loads give the metadata that the kernel has of a packet.
#[test]
fn programs_ask_for_more_than_the_bytes_of_a_packet() {
    let (a, b) = pair(0);
    // `ld #proto`, with the type behind a tag; `ld vlan_tci`; `ld #type`, of Ethernet; `ld #ifidx`,
    // of none.
    for (load, value, expected) in [
        (0, 0x800, vec![1, 1]),
        (44, 5, vec![1]),
        (44, 0, vec![1]),
        (28, 1, vec![1, 1]),
        (8, 0, vec![1, 1]),
        (60, 0x8100, vec![1]),
        (20, 7, vec![]),
    ] {
        let equal = Instruction { code: 0x15, jt: 0, jf: 1, k: value };
        let program = [plain(0x20, 0xffff_f000 + load), equal, plain(0x06, 2000), plain(0x06, 0)];
        assert_eq!(set_program(&b, &program), 0, "{load}: {}", b.error());
        a.send(1, 1);
        assert_eq!(a.inject(&tagged(1)), 64);
        b.set_nonblocking(true);
        assert_eq!(numbers(&b.dispatch(-1).1), expected, "{load}");
    }
    // A sample of the packets: `ld #rand`.
    let any_bit = Instruction { code: 0x45, jt: 0, jf: 1, k: 1 };
    let sample = [plain(0x20, 0xffff_f038), any_bit, plain(0x06, 2000), plain(0x06, 0)];
    assert_eq!(set_program(&b, &sample), 0, "{}", b.error());
    a.send(0, 250);
    let taken = b.dispatch(-1).1.len();
    assert!((1..250).contains(&taken), "{taken}");
}

/// As Linux runs libpcap's filters: without the outer tag, which is known besides.
#[test]
fn a_filter_sees_the_headers_behind_a_tag() {
    let mut tagged = frame(8);
    tagged.splice(12..12, [0x81, 0, 0, 5]);
    tagged[63] = 200;
    for (expression, expected) in [
        ("udp port 9", vec![2, 200]),
        ("not ip", vec![]),
        ("less 60", vec![1, 2, 200]),
        ("greater 64", vec![]),
        ("vlan", vec![200]),
        ("not vlan", vec![1, 2]),
        ("vlan 5 and udp port 9", vec![200]),
        ("udp and vlan", vec![200]),
        ("udp port 9 and vlan 5", vec![200]),
        ("udp and not vlan", vec![1, 2]),
        ("ether proto 0x8100", vec![]),
        ("ether[12:2] = 0x800", vec![1, 2, 200]),
        ("vlan 6", vec![]),
        // A port whose number is that of a type of tags.
        ("udp port 9 or udp port 33024", vec![2, 200]),
        ("tcp port 80 or vlan", vec![200]),
    ] {
        let (a, b) = pair(0);
        b.set_nonblocking(true);
        b.set_filter(expression);
        a.send(1, 2);
        assert_eq!(a.inject(&tagged), 64);
        let (_, packets) = b.dispatch(-1);
        assert_eq!(numbers(&packets), expected, "{expression}");
        // It is given out as it is.
        assert!(packets.iter().all(|packet| packet.bytes.len() == 60 || packet.bytes == tagged));
    }
}

/// libpcap's program of this reads scratch memory that nothing was written to. It is 0, so nothing is
/// found beside a tunnel.
#[test]
fn filters_beside_a_tunnel_can_be_set() {
    let (a, b) = pair(0);
    b.set_filter("not geneve and not udp dst port 771");
    a.send(0, 8);
    assert_eq!(numbers(&b.dispatch(-1).1), [0, 1, 2, 3, 4, 5, 6, 7]);
}

/// The last callback of a call sends at once, as none comes behind it; packets that the callbacks
/// before send wait for it.
#[test]
fn the_last_callback_of_a_call_sends_at_once() {
    struct Bridge {
        to: Handle,
        behind: Handle,
        arrived: Vec<Vec<u8>>,
    }
    extern "C-unwind" fn forward_and_look(
        user: *mut u8,
        header: *const PacketHeader,
        bytes: *const u8,
    ) {
        // SAFETY: that is the value given.
        let bridge = unsafe { &mut *user.cast::<Bridge>() };
        forward(bridge.to.0.cast(), header, bytes);
        // By another thread: a call of this one would send the packets it holds back.
        let behind = &bridge.behind;
        let arrived = thread::scope(|scope| scope.spawn(|| behind.next_ex().1).join().unwrap());
        bridge.arrived.push(numbers(&arrived.into_iter().collect::<Vec<_>>()));
    }
    let ((a, b), (to, behind)) = (pair(0), pair(0));
    behind.set_nonblocking(true);
    let mut bridge = Bridge { to, behind, arrived: Vec::new() };
    a.send(0, 4);
    for count in [1, 3] {
        let user: *mut Bridge = &raw mut bridge;
        // SAFETY: the callback takes a bridge.
        let status = unsafe { pcap_dispatch(b.0, count, Some(forward_and_look), user.cast()) };
        assert_eq!(status, count);
    }
    assert_eq!(bridge.arrived, [vec![0], vec![], vec![], vec![1]]);
    assert_eq!(numbers(&bridge.behind.dispatch(-1).1), [2, 3]);
}

/// Packets sent in callbacks are on their way when the call returns.
#[test]
fn a_bridge_of_two_rings_passes_everything_on() {
    for batch in [1, 3, 50, 500] {
        let ((a, b), (c, d)) = (pair(0), pair(0));
        for _ in 0..5 {
            a.send(0, 100);
        }
        let mut passed = 0;
        while passed < 500 {
            // SAFETY: the callback takes a handle.
            let status = unsafe { pcap_dispatch(b.0, batch, Some(forward), c.0.cast()) };
            assert!(status > 0 && status <= batch, "{status}");
            passed += status;
            assert_eq!(d.dispatch(-1).0, status, "all that the call has sent is there");
        }
    }
}

/// Behind a call that made callbacks nothing is held back any more.
#[test]
fn sending_outside_of_callbacks_is_at_once() {
    let (a, b) = pair(10);
    a.send(0, 1);
    b.dispatch(1);
    a.send(1, 1);
    assert_eq!(numbers(&b.dispatch(-1).1), [1]);
}

#[test]
fn a_full_ring_is_waited_for_or_said() {
    let name = format!("{}?slots=8", ring());
    let (a, b) = (Handle::open(&name, 0), Handle::open(&name, 0));
    a.set_nonblocking(true);
    a.send(0, 8);
    assert_eq!(a.inject(&frame(8)), ERROR);
    assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EAGAIN));
    assert_eq!(a.error(), "send: Resource temporarily unavailable");
    a.set_nonblocking(false);
    thread::scope(|scope| {
        scope.spawn(|| a.send(100, 50));
        let mut numbers_seen = Vec::new();
        while numbers_seen.len() < 58 {
            numbers_seen.extend(numbers(&b.dispatch(-1).1));
        }
        let expected: Vec<u8> = (0..8).chain(100..150).collect();
        assert_eq!(numbers_seen, expected);
    });
}

#[test]
fn errors_of_sending_have_the_kernels_words() {
    let (a, b) = pair(0);
    assert_eq!((a.inject(&[0; 13]), a.error().as_str()), (ERROR, "send: Invalid argument"));
    assert_eq!((a.inject(&[0; 65_000]), a.error().as_str()), (ERROR, "send: Message too long"));
    // SAFETY: no byte is looked at.
    assert_eq!(unsafe { pcap_sendpacket(a.0, std::ptr::null(), 0) }, ERROR);
    drop(b);
    assert_eq!((a.inject(&frame(0)), a.error().as_str()), (ERROR, "send: Network is down"));
}

/// One thread receives, another sends by the same handle.
#[test]
fn two_threads_use_both_directions_of_a_handle() {
    let (a, b) = pair(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..100 {
                b.send(0, 50);
            }
        });
        scope.spawn(|| {
            for _ in 0..100 {
                a.send(0, 50);
            }
        });
        let received = &|handle: &Handle| handle.run_loop(5000).1.len();
        let b = &b;
        let other = scope.spawn(move || received(b));
        assert_eq!((received(&a), other.join().unwrap()), (5000, 5000));
    });
}

#[test]
fn directions_are_in_or_both_where_nothing_else_is_seen() {
    let (a, b) = pair(0);
    // SAFETY: it is open.
    unsafe {
        assert_eq!(pcap_setdirection(b.0, DIRECTION_IN), 0);
        assert_eq!(pcap_setdirection(b.0, DIRECTION_OUT), ERROR);
        assert_eq!(b.error(), "Setting direction is not supported on this device");
        assert_eq!(pcap_setdirection(b.0, 3), ERROR);
        assert_eq!(b.error(), "Invalid direction");
    }
    a.send(0, 1);
    assert_eq!(b.dispatch(-1).0, 1);
}

#[test]
fn only_the_asked_for_protocol_is_seen() {
    let name = ring();
    let a = Handle::open(&name, 0);
    let b = Handle::create(&name);
    // SAFETY: it is open.
    unsafe {
        assert_eq!(pcap_set_protocol_linux(b.0, 0x88cc), 0);
        assert_eq!(pcap_activate(b.0), 0);
    }
    let mut other = frame(9);
    other[12..14].copy_from_slice(&[0x88, 0xcc]);
    a.send(0, 2);
    assert_eq!(a.inject(&other), 60);
    assert_eq!(numbers(&b.dispatch(1).1), [9]);
}

#[test]
fn several_handles_do_not_disturb_each_other() {
    let pairs: Vec<_> = (0..10).map(|_| pair(0)).collect();
    for (number, (a, _)) in pairs.iter().enumerate() {
        a.send(number as u8, 1);
    }
    for (number, (_, b)) in pairs.iter().enumerate().rev() {
        assert_eq!(numbers(&b.dispatch(-1).1), [number as u8]);
    }
}

#[test]
#[ignore = "needs libpcap"]
fn an_error_of_opening_names_the_device() {
    let mut errbuf = [0; ERRBUF_SIZE];
    let mut open = |device: &std::ffi::CStr| {
        // SAFETY: a string, and a buffer of that size.
        let pcap = unsafe { pcap_open_live(device.as_ptr(), 100, 1, 10, errbuf.as_mut_ptr()) };
        assert!(pcap.is_null(), "{device:?}");
        text(errbuf.as_ptr())
    };
    let error = open(c"packet:nonesuch0");
    // On one line, and as libpcap says it.
    assert_eq!(error, "packet:nonesuch0: No such device exists (No such device exists)");
    let theirs = open(c"nonesuch0");
    assert_eq!(theirs, "nonesuch0: No such device exists (No such device exists)");
    let error = open(c"ring:x?slots=many");
    assert!(
        error.starts_with("ring:x?slots=many: port ring:x?slots=many: option slots"),
        "{error}"
    );
    let error = open(c"cluster:@nobody-listens-here?name=a");
    assert!(
        error.contains("No such device exists (") && error.contains("cannot connect"),
        "{error}"
    );
    let error = open(c"cluster:@x");
    assert!(error.contains("write cluster:SOCKET?name=CONSUMER"), "{error}");
}

#[test]
fn a_handle_has_no_monitor_mode() {
    let handle = Handle::create(&ring());
    // SAFETY: it is open.
    unsafe {
        assert_eq!(pcap_can_set_rfmon(handle.0), 0);
        assert_eq!(pcap_set_rfmon(handle.0, 1), 0);
        assert_eq!(pcap_activate(handle.0), ERROR_RFMON_NOTSUP);
    }
}

#[test]
#[ignore = "needs libpcap"]
fn the_end_of_a_file_ends_the_loop() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.pcap").display().to_string();
    let writer = Handle::open(&ring(), 0);
    let name = std::ffi::CString::new(file.clone()).unwrap();
    // SAFETY: a string; all arguments are used as they are meant.
    unsafe {
        let dumper = pcap_dump_open(writer.0, name.as_ptr());
        assert!(!dumper.is_null(), "{}", writer.error());
        for number in 0..3 {
            let time = libc::timeval { tv_sec: 77, tv_usec: number };
            let header = PacketHeader { time, captured: 60, length: 90 };
            pcap_dump(dumper.cast(), &raw const header, frame(number as u8).as_ptr());
        }
        assert_eq!(pcap_dump_flush(dumper), 0);
        assert_eq!(pcap_dump_ftell(dumper), 24 + 3 * 76);
        assert_eq!(pcap_dump_ftell64(dumper), 24 + 3 * 76);
        assert!(!pcap_dump_file(dumper).is_null());
        pcap_dump_close(dumper);
    }
    let reader = Handle::open(&format!("pcap:{file}"), 0);
    let (status, packets) = reader.run_loop(-1);
    assert_eq!((status, numbers(&packets)), (0, vec![0, 1, 2]));
    let last = &packets[2];
    assert_eq!((last.length, last.seconds, last.fraction), (90, 77, 2));
    assert_eq!((reader.dispatch(-1).0, reader.next_ex().0), (0, ERROR_BREAK));
    assert_eq!(reader.inject(&frame(0)), ERROR);
    assert_eq!(reader.error(), "Writing packets is not supported on this device");
    // The same file by the system's library.
    let mut errbuf = [0; ERRBUF_SIZE];
    // SAFETY: a string, and a buffer of that size.
    let theirs = Handle(unsafe { pcap_open_offline(name.as_ptr(), errbuf.as_mut_ptr()) });
    assert_eq!(theirs.dispatch(-1).1, packets);
}
