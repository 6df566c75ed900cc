//! Exact matches of whole keys: flows, MAC addresses, neighbours, datagrams being reassembled.
//!
//! [`Table`] is the table; [`Expiring`] is a table whose entries have deadlines. Both are owned by
//! one worker, which alone reads and writes them: no operation takes a lock or an atomic
//! instruction.
//!
//! # Layout
//!
//! Two arrays. The *index* leads from a hash to the number of an entry: buckets of one cache line
//! with seven pairs of a 32-bit hash and a number. The *records* (`rte_hash`'s key slots) hold key
//! and value side by side, and an entry stays in its record for as long as it lives. So a lookup that finds its key touches two
//! lines, the second of which is the state the caller is after; the number of an entry
//! ([`Entry`]) is a name for it that stays valid until it is removed, which is what a wheel of
//! deadlines, a peer entry or an array beside the table needs.
//!
//! Choose the value so that key and value together take 16, 32 or a multiple of 64 bytes: records of
//! such sizes begin at a cache line or never cross one. Values with a niche (a `NonZero`, a
//! reference, a `bool`) cost nothing beside their own size; others a word more.
//!
//! # Cost
//!
//! No operation's work depends on the number of entries or on their keys:
//!
//! | operation | index lines | records |
//! |---|---|---|
//! | lookup of a key that is there | 1, for some 3 % of keys 2 | 1 |
//! | lookup of one that is not | 1, for some 10 % 2 | 0 |
//! | insertion | the lookup, and 1 to 16, and 8 while the index is being doubled | 1 |
//! | removal | 1 or 2 | 1 |
//!
//! Growing is part of insertions, four buckets at a time, and moves no entry: there is no pause. With
//! [`Backing::OnDemand`] an insertion may meet the page fault of a new 4 KiB page; with
//! [`Backing::Ready`] nothing does.
//!
//! # Attacks
//!
//! The hash is keyed by 512 random bits of each table ([`Seed`]). Whoever does not know them cannot
//! choose keys that collide; and if somebody could, the fifteenth key with the same hash is refused
//! ([`Refusal::Crowded`]) rather than making anything slower. A table has a limit, refuses at it
//! ([`Refusal::Full`]) or, asked by [`Expiring::insert_evicting`], lets the entry go that would have
//! expired next. Addresses are reserved for the limit when the table is made.
//!
//! # Several workers
//!
//! - *State of flows* (NAT, reassembly, flow accounting) is sharded: packets of a flow come to one
//!   worker, by the network card's or our own flow hash, and each worker has a table of its own.
//! - *What all read and few packets change* (learnt MAC addresses, neighbours) is replicated: each
//!   worker has a copy, and whoever learns something new tells the others through their mailboxes,
//!   which they read between rounds. An address that is where it was known to be tells nobody.
//!
//! So nothing here is shared, and lookups pay for no synchronisation.

mod expiring;
mod index;
mod key;
mod table;
#[cfg(test)]
mod tests;

pub use expiring::Expiring;
pub use key::{Key, Seed};
pub use linerate_memory::Backing;
pub use table::{Entry, Table};

/// Why a key was not taken. The table is as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// As many entries as the table's limit.
    #[error("the table is at its limit")]
    Full,
    /// Both places this key may be in, and all that could be moved elsewhere, are taken. With a seed
    /// that nobody knows this does not happen.
    #[error("too many keys with the same hash")]
    Crowded,
}
