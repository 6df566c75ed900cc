//! An arena in several processes: members that are killed, lie, or attach to files that are no
//! arena.
#![cfg(not(any(loom, miri)))]
#![allow(missing_docs, reason = "a test program")]

mod answers;
mod files;
mod hostile;
mod isolated;
mod killed;
mod lending;
mod peer;

use linerate_memory::{
    Arena, ArenaOptions,
    shared::{Access, Member, MemberId, Server},
};

/// Buffers that a member may hold.
const CELLS: u32 = 64;

fn arena() -> Arena {
    ArenaOptions { size: 2 << 20, huge: false, ..ArenaOptions::default() }.create().unwrap()
}

/// One member in this process: the same memory, mapped twice.
fn pair(access: Access) -> (Arena, Server, MemberId, Member) {
    let arena = arena();
    let mut server = Server::new(&arena).unwrap();
    // SAFETY: the tests write to nothing that they returned.
    let (id, member) = unsafe {
        let (id, files) = server.admit(access, CELLS).unwrap();
        (id, Member::attach(files).unwrap())
    };
    (arena, server, id, member)
}
