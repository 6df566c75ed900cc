//! Flow monitors: updates to a controller about changes of flows.
//!
//! There are three forms: Nicira's for OpenFlow 1.0, which has the numbers of 1.4's extension to
//! 1.3 by the ONF (EXT-187) as far as both go, and that of 1.4 and later. Nicira's and ONF's have
//! messages of their own to cancel a monitor and to announce a pause of updates
//! ([`NiciraMessage`](crate::wire::NiciraMessage)), 1.4 has a command and updates.
//!
//! In one point it is Open vSwitch's meaning and not the specification's: a monitor with the bit of
//! 1.4's `OFPFMF_ONLY_OWN` gets a controller's own changes in full, beside those of others.

use crate::wire::bytes::{Reader, Writer};
use crate::wire::fault::Fault;
use crate::wire::flow_mod::ANY_GROUP;
use crate::wire::flow_removed::FlowRemovedReason;
use crate::wire::instruction::{self, Instruction};
use crate::wire::matching::{Dialect, Match};
use crate::wire::numbered::{flags, numbered};
use crate::wire::port_number::PortNumber;
use crate::wire::unencodable::Unencodable;
use crate::wire::version::Version;

numbered! {
    /// A command to a monitor.
    pub enum FlowMonitorCommand: u8 {
        /// It is added.
        Add = 0,
        /// It becomes another (OpenFlow 1.4 and later).
        Modify = 1,
        /// It ends (OpenFlow 1.4 and later).
        Delete = 2,
    }
}

flags! {
    /// The events and details that a monitor wants.
    pub struct FlowMonitorFlags: u16 {
        /// The flows that are there at first.
        const INITIAL = 1;
        /// Flows that are added.
        const ADD = 1 << 1;
        /// Flows that go.
        const REMOVED = 1 << 2;
        /// Flows that become others.
        const MODIFY = 1 << 3;
        /// Instructions of flows, too.
        const INSTRUCTIONS = 1 << 4;
        /// The controller's own changes in full (OpenFlow 1.4 and later).
        const NO_ABBREV = 1 << 5;
        /// The controller's own changes, as Open vSwitch has it in all versions.
        const OWN = 1 << 6;
    }
}

/// A change of a monitor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowMonitor {
    /// Its number, which the controller chooses.
    pub id: u32,
    /// The command to it.
    pub command: FlowMonitorCommand,
    /// The events and details that it wants.
    pub flags: FlowMonitorFlags,
    /// Flows with an output to this port; `ANY` is all.
    pub out_port: PortNumber,
    /// Flows with an output to this group; [`ANY_GROUP`] is all.
    pub out_group: u32,
    /// Flows of this table; [`ALL_TABLES`](crate::wire::ALL_TABLES) is all.
    pub table: u8,
    /// Flows that this match covers.
    pub matching: Match,
}

/// An event of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowEvent {
    /// A flow from before the monitor; up to OpenFlow 1.3 as if it were added.
    Initial,
    /// It was added.
    Added,
    /// It went.
    Removed(FlowRemovedReason),
    /// It became another.
    Modified,
}

/// An update of a monitor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlowUpdate {
    /// Something happened to a flow.
    Flow(FlowUpdated),
    /// The changes of this message of the controller were made.
    Abbreviated {
        /// The message.
        xid: u32,
    },
    /// Updates pause, as too many wait (OpenFlow 1.4 and later).
    Paused,
    /// Updates go on, after those of all changes in between (OpenFlow 1.4 and later).
    Resumed,
}

/// An event of a flow, with the flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowUpdated {
    /// The event.
    pub event: FlowEvent,
    /// Its table.
    pub table: u8,
    /// Its priority.
    pub priority: u16,
    /// Its idle time-out, in seconds.
    pub idle_timeout: u16,
    /// Its hard time-out, in seconds.
    pub hard_timeout: u16,
    /// Its cookie.
    pub cookie: u64,
    /// Its match.
    pub matching: Match,
    /// Its instructions, where the monitor wants them.
    pub instructions: Vec<Instruction>,
}

/// The bits of Nicira's and ONF's flags are those of 1.4, but for the last.
const OLD_OWN: u16 = 1 << 5;
const OLD_FLAGS: u16 = (1 << 6) - 1;

fn decode_flags(number: u16, version: Version) -> Result<FlowMonitorFlags, Fault> {
    let flags = match version {
        Version::V10 | Version::V13 if number & !OLD_FLAGS != 0 => {
            return Err(Fault::MonitorBadFlags);
        }
        Version::V10 | Version::V13 if number & OLD_OWN != 0 => {
            FlowMonitorFlags(number & !OLD_OWN).with(FlowMonitorFlags::OWN)
        }
        _ => FlowMonitorFlags(number),
    };
    let changes =
        FlowMonitorFlags::ADD.0 | FlowMonitorFlags::REMOVED.0 | FlowMonitorFlags::MODIFY.0;
    if !flags.is_known() || flags.0 & changes == 0 {
        return Err(Fault::MonitorBadFlags);
    }
    Ok(flags)
}

fn encode_flags(flags: FlowMonitorFlags, version: Version) -> Result<u16, Unencodable> {
    if version >= Version::V14 {
        return Ok(flags.0);
    }
    if flags.contains(FlowMonitorFlags::NO_ABBREV) {
        return Err(Unencodable::Absent("a monitor without abbreviations"));
    }
    let own = flags.contains(FlowMonitorFlags::OWN);
    Ok(flags.0 & (OLD_OWN - 1) | if own { OLD_OWN } else { 0 })
}

impl FlowMonitor {
    pub(super) fn decode(reader: &mut Reader<'_>, version: Version) -> Result<FlowMonitor, Fault> {
        let id = reader.u32()?;
        if version >= Version::V14 {
            let (out_port, out_group) = (PortNumber(reader.u32()?), reader.u32()?);
            let number = reader.u16()?;
            let (table, command) = (reader.u8()?, reader.u8()?);
            let command = FlowMonitorCommand::from_number(command);
            let command = command.ok_or(Fault::MonitorBadCommand)?;
            let flags = match command {
                // The rest is ignored.
                FlowMonitorCommand::Delete => FlowMonitorFlags::default(),
                _ => decode_flags(number, version)?,
            };
            let matching = Match::decode(reader)?;
            return Ok(FlowMonitor { id, command, flags, out_port, out_group, table, matching });
        }
        let flags = decode_flags(reader.u16()?, version)?;
        let (out_port, length);
        if version == Version::V10 {
            out_port = PortNumber::from_short(reader.u16()?);
            length = reader.u16()?;
        } else {
            // The match has its own length.
            length = reader.u16()?;
            out_port = PortNumber(reader.u32()?);
        }
        let table = reader.u8()?;
        reader.zeros(if version == Version::V10 { 5 } else { 3 }, Fault::MustBeZero)?;
        let matching = if version == Version::V10 {
            Match::decode_nxm(reader, length, Dialect::Flow)?
        } else {
            Match::decode(reader)?
        };
        let command = FlowMonitorCommand::Add;
        Ok(FlowMonitor { id, command, flags, out_port, out_group: ANY_GROUP, table, matching })
    }

    pub(super) fn encode(&self, version: Version, out: &mut Writer) -> Result<(), Unencodable> {
        out.u32(self.id);
        if version >= Version::V14 {
            out.u32(self.out_port.0);
            out.u32(self.out_group);
            out.u16(encode_flags(self.flags, version)?);
            out.u8(self.table);
            out.u8(self.command.number());
            return self.matching.encode(version, out);
        }
        if self.command != FlowMonitorCommand::Add || self.out_group != ANY_GROUP {
            return Err(Unencodable::Absent("this change of a flow monitor"));
        }
        out.u16(encode_flags(self.flags, version)?);
        if version == Version::V10 {
            out.u16(self.out_port.short()?);
            let length = out.len();
            out.u16(0);
            out.u8(self.table);
            out.zeros(5);
            let matching = self.matching.encode_nxm((0, 0), out)?;
            out.put_u16(length, matching);
            return Ok(());
        }
        let length = out.len();
        out.u16(0);
        out.u32(self.out_port.0);
        out.u8(self.table);
        out.zeros(3);
        encode_match(&self.matching, version, length, out)
    }
}

/// Writes a match, and its length without padding at `length`.
fn encode_match(
    matching: &Match,
    version: Version,
    length: usize,
    out: &mut Writer,
) -> Result<(), Unencodable> {
    let start = out.len();
    matching.encode(version, out)?;
    let fields = out.u16_at(start + 2);
    out.put_u16(length, fields);
    Ok(())
}

/// Numbers of events.
const INITIAL: u16 = 0;
const ADDED: u16 = 1;
const REMOVED: u16 = 2;
const MODIFIED: u16 = 3;
const ABBREVIATED: u16 = 4;
const PAUSED: u16 = 5;
const RESUMED: u16 = 6;

/// Nicira and ONF have no event for flows that are there.
fn is_old(version: Version) -> bool {
    version < Version::V14
}

impl FlowUpdate {
    pub(super) fn decode(reader: &mut Reader<'_>, version: Version) -> Result<FlowUpdate, Fault> {
        let length = usize::from({ *reader }.u16()?);
        if length % 8 != 0 {
            return Err(Fault::BadLength);
        }
        let mut body = reader.part(length)?;
        body.skip(2)?;
        let event = body.u16()?.saturating_add(is_old(version).into());
        let update = match event {
            ABBREVIATED => FlowUpdate::Abbreviated { xid: body.u32()? },
            PAUSED | RESUMED if !is_old(version) => {
                body.skip(4)?;
                if event == PAUSED { FlowUpdate::Paused } else { FlowUpdate::Resumed }
            }
            INITIAL | ADDED | REMOVED | MODIFIED => {
                return FlowUpdated::decode(event, body, version).map(FlowUpdate::Flow);
            }
            _ => return Err(Fault::MonitorBadEvent),
        };
        body.finish()?;
        Ok(update)
    }

    pub(super) fn encode(&self, version: Version, out: &mut Writer) -> Result<(), Unencodable> {
        let start = out.len();
        let event = match self {
            FlowUpdate::Flow(flow) => match flow.event {
                FlowEvent::Initial if !is_old(version) => INITIAL,
                FlowEvent::Initial | FlowEvent::Added => ADDED,
                FlowEvent::Removed(_) => REMOVED,
                FlowEvent::Modified => MODIFIED,
            },
            FlowUpdate::Abbreviated { .. } => ABBREVIATED,
            FlowUpdate::Paused if !is_old(version) => PAUSED,
            FlowUpdate::Resumed if !is_old(version) => RESUMED,
            FlowUpdate::Paused | FlowUpdate::Resumed => {
                return Err(Unencodable::Absent("a pause among updates"));
            }
        };
        out.u16(0);
        out.u16(event - u16::from(is_old(version)));
        match self {
            FlowUpdate::Flow(flow) => flow.encode(version, out)?,
            FlowUpdate::Abbreviated { xid } => out.u32(*xid),
            FlowUpdate::Paused | FlowUpdate::Resumed => out.zeros(4),
        }
        out.length(start, start)
    }
}

impl FlowUpdated {
    fn decode(event: u16, mut body: Reader<'_>, version: Version) -> Result<FlowUpdated, Fault> {
        let (reason, table, priority, idle_timeout, hard_timeout, length);
        if is_old(version) {
            (reason, priority) = (body.u16()?, body.u16()?);
            (idle_timeout, hard_timeout) = (body.u16()?, body.u16()?);
            (length, table) = (body.u16()?, body.u8()?);
            body.skip(1)?;
        } else {
            (table, reason) = (body.u8()?, u16::from(body.u8()?));
            (idle_timeout, hard_timeout) = (body.u16()?, body.u16()?);
            (priority, length) = (body.u16()?, 0);
            body.skip(4)?;
        }
        let cookie = body.u64()?;
        let matching = if version == Version::V10 {
            Match::decode_nxm(&mut body, length, Dialect::Flow)?
        } else {
            Match::decode(&mut body)?
        };
        let instructions = instruction::decode_list(body, version)?;
        let event = match event {
            INITIAL => FlowEvent::Initial,
            ADDED => FlowEvent::Added,
            MODIFIED => FlowEvent::Modified,
            _ => {
                let reason = u8::try_from(reason).ok().and_then(FlowRemovedReason::from_number);
                FlowEvent::Removed(reason.ok_or(Fault::BadReason)?)
            }
        };
        Ok(FlowUpdated {
            event,
            table,
            priority,
            idle_timeout,
            hard_timeout,
            cookie,
            matching,
            instructions,
        })
    }

    fn encode(&self, version: Version, out: &mut Writer) -> Result<(), Unencodable> {
        let reason = match self.event {
            FlowEvent::Removed(reason) => reason.number(),
            _ => 0,
        };
        let length;
        if is_old(version) {
            out.u16(reason.into());
            out.u16(self.priority);
            out.u16(self.idle_timeout);
            out.u16(self.hard_timeout);
            length = out.len();
            out.u16(0);
            out.u8(self.table);
            out.zeros(1);
        } else {
            out.u8(self.table);
            out.u8(reason);
            out.u16(self.idle_timeout);
            out.u16(self.hard_timeout);
            out.u16(self.priority);
            length = out.len();
            out.zeros(4);
        }
        out.u64(self.cookie);
        match version {
            Version::V10 => {
                let matching = self.matching.encode_nxm((0, 0), out)?;
                out.put_u16(length, matching);
            }
            Version::V13 => encode_match(&self.matching, version, length, out)?,
            Version::V14 | Version::V15 => self.matching.encode(version, out)?,
        }
        instruction::encode_list(&self.instructions, version, out)
    }
}
