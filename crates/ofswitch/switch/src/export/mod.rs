//! Export of flows and packets to collectors: IPFIX (RFC 7011) and sFlow version 5, over UDP.
//!
//! Entries of the fast path are no flows in the sense of these: one wildcarded entry may stand for
//! all connections there are. So where flow records are wanted, each worker keeps a table of its
//! own of connections it sees ([`Observer`]), by all packets or one of some, and gives ended flows
//! to a thread ([`Exporter`]) that writes messages; the worker never waits for it, and costs
//! nothing where nothing is exported. A connection whose packets come to several workers has a
//! record from each, which collectors add up.
//!
//! There is no transport but UDP, so a record may be lost on the way; sequence numbers show the
//! number.

mod exporter;
mod flows;
mod ipfix;
mod observer;
mod options;
mod record;
mod sflow;

pub use exporter::{ExportCounts, Exporter};
pub use ipfix::{Clock, Ipfix};
pub use observer::{Observer, PortPair};
pub use options::{ExportOptions, IpfixOptions, SflowOptions};
pub use record::{EndReason, FlowRecord, Stream, Tuple};
pub use sflow::{HEADER_BYTES, Interface, Sample, Sflow};
