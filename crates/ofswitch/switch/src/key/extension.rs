//! Bits of `Ipv6Extensions`: the extension headers of a packet. Source: OpenFlow 1.3.5 section
//! 7.2.3.8.

/// Nothing follows the headers.
pub const NO_NEXT: u16 = 1 << 0;
/// An encrypted payload.
pub const ENCRYPTED: u16 = 1 << 1;
/// An authentication header.
pub const AUTHENTICATION: u16 = 1 << 2;
/// Options for the destination, once or twice.
pub const DESTINATION: u16 = 1 << 3;
/// A fragment header.
pub const FRAGMENT: u16 = 1 << 4;
/// A routing header.
pub const ROUTER: u16 = 1 << 5;
/// Options for each hop, in the first header.
pub const HOP: u16 = 1 << 6;
/// A header came more often than it should.
pub const REPEATED: u16 = 1 << 7;
/// Headers came in another order than they should.
pub const UNORDERED: u16 = 1 << 8;
