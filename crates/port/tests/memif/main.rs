//! `memif:` ports: against each other, against peers that play foul, and against DPDK.

mod dpdk;
mod hostile;
mod ours;
mod rig;
