//! Requests of controllers, and the messages they get: roles, bundles, asynchronous messages.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use linerate_ofswitch::control::{Agent, AgentOptions, FailMode};
use linerate_ofswitch::key::Key;
use linerate_ofswitch::pipeline::Punt;
use linerate_ofswitch::switch::{Switch, SwitchOptions};
use linerate_openflow::wire::multipart::{FlowRequest, Reply, Request};
use linerate_openflow::wire::{
    Action, AsyncConfig, AsyncKind, Bucket, BundleAdd, BundleControl, BundleFlags, BundleStep,
    Config, ConfigFlags, ErrorMessage, Fault, Field, FlowFlags, FlowMod, FlowModCommand,
    FlowRemovedReason, GroupCommand, GroupMod, GroupType, Instruction, Match, Message,
    MultipartRequest, NiciraMessage, PacketIn, PacketInFormat, PacketInReason, PacketOut,
    PortConfig, PortMod, PortNumber, PortReason, PortState, Role, RoleMessage, RoleReason,
    RoleStatus, TableMod, Version,
};
use linerate_test_support::wait_until;

use crate::controller::{Controller, PATIENCE, Served};
use crate::exercise;

pub(crate) const NEWER: [Version; 3] = [Version::V13, Version::V14, Version::V15];

pub(crate) fn to(port: u32) -> Vec<Instruction> {
    vec![Instruction::ApplyActions(vec![Action::Output { port: PortNumber(port), max_len: 0 }])]
}

/// A flow of the first table for one destination.
fn flow(destination: u32) -> FlowMod {
    let matching =
        Match::new().with(Field::EthType, 0x0800).with(Field::Ipv4Dst, destination.into());
    FlowMod::add(0, 100, matching, to(2))
}

fn add(destination: u32) -> Message {
    Message::FlowMod(flow(destination))
}

fn flows(switch: &Switch) -> usize {
    let snapshot = switch.snapshot();
    (0..snapshot.tables()).filter_map(|table| snapshot.table(table)).map(|table| table.len()).sum()
}

fn role(controller: &mut Controller, role: Role, generation: u64) -> Result<RoleMessage, Fault> {
    let request = Message::RoleRequest(RoleMessage { role, id: 0, generation });
    match controller.ask(&request) {
        Message::RoleReply(reply) => Ok(reply),
        Message::Error(ErrorMessage { code, .. }) => {
            Err(code.fault(Version::V13).expect("a known error"))
        }
        other => panic!("{other:?}"),
    }
}

/// Asks for asynchronous messages, as a controller that has connected to a listener has to.
pub(crate) fn listen(controller: &mut Controller) {
    let config = Config { flags: ConfigFlags::default(), miss_send_len: 0xffff };
    controller.send(&Message::SetConfig(config));
    assert_eq!(controller.ask(&Message::GetConfigRequest), Message::GetConfigReply(config));
}

pub(crate) fn punt(reason: PacketInReason, cookie: u64) -> Punt {
    let mut state = Box::new(Key::default());
    state.set(Field::Metadata, 0x1234);
    state.set(Field::Reg3, 7);
    Punt {
        reason,
        table: 2,
        cookie,
        max_len: 0xffff,
        id: 0,
        userdata: Vec::new(),
        meter: 0,
        state,
        written: Box::default(),
        resume: None,
    }
}

/// A packet of a worker for controllers.
pub(crate) fn send(switch: &Switch, punt: Punt) -> Vec<u8> {
    let mut key = Key::default();
    key.set(Field::InPort, 3);
    key.set(Field::TunnelId, 9);
    let packet: Vec<u8> = (0..64).collect();
    assert!(switch.punt(&Arc::new(punt), &key, &packet));
    packet
}

pub(crate) fn packet_in(message: Message) -> PacketIn {
    match message {
        Message::PacketIn(packet) => packet,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_switch_describes_itself() {
    let served = Served::new(|_| {});
    for version in Version::ALL {
        let mut controller = served.controller(version);
        let answer = controller.ask(&Message::FeaturesRequest);
        let Message::FeaturesReply(features) = answer else { panic!("{answer:?}") };
        assert_eq!((features.datapath, features.tables, features.buffers), (0x42, 4, 0));
        assert_eq!(features.ports.len(), if version == Version::V10 { 3 } else { 0 });
        let config = Config { flags: ConfigFlags::default(), miss_send_len: 0 };
        assert_eq!(controller.ask(&Message::GetConfigRequest), Message::GetConfigReply(config));
        let ask = |body| Message::MultipartRequest(MultipartRequest { more: false, body });
        let answer = controller.ask(&ask(Request::PortDesc(PortNumber::ANY)));
        let Message::MultipartReply(reply) = answer else { panic!("{answer:?}") };
        let Reply::PortDesc(ports) = reply.body else { panic!("{:?}", reply.body) };
        assert_eq!(ports.iter().map(|port| port.number.0).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(controller.fault(&Message::BarrierReply), Fault::BadType);
    }
}

#[test]
fn faults_come_with_their_message_and_the_rest_goes_on() {
    let served = Served::new(|_| {});
    for version in NEWER {
        let mut controller = served.controller(version);
        let wrong = FlowMod { table: 9, ..flow(1) };
        let xid = controller.send(&Message::FlowMod(wrong.clone()));
        controller.send(&add(1));
        let (said, message) = controller.next();
        let sent = Message::FlowMod(wrong).encode(version, xid).expect("a flow");
        let error = ErrorMessage::new(Fault::FlowModBadTableId, version, &sent);
        assert_eq!((said, message), (xid, Message::Error(error)));
        controller.barrier();
        assert_eq!(flows(served.switch()), 1);
        let packet = Message::FlowMod(FlowMod { buffer: Some(1), ..flow(2) });
        assert_eq!(controller.fault(&packet), Fault::BufferUnknown);
    }
}

#[test]
fn a_slave_only_reads_and_a_new_master_makes_one() {
    let served = Served::new(|_| {});
    let (mut one, mut two) = (served.controller(Version::V13), served.controller(Version::V14));
    listen(&mut two);
    assert_eq!(role(&mut one, Role::Master, 10).map(|reply| reply.role), Ok(Role::Master));
    assert_eq!(role(&mut two, Role::Slave, 9), Err(Fault::Stale));
    assert_eq!(role(&mut two, Role::Slave, 10).map(|reply| reply.generation), Ok(10));
    for refused in [
        add(1),
        Message::PacketOut(PacketOut {
            buffer: None,
            in_port: PortNumber::CONTROLLER,
            fields: Match::new(),
            actions: Vec::new(),
            data: vec![0; 60],
        }),
        Message::TableMod(TableMod {
            table: 0,
            config: Default::default(),
            properties: Default::default(),
        }),
        control(1, BundleStep::OpenRequest),
    ] {
        assert_eq!(two.fault(&refused), Fault::IsSlave);
    }
    two.barrier();
    assert_eq!(flows(served.switch()), 0);
    // The slave takes over; the other gets a message in versions that have it.
    assert_eq!(role(&mut two, Role::Master, 11).map(|reply| reply.role), Ok(Role::Master));
    assert_eq!(one.fault(&add(1)), Fault::IsSlave);
    two.send(&add(2));
    two.barrier();
    assert_eq!(flows(served.switch()), 1);
    assert_eq!(role(&mut one, Role::Master, 12).map(|reply| reply.role), Ok(Role::Master));
    let (role_now, reason) = (Role::Slave, RoleReason::MasterRequest);
    let status = RoleStatus { role: role_now, reason, generation: 12 };
    assert_eq!(two.next().1, Message::RoleStatus(status));
    // Nicira's request has no generation.
    let request = Message::Nicira(NiciraMessage::RoleRequest(Role::Master));
    let reply = Message::Nicira(NiciraMessage::RoleReply(Role::Master));
    assert_eq!(two.ask(&request), reply);
    assert_eq!(one.fault(&add(3)), Fault::IsSlave);
}

#[test]
fn unsolicited_messages_are_chosen() {
    let served = Served::new(|_| {});
    let mut chooser = served.controller(Version::V13);
    listen(&mut chooser);
    let answer = chooser.ask(&Message::GetAsyncRequest);
    let Message::GetAsyncReply(config) = answer else { panic!("{answer:?}") };
    assert_eq!(config.get(AsyncKind::PacketIn, false), Some(0b011));
    assert_eq!(config.get(AsyncKind::PacketIn, true), Some(0));
    assert_eq!(config.get(AsyncKind::PortStatus, true), Some(0b111));
    assert_eq!(config.get(AsyncKind::FlowRemoved, false), Some(0b1111));
    let chosen = config
        .with(AsyncKind::PacketIn, false, 0b001)
        .with(AsyncKind::PortStatus, false, 0)
        .with(AsyncKind::FlowRemoved, false, 0b0100);
    chooser.send(&Message::SetAsync(chosen));
    assert_eq!(chooser.ask(&Message::GetAsyncRequest), Message::GetAsyncReply(chosen));
    send(served.switch(), punt(PacketInReason::Action, 1));
    served.switch().set_port_state(PortNumber(1), PortState::LINK_DOWN, 0);
    send(served.switch(), punt(PacketInReason::NoMatch, 2));
    assert_eq!(packet_in(chooser.next().1).cookie, 2);
    // In 1.4 one kind at a time can be chosen.
    let mut newer = served.controller(Version::V14);
    listen(&mut newer);
    let one = AsyncConfig::default().with(AsyncKind::PacketIn, false, 0b010);
    newer.send(&Message::SetAsync(one));
    newer.barrier();
    send(served.switch(), punt(PacketInReason::NoMatch, 3));
    send(served.switch(), punt(PacketInReason::Action, 4));
    assert_eq!(packet_in(newer.next().1).cookie, 4);
    served.switch().set_port_state(PortNumber(1), PortState::LIVE, 0);
    let (_, message) = newer.next();
    let Message::PortStatus(status) = message else { panic!("{message:?}") };
    assert_eq!((status.reason, status.port.number.0), (PortReason::Modify, 1));
}

#[test]
fn a_connection_without_packet_ins_hears_none() {
    let served = Served::new(|_| {});
    let mut tool = served.controller(Version::V13);
    let mut listening = served.controller(Version::V13);
    listen(&mut listening);
    tool.barrier();
    send(served.switch(), punt(PacketInReason::Action, 1));
    assert_eq!(packet_in(listening.next().1).cookie, 1);
    tool.silence();
}

/// A flow that matches everything is one like others in OpenFlow 1.0, in any form of packet-ins.
#[test]
fn a_flow_that_matches_everything_is_an_action_in_openflow_10() {
    let served = Served::new(|_| {});
    for version in Version::ALL {
        let mut controller = served.controller(version);
        listen(&mut controller);
        let reason = match version {
            Version::V10 => PacketInReason::Action,
            _ => PacketInReason::NoMatch,
        };
        let group = match version {
            Version::V10 | Version::V13 => PacketInReason::Action,
            _ => PacketInReason::Group,
        };
        let formats = [PacketInFormat::Standard, PacketInFormat::Nicira, PacketInFormat::Nicira2];
        for format in formats {
            controller.send(&Message::Nicira(NiciraMessage::SetPacketInFormat(format)));
            controller.barrier();
            for (told, said) in [(PacketInReason::NoMatch, reason), (PacketInReason::Group, group)]
            {
                send(served.switch(), punt(told, 0));
                let (Message::PacketIn(packet)
                | Message::Nicira(
                    NiciraMessage::PacketIn(packet) | NiciraMessage::PacketIn2(packet),
                )) = controller.next().1
                else {
                    panic!("no packet")
                };
                assert_eq!(packet.reason, said, "{version} {format:?}");
            }
        }
    }
}

fn control(bundle: u32, step: BundleStep) -> Message {
    let flags = BundleFlags(BundleFlags::ATOMIC.0 | BundleFlags::ORDERED.0);
    Message::BundleControl(BundleControl { bundle, step, flags, properties: Vec::new() })
}

/// A message in a bundle, which has the transaction of the one around it.
fn bundled(controller: &mut Controller, version: Version, message: &Message) -> u32 {
    let xid = controller.following();
    let flags = BundleFlags(BundleFlags::ATOMIC.0 | BundleFlags::ORDERED.0);
    let message = message.encode(version, xid).expect("a message");
    controller.send(&Message::BundleAdd(BundleAdd { bundle: 1, flags, message }))
}

#[test]
fn a_bundle_is_done_whole_or_not_at_all() {
    for version in NEWER {
        let served = Served::new(|_| {});
        let mut controller = served.controller(version);
        let reply = |step| control(1, step);
        let ask = |controller: &mut Controller, step, answer| {
            assert_eq!(controller.ask(&control(1, step)), reply(answer));
        };
        ask(&mut controller, BundleStep::OpenRequest, BundleStep::OpenReply);
        for nth in 1..=3 {
            bundled(&mut controller, version, &add(nth));
        }
        ask(&mut controller, BundleStep::CloseRequest, BundleStep::CloseReply);
        assert_eq!(flows(served.switch()), 0);
        ask(&mut controller, BundleStep::CommitRequest, BundleStep::CommitReply);
        assert_eq!(flows(served.switch()), 3);
        let fault = controller.fault(&control(1, BundleStep::CommitRequest));
        assert_eq!(fault, Fault::BundleBadId, "it is gone");

        // One wrong message, in the middle: its error is sent, and nothing is done.
        ask(&mut controller, BundleStep::OpenRequest, BundleStep::OpenReply);
        let fault = controller.fault(&control(1, BundleStep::OpenRequest));
        assert_eq!(fault, Fault::BundleExists);
        bundled(&mut controller, version, &add(4));
        let wrong = Message::FlowMod(FlowMod { table: 9, ..flow(5) });
        let wrong = bundled(&mut controller, version, &wrong);
        bundled(&mut controller, version, &add(6));
        let commit = controller.send(&control(1, BundleStep::CommitRequest));
        let error = |controller: &mut Controller| match controller.next() {
            (xid, Message::Error(error)) => (xid, error.code.fault(version).expect("known")),
            other => panic!("{other:?}"),
        };
        assert_eq!(error(&mut controller), (wrong, Fault::FlowModBadTableId));
        assert_eq!(error(&mut controller), (commit, Fault::BundleFailed));
        assert_eq!(flows(served.switch()), 3);

        // A packet that cannot go out is as wrong as a change that cannot be made.
        ask(&mut controller, BundleStep::OpenRequest, BundleStep::OpenReply);
        bundled(&mut controller, version, &add(8));
        let to_nobody = PacketOut {
            buffer: None,
            in_port: PortNumber::CONTROLLER,
            fields: Match::new(),
            actions: vec![Action::Group(77)],
            data: vec![0; 60],
        };
        let wrong = bundled(&mut controller, version, &Message::PacketOut(to_nobody));
        let waiting = Message::FlowMod(FlowMod { buffer: Some(1), ..flow(9) });
        let commit = controller.send(&control(1, BundleStep::CommitRequest));
        assert_eq!(error(&mut controller), (wrong, Fault::BadOutGroup));
        assert_eq!(error(&mut controller), (commit, Fault::BundleFailed));
        let wrong = bundled(&mut controller, version, &waiting);
        let commit = controller.send(&control(1, BundleStep::CommitRequest));
        assert_eq!(error(&mut controller), (wrong, Fault::BufferUnknown));
        assert_eq!(error(&mut controller), (commit, Fault::BundleFailed));
        assert_eq!(flows(served.switch()), 3);

        // Messages that no bundle can have, and a bundle that is discarded.
        ask(&mut controller, BundleStep::OpenRequest, BundleStep::OpenReply);
        let xid = bundled(&mut controller, version, &Message::BarrierRequest);
        let (said, message) = controller.next();
        let Message::Error(error) = message else { panic!("{message:?}") };
        assert_eq!((said, error.code), (xid, Fault::BundleUnsupported.code(version)));
        bundled(&mut controller, version, &add(7));
        ask(&mut controller, BundleStep::DiscardRequest, BundleStep::DiscardReply);
        controller.barrier();
        assert_eq!(flows(served.switch()), 3);
    }
}

/// A bundle without messages is discarded after the time that is set.
#[test]
fn an_idle_bundle_is_discarded() {
    let version = Version::V14;
    let flags = BundleFlags::ATOMIC;
    let say = |step| {
        Message::BundleControl(BundleControl { bundle: 1, step, flags, properties: Vec::new() })
    };
    let served = Served::new(|options| options.bundle_idle = Duration::from_millis(1));
    let mut controller = served.controller(version);
    let opened = controller.send(&say(BundleStep::OpenRequest));
    let answered = controller.next();
    assert_eq!(answered, (opened, say(BundleStep::OpenReply)));
    // The switch looks about once a second.
    let (xid, message) = controller.next();
    let Message::Error(error) = message else { panic!("{message:?}") };
    assert_eq!((xid, error.code.fault(version)), (opened, Some(Fault::BundleTimeout)));
    assert_eq!(controller.fault(&say(BundleStep::CommitRequest)), Fault::BundleBadId);
}

/// A buffer is ignored where flows are deleted.
#[test]
fn no_packet_waits_for_a_flow() {
    for version in Version::ALL {
        let served = Served::new(|_| {});
        let mut controller = served.controller(version);
        controller.send(&add(1));
        let waiting = FlowMod { buffer: Some(0), ..flow(2) };
        assert_eq!(controller.fault(&Message::FlowMod(waiting.clone())), Fault::BufferUnknown);
        assert_eq!(flows(served.switch()), 1);
        let command = FlowModCommand::Delete;
        controller.send(&Message::FlowMod(FlowMod { command, ..waiting.clone() }));
        let delete = FlowMod { command, matching: Match::new(), ..waiting };
        controller.send(&Message::FlowMod(delete));
        controller.barrier();
        assert_eq!(flows(served.switch()), 0);
    }
}

#[test]
fn ends_of_flows_are_told() {
    let served = Served::new(|_| {});
    let mut old = served.controller(Version::V10);
    let mut new = served.controller(Version::V15);
    listen(&mut old);
    listen(&mut new);
    let mut change = flow(1);
    change.flags = FlowFlags::SEND_FLOW_REMOVED;
    change.hard_timeout = 1;
    new.send(&Message::FlowMod(change.clone()));
    new.barrier();
    for (controller, version) in [(&mut old, Version::V10), (&mut new, Version::V15)] {
        let (_, message) = controller.next();
        let Message::FlowRemoved(removed) = message else { panic!("{version}: {message:?}") };
        assert_eq!(removed.reason, FlowRemovedReason::HardTimeout);
        assert_eq!((removed.priority, removed.matching), (100, change.matching.clone()));
    }
    // A message that 1.0 lacks comes in Nicira's form.
    change.matching = Match::new().with(Field::Reg0, 1);
    change.hard_timeout = 0;
    new.send(&Message::FlowMod(change.clone()));
    change.command = FlowModCommand::DeleteStrict;
    new.send(&Message::FlowMod(change));
    let (_, message) = old.next();
    let Message::Nicira(NiciraMessage::FlowRemoved(removed)) = message else {
        panic!("{message:?}");
    };
    assert_eq!(removed.reason, FlowRemovedReason::Delete);
    assert!(matches!(new.next().1, Message::FlowRemoved(_)));
}

#[test]
fn events_that_no_controller_got_are_counted() {
    let switch = Switch::new(SwitchOptions { events: 1, ..SwitchOptions::default() });
    let agent = Agent::start(Arc::clone(&switch), AgentOptions::default()).expect("an agent");
    assert_eq!(agent.status().lost_events, 0);
    for destination in 0..5000 {
        let flow = FlowMod { flags: FlowFlags::SEND_FLOW_REMOVED, ..flow(destination) };
        switch.flow_mod(&flow, Version::V13, 0).expect("a flow");
    }
    let all = FlowMod::add(0, 0, Match::new(), Vec::new());
    let delete = FlowMod { command: FlowModCommand::Delete, ..all };
    switch.flow_mod(&delete, Version::V13, 0).expect("deleted");
    assert!(wait_until(|| agent.status().lost_events > 0, PATIENCE));
}

#[test]
fn tables_of_1_0_are_an_extension() {
    let served = Served::new(|_| {});
    let mut controller = served.controller(Version::V10);
    let second = Message::FlowMod(FlowMod { table: 1, ..flow(1) });
    assert_eq!(controller.fault(&second), Fault::FlowModBadCommand);
    controller.send(&add(1));
    controller.send(&Message::Nicira(NiciraMessage::FlowModTableId(true)));
    controller.send(&second);
    controller.barrier();
    let snapshot = served.switch().snapshot();
    assert_eq!([0, 1].map(|table| snapshot.table(table).map_or(0, |table| table.len())), [1, 1]);
}

#[test]
fn a_long_answer_comes_in_parts() {
    let served = Served::new(|_| {});
    for version in Version::ALL {
        let mut controller = served.controller(version);
        let count = 3000;
        for nth in 0..count {
            controller.send(&add(nth));
        }
        controller.barrier();
        let body = Request::Flow(FlowRequest::all());
        let xid =
            controller.send(&Message::MultipartRequest(MultipartRequest { more: false, body }));
        let (mut seen, mut parts) = (0, 0);
        loop {
            let (said, message) = controller.next();
            let Message::MultipartReply(reply) = message else { panic!("{message:?}") };
            let Reply::Flow(flows) = reply.body else { panic!("{:?}", reply.body) };
            assert_eq!(said, xid);
            parts += 1;
            seen += flows.len();
            if !reply.more {
                break;
            }
        }
        assert_eq!(seen, count as usize);
        assert!(parts > 3, "{parts}");
    }
}

#[test]
fn changes_of_groups_are_told_to_others() {
    let served = Served::new(|_| {});
    let (mut one, mut two) = (served.controller(Version::V14), served.controller(Version::V15));
    listen(&mut two);
    let wanted = AsyncConfig::default().with(AsyncKind::RequestForward, false, 0b11);
    two.send(&Message::SetAsync(wanted));
    two.barrier();
    let group = GroupMod {
        command: GroupCommand::Add,
        kind: GroupType::All,
        group: 7,
        at: u32::MAX,
        buckets: Vec::new(),
        selection: None,
    };
    one.send(&Message::GroupMod(group.clone()));
    one.barrier();
    let (_, message) = two.next();
    let Message::RequestForward(said) = message else { panic!("{message:?}") };
    let (version, _, said) = Message::decode(&said).expect("a message");
    assert_eq!((version, said), (Version::V15, Message::GroupMod(group)));
}

#[test]
fn a_switch_alone_forwards_where_it_is_told_to() {
    let served = Served::new(|options| {
        options.fail_mode = FailMode::Standalone;
        options.probe_interval = Duration::from_millis(100);
    });
    let alone = || served.switch().snapshot().stands_alone();
    assert!(wait_until(alone, PATIENCE));
    let mut controller = served.controller(Version::V13);
    assert!(wait_until(|| !alone(), PATIENCE));
    // Nothing a controller may write is in the way.
    let all = FlowMod { cookie: Some(7), ..FlowMod::add(0, u16::MAX, Match::new(), Vec::new()) };
    controller.send(&Message::FlowMod(all));
    let cookies = || {
        let snapshot = served.switch().snapshot();
        snapshot.flows(0).map(|flow| flow.cookie).collect::<Vec<_>>()
    };
    assert!(wait_until(|| cookies() == [7], PATIENCE));
    drop(controller);
    assert!(wait_until(alone, PATIENCE));
    assert_eq!(cookies(), [7]);
    let _controller = served.controller(Version::V13);
    assert!(wait_until(|| !alone(), PATIENCE));
    assert_eq!(cookies(), [7]);
}

/// The messages that fuzzing begins with, and damaged ones.
#[test]
fn whatever_is_said_is_answered() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/seeds/controller");
    let mut random = fastrand::Rng::with_seed(21);
    let mut count = 0;
    for seed in std::fs::read_dir(seeds).expect("seeds") {
        let bytes = std::fs::read(seed.expect("a seed").path()).expect("a seed");
        exercise::controller(&bytes);
        for _ in 0..40 {
            let mut damaged = bytes.clone();
            for _ in 0..random.usize(1..12) {
                let at = random.usize(1..damaged.len());
                damaged[at] = random.u8(..);
            }
            exercise::controller(&damaged);
            count += 1;
        }
    }
    assert!(count >= 100);
}

#[test]
fn state_survives_a_restart() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let state = folder.path().join("state");
    let start = || Served::new(|options| options.state = Some(state.clone()));
    let served = start();
    let mut controller = served.controller(Version::V13);
    let mut kept = FlowMod { cookie: Some(0x77), idle_timeout: 600, ..flow(1) };
    kept.flags = FlowFlags::SEND_FLOW_REMOVED;
    kept.instructions = vec![Instruction::ApplyActions(vec![Action::Group(2)])];
    let group = |number, buckets| GroupMod {
        command: GroupCommand::Add,
        kind: GroupType::All,
        group: number,
        at: u32::MAX,
        buckets,
        selection: None,
    };
    let bucket = |action| Bucket::new(vec![action]);
    // The first is of the second.
    let output = Action::Output { port: PortNumber(3), max_len: 0 };
    controller.send(&Message::GroupMod(group(5, vec![bucket(output)])));
    controller.send(&Message::GroupMod(group(2, vec![bucket(Action::Group(5))])));
    controller.send(&Message::FlowMod(kept.clone()));
    let port = PortMod {
        number: PortNumber(2),
        address: [2, 0, 0, 0, 0, 2],
        config: PortConfig::NO_FORWARD,
        mask: PortConfig::NO_FORWARD,
        advertise: None,
    };
    controller.send(&Message::PortMod(port));
    controller.barrier();
    drop(served);

    let served = start();
    let snapshot = served.switch().snapshot();
    let found: Vec<_> = snapshot.flows(0).collect();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].cookie, found[0].idle_timeout, found[0].priority), (0x77, 600, 100));
    assert_eq!(found[0].matching.unpack(), kept.matching);
    assert_eq!(found[0].instructions, kept.instructions);
    assert_eq!(found[0].flags, FlowFlags::SEND_FLOW_REMOVED);
    assert!(snapshot.group(2).is_some() && snapshot.group(5).is_some());
    let config = || {
        let snapshot = served.switch().snapshot();
        snapshot.port(PortNumber(2)).expect("a port").port.config
    };
    assert!(wait_until(|| config() == PortConfig::NO_FORWARD, PATIENCE));
    // It is written soon after a change, too, and not only at the end.
    let before = std::fs::read(&state).expect("a state");
    let mut controller = served.controller(Version::V10);
    controller.send(&add(9));
    controller.barrier();
    let larger = || std::fs::read(&state).is_ok_and(|now| now.len() > before.len());
    assert!(wait_until(larger, PATIENCE));
    drop(served);
    std::fs::write(&state, "something else").expect("a file");
    let options = AgentOptions { state: Some(state), ..AgentOptions::default() };
    let error = Agent::start(crate::controller::switch(), options).expect_err("no state");
    assert!(error.to_string().contains(": line 1: "), "{error}");
}
