//! The `linerate` program from end to end: real processes, real interfaces in network namespaces of
//! their own, and independent programs as judges.
//!
//! Tests that need root are ignored unless asked for; `cargo xtask test` runs them one at a time.
//! Run some by hand with, for example, `cargo test -p linerate --test e2e -- --ignored
//! --test-threads=1 forward`.
#![forbid(unsafe_code)]

mod adapters;
mod beside_linux;
mod capture;
mod cluster;
mod cluster_rights;
mod compare;
mod connections;
mod controllers;
mod cost;
mod ethernet;
mod faults;
mod firewall;
mod flow_switch;
mod forward;
mod generate;
mod guests;
mod host_router;
mod hostile;
mod hosts;
mod lab;
mod links;
mod memif;
mod nat;
mod nat64;
mod pcap;
mod pcap_programs;
mod rights;
mod router;
mod router6;
mod services;
mod support;
mod switch;
mod table;
mod wire;
