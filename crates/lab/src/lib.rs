//! Measurement: traffic generator and analysing sink.
#![forbid(unsafe_code)]
