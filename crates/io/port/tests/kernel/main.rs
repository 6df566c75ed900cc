//! Ports of kernel interfaces in network namespaces of their own.

mod offloads;
mod packet;
#[allow(dead_code, reason = "the tests of `xdp:` do more with it")]
#[path = "../xdp/rig.rs"]
mod rig;
mod support;
mod tap;
