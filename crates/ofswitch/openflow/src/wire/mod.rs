//! OpenFlow's messages: read from bytes, and written as bytes.
//!
//! [`Message`] is one type for OpenFlow 1.0, 1.3, 1.4 and 1.5, and for the extensions of Nicira and
//! of ONF that Open vSwitch and its clients use. Differences of encoding alone do not show in it;
//! where versions differ in meaning it has both variants, and each names its version.
//!
//! ```
//! use linerate_openflow::wire::{Action, Field, FlowMod, Instruction, Match, Message, PortNumber, Version};
//!
//! let tcp = Match::new().with(Field::EthType, 0x0800).with(Field::IpProto, 6);
//! let to_2 = Action::Output { port: PortNumber(2), max_len: 0 };
//! let flow = FlowMod::add(0, 100, tcp, vec![Instruction::ApplyActions(vec![to_2])]);
//!
//! let bytes = Message::FlowMod(flow.clone()).encode(Version::V13, 1)?;
//! let (version, xid, message) = Message::decode(&bytes).expect("as it was written");
//! assert_eq!((version, xid, message), (Version::V13, 1, Message::FlowMod(flow)));
//! # Ok::<(), linerate_openflow::wire::Unencodable>(())
//! ```
//!
//! # Guarantees of reading
//!
//! No input makes it panic, loop, or take more memory than a small multiple of the message. All
//! lengths are checked: of the message, of each part, of padding. An error is a [`Fault`], which
//! has the numbers of each version ([`Fault::code`]); [`ErrorMessage::new`] makes the answer.
//! Values that mean nothing (a type, a command, a flag, a field, a mask) are faults where the
//! specification has an error for them. The content of padding is not looked at, as the
//! specification wants it, except where Nicira's extensions say that it must be zero.
//!
//! Rules that depend on the switch are not checked here: whether a port, a table, a group or a
//! queue exists, or whether the role allows it. Whether the actions of a flow fit its match is not
//! checked in reading either, as a deletion of flows need not care: that is [`FlowMod::check`].
//!
//! # Guarantees of writing
//!
//! A message that was read is written so that it is read as the same. A message that a version
//! lacks is an [`Unencodable`], never replaced by another; the exceptions are reasons and flags
//! that newer versions split up, which older ones send as the whole (an evicted flow was deleted),
//! and names that are too long, which are cut.
//!
//! # Not there
//!
//! OpenFlow 1.1 and 1.2, messages between a switch and several controllers about each other (1.5's
//! controller status), scheduled bundles' features, 1.5's triggers of statistics, Nicira's messages
//! for Geneve's options and IPFIX statistics, its `delete_field` action, and the fields [`field`]
//! names. They are faults when they come.

mod action;
mod bundle;
mod bytes;
mod connection_filter;
mod consistency;
mod elapsed;
mod error_message;
mod fault;
mod features;
pub mod field;
mod flow_mod;
mod flow_removed;
pub mod group;
mod hello;
mod instruction;
pub(crate) mod matching;
mod message;
pub mod meter;
pub mod multipart;
mod nicira;
mod numbered;
mod oxm;
mod oxs;
mod packet_in;
mod packet_out;
mod packet_type;
mod port;
mod port_number;
mod property;
pub mod queue;
mod role;
mod standard;
mod stream;
mod subfield;
mod table;
mod unencodable;
mod version;

pub use action::{
    Action, Bundle, Controller, Ct, Encap, EncapProperty, Learn, LearnDestination, LearnFlags,
    LearnSource, LearnSpec, Multipath, Nat, NatAddresses, NatFlags, Sample, Zone,
};
pub use bundle::{BundleAdd, BundleControl, BundleFlags, BundleStep};
pub use connection_filter::{ConnectionFilter, TupleFilter};
pub use elapsed::Elapsed;
pub use error_message::{ErrorMessage, QUOTED};
pub use fault::{Code, Fault, NICIRA, ONF};
pub use features::{Capabilities, Config, ConfigFlags, Features};
pub use field::Field;
pub use flow_mod::{ALL_TABLES, ANY_GROUP, CookieFilter, FlowFlags, FlowMod, FlowModCommand};
pub use flow_removed::{FlowRemoved, FlowRemovedReason};
pub use group::{Bucket, GroupCommand, GroupMod, GroupType, Selection};
pub use hello::Hello;
pub use instruction::Instruction;
pub use matching::{Match, VLAN_PRESENT};
pub use message::{HEADER, Header, Message};
pub use meter::{Band, BandEffect, MeterCommand, MeterFlags, MeterMod};
pub use multipart::{MultipartReply, MultipartRequest};
pub use nicira::{FlowFormat, NiciraMessage, PacketInFormat};
pub use oxm::{Entry, FieldId};
pub use packet_in::{PacketIn, PacketInReason};
pub use packet_out::PacketOut;
pub use packet_type::PacketType;
pub use port::{
    Ethernet, Port, PortConfig, PortFeatures, PortMod, PortReason, PortState, PortStatus,
    RawProperty,
};
pub use port_number::PortNumber;
pub use queue::{Queue, QueueConfig};
pub use role::{AsyncConfig, AsyncKind, Role, RoleMessage, RoleReason, RoleStatus};
pub use stream::Stream;
pub use subfield::Subfield;
pub use table::{
    TableConfig, TableDesc, TableMod, TableProperties, TableReason, TableStatus, Vacancy,
};
pub use unencodable::Unencodable;
pub use version::Version;
