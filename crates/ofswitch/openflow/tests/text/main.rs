//! Texts of flows, groups and meters: read as printed, with Open vSwitch as judge.

mod open_vswitch;
#[path = "../random/mod.rs"]
mod random;
mod round;
mod wrong;
