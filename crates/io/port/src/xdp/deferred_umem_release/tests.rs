//! Tests with a completion ring and a queue whose kernel they play.

use std::{fs::File, sync::Arc, sync::atomic::AtomicU32};

use linerate_memory::ArenaOptions;

use super::{super::rings::fake, *};

/// A queue that is free when the test says so.
#[derive(Clone, Default)]
struct Queue {
    free: Arc<AtomicBool>,
    looks: Arc<AtomicU32>,
}

impl QueueWatch for Queue {
    fn is_free(&mut self) -> bool {
        self.looks.fetch_add(1, Ordering::Relaxed);
        self.free.load(Ordering::Relaxed)
    }
}

fn arena() -> Arena {
    ArenaOptions { size: 16 << 20, huge: false, ..Default::default() }.create().unwrap()
}

fn queue_id(queue: u32) -> QueueId {
    QueueId { namespace: Some((1, 2)), interface: 3, queue }
}

/// Hands so many buffers to the kernel; their addresses.
fn hand_over(arena: &Arena, owned: &mut KernelOwned, count: usize) -> Vec<u64> {
    let mut pool = arena.cache(0);
    let mut one = || owned.hand_over(arena, pool.take_one(60).unwrap()).unwrap();
    (0..count).map(|_| one()).collect()
}

/// A port's socket, closed with so many buffers waiting for packets and so many
/// sent, of which the last `unsent` have not been taken.
struct Closed {
    socket: LingeringSocket,
    queue: Queue,
    kernel: fake::Kernel,
    sent: Vec<u64>,
}

fn close(arena: &Arena, zero_copy: bool, waiting: usize, sent: usize, unsent: usize) -> Closed {
    let (mut fill, mut owned) = (KernelOwned::new(arena), KernelOwned::new(arena));
    hand_over(arena, &mut fill, waiting);
    let sent = hand_over(arena, &mut owned, sent);
    let (completion, kernel) = fake::completion(2048);
    let outstanding =
        vec![Outstanding::Receive(fill), Outstanding::Transmit { owned, completion, unsent }];
    let (queue, arena) = (Queue::default(), arena.clone());
    let socket = File::open("/dev/null").unwrap().into();
    let watch = Box::new(queue.clone());
    let id = queue_id(0);
    let socket = LingeringSocket::watched_by(watch, arena, socket, outstanding, zero_copy, id);
    Closed { socket, queue, kernel, sent }
}

impl Closed {
    fn release(&mut self) -> bool {
        self.socket.next_look = Instant::now();
        self.socket.release()
    }
}

/// As many as a port takes by default of an arena of 16 MiB: were they lost, the
/// fifth time would find none.
#[test]
fn a_zero_copy_queue_that_comes_and_goes_leaves_nothing_with_the_kernel() {
    let arena = arena();
    for flap in 0..50 {
        let mut closed = close(&arena, true, 1923, 100, 60);
        assert!(!closed.release() && !closed.release());
        assert_eq!(arena.accounting().held, 2023, "the device may still use them");
        assert!(closed.socket.socket.is_none(), "it is not told to stop");
        match flap % 2 {
            // Tried, or found out by opening the port again.
            0 => closed.queue.free.store(true, Ordering::Relaxed),
            _ => closed.socket.queue_was_free(&queue_id(0)),
        }
        assert!(closed.release());
        assert_eq!(arena.accounting().held, 0);
    }
}

#[test]
fn another_queue_that_is_free_says_nothing() {
    let arena = arena();
    let mut closed = close(&arena, true, 5, 0, 0);
    assert!(!closed.release());
    for other in [queue_id(1), QueueId { namespace: Some((1, 3)), ..queue_id(0) }] {
        closed.socket.queue_was_free(&other);
    }
    let unknown = QueueId { namespace: None, ..queue_id(0) };
    closed.socket.queue = unknown.clone();
    closed.socket.queue_was_free(&unknown);
    assert!(!closed.release());
    assert_eq!(arena.accounting().held, 5);
}

#[test]
fn a_copied_packet_keeps_its_buffer_until_it_has_been_sent() {
    let arena = arena();
    let mut closed = close(&arena, false, 30, 8, 0);
    assert!(!closed.release());
    assert_eq!(arena.accounting().held, 38);
    // Others could bind only to a queue that ours has left.
    closed.socket.queue_was_free(&queue_id(0));
    for (completed, addresses) in closed.sent.clone().chunks(3).enumerate() {
        assert_eq!(arena.accounting().held, 38 - 3 * completed);
        assert!(closed.socket.socket.is_some(), "nothing completes when it is closed");
        closed.kernel.complete(addresses);
        assert_eq!(closed.release(), completed == 2);
    }
    // Those that waited for packets are home as soon as the socket is closed.
    assert_eq!(arena.accounting().held, 0);
    assert_eq!(closed.queue.looks.load(Ordering::Relaxed), 0);
}

#[test]
fn unsent_buffers_may_be_under_way_until_the_queue_is_free() {
    let arena = arena();
    let mut closed = close(&arena, false, 30, 8, 5);
    assert!(!closed.release());
    closed.kernel.complete(&closed.sent[..3]);
    assert!(!closed.release());
    assert!(closed.socket.socket.is_none());
    assert_eq!(arena.accounting().held, 5);
    closed.queue.free.store(true, Ordering::Relaxed);
    assert!(closed.release());
    assert_eq!(arena.accounting().held, 0);
}

#[test]
fn a_queue_is_not_asked_about_all_the_time() {
    let arena = arena();
    let mut closed = close(&arena, true, 1, 0, 0);
    for _ in 0..1000 {
        assert!(!closed.socket.release());
    }
    assert!(closed.queue.looks.load(Ordering::Relaxed) < 100);
    closed.socket.queue_was_free(&queue_id(0));
    assert!(closed.socket.release(), "when it is known nobody need ask");
}
