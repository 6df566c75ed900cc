//! An arena that several processes map.
//!
//! One process, the server, has the arena, its free buffers and the ports. Others, members, get
//! buffers of it by a ring each, and send or return them by another. Only the server writes the
//! holders of each buffer ([`Ledger`]); so there is nothing that a member's death could leave half
//! done, and the buffers it held are found by looking. Memory is shared with a process that could
//! write to the server's memory without it ([`PeerRights`]), and with others for reading, once it
//! is sealed against writing ([`Server::seal`]). Any other gets memory of its own and copies
//! ([`Isolated`]). The format, field by field, is in `docs/shared-memory.md`.

mod ledger;
mod ring;
mod word;

#[cfg(not(any(loom, miri)))]
mod files;
#[cfg(not(any(loom, miri)))]
mod isolated;
#[cfg(not(any(loom, miri)))]
mod member;
#[cfg(not(any(loom, miri)))]
mod peer;
#[cfg(not(any(loom, miri)))]
mod server;
#[cfg(not(any(loom, miri)))]
mod stats_segment;

#[cfg(not(any(loom, miri)))]
pub use self::{
    files::{Access, AttachError, Files},
    isolated::{Isolated, Sent},
    member::Member,
    peer::PeerRights,
    server::{AttachOffer, EnqueueResult, MemberId, PendingMember, Returned, Server, Tally, WORDS},
    stats_segment::{StatsSegment, StatsView},
};
pub use self::{
    ledger::{Ledger, MEMBERS_MAX},
    ring::{Broken, CELLS_MAX, Cells, Receiver, RingMemory, Sender},
    word::Word,
};
