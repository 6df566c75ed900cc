//! Network service headers compared with Open vSwitch: the flows of its own tests, and random ones.
//!
//! Flows that set fields match a type of metadata: fields of a malformed header are zero, and Open
//! vSwitch changes its bytes all the same.

use fastrand::Rng;
use linerate_openflow::text::Syntax;
use linerate_openflow::wire::{FlowModCommand, GroupCommand, Message};

use crate::judge::{Judge, VERSION};
use crate::packets::{one_in, pick};
use crate::{PORTS, compare, explain, packets};

/// Sets of flows and groups; `TO_2` gives the packet addresses and sends it.
const SETS: &[&[&str]] = &[
    &["dl_type=0x894f,nsh_ttl=63,nsh_mdtype=1,nsh_np=3,nsh_spi=0x123456,nsh_si=255,\
       actions=set_field:2->nsh_flags,set_field:254->nsh_si,set_field:0x44332211->nsh_c1,\
       load:0x77->nsh_c3[8..15],output:2"],
    &[
        "table=0,ip,actions=encap(nsh(md_type=1)),set_field:0x1234->nsh_spi,\
         set_field:0x11223344->nsh_c1,encap(ethernet),set_field:11:22:33:44:55:66->dl_dst,\
         output:3,resubmit(,1)",
        "table=1,dl_type=0x894f,nsh_mdtype=1,nsh_spi=0x1234,nsh_c1=0x11223344,\
         actions=decap(),decap(),output:2",
    ],
    &["actions=push_vlan:0x8100,mod_vlan_vid:100,encap(nsh),decap(),output:2"],
    &["actions=encap(nsh),encap(ethernet),TO_2"],
    &[
        "table=0,ip,actions=encap(nsh(md_type=2,tlv(0x1000,10,0x12345678),\
         tlv(0x2000,20,0xfedcba9876543210),tlv(0x3000,1,0x0102030405))),set_field:0x1234->nsh_spi,\
         encap(ethernet),set_field:11:22:33:44:55:66->dl_dst,output:3,resubmit(,1)",
        "table=1,dl_type=0x894f,nsh_mdtype=2,nsh_spi=0x1234,actions=decap(),decap(),output:2",
    ],
    &["ip,actions=encap(nsh(md_type=1,tlv(0x1000,10,0x12345678))),encap(ethernet),TO_2"],
    &["ip,actions=encap(nsh(md_type=2)),encap(ethernet),TO_2"],
    &[
        "group_id=300,type=indirect,bucket=encap(ethernet),TO_2",
        "group_id=200,type=indirect,bucket=encap(nsh(md_type=1)),set_field:0x5678->nsh_spi,\
         set_field:0x55667788->nsh_c1,group:300",
        "group_id=100,type=indirect,bucket=encap(nsh(md_type=1)),set_field:0x1234->nsh_spi,\
         set_field:0x11223344->nsh_c1,group:200",
        "ip,actions=group:100",
    ],
    &[
        "table=0,dl_type=0x894f,actions=decap(),resubmit(,1)",
        "table=1,packet_type=(1,0x894f),nsh_mdtype=1,actions=decap(),resubmit(,2)",
        "table=1,packet_type=(1,0x894f),nsh_mdtype=2,actions=encap(ethernet),output:4",
        "table=2,packet_type=(1,0x894f),actions=decap(),resubmit(,3)",
        "table=2,packet_type=(1,0x800),actions=dec_ttl,encap(ethernet),TO_2",
        "table=2,packet_type=(1,0x86dd),actions=encap(ethernet),output:3",
        "table=2,ip,actions=dec_ttl,output:4",
        "table=2,priority=1,actions=output:2",
        "table=3,actions=output:3",
    ],
    &["ip,actions=decap(),encap(nsh),set_field:7->nsh_spi,encap(ethernet),TO_2"],
    &["ipv6,actions=decap(),encap(nsh),encap(nsh),encap(ethernet),TO_2,decap(),decap(),decap(),\
       encap(ethernet),output:3"],
    &["arp,actions=decap(),encap(nsh),encap(ethernet),output:2"],
    &["dl_type=0x894f,nsh_mdtype=1,actions=dec_nsh_ttl,output:2,dec_nsh_ttl,output:3"],
    &["dl_type=0x894f,nsh_mdtype=2,actions=set_field:50->nsh_ttl,dec_nsh_ttl,\
       set_field:0xff->nsh_flags,set_field:5->nsh_c2,output:2"],
    &["dl_type=0x894f,nsh_mdtype=1,actions=decap(),decap(),encap(nsh(md_type=1)),\
       set_field:7->nsh_ttl,set_field:0x0101->nsh_spi,set_field:4->nsh_si,\
       set_field:0x100f0e0d->nsh_c1,set_field:0x0c0b0a09->nsh_c2,set_field:0x08070605->nsh_c3,\
       set_field:0x04030201->nsh_c4,encap(ethernet),TO_2"],
    &[
        "dl_type=0x894f,nsh_flags=1/1,actions=output:1,output:2",
        "priority=9,dl_type=0x894f,nsh_c1=0x11220000/0xffff0000,actions=output:3",
        "priority=8,dl_type=0x894f,nsh_np=4,actions=output:4",
        "priority=7,dl_type=0x894f,nsh_ttl=63,nsh_si=255,actions=output:3,output:4",
    ],
    &["dl_type=0x894f,nsh_mdtype=1,actions=move:NXOXM_NSH_SPI[]->NXM_NX_REG0[0..23],\
       move:NXM_NX_REG0[0..15]->NXOXM_NSH_C4[8..23],move:NXOXM_NSH_C2[]->NXOXM_NSH_C3[],output:2"],
    &["dl_type=0x894f,actions=decap(),encap(mpls),encap(ethernet),TO_2"],
];

const TO_2: &str =
    "set_field:02:00:00:00:00:0a->dl_dst,set_field:02:00:00:00:00:0b->dl_src,output:2";

fn rule(line: &str) -> Option<Message> {
    let line = line.replace("TO_2", TO_2);
    let syntax = Syntax::new(VERSION);
    if line.starts_with("group") {
        return syntax.group(&line, GroupCommand::Add).ok().map(Message::GroupMod);
    }
    syntax.flow(&line, FlowModCommand::Add).ok().map(Message::FlowMod)
}

/// Actions of random flows; combinations that do not fit together are left out.
const ACTIONS: &[&str] = &[
    "output:2",
    "output:3",
    "TO_2",
    "dec_nsh_ttl",
    "dec_ttl",
    "decap()",
    "decap()",
    "encap(nsh)",
    "encap(nsh(md_type=2,tlv(0x1,2,0x1122334455)))",
    "encap(ethernet)",
    "encap(ethernet)",
    "resubmit(,1)",
    "resubmit(,2)",
    "set_field:1->nsh_flags",
    "set_field:63->nsh_ttl",
    "set_field:1->nsh_ttl",
    "set_field:0x123456->nsh_spi",
    "set_field:5->nsh_spi",
    "set_field:3->nsh_si",
    "set_field:0x11223344->nsh_c1",
    "set_field:0xff00ff00->nsh_c4",
    "load:0x5->nsh_c2[4..11]",
    "move:NXOXM_NSH_C1[0..15]->NXM_NX_REG0[0..15]",
    "move:NXM_NX_REG0[0..7]->NXOXM_NSH_SI[]",
];

/// Returns true if actions may fail behind a header that they add and remove. There Open vSwitch
/// parses the packet again, and has done earlier outputs.
fn fails_late(actions: &str) -> bool {
    let added = actions.split_once("encap(nsh").map_or("", |(_, behind)| behind);
    let taken = added.split_once("decap()").map_or("", |(_, behind)| behind);
    taken.contains("decap()") || taken.contains("encap(ethernet)")
}

fn random(rng: &mut Rng) -> Vec<Message> {
    let mut set = Vec::new();
    while set.len() < 8 {
        let table = rng.u8(..3);
        let matching = match rng.u32(..6) {
            0 => "",
            1 => "ip,",
            2 => "packet_type=(1,0x894f),nsh_mdtype=1,",
            3 => "packet_type=(1,0x800),",
            _ => "dl_type=0x894f,nsh_mdtype=1,",
        };
        let more = match rng.u32(..8) {
            0 => "nsh_np=3,",
            1 => "nsh_spi=5,",
            2 => "nsh_flags=1/1,",
            3 => "nsh_c1=0x11220000/0xffff0000,",
            4 => "nsh_ttl=63,nsh_si=3,",
            _ => "",
        };
        let more = if matching.contains("nsh") { more } else { "" };
        let count = rng.usize(1..7);
        let actions: Vec<&str> = (0..count).map(|_| *pick(rng, ACTIONS)).collect();
        // Only to later tables.
        let actions =
            actions.join(",").replace("resubmit(,1)", &format!("resubmit(,{})", table + 1));
        if table == 2 && actions.contains("resubmit") || fails_late(&actions) {
            continue;
        }
        let priority = 10 + set.len();
        let line = format!("table={table},priority={priority},{matching}{more}actions={actions}");
        set.extend(rule(&line));
    }
    set
}

/// A network service header in front of a packet of its next protocol.
fn header(rng: &mut Rng, next: u8, behind: &[u8]) -> Vec<u8> {
    let md_type = *pick(rng, &[1, 1, 1, 2, 2, 3]);
    let metadata = match md_type {
        1 => [*pick(rng, &[0x1122_3344, 0x1122_0000, 0]), 0x5566_7788, 0, 0xddee_ff00_u32]
            .iter()
            .flat_map(|word| word.to_be_bytes())
            .collect(),
        2 if rng.bool() => vec![0x10, 0, 10, 4, 1, 2, 3, 4],
        _ => Vec::new(),
    };
    let words = (2 + metadata.len() / 4) as u16;
    let (flags, ttl) = (u16::from(rng.u8(..4)), u16::from(*pick(rng, &[0_u8, 1, 2, 63])));
    let mut base = flags << 12 | ttl << 6 | words;
    if one_in(rng, 12) {
        // Another version, or a wrong length.
        base ^= *pick(rng, &[0x4000, 0x20, 1]);
    }
    let path = *pick(rng, &[0x1234_56ff_u32, 0x0000_0503, 0]);
    [&base.to_be_bytes()[..], &[md_type, next], &path.to_be_bytes(), &metadata, behind].concat()
}

/// Packets with network service headers of all next protocols, and packets without.
fn some(rng: &mut Rng, count: u32) -> Vec<(u32, Vec<u8>)> {
    let mut all = Vec::new();
    for number in 0..count {
        let frame = packets::random(rng, false);
        let port = 1 + number % PORTS;
        let (next, behind) = match &frame[..] {
            [_, _, _, _, _, _, _, _, _, _, _, _, 8, 0, carried @ ..] if rng.bool() => (1, carried),
            [_, _, _, _, _, _, _, _, _, _, _, _, 0x86, 0xdd, carried @ ..] if rng.bool() => {
                (2, carried)
            }
            _ => (3, &frame[..]),
        };
        let mut inside = header(rng, next, behind);
        if one_in(rng, 4) {
            inside = header(rng, 4, &inside);
        } else if one_in(rng, 10) {
            inside = header(rng, 9, behind);
        }
        let mut packet = vec![2, 0, 0, 0, 0, 4, 2, 0, 0, 0, 0, 3];
        if one_in(rng, 5) {
            packet.extend([0x81, 0, 0, 5]);
        }
        packet.extend([0x89, 0x4f]);
        packet.extend(inside);
        if one_in(rng, 20) {
            packet.truncate(14 + rng.usize(..30));
        }
        all.push((port, packet));
        all.push((port, frame));
    }
    all
}

#[test]
#[ignore = "needs ovs-vswitchd"]
fn service_headers_are_the_same_in_open_vswitch() {
    let mut judge = Judge::start();
    let mut rng = Rng::with_seed(8300);
    let packets = some(&mut rng, 90);
    let (mut differ, mut rules) = (0, 0);
    for lines in SETS {
        let rules = lines.iter().map(|line| rule(line).unwrap_or_else(|| panic!("{line}")));
        let set: Vec<Message> = rules.collect();
        match compare(&mut judge, &set, &packets) {
            Ok(taken) => assert_eq!(taken, set.len(), "Open vSwitch refuses one of {lines:?}"),
            Err(found) => {
                differ += 1;
                eprintln!("{lines:?}\n{}", explain(&mut judge, 0, &set, &found));
            }
        }
    }
    for seed in 0..120 {
        let mut rng = Rng::with_seed(seed);
        let (set, packets) = (random(&mut rng), some(&mut rng, 15));
        match compare(&mut judge, &set, &packets) {
            Ok(taken) => rules += taken,
            Err(found) => {
                differ += 1;
                eprintln!("{}", explain(&mut judge, seed, &set, &found));
            }
        }
    }
    assert!(rules > 700, "Open vSwitch takes {rules} rules only");
    assert_eq!(differ, 0, "sets of which Open vSwitch makes something else");
}
