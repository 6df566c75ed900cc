//! Flow-mod messages: changes of flows.
//!
//! OpenFlow 1.0 has two: its own, and Nicira's, whose match is in Nicira's format. Both are one
//! [`FlowMod`], which is written as OpenFlow's where that can express it.

use super::bytes::{Reader, Writer};
use super::consistency;
use super::fault::Fault;
use super::field::Field;
use super::instruction::{self, Instruction};
use super::matching::Match;
use super::numbered::{flags, numbered};
use super::port_number::PortNumber;
use super::standard;
use super::unencodable::Unencodable;
use super::version::Version;

/// Any group, in requests.
pub const ANY_GROUP: u32 = 0xffff_ffff;
/// All tables, in requests; in a 1.0 flow to add the table the switch chooses.
pub const ALL_TABLES: u8 = 0xff;
/// No buffer.
const NO_BUFFER: u32 = 0xffff_ffff;

numbered! {
    /// Command on flows.
    pub enum FlowModCommand: u8 {
        /// A flow is added, in the place of one with this match and priority.
        Add = 0,
        /// Flows that the match covers get other instructions.
        Modify = 1,
        /// The flow with this match and priority gets other instructions.
        ModifyStrict = 2,
        /// Flows that the match covers are deleted.
        Delete = 3,
        /// The flow with this match and priority is deleted.
        DeleteStrict = 4,
    }
}

impl FlowModCommand {
    /// Returns true if flows are deleted.
    #[must_use]
    pub const fn deletes(self) -> bool {
        matches!(self, FlowModCommand::Delete | FlowModCommand::DeleteStrict)
    }
}

flags! {
    /// Flags of a flow.
    pub struct FlowFlags: u16 {
        /// Its removal is sent to controllers.
        const SEND_FLOW_REMOVED = 1;
        /// It is refused when another of its priority overlaps.
        const CHECK_OVERLAP = 1 << 1;
        /// Counters begin anew (OpenFlow 1.2 and later).
        const RESET_COUNTS = 1 << 2;
        /// Packets need not be counted (OpenFlow 1.3 and later).
        const NO_PACKET_COUNTS = 1 << 3;
        /// Bytes need not be counted (OpenFlow 1.3 and later).
        const NO_BYTE_COUNTS = 1 << 4;
    }
}

/// Flows with such a cookie: bits under the mask are those of the value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct CookieFilter {
    /// The cookie.
    pub value: u64,
    /// Bits to compare; 0 is any cookie.
    pub mask: u64,
}

/// A change of flows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowMod {
    /// Command on the flows.
    pub command: FlowModCommand,
    /// The table. In OpenFlow 1.0 the upper byte of the command, which is 0 unless Nicira's
    /// extension for tables is on.
    pub table: u8,
    /// The cookie a flow gets. `None` leaves that of flows as it is, as all changes but adding do
    /// since OpenFlow 1.1.
    pub cookie: Option<u64>,
    /// The flows that are changed or deleted. OpenFlow 1.0 has it in Nicira's format alone.
    pub filter: CookieFilter,
    /// Seconds without packets until it is removed; 0 never.
    pub idle_timeout: u16,
    /// Seconds until it is removed; 0 never.
    pub hard_timeout: u16,
    /// The greater is looked up first.
    pub priority: u16,
    /// A packet that waits and is to go by this flow.
    pub buffer: Option<u32>,
    /// Only flows that send here are deleted; `ANY` is all.
    pub out_port: PortNumber,
    /// Only flows that send to this group are deleted; [`ANY_GROUP`] is all.
    pub out_group: u32,
    /// Its flags.
    pub flags: FlowFlags,
    /// Flows of less go first where a table is full (OpenFlow 1.4 and later).
    pub importance: u16,
    /// Its match.
    pub matching: Match,
    /// Its instructions.
    pub instructions: Vec<Instruction>,
}

impl FlowMod {
    /// Makes a flow to add, with defaults for other fields.
    #[must_use]
    pub fn add(table: u8, priority: u16, matching: Match, instructions: Vec<Instruction>) -> Self {
        FlowMod {
            command: FlowModCommand::Add,
            table,
            cookie: Some(0),
            filter: CookieFilter::default(),
            idle_timeout: 0,
            hard_timeout: 0,
            priority,
            buffer: None,
            out_port: PortNumber::ANY,
            out_group: ANY_GROUP,
            flags: FlowFlags::default(),
            importance: 0,
            matching,
            instructions,
        }
    }

    /// Checks that the actions of a flow fit its match.
    ///
    /// It is for flows of OpenFlow 1.1 and later that are added or modified: actions that need a
    /// header packets may not have are [`Fault::MatchInconsistent`]. In 1.0 they do nothing.
    pub fn check(&self) -> Result<(), Fault> {
        consistency::check(&self.matching, &self.instructions)
    }

    pub(crate) fn decode(reader: Reader<'_>, version: Version) -> Result<FlowMod, Fault> {
        if version == Version::V10 {
            FlowMod::decode_10(reader)
        } else {
            FlowMod::decode_13(reader, version)
        }
    }

    fn decode_10(mut reader: Reader<'_>) -> Result<FlowMod, Fault> {
        let exact = standard::is_exact({ reader }.take(4)?);
        let matching = standard::decode(&mut reader)?;
        let cookie = reader.u64()?;
        let (command, table) = decode_command_10(reader.u16()?)?;
        let (idle_timeout, hard_timeout) = (reader.u16()?, reader.u16()?);
        // A match of all twelve fields comes first, with any priority (1.0.2, section 3.4).
        let priority = Some(reader.u16()?).filter(|_| !exact).unwrap_or(u16::MAX);
        let buffer = buffer(reader.u32()?);
        let out_port = PortNumber::from_short(reader.u16()?);
        let flags = decode_flags(reader.u16()?, Version::V10)?;
        let instructions = instruction::decode_list(reader, Version::V10)?;
        let flow = FlowMod::add(table, priority, matching, instructions);
        let cookie = Some(cookie);
        Ok(FlowMod { command, cookie, idle_timeout, hard_timeout, buffer, out_port, flags, ..flow })
    }

    /// Nicira's change of flows, which extends OpenFlow 1.0.
    pub(crate) fn decode_nicira(mut reader: Reader<'_>) -> Result<FlowMod, Fault> {
        let cookie = reader.u64()?;
        let (command, table) = decode_command_10(reader.u16()?)?;
        let (idle_timeout, hard_timeout) = (reader.u16()?, reader.u16()?);
        let priority = reader.u16()?;
        let buffer = buffer(reader.u32()?);
        let out_port = PortNumber::from_short(reader.u16()?);
        let flags = decode_flags(reader.u16()?, Version::V10)?;
        let length = reader.u16()?;
        reader.skip(6)?;
        let (matching, (value, mask)) = Match::decode_nxm_with_cookie(&mut reader, length)?;
        if command == FlowModCommand::Add && mask != 0 {
            return Err(Fault::NxmInvalid);
        }
        let instructions = instruction::decode_list(reader, Version::V10)?;
        let flow = FlowMod::add(table, priority, matching, instructions);
        let (filter, cookie) = (CookieFilter { value, mask }, Some(cookie));
        Ok(FlowMod {
            command,
            cookie,
            filter,
            idle_timeout,
            hard_timeout,
            buffer,
            out_port,
            flags,
            ..flow
        })
    }

    fn decode_13(mut reader: Reader<'_>, version: Version) -> Result<FlowMod, Fault> {
        let (cookie, cookie_mask) = (reader.u64()?, reader.u64()?);
        let table = reader.u8()?;
        let command = reader.u8()?;
        let (idle_timeout, hard_timeout) = (reader.u16()?, reader.u16()?);
        let priority = reader.u16()?;
        let buffer = buffer(reader.u32()?);
        let out_port = PortNumber(reader.u32()?);
        let out_group = reader.u32()?;
        let flags = reader.u16()?;
        let mut importance = reader.u16()?;
        if version == Version::V13 {
            importance = 0;
        }
        let command = FlowModCommand::from_number(command).ok_or(Fault::FlowModBadCommand)?;
        let flags = decode_flags(flags, version)?;
        let deletes = command.deletes();
        if table == ALL_TABLES && !deletes {
            return Err(Fault::FlowModBadTableId);
        }
        let matching = Match::decode(&mut reader)?;
        let instructions = instruction::decode_list(reader, version)?;
        let back = |instruction: &Instruction| match instruction {
            Instruction::GotoTable(to) => *to <= table,
            _ => false,
        };
        if !deletes && instructions.iter().any(back) {
            return Err(Fault::InstructionBadTableId);
        }
        let (cookie, filter) = if command == FlowModCommand::Add {
            (Some(cookie), CookieFilter::default())
        } else {
            (None, CookieFilter { value: cookie & cookie_mask, mask: cookie_mask })
        };
        Ok(FlowMod {
            command,
            table,
            cookie,
            filter,
            idle_timeout,
            hard_timeout,
            priority,
            buffer,
            out_port,
            out_group,
            flags,
            importance,
            matching,
            instructions,
        })
    }

    /// Returns true if OpenFlow 1.0's own message can express it.
    ///
    /// It could say parts of IPv6 and SCTP, but a switch need not look at them there, and would
    /// match more than is meant.
    pub(crate) fn is_standard(&self) -> bool {
        let mut out = Writer::new();
        let fits = standard::encode(&self.matching, &mut out).is_ok();
        // There, a match of all fields has the greatest priority in any case.
        let first = fits && standard::is_exact(&out.into_bytes()) && self.priority != u16::MAX;
        let newer = self.matching.exact(Field::EthType) == Some(0x86dd)
            || self.matching.exact(Field::IpProto) == Some(132);
        self.filter.mask == 0 && fits && !newer && !first
    }

    pub(crate) fn encode(&self, version: Version, out: &mut Writer) -> Result<(), Unencodable> {
        if version == Version::V10 {
            standard::encode(&self.matching, out)?;
            out.u64(self.cookie.unwrap_or(u64::MAX));
            self.encode_middle(out)?;
            return instruction::encode_list(&self.instructions, version, out);
        }
        if self.table == ALL_TABLES && !self.command.deletes() {
            return Err(Unencodable::Absent("a table that the switch chooses"));
        }
        let (cookie, mask) = match self.command {
            FlowModCommand::Add => (self.cookie.unwrap_or(0), 0),
            _ => (self.filter.value, self.filter.mask),
        };
        out.u64(cookie);
        out.u64(mask);
        out.u8(self.table);
        out.u8(self.command.number());
        out.u16(self.idle_timeout);
        out.u16(self.hard_timeout);
        out.u16(self.priority);
        out.u32(self.buffer.unwrap_or(NO_BUFFER));
        out.u32(self.out_port.0);
        out.u32(self.out_group);
        out.u16(self.flags.0);
        out.u16(if version == Version::V13 { 0 } else { self.importance });
        self.matching.encode(version, out)?;
        instruction::encode_list(&self.instructions, version, out)
    }

    pub(crate) fn encode_nicira(&self, out: &mut Writer) -> Result<(), Unencodable> {
        out.u64(self.cookie.unwrap_or(u64::MAX));
        self.encode_middle(out)?;
        let at = out.len();
        out.zeros(8);
        let length = self.matching.encode_nxm((self.filter.value, self.filter.mask), out)?;
        out.put_u16(at, length);
        instruction::encode_list(&self.instructions, Version::V10, out)
    }

    /// Writes the part that both messages of OpenFlow 1.0 share.
    fn encode_middle(&self, out: &mut Writer) -> Result<(), Unencodable> {
        if self.out_group != ANY_GROUP {
            return Err(Unencodable::Absent("flows that send to a group"));
        }
        out.u16(u16::from(self.table) << 8 | u16::from(self.command.number()));
        out.u16(self.idle_timeout);
        out.u16(self.hard_timeout);
        out.u16(self.priority);
        out.u32(self.buffer.unwrap_or(NO_BUFFER));
        out.u16(self.out_port.short()?);
        // Flags that 1.0 lacks are a wish to count less, or its only way.
        out.u16(self.flags.0 & 3);
        Ok(())
    }
}

pub(crate) fn buffer(number: u32) -> Option<u32> {
    (number != NO_BUFFER).then_some(number)
}

pub(crate) fn encode_buffer(buffer: Option<u32>) -> u32 {
    buffer.unwrap_or(NO_BUFFER)
}

fn decode_command_10(number: u16) -> Result<(FlowModCommand, u8), Fault> {
    let [table, command] = number.to_be_bytes();
    let command = FlowModCommand::from_number(command).ok_or(Fault::FlowModBadCommand)?;
    Ok((command, table))
}

fn decode_flags(number: u16, version: Version) -> Result<FlowFlags, Fault> {
    const EMERGENCY: u16 = 1 << 2;
    let flags = FlowFlags(number);
    match version {
        // There is no table for emergencies, so it is full.
        Version::V10 if number & EMERGENCY != 0 => Err(Fault::TableFull),
        Version::V10 if number > 3 => Err(Fault::FlowModBadFlags),
        _ if !flags.is_known() => Err(Fault::FlowModBadFlags),
        _ => Ok(flags),
    }
}
