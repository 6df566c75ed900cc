//! Messages that Open vSwitch's client and switch, and a controller, sent to each other: read, and
//! written again.

use linerate_openflow::wire::{ErrorMessage, Fault, Header, Message, Version};

const MESSAGES: [&str; 2] =
    [include_str!("../golden/open_vswitch.txt"), include_str!("../golden/faucet.txt")];

/// Messages that are written in another form of equal meaning; by a part of the command.
const OTHERWISE: &[(&str, &str)] = &[
    ("dl_vlan=0xffff", "without a tag its priority need not be said to count"),
    ("vlan_tci=0x1123/0x1fff", "1.0's own message can say it"),
    ("tun_flags=oam", "a mask of all bits the field has is no mask"),
    (
        "OpenFlow10 add-flow br0 table=0,priority=32,",
        "a small tunnel's number has a smaller action",
    ),
    ("OpenFlow10 add-flow br0 table=0,priority=102,", "1.0's own message can say it"),
    ("set_field:0x1/0xf->reg4", "one action for all fields sets them in 1.0"),
    ("set_field:0x12345678->metadata", "likewise"),
    ("set_field:7->tun_id", "likewise"),
    ("set_field:0x1122334455667788->xreg1", "likewise"),
    ("set_field:4000/0xf000->pkt_mark", "likewise"),
    ("exec(set_field:0x1->ct_mark,set_field:0x5/0xff->ct_label)", "likewise"),
    ("OpenFlow10 add-flow br0 table=0,priority=86,", "1.0's own message says less of IPv6"),
    ("OpenFlow10 add-flow br0 table=0,priority=95,", "1.0's own message can say it"),
    ("dump-flows br0", "flows of the above are among them"),
    ("c65faucet", "masks of all bits are none, and cookies without one are not asked for"),
];

fn bytes(hex: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
    (0..hex.len()).step_by(2).map(digits).collect()
}

/// A command with its messages, to the switch and from it.
pub(crate) struct Session {
    pub(crate) command: &'static str,
    pub(crate) messages: Vec<(bool, Vec<u8>)>,
}

pub(crate) fn sessions() -> Vec<Session> {
    let mut sessions: Vec<Session> = Vec::new();
    for line in MESSAGES.iter().flat_map(|text| text.lines()) {
        if let Some(command) = line.strip_prefix("# ") {
            sessions.push(Session { command, messages: Vec::new() });
        } else if let Some((way @ (">" | "<"), hex)) = line.split_once(' ') {
            let session = sessions.last_mut().expect("a command first");
            session.messages.push((way == ">", bytes(hex)));
        }
    }
    sessions
}

/// The messages of less than a kilobyte.
pub(crate) fn short_messages() -> Vec<Vec<u8>> {
    let messages = sessions().into_iter().flat_map(|session| session.messages);
    messages.map(|(_, bytes)| bytes).filter(|bytes| bytes.len() < 1000).collect()
}

#[test]
fn messages_are_read_and_written_as_they_were() {
    let (mut same, mut otherwise) = (0, 0);
    for session in sessions() {
        let command = session.command;
        let expected = OTHERWISE.iter().any(|(part, _)| command.contains(part));
        for (_, bytes) in &session.messages {
            let Ok((version, xid, message)) = Message::decode(bytes) else { continue };
            let again = message.encode(version, xid).unwrap_or_else(|error| {
                panic!("{command}: {error}: {message:?}");
            });
            if again == *bytes {
                same += 1;
                continue;
            }
            assert!(expected, "{command}:\n{bytes:02x?}\n{again:02x?}\n{message:?}");
            assert_eq!(Message::decode(&again), Ok((version, xid, message)), "{command}");
            otherwise += 1;
        }
    }
    assert!(same > 1000 && otherwise > 0, "{same} and {otherwise}");
}

/// The command for whose wrong action Open vSwitch answers with a fault of matches.
const IN_ACTION: &str = "OpenFlow15 add-flow br0 table=0,priority=50,";

/// Messages that Open vSwitch refused as malformed are refused here, with the same numbers, and no
/// others.
#[test]
fn faults_are_those_open_vswitch_had() {
    let mut refused = 0;
    for session in sessions() {
        for (to_switch, bytes) in &session.messages {
            let Err(fault) = Message::decode(bytes) else { continue };
            let command = session.command;
            assert!(to_switch, "{command}: {fault} in an answer: {bytes:02x?}");
            let header = Header::read(bytes).expect("a header");
            let answer = session.messages.iter().filter(|(to_switch, _)| !to_switch).find_map(
                |(_, bytes)| match Message::decode(bytes) {
                    Ok((version, xid, Message::Error(error))) if xid == header.xid => {
                        Some((version, error))
                    }
                    _ => None,
                },
            );
            let (version, error) = answer.unwrap_or_else(|| panic!("{command}: {fault}"));
            let fault = if command.contains(IN_ACTION) { Fault::BadWildcards } else { fault };
            assert_eq!(ErrorMessage::new(fault, version, bytes).code, error.code, "{command}");
            refused += 1;
        }
    }
    assert!(refused >= 4, "{refused}");
}

/// Flows that Open vSwitch took are consistent here, and those it refused for that are not.
#[test]
fn actions_fit_as_they_do_for_open_vswitch() {
    let mut fitting = 0;
    for session in sessions() {
        for (_, bytes) in session.messages.iter().filter(|(to_switch, _)| *to_switch) {
            let Ok((version, _, Message::FlowMod(flow))) = Message::decode(bytes) else { continue };
            if version == Version::V10 || flow.command.deletes() {
                continue;
            }
            assert_eq!(flow.check(), Ok(()), "{}: {flow:?}", session.command);
            fitting += 1;
        }
    }
    assert!(fitting > 200, "{fitting}");
}
