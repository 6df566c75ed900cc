//! `controller`: sending a packet to controllers, with more to say than an output has.

use super::Action;
use super::nicira::write_nicira;
use crate::wire::bytes::{Reader, Writer};
use crate::wire::fault::Fault;
use crate::wire::packet_in::PacketInReason;
use crate::wire::property;
use crate::wire::unencodable::Unencodable;

/// A packet for controllers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Controller {
    /// Bytes of the packet; `0xffff` is all.
    pub max_len: u16,
    /// Identifier of the controllers.
    pub id: u16,
    /// Why.
    pub reason: PacketInReason,
    /// Data to send with it.
    pub userdata: Vec<u8>,
    /// Whether the packet waits until the controller resumes it.
    pub pause: bool,
    /// The meter that bounds them; 0 none.
    pub meter: u32,
}

impl Default for Controller {
    fn default() -> Controller {
        let (max_len, reason) = (u16::MAX, PacketInReason::Action);
        Controller { max_len, id: 0, reason, userdata: Vec::new(), pause: false, meter: 0 }
    }
}

fn reason(number: u8) -> Result<PacketInReason, Fault> {
    PacketInReason::from_number(number).ok_or(Fault::ActionBadArgument)
}

pub(super) fn decode(body: &mut Reader<'_>) -> Result<Action, Fault> {
    let (max_len, id, number) = (body.u16()?, body.u16()?, body.u8()?);
    body.skip(1)?;
    let controller = Controller { max_len, id, reason: reason(number)?, ..Controller::default() };
    Ok(Action::Controller(Box::new(controller)))
}

const MAX_LEN: u16 = 0;
const ID: u16 = 1;
const REASON: u16 = 2;
const USERDATA: u16 = 3;
const PAUSE: u16 = 4;
const METER: u16 = 5;

pub(super) fn decode_properties(mut body: Reader<'_>) -> Result<Action, Fault> {
    body.zeros(6, Fault::MustBeZero)?;
    let mut controller = Controller::default();
    while let Some((kind, mut value)) = property::next(&mut body)? {
        match kind {
            MAX_LEN => controller.max_len = property::u16(&mut value)?,
            ID => controller.id = property::u16(&mut value)?,
            REASON => controller.reason = reason(value.u8()?)?,
            USERDATA => controller.userdata = value.rest().to_vec(),
            PAUSE => controller.pause = true,
            METER => controller.meter = value.u32()?,
            _ => return Err(Fault::PropertyBadType),
        }
        value.finish()?;
    }
    Ok(Action::Controller(Box::new(controller)))
}

pub(super) fn encode(controller: &Controller, out: &mut Writer) -> Result<(), Unencodable> {
    let default = Controller::default();
    if controller.userdata.is_empty() && !controller.pause && controller.meter == 0 {
        return write_nicira(out, 20, |out| {
            out.u16(controller.max_len);
            out.u16(controller.id);
            out.u8(controller.reason.number());
            Ok(())
        });
    }
    write_nicira(out, 37, |out| {
        out.zeros(6);
        if controller.max_len != default.max_len {
            property::put_u16(out, MAX_LEN, controller.max_len)?;
        }
        if controller.id != default.id {
            property::put_u16(out, ID, controller.id)?;
        }
        if controller.reason != default.reason {
            property::put(out, REASON, |out| out.u8(controller.reason.number()))?;
        }
        if !controller.userdata.is_empty() {
            property::put(out, USERDATA, |out| out.bytes(&controller.userdata))?;
        }
        if controller.pause {
            property::put(out, PAUSE, |_| ())?;
        }
        if controller.meter != 0 {
            property::put(out, METER, |out| out.u32(controller.meter))?;
        }
        Ok(())
    })
}
