//! `xdp:` ports over veth pairs in network namespaces, against plain packet
//! sockets and the kernel's own stack.

mod faults;
mod forward;
mod kernel;
mod rig;
