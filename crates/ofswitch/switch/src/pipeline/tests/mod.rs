//! Steps of actions, and dependencies of decisions.

mod first_header;
mod groups;
mod learning;
mod random;
mod service_header;

use std::sync::Arc;

use super::*;
use crate::key::ENTRY_WORDS;
use crate::switch::{Switch, SwitchOptions};
use crate::text::Syntax;
use crate::wire::{
    Action, Ethernet, Field, FlowMod, FlowModCommand, GroupCommand, Instruction, Match,
    MeterCommand, Port, PortConfig, PortNumber, PortState, Version,
};

const SECOND: u64 = 1_000_000_000;

fn port(number: u32, config: PortConfig) -> Port {
    Port {
        number: PortNumber(number),
        address: [2, 0, 0, 0, 0, number as u8],
        name: format!("port{number}"),
        config,
        state: PortState::LIVE,
        ethernet: Some(Ethernet::default()),
        others: Vec::new(),
    }
}

/// A switch with ports 1 to 4, and these flows; lines that begin with `group` are groups, and with
/// `meter` meters.
fn switch(lines: &[&str]) -> Arc<Switch> {
    let switch = Switch::new(SwitchOptions::default());
    for number in 1..=4 {
        switch.add_port(port(number, PortConfig::default()), 0);
    }
    add(&switch, lines);
    switch
}

/// A port is set so from now on: one that is added again is set as it was.
fn set_port(switch: &Switch, number: u32, config: PortConfig) {
    assert!(switch.remove_port(PortNumber(number), 0));
    switch.add_port(port(number, config), 0);
}

fn syntax() -> Syntax<'static> {
    Syntax::new(Version::V13)
}

fn add(switch: &Switch, lines: &[&str]) {
    for line in lines {
        let done = if line.starts_with("group") {
            let group = syntax().group(line, GroupCommand::Add).expect(line);
            switch.group_mod(&group, Version::V15, 0)
        } else if line.starts_with("meter") {
            let meter = syntax().meter(line, MeterCommand::Add).expect(line);
            switch.meter_mod(&meter, 0)
        } else {
            let flow = syntax().flow(line, FlowModCommand::Add).expect(line);
            switch.flow_mod(&flow, Version::V10, 0)
        };
        done.unwrap_or_else(|fault| panic!("{line}: {fault:?}"));
    }
}

fn key(text: &str) -> Key {
    let matching = syntax().matching(text).expect(text);
    let (key, _) = crate::key::of_match(&matching);
    key
}

fn decided(switch: &Switch, packet: &str) -> Decision {
    decide(&switch.snapshot(), switch.shared_state(), switch, &key(packet), None, SECOND)
}

/// The steps for a packet, in words.
fn steps(switch: &Switch, packet: &str) -> String {
    print_steps(&decided(switch, packet).steps)
}

/// The bits that are looked at of a packet, in words, but the port.
fn mask(switch: &Switch, packet: &str) -> String {
    let mut mask = decided(switch, packet).mask;
    mask.words_mut()[0] = 0;
    syntax().print_match(&looked_at(&key(packet), &mask))
}

const TCP: &str = "in_port=1,tcp,dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02,\
                   nw_src=10.0.0.1,nw_dst=10.0.0.2,nw_ttl=64,tp_src=1000,tp_dst=80";

/// Actions of any version.
fn loose(text: &str) -> Vec<Action> {
    let actions = Syntax::new(Version::V10).actions(text);
    actions.or_else(|_| syntax().actions(text)).unwrap_or_else(|fault| panic!("{text}: {fault:?}"))
}

/// Returns the steps of one flow with these actions, for all packets: the actions check headers.
fn actions(actions: &str, packet: &str) -> String {
    let switch = switch(&[]);
    let apply = vec![Instruction::ApplyActions(loose(actions))];
    let flow = FlowMod::add(0, 100, Match::new(), apply);
    switch.flow_mod(&flow, Version::V10, 0).expect("a flow");
    steps(&switch, packet)
}

#[test]
fn outputs_are_real_ports() {
    let to = |action: &str| actions(action, TCP);
    assert_eq!(to("output:2"), "output 2");
    assert_eq!(to("output:1"), "drop", "it came from there");
    assert_eq!(to("in_port"), "output 1");
    assert_eq!(to("output:9"), "drop", "there is no such port");
    assert_eq!(to("all"), "output 2, output 3, output 4");
    assert_eq!(to("flood"), "output 2, output 3, output 4");
    assert_eq!(to("controller"), "to controllers (Action)");
    assert_eq!(to("set_queue:3,output:2,pop_queue,output:3"), "output 2 by queue 3, output 3");
    assert_eq!(to("enqueue:2:7,output:3"), "output 2 by queue 7, output 3");
    assert_eq!(to("output(port=2,max_len=100)"), "output 2 cut to 100");
    assert_eq!(to("load:3->NXM_NX_REG0[],output:NXM_NX_REG0[]"), "output 3");
    assert_eq!(to("load:0xfff8->NXM_NX_REG0[],output:NXM_NX_REG0[]"), "output 1");
    assert_eq!(to("load:4->NXM_OF_IN_PORT[],output:1,output:4"), "output 1", "as from 4");
    assert_eq!(to("drop"), "drop");
}

#[test]
fn ports_are_set_so_that_they_do_not() {
    let switch = switch(&["table=0,actions=flood,all"]);
    set_port(&switch, 2, PortConfig::NO_FLOOD);
    set_port(&switch, 3, PortConfig::NO_FORWARD);
    assert_eq!(steps(&switch, TCP), "output 4, output 2, output 4");
    set_port(&switch, 1, PortConfig::NO_RECEIVE);
    assert_eq!(steps(&switch, TCP), "drop");
    let switch = self::switch(&["table=0,priority=0,actions=controller"]);
    set_port(&switch, 1, PortConfig::NO_PACKET_IN);
    assert_eq!(steps(&switch, TCP), "drop");
}

#[test]
fn fields_are_set_before_an_output_alone() {
    let of = |action: &str| actions(action, TCP);
    let source = "02:00:00:00:00:09";
    assert_eq!(of(&format!("output:2,mod_dl_src:{source}")), "output 2", "nobody sees it");
    assert_eq!(
        of(&format!("mod_dl_src:02:00:00:00:00:08,mod_dl_src:{source},output:2,output:3")),
        format!("set dl_src={source}, output 2, output 3")
    );
    assert_eq!(of("dec_ttl,output:2"), "set nw_ttl=63, output 2");
    assert_eq!(of("mod_tp_dst:81,output:2"), "set tp_dst=81, output 2");
    assert_eq!(of("set_field:5->udp_dst,output:2"), "output 2", "it has none");
    assert_eq!(of("set_field:5->mpls_label,output:2"), "output 2", "it has none");
    assert_eq!(of("set_mpls_ttl(3),output:2"), "output 2");
    assert_eq!(of("set_field:5->tun_id,output:2"), "set tun_id=0x5, output 2");
    assert_eq!(
        of("move:NXM_OF_ETH_DST[]->NXM_OF_ETH_SRC[],output:2"),
        "set dl_src=02:00:00:00:00:02, output 2"
    );
    assert_eq!(
        of("push:NXM_OF_IP_SRC[],push:NXM_OF_IP_DST[],pop:NXM_OF_IP_SRC[],pop:NXM_OF_IP_DST[],\
            output:2"),
        "set nw_src=10.0.0.2, set nw_dst=10.0.0.1, output 2"
    );
}

#[test]
fn written_bits_are_not_in_the_mask() {
    let at = |lines: &[&str]| mask(&switch(lines), TCP);
    assert_eq!(at(&["actions=output:2"]), "");
    assert_eq!(at(&["actions=mod_dl_src:02:00:00:00:00:09,output:2"]), "");
    // A field that is written and then matched is not the packet's.
    let lines = [
        "table=0,actions=mod_dl_dst:02:00:00:00:00:09,resubmit(,1)",
        "table=1,dl_dst=02:00:00:00:00:09,actions=output:2",
    ];
    assert_eq!(at(&lines), "");
    assert_eq!(steps(&switch(&lines), TCP), "set dl_dst=02:00:00:00:00:09, output 2");
    // One that is copied is, where it came from.
    let lines = [
        "table=0,actions=move:NXM_OF_ETH_SRC[0..15]->NXM_NX_REG0[0..15],resubmit(,1)",
        "table=1,reg0=1,actions=output:2",
    ];
    assert_eq!(at(&lines), "dl_src=00:00:00:00:00:01/00:00:00:00:ff:ff");
    assert_eq!(at(&["ip,actions=dec_ttl,output:2"]), "ip,nw_ttl=64");
}

const TAGGED: &str = "in_port=1,dl_vlan=5,dl_vlan_pcp=3,ip,nw_ttl=64";

#[test]
fn tags_come_and_go() {
    let of = |action: &str| actions(action, TAGGED);
    assert_eq!(of("strip_vlan,output:2"), "pop_vlan, output 2");
    assert_eq!(of("mod_vlan_vid:7,output:2"), "set vlan_tci=0x0007/0x0fff, output 2");
    assert_eq!(of("push_vlan:0x88a8,output:2"), "push_vlan 0x88a8 vid=0 pcp=0, output 2");
    assert_eq!(
        of("push_vlan:0x8100,set_field:0x1009->vlan_vid,set_field:2->vlan_pcp,output:2"),
        "push_vlan 0x8100 vid=9 pcp=2, output 2"
    );
    assert_eq!(
        of("push_vlan:0x8100,strip_vlan,output:2"),
        "push_vlan 0x8100 vid=0 pcp=0, pop_vlan, output 2"
    );
    let of = |action: &str| actions(action, TCP);
    assert_eq!(of("mod_vlan_vid:7,output:2"), "push_vlan 0x8100 vid=7 pcp=0, output 2");
    assert_eq!(of("strip_vlan,output:2"), "output 2");
    // As Open vSwitch has it, a tag comes with its number.
    assert_eq!(of("set_field:0x1007->vlan_vid,output:2"), "push_vlan 0x8100 vid=7 pcp=0, output 2");
    // The tag behind is the packet's again.
    let lines = [
        "table=0,actions=push_vlan:0x8100,strip_vlan,resubmit(,1)",
        "table=1,dl_vlan=5,actions=output:2",
    ];
    assert!(steps(&switch(&lines), TAGGED).ends_with("output 2"));
    assert_eq!(mask(&switch(&lines), TAGGED), "dl_vlan=5");
}

const LABELLED: &str = "in_port=1,mpls,mpls_label=16,mpls_tc=2,mpls_ttl=9,mpls_bos=1";

#[test]
fn labels_come_and_go() {
    let of = |action: &str| actions(action, TCP);
    assert_eq!(of("push_mpls:0x8847,output:2"), "push_mpls 0x8847 label=0 ttl=64, output 2");
    // Headers from before the push are known again.
    let lines = [
        "table=0,ip,actions=push_mpls:0x8847,pop_mpls:0x0800,resubmit(,1)",
        "table=1,tcp,tp_dst=80,actions=output:2",
    ];
    assert!(steps(&switch(&lines), TCP).ends_with("pop_mpls 0x0800, output 2"));
    // Headers behind a label that came with the packet are unknown.
    let of = |action: &str| actions(action, LABELLED);
    assert_eq!(of("pop_mpls:0x0800,output:2"), "pop_mpls 0x0800, output 2");
    assert_eq!(of("pop_mpls:0x0800,dec_ttl,output:2"), "pop_mpls 0x0800, look up again as 1");
    assert_eq!(of("dec_mpls_ttl,output:2"), "set mpls_ttl=8, output 2");
    let lines = ["table=0,mpls,actions=pop_mpls:0x0800,resubmit(,1),output:3"];
    let switch = switch(&[lines[0], "table=1,tcp,actions=dec_ttl,output:2"]);
    let first = decided(&switch, LABELLED);
    let Some(Step::Continue(next)) = first.steps.last() else { panic!("{first:?}") };
    assert_eq!(next.number, 1);
    let again = decided(&switch, LABELLED);
    let Some(Step::Continue(same)) = again.steps.last() else { panic!("{again:?}") };
    assert!(Arc::ptr_eq(next, same), "what is the same has the same number");
    let mut packet = key(TCP);
    packet.set_continuation(next.number);
    let snapshot = switch.snapshot();
    let then = decide(&snapshot, switch.shared_state(), &*switch, &packet, Some(next), SECOND);
    assert_eq!(print_steps(&then.steps), "set nw_ttl=63, output 2, output 3");
    assert_eq!(then.mask.words()[0], u64::MAX, "only packets that go on so");
}

#[test]
fn a_time_to_live_that_ends_is_told_and_ends_the_flow() {
    let dying = TCP.replace("nw_ttl=64", "nw_ttl=1");
    let lines = ["table=0,actions=resubmit(,1),output:3", "table=1,ip,actions=dec_ttl,output:2"];
    assert_eq!(steps(&switch(&lines), &dying), "to controllers (InvalidTtl), output 3");
    assert_eq!(steps(&switch(&lines), TCP), "set nw_ttl=63, output 2, output 3");
}

#[test]
fn the_set_is_done_in_its_order() {
    let lines = [
        "table=0,ip,actions=write_actions(output:3,dec_ttl,push_vlan:0x8100,output:2),goto_table:1",
        "table=1,actions=output:4",
    ];
    assert_eq!(
        steps(&switch(&lines), TCP),
        "output 4, push_vlan 0x8100 vid=0 pcp=0, set nw_ttl=63, output 2"
    );
    let lines = [
        "table=0,actions=write_actions(output:3),goto_table:1",
        "table=1,actions=clear_actions,write_metadata:5,goto_table:2",
        "table=2,metadata=5,actset_output=unset,actions=output:2",
    ];
    assert_eq!(steps(&switch(&lines), TCP), "output 2");
    let lines =
        ["group_id=1,type=indirect,bucket=output:4", "actions=write_actions(output:3,group:1)"];
    assert_eq!(steps(&switch(&lines), TCP), "output 4", "a group comes before an output");
}

#[test]
fn misses_are_dropped_or_as_tables_say() {
    assert_eq!(steps(&switch(&["table=1,actions=output:2"]), TCP), "drop");
    let switch = switch(&[]);
    switch.set_misses_to_controllers(true);
    assert_eq!(steps(&switch, TCP), "to controllers (NoMatch)");
    add(&switch, &["table=0,actions=resubmit(,1),output:2"]);
    assert_eq!(steps(&switch, TCP), "output 2", "resubmit does not ask what a miss is");
}

#[test]
fn a_switch_that_stands_alone_asks_no_flow() {
    let switch = switch(&["priority=65535,actions=drop"]);
    switch.set_stands_alone(true);
    let alone = decided(&switch, TCP);
    assert_eq!(print_steps(&alone.steps), "output 2, output 3, output 4");
    assert!(alone.flows.is_empty() && switch.snapshot().flows(0).count() == 1);
    let version = switch.version();
    switch.set_stands_alone(false);
    let snapshot = switch.snapshot();
    let mut changes = snapshot.changes_since(version).expect("kept");
    assert!(changes.any(|change| alone.concerns(change, &key(TCP))));
    assert_eq!(steps(&switch, TCP), "drop");
}

#[test]
fn lookups_are_bounded() {
    assert_eq!(steps(&switch(&["actions=output:2,resubmit(,0)"]), TCP), "drop", "a loop");
    let lines: Vec<String> = (0..20)
        .map(|table| {
            let (one, next) = (table, table + 1);
            format!("table={one},actions=resubmit(,{next}),resubmit(,{next})")
        })
        .collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    assert_eq!(steps(&switch(&lines), TCP), "drop", "a million lookups");
    let all = |number: u32, bucket: &str| {
        format!("group_id={number},type=all{}", format!(",bucket={bucket}").repeat(150))
    };
    let lines = [all(2, "dec_ttl,output:2"), all(1, "group:2"), "ip,actions=group:1".to_owned()];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    assert!(decided(&switch(&lines), TCP).steps.is_empty(), "many steps, each in a copy");
}

#[test]
fn exit_ends_all() {
    let lines = ["table=0,actions=resubmit(,1),output:3", "table=1,actions=output:2,exit,output:4"];
    assert_eq!(steps(&switch(&lines), TCP), "output 2");
    assert_eq!(actions("clone(output:2,exit,output:4),output:3", TCP), "output 2");
    let lines =
        ["table=0,actions=write_actions(output:3),goto_table:1", "table=1,actions=output:2,exit"];
    assert_eq!(steps(&switch(&lines), TCP), "output 2", "not even the set is done");
}

#[test]
fn copies_leave_the_packet_alone() {
    assert_eq!(
        actions("clone(dec_ttl,output:2),output:3", TCP),
        "with a copy (set nw_ttl=63, output 2), output 3"
    );
    assert_eq!(
        actions("output:3,clone(dec_ttl,output:2)", TCP),
        "output 3, set nw_ttl=63, output 2"
    );
    assert_eq!(
        actions("check_pkt_larger(100)->NXM_NX_REG0[0],output:2", TCP),
        "longer than 100: look up again as 1, else as 2"
    );
}

#[test]
fn matches_of_several_dimensions() {
    let lines = [
        "table=0,priority=10,ip,nw_src=10.0.0.1,actions=conjunction(7,1/2)",
        "table=0,priority=10,tcp,tp_dst=80,actions=conjunction(7,2/2)",
        "table=0,priority=10,conj_id=7,actions=output:2",
        "table=0,priority=1,actions=output:3",
    ];
    let switch = switch(&lines);
    assert_eq!(steps(&switch, TCP), "output 2");
    assert_eq!(steps(&switch, &TCP.replace("tp_dst=80", "tp_dst=81")), "output 3");
}

#[test]
fn connections_are_looked_up_when_the_packet_is_there() {
    let lines = [
        "table=0,ct_state=-trk,ip,actions=ct(table=1,zone=5)",
        "table=1,ct_state=+trk+new,ip,actions=ct(commit,zone=5,exec(move:NXM_NX_REG0[]->NXM_NX_CT_MARK[])),output:2",
    ];
    let switch = switch(&lines);
    let first = decided(&switch, TCP);
    assert_eq!(print_steps(&first.steps), "track in zone 5, look up again as 1");
    let Some(Step::Continue(next)) = first.steps.last() else { panic!("{first:?}") };
    let mut packet = key(TCP);
    packet.set_continuation(next.number);
    packet.set(Field::CtState, 0x21);
    let snapshot = switch.snapshot();
    let then = decide(&snapshot, switch.shared_state(), &*switch, &packet, Some(next), SECOND);
    assert_eq!(
        print_steps(&then.steps),
        "track in zone 5, remember, set_field:0x0->ct_mark, output 2"
    );
    assert_eq!(then.mask.get(Field::CtState), 0x21, "its bits are the packet's");
}

/// The packet-ins among the steps.
fn punted(steps: &[Step]) -> Vec<&Punt> {
    let punts = steps.iter().filter_map(|step| match step {
        Step::Controller(punt) => Some(&**punt),
        _ => None,
    });
    punts.collect()
}

/// Packet-ins have the fields at the time of the action, not those at arrival or later ones.
#[test]
fn packet_ins_have_the_fields_that_flows_know() {
    let switch = switch(&[
        "table=0,priority=9,udp,actions=ct(commit,zone=3),controller",
        "table=0,priority=9,tcp,actions=set_tunnel:6,load:7->NXM_NX_REG0[],controller,\
         set_tunnel:9,controller",
    ]);
    let mut came = key(TCP);
    came.set(Field::CtState, 0x21);
    came.set(Field::CtZone, 3);
    came.set(Field::TunnelId, 5);
    let tcp = decided(&switch, TCP);
    let [first, second] = &punted(&tcp.steps)[..] else { panic!("{:?}", tcp.steps) };
    assert_eq!(first.known(&came).get(Field::TunnelId), 6);
    assert_eq!(first.known(&came).get(Field::Reg0), 7);
    assert_eq!(first.known(&came).get(Field::CtZone), 3, "nothing was written there");
    assert_eq!(second.known(&came).get(Field::TunnelId), 9);
    let udp = decided(&switch, &TCP.replace("tcp", "udp"));
    let [punt] = &punted(&udp.steps)[..] else { panic!("{:?}", udp.steps) };
    for field in [Field::CtState, Field::CtZone] {
        assert_eq!(punt.known(&came).get(field), 0, "{}", field.name());
    }
    assert_eq!(punt.known(&came).get(Field::InPort), 1);
    assert_eq!(punt.known(&came).get(Field::Ipv4Src), came.get(Field::Ipv4Src));
}

fn followed(switch: &Switch, packet: &str, states: &[u32]) -> String {
    follow(&switch.snapshot(), switch.shared_state(), &key(packet), None, states, SECOND)
}

#[test]
fn a_trace_goes_on_where_connections_are_looked_up() {
    let switch = switch(&[
        "table=0,ip,actions=ct(table=1,zone=5,nat)",
        "table=1,ct_state=+new+trk,ip,in_port=1,actions=ct(commit,table=2,zone=6,nat(src=10.9.9.9:77)),output:2",
        "table=1,ct_state=+est+trk,ct_zone=5,ip,actions=output:3",
        "table=2,ct_state=+new,ct_nw_src=10.0.0.1,tcp,nw_src=10.9.9.9,tp_src=77,actions=output:4",
        "table=2,ct_state=+rpl,ct_nw_dst=10.0.0.1,tcp,actions=output:3",
    ]);
    let text = followed(&switch, TCP, &[]);
    assert_eq!(text.matches("be ct_state=+new+trk (--ct-next").count(), 2, "{text}");
    assert!(text.contains("its connection was looked up in zone 5, taken to be"), "{text}");
    assert!(text.contains("output 2") && text.contains("output 4"), "{text}");
    // Each state is of one that is looked up.
    let text = followed(&switch, TCP, &[0x02]);
    assert!(text.contains("output 3") && !text.contains("output 4"), "{text}");
    assert!(!text.contains("--ct-next"), "{text}");
    let text = followed(&switch, TCP, &[0x01, 0x2a]);
    assert!(text.contains("output 2") && text.contains("output 3"), "{text}");
}

#[test]
fn a_trace_goes_on_where_headers_are_looked_at_again() {
    let switch = switch(&[
        "table=0,mpls,actions=pop_mpls:0x0800,resubmit(,1)",
        "table=0,priority=9,udp,actions=check_pkt_larger(100)->NXM_NX_REG0[0],resubmit(,2)",
        "table=0,priority=9,tcp,actions=ct(table=0,zone=1)",
        "table=1,ip,actions=output:2",
        "table=2,reg0=0/1,actions=output:3",
        "table=2,reg0=1/1,actions=output:4",
    ]);
    let udp = TCP.replace("tcp", "udp");
    let text = followed(&switch, &udp, &[]);
    assert!(text.contains("output 3") && text.contains("output 4"), "it has no length: {text}");
    let bytes = crate::key::compose(&key(&udp));
    let snapshot = switch.snapshot();
    let text = follow(&snapshot, switch.shared_state(), &key(&udp), Some(&bytes), &[], SECOND);
    assert!(text.contains("output 3") && !text.contains("output 4"), "{text}");
    let mut bytes = crate::key::compose(&key("in_port=1,mpls,mpls_label=16,mpls_bos=1,mpls_ttl=9"));
    bytes.truncate(18);
    bytes.extend(&crate::key::compose(&key(&udp))[14..]);
    let mut labelled = key("in_port=1");
    crate::key::extract(&bytes, &mut labelled);
    let text = follow(&snapshot, switch.shared_state(), &labelled, Some(&bytes), &[], SECOND);
    assert!(text.contains("output 2"), "{text}");
    // One that is looked up for ever comes to an end.
    let text = followed(&switch, TCP, &[]);
    assert!(text.contains("the rest is not told"), "{text}");
}

#[test]
fn packets_of_controllers() {
    let switch = switch(&["table=0,in_port=controller,actions=output:3"]);
    let snapshot = switch.snapshot();
    let out = |text: &str| {
        let actions = syntax().actions(text).expect(text);
        let key = key("in_port=controller,tcp,nw_ttl=64");
        let decision =
            packet_out(&snapshot, switch.shared_state(), &*switch, &key, &actions, SECOND);
        assert!(!decision.holds);
        print_steps(&decision.steps)
    };
    assert_eq!(out("output:2"), "output 2");
    assert_eq!(out("table"), "output 3");
    assert_eq!(out("dec_ttl,table,output:4"), "set nw_ttl=63, output 3, output 4");
    assert_eq!(out("flood"), "output 1, output 2, output 3, output 4");
    assert_eq!(out("controller"), "to controllers (PacketOut)");
}

#[test]
fn a_trace_has_each_step() {
    let switch = switch(&[
        "table=0,priority=7,tcp,cookie=0x5,actions=load:1->NXM_NX_REG0[],resubmit(,1),output:4",
        "table=1,reg0=1,tcp,tp_dst=80,actions=dec_ttl,output:2",
        "table=0,priority=0,actions=controller",
    ]);
    let snapshot = switch.snapshot();
    let (decision, text) = trace(&snapshot, switch.shared_state(), &key(TCP), None, SECOND);
    let expected = "\
table 0: priority 7, tcp, cookie 0x5
    load:0x1->NXM_NX_REG0[]
    resubmit(,1)
    table 1: priority 32768, tcp,reg0=0x1,tp_dst=80
        dec_ttl
        output:2
    output:4
";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("steps: set nw_ttl=63, output 2, output 4\n"), "{text}");
    assert_eq!(decision.flows.len(), 2);
    assert_eq!(snapshot.flows(1).next().expect("it is there").counters.packets(), 0);
}

#[test]
fn a_change_concerns_whom_it_may_change() {
    let switch = switch(&[
        "table=0,actions=mod_dl_dst:02:00:00:00:00:09,resubmit(,1)",
        "table=1,ip,nw_dst=10.0.0.0/8,actions=output:2",
    ]);
    let decision = decided(&switch, TCP);
    let concerned = |line: &str| {
        let before = switch.version();
        add(&switch, &[line]);
        let snapshot = switch.snapshot();
        let mut changes = snapshot.changes_since(before).expect("kept");
        changes.any(|change| decision.concerns(change, &key(TCP)))
    };
    assert!(concerned("table=1,priority=40000,ip,nw_dst=10.0.0.2,actions=output:3"));
    assert!(!concerned("table=1,priority=40000,ip,nw_dst=11.0.0.2,actions=output:3"));
    assert!(!concerned("table=2,priority=40000,ip,nw_dst=10.0.0.2,actions=output:3"));
    assert!(concerned("table=1,priority=40000,dl_dst=02:00:00:00:00:09,actions=output:3"));
    assert!(concerned("table=1,priority=32768,tcp,actions=output:3"));
    assert!(!concerned("table=1,priority=32767,tcp,actions=output:3"), "another comes first");
    assert!(!concerned("table=2,priority=1,tcp,actions=output:3"));
}

#[test]
fn where_nothing_matched_a_change_of_any_priority_counts() {
    // The table is looked up twice: the second time a flow matches.
    let switch = switch(&[
        "table=0,actions=resubmit(,1),set_field:5->reg0,resubmit(,1)",
        "table=1,priority=9,reg0=5,actions=output:2",
    ]);
    let decision = decided(&switch, TCP);
    add(&switch, &["table=1,priority=1,tcp,actions=output:3"]);
    let snapshot = switch.snapshot();
    assert!(decision.concerns(snapshot.changes_since(0).expect("kept").last().unwrap(), &key(TCP)));
}

#[test]
fn a_number_of_a_conjunction_depends_on_parts_of_lower_priorities() {
    let lines = [
        "table=0,priority=10,ip,nw_src=10.0.0.1,actions=conjunction(7,1/2)",
        "table=0,priority=10,tcp,tp_dst=80,actions=conjunction(7,2/2)",
        "table=0,priority=200,conj_id=7,actions=output:2",
    ];
    let switch = switch(&lines);
    let decision = decided(&switch, TCP);
    assert_eq!(print_steps(&decision.steps), "output 2");
    add(&switch, &[&lines[0].replace("7,1/2", "8,1/2")]);
    assert_eq!(steps(&switch, TCP), "drop");
    let snapshot = switch.snapshot();
    assert!(decision.concerns(snapshot.changes_since(0).expect("kept").last().unwrap(), &key(TCP)));
}

#[test]
fn nothing_but_the_entry_words_is_in_a_mask() {
    let decision = decided(&switch(&["reg0=0,metadata=0,actions=output:2"]), TCP);
    assert!(decision.mask.words()[ENTRY_WORDS..].iter().all(|word| *word == 0));
}
