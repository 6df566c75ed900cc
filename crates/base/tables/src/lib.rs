//! Lookup tables for forwarding: [`prefix`] finds the longest matching prefix of an address,
//! [`exact`] finds a whole key.
//!
//! Both look up many keys in a call, so that the cache misses of one overlap
//! those of the others. Tables of prefixes are changed by one writer while any
//! number of workers read, without a lock on either side; tables of exact
//! matches belong to one worker each. [`wheel`] says when entries have expired,
//! [`heap`] which of them will be the next. [`indirection`] shares flows out by their hashes.
#![forbid(unsafe_code)]

pub mod exact;
pub mod heap;
pub mod indirection;
pub mod prefix;
pub mod wheel;
