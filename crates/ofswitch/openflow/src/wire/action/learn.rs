//! `learn`: an action that makes a flow of the packet it is done to.

use super::Action;
use super::nicira::write_nicira;
use crate::wire::bytes::{Reader, Writer};
use crate::wire::fault::Fault;
use crate::wire::field::Field;
use crate::wire::numbered::flags;
use crate::wire::subfield::{self, NXM, Subfield};
use crate::wire::unencodable::Unencodable;

flags! {
    /// Flags of a learnt flow.
    pub struct LearnFlags: u16 {
        /// Its end is told.
        const SEND_FLOW_REMOVED = 1;
        /// It goes when this action does.
        const DELETE_LEARNED = 1 << 1;
        /// Whether it could be learnt goes into a bit ([`Learn::result`]).
        const WRITE_RESULT = 1 << 2;
    }
}

/// A flow to make (`learn`).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Learn {
    /// Without packets it goes after so many seconds; 0 never.
    pub idle_timeout: u16,
    /// It goes after so many seconds; 0 never.
    pub hard_timeout: u16,
    /// Its priority.
    pub priority: u16,
    /// Its cookie.
    pub cookie: u64,
    /// Its flags; `WRITE_RESULT` is there exactly when [`Learn::result`] is.
    pub flags: LearnFlags,
    /// Its table.
    pub table: u8,
    /// The idle time-out after a connection of TCP has ended; 0 leaves it.
    pub fin_idle_timeout: u16,
    /// The hard time-out then; 0 leaves it.
    pub fin_hard_timeout: u16,
    /// Flows with this cookie that the table may have; 0 is any number.
    pub limit: u32,
    /// The bit that says whether there was room.
    pub result: Option<Subfield>,
    /// Parts of its match and its actions.
    pub specs: Vec<LearnSpec>,
}

/// A part of a flow to make.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LearnSpec {
    /// Number of bits.
    pub bits: u16,
    /// Source of the bits.
    pub source: LearnSource,
    /// Destination of the bits.
    pub destination: LearnDestination,
}

/// Source of a part of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LearnSource {
    /// From the packet.
    Field(Subfield),
    /// From here.
    Value(u128),
}

impl LearnSource {
    /// The field it comes from, if it does.
    pub(crate) fn field(&self) -> Option<&Subfield> {
        match self {
            LearnSource::Field(part) => Some(part),
            LearnSource::Value(_) => None,
        }
    }
}

/// Destination of a part of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LearnDestination {
    /// A field it matches.
    Match(Subfield),
    /// A field its actions set.
    Load(Subfield),
    /// A port its actions send to.
    Output,
}

const BITS: u16 = 0x3ff;
const IMMEDIATE: u16 = 1 << 13;
const DESTINATION: u16 = 3 << 11;
const LOAD: u16 = 1 << 11;
const OUTPUT: u16 = 2 << 11;

pub(super) fn decode(mut body: Reader<'_>, second: bool) -> Result<Action, Fault> {
    let (idle_timeout, hard_timeout, priority) = (body.u16()?, body.u16()?, body.u16()?);
    let cookie = body.u64()?;
    let flags = LearnFlags(body.u16()?);
    let table = body.u8()?;
    body.zeros(1, Fault::ActionBadArgument)?;
    let (fin_idle_timeout, fin_hard_timeout) = (body.u16()?, body.u16()?);
    let (mut limit, mut result) = (0, None);
    let writes = flags.contains(LearnFlags::WRITE_RESULT);
    if second {
        limit = body.u32()?;
        let offset = body.u16()?;
        body.zeros(2, Fault::ActionMustBeZero)?;
        if writes {
            let field = subfield::decode_header(&mut body)?;
            result = Some(Subfield::checked(field, offset, 1)?.settable()?);
        } else if offset != 0 {
            return Err(Fault::ActionBadArgument);
        }
    }
    if !flags.is_known() || table == 255 || (writes && !second) {
        return Err(Fault::ActionBadArgument);
    }
    let mut specs = Vec::new();
    while !body.is_empty() {
        let header = body.u16()?;
        if header == 0 {
            break;
        }
        specs.push(decode_spec(header, &mut body)?);
    }
    body.zeros(body.len(), Fault::ActionBadArgument)?;
    Ok(Action::Learn(Box::new(Learn {
        idle_timeout,
        hard_timeout,
        priority,
        cookie,
        flags,
        table,
        fin_idle_timeout,
        fin_hard_timeout,
        limit,
        result,
        specs,
    })))
}

fn decode_spec(header: u16, body: &mut Reader<'_>) -> Result<LearnSpec, Fault> {
    let bits = header & BITS;
    let part = |body: &mut Reader<'_>| {
        let field = subfield::decode_header(body)?;
        Subfield::checked(field, body.u16()?, bits)
    };
    let source = if header & IMMEDIATE == 0 {
        LearnSource::Field(part(body)?)
    } else {
        let bytes = 2 * usize::from(bits.div_ceil(16));
        if bytes > 16 {
            return Err(Fault::ActionBadArgument);
        }
        let value = body.number(bytes)?;
        if bits == 0 || value & !(u128::MAX >> (128 - bits)) != 0 {
            return Err(Fault::ActionBadArgument);
        }
        LearnSource::Value(value)
    };
    let destination = match header & DESTINATION {
        0 => LearnDestination::Match(part(body)?),
        LOAD => LearnDestination::Load(part(body)?.settable()?),
        OUTPUT if header & IMMEDIATE == 0 => LearnDestination::Output,
        _ => return Err(Fault::ActionBadArgument),
    };
    Ok(LearnSpec { bits, source, destination })
}

pub(super) fn encode(learn: &Learn, out: &mut Writer) -> Result<(), Unencodable> {
    let second = learn.limit != 0 || learn.result.is_some();
    write_nicira(out, if second { 45 } else { 16 }, |out| {
        out.u16(learn.idle_timeout);
        out.u16(learn.hard_timeout);
        out.u16(learn.priority);
        out.u64(learn.cookie);
        let flags = learn.flags.0 & !LearnFlags::WRITE_RESULT.0;
        let writes = if learn.result.is_some() { LearnFlags::WRITE_RESULT.0 } else { 0 };
        out.u16(flags | writes);
        out.u8(learn.table);
        out.zeros(1);
        out.u16(learn.fin_idle_timeout);
        out.u16(learn.fin_hard_timeout);
        if second {
            out.u32(learn.limit);
            out.u16(learn.result.map_or(0, |part| part.offset()));
            out.zeros(2);
            if let Some(part) = learn.result {
                subfield::encode_header(part.field(), NXM, out);
            }
        }
        for spec in &learn.specs {
            encode_spec(spec, out);
        }
        Ok(())
    })
}

fn encode_spec(spec: &LearnSpec, out: &mut Writer) {
    let source = match spec.source {
        LearnSource::Field(_) => 0,
        LearnSource::Value(_) => IMMEDIATE,
    };
    let (destination, into) = match spec.destination {
        LearnDestination::Match(part) => (0, Some(part)),
        LearnDestination::Load(part) => (LOAD, Some(part)),
        LearnDestination::Output => (OUTPUT, None),
    };
    let put_part = |out: &mut Writer, field: Field, offset: u16| {
        subfield::encode_header(field, NXM, out);
        out.u16(offset);
    };
    out.u16(spec.bits & BITS | source | destination);
    match spec.source {
        LearnSource::Field(part) => put_part(out, part.field(), part.offset()),
        LearnSource::Value(value) => {
            out.number(value, 2 * usize::from(spec.bits.div_ceil(16)).min(8));
        }
    }
    if let Some(part) = into {
        put_part(out, part.field(), part.offset());
    }
}
