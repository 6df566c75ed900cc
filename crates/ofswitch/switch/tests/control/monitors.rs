//! Flow monitors: updates to controllers about changes of flows.

use std::collections::BTreeMap;

use linerate_openflow::wire::multipart::{
    FlowEvent, FlowMonitor, FlowMonitorCommand, FlowMonitorFlags, FlowUpdate, FlowUpdated, Reply,
    Request,
};
use linerate_openflow::wire::{
    ALL_TABLES, ANY_GROUP, Action, Fault, Field, FlowMod, FlowModCommand, FlowRemovedReason,
    Instruction, Match, Message, MultipartReply, MultipartRequest, NiciraMessage, PortNumber,
    Version,
};

use crate::controller::{Controller, Served};

fn all() -> FlowMonitorFlags {
    FlowMonitorFlags::INITIAL
        .with(FlowMonitorFlags::ADD)
        .with(FlowMonitorFlags::REMOVED)
        .with(FlowMonitorFlags::MODIFY)
        .with(FlowMonitorFlags::INSTRUCTIONS)
}

fn monitor(id: u32, flags: FlowMonitorFlags) -> FlowMonitor {
    FlowMonitor {
        id,
        command: FlowMonitorCommand::Add,
        flags,
        out_port: PortNumber::ANY,
        out_group: ANY_GROUP,
        table: ALL_TABLES,
        matching: Match::new(),
    }
}

fn request(monitors: Vec<FlowMonitor>) -> Message {
    let body = Request::FlowMonitor(monitors);
    Message::MultipartRequest(MultipartRequest { more: false, body })
}

fn send(port: u32) -> Vec<Instruction> {
    let action = Action::Output { port: PortNumber(port), max_len: 0 };
    vec![Instruction::ApplyActions(vec![action])]
}

fn flow(address: u32, port: u32) -> FlowMod {
    let matching = Match::new().with(Field::EthType, 0x0800).with(Field::Ipv4Dst, address.into());
    FlowMod::add(0, 100, matching, send(port))
}

fn changed(command: FlowModCommand, flow: FlowMod) -> Message {
    Message::FlowMod(FlowMod { command, cookie: None, ..flow })
}

/// The updates of the next message, and its transaction.
#[track_caller]
fn updates(controller: &mut Controller) -> (u32, Vec<FlowUpdate>) {
    match controller.next() {
        (
            xid,
            Message::MultipartReply(MultipartReply { body: Reply::FlowMonitor(updates), .. }),
        ) => (xid, updates),
        other => panic!("{other:?}"),
    }
}

/// Receives an update of one flow, in full.
#[track_caller]
fn update(controller: &mut Controller) -> FlowUpdated {
    let (xid, mut updates) = updates(controller);
    assert_eq!((xid, updates.len()), (0, 1), "{updates:?}");
    match updates.remove(0) {
        FlowUpdate::Flow(updated) => updated,
        other => panic!("{other:?}"),
    }
}

/// The updates of the next message, of any version.
fn next_updates(controller: &mut Controller) -> Vec<FlowUpdate> {
    match controller.next().1 {
        Message::MultipartReply(MultipartReply { body: Reply::FlowMonitor(updates), .. }) => {
            updates
        }
        Message::Nicira(NiciraMessage::FlowMonitorPaused) => vec![FlowUpdate::Paused],
        Message::Nicira(NiciraMessage::FlowMonitorResumed) => vec![FlowUpdate::Resumed],
        message => panic!("{message:?}"),
    }
}

#[test]
fn monitors_report_changes_in_every_version() {
    for version in Version::ALL {
        let served = Served::new(|_| {});
        let mut other = served.controller(Version::V13);
        other.send(&Message::FlowMod(flow(1, 1)));
        other.barrier();
        let mut watcher = served.controller(version);
        let xid = watcher.send(&request(vec![monitor(7, all())]));
        let (said, first) = updates(&mut watcher);
        assert_eq!((said, first.len()), (xid, 1));
        let is_old = version < Version::V14;
        let event = if is_old { FlowEvent::Added } else { FlowEvent::Initial };
        let FlowUpdate::Flow(there) = &first[0] else { panic!("{first:?}") };
        assert_eq!((there.event, &there.matching), (event, &flow(1, 1).matching));
        assert_eq!(there.instructions, send(1));
        assert_eq!(watcher.fault(&request(vec![monitor(7, all())])), Fault::MonitorExists);

        other.send(&Message::FlowMod(FlowMod { idle_timeout: 9, ..flow(2, 2) }));
        let added = update(&mut watcher);
        assert_eq!((added.event, added.idle_timeout), (FlowEvent::Added, 9));
        assert_eq!((added.table, added.priority), (0, 100));
        other.send(&changed(FlowModCommand::Modify, flow(2, 3)));
        let modified = update(&mut watcher);
        assert_eq!((modified.event, &modified.instructions), (FlowEvent::Modified, &send(3)));
        // It is the same.
        other.send(&changed(FlowModCommand::Modify, flow(2, 3)));
        other.send(&changed(FlowModCommand::DeleteStrict, flow(2, 3)));
        let removed = update(&mut watcher);
        assert_eq!(removed.event, FlowEvent::Removed(FlowRemovedReason::Delete));
        assert!(removed.instructions.is_empty());

        // Its own changes are one update that names the message, before the answer to the next
        // request.
        let xid = watcher.send(&changed(
            FlowModCommand::Delete,
            FlowMod { matching: Match::new(), ..flow(0, 1) },
        ));
        assert_eq!(updates(&mut watcher), (0, vec![FlowUpdate::Abbreviated { xid }]));
        watcher.barrier();
        // Unless it wants them in full.
        watcher.send(&request(vec![monitor(8, all().with(FlowMonitorFlags::OWN))]));
        assert!(updates(&mut watcher).1.is_empty());
        watcher.send(&Message::FlowMod(flow(4, 1)));
        assert_eq!(update(&mut watcher).event, FlowEvent::Added);

        for id in [7, 8] {
            if is_old {
                watcher.send(&Message::Nicira(NiciraMessage::FlowMonitorCancel(id)));
            } else {
                let command = FlowMonitorCommand::Delete;
                watcher.send(&request(vec![FlowMonitor { command, ..monitor(id, all()) }]));
                assert!(updates(&mut watcher).1.is_empty());
            }
        }
        // They end when that is answered.
        watcher.barrier();
        other.send(&Message::FlowMod(flow(5, 1)));
        other.barrier();
        watcher.barrier();
        if is_old {
            let cancel = Message::Nicira(NiciraMessage::FlowMonitorCancel(7));
            assert_eq!(watcher.fault(&cancel), Fault::UnknownMonitor);
        }
    }
}

#[test]
fn a_monitor_gets_changes_of_its_flows() {
    let served = Served::new(|_| {});
    let (mut watcher, mut other) =
        (served.controller(Version::V14), served.controller(Version::V13));
    let to_port = FlowMonitor { out_port: PortNumber(2), ..monitor(1, all()) };
    let matching = Match::new().with(Field::EthType, 0x0800).with(Field::Ipv4Dst, 9);
    let flags = FlowMonitorFlags::REMOVED;
    let of_address = FlowMonitor { flags, matching, ..monitor(2, all()) };
    let of_table = FlowMonitor { table: 1, ..monitor(3, all()) };
    let wrong = FlowMonitor { table: 77, ..monitor(4, all()) };
    let wrong = request(vec![to_port.clone(), wrong]);
    assert_eq!(watcher.fault(&wrong), Fault::BadTableId, "none of them is there");
    watcher.send(&request(vec![to_port, of_address, of_table]));
    assert!(updates(&mut watcher).1.is_empty());
    other.send(&Message::FlowMod(flow(9, 1)));
    other.send(&Message::FlowMod(flow(8, 2)));
    assert_eq!(update(&mut watcher).matching, flow(8, 2).matching);
    // It sent there.
    other.send(&changed(FlowModCommand::Modify, flow(8, 3)));
    assert_eq!(update(&mut watcher).instructions, send(3));
    other.send(&changed(FlowModCommand::DeleteStrict, flow(8, 3)));
    other.send(&changed(FlowModCommand::DeleteStrict, flow(9, 1)));
    assert_eq!(update(&mut watcher).matching, flow(9, 1).matching);
    other.send(&Message::FlowMod(FlowMod { table: 1, ..flow(7, 1) }));
    assert_eq!(update(&mut watcher).table, 1);
}

/// A controller that does not read gets the changes when it does, and little waits for it until
/// then.
#[test]
fn updates_pause_while_they_are_not_read() {
    for version in [Version::V10, Version::V13, Version::V15] {
        let served = Served::new(|_| {});
        let (mut watcher, mut other) =
            (served.controller(version), served.controller(Version::V13));
        (0..100).for_each(|address| {
            other.send(&Message::FlowMod(flow(address, 1)));
        });
        other.barrier();
        watcher.send(&request(vec![monitor(1, all())]));
        // Too many for the socket and the queue.
        for address in 0..20_000 {
            other.send(&Message::FlowMod(flow(address, 2)));
        }
        for address in 50..15_000 {
            other.send(&changed(FlowModCommand::DeleteStrict, flow(address, 2)));
        }
        other.send(&changed(
            FlowModCommand::Modify,
            FlowMod { matching: Match::new(), ..flow(0, 3) },
        ));
        other.send(&Message::FlowMod(flow(60, 1)));
        other.barrier();
        let mut known: BTreeMap<u128, Vec<Instruction>> = BTreeMap::new();
        let (mut paused, mut resumed) = (false, false);
        while !resumed {
            let updates = next_updates(&mut watcher);
            for update in updates {
                match update {
                    FlowUpdate::Flow(update) => {
                        let address = update.matching.exact(Field::Ipv4Dst).expect("an address");
                        match update.event {
                            FlowEvent::Removed(_) => {
                                assert!(known.remove(&address).is_some(), "{address} is known");
                            }
                            FlowEvent::Modified => {
                                let before = known.insert(address, update.instructions);
                                assert!(before.is_some(), "{address} is known");
                            }
                            FlowEvent::Added | FlowEvent::Initial => {
                                known.insert(address, update.instructions);
                            }
                        }
                    }
                    FlowUpdate::Paused => paused = true,
                    FlowUpdate::Resumed => resumed = true,
                    FlowUpdate::Abbreviated { .. } => panic!("it has changed nothing"),
                }
            }
        }
        assert!(paused, "{version}");
        let tables = served.switch().snapshot();
        let there: BTreeMap<u128, Vec<Instruction>> = tables
            .flows(0)
            .map(|flow| {
                let address = flow.matching.unpack().exact(Field::Ipv4Dst).expect("an address");
                (address, flow.instructions.clone())
            })
            .collect();
        assert_eq!(there.len(), 50 + 5000 + 1);
        assert!(known == there, "{version}: {} flows are known", known.len());
        // It goes on.
        other.send(&Message::FlowMod(flow(70, 1)));
        assert_eq!(update(&mut watcher).event, FlowEvent::Added);
    }
}

/// Flows that come and go while updates pause are not sent, nor kept until then.
#[test]
fn flows_that_came_and_went_while_updates_paused_are_not_told() {
    let served = Served::new(|_| {});
    let (mut watcher, mut other) =
        (served.controller(Version::V13), served.controller(Version::V13));
    watcher.send(&request(vec![monitor(1, FlowMonitorFlags::REMOVED)]));
    assert!(updates(&mut watcher).1.is_empty());
    const LATE: u32 = 1_000_000;
    // Too many for the socket and the queue, and then others.
    for address in (0..40_000).chain(LATE..LATE + 1_000) {
        other.send(&Message::FlowMod(flow(address, 1)));
        other.send(&changed(FlowModCommand::DeleteStrict, flow(address, 1)));
    }
    other.barrier();
    let mut paused = false;
    loop {
        for update in next_updates(&mut watcher) {
            match update {
                FlowUpdate::Paused => paused = true,
                FlowUpdate::Resumed => {
                    assert!(paused);
                    return;
                }
                FlowUpdate::Flow(update) => {
                    let address = update.matching.exact(Field::Ipv4Dst).expect("an address");
                    assert!(address < LATE.into(), "{address} came and went meanwhile");
                }
                FlowUpdate::Abbreviated { .. } => panic!("it has changed nothing"),
            }
        }
    }
}
