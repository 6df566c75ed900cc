//! Roles of controllers, and their choice of asynchronous messages.

use super::bytes::{Reader, Writer};
use super::fault::Fault;
use super::numbered::numbered;
use super::property;
use super::unencodable::Unencodable;
use super::version::Version;

numbered! {
    /// Role of a controller.
    pub enum Role: u32 {
        /// The present role; in requests only.
        NoChange = 0,
        /// Full access, shared with other controllers.
        Equal = 1,
        /// Full access of one controller; the previous master becomes a slave.
        Master = 2,
        /// Read access only.
        Slave = 3,
    }
}

/// Request for a role, or reply with one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoleMessage {
    /// The role.
    pub role: Role,
    /// An identifier of the controller (OpenFlow 1.5); 0 is none.
    pub id: u16,
    /// Election number (`generation_id`), which grows with each master; older ones are refused.
    pub generation: u64,
}

impl RoleMessage {
    pub(crate) fn decode(mut reader: Reader<'_>, version: Version) -> Result<RoleMessage, Fault> {
        let role = reader.u32()?;
        let mut id = reader.u16()?;
        if version != Version::V15 {
            id = 0;
        }
        reader.skip(2)?;
        let generation = reader.u64()?;
        reader.finish()?;
        Ok(RoleMessage { role: Role::from_number(role).ok_or(Fault::BadRole)?, id, generation })
    }

    pub(crate) fn encode(&self, version: Version, out: &mut Writer) {
        out.u32(self.role.number());
        out.u16(if version == Version::V15 { self.id } else { 0 });
        out.zeros(2);
        out.u64(self.generation);
    }

    /// Reads Nicira's role message, which numbers roles differently and has no generation.
    pub(crate) fn decode_nicira(mut reader: Reader<'_>) -> Result<Role, Fault> {
        let number = reader.u32()?;
        reader.finish()?;
        let role = number.checked_add(1).and_then(Role::from_number);
        role.filter(|role| *role != Role::NoChange).ok_or(Fault::BadRole)
    }
}

impl Role {
    /// Returns Nicira's number of a role; there is none for "no change".
    pub(crate) fn nicira(self) -> Result<u32, Unencodable> {
        self.number().checked_sub(1).ok_or(Unencodable::Absent("no change of a role"))
    }
}

numbered! {
    /// Why a controller's role changed.
    pub enum RoleReason: u8 {
        /// Another controller became the master.
        MasterRequest = 0,
        /// The switch was configured so.
        Config = 1,
        /// An experimenter's message.
        Experimenter = 2,
    }
}

/// Status message of a controller's role (OpenFlow 1.4 and later).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoleStatus {
    /// The controller's new role.
    pub role: Role,
    /// Reason of the change.
    pub reason: RoleReason,
    /// The generation of the master.
    pub generation: u64,
}

impl RoleStatus {
    pub(crate) fn decode(mut reader: Reader<'_>) -> Result<RoleStatus, Fault> {
        let role = Role::from_number(reader.u32()?).ok_or(Fault::BadRole)?;
        let reason = RoleReason::from_number(reader.u8()?).ok_or(Fault::BadReason)?;
        reader.skip(3)?;
        let generation = reader.u64()?;
        // The only properties are experimenters'.
        while property::next(&mut reader)?.is_some() {}
        Ok(RoleStatus { role, reason, generation })
    }

    pub(crate) fn encode(&self, out: &mut Writer) {
        out.u32(self.role.number());
        out.u8(self.reason.number());
        out.zeros(3);
        out.u64(self.generation);
    }
}

numbered! {
    /// Type of asynchronous message.
    pub enum AsyncKind: u8 {
        /// Packet-in messages.
        PacketIn = 0,
        /// Port status messages.
        PortStatus = 1,
        /// Flow-removed messages.
        FlowRemoved = 2,
        /// Role status messages (OpenFlow 1.4 and later).
        RoleStatus = 3,
        /// Table status messages, sent when tables fill or empty (OpenFlow 1.4 and later).
        TableStatus = 4,
        /// Forwarded requests of other controllers for groups and meters (OpenFlow 1.4 and later).
        RequestForward = 5,
        /// Flow statistics (OpenFlow 1.5).
        FlowStats = 6,
        /// Status of other controllers (OpenFlow 1.5).
        ControllerStatus = 7,
    }
}

/// Returns the mask of reasons defined for a type of message; all bits for a type without a list here.
fn defined_reasons(kind: u16) -> u32 {
    match kind {
        0 | 2 => 0x3f,
        1 | 3 => 0x7,
        4 => 0x18,
        5 => 0x3,
        _ => u32::MAX,
    }
}

/// Asynchronous messages that a controller wants: for each type a mask of reasons as a slave, and one in
/// other roles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AsyncConfig {
    /// By type, then for other roles and for slaves; absent masks stay as they are.
    masks: [[Option<u32>; 2]; 8],
}

impl AsyncConfig {
    /// Returns the mask of reasons for a type of message, as a slave or in another role.
    #[must_use]
    pub fn get(&self, kind: AsyncKind, slave: bool) -> Option<u32> {
        self.masks[usize::from(kind.number())][usize::from(slave)]
    }

    /// Returns the configuration with another mask for a type of message.
    #[must_use]
    pub fn with(mut self, kind: AsyncKind, slave: bool, reasons: u32) -> AsyncConfig {
        self.masks[usize::from(kind.number())][usize::from(slave)] = Some(reasons);
        self
    }

    /// Reads a configuration; in a `request` every property must be known.
    pub(crate) fn decode(
        reader: Reader<'_>,
        version: Version,
        request: bool,
    ) -> Result<AsyncConfig, Fault> {
        if version < Version::V14 {
            AsyncConfig::decode_fixed(reader)
        } else {
            AsyncConfig::decode_properties(reader, request)
        }
    }

    /// Reads the fixed structure: masks of three types, each for other roles and for slaves.
    pub(crate) fn decode_fixed(mut reader: Reader<'_>) -> Result<AsyncConfig, Fault> {
        let mut config = AsyncConfig::default();
        for masks in &mut config.masks[..3] {
            *masks = [Some(reader.u32()?), Some(reader.u32()?)];
        }
        reader.finish()?;
        Ok(config)
    }

    /// Reads properties, of which even types are for slaves and odd ones for other roles.
    pub(crate) fn decode_properties(
        mut reader: Reader<'_>,
        request: bool,
    ) -> Result<AsyncConfig, Fault> {
        let mut config = AsyncConfig::default();
        while let Some((kind, mut value)) = property::next(&mut reader)? {
            let Some(masks) = config.masks.get_mut(usize::from(kind / 2)) else {
                // Both 0xfffe and 0xffff are types of experimenters.
                match kind {
                    _ if !request => continue,
                    0xfffe.. => return Err(Fault::PropertyBadExperimenter),
                    _ => return Err(Fault::PropertyBadType),
                }
            };
            let mask = &mut masks[usize::from(1 - kind % 2)];
            let (reasons, known) = (value.u32()?, defined_reasons(kind / 2));
            value.finish()?;
            if request && reasons & !known != 0 {
                return Err(Fault::AsyncInvalid);
            }
            if mask.replace(reasons & known).is_some() {
                return Err(Fault::DuplicateProperty);
            }
        }
        Ok(config)
    }

    pub(crate) fn encode(&self, version: Version, out: &mut Writer) -> Result<(), Unencodable> {
        if version < Version::V14 {
            self.encode_fixed(out);
            return Ok(());
        }
        self.encode_properties(out)
    }

    pub(crate) fn encode_fixed(&self, out: &mut Writer) {
        for mask in self.masks[..3].iter().flatten() {
            out.u32(mask.unwrap_or(0));
        }
    }

    pub(crate) fn encode_properties(&self, out: &mut Writer) -> Result<(), Unencodable> {
        for (kind, masks) in (0u16..).zip(&self.masks) {
            for (slave, mask) in [(1, masks[1]), (0, masks[0])] {
                if let Some(mask) = mask {
                    let known = mask & defined_reasons(kind);
                    property::put(out, 2 * kind + (1 - slave), |out| out.u32(known))?;
                }
            }
        }
        Ok(())
    }
}
