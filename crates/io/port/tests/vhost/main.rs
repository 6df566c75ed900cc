//! `vhost:` ports, against each other and DPDK's drivers and devices.

mod dpdk;
mod hostile;
mod limits;
#[path = "../peers/load.rs"]
mod load;
mod ours;
#[allow(dead_code, reason = "the tests of other ports do more with it")]
#[path = "../peers/rig.rs"]
mod rig;
mod stuck;
#[allow(dead_code, reason = "the tests of other ports do more with it")]
use linerate_test_support::{is_by_itself, testpmd};
