//! Malformed messages, and the error each is: its type and code as the specification numbers them.

use linerate_openflow::wire::{
    Action, Code, Encap, Entry, Fault, Field, FlowMod, Instruction, Match, Message, NICIRA, ONF,
    PacketType, Version,
};

/// Hexadecimal digits, with blanks between fields.
fn bytes(text: &str) -> Vec<u8> {
    let digits: Vec<char> = text.chars().filter(|digit| !digit.is_whitespace()).collect();
    let byte = |pair: &[char]| {
        u8::from_str_radix(&pair.iter().collect::<String>(), 16).expect("hexadecimal")
    };
    digits.chunks(2).map(byte).collect()
}

/// A message of this version and type, with its right length.
fn message(version: Version, kind: u8, body: &str) -> Vec<u8> {
    let body = bytes(body);
    let length = (8 + body.len() as u16).to_be_bytes();
    let mut message = vec![version.number(), kind, length[0], length[1], 0, 0, 0, 9];
    message.extend(body);
    message
}

#[track_caller]
fn assert_fault(version: Version, message: &[u8], fault: Fault) {
    match Message::decode(message) {
        Err(found) => assert_eq!(found, fault, "{message:02x?} in {version}"),
        Ok(read) => panic!("{message:02x?} is read as {read:?} in {version}"),
    }
}

const FLOW_MOD: u8 = 14;

/// A flow-mod of OpenFlow 1.3 for table 1 up to its match: an add with nothing special.
const ADD: &str =
    "0000000000000000 0000000000000000 01 00 0000 0000 8000 ffffffff ffffffff ffffffff 0000 0000";
/// A match of everything.
const ANYTHING: &str = "0001 0004 00000000";

#[track_caller]
fn flow_fault(rest: &str, fault: Fault) {
    for version in [Version::V13, Version::V14, Version::V15] {
        assert_fault(version, &message(version, FLOW_MOD, &format!("{ADD}{rest}")), fault);
    }
}

/// The fields of a match, padded.
fn fields(hex: &str) -> String {
    let length = 4 + bytes(hex).len();
    let padding = "00".repeat(length.next_multiple_of(8) - length);
    format!("0001 {length:04x} {hex} {padding}")
}

/// An apply-actions of actions of OpenFlow 1.3, behind a match of everything.
fn apply(hex: &str) -> String {
    format!("{ANYTHING} 0004 {:04x} 00000000 {hex}", 8 + bytes(hex).len())
}

#[test]
fn headers() {
    assert_fault(Version::V13, &[4, 2, 0], Fault::BadLength);
    assert_fault(Version::V13, &bytes("04 02 0009 00000001"), Fault::BadLength);
    assert_fault(Version::V13, &bytes("04 02 0007 00000001"), Fault::BadLength);
    for version in [0, 2, 3, 7, 0x81] {
        let mut echo = bytes("00 02 0008 00000001");
        echo[0] = version;
        assert_fault(Version::V13, &echo, Fault::BadVersion);
    }
    // Hello comes before there is a version.
    assert!(Message::decode(&bytes("09 00 0008 00000001")).is_ok());
    assert_fault(Version::V13, &message(Version::V13, 30, ""), Fault::BadType);
    assert_fault(Version::V14, &message(Version::V14, 22, "00000001 00000000"), Fault::BadType);
    assert_fault(Version::V10, &message(Version::V10, 22, ""), Fault::BadType);
    for version in Version::ALL {
        assert_fault(version, &message(version, 5, "00"), Fault::BadLength);
        assert_fault(version, &message(version, 4, "00001111 00000001"), Fault::BadExperimenter);
        assert_fault(
            version,
            &message(version, 4, "00002320 000000ff"),
            Fault::BadExperimenterType,
        );
    }
}

#[test]
fn matches() {
    flow_fault("0000 0058 00000000", Fault::MatchBadType);
    flow_fault("0001 0003 00000000", Fault::MatchBadLength);
    flow_fault("0001 000c 80000004", Fault::MatchBadLength);
    flow_fault(&fields("80000003 000001"), Fault::MatchBadLength);
    flow_fault(&fields("80000a03 080000"), Fault::MatchBadLength);
    flow_fault(&fields("8000fe02 0001"), Fault::BadField);
    flow_fault(&fields("00050002 0001"), Fault::BadField);
    flow_fault(&fields("ffff0008 00001111 00000001"), Fault::BadField);
    flow_fault(&fields("ffff0002 0000"), Fault::MatchBadLength);
    flow_fault(&fields("80000108 00000001 0000000f"), Fault::BadMask);
    flow_fault(&fields("8000090c 001122334455 ffffff000000"), Fault::BadWildcards);
    flow_fault(&fields("80000a02 0800 80000a02 0800"), Fault::DuplicateField);
    flow_fault(&fields("80000a02 0800 00000602 0800"), Fault::DuplicateField);
    flow_fault(&fields("00010604 00000001 80010208 0000000000000001"), Fault::DuplicateField);
    // Needed fields must come before.
    flow_fault(&fields("80002c04 0a000001"), Fault::BadPrerequisite);
    flow_fault(&fields("80001604 0a000001"), Fault::BadPrerequisite);
    flow_fault(&fields("80001401 06 80000a02 0800"), Fault::BadPrerequisite);
    flow_fault(&fields("80000a02 0806 80001604 0a000001"), Fault::BadPrerequisite);
    flow_fault(&fields("80000a02 0800 80001401 11 80001a02 0050"), Fault::BadPrerequisite);
    flow_fault(&fields("80000e01 03"), Fault::BadPrerequisite);
    flow_fault(&fields("80000c02 0000 80000e01 03"), Fault::BadPrerequisite);
    flow_fault(
        &fields("80000a02 86dd 80001401 3a 80003a01 87 80004206 001122334455"),
        Fault::BadPrerequisite,
    );
    // Values wider than the field, and a VLAN without a tag.
    flow_fault(&fields("80000a02 8847 80004404 00100000"), Fault::BadValue);
    flow_fault(&fields("80000c02 2001"), Fault::BadValue);
    flow_fault(&fields("80000a02 894f ffff1405 005ad650 40"), Fault::BadValue);
    flow_fault(&fields("80000a02 894f ffff0405 005ad650 03"), Fault::BadValue);
    flow_fault(&fields("80000a02 0800 ffff1405 005ad650 10"), Fault::BadPrerequisite);
    flow_fault(&fields("80000c02 0001"), Fault::BadValue);
}

#[test]
fn flow_mods() {
    let with = |from: &str, to: &str| {
        let changed = ADD.replacen(from, to, 1);
        assert_ne!(changed, ADD);
        message(Version::V13, FLOW_MOD, &format!("{changed}{ANYTHING}"))
    };
    assert_fault(Version::V13, &with("01 00", "01 05"), Fault::FlowModBadCommand);
    assert_fault(Version::V13, &with("01 00", "ff 00"), Fault::FlowModBadTableId);
    assert_fault(Version::V13, &with("ffffffff 0000", "ffffffff 0020"), Fault::FlowModBadFlags);
    assert!(Message::decode(&with("01 00", "ff 03")).is_ok(), "all tables may be deleted from");
    assert_fault(Version::V13, &message(Version::V13, FLOW_MOD, &ADD[..60]), Fault::BadLength);

    // OpenFlow 1.0: a command, flags, and flows for emergencies, for which there is no room.
    let body = |command: &str, flags: &str| {
        let any = format!("003820ff{}", "00".repeat(36));
        let rest = format!("0000000000000000 {command} 0000 0000 8000 ffffffff ffff {flags}");
        message(Version::V10, FLOW_MOD, &(any + &rest))
    };
    assert!(Message::decode(&body("0000", "0003")).is_ok());
    assert_fault(Version::V10, &body("0007", "0000"), Fault::FlowModBadCommand);
    assert_fault(Version::V10, &body("0000", "0008"), Fault::FlowModBadFlags);
    assert_fault(Version::V10, &body("0000", "0004"), Fault::TableFull);
}

/// In OpenFlow 1.0 a match of all fields comes first, and one that leaves one out does not.
#[test]
fn exact_matches_of_1_0() {
    let priority = |wildcards: &str| {
        let fields = format!("{wildcards} 0001 {} 0800 00 06 {}", "00".repeat(16), "00".repeat(14));
        let rest = "0000000000000000 0000 0000 0000 0007 ffffffff ffff 0000";
        match Message::decode(&message(Version::V10, FLOW_MOD, &(fields + rest))) {
            Ok((_, _, Message::FlowMod(flow))) => flow.priority,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(priority("00000000"), 0xffff);
    assert_eq!(priority("00000001"), 7);
    assert_eq!(priority("00000100"), 7, "one bit of an address");
}

#[test]
fn instructions() {
    let of = |hex: &str| format!("{ANYTHING} {hex}");
    flow_fault(&of("0009 0008 00000000"), Fault::UnknownInstruction);
    flow_fault(&of("0000 0008 00000000"), Fault::UnknownInstruction);
    flow_fault(&of("ffff 0008 00001111"), Fault::InstructionBadExperimenter);
    flow_fault(&of("0001 0004"), Fault::InstructionBadLength);
    flow_fault(&of("0001 000c 02000000 00000000"), Fault::InstructionBadLength);
    flow_fault(&of("0001 0010 02000000 0000000000000000"), Fault::InstructionBadLength);
    flow_fault(&of("0002 0010 00000000 0000000000000000"), Fault::InstructionBadLength);
    flow_fault(&of("0005 0018 00000000"), Fault::InstructionBadLength);
    flow_fault(&of("0001 0008 01000000"), Fault::InstructionBadTableId);
    flow_fault(&of("0001 0008 ff000000"), Fault::InstructionBadTableId);
    flow_fault(&of("0005 0008 00000000 0005 0008 00000000"), Fault::DuplicateInstruction);
    // Actions that depend on their place are no part of a set.
    flow_fault(
        &of("0003 0018 00000000 ffff 0010 00002320 0011 000000000000"),
        Fault::ActionBadType,
    );
}

#[test]
fn actions() {
    let fault = |hex: &str, fault: Fault| flow_fault(&apply(hex), fault);
    fault("0000 0010 00000000 0000 000000000000", Fault::BadOutPort);
    fault("0000 0010 ffffffff 0000 000000000000", Fault::BadOutPort);
    fault("0000 0010 ffffff00 0000 000000000000", Fault::BadOutPort);
    fault("0000 0008 00000001", Fault::ActionBadLength);
    fault("0000 0018 00000001 0000 000000000000 0000000000000000", Fault::ActionBadLength);
    fault("0012 0004 00000000", Fault::ActionBadLength);
    fault("0012 0010 00000000", Fault::ActionBadLength);
    fault("000a 0008 00000000", Fault::ActionBadType);
    fault("0063 0008 00000000", Fault::ActionBadType);
    fault("ffff 0010 00001111 0001 000000000000", Fault::ActionBadExperimenter);
    fault("ffff 0010 00002320 00fe 000000000000", Fault::ActionBadExperimenterType);
    fault("ffff 0010 4f4e4600 0001 000000000000", Fault::ActionBadExperimenterType);
    fault("ffff 0010 00002320 002e 0000 00010800", Fault::BadHeaderType);
    fault("ffff 0018 00002320 002e 0000 00000000 0004010501000000", Fault::UnknownEncapProperty);
    fault("ffff 0018 00002320 002f 0000 0000fffe 0004010501000000", Fault::UnknownEncapProperty);
    let nsh = |hex: &str, wanted: Fault| {
        let length = 16 + bytes(hex).len();
        fault(&format!("ffff {length:04x} 00002320 002e 0000 0001894f {hex}"), wanted);
    };
    nsh("0004030501000000", Fault::UnknownEncapProperty);
    nsh("0005010501000000", Fault::UnknownEncapProperty);
    nsh("0004010301000000", Fault::ActionBadLength);
    nsh("0004010401000000", Fault::BadEncapProperty);
    nsh("0004010503000000", Fault::BadEncapProperty);
    nsh("0004010901000000 0000000000000000", Fault::BadEncapProperty);
    nsh("0004020810000a01", Fault::BadEncapProperty);
    nsh("0004021010000a00 0000000000000000", Fault::BadEncapProperty);
    nsh("0004021010000a01", Fault::ActionBadLength);
    nsh(&format!("0004028810000a80 {}", "00".repeat(128)), Fault::BadEncapProperty);
    // Each is short enough, but not both together.
    let long = format!("0004028810000a7f {}", "00".repeat(128));
    nsh(&format!("{long} {long}"), Fault::BadEncapProperty);
    fault("0011 0008 0800 0000", Fault::ActionBadArgument);
    fault("0013 0008 0800 0000", Fault::ActionBadArgument);
    fault("001a 0008 8100 0000", Fault::ActionBadArgument);
    // A time to live of more than six bits.
    fault("0019 0010 ffff 14 05 005ad650 40 000000", Fault::BadSetArgument);
    // Set-field: unknown, of a wrong length, read-only, too wide, a VLAN without its tag.
    fault("0019 0010 8000fe02 0001 000000000000", Fault::BadSetType);
    fault("0019 0010 80000a03 080000 0000000000", Fault::BadSetLength);
    fault("0019 0010 80000204 00000001 00000000", Fault::BadSetArgument);
    fault("0019 0010 80000004 00000001 00000000", Fault::BadSetArgument);
    fault("0019 0010 80000e01 08 00000000000000", Fault::BadSetArgument);
    fault("0019 0010 80000c02 0005 000000000000", Fault::BadSetArgument);
    fault(
        "0019 0020 80000a02 0800 000000000000 00000000000000000000000000000000",
        Fault::ActionBadLength,
    );
    for version in [Version::V13, Version::V14] {
        let masked = apply("0019 0010 80001708 0a000000 ff000000");
        let message = message(version, FLOW_MOD, &format!("{ADD}{masked}"));
        assert_fault(version, &message, Fault::BadSetMask);
    }
    // Nicira's: a field there is none of, one bit too far, a value that does not fit.
    fault("ffff 0018 00002320 0007 001f 0001ff04 0000000000000001", Fault::BadSetType);
    fault("ffff 0018 00002320 0007 005f 00010004 0000000000000001", Fault::BadSetLength);
    fault("ffff 0018 00002320 0007 0003 00010004 0000000000000010", Fault::ActionBadArgument);
    fault("ffff 0018 00002320 0006 0010 0000 0018 00010004 00010204", Fault::BadSetLength);
    fault("ffff 0018 00002320 0006 0000 0000 0000 00010004 00010204", Fault::BadSetLength);
    fault("ffff 0010 00002320 000e fff8 03 000001", Fault::ActionBadArgument);
    fault("ffff 0010 00002320 0022 02 02 00000001", Fault::BadConjunction);
    fault("ffff 0010 00002320 0022 00 01 00000001", Fault::BadConjunction);
    fault("ffff 0010 00002320 0022 00 02 00000001 0012 0008 00000000", Fault::BadConjunction);
    fault(
        "ffff 0020 00002320 000a 0007 0000 0000 0000 0000 00000000 0000 001f 00010004",
        Fault::ActionBadArgument,
    );
    fault(
        "ffff 0020 00002320 000a 0000 0000 0000 0004 0000 00000000 0000 001f 00010004",
        Fault::ActionBadArgument,
    );
    fault(
        "ffff 0020 00002320 000a 0000 0000 0000 0000 0010 00000000 0000 0003 00010004",
        Fault::ActionBadArgument,
    );
    // Connections: force without commit; actions that are not theirs; theirs outside.
    fault("ffff 0018 00002320 0023 0002 00000000 0000 ff 000000 0000", Fault::ActionBadArgument);
    fault(
        "ffff 0028 00002320 0023 0001 00000000 0000 ff 000000 0000 0000 0010 00000001 0000 000000000000",
        Fault::ActionBadArgument,
    );
    fault("0019 0010 0001d604 00000001 00000000", Fault::BadSetArgument);
    fault("ffff 0010 00002320 0024 0000 0001 0000", Fault::BadSetArgument);
}

#[test]
fn actions_do_not_nest_for_ever() {
    // A clone in a clone, and so on, as deep as a message can be.
    let depth = 2000;
    let mut actions = Vec::new();
    for level in 0..depth {
        let length = (16 * (depth - level)) as u16;
        actions.extend(bytes("ffff"));
        actions.extend(length.to_be_bytes());
        actions.extend(bytes("00002320 002a 000000000000"));
    }
    let hex: String = actions.iter().map(|byte| format!("{byte:02x}")).collect();
    flow_fault(&apply(&hex), Fault::TooManyActions);
}

#[test]
fn actions_of_1_0() {
    let fault = |hex: &str, fault: Fault| {
        let length = bytes(hex).len();
        let body = format!("ffffffff ffff {length:04x} {hex}");
        assert_fault(Version::V10, &message(Version::V10, 13, &body), fault);
    };
    fault("0000 0008 0000 0000", Fault::BadOutPort);
    fault("0000 0010 0001 0000 0000000000000000", Fault::ActionBadLength);
    fault("000c 0008 00000000", Fault::ActionBadType);
    fault("0001 0008 1000 0000", Fault::ActionBadArgument);
    fault("0002 0008 08 000000", Fault::ActionBadArgument);
    fault("0008 0008 01 000000", Fault::ActionBadArgument);
    fault("000b 0010 fffb 000000000000 00000001", Fault::BadOutPort);
    fault("000b 0008 00000000", Fault::ActionBadLength);
}

#[test]
fn packet_outs() {
    let v13 = |hex: &str, fault| assert_fault(Version::V13, &message(Version::V13, 13, hex), fault);
    v13("ffffffff 00000000 0000 000000000000", Fault::BadPort);
    v13("ffffffff fffffffb 0000 000000000000", Fault::BadPort);
    v13("ffffffff 00000001 0010 000000000000 0012 0008 00000000", Fault::ActionBadLength);
    v13("ffffffff 00000001 0000", Fault::BadLength);
    let v15 = |hex: &str, fault| assert_fault(Version::V15, &message(Version::V15, 13, hex), fault);
    v15("ffffffff 0000 0000 0001 0004 00000000", Fault::BadPort);
    v15(
        &format!("ffffffff 0000 0000 {}", fields("80000004 00000001 80000a02 0800")),
        Fault::PipelineFieldsOnly,
    );
}

#[test]
fn groups_meters_ports_tables_roles() {
    let v13 = |kind, hex: &str, fault| {
        assert_fault(Version::V13, &message(Version::V13, kind, hex), fault);
    };
    const GROUP: u8 = 15;
    let bucket = "0020 0000 ffffffff ffffffff 00000000 0000 0010 00000001 0000 000000000000";
    v13(GROUP, "0003 00 00 00000001", Fault::GroupBadCommand);
    v13(GROUP, "0000 04 00 00000001", Fault::GroupBadType);
    v13(GROUP, "0000 00 00 ffffff01", Fault::InvalidGroup);
    v13(GROUP, "0000 02 00 00000001", Fault::InvalidGroup);
    v13(GROUP, &format!("0000 02 00 00000001 {bucket} {bucket}"), Fault::InvalidGroup);
    v13(GROUP, &format!("0000 03 00 00000001 {bucket}"), Fault::InvalidGroup);
    v13(
        GROUP,
        &format!("0000 00 00 00000001 {}", bucket.replacen("ffffffff", "00000001", 1)),
        Fault::WatchUnsupported,
    );
    v13(GROUP, "0000 00 00 00000001 0008 0000 ffffffff", Fault::BadBucket);
    v13(
        GROUP,
        "0000 00 00 00000001 0014 0000 ffffffff ffffffff 00000000 00000000",
        Fault::BadBucket,
    );
    v13(GROUP, &format!("0000 00 00 00000001 {}", &bucket[..bucket.len() - 4]), Fault::BadBucket);
    assert_fault(
        Version::V15,
        &message(Version::V15, GROUP, "0000 00 00 00000001 0000 0000 00000001"),
        Fault::BadBucket,
    );

    const METER: u8 = 29;
    v13(METER, "0003 0001 00000001", Fault::MeterBadCommand);
    v13(METER, "0000 0003 00000001", Fault::MeterBadFlags);
    v13(METER, "0000 0010 00000001", Fault::MeterBadFlags);
    v13(METER, "0000 0001 00000000", Fault::InvalidMeter);
    v13(METER, "0000 0001 ffff0001", Fault::InvalidMeter);
    v13(METER, "0000 0001 00000001 0003 0010 00000001 00000000 00000000", Fault::BadBand);
    v13(METER, "0000 0001 00000001 0001 000c 00000001 00000000", Fault::BadLength);

    let port = |mask: &str| {
        format!("00000001 00000000 001122334455 0000 00000000 {mask} 00000000 00000000")
    };
    v13(16, &port("00000010"), Fault::PortBadConfig);
    v13(16, &port("00000080"), Fault::PortBadConfig);
    v13(17, "01000000 00000004", Fault::TableBadConfig);
    v13(9, "0004 0080", Fault::ConfigBadFlags);
    v13(24, "00000004 00000000 0000000000000000", Fault::BadRole);
    v13(18, "00ff 0000 00000000", Fault::BadMultipart);
    v13(18, "000e 0000 00000000", Fault::BadMultipart);
    v13(18, "0003 0000 00000000 00", Fault::BadLength);
    v13(18, "ffff 0000 00000000 00001111 00000000", Fault::BadExperimenter);

    let v14 = |kind, hex: &str, fault| {
        assert_fault(Version::V14, &message(Version::V14, kind, hex), fault);
    };
    v14(17, "01000000 00000004 0009 0008 00000000", Fault::PropertyBadType);
    v14(
        17,
        "01000000 00000004 ffff 000c 00001111 00000000 00000000",
        Fault::PropertyBadExperimenter,
    );
    v14(17, "01000000 00000008 0003 0008 50140000", Fault::PropertyBadValue);
    v14(17, "01000000 00000008 0003 0003 50140000", Fault::PropertyBadLength);
    v14(17, "01000000 00000008 0003 0010 50140000", Fault::PropertyBadLength);
    v14(17, "01000000 00000008 0002 0008 00000001 0002 0008 00000001", Fault::DuplicateProperty);
    v14(28, "0000 0008 00000001 0000 0008 00000001", Fault::DuplicateProperty);
    v14(28, "0000 0008 00000040", Fault::AsyncInvalid);
    v14(28, "0009 0008 00000001", Fault::AsyncInvalid);
    v14(33, "00000001 0008 0000", Fault::BundleBadType);
    v14(33, "00000001 0000 0008", Fault::BundleBadFlags);
    v14(34, "00000001 0000 0000 0502 0009 00000009", Fault::BundleBadLength);
    v14(34, "00000001 0000 0000 0402 0008 00000009", Fault::BundleBadVersion);
    v14(34, "00000001 0000 0000 0502 0008 0000000a", Fault::BundleBadXid);
}

/// Features of tables, which clients ask for first.
#[test]
fn features_of_tables() {
    let table = |properties: &str| {
        let length = 64 + bytes(properties).len();
        let fixed = format!("{length:04x} 01 {} {}", "00".repeat(5), "00".repeat(56));
        message(Version::V13, 18, &format!("000c 0000 00000000 {fixed} {properties}"))
    };
    assert!(Message::decode(&table("0000 0008 0001 0004")).is_ok());
    assert_fault(Version::V13, &table("0010 0004 00000000"), Fault::PropertyBadType);
    assert_fault(Version::V13, &table("0009 0004 00000000"), Fault::PropertyBadType);
    assert_fault(Version::V13, &table("0000 0008 0001 0003"), Fault::PropertyBadLength);
    assert_fault(Version::V13, &table("0008 0006 8000 0000"), Fault::PropertyBadLength);
    let twice = "0002 0005 01 000000 0002 0005 02 000000";
    assert_fault(Version::V13, &table(twice), Fault::DuplicateProperty);
}

/// The numbers that go out, spelt out for those that differ between versions.
#[test]
fn numbers() {
    let standard = |kind, code| Code::Standard { kind, code };
    let experimenter = |experimenter, code| Code::Experimenter { experimenter, code };
    let vendor = |kind, code| Code::Vendor { experimenter: NICIRA, kind, code };
    let of = |fault: Fault| Version::ALL.map(|version| fault.code(version));
    let same = |kind, code| [standard(kind, code); 4];
    assert_eq!(of(Fault::BadVersion), same(1, 0));
    assert_eq!(of(Fault::BadLength), same(1, 6));
    assert_eq!(of(Fault::BadOutPort), same(2, 4));
    let since_11 = |old, kind, code| {
        let new = standard(kind, code);
        [old, new, new, new]
    };
    let none = vendor(1, 521);
    assert_eq!(of(Fault::BadField), since_11(vendor(0, 263), 4, 6));
    assert_eq!(of(Fault::BadPrerequisite), since_11(vendor(1, 260), 4, 9));
    assert_eq!(of(Fault::BadSetArgument), since_11(vendor(1, 525), 2, 15));
    assert_eq!(of(Fault::FlowModBadCommand), since_11(standard(3, 4), 5, 6));
    assert_eq!(of(Fault::TableFull), since_11(standard(3, 0), 5, 1));
    assert_eq!(of(Fault::UnknownInstruction), since_11(none, 3, 0));
    assert_eq!(of(Fault::InvalidGroup), since_11(vendor(6, 1), 6, 1));
    assert_eq!(of(Fault::UnknownMeter), since_11(none, 12, 3));
    assert_eq!(of(Fault::QueueBadPort), since_11(standard(5, 0), 9, 0));
    assert_eq!(
        of(Fault::PropertyBadType),
        [vendor(13, 2), standard(13, 2), standard(14, 0), standard(14, 0)]
    );
    assert_eq!(
        of(Fault::BadSetMask),
        [none, experimenter(ONF, 4250), experimenter(ONF, 4250), standard(2, 16)]
    );
    assert_eq!(
        of(Fault::BundleBadId),
        [none, experimenter(ONF, 2302), standard(17, 2), standard(17, 2)]
    );
    assert_eq!(
        of(Fault::BadConjunction),
        [
            vendor(2, 526),
            experimenter(NICIRA, 15),
            experimenter(NICIRA, 15),
            experimenter(NICIRA, 15)
        ]
    );
}

/// Actions that need a header are only for flows whose packets have it.
#[test]
fn actions_that_do_not_fit() {
    let matching = |fields: &[(Field, u128)]| {
        fields.iter().map(|&(field, value)| Entry::exact(field, value)).collect::<Match>()
    };
    let ip = matching(&[(Field::EthType, 0x0800)]);
    let tcp = matching(&[(Field::EthType, 0x0800), (Field::IpProto, 6)]);
    let tag = matching(&[(Field::VlanVid, 0x1005)]);
    let mpls = matching(&[(Field::EthType, 0x8847)]);
    let label = matching(&[(Field::PacketType, PacketType::MPLS.0.into())]);
    let nsh = matching(&[(Field::EthType, 0x894f)]);
    let service = matching(&[(Field::PacketType, PacketType::NSH.0.into())]);
    let any = Match::new();
    let set = |field, value| Action::SetField(Entry::exact(field, value));
    let encap = |packet_type| Action::Encap(Encap::new(packet_type));
    let check = |matching: &Match, actions: &[Action]| {
        let instructions = vec![Instruction::ApplyActions(actions.to_vec())];
        FlowMod::add(0, 1, matching.clone(), instructions).check()
    };
    let tag_set = || set(Field::VlanVid, 0x1006);
    let fitting: &[(&Match, &[Action])] = &[
        (&any, &[set(Field::EthSrc, 1), set(Field::Reg3, 1)]),
        (&ip, &[Action::DecIpTtl, set(Field::Ipv4Src, 1)]),
        (&tcp, &[set(Field::TcpDst, 80)]),
        (&tag, &[tag_set(), set(Field::VlanPcp, 3), Action::PopVlan, Action::PopVlan]),
        (&any, &[Action::PushVlan(0x8100), tag_set()]),
        (&any, &[Action::PushMpls(0x8847), set(Field::MplsLabel, 7), Action::DecMplsTtl]),
        (&mpls, &[Action::PopMpls(0x0800), Action::DecIpTtl]),
        (&ip, &[set(Field::IpProto, 17), set(Field::UdpDst, 53)]),
        (&any, &[Action::PushPbb(0x88e7), set(Field::PbbIsid, 9), Action::PopPbb, Action::PopVlan]),
        (&ip, &[Action::Decap(PacketType::NEXT), set(Field::Ipv4Src, 1)]),
        (&ip, &[Action::Decap(PacketType::NEXT), encap(PacketType::ETHERNET), Action::DecIpTtl]),
        (&any, &[encap(PacketType::MPLS), set(Field::MplsLabel, 7)]),
        (&any, &[encap(PacketType::MPLS), encap(PacketType::ETHERNET), set(Field::EthSrc, 1)]),
        (&label, &[Action::Decap(PacketType::NEXT), set(Field::Metadata, 1)]),
        (&nsh, &[set(Field::NshSpi, 1), Action::DecNshTtl, Action::Decap(PacketType::NEXT)]),
        (&service, &[set(Field::NshC1, 1), Action::DecNshTtl, encap(PacketType::ETHERNET)]),
        (&ip, &[encap(PacketType::NSH), set(Field::NshSi, 1), encap(PacketType::NSH)]),
        (&any, &[encap(PacketType::NSH), encap(PacketType::ETHERNET), set(Field::EthSrc, 1)]),
    ];
    for (matching, actions) in fitting {
        assert_eq!(check(matching, actions), Ok(()), "{matching:?}: {actions:?}");
    }
    let unfit: &[(&Match, &[Action])] = &[
        (&any, &[Action::DecIpTtl]),
        (&any, &[set(Field::Ipv4Src, 1)]),
        (&ip, &[set(Field::TcpDst, 80)]),
        (&tcp, &[set(Field::UdpDst, 80)]),
        (&any, &[tag_set()]),
        (&any, &[Action::PopVlan]),
        (&ip, &[Action::PopMpls(0x0800)]),
        (&ip, &[Action::PushMpls(0x8847), Action::DecIpTtl]),
        (&mpls, &[Action::PopMpls(0x0800), set(Field::TcpDst, 80)]),
        (&any, &[Action::PopPbb]),
        (&any, &[Action::Clone(vec![Action::DecMplsTtl])]),
        (&ip, &[Action::Decap(PacketType::NEXT), set(Field::EthSrc, 1)]),
        (&ip, &[encap(PacketType::MPLS), Action::DecIpTtl]),
        (&ip, &[encap(PacketType::MPLS), set(Field::EthSrc, 1)]),
        (&ip, &[Action::Decap(PacketType::NEXT), Action::PushMpls(0x8847)]),
        (&label, &[Action::Decap(PacketType::NEXT), set(Field::MplsLabel, 7)]),
        (&ip, &[Action::DecNshTtl]),
        (&ip, &[set(Field::NshSpi, 1)]),
        (&ip, &[encap(PacketType::NSH), Action::DecIpTtl]),
        (&service, &[set(Field::EthSrc, 1)]),
        (&service, &[Action::Decap(PacketType::NEXT), Action::DecNshTtl]),
    ];
    for (matching, actions) in unfit {
        assert_eq!(
            check(matching, actions),
            Err(Fault::MatchInconsistent),
            "{matching:?}: {actions:?}"
        );
    }
    // Changes of a copy do not show in the packet; written actions are done after applied ones.
    let copied = [Action::Clone(vec![Action::PushMpls(0x8847)]), Action::DecMplsTtl];
    assert_eq!(check(&ip, &copied), Err(Fault::MatchInconsistent));
    let both = vec![
        Instruction::WriteActions(vec![tag_set()]),
        Instruction::ApplyActions(vec![Action::PushVlan(0x8100)]),
    ];
    assert_eq!(FlowMod::add(0, 1, any, both).check(), Ok(()));
}
