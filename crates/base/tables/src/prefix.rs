//! Longest-prefix matches of addresses.
//!
//! A [`PrefixTable`] holds the routes of one family and is changed by its owner; [`PrefixReader`]s
//! look addresses up in bursts, from any number of threads, and neither side ever waits for the
//! other. The answer is a [`NextHop`], a number that is the caller's index into a table of next
//! hops; several of them with weights can stand behind a route.
//!
//! ```
//! use std::net::Ipv4Addr;
//! use linerate_tables::prefix::{NextHop, Prefix, PrefixTable};
//!
//! let prefix = |text: [u8; 4], length| Prefix::new(Ipv4Addr::from(text).into(), length);
//! let hop = |number| NextHop::new(number).unwrap();
//!
//! let mut table = PrefixTable::<u32>::new()?;
//! table.add(prefix([10, 0, 0, 0], 8)?, hop(1))?;
//! table.add(prefix([10, 1, 0, 0], 16)?, hop(2))?;
//!
//! let reader = table.reader();
//! let addresses = [[10, 1, 2, 3], [10, 2, 3, 4], [192, 0, 2, 1]];
//! let addresses = addresses.map(|address| Ipv4Addr::from(address).into());
//! let mut hops = [NextHop::NONE; 3];
//! reader.lookup_many(&addresses, &mut hops);
//! assert_eq!(hops, [hop(2), hop(1), NextHop::NONE]);
//!
//! table.remove(prefix([10, 1, 0, 0], 16)?)?;
//! assert_eq!(reader.lookup(addresses[0]), hop(1));
//! # Ok::<(), linerate_tables::prefix::PrefixError<u32>>(())
//! ```
//!
//! # How
//!
//! The routes are kept in order (the RIB, `rib`), and beside them a structure that holds the
//! longest match of every address (the FIB, `lpm`): DIR-24-8 for IPv4 (`dir24`), a poptrie
//! for IPv6 (`poptrie`). Changes are made beside the parts that are read and become visible by one
//! store of one word; only an answer for one address of IPv4 is changed where it is, which is such
//! a store, too. The parts they replace are retired and reused later, and the rare lookup that was
//! still in it is retried ([`linerate_memory::Generation`], a seqlock). There are two such
//! structures, a double buffer: where all routes change, the one that is not read is written and
//! then takes the other's place. The default route is kept beside them, and a flag that says
//! whether there are others (`reader`): as long as there are none, lookups do not look into the
//! structure at all.
//! # Why these two
//!
//! Both were built for IPv4 and measured against each other (256 addresses per
//! call; TSC cycles per address, best of many; an EPYC of family 26 with other
//! programs running; 2 MiB pages; addresses: 65,536 inside the routes again and
//! again / all random):
//!
//! | | 1 route | 100,000 random routes of 8 to 32 bits | 1,000,000 routes of the Internet's lengths |
//! |---|---|---|---|
//! | DIR-24-8 | 5.0 / 6.5 | 12 / 9.7 | 4.4 / 6.2 |
//! | the same without prefetching the burst | 5.4 / 16 | 10 / 18 | 5.4 / 16 |
//! | poptrie, 16 bits direct | 2.3 / 2.6 | 23 / 16 | 34 / 30 |
//! | poptrie, 18 bits direct | 2.5 / 3.5 | 19 / 14 | 19 / 26 |
//! | poptrie, 20 bits direct | 3.1 / 4.1 | 15 / 12 | 23 / 25 |
//! | MiB: DIR-24-8; poptrie 16, 18, 20 | 32; 0.2, 1, 4 | 134; 5, 5, 7 | 32; 39, 18, 32 |
//! | ms to build, without the list of routes | 131; 0.3, 0.8, 2.7 | 265; 32, 40, 35 | 101; 280, 94, 193 |
//!
//! A poptrie is smaller, and faster where its first array is all there is. Otherwise
//! its steps wait for each other, while DIR-24-8 makes one access, or two, that can be
//! asked for a burst ahead. So IPv4 keeps DIR-24-8 and pays with memory, which words
//! of 16 bits halve while next hops and groups are few enough to be named by them.
//! IPv6 addresses are not decided by their first 24 bits, and a group of 256 answers
//! for each byte after these takes a gigabyte for a million routes; there the
//! poptrie's compression pays: 73 MiB for the Internet's 200,000 routes, 64 of them
//! the first array of 24 bits, which is a tenth faster than one of 20. That tenth and the
//! table's poptries were measured before there were nodes that skip.
//!
//! A block of addresses goes down the poptrie level by level, by one of two paths that is chosen at
//! each burst. Address by address, those that are not decided are moved to a list: all of them going
//! along to the deepest level, without such lists, was a sixth
//! faster where all routes are about as long, half as fast where they are not, and
//! would let a few host routes slow everything down. Where the processor has AVX-512 with VPOPCNTDQ,
//! eight addresses stay together as long as one of them is not decided (`poptrie::wide`): moving
//! them between lists took more than half of a step of eight.
//!
//! Of DIR-24-8 there is no such path. Gathers were tried (`docs/design/lookup.md`) and lose to a plain loop,
//! which waits for memory and not for instructions.
//!
//! The default route is beside the structure because in it that route is every word:
//! 10 to 50 ms to write, and 32 MiB to look into where otherwise nothing is. An address
//! without any other answer gets it in a pass of its own, where there is such a route.
//!
//! `cargo xtask bench network --only lookup` measures lookups beside DPDK's, and the cost of
//! inserting. A route of IPv6, or the first one longer than 24 bits among 256 addresses of IPv4,
//! costs a copy of the piece of the structure it is in, one to two microseconds; a shorter one a
//! word for each 256 addresses of IPv4 that it covers: 65,536 for a prefix of 8 bits. The default
//! route is one word. [`PrefixTable::load`] writes everything once. All of this is the writer's
//! time; readers wait for none of it.

mod address;
mod buddy;
mod dir24;
mod lpm;
mod next_hop;
mod poptrie;
mod reader;
mod rib;
mod table;
#[cfg(test)]
mod tests;

use std::io;

pub use address::{Address, Prefix};
pub use next_hop::NextHop;
pub use reader::PrefixReader;
pub use table::PrefixTable;

/// Reason why a table was not made or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrefixError<A: Address> {
    /// A prefix longer than an address.
    #[error("a prefix of {length} bits: addresses have {most}")]
    Length {
        /// Asked for.
        length: u8,
        /// Bits of an address.
        most: u8,
    },
    /// The prefix already has a route, or comes twice.
    #[error("{0} already has a route")]
    Exists(Prefix<A>),
    /// The prefix has no route.
    #[error("{0} has no route")]
    Absent(Prefix<A>),
    /// The structure has reached its limit.
    #[error("the table is full; give it more memory")]
    Full,
    /// A next hop stands for a set that was removed, or another table's.
    #[error("no such set of next hops")]
    NoSuchSet,
    /// Routes lead to the set.
    #[error("{routes} routes lead to the set")]
    InUse {
        /// Number of routes.
        routes: usize,
    },
    /// A set without members, with too many, or with one that cannot be.
    #[error("a set has 1 to 256 members: single next hops with weights above zero")]
    Members,
    /// The kernel has no memory.
    #[error("no memory for a table of prefixes: {0}")]
    Memory(#[from] io::Error),
}
