//! Header views and builders, checksums, flow keys and hashes.
#![forbid(unsafe_code)]
