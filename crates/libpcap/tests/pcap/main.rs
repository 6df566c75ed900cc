//! The library as programs call it.
//!
//! Semantics are tested on rings, whose two ends are two handles of this process, so nothing is
//! left to chance; beside libpcap itself, the results of a handle are compared word for word.
#![allow(missing_docs, reason = "a test program")]

mod leaving;
mod no_libpcap;
mod programs;
mod semantics;
mod support;
mod table;
mod vlans;
mod words;
