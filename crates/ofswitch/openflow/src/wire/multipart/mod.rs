//! Multipart messages: statistics, descriptions and features, in as many messages as they take.
//!
//! OpenFlow 1.0 calls them statistics. Nicira's extension has some of them for 1.0 in other forms,
//! and those of groups, which 1.0 has not; which form was asked for an answer has to have.

mod desc;
mod flows;
mod groups;
mod kind;
mod meters;
mod monitors;
mod parts;
mod ports;
mod reply;
mod request;
mod table_features;
mod tables;

pub use desc::Description;
pub use flows::{AggregateStats, FlowRequest, FlowStats};
pub use groups::{GroupDesc, GroupFeatures, GroupStats};
pub use meters::{MeterConfig, MeterFeatures, MeterStats};
pub use monitors::{
    FlowEvent, FlowMonitor, FlowMonitorCommand, FlowMonitorFlags, FlowUpdate, FlowUpdated,
};
pub use parts::Parts;
pub use ports::{EthernetErrors, PortStats, QueueStats};
pub use reply::{MultipartReply, Reply};
pub use request::{MultipartRequest, Request};
pub use table_features::{FeaturesCommand, KindId, TableFeatures, TableProperty};
pub use tables::TableStats;

use super::bytes::Reader;
use super::fault::Fault;

/// The entries of a list, up to the end.
fn list<'a, T>(
    mut reader: Reader<'a>,
    decode: impl Fn(&mut Reader<'a>) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    let mut entries = Vec::new();
    while !reader.is_empty() {
        entries.push(decode(&mut reader)?);
    }
    Ok(entries)
}
