//! Features of tables: requests for them, and changes.
//!
//! Clients ask before anything else, for the names of tables. A switch that answers has to name the
//! matches, fields to set and actions of each table (OpenFlow 1.3.5, section 7.3.5.5).

use crate::wire::bytes::{Reader, Writer};
use crate::wire::fault::Fault;
use crate::wire::numbered::numbered;
use crate::wire::oxm::{FieldId, IN_MATCH};
use crate::wire::port::RawProperty;
use crate::wire::property;
use crate::wire::unencodable::Unencodable;
use crate::wire::version::Version;

const NAME: usize = 32;
/// A type that goes on with an experimenter.
const EXPERIMENTER: u16 = 0xffff;

numbered! {
    /// Command on features (OpenFlow 1.5).
    pub enum FeaturesCommand: u8 {
        /// Tables have these and no others.
        Replace = 0,
        /// These tables have these.
        Modify = 1,
        /// These tables are used.
        Enable = 2,
        /// These tables are not.
        Disable = 3,
    }
}

/// The type of an action or an instruction, perhaps of an experimenter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KindId {
    /// The type.
    pub kind: u16,
    /// Number of the experimenter, when the type is theirs.
    pub experimenter: Option<u32>,
}

impl KindId {
    /// A type of the specification.
    #[must_use]
    pub fn standard(kind: u16) -> KindId {
        KindId { kind, experimenter: None }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<KindId, Fault> {
        let (kind, length) = (reader.u16()?, reader.u16()?);
        // Some write the length of an action, which it is not here.
        let mut rest =
            reader.part(usize::from(length).checked_sub(4).ok_or(Fault::PropertyBadLength)?)?;
        let experimenter =
            if kind == EXPERIMENTER && !rest.is_empty() { Some(rest.u32()?) } else { None };
        Ok(KindId { kind, experimenter })
    }

    fn encode(&self, out: &mut Writer) {
        out.u16(self.kind);
        out.u16(if self.experimenter.is_some() { 8 } else { 4 });
        self.experimenter.iter().for_each(|&experimenter| out.u32(experimenter));
    }
}

/// Feature of a table. Where it may differ for packets that match no flow, `miss` is set for that
/// of these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableProperty {
    /// These instructions.
    Instructions {
        /// For packets that match no flow.
        miss: bool,
        /// Their types.
        kinds: Vec<KindId>,
    },
    /// Going on in these tables.
    NextTables {
        /// For packets that match no flow.
        miss: bool,
        /// Their numbers.
        tables: Vec<u8>,
    },
    /// These actions among those done at the end.
    WriteActions {
        /// For packets that match no flow.
        miss: bool,
        /// Their types.
        kinds: Vec<KindId>,
    },
    /// These actions done at once.
    ApplyActions {
        /// For packets that match no flow.
        miss: bool,
        /// Their types.
        kinds: Vec<KindId>,
    },
    /// Fields in matches, with the mask bit for those that may be masked.
    Match(Vec<FieldId>),
    /// These fields left out of matches.
    Wildcards(Vec<FieldId>),
    /// Fields that can be set by actions at the end.
    WriteSetField {
        /// For packets that match no flow.
        miss: bool,
        /// The fields.
        fields: Vec<FieldId>,
    },
    /// These fields set at once.
    ApplySetField {
        /// For packets that match no flow.
        miss: bool,
        /// The fields.
        fields: Vec<FieldId>,
    },
    /// Any other property, as it came: an experimenter's, or a newer one.
    Other(RawProperty),
}

const INSTRUCTIONS: u16 = 0;
const NEXT_TABLES: u16 = 2;
const WRITE_ACTIONS: u16 = 4;
const APPLY_ACTIONS: u16 = 6;
const MATCH: u16 = 8;
const WILDCARDS: u16 = 10;
const WRITE_SET_FIELD: u16 = 12;
const APPLY_SET_FIELD: u16 = 14;
/// The greatest type OpenFlow 1.5 has below those of experimenters.
const NEWEST: u16 = 22;

impl TableProperty {
    fn decode(kind: u16, mut value: Reader<'_>, version: Version) -> Result<TableProperty, Fault> {
        let miss = kind & 1 == 1;
        let property = match kind & !1 {
            INSTRUCTIONS => TableProperty::Instructions { miss, kinds: kinds(&mut value)? },
            NEXT_TABLES => TableProperty::NextTables { miss, tables: value.rest().to_vec() },
            WRITE_ACTIONS => TableProperty::WriteActions { miss, kinds: kinds(&mut value)? },
            APPLY_ACTIONS => TableProperty::ApplyActions { miss, kinds: kinds(&mut value)? },
            MATCH if !miss => TableProperty::Match(fields(&mut value)?),
            WILDCARDS if !miss => TableProperty::Wildcards(fields(&mut value)?),
            WRITE_SET_FIELD => TableProperty::WriteSetField { miss, fields: fields(&mut value)? },
            APPLY_SET_FIELD => TableProperty::ApplySetField { miss, fields: fields(&mut value)? },
            _ if is_other(kind, version) => other(kind, &mut value),
            _ => return Err(Fault::PropertyBadType),
        };
        value.finish()?;
        Ok(property)
    }

    fn encode(&self, version: Version, out: &mut Writer) -> Result<(), Unencodable> {
        let (kind, miss) = match self {
            TableProperty::Instructions { miss, .. } => (INSTRUCTIONS, *miss),
            TableProperty::NextTables { miss, .. } => (NEXT_TABLES, *miss),
            TableProperty::WriteActions { miss, .. } => (WRITE_ACTIONS, *miss),
            TableProperty::ApplyActions { miss, .. } => (APPLY_ACTIONS, *miss),
            TableProperty::Match(_) => (MATCH, false),
            TableProperty::Wildcards(_) => (WILDCARDS, false),
            TableProperty::WriteSetField { miss, .. } => (WRITE_SET_FIELD, *miss),
            TableProperty::ApplySetField { miss, .. } => (APPLY_SET_FIELD, *miss),
            TableProperty::Other(other) => {
                if !is_other(other.kind, version) {
                    return Err(Unencodable::Absent("this property of tables"));
                }
                return other.encode(out);
            }
        };
        property::put(out, kind | u16::from(miss), |out| match self {
            TableProperty::Instructions { kinds, .. }
            | TableProperty::WriteActions { kinds, .. }
            | TableProperty::ApplyActions { kinds, .. } => {
                kinds.iter().for_each(|kind| kind.encode(out));
            }
            TableProperty::NextTables { tables, .. } => out.bytes(tables),
            TableProperty::Match(fields)
            | TableProperty::Wildcards(fields)
            | TableProperty::WriteSetField { fields, .. }
            | TableProperty::ApplySetField { fields, .. } => {
                fields.iter().for_each(|field| field.encode(out));
            }
            TableProperty::Other(_) => {}
        })
    }
}

/// Returns true if a version has such a property that is kept as it came.
fn is_other(kind: u16, version: Version) -> bool {
    let newer = kind > APPLY_SET_FIELD + 1 && kind <= NEWEST && version > Version::V13;
    newer || kind >= 0xfffe
}

fn other(kind: u16, value: &mut Reader<'_>) -> TableProperty {
    TableProperty::Other(RawProperty { kind, value: value.rest().to_vec() })
}

fn kinds(value: &mut Reader<'_>) -> Result<Vec<KindId>, Fault> {
    let mut kinds = Vec::new();
    while !value.is_empty() {
        kinds.push(KindId::decode(value)?);
    }
    Ok(kinds)
}

fn fields(value: &mut Reader<'_>) -> Result<Vec<FieldId>, Fault> {
    let mut fields = Vec::new();
    while !value.is_empty() {
        fields.push(FieldId::decode(value, &IN_MATCH)?);
    }
    Ok(fields)
}

/// Features of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableFeatures {
    /// Its number.
    pub table: u8,
    /// Command on the features, in a request of OpenFlow 1.5.
    pub command: FeaturesCommand,
    /// Bits of OpenFlow 1.5: ingress, egress, the first of egress.
    pub features: u32,
    /// Its name, of at most 31 bytes.
    pub name: String,
    /// The bits of metadata it can match.
    pub metadata_match: u64,
    /// The bits of metadata it can write.
    pub metadata_write: u64,
    /// Its configuration, in OpenFlow 1.3; later the flags that can be set.
    pub config: u32,
    /// Flows at most.
    pub max_entries: u32,
    /// Its properties.
    pub properties: Vec<TableProperty>,
}

impl TableFeatures {
    pub(super) fn decode(
        reader: &mut Reader<'_>,
        version: Version,
    ) -> Result<TableFeatures, Fault> {
        let length = usize::from(reader.u16()?);
        let mut body = reader.part(length.checked_sub(2).ok_or(Fault::BadLength)?)?;
        let table = body.u8()?;
        let (mut command, mut features) = (body.u8()?, body.u32()?);
        if version != Version::V15 {
            (command, features) = (0, 0);
        }
        let command = FeaturesCommand::from_number(command).ok_or(Fault::FeaturesBadCommand)?;
        let name = body.text(NAME)?;
        let (metadata_match, metadata_write) = (body.u64()?, body.u64()?);
        let (config, max_entries) = (body.u32()?, body.u32()?);
        let mut properties: Vec<TableProperty> = Vec::new();
        let mut seen: u64 = 0;
        while let Some((kind, value)) = property::next(&mut body)? {
            // Those of experimenters may come more than once.
            if kind < 64 {
                if seen >> kind & 1 == 1 {
                    return Err(Fault::DuplicateProperty);
                }
                seen |= 1 << kind;
            }
            properties.push(TableProperty::decode(kind, value, version)?);
        }
        Ok(TableFeatures {
            table,
            command,
            features,
            name,
            metadata_match,
            metadata_write,
            config,
            max_entries,
            properties,
        })
    }

    pub(super) fn encode(&self, version: Version, out: &mut Writer) -> Result<(), Unencodable> {
        let start = out.len();
        out.u16(0);
        out.u8(self.table);
        if version == Version::V15 {
            out.u8(self.command.number());
            out.u32(self.features);
        } else {
            out.zeros(5);
        }
        out.text(&self.name, NAME);
        out.u64(self.metadata_match);
        out.u64(self.metadata_write);
        out.u32(self.config);
        out.u32(self.max_entries);
        self.properties.iter().try_for_each(|property| property.encode(version, out))?;
        out.length(start, start)
    }
}
