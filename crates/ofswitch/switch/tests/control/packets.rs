//! Packet-ins and packet-outs: formats, fields, rate limits and continuations.

use std::sync::Arc;

use linerate_ofswitch::control::PacketRate;
use linerate_ofswitch::key::{self, Key};
use linerate_ofswitch::pipeline::{Continuation, PendingWork, Punt, Suspended};
use linerate_openflow::wire::{
    Action, Config, ConfigFlags, Fault, Field, FlowMod, Match, Message, NiciraMessage, PacketIn,
    PacketInFormat, PacketInReason, PacketOut, PortNumber, Version,
};
use linerate_test_support::wait_until;

use crate::controller::{PATIENCE, Served};
use crate::protocol::{NEWER, listen, packet_in, punt, send, to};

#[test]
fn packets_come_in_the_form_that_was_asked_for() {
    let served = Served::new(|_| {});
    for version in Version::ALL {
        let mut controller = served.controller(version);
        listen(&mut controller);
        let data = send(served.switch(), punt(PacketInReason::Action, 0x77));
        let standard = packet_in(controller.next().1);
        assert_eq!((standard.buffer, standard.total_len), (None, 64));
        assert_eq!((&standard.data, standard.reason), (&data, PacketInReason::Action));
        assert_eq!(standard.fields.exact(Field::InPort), Some(3));
        if version != Version::V10 {
            assert_eq!((standard.table, standard.cookie), (2, 0x77));
            assert_eq!(standard.fields.exact(Field::Metadata), Some(0x1234));
            assert_eq!(standard.fields.exact(Field::Reg3), Some(7));
            assert_eq!(standard.fields.exact(Field::TunnelId), Some(9));
        }
        send(served.switch(), Punt { max_len: 20, ..punt(PacketInReason::Action, 0x77) });
        let cut = packet_in(controller.next().1);
        assert_eq!((cut.total_len, &cut.data[..]), (64, &data[..20]));
        let choose = |format| Message::Nicira(NiciraMessage::SetPacketInFormat(format));
        controller.send(&choose(PacketInFormat::Nicira));
        controller.barrier();
        send(served.switch(), punt(PacketInReason::Action, 0x78));
        let (_, message) = controller.next();
        let Message::Nicira(NiciraMessage::PacketIn(packet)) = message else {
            panic!("{message:?}");
        };
        assert_eq!((packet.table, packet.cookie, &packet.data), (2, 0x78, &data));
        assert_eq!(packet.fields.exact(Field::Metadata), Some(0x1234));
        controller.send(&choose(PacketInFormat::Nicira2));
        controller.barrier();
        let userdata = vec![1, 2, 3];
        send(served.switch(), Punt { userdata, ..punt(PacketInReason::Group, 0x79) });
        let (_, message) = controller.next();
        let Message::Nicira(NiciraMessage::PacketIn2(packet)) = message else {
            panic!("{message:?}");
        };
        assert_eq!((packet.table, packet.cookie, &packet.data), (2, 0x79, &data));
        let newer = matches!(version, Version::V14 | Version::V15);
        let reason = if newer { PacketInReason::Group } else { PacketInReason::Action };
        assert_eq!((packet.reason, packet.userdata), (reason, vec![1, 2, 3]));
    }
}

/// The key of a packet with conntrack fields.
fn connected(kind: u16, state: u128) -> Key {
    let mut key = Key::default();
    key.set(Field::InPort, 3);
    key.set(Field::EthType, kind.into());
    key.set(Field::CtState, state);
    key.set(Field::CtZone, 5);
    let (source, destination) = if kind == 0x0800 {
        (Field::CtIpv4Src, Field::CtIpv4Dst)
    } else {
        (Field::CtIpv6Src, Field::CtIpv6Dst)
    };
    key.set(source, 7);
    key.set(destination, 8);
    key.set(Field::CtProto, 17);
    key.set(Field::CtTpDst, 53);
    key
}

/// Conntrack fields follow their prerequisites, as strict parsers require; those of a tuple are
/// present only with a connection.
#[test]
fn fields_of_connections_come_in_order() {
    let served = Served::new(|_| {});
    for version in NEWER {
        let mut controller = served.controller(version);
        listen(&mut controller);
        for kind in [0x0800, 0x86dd] {
            for (state, has_connection) in [(0x21, true), (0x2a, true), (0x30, false)] {
                let (key, packet) = (connected(kind, state), [0; 60]);
                let punt = Arc::new(punt(PacketInReason::Action, 1));
                assert!(served.switch().punt(&punt, &key, &packet));
                let fields = packet_in(controller.next().1).fields;
                let order: Vec<Field> = fields.entries().map(|entry| entry.field()).collect();
                let place = |field| order.iter().position(|other| *other == field);
                assert_eq!(fields.exact(Field::EthType), Some(kind.into()));
                assert_eq!(fields.exact(Field::CtState), Some(state));
                assert_eq!(fields.exact(Field::CtZone), Some(5));
                let of = if kind == 0x0800 { Field::CtIpv4Src } else { Field::CtIpv6Src };
                assert_eq!(fields.exact(of), has_connection.then_some(7));
                let source = has_connection.then_some(0);
                assert_eq!(fields.exact(Field::CtTpSrc), source, "a port may be zero");
                if has_connection {
                    assert!(place(Field::EthType) < place(Field::CtState));
                    assert!(place(Field::CtState) < place(of));
                }
            }
        }
    }
}

/// A packet-in has the fields that flows have written, and not those that the packet came with.
#[test]
fn packet_ins_have_written_fields() {
    let served = Served::new(|_| {});
    let mut controller = served.controller(Version::V13);
    listen(&mut controller);
    let mut punt = punt(PacketInReason::Action, 1);
    punt.state.set(Field::TunnelId, 6);
    punt.written.add_all(Field::TunnelId);
    for field in [Field::CtState, Field::CtZone, Field::CtProto] {
        punt.written.add_all(field);
    }
    let key = connected(0x0800, 0x21);
    assert!(served.switch().punt(&Arc::new(punt), &key, &[0; 60]));
    let fields = packet_in(controller.next().1).fields;
    assert_eq!(fields.exact(Field::TunnelId), Some(6));
    assert_eq!(fields.exact(Field::InPort), Some(3));
    for field in [Field::CtState, Field::CtZone, Field::CtIpv4Src, Field::EthType] {
        assert_eq!(fields.get(field), None, "{}", field.name());
    }
}

#[test]
fn packets_are_for_whom_they_are_meant() {
    let served = Served::new(|_| {});
    let (mut named, mut other) = (served.controller(Version::V13), served.controller(Version::V10));
    listen(&mut named);
    listen(&mut other);
    named.send(&Message::Nicira(NiciraMessage::SetControllerId(5)));
    named.barrier();
    send(served.switch(), Punt { id: 5, ..punt(PacketInReason::Action, 1) });
    send(served.switch(), punt(PacketInReason::Action, 2));
    assert_eq!(packet_in(named.next().1).cookie, 1);
    packet_in(other.next().1);
    // Table misses without a table-miss flow go to controllers of OpenFlow 1.0.
    named.send(&Message::Nicira(NiciraMessage::SetControllerId(0)));
    named.barrier();
    send(served.switch(), punt(PacketInReason::NoMatch, u64::MAX));
    assert_eq!(packet_in(other.next().1).reason, PacketInReason::NoMatch);
    named.silence();
    // Expired TTLs are sent if the configuration of OpenFlow 1.0 asks for them.
    send(served.switch(), punt(PacketInReason::InvalidTtl, 1));
    other.silence();
    let config = Config { flags: ConfigFlags::INVALID_TTL, miss_send_len: 0xffff };
    other.send(&Message::SetConfig(config));
    assert_eq!(other.ask(&Message::GetConfigRequest), Message::GetConfigReply(config));
    send(served.switch(), punt(PacketInReason::InvalidTtl, 1));
    assert_eq!(packet_in(other.next().1).reason, PacketInReason::InvalidTtl);
    named.silence();
}

#[test]
fn packets_have_a_rate() {
    let rate = PacketRate { per_second: 1, burst: 3 };
    let served = Served::new(|options| options.packet_rate = Some(rate));
    let mut controller = served.controller(Version::V13);
    listen(&mut controller);
    (0..20).for_each(|cookie| drop(send(served.switch(), punt(PacketInReason::Action, cookie))));
    (0..3).for_each(|cookie| assert_eq!(packet_in(controller.next().1).cookie, cookie));
    assert!(wait_until(|| served.agent.status().unsent_packets >= 10, PATIENCE));
}

#[test]
fn a_packet_that_is_paused_goes_on() {
    let served = Served::new(|_| {});
    let mut controller = served.controller(Version::V13);
    listen(&mut controller);
    controller.send(&Message::Nicira(NiciraMessage::SetPacketInFormat(PacketInFormat::Nicira2)));
    controller.barrier();
    let resume = Some(Arc::new(Continuation { number: 77, state: Suspended::default() }));
    let data = send(served.switch(), Punt { resume, ..punt(PacketInReason::Action, 1) });
    let (_, message) = controller.next();
    let Message::Nicira(NiciraMessage::PacketIn2(packet)) = message else { panic!("{message:?}") };
    // The first property is a bridge's UUID of 16 bytes, as Open vSwitch's tools expect.
    assert_eq!(packet.continuation[..4], [0x80, 0, 0, 20]);
    assert_eq!(packet.continuation.len(), 24);
    let mut changed = packet.clone();
    changed.data[0] = 0xfe;
    controller.send(&Message::Nicira(NiciraMessage::Resume(changed)));
    controller.barrier();
    let injected = served.switch().next_injection().expect("a packet for a worker");
    assert_eq!((injected.packet[0], &injected.packet[1..]), (0xfe, &data[1..]));
    assert_eq!(injected.key.continuation(), 77);
    assert_eq!(injected.key.get(Field::TunnelId), 9);
    let unknown = PacketIn { continuation: vec![0; 24], ..packet };
    let fault = controller.fault(&Message::Nicira(NiciraMessage::Resume(unknown)));
    assert_eq!(fault, Fault::ResumeStale);
}

/// A resumed packet has the metadata and registers of the controller's message, as in Open vSwitch:
/// the controller passes results to flows in them.
#[test]
fn a_resumed_packet_has_the_controllers_metadata() {
    let served = Served::new(|_| {});
    let mut controller = served.controller(Version::V13);
    listen(&mut controller);
    controller.send(&Message::Nicira(NiciraMessage::SetPacketInFormat(PacketInFormat::Nicira2)));
    controller.barrier();
    for number in 1..=2 {
        let matching = Match::new().with(Field::Reg3, 0).with(Field::Reg5, number);
        let by_register = FlowMod::add(1, 1, matching, to(2));
        let flow = FlowMod { cookie: Some(number as u64), ..by_register };
        served.switch().flow_mod(&flow, Version::V13, 0).expect("a flow");
    }
    let mut key = Key::default();
    key.set(Field::Reg3, 7);
    key.set(Field::Reg5, 1);
    let rest = vec![PendingWork::Table(1)];
    let mut state = Suspended { key, rest, ..Suspended::default() };
    state.written.words_mut()[key::ENTRY_WORDS..].fill(u64::MAX);
    let resume = Some(Arc::new(Continuation { number: 78, state }));
    send(served.switch(), Punt { resume, ..punt(PacketInReason::Action, 1) });
    let (_, message) = controller.next();
    let Message::Nicira(NiciraMessage::PacketIn2(mut packet)) = message else {
        panic!("{message:?}")
    };
    packet.fields = Match::new().with(Field::InPort, 3).with(Field::Reg5, 2);
    controller.send(&Message::Nicira(NiciraMessage::Resume(packet)));
    controller.barrier();
    let injected = served.switch().next_injection().expect("a packet for a worker");
    let cookies: Vec<u64> = injected.decision.flows.iter().map(|flow| flow.cookie).collect();
    assert_eq!(cookies, [2]);
}

#[test]
fn packets_go_out() {
    let served = Served::new(|_| {});
    let action = Action::Output { port: PortNumber(2), max_len: 0 };
    for version in Version::ALL {
        let mut controller = served.controller(version);
        let out = PacketOut {
            buffer: None,
            in_port: PortNumber(1),
            fields: Match::new(),
            actions: vec![action.clone()],
            data: (0..60).collect(),
        };
        controller.send(&Message::PacketOut(out.clone()));
        controller.barrier();
        let injected = served.switch().next_injection().expect("a packet for a worker");
        assert_eq!(injected.packet, out.data);
        assert_eq!(injected.key.get(Field::InPort), 1);
        assert_eq!(injected.key.get(Field::EthDst), 0x0001_0203_0405);
        let waiting = PacketOut { buffer: Some(1), data: Vec::new(), ..out.clone() };
        assert_eq!(controller.fault(&Message::PacketOut(waiting)), Fault::BufferUnknown);
        let short = Message::PacketOut(PacketOut { data: vec![0; 13], ..out });
        let fault = controller.fault(&short);
        assert_eq!(
            fault,
            if version == Version::V10 { Fault::UnencodableError } else { Fault::BadPacket }
        );
    }
}
