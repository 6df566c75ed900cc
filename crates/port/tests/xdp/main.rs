//! `xdp:` ports over veth pairs in network namespaces, against plain packet
//! sockets and the kernel's own stack.

mod forward;
mod rig;
