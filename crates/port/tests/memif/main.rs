//! `memif:` ports against each other.

mod ours;
mod rig;
