//! Packet memory: arenas, slots, frames, pools and rings.
