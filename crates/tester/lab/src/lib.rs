//! Measurement: a traffic generator, a sink that analyses arriving frames, and searches for the
//! limits of a device.
//!
//! The [`Generator`] makes frames after a [`Traffic`] description at a [`Schedule`], marks each
//! with a [`Signature`] (a sequence number and a time), and counts the frames that were intended,
//! offered and accepted. The [`Sink`] finds loss, duplication, reordering and latency from the
//! signatures. [`trials::Tester`] is both in one loop, for one trial after the other; [`search`]
//! decides which trial comes next, and [`procedures`] are the benchmarks made of them.
//! [`connections`] load devices that look at more than packets: clients and servers of TCP,
//! thousands of them.
//!
//! A [`point`] is one measurement of this machine that can be repeated; [`measure`] carries it out
//! with [`instruments`], and a [`store`] keeps its record. An [`experiment`] is many of them, which
//! the [`runner`] measures. Results are judged by [`criteria`] that any machine must meet, and go
//! into a [`calibration`] of the cost model, a [`report`], and a [`plan`] for a configuration.
//! [`compare`] measures forwarders of other projects beside ours.
#![forbid(unsafe_code)]

pub mod calibration;
mod clock;
pub mod compare;
pub mod connections;
pub mod criteria;
pub mod experiment;
mod generate;
mod generator_control;
pub mod instruments;
pub mod machine;
pub mod measure;
mod noise_filter;
mod notation;
mod packet_trace;
pub mod plan;
pub mod point;
pub mod procedures;
mod rate;
pub mod report;
pub mod runner;
mod rx_queues;
pub mod search;
mod sequence;
mod signature;
mod sink;
mod sizes;
mod stand_in;
pub mod store;
mod traffic;
pub mod trials;
mod tx_queue;
mod values;

pub use clock::now;
pub use generate::Generator;
pub use generator_control::{Change, GeneratorControl};
pub use notation::Unit;
pub use rate::{LINE_OVERHEAD, Pattern, Rate, Schedule};
pub use rx_queues::{Arrivals, Latency};
pub use sequence::{Sequence, SequenceCounts};
pub use signature::{SIGNATURE_LEN, Signature};
pub use sink::{Sink, SinkReader};
pub use sizes::{FCS, IMIX, Sizes};
pub use traffic::{FrameMaker, Frames, Mix, Order, Protocol, Traffic, TrafficError, Variation};
pub use tx_queue::{Progress, ProgressReader};
pub use values::Values;
