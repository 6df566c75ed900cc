//! Random flows and packets: a decision has all its dependencies.

use super::*;

/// Random flows and packets.
struct Random(fastrand::Rng);

impl Random {
    fn choose<'t>(&mut self, all: &[&'t str]) -> &'t str {
        all[self.0.usize(..all.len())]
    }

    fn matching(&mut self) -> String {
        const ALONE: [&str; 22] = [
            "in_port=1",
            "in_port=2",
            "dl_src=02:00:00:00:00:01",
            "dl_src=02:00:00:00:00:00/ff:ff:ff:ff:ff:fc",
            "dl_dst=02:00:00:00:00:02",
            "dl_dst=01:00:00:00:00:00/01:00:00:00:00:00",
            "dl_vlan=5",
            "dl_vlan=0xffff",
            "vlan_tci=0x1000/0x1000",
            "dl_vlan=5,dl_vlan_pcp=3",
            "tun_id=1",
            "pkt_mark=2",
            "ct_state=+trk",
            "ct_state=-trk",
            "ct_mark=1",
            "metadata=1",
            "reg0=1",
            "reg1=0/1",
            "reg2=0x1/0x3",
            "conj_id=1",
            "reg0=2,in_port=1",
            "ct_zone=3",
        ];
        const CARRIED: [&str; 20] = [
            "ip",
            "ip,nw_src=10.0.0.0/8",
            "ip,nw_dst=10.0.0.2",
            "ip,nw_ttl=1",
            "ip,nw_tos=32",
            "ip,nw_frag=no",
            "tcp,tp_dst=80",
            "tcp,tp_src=0x40/0xffc0",
            "tcp,tcp_flags=+syn",
            "udp",
            "icmp,icmp_type=8",
            "ipv6",
            "tcp6,tp_dst=80",
            "arp,arp_op=1",
            "mpls",
            "mpls,mpls_label=16",
            "mpls,mpls_bos=1",
            "packet_type=(1,0x800)",
            "packet_type=(1,0x800),nw_ttl=64",
            "packet_type=(1,0x8847)",
        ];
        let mut parts = Vec::new();
        if self.0.bool() {
            parts.push(self.choose(&ALONE));
        }
        if self.0.bool() {
            parts.push(self.choose(&CARRIED));
        }
        parts.join(",")
    }

    fn actions(&mut self, table: u8) -> Vec<Action> {
        const ALL: [&str; 61] = [
            "output:1",
            "output:2",
            "output:3",
            "output:4",
            "in_port",
            "flood",
            "normal",
            "controller",
            "group:1",
            "group:2",
            "group:3",
            "mod_dl_src:02:00:00:00:00:09",
            "mod_dl_dst:02:00:00:00:00:02",
            "mod_vlan_vid:5",
            "mod_vlan_pcp:3",
            "strip_vlan",
            "push_vlan:0x8100",
            "push_mpls:0x8847",
            "pop_mpls:0x0800",
            "pop_mpls:0x8847",
            "decap()",
            "encap(ethernet)",
            "encap(mpls)",
            "decap(packet_type(ns=0,type=0))",
            "decap(packet_type(ns=1,type=0x800))",
            "dec_ttl",
            "mod_nw_ttl:1",
            "dec_mpls_ttl",
            "mod_nw_src:10.0.0.9",
            "set_field:80->tcp_dst",
            "load:64->NXM_OF_UDP_SRC[]",
            "load:1->NXM_NX_REG0[]",
            "load:1->NXM_NX_REG1[0]",
            "load:5->NXM_OF_VLAN_TCI[0..11]",
            "load:0x1005->NXM_OF_VLAN_TCI[]",
            "load:0->NXM_OF_IN_PORT[]",
            "load:2->NXM_OF_IN_PORT[]",
            "load:1->NXM_NX_TUN_ID[]",
            "load:1->OXM_OF_METADATA[]",
            "move:NXM_OF_ETH_SRC[0..15]->NXM_NX_REG0[0..15]",
            "move:NXM_OF_ETH_DST[]->NXM_OF_ETH_SRC[]",
            "move:NXM_OF_IP_SRC[]->NXM_OF_IP_DST[]",
            "move:NXM_OF_TCP_DST[0..7]->NXM_NX_REG2[0..7]",
            "move:NXM_NX_REG0[0..1]->NXM_NX_REG1[0..1]",
            "move:NXM_OF_VLAN_TCI[0..11]->NXM_NX_REG0[0..11]",
            "push:NXM_OF_IP_DST[],pop:NXM_OF_IP_SRC[]",
            "push:NXM_NX_REG0[],mod_dl_src:02:00:00:00:00:01,pop:NXM_NX_REG1[]",
            "output:NXM_NX_REG0[0..3]",
            "clone(mod_nw_ttl:9,output:2)",
            "clone(strip_vlan,output:3)",
            "exit",
            "ct(table=2,zone=1)",
            "ct(commit,zone=NXM_NX_REG0[0..15],nat(src=10.0.0.1))",
            "ct_clear",
            "multipath(symmetric_l4,1,modulo_n,3,0,NXM_NX_REG0[])",
            "bundle_load(eth_src,0,hrw,ofport,NXM_NX_REG0[0..15],slaves:1,2)",
            "check_pkt_larger(100)->NXM_NX_REG0[0]",
            "set_queue:3",
            "fin_timeout(idle_timeout=1)",
            "learn(table=3,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[])",
            "note:01",
        ];
        let count = self.0.usize(1..5);
        let mut actions: Vec<String> = (0..count).map(|_| self.choose(&ALL).to_owned()).collect();
        if table < 3 && self.0.bool() {
            let at = self.0.usize(..=actions.len());
            let port = self.choose(&["", "", "1", "2"]);
            actions.insert(at, format!("resubmit({port},{})", table + 1));
        }
        actions.iter().flat_map(|text| loose(text)).collect()
    }

    fn packet(&mut self) -> Key {
        const CARRIED: [&str; 10] = [
            "tcp,nw_src=10.0.0.1,nw_dst=10.0.0.2,nw_ttl=64,tp_src=64,tp_dst=80",
            "tcp,nw_src=11.0.0.1,nw_dst=10.0.0.2,nw_ttl=1,tp_src=1,tp_dst=80,tcp_flags=+syn",
            "tcp,nw_src=11.0.0.1,nw_dst=10.0.0.3,nw_ttl=1,tp_dst=81,tcp_flags=+fin+ack",
            "udp,nw_src=10.0.0.1,nw_tos=32,nw_ttl=2,tp_src=1,tp_dst=80",
            "ip,nw_proto=6,nw_src=10.0.0.1,nw_frag=later,nw_ttl=64",
            "icmp,nw_src=10.0.0.1,nw_ttl=64,icmp_type=8",
            "tcp6,ipv6_src=fe80::1,nw_ttl=64,tp_dst=80",
            "arp,arp_op=1,arp_spa=10.0.0.1",
            "mpls,mpls_label=16,mpls_ttl=2,mpls_bos=1",
            "mpls,mpls_label=17,mpls_ttl=1,mpls_bos=0",
        ];
        const ALONE: [&str; 6] = [
            "",
            "dl_vlan=5,",
            "dl_vlan=5,dl_vlan_pcp=3,",
            "tun_id=1,",
            "ct_state=+trk,",
            "ct_mark=1,",
        ];
        let (port, alone, carried) =
            (self.0.u32(1..=4), self.choose(&ALONE), self.choose(&CARRIED));
        let (source, destination) = (self.0.u8(1..4), self.0.u8(1..4));
        let many = self.choose(&["01", "02"]);
        key(&format!(
            "in_port={port},{alone}dl_src=02:00:00:00:00:0{source},\
             dl_dst={many}:00:00:00:00:0{destination},{carried}"
        ))
    }
}

/// The invariant: a packet with the same bits under the mask gets the same decision.
#[test]
fn packets_of_the_same_looked_at_bits_have_the_same_decision() {
    let groups = [
        "group_id=1,type=all,bucket=mod_nw_ttl:7,output:2,bucket=output:3",
        "group_id=3,type=indirect,bucket=dec_ttl,resubmit(,3)",
        "group_id=2,type=select,bucket=weight:1,strip_vlan,output:2,bucket=weight:1,group:3",
    ];
    let (mut steps_seen, mut flips) = (0, 0);
    for seed in 0..100 {
        let mut random = Random(fastrand::Rng::with_seed(seed));
        let switch = switch(&groups);
        for _ in 0..random.0.usize(1..20) {
            let table = random.0.u8(0..4);
            let priority = random.0.u16(0..5);
            let (matching, actions) = (random.matching(), random.actions(table));
            let wanted = syntax().matching(&matching).expect(&matching);
            let apply = vec![Instruction::ApplyActions(actions)];
            let mut flow = FlowMod::add(table, priority, wanted, apply);
            if table < 3 && random.0.u8(0..4) == 0 {
                let set = syntax().actions("output:4,push_vlan:0x8100,group:3").expect("a set");
                let set = set[..random.0.usize(..=set.len())].to_vec();
                flow.instructions.push(Instruction::WriteActions(set));
                flow.instructions.push(Instruction::GotoTable(table + 1));
            }
            let done = switch.flow_mod(&flow, Version::V10, 0);
            done.unwrap_or_else(|fault| panic!("{flow:?}: {fault:?}"));
        }
        let (snapshot, shared_state) = (switch.snapshot(), switch.shared_state());
        for number in 0..40 {
            let packet = random.packet();
            // The first call learns, so that the second does not.
            let _ = decide(&snapshot, shared_state, &NullEnvironment, &packet, None, SECOND);
            let decision = decide(&snapshot, shared_state, &NullEnvironment, &packet, None, SECOND);
            let text = print_steps(&decision.steps);
            steps_seen += decision.steps.len();
            for _ in 0..10 {
                let mut other = packet;
                let words = other.words_mut().iter_mut().zip(decision.mask.words());
                for (word, mask) in words.take(ENTRY_WORDS) {
                    let flipped = random.0.u64(..) & random.0.u64(..) & !mask;
                    *word ^= flipped;
                    flips += flipped.count_ones();
                }
                let hosts = shared_state.hosts.all();
                let same = trace(&snapshot, shared_state, &other, None, SECOND);
                assert_eq!(shared_state.hosts.all(), hosts, "a trace teaches nothing");
                assert_eq!(
                    (text.as_str(), flows(&decision)),
                    (print_steps(&same.0.steps).as_str(), flows(&same.0)),
                    "seed {seed}, packet {number}:\n{}\n{}",
                    trace(&snapshot, shared_state, &packet, None, SECOND).1,
                    same.1
                );
            }
        }
    }
    assert!(steps_seen > 3_000 && flips > 1_000_000, "{steps_seen} {flips}");
}

fn flows(decision: &Decision) -> Vec<u64> {
    decision.flows.iter().map(|flow| flow.number).collect()
}
