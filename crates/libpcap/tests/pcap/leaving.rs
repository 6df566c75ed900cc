//! Early ends of a call: broken off, unwound, cancelled, left by a jump or by fork; and statistics
//! read meanwhile.

use std::{
    ffi::{c_int, c_void},
    panic::{self, AssertUnwindSafe},
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering},
    thread,
};

use linerate_pcap::{abi::*, exports::*};
use linerate_test_support::{await_waiting, require, thread_number};

use crate::{
    support::{Handle, forward, frame, numbers, pair, ring},
    table::library,
};

/// A callback sends into a full ring: a handle that does not wait, or is told to break off, comes
/// back, and nothing is lost or twice.
#[test]
fn a_bridge_into_a_full_ring_can_be_left() {
    for is_broken in [false, true] {
        let (a, b) = pair(0);
        let name = format!("{}?slots=64", ring());
        let (c, d) = (Handle::open(&name, 0), Handle::open(&name, 0));
        c.set_nonblocking(true);
        let full = (0..).take_while(|_| c.inject(&frame(1)) == 60).count();
        c.set_nonblocking(false);
        d.set_nonblocking(true);
        a.send(0, 10);
        b.set_nonblocking(!is_broken);
        // SAFETY: the callback takes a handle.
        let dispatch = || unsafe { pcap_dispatch(b.0, -1, Some(forward), c.0.cast()) };
        let caller = thread_number();
        thread::scope(|scope| {
            if is_broken {
                scope.spawn(|| {
                    await_waiting(caller);
                    b.break_loop();
                });
            }
            let status = dispatch();
            assert!(status == 10 || is_broken && status == ERROR_BREAK, "{status}");
        });
        // It goes when there is place, with the next call that reads.
        let arrived = [d.dispatch(-1).1, d.dispatch(-1).1].concat();
        let expected = std::iter::repeat_n(1, full).chain(0..10);
        assert_eq!(numbers(&arrived), expected.collect::<Vec<u8>>());
    }
}

/// Handlers that exit(3) calls come behind a thread's variables.
#[test]
fn a_handle_may_be_used_and_closed_when_a_thread_ends() {
    struct Late(Handle, Handle);
    impl Drop for Late {
        fn drop(&mut self) {
            self.0.send(3, 2);
            self.1.set_nonblocking(true);
            assert_eq!(self.1.dispatch(-1).0, 2);
        }
    }
    thread_local! {
        static LATE: std::cell::RefCell<Option<Late>> = const { std::cell::RefCell::new(None) };
    }
    let ended = thread::spawn(|| {
        // Before ours has any of its own, which go first therefore.
        LATE.with_borrow_mut(|late| assert!(late.is_none()));
        let (a, b) = pair(0);
        a.send(1, 2);
        assert_eq!(b.dispatch(2).0, 2);
        LATE.set(Some(Late(a, b)));
    });
    ended.join().unwrap();
}

/// As exceptions of C++ are, and the ends of threads.
#[test]
fn a_callback_may_unwind() {
    extern "C-unwind" fn forward_three(
        user: *mut u8,
        header: *const PacketHeader,
        bytes: *const u8,
    ) {
        forward(user, header, bytes);
        // SAFETY: it was just given.
        let packet = unsafe { crate::support::Packet::from_raw(header, bytes) };
        if numbers(&[packet]) == [2] {
            panic::resume_unwind(Box::new("three"));
        }
    }
    let ((a, b), (c, d)) = (pair(0), pair(0));
    a.send(0, 10);
    // SAFETY: the callback takes a handle.
    let dispatch = || unsafe { pcap_dispatch(b.0, -1, Some(forward_three), c.0.cast()) };
    assert!(panic::catch_unwind(AssertUnwindSafe(dispatch)).is_err());
    assert_eq!(numbers(&d.dispatch(-1).1), [0, 1, 2], "what was sent is on its way");
    assert_eq!(numbers(&b.dispatch(-1).1), [3, 4, 5, 6, 7, 8, 9]);
    // Nothing is held back any more.
    c.send(7, 1);
    assert_eq!(numbers(&d.dispatch(-1).1), [7]);
}

/// A thread that is cancelled ends where libpcap waits.
#[test]
fn a_thread_that_waits_can_be_cancelled() {
    unsafe extern "C" {
        fn pthread_create(
            thread: *mut libc::pthread_t,
            attributes: *const c_void,
            run: extern "C-unwind" fn(*mut c_void) -> *mut c_void,
            argument: *mut c_void,
        ) -> c_int;
        fn pthread_cancel(thread: libc::pthread_t) -> c_int;
    }
    /// The thread's number, once it runs.
    static STARTED: AtomicI32 = AtomicI32::new(0);
    extern "C-unwind" fn wait(pcap: *mut c_void) -> *mut c_void {
        STARTED.store(thread_number(), Ordering::Relaxed);
        // SAFETY: the handle is given, and nothing is called back that takes a user.
        unsafe { pcap_loop(pcap.cast(), -1, None, std::ptr::null_mut()) };
        std::ptr::null_mut()
    }
    let (a, b) = pair(0);
    let mut thread = 0;
    let mut result = std::ptr::null_mut();
    // SAFETY: the thread is made with a handle that outlives it, and ends here.
    unsafe {
        assert_eq!(pthread_create(&raw mut thread, std::ptr::null(), wait, b.0.cast()), 0);
        while STARTED.load(Ordering::Relaxed) == 0 {
            thread::yield_now();
        }
        await_waiting(STARTED.load(Ordering::Relaxed));
        assert_eq!(pthread_cancel(thread), 0);
        assert_eq!(libc::pthread_join(thread, &raw mut result), 0);
    }
    // `PTHREAD_CANCELED`.
    assert_eq!(result.addr(), usize::MAX);
    a.send(3, 1);
    assert_eq!(numbers(&b.dispatch(-1).1), [3], "the handle goes on");
}

/// A program in C with the library, in a folder.
fn compiled(name: &str, folder: &Path) -> Command {
    let program = folder.join(name);
    let links = folder.join("libpcap.so.0.8");
    std::os::unix::fs::symlink(library(), &links).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/pcap/{name}.c"));
    let mut compile = Command::new(require("gcc"));
    compile.arg("-O1").arg("-o").arg(&program).arg(source).arg(&links);
    assert!(compile.status().unwrap().success());
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", folder);
    command
}

/// Packets of a callback that is left by longjmp(3) go with the next call of any kind. A child
/// leaves the helpers of its parent alone.
#[test]
fn a_callback_may_be_left_by_a_jump_and_a_process_by_fork() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = compiled("leave", folder.path());
    let program = command.get_program().to_owned();
    command.arg("fork").arg(format!("memif:{}/nobody?wait=0", folder.path().display()));
    let output = command.output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    for way in ["send", "send-deep", "read", "close"] {
        let mut command = Command::new(&program);
        let output = command.arg(way).env("LD_LIBRARY_PATH", folder.path()).output().unwrap();
        assert!(output.status.success(), "{way}: {output:?}");
    }
}

/// A handle is made to wait or not at any time, which fails where libpcap's fails.
#[test]
fn a_handle_is_told_whether_to_wait() {
    let folder = tempfile::tempdir().unwrap();
    let output = compiled("waiting", folder.path()).arg("ring:x").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let words = "Could not open eventfd: Too many open files";
    assert!(output.status.success(), "{output:?}");
    assert_eq!(said, format!("-1 {words}\n{words} 1\n"));
}

/// Statistics are read by another thread, in a callback and by a handler of a signal.
#[test]
fn statistics_are_for_everybody() {
    static ASKED: AtomicPtr<Pcap> = AtomicPtr::new(std::ptr::null_mut());
    extern "C" fn ask(_: c_int) {
        let mut statistics = Statistics::default();
        // SAFETY: it is open as long as the handler is there.
        unsafe {
            assert_eq!(pcap_stats(ASKED.load(Ordering::Relaxed), &raw mut statistics), 0);
        }
    }
    extern "C-unwind" fn ask_and_count(user: *mut u8, _: *const PacketHeader, _: *const u8) {
        ask(0);
        // SAFETY: a number is given.
        unsafe { *user.cast::<usize>() += 1 };
    }
    const COUNT: usize = 20_000;
    let (a, b) = pair(0);
    ASKED.store(b.0, Ordering::Relaxed);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        // SAFETY: the handler calls functions allowed in one.
        let reading = unsafe {
            libc::signal(libc::SIGUSR1, ask as *const () as libc::sighandler_t);
            libc::pthread_self()
        };
        let done = &done;
        scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                ask(0);
                // SAFETY: the thread waits for this one.
                unsafe { libc::pthread_kill(reading, libc::SIGUSR1) };
                thread::yield_now();
            }
        });
        scope.spawn(|| (0..COUNT / 200).for_each(|_| a.send(0, 200)));
        let mut seen = 0usize;
        while seen < COUNT {
            let user: *mut usize = &raw mut seen;
            // SAFETY: the callback takes a number.
            let status = unsafe { pcap_dispatch(b.0, -1, Some(ask_and_count), user.cast()) };
            assert!(status >= 0);
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(b.statistics().received as usize, COUNT);
    // SAFETY: the former action.
    unsafe { libc::signal(libc::SIGUSR1, libc::SIG_IGN) };
}
