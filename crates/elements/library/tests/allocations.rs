//! A graph that runs allocates nothing, for any number of packets and of elements and descriptors
//! to wait for.

mod common;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use common::load_text;
use linerate_graph::{Idle, Options, Router};
use linerate_memory::ArenaOptions;

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

/// Counts the allocations of this thread while a configuration runs that ends by itself.
fn allocations_of(text: &str, idle: Idle) -> u64 {
    let arena = ArenaOptions { size: 16 << 20, huge: false, ..Default::default() };
    let library = linerate_elements::library();
    let plan = load_text(text, &library).unwrap_or_else(|errors| panic!("{errors}"));
    let ports = linerate_port::Context::new(arena.create().unwrap());
    let options = Options { idle, ..Options::default() };
    let mut router = Router::new(plan, &library, ports, &options).unwrap();
    let before = ALLOCATIONS.with(Cell::get);
    router.run();
    let allocated = ALLOCATIONS.with(Cell::get) - before;
    router.close();
    allocated
}

#[test]
fn packets_cost_no_allocation() {
    let graph = |limit: u32| {
        format!(
            "InfiniteSource(LIMIT {limit}, STOP true) -> Counter -> s :: RoundRobinSwitch
                -> q :: Queue -> Unqueue -> Strip(14) -> c :: Classifier(0/45, -) -> Discard;
            s [1] -> Paint(3) -> t :: Tee -> q;
            t [1] -> m :: Meter(1000) -> Discard; m [1] -> Discard; c [1] -> Discard"
        )
    };
    let few = allocations_of(&graph(100_000), Idle::Poll);
    let many = allocations_of(&graph(1_000_000), Idle::Poll);
    assert_eq!(few, many);
}

#[test]
fn waiting_for_many_costs_no_allocation() {
    let ports: String = (0..24)
        .map(|at| format!("FromPort(ring:waiting{at}?loop) -> Null -> Counter -> Discard;\n"))
        .collect();
    let graph = |limit: u32| {
        format!("{ports} RatedSource(RATE 1000, LIMIT {limit}, STOP true) -> Null -> Discard")
    };
    let few = allocations_of(&graph(20), Idle::Block);
    let many = allocations_of(&graph(200), Idle::Block);
    // A list may have grown once more.
    assert!(many <= few + 4, "{few} for 20 sleeps, {many} for 200");
}
