//! Support for elements: code that the elements of the library share, and new ones can use.
//!
//! Places of annotations in a packet's metadata, helpers for headers, values that are written to
//! handlers, rates and averages.
#![forbid(unsafe_code)]

pub mod address6;
pub mod annotation_byte;
pub mod annotations;
pub mod average;
pub mod burst;
pub mod call;
pub mod check_failures;
pub mod drops;
pub mod ether;
pub mod fmt_g;
pub mod handler_values;
pub mod headroom;
pub mod icmp_names;
pub mod ip;
pub mod ip_encap;
pub mod limit;
pub mod links;
pub mod log_once;
pub mod mac_header;
pub mod output;
pub mod ping;
pub mod random;
pub mod rate;
pub mod routes;
pub mod run_end;
pub mod template;
pub mod tickets;
pub mod udp_encap;
