//! Tables that say where a packet goes: [`prefix`] finds the longest matching
//! prefix of an address, [`exact`] finds a whole key.
//!
//! Both look up many keys in a call, so that the cache misses of one overlap
//! those of the others, and both are changed by one writer while any number of
//! workers read, without a lock on either side.
#![forbid(unsafe_code)]

pub mod exact;
pub mod prefix;
