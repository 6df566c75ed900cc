//! Learning from packets: hosts by `NORMAL`, and flows by `learn`.

use super::*;

#[test]
fn normal_learns_where_addresses_are() {
    let switch = switch(&["actions=normal"]);
    let back = "in_port=3,tcp,dl_src=02:00:00:00:00:02,dl_dst=02:00:00:00:00:01";
    let first = decided(&switch, TCP);
    assert_eq!(print_steps(&first.steps), "output 2, output 3, output 4");
    let snapshot = switch.snapshot();
    assert_eq!(steps(&switch, back), "output 1");
    assert_eq!(steps(&switch, TCP), "output 3");
    // The decision to flood is concerned by it.
    let snapshot_now = switch.snapshot();
    let mut changes = snapshot_now.changes_since(snapshot.version()).expect("kept");
    assert!(changes.any(|change| first.concerns(change, &key(TCP))));
    assert_eq!(
        steps(&switch, "in_port=1,dl_dst=01:80:c2:00:00:02,dl_src=02:00:00:00:00:01"),
        "drop"
    );
}

/// A decision whose source found no room is concerned by changes that may have made some.
#[test]
fn normal_learns_later_where_there_was_no_room() {
    let switch = switch(&["actions=normal"]);
    let hosts = &switch.shared_state().hosts;
    let (at_port_1, source) = (|nth: u64| 0x0600_0000_0000 | nth, 0x0200_0000_0001);
    assert!((0..1 << 16).all(|nth| hosts.learn(0, at_port_1(nth), 1, 0)));
    // It was elsewhere before, which does not make it seen there.
    assert!(hosts.learn(0, source, 4, 0));
    let (full, version) = (decided(&switch, TCP), switch.version());
    assert!(full.holds && full.depends.unlearnt && full.touched.is_empty());
    let concerned = || {
        let snapshot = switch.snapshot();
        let mut changes = snapshot.changes_since(version).expect("kept");
        changes.any(|change| full.concerns(change, &key(TCP)))
    };
    assert!(!concerned());
    assert!(hosts.learn(0, at_port_1(5), 2, 0));
    switch.host_changed(0, at_port_1(5));
    assert!(concerned());
    let learnt = decided(&switch, TCP);
    assert!(!learnt.depends.unlearnt && learnt.touched.len() == 1);
    assert_eq!(hosts.find(0, source).map(|host| host.0), Some(1));
}

#[test]
fn a_flow_is_learnt_once() {
    let learn = "learn(table=1,idle_timeout=10,hard_timeout=20,cookie=0x7,\
                 NXM_OF_VLAN_TCI[0..11],NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],\
                 output:NXM_OF_IN_PORT[])";
    let switch = switch(&[
        &format!("table=0,actions={learn},resubmit(,1)"),
        "table=1,priority=0,actions=flood",
    ]);
    let first = decided(&switch, TCP);
    assert_eq!(print_steps(&first.steps), "output 2, output 3, output 4");
    let version = switch.version();
    let back = "in_port=3,tcp,dl_src=02:00:00:00:00:02,dl_dst=02:00:00:00:00:01";
    assert_eq!(steps(&switch, back), "output 1");
    assert!(switch.version() > version);
    let version = switch.version();
    let again = decided(&switch, TCP);
    assert_eq!(print_steps(&again.steps), "output 3");
    assert_eq!(switch.version(), version, "it is there");
    assert_eq!(again.touched.len(), 2, "and used");
    let snapshot = switch.snapshot();
    let flow = snapshot.flows(1).find(|flow| flow.cookie == 7).expect("learnt");
    assert_eq!((flow.idle_timeout, flow.hard_timeout), (10, 20));
    assert!(again.depends.learnt.len() == 1);
}

/// A decision whose flow found no room, or is pending, is concerned by other flows of the table:
/// one may have gone to make room.
#[test]
fn a_refused_learn_is_tried_again() {
    let learn = "learn(table=1,limit=1,cookie=0x7,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[])";
    let switch = switch(&[&format!("table=0,actions={learn},output:2")]);
    assert_eq!(steps(&switch, TCP), "output 2");
    let other = TCP.replace("dl_src=02:00:00:00:00:01", "dl_src=02:00:00:00:00:09");
    let (full, version) = (decided(&switch, &other), switch.version());
    assert!(full.holds);
    let gone = syntax().flow("table=1,cookie=0x7/-1", FlowModCommand::Delete).expect("a flow");
    switch.flow_mod(&gone, Version::V13, SECOND).expect("deleted");
    let concerned = |decision: &Decision| {
        let snapshot = switch.snapshot();
        let mut changes = snapshot.changes_since(version).expect("kept");
        changes.any(|change| decision.concerns(change, &key(&other)))
    };
    assert!(concerned(&full));
    let made = decided(&switch, &other);
    assert_eq!(switch.snapshot().flows(1).count(), 1);
    assert_eq!(made.depends.unsettled, [0; 4]);
}

/// Learnt flows go with the last flow that learns of their kind, with the flag for that.
#[test]
fn learnt_flows_go_with_those_that_have_learnt_them() {
    let learn = |cookie: u64, flag: &str| {
        format!("learn(table=1,cookie={cookie},{flag}NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[])")
    };
    let (goes, stays) = (learn(7, "delete_learned,"), learn(8, ""));
    let switch = switch(&[
        &format!("table=0,in_port=1,actions={goes},{stays}"),
        &format!("table=0,in_port=2,actions=clone({goes})"),
    ]);
    decided(&switch, TCP);
    let cookies = || {
        let snapshot = switch.snapshot();
        let mut cookies: Vec<u64> = snapshot.flows(1).map(|flow| flow.cookie).collect();
        cookies.sort_unstable();
        cookies
    };
    // Both have the same match: the second takes the place of the first.
    assert_eq!(cookies(), [8]);
    decided(&switch, &TCP.replace("in_port=1", "in_port=2").replace(":01,", ":09,"));
    assert_eq!(cookies(), [7, 8]);
    let change = |text: &str, command| {
        let flow = syntax().flow(text, command).expect(text);
        switch.flow_mod(&flow, Version::V10, SECOND).expect(text);
    };
    change("table=0,in_port=1", FlowModCommand::Delete);
    assert_eq!(cookies(), [7, 8], "another learns them, too");
    change(&format!("table=0,in_port=2,actions={goes}"), FlowModCommand::Add);
    assert_eq!(cookies(), [7, 8], "still");
    change("table=0,in_port=2,actions=drop", FlowModCommand::Modify);
    assert_eq!(cookies(), [8]);
}
