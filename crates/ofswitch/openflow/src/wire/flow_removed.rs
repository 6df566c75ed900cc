//! Flow-removed messages.

use super::bytes::{Reader, Writer};
use super::elapsed::Elapsed;
use super::fault::Fault;
use super::matching::{Dialect, Match};
use super::numbered::numbered;
use super::oxs::{self, Statistics};
use super::standard;
use super::unencodable::Unencodable;
use super::version::Version;

numbered! {
    /// Reason of a flow's removal.
    pub enum FlowRemovedReason: u8 {
        /// No packet came for its idle time-out.
        IdleTimeout = 0,
        /// Its hard time-out passed.
        HardTimeout = 1,
        /// It was deleted.
        Delete = 2,
        /// Its group was deleted (OpenFlow 1.3 and later; a deletion in 1.0).
        GroupDelete = 3,
        /// Its meter was deleted (OpenFlow 1.4 and later; a deletion before).
        MeterDelete = 4,
        /// Another took its place in a full table (OpenFlow 1.4 and later; a deletion before).
        Eviction = 5,
    }
}

/// A removed flow, with its statistics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowRemoved {
    /// Its cookie.
    pub cookie: u64,
    /// Its priority.
    pub priority: u16,
    /// Reason of the removal.
    pub reason: FlowRemovedReason,
    /// Its table; OpenFlow 1.0 lacks it.
    pub table: u8,
    /// Time it existed.
    pub duration: Elapsed,
    /// Its idle time-out, in seconds.
    pub idle_timeout: u16,
    /// Its hard time-out, in seconds; OpenFlow 1.0 lacks it.
    pub hard_timeout: u16,
    /// Packets that matched.
    pub packets: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Its match.
    pub matching: Match,
}

/// Returns the last reason that a version defines.
fn last_reason(version: Version) -> FlowRemovedReason {
    match version {
        Version::V10 => FlowRemovedReason::Delete,
        Version::V13 => FlowRemovedReason::GroupDelete,
        _ => FlowRemovedReason::Eviction,
    }
}

fn parse_reason(number: u8, version: Version) -> Result<FlowRemovedReason, Fault> {
    let reason = FlowRemovedReason::from_number(number);
    reason.filter(|reason| *reason <= last_reason(version)).ok_or(Fault::BadReason)
}

impl FlowRemoved {
    pub(crate) fn decode(mut reader: Reader<'_>, version: Version) -> Result<FlowRemoved, Fault> {
        let removed = match version {
            Version::V10 => {
                let matching = standard::decode(&mut reader)?;
                let (cookie, priority) = (reader.u64()?, reader.u16()?);
                let reason = parse_reason(reader.u8()?, version)?;
                reader.skip(1)?;
                let duration = Elapsed::decode(&mut reader)?;
                let idle_timeout = reader.u16()?;
                reader.skip(2)?;
                let (packets, bytes) = (reader.u64()?, reader.u64()?);
                FlowRemoved {
                    cookie,
                    priority,
                    reason,
                    table: 0,
                    duration,
                    idle_timeout,
                    hard_timeout: 0,
                    packets,
                    bytes,
                    matching,
                }
            }
            Version::V13 | Version::V14 => {
                let (cookie, priority) = (reader.u64()?, reader.u16()?);
                let (reason, table) = (parse_reason(reader.u8()?, version)?, reader.u8()?);
                let duration = Elapsed::decode(&mut reader)?;
                let (idle_timeout, hard_timeout) = (reader.u16()?, reader.u16()?);
                let (packets, bytes) = (reader.u64()?, reader.u64()?);
                let matching = Match::decode(&mut reader)?;
                FlowRemoved {
                    cookie,
                    priority,
                    reason,
                    table,
                    duration,
                    idle_timeout,
                    hard_timeout,
                    packets,
                    bytes,
                    matching,
                }
            }
            Version::V15 => {
                let (table, reason) = (reader.u8()?, parse_reason(reader.u8()?, version)?);
                let priority = reader.u16()?;
                let (idle_timeout, hard_timeout) = (reader.u16()?, reader.u16()?);
                let cookie = reader.u64()?;
                let matching = Match::decode(&mut reader)?;
                let statistics = oxs::decode(&mut reader)?;
                FlowRemoved {
                    cookie,
                    priority,
                    reason,
                    table,
                    duration: statistics.duration.unwrap_or_default(),
                    idle_timeout,
                    hard_timeout,
                    packets: statistics.packets.unwrap_or_default(),
                    bytes: statistics.bytes.unwrap_or_default(),
                    matching,
                }
            }
        };
        reader.finish()?;
        Ok(removed)
    }

    /// Reads Nicira's message, which is the same in all versions of OpenFlow.
    pub(crate) fn decode_nicira(mut reader: Reader<'_>) -> Result<FlowRemoved, Fault> {
        let version = Version::V10;
        let (cookie, priority) = (reader.u64()?, reader.u16()?);
        // On the wire 0 is no table, and table numbers are one higher.
        let (reason, table) =
            (parse_reason(reader.u8()?, version)?, reader.u8()?.saturating_sub(1));
        let duration = Elapsed::decode(&mut reader)?;
        let idle_timeout = reader.u16()?;
        let length = reader.u16()?;
        let (packets, bytes) = (reader.u64()?, reader.u64()?);
        let matching = Match::decode_nxm(&mut reader, length, Dialect::Flow)?;
        reader.finish()?;
        Ok(FlowRemoved {
            cookie,
            priority,
            reason,
            table,
            duration,
            idle_timeout,
            hard_timeout: 0,
            packets,
            bytes,
            matching,
        })
    }

    /// Returns the reason's number in a version; a deletion where the version lacks the reason.
    fn reason_in(&self, version: Version) -> u8 {
        let known = self.reason <= last_reason(version);
        if known { self.reason.number() } else { FlowRemovedReason::Delete.number() }
    }

    pub(crate) fn encode(&self, version: Version, out: &mut Writer) -> Result<(), Unencodable> {
        let reason = self.reason_in(version);
        match version {
            Version::V10 => {
                standard::encode(&self.matching, out)?;
                out.u64(self.cookie);
                out.u16(self.priority);
                out.u8(reason);
                out.zeros(1);
                self.duration.encode(out);
                out.u16(self.idle_timeout);
                out.zeros(2);
                out.u64(self.packets);
                out.u64(self.bytes);
                Ok(())
            }
            Version::V13 | Version::V14 => {
                out.u64(self.cookie);
                out.u16(self.priority);
                out.u8(reason);
                out.u8(self.table);
                self.duration.encode(out);
                out.u16(self.idle_timeout);
                out.u16(self.hard_timeout);
                out.u64(self.packets);
                out.u64(self.bytes);
                self.matching.encode(version, out)
            }
            Version::V15 => {
                out.u8(self.table);
                out.u8(reason);
                out.u16(self.priority);
                out.u16(self.idle_timeout);
                out.u16(self.hard_timeout);
                out.u64(self.cookie);
                self.matching.encode(version, out)?;
                let statistics = Statistics {
                    duration: Some(self.duration),
                    packets: Some(self.packets),
                    bytes: Some(self.bytes),
                    ..Statistics::default()
                };
                oxs::encode(&statistics, out)
            }
        }
    }

    pub(crate) fn encode_nicira(&self, out: &mut Writer) -> Result<(), Unencodable> {
        out.u64(self.cookie);
        out.u16(self.priority);
        out.u8(self.reason_in(Version::V10));
        out.u8(self.table.saturating_add(1));
        self.duration.encode(out);
        out.u16(self.idle_timeout);
        let at = out.len();
        out.zeros(2);
        out.u64(self.packets);
        out.u64(self.bytes);
        let length = self.matching.encode_nxm((0, 0), out)?;
        out.put_u16(at, length);
        Ok(())
    }
}
