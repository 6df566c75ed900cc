//! Texts of flows, groups and meters: read as printed, with Open vSwitch as judge.

mod open_vswitch;
mod round;
mod wrong;
