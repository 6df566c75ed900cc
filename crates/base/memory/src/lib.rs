//! Packet memory: arenas, slots, frames, pools and rings.
//!
//! An [`Arena`] is one shared-memory region cut into equal buffers. A [`Slot`]
//! is the eight bytes that name one packet in it, and the only thing that moves
//! on rings and between elements; a [`Frame`] is a vector of slots. A
//! [`PoolCache`] hands buffers out and takes them back for one worker, and the
//! rings in [`ring`] carry slots between workers. Memory that a foreign process
//! may write is a [`ForeignRegion`], never an arena of ours.
//!
//! # Ownership
//!
//! A slot is neither `Copy` nor `Clone` and cannot be forged in safe code, so its holder owns the
//! packet: `&Slot` reads the bytes, `&mut Slot` writes them, moving it hands the packet on. A slot
//! that is dropped without being given back to a pool is a leak, not undefined behaviour, and shows
//! in [`Arena::accounting`].
//!
//! # Safety of this crate
//!
//! Everything here is usable from `#![forbid(unsafe_code)]`. The unsafe
//! constructors ([`Slot::from_raw`]) exist for port drivers that lend a buffer
//! to the kernel and get its name back.

mod arena;
pub mod clock;
mod compare;
mod ends;
mod error;
mod foreign;
mod frame;
mod generation;
mod lanes;
mod meta;
mod pages;
mod pool;
mod prefetch;
mod processor;
mod reserved;
pub mod ring;
pub mod shared;
mod slot;
mod split;
mod sync;
mod template;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod wide;
mod words;

pub use arena::{
    Accounting, Annotations, Arena, ArenaOptions, BUFFER_MAX, Column, HeaderBatch, HeaderCache,
    HeaderKernel, HeaderLane, HeaderLocation, LANES, Packet, PacketMut, PageKind, PreservedFields,
    WordAt, WordBase, stride_for,
};
pub use compare::equal_lanes;
pub use error::MemoryError;
pub use foreign::{ForeignBytes, ForeignError, ForeignRegion, ForeignWords, MapLimit, MapQuota};
pub use frame::{FRAME_DEFAULT, FRAME_LIMIT, Frame};
pub use generation::Generation;
pub use meta::{HeaderStart, Meta, Origin};
pub use pool::PoolCache;
pub use prefetch::{prefetch, prefetch_second};
pub use processor::{BitWork, with_bit_instructions, with_vectors};
pub use reserved::{Backing, Reserved};
pub use slot::{RawSlot, Slot};
pub use split::OutputMap;
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub use wide::{Eight, WIDE, Wide, WideWork, with_wide};
pub use words::Words;
