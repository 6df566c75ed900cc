//! One flow in two versions: Open vSwitch's client wrote the same command in OpenFlow 1.0 and in
//! 1.3.

use std::collections::BTreeMap;

use linerate_openflow::wire::multipart::{FlowStats, Parts, Reply};
use linerate_openflow::wire::{
    Action, Entry, Field, FlowMod, GroupType, Instruction, Match, Message, MultipartReply, Version,
};

use crate::golden;

/// Flows that differ in meaning between versions, or have other actions; by a part of the command.
const OTHERWISE: &[(&str, &str)] = &[
    ("mod_vlan_vid:", "1.0 adds a tag where there is none; 1.3 is told to"),
    ("mod_vlan_pcp:", "likewise"),
    ("mod_tp_", "1.0 sets the port of any protocol; 1.3 that of TCP"),
    ("enqueue:", "1.3 chooses a queue, sends and forgets it"),
    ("mod_nw_ttl:", "1.0 has it as a field alone"),
    ("mod_nw_ecn:", "likewise"),
    ("set_field:", "1.0's client sets fields by Nicira's load, 64 bits at a time"),
    ("learn(", "1.3 has other fields for a tag"),
    ("load:", "likewise"),
    ("write_metadata:", "an instruction in 1.3"),
    ("goto_table:", "likewise"),
    ("write_actions(", "1.0 has no set of actions"),
    ("clear_actions", "likewise"),
];

/// Commands and the flow each wrote, in a version.
fn flows(version: &str) -> BTreeMap<String, FlowMod> {
    let mut flows = BTreeMap::new();
    for session in golden::sessions() {
        let Some(command) = session.command.strip_prefix(version) else { continue };
        for (_, bytes) in session.messages.iter().filter(|(to_switch, _)| *to_switch) {
            if let Ok((_, _, Message::FlowMod(flow))) = Message::decode(bytes) {
                flows.insert(command.to_owned(), flow);
            }
        }
    }
    flows
}

#[test]
fn flows_of_two_versions_are_the_same() {
    let (old, new) = (flows("ovs-ofctl -O OpenFlow10 "), flows("ovs-ofctl -O OpenFlow13 "));
    let mut same = 0;
    for (command, old) in &old {
        let Some(new) = new.get(command) else { continue };
        // 1.3 has no part of a priority, and the client leaves it out.
        if !command.contains("vlan_tci=0xf000/0xe000") {
            assert_eq!(old.matching, new.matching, "{command}");
        }
        assert_eq!(old.command, new.command, "{command}");
        let times = |flow: &FlowMod| (flow.priority, flow.idle_timeout, flow.hard_timeout);
        assert_eq!(times(old), times(new), "{command}");
        if OTHERWISE.iter().any(|(part, _)| command.contains(part)) {
            continue;
        }
        assert_eq!(old.instructions, new.instructions, "{command}");
        same += 1;
    }
    assert!(same > 80, "{same}");
}

/// The default weight of a bucket is one in a select group, and zero can be set.
#[test]
fn buckets_of_a_choice_have_a_weight() {
    for (kind, unsaid) in [(GroupType::Select, 1), (GroupType::All, 0)] {
        // A change of the group: 24 bytes, then the bucket, 8 bytes without actions and properties.
        let mut bytes = vec![6, 15, 0, 32, 0, 0, 0, 1, 0, 0, kind.number(), 0, 0, 0, 0, 9];
        bytes.extend([0, 8, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 8, 0, 0, 0, 0, 0, 1]);
        let (_, _, message) = Message::decode(&bytes).expect("a group");
        let Message::GroupMod(mut group) = message else { panic!("{message:?}") };
        assert_eq!(group.buckets[0].weight, unsaid);
        group.buckets[0].weight = 0;
        let message = Message::GroupMod(group);
        let bytes = message.encode(Version::V15, 1).expect("a message");
        assert_eq!(Message::decode(&bytes).map(|(_, _, message)| message), Ok(message));
    }
}

/// An action that 1.0 has others for is one action here, and written as each version has it.
#[test]
fn actions_are_written_as_the_version_has_them() {
    let written = |action: Action, version: Version| {
        let instructions = vec![Instruction::ApplyActions(vec![action])];
        let flow = FlowMod::add(0, 1, Match::new(), instructions);
        let bytes = Message::FlowMod(flow).encode(version, 0).map_err(|error| error.to_string())?;
        // Behind the fixed part, an empty match and the instruction's header.
        Ok::<_, String>(bytes[if version == Version::V10 { 72 } else { 64 }..].to_vec())
    };
    let source = || Action::SetField(Entry::exact(Field::EthSrc, 0x0102_0304_0506));
    let old = [0, 4, 0, 16, 1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0];
    let new = [0, 25, 0, 16, 0x80, 0, 8, 6, 1, 2, 3, 4, 5, 6, 0, 0];
    assert_eq!(written(source(), Version::V10).unwrap(), old);
    assert_eq!(written(source(), Version::V13).unwrap(), new);
    let nicira = |kind: u8| [0xff, 0xff, 0, 16, 0, 0, 0x23, 0x20, 0, kind, 0, 0, 0, 0, 0, 0];
    assert_eq!(written(Action::DecIpTtl, Version::V10).unwrap(), nicira(18));
    assert_eq!(written(Action::DecIpTtl, Version::V15).unwrap(), [0, 24, 0, 8, 0, 0, 0, 0]);
    assert_eq!(written(Action::PopVlan, Version::V10).unwrap(), [0, 3, 0, 8, 0, 0, 0, 0]);
    assert_eq!(written(Action::PopVlan, Version::V14).unwrap(), [0, 18, 0, 8, 0, 0, 0, 0]);
    // An action that a version lacks is not replaced by another.
    for (action, version) in [
        (Action::PushVlan(0x8100), Version::V10),
        (Action::CopyTtlIn, Version::V10),
        (Action::Meter(1), Version::V14),
        (Action::SetVlanVid(1), Version::V13),
        (Action::SetTpDst(1), Version::V15),
    ] {
        let error = written(action.clone(), version).unwrap_err();
        assert!(
            error.ends_with("cannot be said in this version of OpenFlow"),
            "{action:?}: {error}"
        );
    }
}

/// A controller of 1.0 gets updates for the flows that 1.0 can encode.
#[test]
fn answers_leave_out_flows_without_an_encoding() {
    let flow = |matching: Match, actions: Vec<Action>| {
        FlowStats::new(0, 1, matching, vec![Instruction::ApplyActions(actions)])
    };
    let said = flow(Match::new().with(Field::EthType, 0x0806), vec![Action::PopVlan]);
    let field = flow(Match::new().with(Field::Metadata, 1), vec![Action::PopVlan]);
    let action = flow(Match::new(), vec![Action::PushVlan(0x8100)]);
    let reply = Reply::Flow(vec![field, said.clone(), action]);
    let told = |version: Version| {
        let mut parts = Parts::new(&reply, version, 1).unwrap();
        assert_eq!(parts.add(&reply), Ok(Vec::new()), "there is room in one message");
        match Message::decode(&parts.finish()).unwrap() {
            (_, 1, Message::MultipartReply(MultipartReply { more: false, body })) => body,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(told(Version::V13), reply);
    let Reply::Flow(flows) = told(Version::V10) else { panic!("another answer") };
    assert_eq!(flows.len(), 1);
    assert_eq!(flows[0].instructions, said.instructions);
}
