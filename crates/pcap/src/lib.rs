//! libpcap's interface on Linerate's ports: a shared library that takes libpcap's place.

pub mod bpf;
