//! `memif:` ports: against each other, and against DPDK.

mod dpdk;
mod ours;
mod rig;
