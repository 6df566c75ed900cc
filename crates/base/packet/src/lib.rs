//! Header views and builders, checksums, flow keys and hashes.
//!
//! Everything here works on bytes that the caller owns: a view borrows a slice, validates it once
//! and reads or writes its fields in place; a builder writes headers into a caller's buffer.
//! Nothing allocates (the crate is `no_std`), nothing panics on outside input, and nothing is kept
//! between packets. Connections, reassembly and routing are not handled here.
//!
//! One module per protocol, each with the same skeleton: field offsets, the view, its checks,
//! getters, setters, text form, tests with literal bytes.
//!
//! ```
//! use linerate_packet::{EtherType, Ethernet, IpProtocol, Ipv4, Malformed, Udp};
//!
//! fn dns_query(frame: &[u8]) -> Result<bool, Malformed> {
//!     let ethernet = Ethernet::new_checked(frame)?;
//!     if ethernet.ether_type() != EtherType::IPV4 {
//!         return Ok(false);
//!     }
//!     let ip = Ipv4::new_checked(ethernet.payload())?;
//!     if ip.protocol() != IpProtocol::UDP || ip.is_fragment() {
//!         return Ok(false);
//!     }
//!     Ok(Udp::new_checked(ip.payload())?.dst_port() == 53)
//! }
//! # assert!(dns_query(&[0; 20]).is_ok_and(|dns| !dns));
//! ```
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod bytes;
mod error;
mod flow_hash;
mod mac;
mod numbers;

pub mod affinity;
pub mod arp;
pub mod build;
pub mod checksum;
pub mod ethernet;
pub mod flow;
pub mod icmp;
pub mod icmpv6;
pub mod ipv4;
pub mod ipv6;
pub mod ipv6_ext;
pub mod patch;
pub mod rewrite;
pub mod tcp;
pub mod toeplitz;
pub mod udp;
pub mod vlan;
pub mod vxlan;

pub use arp::Arp;
pub use error::{Fault, Header, Malformed};
pub use ethernet::Ethernet;
pub use flow::{Flow, FlowKey, FlowV4, FlowV6, NoFlow, VlanRule};
pub use icmp::Icmp;
pub use icmpv6::Icmpv6;
pub use ipv4::Ipv4;
pub use ipv6::Ipv6;
pub use mac::{MacAddr, ParseMacError};
pub use numbers::{EtherType, IpProtocol};
pub use tcp::Tcp;
pub use toeplitz::Toeplitz;
pub use udp::Udp;
pub use vlan::Vlan;
pub use vxlan::Vxlan;
