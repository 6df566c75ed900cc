//! Faults of messages, and the numbers each version of the protocol has for them.
//!
//! Names are the same for all versions. Numbers are those of the specifications (1.0.2, 1.3.5 with
//! its extensions, 1.4.1, 1.5.1); where one has none, the one Open vSwitch uses, in Nicira's space
//! or ONF's.

use std::fmt;

use super::version::Version;

/// The number of Nicira, now Open vSwitch, as an experimenter.
pub const NICIRA: u32 = 0x0000_2320;
/// The number of the Open Networking Foundation as an experimenter.
pub const ONF: u32 = 0x4f4e_4600;

/// The type of Nicira's errors in OpenFlow 1.0, where experimenters had none.
pub(crate) const NICIRA_ERROR: u16 = 0xb0c2;
/// The type of experimenters' errors.
pub(crate) const EXPERIMENTER_ERROR: u16 = 0xffff;

/// The numbers of an error, as they are in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// Of the specification.
    Standard {
        /// Type of the error.
        kind: u16,
        /// Code within the type.
        code: u16,
    },
    /// Of an experimenter, in OpenFlow 1.2 and later.
    Experimenter {
        /// Number of the experimenter.
        experimenter: u32,
        /// Code of the error.
        code: u16,
    },
    /// Of an experimenter, in OpenFlow 1.0, by Nicira's extension.
    Vendor {
        /// Number of the experimenter.
        experimenter: u32,
        /// Type of the error.
        kind: u16,
        /// Code within the type.
        code: u16,
    },
}

impl Code {
    /// Returns the fault with these numbers in a version; of several the first, as OpenFlow 1.0 has
    /// one error for a slave and for any other peer without the right.
    #[must_use]
    pub fn fault(self, version: Version) -> Option<Fault> {
        Fault::ALL.iter().copied().find(|fault| fault.known(version) == Some(self))
    }
}

const NONE: Option<Code> = None;

const fn of(kind: u16, code: u16) -> Option<Code> {
    Some(Code::Standard { kind, code })
}

const fn nx10(kind: u16, code: u16) -> Option<Code> {
    Some(Code::Vendor { experimenter: NICIRA, kind, code })
}

const fn nx(code: u16) -> Option<Code> {
    Some(Code::Experimenter { experimenter: NICIRA, code })
}

const fn onf(code: u16) -> Option<Code> {
    Some(Code::Experimenter { experimenter: ONF, code })
}

/// A row is a fault, its numbers in 1.0, 1.3, 1.4 and 1.5, and its text.
macro_rules! faults {
    ($($name:ident: $v10:expr, $v13:expr, $v14:expr, $v15:expr; $text:literal,)*) => {
        /// Fault of a message, or reason for a refused request.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Fault {
            $(#[doc = concat!("It is said as: ", $text, ".")] $name,)*
        }

        impl Fault {
            /// Every fault.
            pub const ALL: &'static [Fault] = &[$(Fault::$name),*];

            /// The numbers of this version for it, where it has some.
            fn known(self, version: Version) -> Option<Code> {
                let [v10, v13, v14, v15] = match self {
                    $(Fault::$name => [$v10, $v13, $v14, $v15],)*
                };
                match version {
                    Version::V10 => v10,
                    Version::V13 => v13,
                    Version::V14 => v14,
                    Version::V15 => v15,
                }
            }

            fn text(self) -> &'static str {
                match self {
                    $(Fault::$name => $text,)*
                }
            }
        }
    };
}

faults! {
    // Hello.
    HelloIncompatible: of(0, 0), of(0, 0), of(0, 0), of(0, 0); "no version both sides speak",
    HelloNotPermitted: of(0, 1), of(0, 1), of(0, 1), of(0, 1); "hello is refused",
    // Requests.
    BadVersion: of(1, 0), of(1, 0), of(1, 0), of(1, 0); "the version of the message is not the one agreed on",
    BadType: of(1, 1), of(1, 1), of(1, 1), of(1, 1); "unknown type of message",
    BadMultipart: of(1, 2), of(1, 2), of(1, 2), of(1, 2); "unknown type of statistics or of a multipart message",
    BadExperimenter: of(1, 3), of(1, 3), of(1, 3), of(1, 3); "unknown experimenter",
    BadExperimenterType: of(1, 4), of(1, 4), of(1, 4), of(1, 4); "unknown type of an experimenter's message",
    NotPermitted: of(1, 5), of(1, 5), of(1, 5), of(1, 5); "the request is refused",
    BadLength: of(1, 6), of(1, 6), of(1, 6), of(1, 6); "wrong length for this type of message",
    BufferEmpty: of(1, 7), of(1, 7), of(1, 7), of(1, 7); "the buffer has been used already",
    BufferUnknown: of(1, 8), of(1, 8), of(1, 8), of(1, 8); "no such buffer",
    BadTableId: nx10(1, 512), of(1, 9), of(1, 9), of(1, 9); "no such table",
    IsSlave: of(1, 5), of(1, 10), of(1, 10), of(1, 10); "the controller has the role of a slave",
    BadPort: nx10(1, 514), of(1, 11), of(1, 11), of(1, 11); "no such port, or none where one must be",
    BadPacket: NONE, of(1, 12), of(1, 12), of(1, 12); "the packet of a packet-out cannot be read",
    MultipartOverflow: NONE, of(1, 13), of(1, 13), of(1, 13); "the parts of a multipart request are too many",
    MultipartRequestTimeout: NONE, onf(2640), of(1, 14), of(1, 14); "the parts of a multipart request did not come in time",
    MultipartReplyTimeout: NONE, onf(2641), of(1, 15), of(1, 15); "the parts of a multipart reply did not come in time",
    MultipartBadSchedule: NONE, NONE, NONE, of(1, 16); "the tolerance for scheduled bundles cannot be changed so",
    PipelineFieldsOnly: NONE, NONE, NONE, of(1, 17); "only pipeline fields may be given with a packet",
    Unknown: NONE, NONE, NONE, of(1, 18); "the request failed",
    NxmInvalid: nx10(1, 256), nx(2), nx(2), nx(2); "a field of the match is not what Nicira's format allows",
    NxmBadType: nx10(1, 257), nx(3), nx(3), nx(3); "unknown field in Nicira's format",
    MustBeZero: nx10(1, 515), nx(4), nx(4), nx(4); "what must be zero is not",
    BadReason: nx10(1, 516), nx(5), nx(5), nx(5); "unknown reason",
    UnencodableError: nx10(1, 521), nx(10), nx(10), nx(10); "an error this version has no number for",
    // Actions.
    ActionBadType: of(2, 0), of(2, 0), of(2, 0), of(2, 0); "unknown action",
    ActionBadLength: of(2, 1), of(2, 1), of(2, 1), of(2, 1); "wrong length of an action",
    ActionBadExperimenter: of(2, 2), of(2, 2), of(2, 2), of(2, 2); "unknown experimenter of an action",
    ActionBadExperimenterType: of(2, 3), of(2, 3), of(2, 3), of(2, 3); "unknown action of this experimenter",
    BadOutPort: of(2, 4), of(2, 4), of(2, 4), of(2, 4); "packets cannot be sent to this port",
    ActionBadArgument: of(2, 5), of(2, 5), of(2, 5), of(2, 5); "wrong argument of an action",
    ActionNotPermitted: of(2, 6), of(2, 6), of(2, 6), of(2, 6); "the action is refused",
    TooManyActions: of(2, 7), of(2, 7), of(2, 7), of(2, 7); "too many actions",
    BadQueue: of(2, 8), of(2, 8), of(2, 8), of(2, 8); "no such queue",
    BadOutGroup: nx10(2, 9), of(2, 9), of(2, 9), of(2, 9); "no such group",
    MatchInconsistent: nx10(1, 522), of(2, 10), of(2, 10), of(2, 10); "the action does not fit the match",
    UnsupportedOrder: NONE, of(2, 11), of(2, 11), of(2, 11); "actions cannot be done in this order",
    ActionBadTag: NONE, of(2, 12), of(2, 12), of(2, 12); "the action needs a tag there is none of",
    BadSetType: nx10(1, 523), of(2, 13), of(2, 13), of(2, 13); "unknown field in an action",
    BadSetLength: nx10(1, 524), of(2, 14), of(2, 14), of(2, 14); "wrong length of a field in an action",
    BadSetArgument: nx10(1, 525), of(2, 15), of(2, 15), of(2, 15); "the field cannot have this value, or cannot be set",
    BadSetMask: NONE, onf(4250), onf(4250), of(2, 16); "a set-field action with a mask",
    ActionBadMeter: NONE, NONE, NONE, of(2, 17); "no such meter",
    ActionMustBeZero: nx10(2, 256), nx(11), nx(11), nx(11); "what must be zero in an action is not",
    BadConjunction: nx10(2, 526), nx(15), nx(15), nx(15); "a conjunction beside other actions, or with numbers that do not fit",
    BadHeaderType: NONE, nx(39), nx(39), nx(39); "no header of this type can be added or taken away",
    UnknownEncapProperty: NONE, nx(40), nx(40), nx(40); "unknown property of a header to add or take away",
    BadEncapProperty: NONE, nx(41), nx(41), nx(41); "a property of a header to add cannot have this value",
    ConnectionsUnsupported: nx10(1, 265), nx(42), nx(42), nx(42); "the action needs connection tracking that is not there",
    // Instructions.
    UnknownInstruction: NONE, of(3, 0), of(3, 0), of(3, 0); "unknown instruction",
    UnsupportedInstruction: nx10(2, 257), of(3, 1), of(3, 1), of(3, 1); "the table has no such instruction",
    InstructionBadTableId: NONE, of(3, 2), of(3, 2), of(3, 2); "no table to go to",
    UnsupportedMetadata: NONE, of(3, 3), of(3, 3), of(3, 3); "metadata cannot have this value",
    UnsupportedMetadataMask: NONE, of(3, 4), of(3, 4), of(3, 4); "metadata cannot be written with this mask",
    InstructionBadExperimenter: NONE, of(3, 5), of(3, 5), of(3, 5); "unknown experimenter of an instruction",
    InstructionBadExperimenterType: NONE, of(3, 6), of(3, 6), of(3, 6); "unknown instruction of this experimenter",
    InstructionBadLength: NONE, of(3, 7), of(3, 7), of(3, 7); "wrong length of an instruction",
    InstructionNotPermitted: NONE, of(3, 8), of(3, 8), of(3, 8); "the instruction is refused",
    DuplicateInstruction: NONE, onf(2600), of(3, 9), of(3, 9); "an instruction twice",
    // Matches.
    MatchBadType: NONE, of(4, 0), of(4, 0), of(4, 0); "unknown type of match",
    MatchBadLength: NONE, of(4, 1), of(4, 1), of(4, 1); "wrong length of a match or of a field in it",
    MatchBadTag: NONE, of(4, 2), of(4, 2), of(4, 2); "the match needs a tag there is none of",
    BadEthernetMask: NONE, of(4, 3), of(4, 3), of(4, 3); "addresses of Ethernet cannot be matched with this mask",
    BadNetworkMask: NONE, of(4, 4), of(4, 4), of(4, 4); "network addresses cannot be matched with this mask",
    BadWildcards: nx10(1, 262), of(4, 5), of(4, 5), of(4, 5); "a value has bits that its mask has not",
    BadField: nx10(0, 263), of(4, 6), of(4, 6), of(4, 6); "unknown field in a match",
    BadValue: nx10(1, 258), of(4, 7), of(4, 7), of(4, 7); "the field cannot have this value",
    BadMask: nx10(1, 259), of(4, 8), of(4, 8), of(4, 8); "the field cannot be matched with this mask",
    BadPrerequisite: nx10(1, 260), of(4, 9), of(4, 9), of(4, 9); "a field without the ones it needs before it",
    DuplicateField: nx10(1, 261), of(4, 10), of(4, 10), of(4, 10); "a field twice",
    MatchNotPermitted: NONE, of(4, 11), of(4, 11), of(4, 11); "the match is refused",
    MatchConnectionsUnsupported: nx10(1, 264), nx(43), nx(43), nx(43); "the match needs connection tracking that is not there",
    // Changes of flows.
    FlowModUnknown: NONE, of(5, 0), of(5, 0), of(5, 0); "the flow could not be changed",
    TableFull: of(3, 0), of(5, 1), of(5, 1), of(5, 1); "the table is full",
    FlowModBadTableId: NONE, of(5, 2), of(5, 2), of(5, 2); "no table for the flow",
    Overlap: of(3, 1), of(5, 3), of(5, 3), of(5, 3); "another flow of this priority overlaps",
    FlowModNotPermitted: of(3, 2), of(5, 4), of(5, 4), of(5, 4); "the change of flows is refused",
    BadTimeout: NONE, of(5, 5), of(5, 5), of(5, 5); "flows cannot have this time-out",
    BadEmergencyTimeout: of(3, 3), NONE, NONE, NONE; "an emergency flow with a time-out",
    FlowModBadCommand: of(3, 4), of(5, 6), of(5, 6), of(5, 6); "unknown change of flows",
    FlowModBadFlags: nx10(3, 258), of(5, 7), of(5, 7), of(5, 7); "unknown flags of a flow",
    CannotSynchronize: NONE, NONE, of(5, 8), of(5, 8); "the table cannot be kept in step with another",
    BadPriority: NONE, onf(2360), of(5, 9), of(5, 9); "flows cannot have this priority",
    IsSynchronized: NONE, NONE, of(5, 10), of(5, 10); "the flow is kept in step with another table",
    UnsupportedActionList: of(3, 5), NONE, NONE, NONE; "actions cannot be done in this order (OpenFlow 1.0)",
    // Changes of groups.
    GroupExists: nx10(6, 0), of(6, 0), of(6, 0), of(6, 0); "the group exists",
    InvalidGroup: nx10(6, 1), of(6, 1), of(6, 1), of(6, 1); "no valid group",
    WeightUnsupported: nx10(6, 2), of(6, 2), of(6, 2), of(6, 2); "buckets cannot have unequal weights",
    OutOfGroups: nx10(6, 3), of(6, 3), of(6, 3), of(6, 3); "no room for another group",
    OutOfBuckets: nx10(6, 4), of(6, 4), of(6, 4), of(6, 4); "too many buckets",
    ChainingUnsupported: nx10(6, 5), of(6, 5), of(6, 5), of(6, 5); "groups cannot forward to groups",
    WatchUnsupported: nx10(6, 6), of(6, 6), of(6, 6), of(6, 6); "the bucket cannot watch this port or group",
    GroupLoop: nx10(6, 7), of(6, 7), of(6, 7), of(6, 7); "groups would forward in a circle",
    UnknownGroup: nx10(6, 8), of(6, 8), of(6, 8), of(6, 8); "no such group to change",
    ChainedGroup: nx10(6, 9), of(6, 9), of(6, 9), of(6, 9); "another group forwards to the group",
    GroupBadType: nx10(6, 10), of(6, 10), of(6, 10), of(6, 10); "unknown type of group",
    GroupBadCommand: nx10(6, 11), of(6, 11), of(6, 11), of(6, 11); "unknown change of groups",
    BadBucket: nx10(6, 12), of(6, 12), of(6, 12), of(6, 12); "a bucket is wrong",
    BadWatch: nx10(6, 13), of(6, 13), of(6, 13), of(6, 13); "a watched port or group is wrong",
    GroupNotPermitted: nx10(6, 14), of(6, 14), of(6, 14), of(6, 14); "the change of groups is refused",
    UnknownBucket: nx10(6, 15), NONE, NONE, of(6, 15); "no such bucket",
    BucketExists: nx10(6, 16), NONE, NONE, of(6, 16); "the bucket exists",
    // Changes of ports.
    PortModBadPort: of(4, 0), of(7, 0), of(7, 0), of(7, 0); "no such port to change",
    BadHardwareAddress: of(4, 1), of(7, 1), of(7, 1), of(7, 1); "the address is not the port's",
    PortBadConfig: NONE, of(7, 2), of(7, 2), of(7, 2); "ports cannot be configured so",
    BadAdvertise: NONE, of(7, 3), of(7, 3), of(7, 3); "ports cannot advertise this",
    PortModNotPermitted: NONE, of(7, 4), of(7, 4), of(7, 4); "the change of ports is refused",
    // Changes of tables.
    TableModBadTable: NONE, of(8, 0), of(8, 0), of(8, 0); "no such table to change",
    TableBadConfig: NONE, of(8, 1), of(8, 1), of(8, 1); "tables cannot be configured so",
    TableModNotPermitted: NONE, of(8, 2), of(8, 2), of(8, 2); "the change of tables is refused",
    // Queues.
    QueueBadPort: of(5, 0), of(9, 0), of(9, 0), of(9, 0); "no port with queues",
    QueueUnknown: of(5, 1), of(9, 1), of(9, 1), of(9, 1); "the port has no such queue",
    QueueNotPermitted: of(5, 2), of(9, 2), of(9, 2), of(9, 2); "asking for queues is refused",
    // The switch's configuration.
    ConfigBadFlags: NONE, of(10, 0), of(10, 0), of(10, 0); "unknown flags of the switch",
    ConfigBadLength: NONE, of(10, 1), of(10, 1), of(10, 1); "packets cannot be sent with this length",
    ConfigNotPermitted: NONE, of(10, 2), of(10, 2), of(10, 2); "the change of the switch is refused",
    // Roles.
    Stale: NONE, of(11, 0), of(11, 0), of(11, 0); "an old generation of masters",
    RoleUnsupported: NONE, of(11, 1), of(11, 1), of(11, 1); "roles cannot be changed",
    BadRole: nx10(1, 513), of(11, 2), of(11, 2), of(11, 2); "unknown role",
    IdUnsupported: NONE, NONE, NONE, of(11, 3); "identifiers cannot be changed",
    IdInUse: NONE, NONE, NONE, of(11, 4); "another controller has this identifier",
    // Changes of meters.
    MeterUnknown: NONE, of(12, 0), of(12, 0), of(12, 0); "the meter could not be changed",
    MeterExists: NONE, of(12, 1), of(12, 1), of(12, 1); "the meter exists",
    InvalidMeter: NONE, of(12, 2), of(12, 2), of(12, 2); "no valid meter",
    UnknownMeter: NONE, of(12, 3), of(12, 3), of(12, 3); "no such meter to change",
    MeterBadCommand: NONE, of(12, 4), of(12, 4), of(12, 4); "unknown change of meters",
    MeterBadFlags: NONE, of(12, 5), of(12, 5), of(12, 5); "meters cannot have these flags",
    BadRate: NONE, of(12, 6), of(12, 6), of(12, 6); "meters cannot have this rate",
    BadBurst: NONE, of(12, 7), of(12, 7), of(12, 7); "meters cannot have this burst",
    BadBand: NONE, of(12, 8), of(12, 8), of(12, 8); "unknown band",
    BadBandValue: NONE, of(12, 9), of(12, 9), of(12, 9); "bands cannot have this value",
    OutOfMeters: NONE, of(12, 10), of(12, 10), of(12, 10); "no room for another meter",
    OutOfBands: NONE, of(12, 11), of(12, 11), of(12, 11); "too many bands",
    // Features of tables.
    FeaturesBadTable: NONE, of(13, 0), of(13, 0), of(13, 0); "no such table in features",
    FeaturesBadMetadata: NONE, of(13, 1), of(13, 1), of(13, 1); "features with a wrong mask of metadata",
    FeaturesNotPermitted: NONE, of(13, 5), of(13, 5), of(13, 5); "the change of features is refused",
    FeaturesBadCapability: NONE, NONE, NONE, of(13, 6); "tables cannot have these capabilities",
    FeaturesBadSize: NONE, NONE, NONE, of(13, 7); "tables cannot have this size",
    FeaturesBadFlags: NONE, NONE, NONE, of(13, 8); "tables cannot have these features",
    FeaturesBadCommand: NONE, NONE, NONE, of(13, 9); "unknown change of features",
    TooManyTables: NONE, NONE, NONE, of(13, 10); "too many tables",
    DuplicateTable: NONE, nx(44), nx(44), nx(44); "a table twice",
    // Properties.
    PropertyBadType: nx10(13, 2), of(13, 2), of(14, 0), of(14, 0); "unknown property",
    PropertyBadLength: nx10(13, 3), of(13, 3), of(14, 1), of(14, 1); "wrong length of a property",
    PropertyBadValue: nx10(13, 4), of(13, 4), of(14, 2), of(14, 2); "wrong value of a property",
    TooManyProperties: nx10(14, 3), onf(4443), of(14, 3), of(14, 3); "too many properties",
    DuplicateProperty: nx10(14, 4), onf(4444), of(14, 4), of(14, 4); "a property twice",
    PropertyBadExperimenter: nx10(14, 5), onf(4445), of(14, 5), of(14, 5); "unknown experimenter of a property",
    PropertyBadExperimenterType: nx10(14, 6), onf(4446), of(14, 6), of(14, 6); "unknown property of this experimenter",
    PropertyBadExperimenterValue: nx10(14, 7), onf(4447), of(14, 7), of(14, 7); "wrong value of an experimenter's property",
    PropertyNotPermitted: nx10(14, 8), onf(4448), of(14, 8), of(14, 8); "the property is refused",
    // Asynchronous messages.
    AsyncInvalid: NONE, onf(2370), of(15, 0), of(15, 0); "a mask of asynchronous messages is wrong",
    AsyncUnsupported: NONE, onf(2371), of(15, 1), of(15, 1); "asynchronous messages cannot be chosen so",
    AsyncNotPermitted: NONE, onf(2372), of(15, 2), of(15, 2); "the choice of asynchronous messages is refused",
    // Flow monitors.
    MonitorUnknown: NONE, NONE, of(16, 0), of(16, 0); "the flow monitor could not be changed",
    MonitorExists: nx10(1, 517), nx(6), of(16, 1), of(16, 1); "the flow monitor exists",
    InvalidMonitor: NONE, NONE, of(16, 2), of(16, 2); "no valid flow monitor, or too many",
    UnknownMonitor: nx10(1, 519), nx(8), of(16, 3), of(16, 3); "no such flow monitor",
    MonitorBadCommand: NONE, NONE, of(16, 4), of(16, 4); "unknown change of flow monitors",
    MonitorBadFlags: nx10(1, 518), nx(7), of(16, 5), of(16, 5); "flow monitors cannot have these flags",
    MonitorBadTable: NONE, NONE, of(16, 6), of(16, 6); "no such table to monitor",
    MonitorBadOut: NONE, NONE, of(16, 7), of(16, 7); "flows to this port or group cannot be monitored",
    MonitorBadEvent: nx10(1, 520), nx(9), nx(9), nx(9); "unknown event of a flow monitor",
    // Bundles.
    BundleUnknown: NONE, onf(2300), of(17, 0), of(17, 0); "the bundle failed",
    BundleNotPermitted: NONE, onf(2301), of(17, 1), of(17, 1); "the bundle is refused",
    BundleBadId: NONE, onf(2302), of(17, 2), of(17, 2); "no such bundle",
    BundleExists: NONE, onf(2303), of(17, 3), of(17, 3); "the bundle exists",
    BundleClosed: NONE, onf(2304), of(17, 4), of(17, 4); "the bundle is closed",
    OutOfBundles: NONE, onf(2305), of(17, 5), of(17, 5); "too many bundles",
    BundleBadType: NONE, onf(2306), of(17, 6), of(17, 6); "unknown step of a bundle",
    BundleBadFlags: NONE, onf(2307), of(17, 7), of(17, 7); "unknown flags of a bundle, or others than before",
    BundleBadLength: NONE, onf(2308), of(17, 8), of(17, 8); "wrong length of a message in a bundle",
    BundleBadXid: NONE, onf(2309), of(17, 9), of(17, 9); "a message in a bundle has another transaction",
    BundleUnsupported: NONE, onf(2310), of(17, 10), of(17, 10); "bundles cannot have this message",
    BundleConflict: NONE, onf(2311), of(17, 11), of(17, 11); "bundles cannot have these messages together",
    BundleTooMany: NONE, onf(2312), of(17, 12), of(17, 12); "too many messages in a bundle",
    BundleFailed: NONE, onf(2313), of(17, 13), of(17, 13); "a message of the bundle failed",
    BundleTimeout: NONE, onf(2314), of(17, 14), of(17, 14); "the bundle takes too long",
    BundleInProgress: NONE, onf(2315), of(17, 15), of(17, 15); "another bundle is in progress",
    ScheduleUnsupported: NONE, NONE, NONE, of(17, 16); "bundles cannot be scheduled",
    ScheduleFuture: NONE, NONE, NONE, of(17, 17); "the bundle is scheduled too late",
    SchedulePast: NONE, NONE, NONE, of(17, 18); "the bundle is scheduled too early",
    BundleBadVersion: NONE, NONE, nx(22), nx(22); "a message in a bundle has another version",
    // Packets that wait.
    ResumeUnsupported: nx10(1, 533), nx(34), nx(34), nx(34); "packets cannot be resumed",
    ResumeStale: nx10(1, 534), nx(35), nx(35), nx(35); "the packet to resume is gone",
}

impl Fault {
    /// Returns the numbers in this version.
    ///
    /// Where there are none they are those of [`Fault::UnencodableError`].
    #[must_use]
    pub fn code(self, version: Version) -> Code {
        const UNENCODABLE: Code = Code::Vendor { experimenter: NICIRA, kind: 1, code: 521 };
        self.known(version)
            .or_else(|| Fault::UnencodableError.known(version))
            .unwrap_or(UNENCODABLE)
    }

    /// Returns the fault with these numbers in a version.
    #[must_use]
    pub fn from_code(code: Code, version: Version) -> Option<Fault> {
        Fault::ALL.iter().copied().find(|fault| fault.known(version) == Some(code))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.text())
    }
}

impl std::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_faults_are_each_others() {
        for version in Version::ALL {
            for &fault in Fault::ALL {
                if let Some(code) = fault.known(version) {
                    let found = code.fault(version).expect("a number of a fault is known");
                    // The one number that is two faults' in OpenFlow 1.0.
                    let slave = version == Version::V10 && fault == Fault::IsSlave;
                    assert_eq!(found, if slave { Fault::NotPermitted } else { fault }, "{version}");
                } else {
                    assert_eq!(fault.code(version), Fault::UnencodableError.code(version));
                }
            }
        }
    }

    #[test]
    fn numbers_differ_between_versions() {
        let standard = |kind, code| Code::Standard { kind, code };
        assert_eq!(Fault::Overlap.code(Version::V10), standard(3, 1));
        assert_eq!(Fault::Overlap.code(Version::V13), standard(5, 3));
        assert_eq!(Fault::PropertyBadLength.code(Version::V13), standard(13, 3));
        assert_eq!(Fault::PropertyBadLength.code(Version::V15), standard(14, 1));
        let onf = Code::Experimenter { experimenter: ONF, code: 2600 };
        assert_eq!(Fault::DuplicateInstruction.code(Version::V13), onf);
    }
}
