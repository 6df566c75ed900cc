//! Statistics of flows, one by one and together.

use crate::wire::bytes::{Reader, Writer};
use crate::wire::elapsed::Elapsed;
use crate::wire::fault::Fault;
use crate::wire::flow_mod::{ALL_TABLES, ANY_GROUP, CookieFilter, FlowFlags};
use crate::wire::instruction::{self, Instruction};
use crate::wire::matching::{Dialect, Match};
use crate::wire::oxs::{self, Statistics};
use crate::wire::port_number::PortNumber;
use crate::wire::standard;
use crate::wire::unencodable::Unencodable;
use crate::wire::version::Version;

/// Filter of the requested flows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowRequest {
    /// Flows of this table; [`ALL_TABLES`] is all.
    pub table: u8,
    /// Flows with an output to this port; `ANY` is all.
    pub out_port: PortNumber,
    /// Flows with an output to this group; [`ANY_GROUP`] is all.
    pub out_group: u32,
    /// Flows with such a cookie.
    pub filter: CookieFilter,
    /// Flows that this match covers.
    pub matching: Match,
}

impl FlowRequest {
    /// A request for all flows.
    #[must_use]
    pub fn all() -> FlowRequest {
        FlowRequest {
            table: ALL_TABLES,
            out_port: PortNumber::ANY,
            out_group: ANY_GROUP,
            filter: CookieFilter::default(),
            matching: Match::new(),
        }
    }

    pub(super) fn decode(mut reader: Reader<'_>, version: Version) -> Result<FlowRequest, Fault> {
        let request = if version == Version::V10 {
            let matching = standard::decode(&mut reader)?;
            let table = reader.u8()?;
            reader.skip(1)?;
            let out_port = PortNumber::from_short(reader.u16()?);
            FlowRequest { table, out_port, matching, ..FlowRequest::all() }
        } else {
            let table = reader.u8()?;
            reader.skip(3)?;
            let (out_port, out_group) = (PortNumber(reader.u32()?), reader.u32()?);
            reader.skip(4)?;
            let (value, mask) = (reader.u64()?, reader.u64()?);
            let filter = CookieFilter { value: value & mask, mask };
            let matching = Match::decode(&mut reader)?;
            FlowRequest { table, out_port, out_group, filter, matching }
        };
        reader.finish()?;
        Ok(request)
    }

    pub(super) fn decode_nicira(mut reader: Reader<'_>) -> Result<FlowRequest, Fault> {
        let out_port = PortNumber::from_short(reader.u16()?);
        let length = reader.u16()?;
        let table = reader.u8()?;
        reader.skip(3)?;
        let (matching, (value, mask)) = Match::decode_nxm_with_cookie(&mut reader, length)?;
        reader.finish()?;
        let filter = CookieFilter { value, mask };
        Ok(FlowRequest { table, out_port, filter, matching, ..FlowRequest::all() })
    }

    pub(super) fn encode(&self, version: Version, out: &mut Writer) -> Result<(), Unencodable> {
        if version == Version::V10 {
            self.only_ports()?;
            if self.filter.mask != 0 {
                return Err(Unencodable::Absent("a request by cookie"));
            }
            standard::encode(&self.matching, out)?;
            out.u8(self.table);
            out.zeros(1);
            out.u16(self.out_port.short()?);
            return Ok(());
        }
        out.u8(self.table);
        out.zeros(3);
        out.u32(self.out_port.0);
        out.u32(self.out_group);
        out.zeros(4);
        out.u64(self.filter.value);
        out.u64(self.filter.mask);
        self.matching.encode(version, out)
    }

    pub(super) fn encode_nicira(&self, out: &mut Writer) -> Result<(), Unencodable> {
        self.only_ports()?;
        out.u16(self.out_port.short()?);
        let at = out.len();
        out.u16(0);
        out.u8(self.table);
        out.zeros(3);
        let length = self.matching.encode_nxm((self.filter.value, self.filter.mask), out)?;
        out.put_u16(at, length);
        Ok(())
    }

    fn only_ports(&self) -> Result<(), Unencodable> {
        if self.out_group == ANY_GROUP {
            return Ok(());
        }
        Err(Unencodable::Absent("flows that send to a group"))
    }
}

/// A flow with its statistics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowStats {
    /// Its table.
    pub table: u8,
    /// Time it has existed.
    pub duration: Elapsed,
    /// Its priority.
    pub priority: u16,
    /// Its idle time-out, in seconds.
    pub idle_timeout: u16,
    /// Its hard time-out, in seconds.
    pub hard_timeout: u16,
    /// Its flags; OpenFlow 1.0 lacks them.
    pub flags: FlowFlags,
    /// Its importance (OpenFlow 1.4 and later).
    pub importance: u16,
    /// Its cookie.
    pub cookie: u64,
    /// Packets that matched; `u64::MAX` when that is not known.
    pub packets: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Time without packets, in Nicira's form and since OpenFlow 1.5.
    pub idle: Option<Elapsed>,
    /// Time without changes of it, in Nicira's form.
    pub unchanged: Option<Elapsed>,
    /// Its match.
    pub matching: Match,
    /// Its instructions.
    pub instructions: Vec<Instruction>,
}

/// An age in whole seconds, one more than it is; 0 is none.
fn age(number: u16) -> Option<Elapsed> {
    number.checked_sub(1).map(|seconds| Elapsed { seconds: seconds.into(), nanoseconds: 0 })
}

fn encode_age(age: Option<Elapsed>) -> u16 {
    age.map_or(0, |age| u16::try_from(age.seconds.saturating_add(1)).unwrap_or(u16::MAX))
}

impl FlowStats {
    /// A flow that did nothing yet.
    #[must_use]
    pub fn new(table: u8, priority: u16, matching: Match, instructions: Vec<Instruction>) -> Self {
        FlowStats {
            table,
            duration: Elapsed::default(),
            priority,
            idle_timeout: 0,
            hard_timeout: 0,
            flags: FlowFlags::default(),
            importance: 0,
            cookie: 0,
            packets: 0,
            bytes: 0,
            idle: None,
            unchanged: None,
            matching,
            instructions,
        }
    }

    /// The part of the reader that is this entry, behind its length.
    fn entry<'a>(reader: &mut Reader<'a>) -> Result<Reader<'a>, Fault> {
        let length = usize::from(reader.u16()?);
        reader.part(length.checked_sub(2).ok_or(Fault::BadLength)?)
    }

    pub(super) fn decode(reader: &mut Reader<'_>, version: Version) -> Result<FlowStats, Fault> {
        let mut body = FlowStats::entry(reader)?;
        if version == Version::V15 {
            return FlowStats::decode_15(body);
        }
        let table = body.u8()?;
        body.skip(1)?;
        let old = version == Version::V10;
        let mut matching = Match::new();
        if old {
            matching = standard::decode(&mut body)?;
        }
        let duration = Elapsed::decode(&mut body)?;
        let priority = body.u16()?;
        let (idle_timeout, hard_timeout) = (body.u16()?, body.u16()?);
        let (mut flags, mut importance) = (FlowFlags::default(), 0);
        if old {
            body.skip(6)?;
        } else {
            flags = FlowFlags(body.u16()?);
            importance = body.u16()?;
            body.skip(2)?;
        }
        let (cookie, packets, bytes) = (body.u64()?, body.u64()?, body.u64()?);
        if !old {
            matching = Match::decode(&mut body)?;
        }
        if version < Version::V14 {
            importance = 0;
        }
        let instructions = instruction::decode_list(body, version)?;
        let flow = FlowStats::new(table, priority, matching, instructions);
        Ok(FlowStats {
            duration,
            idle_timeout,
            hard_timeout,
            flags,
            importance,
            cookie,
            packets,
            bytes,
            ..flow
        })
    }

    fn decode_15(mut body: Reader<'_>) -> Result<FlowStats, Fault> {
        body.skip(2)?;
        let table = body.u8()?;
        body.skip(1)?;
        let priority = body.u16()?;
        let (idle_timeout, hard_timeout) = (body.u16()?, body.u16()?);
        let (flags, importance) = (FlowFlags(body.u16()?), body.u16()?);
        let cookie = body.u64()?;
        let matching = Match::decode(&mut body)?;
        let statistics = oxs::decode(&mut body)?;
        let instructions = instruction::decode_list(body, Version::V15)?;
        let mut flow = FlowStats {
            idle_timeout,
            hard_timeout,
            flags,
            importance,
            cookie,
            ..FlowStats::new(table, priority, matching, instructions)
        };
        flow.set(statistics);
        Ok(flow)
    }

    fn set(&mut self, statistics: Statistics) {
        self.duration = statistics.duration.unwrap_or_default();
        self.idle = statistics.idle;
        self.packets = statistics.packets.unwrap_or(u64::MAX);
        self.bytes = statistics.bytes.unwrap_or(u64::MAX);
    }

    fn statistics(&self) -> Statistics {
        let known = |count: u64| (count != u64::MAX).then_some(count);
        Statistics {
            duration: Some(self.duration),
            idle: self.idle,
            flows: None,
            packets: known(self.packets),
            bytes: known(self.bytes),
        }
    }

    /// Reads an entry of OpenFlow 1.5 that has counters and no instructions.
    pub(super) fn decode_counters(reader: &mut Reader<'_>) -> Result<FlowStats, Fault> {
        let mut body = FlowStats::entry(reader)?;
        body.skip(2)?;
        let table = body.u8()?;
        body.skip(1)?;
        let priority = body.u16()?;
        let matching = Match::decode(&mut body)?;
        let statistics = oxs::decode(&mut body)?;
        body.finish()?;
        let mut flow = FlowStats::new(table, priority, matching, Vec::new());
        flow.set(statistics);
        Ok(flow)
    }

    pub(super) fn decode_nicira(reader: &mut Reader<'_>) -> Result<FlowStats, Fault> {
        let mut body = FlowStats::entry(reader)?;
        let table = body.u8()?;
        body.skip(1)?;
        let duration = Elapsed::decode(&mut body)?;
        let priority = body.u16()?;
        let (idle_timeout, hard_timeout) = (body.u16()?, body.u16()?);
        let length = body.u16()?;
        let (idle, unchanged) = (age(body.u16()?), age(body.u16()?));
        let (cookie, packets, bytes) = (body.u64()?, body.u64()?, body.u64()?);
        let matching = Match::decode_nxm(&mut body, length, Dialect::Flow)?;
        let instructions = instruction::decode_list(body, Version::V10)?;
        let flow = FlowStats::new(table, priority, matching, instructions);
        Ok(FlowStats {
            duration,
            idle_timeout,
            hard_timeout,
            cookie,
            packets,
            bytes,
            idle,
            unchanged,
            ..flow
        })
    }

    pub(super) fn encode(&self, version: Version, out: &mut Writer) -> Result<(), Unencodable> {
        let start = out.len();
        out.u16(0);
        if version == Version::V15 {
            out.zeros(2);
            out.u8(self.table);
            out.zeros(1);
            out.u16(self.priority);
            out.u16(self.idle_timeout);
            out.u16(self.hard_timeout);
            out.u16(self.flags.0);
            out.u16(self.importance);
            out.u64(self.cookie);
            self.matching.encode(version, out)?;
            oxs::encode(&self.statistics(), out)?;
            instruction::encode_list(&self.instructions, version, out)?;
            return out.length(start, start);
        }
        out.u8(self.table);
        out.zeros(1);
        let old = version == Version::V10;
        if old {
            standard::encode(&self.matching, out)?;
        }
        self.duration.encode(out);
        out.u16(self.priority);
        out.u16(self.idle_timeout);
        out.u16(self.hard_timeout);
        if old {
            out.zeros(6);
        } else {
            out.u16(self.flags.0);
            out.u16(if version == Version::V13 { 0 } else { self.importance });
            out.zeros(2);
        }
        out.u64(self.cookie);
        out.u64(self.packets);
        out.u64(self.bytes);
        if !old {
            self.matching.encode(version, out)?;
        }
        instruction::encode_list(&self.instructions, version, out)?;
        out.length(start, start)
    }

    pub(super) fn encode_counters(
        &self,
        version: Version,
        out: &mut Writer,
    ) -> Result<(), Unencodable> {
        let start = out.len();
        out.zeros(4);
        out.u8(self.table);
        out.zeros(1);
        out.u16(self.priority);
        self.matching.encode(version, out)?;
        oxs::encode(&self.statistics(), out)?;
        out.length(start, start)
    }

    pub(super) fn encode_nicira(&self, out: &mut Writer) -> Result<(), Unencodable> {
        let start = out.len();
        out.u16(0);
        out.u8(self.table);
        out.zeros(1);
        self.duration.encode(out);
        out.u16(self.priority);
        out.u16(self.idle_timeout);
        out.u16(self.hard_timeout);
        let at = out.len();
        out.u16(0);
        out.u16(encode_age(self.idle));
        out.u16(encode_age(self.unchanged));
        out.u64(self.cookie);
        out.u64(self.packets);
        out.u64(self.bytes);
        let length = self.matching.encode_nxm((0, 0), out)?;
        out.put_u16(at, length);
        instruction::encode_list(&self.instructions, Version::V10, out)?;
        out.length(start, start)
    }
}

/// Statistics of many flows together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AggregateStats {
    /// Packets that matched; `u64::MAX` when that is not known.
    pub packets: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Number of flows.
    pub flows: u32,
}

impl AggregateStats {
    pub(super) fn decode(
        mut reader: Reader<'_>,
        version: Version,
    ) -> Result<AggregateStats, Fault> {
        let stats = if version == Version::V15 {
            let found = oxs::decode(&mut reader)?;
            AggregateStats {
                packets: found.packets.unwrap_or(u64::MAX),
                bytes: found.bytes.unwrap_or(u64::MAX),
                flows: found.flows.unwrap_or_default(),
            }
        } else {
            let (packets, bytes, flows) = (reader.u64()?, reader.u64()?, reader.u32()?);
            reader.skip(4)?;
            AggregateStats { packets, bytes, flows }
        };
        reader.finish()?;
        Ok(stats)
    }

    pub(super) fn encode(&self, version: Version, out: &mut Writer) -> Result<(), Unencodable> {
        if version == Version::V15 {
            let known = |count: u64| (count != u64::MAX).then_some(count);
            let statistics = Statistics {
                flows: Some(self.flows),
                packets: known(self.packets),
                bytes: known(self.bytes),
                ..Statistics::default()
            };
            return oxs::encode(&statistics, out);
        }
        out.u64(self.packets);
        out.u64(self.bytes);
        out.u32(self.flows);
        out.zeros(4);
        Ok(())
    }
}
