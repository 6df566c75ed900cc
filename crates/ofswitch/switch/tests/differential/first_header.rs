//! `encap` and `decap` compared with Open vSwitch: the flows of its own tests, and others.

use fastrand::Rng;
use linerate_openflow::text::Syntax;
use linerate_openflow::wire::{FlowModCommand, GroupCommand, Message};

use crate::judge::{Judge, VERSION};
use crate::{PORTS, compare, explain, packets};

/// Sets of flows and groups; `TO_2` gives the packet addresses and sends it.
///
/// Open vSwitch pops all labels if the type given for the inner packet is not MPLS, and 3.1.0 fails
/// an assertion if it is: so these flows pop bottom labels only. Open vSwitch also fails if `encap`
/// within `clone` has no effect, as for a packet from port 2.
const SETS: &[&[&str]] = &[
    &["ip,actions=encap(mpls),set_field:2->mpls_label,encap(ethernet),TO_2"],
    &["ip,actions=encap(mpls_mc),set_field:2->mpls_label,encap(ethernet),TO_2"],
    &["ipv6,actions=encap(mpls),encap(ethernet),TO_2"],
    &["arp,actions=encap(mpls),set_field:9->mpls_label,set_mpls_ttl(3),encap(ethernet),TO_2"],
    &["ip,actions=encap(mpls),set_field:1->mpls_label,encap(mpls),set_field:2->mpls_label,\
       encap(ethernet),TO_2"],
    &["ip,actions=encap(mpls),output:3", "ipv6,actions=decap(),output:3,normal,flood"],
    &["mpls,mpls_bos=1,actions=decap(),decap(packet_type(ns=0,type=0)),output:2"],
    &["mpls,mpls_bos=1,actions=decap(),decap(packet_type(ns=1,type=0x800)),encap(ethernet),TO_2"],
    &["ip,actions=decap(),encap(ethernet),TO_2", "ipv6,actions=decap(),encap(ethernet),output:2"],
    &["ip,actions=decap(),dec_ttl,set_field:10.9.8.7->nw_dst,encap(ethernet),TO_2"],
    &["tcp,actions=decap(),set_field:99->tcp_dst,encap(ethernet),TO_2"],
    &["ip,actions=output:3,encap(ethernet),output:2", "ipv6,actions=output:3,decap(),decap()"],
    &["dl_vlan=5,actions=output:3,decap(),encap(ethernet),output:2"],
    &["ip,actions=push_vlan:0x8100,set_field:4101->vlan_vid,decap(),encap(ethernet),output:2"],
    &[
        "group_id=1,type=all,bucket=encap(ethernet),output:2,bucket=output:3",
        "ip,actions=group:1,output:4",
    ],
    &["in_port=1,ip,actions=clone(decap(),encap(ethernet),TO_2),output:3"],
    &["in_port=1,ip,actions=clone(encap(mpls),encap(ethernet),TO_2),output:3"],
    &["ip,actions=write_actions(encap(mpls),output:2),output:3"],
    &[
        "table=0,ip,actions=push_mpls:0x8847,set_field:2->mpls_label,resubmit(,1)",
        "table=1,mpls,mpls_label=2,actions=decap(),decap(packet_type(ns=1,type=0x800)),\
         encap(ethernet),set_field:02:00:00:00:00:0a->dl_dst,resubmit(,2)",
        "table=2,udp,actions=dec_ttl,output:3",
        "table=2,tcp,actions=output:4",
    ],
    &[
        "table=0,ip,actions=encap(mpls),set_field:5->mpls_label,encap(ethernet),resubmit(,1)",
        "table=1,mpls,mpls_label=5,actions=decap(),decap(packet_type(ns=0,type=0)),resubmit(,2)",
        "table=2,priority=2,udp,actions=dec_ttl,output:3",
        "table=2,priority=1,actions=mod_dl_src:02:00:00:00:00:0c,output:4",
    ],
    &[
        "table=0,mpls,mpls_bos=1,actions=decap(),decap(packet_type(ns=0,type=0)),resubmit(,1)",
        "table=1,priority=3,udp,actions=dec_ttl,output:3",
        "table=1,priority=2,ip,actions=output:2",
        "table=1,priority=1,mpls,mpls_bos=1,actions=pop_mpls:0x0800,resubmit(,2)",
        "table=2,ip,actions=dec_ttl,output:4",
    ],
    &[
        "table=0,actions=decap(),resubmit(,1)",
        "table=1,priority=2,metadata=0,actions=encap(ethernet),output:3",
        "table=1,priority=1,actions=output:4",
    ],
    &[
        "table=0,actions=decap(),resubmit(,1)",
        "table=1,priority=9,dl_dst=00:00:00:00:00:00,actions=output:3",
        "table=1,priority=8,ip,actions=output:3",
        "table=1,priority=5,packet_type=(1,0x800),nw_proto=17,actions=encap(ethernet),output:2",
        "table=1,priority=4,packet_type=(1,0x800),actions=encap(ethernet),TO_2",
        "table=1,priority=4,packet_type=(1,0x86dd),actions=encap(ethernet),output:4",
    ],
];

const TO_2: &str =
    "set_field:02:00:00:00:00:0a->dl_dst,set_field:02:00:00:00:00:0b->dl_src,output:2";

fn rule(line: &str) -> Message {
    let line = line.replace("TO_2", TO_2);
    let syntax = Syntax::new(VERSION);
    if line.starts_with("group") {
        return Message::GroupMod(syntax.group(&line, GroupCommand::Add).expect(&line));
    }
    Message::FlowMod(syntax.flow(&line, FlowModCommand::Add).expect(&line))
}

/// Packets of all kinds, plain and behind MPLS labels, with and without an inner Ethernet header.
fn some() -> Vec<(u32, Vec<u8>)> {
    let mut rng = Rng::with_seed(45);
    let mut all = Vec::new();
    for number in 0..120 {
        let packet = packets::random(&mut rng, false);
        let port = 1 + number % PORTS;
        let header = |kind: u16| {
            let mut header = vec![2, 0, 0, 0, 0, 4, 2, 0, 0, 0, 0, 3];
            header.extend(kind.to_be_bytes());
            header
        };
        let labels: &[u8] = match number % 3 {
            0 => &[0, 0, 0x51, 0x20],
            1 => &[0, 0, 0x50, 0x20, 0, 0, 0x61, 0x21],
            _ => &[0, 0, 0x20, 0x40, 0, 0, 0x21, 0x40],
        };
        all.push((port, [&header(0x8847)[..], labels, &packet].concat()));
        if let [_, _, _, _, _, _, _, _, _, _, _, _, 8, 0, carried @ ..] = &packet[..] {
            all.push((port, [&header(0x8847)[..], labels, carried].concat()));
        }
        all.push((port, packet));
    }
    all
}

#[test]
#[ignore = "needs ovs-vswitchd"]
fn the_first_header_is_the_same_in_open_vswitch() {
    let mut judge = Judge::start();
    let packets = some();
    let mut differ = 0;
    for lines in SETS {
        let set: Vec<Message> = lines.iter().map(|line| rule(line)).collect();
        match compare(&mut judge, &set, &packets) {
            Ok(taken) => assert_eq!(taken, set.len(), "Open vSwitch refuses one of {lines:?}"),
            Err(found) => {
                differ += 1;
                eprintln!("{lines:?}\n{}", explain(&mut judge, 0, &set, &found));
            }
        }
    }
    assert_eq!(differ, 0, "sets of which Open vSwitch makes something else");
}
