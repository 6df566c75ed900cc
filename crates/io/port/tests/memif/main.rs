//! `memif:` ports: against each other, against peers that play foul, and against DPDK.

mod dpdk;
mod hostile;
mod limits;
#[path = "../peers/load.rs"]
mod load;
mod ours;
#[path = "../peers/rig.rs"]
mod rig;
mod stuck;

use linerate_test_support::{is_by_itself, testpmd};
