//! Changes of a packet's headers, its checksums with them.
//!
//! Headers are located by the rules of [`key::extract`](crate::key::extract()): fields that it does
//! not read are not changed. Checksums are updated incrementally: IPv4's own, those of TCP, UDP,
//! ICMP and `ICMPv6`, which are also over the addresses, and SCTP's. A checksum of UDP that is zero
//! stays so. Fragments but the first have no ports to change, and the ports of SCTP are left alone
//! in the first, too, because its checksum is over bytes that are not there.

mod buffer;
mod headers;
pub(crate) mod nsh;
pub(crate) mod sctp;
mod set;
pub(crate) mod tags;

pub use buffer::Bytes;
pub(crate) use headers::Ip;
pub(crate) use set::set;
