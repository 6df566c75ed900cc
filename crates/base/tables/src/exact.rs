//! Exact-match tables of whole keys: flows, MAC addresses, neighbours, datagrams being reassembled.
//!
//! [`Table`] is the table; [`Expiring`] is a table whose entries have deadlines. The writer has it
//! alone, as Rust has it: no operation takes a lock or an atomic instruction.
//!
//! # Layout
//!
//! Two arrays. The *index* leads from a hash to the number of an entry: buckets of one cache line
//! with eight pairs of a 32-bit hash and a number. The *records* (`rte_hash`'s key slots) hold key
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
//! | lookup of a key that is there | 1, for some 1 % of keys 2 | 1 |
//! | lookup of one that is not | 1, for some 4 % 2 | 0 |
//! | insertion | the lookup, and 1 to 16, and 8 while the index is being doubled | 1 |
//! | removal | 1 or 2 | 1 |
//!
//! Growing is part of insertions, four buckets at a time, and moves no entry: there is no pause. With
//! [`Backing::OnDemand`] an insertion may meet the page fault of a new 4 KiB page; with
//! [`Backing::Ready`] nothing does.
//!
//! # Why this layout
//!
//! Three were built and measured with 16-byte keys, all present, bursts of 32 / 64, cycles per
//! key (AMD EPYC, Zen 5, TSC 2.6 GHz, two virtual cores, **other programs running**; lowest of the
//! samples, prototypes at a fill of 65 %, groups at theirs):
//!
//! | layout | 64 k | 1 M | 4 M | 4 M and 64 bytes of state, bursts of 256 |
//! |---|---|---|---|---|
//! | cuckoo buckets of hash and number, entries beside (fill 80 % for the state) | 14 / 13 | 49 / 31 | 56 / 36 | **40** |
//! | cuckoo buckets with three keys inside | 13 / 12 | 38 / 26 | 43 / 29 | 45 |
//! | groups of 16 one-byte tags, keys in an array beside | 12 / 13 | 42 / 40 | 53 / 50 | 65 |
//! | `rte_hash` bulk lookup | 33 / 30 | 49 / 36 | 55 / 39 | |
//!
//! Keys inside the bucket win when nothing but the lookup counts. But every user has state behind
//! its key, and then it is a line more; entries beside the index have their state with the key. They
//! also stay where they are, so a number names an entry for its life, which the wheel of deadlines,
//! evicting and a flow's other direction need; and keys of 40 bytes fit.
//!
//! The index is doubled by linear hashing, in four splits per insertion once begun. Splitting only
//! as many buckets as the entries need was tried and is wrong: those whose turn comes last have
//! twice the others' entries, and one table in six of 4 million random keys refused one. No array is
//! ever copied: their addresses are reserved for the limit ([`linerate_memory::Reserved`]), and
//! memory is taken then or on demand.
//!
//! `cargo xtask bench network --only exact-match --repetitions 3 --ms 150`, same machine, **busy**,
//! ratio to `rte_hash` at bursts of 32 / 64: 0.51 / 0.54 with 1 k keys, 0.46 / 0.50 with 64 k,
//! **1.05 / 1.06 with 1 M**, 0.89 / 0.89 with 4 M; keys added at 0.45 to 0.60 of its cost. With a
//! million, our index (16 MiB) and its (8 MiB) differ by what the last cache can hold.
//! On Sapphire Rapids, quiet, best / median: 0.94 / 0.90 and 0.83 / 0.76 with 1 M, 0.92 / 0.81 and 0.86 / 0.82 with 4 M
//! (`docs/design/lookup.md`).
//!
//! Few keys, and tables of up to a thousand entries, are looked up one after the other: 20 instead of 41
//! cycles for a single key, 16.6 instead of 17.0 at bursts of 32 with 1,000 entries (`linerate-bench exact`,
//! 16-byte keys, Zen 4, best of five in turns); with 4,000 entries bursts would lose 2 %. There a key that is
//! the one before it, as in a train of packets, is not looked up again.
//!
//! Of 4 million insertions into a growing table with its memory present, 99.99 % took below 2.6 us;
//! with memory on demand 8 to 113 us, the kernel's page faults among it. The rest is the machine's:
//! `linerate-bench exact --pauses` times doing nothing beside it, and saw up to 200 ms.
//!
//! # Attacks
//!
//! The hash is keyed by 512 random bits of each table ([`Seed`]). A sender that does not know them
//! cannot choose keys that collide; and if one could, the seventeenth key with the same hash is
//! refused ([`Refusal::BucketsFull`]) rather than making anything slower. A table has a limit,
//! refuses at it ([`Refusal::Full`]) or, asked by [`Expiring::insert_evicting`], evicts the entry
//! that would have expired next. Addresses are reserved for the limit when the table is made.
//!
//! # Several workers
//!
//! - *State of flows* (reassembly, flow accounting) is sharded: packets of a flow come to one
//!   worker, by the network card's or our own flow hash, and each worker has a table of its own.
//!   The directions of a translated flow (NAT) come to different ones, so its table is shared and
//!   lookups hold a lock of readers; parts of an entry that packets change are then atomic.
//! - *Entries that all read and few packets change* (learnt MAC addresses, neighbours) are
//!   replicated: each worker has a copy, and a worker that learns something new sends it to the
//!   others through their mailboxes, which they read between rounds. An unchanged address is not
//!   sent.
//!
//! So the table itself knows of no other worker, and lookups pay for no synchronisation.

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

/// Reason why a key was not taken. The table is as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// As many entries as the table's limit.
    #[error("the table is at its limit")]
    Full,
    /// Both places this key may be in, and all that could be moved elsewhere, are taken. With a
    /// secret seed this does not happen.
    #[error("too many keys with the same hash")]
    BucketsFull,
}
