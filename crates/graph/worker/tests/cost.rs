//! Tests that the forwarding path allocates nothing and takes no lock, for any number of packets.
//!
//! Allocations are counted by an allocator that counts. Locks are counted as the instructions
//! they are made of: every lock, contended or not, is taken by an atomic read-modify-write, which
//! on x86-64 is an instruction with a LOCK prefix, or an XCHG with memory, which locks without
//! one. A child process forwards packets while its parent steps it through every instruction and
//! looks for them. System calls are counted by the tests of the command.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    sync::Arc,
    thread,
    time::Duration,
};

use linerate_memory::{Arena, ArenaOptions};
use linerate_packet::MacAddr;
use linerate_port::{Context, Port, open};
use linerate_worker::{Forwarder, Idle, Path, Rewrite, Stop};

/// The system's allocator, counting.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // Fails only while the thread ends.
    let _ = ALLOCATIONS.try_with(|allocations| allocations.set(allocations.get() + 1));
}

// SAFETY: every call goes to the system's allocator as it came, so its guarantees are ours; the
// counting neither allocates (the cell is made at compile time and has no destructor) nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: our caller keeps the same promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: our caller keeps the same promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: our caller keeps the same promises, and all blocks are the system's.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Returns the number of this thread's allocations so far.
fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

fn arena() -> Arena {
    ArenaOptions { size: 8 << 20, huge: false, ..Default::default() }.create().unwrap()
}

fn port(context: &Context, uri: &str) -> Port {
    open(&uri.parse().unwrap(), context).unwrap()
}

/// A path from one port to another.
fn path(from: &mut Port, to: &mut Port, count: u64) -> Path {
    let receive = from.queues[0].receive.take().unwrap();
    let transmit = to.queues[0].transmit.take().unwrap();
    Path::new(vec![receive], transmit, 32, Some(count))
}

/// Ways to forward between memory ports.
const WAYS: [&str; 5] = ["null", "null copied", "swap", "set", "ring"];

/// A forwarder of one of them that ends after so many packets in each direction.
fn forwarder(way: &str, count: u64) -> Forwarder {
    let context = Context::new(arena());
    let pool = context.arena.cache(512);
    let paths = match way {
        "ring" => {
            let mut a = port(&context, "ring:a?loop&seed=512");
            let mut b = port(&context, "ring:b?loop&slots=2048");
            // Crosswise: packets that `a` held come back to it.
            let there = path(&mut a, &mut b, count);
            let back = path(&mut b, &mut a, count);
            vec![there, back]
        }
        _ => {
            let source = if way == "null" { "null:" } else { "null:?copy" };
            let (mut from, mut to) = (port(&context, source), port(&context, "null:"));
            let mac = Some(MacAddr([2, 0, 0, 0, 0, 7]));
            let rewrite = match way {
                "swap" => Rewrite::Swap,
                "set" => Rewrite::Set { destination: mac, source: mac },
                _ => Rewrite::None,
            };
            vec![path(&mut from, &mut to, count).rewriting(rewrite)]
        }
    };
    Forwarder::new(paths, pool, Idle::Poll)
}

/// Allocations of a whole run, from the first packet to the closed ports.
fn allocations_of(way: &str, packets: u64) -> u64 {
    let forwarder = forwarder(way, packets);
    let usage = forwarder.usage();
    let before = allocations();
    forwarder.run(&Stop::new()).unwrap();
    let made = allocations() - before;
    assert!(usage.read().packets >= packets, "{way}: {:?}", usage.read());
    made
}

#[test]
fn a_million_packets_allocate_nothing() {
    for way in WAYS {
        // Allocates the values made once in a process.
        allocations_of(way, 32);
        let few = allocations_of(way, 32 * 32);
        let many = allocations_of(way, 32 * 32_000);
        assert_eq!(few, many, "{way}: allocations for 1,024 packets and for 1,024,000");
    }
}

/// Also when the worker sleeps and is woken for every single packet.
#[test]
fn sleeping_between_packets_allocates_nothing() {
    let run = |packets: u64| {
        let context = Context::new(arena());
        let mut near = port(&context, "ring:x");
        let mut far = port(&context, "ring:x");
        let mut to = port(&context, "null:");
        let receive = near.queues[0].receive.take().unwrap();
        let transmit = to.queues[0].transmit.take().unwrap();
        let sent = Arc::clone(transmit.counters());
        // Ended from outside: the last burst of a counted run is less frugal.
        let path = Path::new(vec![receive], transmit, 32, None);
        let forwarder = Forwarder::new(vec![path], context.arena.cache(64), Idle::Block);
        let stop = Stop::new();
        thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let before = allocations();
                forwarder.run(&stop).unwrap();
                allocations() - before
            });
            let mut pool = context.arena.cache(64);
            let mut frame = linerate_memory::Frame::new(1);
            let transmit = far.queues[0].transmit.as_mut().unwrap();
            for number in 1..=packets {
                assert_eq!(pool.take(&mut frame, 1, 60), 1);
                transmit.transmit(&mut pool, &mut frame).unwrap();
                while sent.read().packets < number {
                    thread::sleep(Duration::from_micros(50));
                }
            }
            stop.raise();
            worker.join().unwrap()
        })
    };
    run(1);
    let (few, many) = (run(100), run(1_000));
    assert_eq!(few, many, "allocations for 100 packets and for 1,000");
}

/// Counts the locking instructions of a function, by stepping through it in a child process.
#[cfg(target_arch = "x86_64")]
mod locks {
    use super::*;

    /// Returns true if the instruction that begins with these bytes locks the bus: Intel SDM,
    /// volume 2, 2.1.1 (prefixes) and XCHG.
    fn locks(code: [u8; 8]) -> bool {
        for (at, byte) in code.into_iter().enumerate() {
            match byte {
                0xf0 => return true,
                // Segment, size, repeat and REX prefixes, which may stand before it.
                0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf2 | 0xf3 | 0x40..=0x4f => {}
                // XCHG; with a register on both sides it exchanges no memory.
                0x86 | 0x87 => return code.get(at + 1).is_some_and(|&modrm| modrm < 0xc0),
                _ => return false,
            }
        }
        false
    }

    /// Locking instructions `work` executes.
    fn locks_of(work: impl FnOnce()) -> u64 {
        // SAFETY: the child only runs `work`, on the one thread it has, and ends without
        // unwinding into the test harness; glibc keeps its allocator usable across a fork.
        match unsafe { libc::fork() } {
            -1 => panic!("cannot fork: {}", std::io::Error::last_os_error()),
            0 => {
                // SAFETY: asks to be traced by the parent, stops until it steps, and stops again
                // when done; none of these calls touches our memory.
                unsafe {
                    libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
                    libc::raise(libc::SIGSTOP);
                    work();
                    libc::raise(libc::SIGSTOP);
                    libc::_exit(0)
                }
            }
            child => {
                // The child has run its own copy: this one knows nothing of it.
                std::mem::forget(work);
                step(child)
            }
        }
    }

    /// Steps the stopped child to its next stop.
    fn step(child: i32) -> u64 {
        let wait = || {
            let mut status = 0;
            // SAFETY: writes a status to the place given.
            let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!(waited, child, "{}", std::io::Error::last_os_error());
            assert!(libc::WIFSTOPPED(status), "the child ended: {status:#x}");
            libc::WSTOPSIG(status)
        };
        assert_eq!(wait(), libc::SIGSTOP);
        let mut found = 0;
        loop {
            // SAFETY: reads the registers of a stopped child into a place of their type, a word
            // of its code, and lets it do one instruction.
            unsafe {
                let mut registers: libc::user_regs_struct = std::mem::zeroed();
                libc::ptrace(libc::PTRACE_GETREGS, child, 0, &raw mut registers);
                let code = libc::ptrace(libc::PTRACE_PEEKTEXT, child, registers.rip, 0);
                found += u64::from(locks(code.to_ne_bytes()));
                libc::ptrace(libc::PTRACE_SINGLESTEP, child, 0, 0);
            }
            match wait() {
                libc::SIGTRAP => {}
                libc::SIGSTOP => break,
                signal => panic!("the child got signal {signal}"),
            }
        }
        // SAFETY: ends and reaps our own child.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
        found
    }

    #[test]
    fn instructions_that_lock_are_known() {
        // lock xadd; lock cmpxchg behind REX; xchg with memory; the same with a REX prefix.
        assert!(locks([0xf0, 0x0f, 0xc1, 0x07, 0, 0, 0, 0]));
        assert!(locks([0xf0, 0x48, 0x0f, 0xb1, 0x0f, 0, 0, 0]));
        assert!(locks([0x87, 0x07, 0, 0, 0, 0, 0, 0]));
        assert!(locks([0x48, 0x87, 0x06, 0, 0, 0, 0, 0]));
        // xchg of registers (as in `xchg ebx, eax`), mov, and F0 as an operand.
        assert!(!locks([0x87, 0xc3, 0, 0, 0, 0, 0, 0]));
        assert!(!locks([0x48, 0x89, 0xf8, 0, 0, 0, 0, 0]));
        assert!(!locks([0xb8, 0xf0, 0, 0, 0, 0, 0, 0]));
    }

    #[test]
    fn a_lock_is_found() {
        let mutex = std::sync::Mutex::new(0);
        let lock = || *mutex.lock().unwrap() += 1;
        // Taking and giving back, each a locked instruction.
        assert_eq!(locks_of(|| (0..10).for_each(|_| lock())) - locks_of(|| {}), 20);
    }

    #[test]
    fn packets_take_no_lock() {
        // Stepping is slow: the other ways differ in the bytes they write.
        for way in ["null", "ring"] {
            // Debug builds watch every buffer that is taken and given: one exchange each.
            let watched = if cfg!(debug_assertions) && way != "ring" { 2 } else { 0 };
            let run = |packets: u64| {
                let forwarder = forwarder(way, packets);
                locks_of(|| forwarder.run(&Stop::new()).unwrap()) - watched * packets
            };
            let (few, many) = (run(64), run(640));
            println!("{way}: {few} locks for 64 packets, {many} for 640");
            // The rest comes with start and end. Eighteen more bursts may not add one each, let
            // alone one for each of 576 more packets.
            assert!(many < few + 18, "{way}: {few} locks for 64 packets, {many} for 640");
        }
    }
}
