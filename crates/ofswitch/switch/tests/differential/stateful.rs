//! Rules that remember something: addresses (`NORMAL`), flows (`learn`), connections (`ct`). Sets
//! of them are fixed, conversations through them are random; the slow path and Open vSwitch take
//! the same packets in the same order.

use fastrand::Rng;
use linerate_openflow::text::Syntax;
use linerate_openflow::wire::{FlowModCommand, GroupCommand, Message};

use crate::judge::{Judge, VERSION};
use crate::ours::Ours;
use crate::packets::{one_in, pick};
use crate::{PORTS, hex, nothing, show};

/// Conversations of each set.
const ROUNDS: u64 = 3;
/// Packets of each.
const PACKETS: usize = 60;

const SETS: &[&[&str]] = &[
    &["priority=1,actions=normal"],
    &["dl_vlan=5,actions=strip_vlan,normal", "priority=1,actions=output:4,normal"],
    &[
        "table=0,priority=1,actions=learn(table=1,hard_timeout=100,\
         NXM_OF_VLAN_TCI[0..11],NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],\
         load:NXM_OF_IN_PORT[]->NXM_NX_REG0[0..15]),resubmit(,1),resubmit(,2)",
        "table=1,priority=0,actions=load:0xfffb->NXM_NX_REG0[0..15]",
        "table=2,priority=0,actions=output:NXM_NX_REG0[0..15]",
    ],
    &[
        // A firewall: from port 1 and 2 all, back only answers.
        "table=0,priority=10,arp,actions=normal",
        "table=0,priority=5,ip,ct_state=-trk,actions=ct(table=1,zone=7)",
        "table=1,priority=10,ct_state=+trk+new,ip,in_port=1,actions=ct(commit,zone=7),output:3",
        "table=1,priority=10,ct_state=+trk+new,ip,in_port=2,\
         actions=ct(commit,zone=7,exec(load:0x5->NXM_NX_CT_MARK[])),output:3",
        "table=1,priority=10,ct_state=+trk+est,ct_mark=5,ip,actions=mod_dl_src:02:00:00:00:00:55,\
         output:1,output:2,output:3",
        "table=1,priority=9,ct_state=+trk+est,ip,actions=output:1,output:2,output:3",
        "table=1,priority=10,ct_state=+trk+rel,ip,actions=mod_dl_src:02:00:00:00:00:66,output:4",
        "table=1,priority=10,ct_state=+trk+inv,ip,actions=output:4",
    ],
    &[
        // Sources are translated.
        "table=0,priority=5,ip,actions=ct(table=1,zone=3,nat)",
        "table=1,priority=10,ct_state=+new-rel,ip,in_port=1,nw_src=10.0.0.0/8,\
         actions=ct(commit,zone=3,nat(src=192.0.2.77)),output:3",
        "table=1,priority=10,ct_state=+new-rel,ip,in_port=3,nw_dst=192.0.2.99,\
         actions=ct(commit,zone=3,nat(dst=10.0.0.1)),output:1",
        "table=1,priority=9,ct_state=+est,ip,actions=output:1,output:3",
        "table=1,priority=9,ct_state=+rel,ip,actions=output:2",
    ],
    &[
        "table=0,priority=5,ip,ct_state=-trk,actions=ct(table=1,zone=1)",
        "table=1,priority=5,ip,ct_state=+new,actions=ct(commit,zone=1),ct_clear,resubmit(,2)",
        "table=1,priority=5,ip,ct_state=+est+rpl,actions=clone(ct(table=3,zone=2)),output:1",
        "table=1,priority=5,ip,ct_state=+est-rpl,actions=move:NXM_NX_CT_NW_SRC[]->NXM_NX_REG1[],\
         move:NXM_NX_CT_TP_SRC[]->NXM_OF_ETH_SRC[0..15],output:2",
        "table=2,priority=5,ct_state=-trk,actions=output:4",
        "table=3,priority=5,ct_state=+new,actions=output:3",
    ],
    &[
        // Matches of several dimensions.
        "priority=10,ip,nw_src=10.0.0.1,actions=conjunction(7,1/2)",
        "priority=10,ip,nw_src=10.0.0.2,actions=conjunction(7,1/2),conjunction(8,1/2)",
        "priority=10,tcp,tp_dst=80,actions=conjunction(7,2/2)",
        "priority=10,udp,actions=conjunction(8,2/2)",
        "priority=10,conj_id=7,actions=output:2",
        "priority=10,conj_id=8,ip,actions=output:3",
        "priority=9,ip,nw_src=10.0.0.2,actions=output:4",
        "priority=1,actions=in_port",
    ],
];

/// A host: its address of Ethernet and of IPv4.
fn host(number: u8) -> ([u8; 6], [u8; 4]) {
    ([2, 0, 0, 0, 0, number], if number == 9 { [192, 0, 2, 99] } else { [10, 0, 0, number] })
}

fn add(sum: &mut u32, bytes: &[u8]) {
    for pair in bytes.chunks(2) {
        *sum += u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
    }
}

/// The sum of words of a header.
pub(crate) fn sum_of(bytes: &[u8]) -> u32 {
    let mut sum = 0;
    add(&mut sum, bytes);
    sum
}

pub(crate) fn checksum(mut sum: u32) -> [u8; 2] {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

fn ip(protocol: u8, from: [u8; 4], to: [u8; 4], carried: &[u8]) -> Vec<u8> {
    let mut head = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, protocol, 0, 0];
    head[2..4].copy_from_slice(&(20 + carried.len() as u16).to_be_bytes());
    head.extend(from);
    head.extend(to);
    let mut sum = 0;
    add(&mut sum, &head);
    head[10..12].copy_from_slice(&checksum(sum));
    head.extend(carried);
    head
}

/// State of TCP between two ports.
#[derive(Default, Clone, Copy)]
pub(crate) struct Talk {
    sent: [u32; 2],
}

/// A packet of a conversation, and from which port.
pub(crate) fn packet(rng: &mut Rng, talks: &mut [Talk; 4]) -> (u32, Vec<u8>) {
    let (mut from, mut to) = (*pick(rng, &[1u8, 1, 2, 3]), *pick(rng, &[3u8, 3, 4, 9]));
    let back = rng.bool();
    if back {
        (from, to) = (to, from);
    }
    let port = match from {
        9 => 3,
        host => u32::from(host).min(PORTS),
    };
    let (source, destination) = (host(from), host(to));
    let (mut own, mut other) = (1000 + u16::from(from.min(to)), 80u16);
    if back {
        (own, other) = (other, own);
    }
    let (protocol, at, mut carried) = match rng.u32(..8) {
        0..4 => {
            let talk = &mut talks[usize::from(from.min(to)) % 4];
            let (mine, theirs) = (usize::from(back), usize::from(!back));
            let flags = *pick(rng, &[2u8, 2, 0x12, 0x10, 0x10, 0x10, 0x18, 0x11, 0x14]);
            let data = if flags & 8 != 0 { rng.usize(1..60) } else { 0 };
            let mut carried = Vec::new();
            carried.extend(own.to_be_bytes());
            carried.extend(other.to_be_bytes());
            // Now and then one that is far away.
            let far = if one_in(rng, 12) { 0x1000_0000 } else { 0 };
            let start = [1000u32, 5000];
            carried.extend((start[mine] + talk.sent[mine] + far).to_be_bytes());
            carried.extend((start[theirs] + talk.sent[theirs]).to_be_bytes());
            carried.extend([0x50, flags, 0x10, 0, 0, 0, 0, 0]);
            carried.extend(std::iter::repeat_n(0x61, data));
            talk.sent[mine] += data as u32 + u32::from(flags & 3 != 0);
            (6, 16, carried)
        }
        4..6 => {
            let mut carried = Vec::new();
            carried.extend(own.to_be_bytes());
            carried.extend(other.to_be_bytes());
            carried.extend([0, 12, 0, 0, 1, 2, 3, 4]);
            (17, 6, carried)
        }
        6 => {
            let kind = if back { 0 } else { 8 };
            (1, 2, vec![kind, 0, 0, 0, 0, from.min(to), 0, 1, 5, 6])
        }
        _ => {
            // An error about what the other has sent. Open vSwitch 3.1 writes behind a packet of
            // which it quotes a part of the header of TCP, and dies of it.
            let mut about = Vec::new();
            about.extend(other.to_be_bytes());
            about.extend(own.to_be_bytes());
            let (protocol, rest, quoted) = match rng.u32(..3) {
                0 => (17, &[0, 12, 0, 0, 1, 2, 3, 4][..], 28),
                1 => (17, &[0, 12, 0x12, 0x34, 1, 2, 3, 4][..], 28),
                _ => {
                    let rest =
                        &[0, 0, 3, 0xe8, 0, 0, 0x13, 0x88, 0x50, 16, 0x10, 0, 0x12, 0x34, 0, 0][..];
                    (6, rest, 40)
                }
            };
            about.extend(rest);
            let about = ip(protocol, destination.1, source.1, &about);
            let mut carried = vec![3, 1, 0, 0, 0, 0, 0, 0];
            carried.extend(&about[..quoted]);
            (1, 2, carried)
        }
    };
    let mut sum = 0;
    if protocol != 1 {
        sum = u32::from(protocol) + carried.len() as u32;
        add(&mut sum, &source.1);
        add(&mut sum, &destination.1);
    }
    add(&mut sum, &carried);
    carried[at..at + 2].copy_from_slice(&checksum(sum));
    let mut packet = Vec::new();
    packet.extend(destination.0);
    packet.extend(source.0);
    if one_in(rng, 6) {
        packet.extend([0x81, 0, 0, 5]);
    }
    packet.extend([8, 0]);
    packet.extend(ip(protocol, source.1, destination.1, &carried));
    packet.resize(packet.len().max(60), 0);
    (port, packet)
}

pub(crate) fn rules(lines: &[&str]) -> Vec<Message> {
    let syntax = Syntax::new(VERSION);
    let rule = |line: &&str| {
        if line.starts_with("group") {
            Message::GroupMod(syntax.group(line, GroupCommand::Add).expect(line))
        } else {
            Message::FlowMod(syntax.flow(line, FlowModCommand::Add).expect(line))
        }
    };
    lines.iter().map(rule).collect()
}

#[test]
#[ignore = "needs ovs-vswitchd"]
fn remembered_state_is_as_in_open_vswitch() {
    let mut judge = Judge::start();
    let mut out = 0;
    for (number, lines) in SETS.iter().enumerate() {
        for round in 0..ROUNDS {
            let set = rules(lines);
            let clear = nothing();
            for (rule, refused) in
                clear.iter().chain(&set).zip(judge.change(clear.iter().chain(&set)))
            {
                assert!(refused.is_none(), "{rule:?}: {refused:?}");
            }
            judge.forget_all();
            judge.look();
            let mut ours = Ours::new();
            set.iter().for_each(|rule| ours.change(rule).expect("a rule"));
            let mut rng = Rng::with_seed(1000 * number as u64 + round);
            let mut talks = [Talk::default(); 4];
            let mut before = String::new();
            for at in 0..PACKETS {
                let (port, packet) = packet(&mut rng, &mut talks);
                let trace = ours.trace(port, &packet);
                // Its cache notices learnt flows a little later.
                judge.forget();
                let mut theirs = judge.packet(port, &packet);
                let sent = ours.packet(port, &packet);
                let mut patience = 20;
                while theirs != sent && patience > 0 {
                    std::thread::sleep(std::time::Duration::from_millis(2));
                    for (port, packets) in judge.look() {
                        theirs.entry(port).or_default().extend(packets);
                    }
                    patience -= 1;
                }
                out += sent.len();
                assert!(
                    theirs == sent,
                    "set {number}, round {round}, packet {at}: in_port={port} {}\n  Open vSwitch:\n\
                     {}  ours:\n{}\n{}\n{trace}\nbefore:\n{before}",
                    hex(&packet),
                    show(&theirs),
                    show(&sent),
                    judge.trace(port, &packet),
                );
                before += &format!("  in_port={port} {} to {:?}\n", hex(&packet), sent.keys());
            }
        }
    }
    assert!(out > 300, "packets come out: {out}");
}
