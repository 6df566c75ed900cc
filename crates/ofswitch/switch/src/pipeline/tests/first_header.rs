//! Translation of `encap` and `decap`: steps, matches and packet-ins.

use super::*;

const TO_2: &str =
    "set_field:02:00:00:00:00:0a->dl_dst,set_field:02:00:00:00:00:0b->dl_src,output:2";
const ADDRESSED: &str = "set dl_dst=02:00:00:00:00:0a, set dl_src=02:00:00:00:00:0b, output 2";

fn steps_text(text: &str) -> String {
    actions(text, TCP)
}

#[test]
fn a_header_of_ethernet_comes_and_goes() {
    assert_eq!(steps_text(&format!("decap(),encap(ethernet),{TO_2}")), ADDRESSED);
    assert_eq!(
        steps_text("decap(),encap(ethernet),output:2"),
        "set dl_dst=00:00:00:00:00:00, set dl_src=00:00:00:00:00:00, output 2"
    );
    // The IP header stays known.
    assert!(steps_text("decap(),dec_ttl,encap(ethernet),output:2").contains("set nw_ttl=63"));
    // Ports are Ethernet ports, and VLAN tags and MPLS labels are pushed behind Ethernet only.
    for nothing in ["output:2", "normal", "flood", "push_vlan:0x8100,output:2", "in_port"] {
        assert_eq!(steps_text(&format!("decap(),{nothing}")), "drop", "{nothing}");
    }
    let unset = "decap(),mod_dl_src:02:00:00:00:00:09,mod_vlan_vid:5,encap(ethernet),output:2";
    assert_eq!(steps_text(unset), steps_text("decap(),encap(ethernet),output:2"));
}

#[test]
fn an_impossible_encap_or_decap_drops_the_packet() {
    assert_eq!(steps_text("output:3,encap(ethernet),output:2"), "drop", "there is one already");
    assert_eq!(steps_text("output:3,decap(),decap(),output:2"), "drop", "IP is not taken away");
    assert_eq!(actions("output:3,decap(),output:2", TAGGED), "drop", "there is a tag");
    assert_eq!(steps_text("output:3,encap(mpls),decap()"), "drop", "what is behind is not known");
    assert_eq!(
        steps_text("encap(mpls),decap(packet_type(ns=0,type=5)),encap(ethernet),output:2"),
        "drop"
    );
    // In a bucket, only the bucket's copy is dropped.
    let lines = [
        "group_id=1,type=all,bucket=encap(ethernet),output:2,bucket=output:3",
        "actions=group:1,output:4",
    ];
    assert_eq!(steps(&switch(&lines), TCP), "output 3, output 4");
}

#[test]
fn labels_go_in_front_of_ethernet() {
    let label = "encap_mpls 0x8847 label=0 ttl=64";
    assert_eq!(
        steps_text(&format!("encap(mpls),encap(ethernet),{TO_2}")),
        format!("{label}, {ADDRESSED}")
    );
    assert_eq!(
        steps_text(&format!("encap(mpls_mc),set_field:7->mpls_label,encap(ethernet),{TO_2}")),
        format!("encap_mpls 0x8848 label=0 ttl=64, set mpls_label=7, {ADDRESSED}")
    );
    assert_eq!(steps_text("encap(mpls),output:2"), "drop", "it has no header of Ethernet");
    // A second label goes in front of the first, which has the bottom-of-stack bit.
    let two = steps_text("encap(mpls),encap(mpls),encap(ethernet),output:2");
    assert_eq!(two, format!("{label}, push_mpls 0x8847 label=0 ttl=64, output 2"));
    // On a packet that begins with IP, the label goes in front of IP.
    assert!(
        steps_text("decap(),encap(mpls),encap(ethernet),output:2").contains(", push_mpls 0x8847")
    );
    // The inner headers are known again after `decap`.
    let lines = [
        "table=0,ip,actions=encap(mpls),encap(ethernet),resubmit(,1)",
        "table=1,mpls,actions=decap(),decap(packet_type(ns=0,type=0)),resubmit(,2)",
        "table=2,dl_dst=02:00:00:00:00:02,tcp,tp_dst=80,actions=output:3",
    ];
    let taken = steps(&switch(&lines), TCP);
    assert!(taken.ends_with("decap_mpls, output 3"), "{taken}");
}

#[test]
fn a_label_is_taken_away_with_its_header_of_ethernet_or_without() {
    let steps_text = |action: &str| actions(action, LABELLED);
    let gone = "set dl_dst=00:00:00:00:00:00, set dl_src=00:00:00:00:00:00";
    // The inner packet is Ethernet, and recirculates when an action needs its headers.
    let all = "decap(),decap(packet_type(ns=0,type=0)),output:2";
    assert_eq!(steps_text(all), format!("{gone}, decap_mpls, output 2"));
    let all = "decap(),decap(packet_type(ns=0,type=0)),mod_dl_src:02:00:00:00:00:01,output:2";
    assert_eq!(steps_text(all), format!("{gone}, decap_mpls, look up again as 1"));
    let inner = "decap(),decap(packet_type(ns=1,type=0x800)),encap(ethernet),output:2";
    assert_eq!(steps_text(inner), format!("{gone}, pop_mpls 0x0800, output 2"));
    // A label without the bottom-of-stack bit has another one behind it.
    let outer = LABELLED.replace("mpls_bos=1", "mpls_bos=0");
    let next = actions("decap(),decap(),encap(ethernet),output:2", &outer);
    assert_eq!(next, format!("{gone}, pop_mpls 0x8847, output 2"));
}

/// A flow that matches header fields and no packet type is for Ethernet packets.
#[test]
fn tables_match_the_first_header() {
    let lines = [
        "table=0,ip,actions=decap(),resubmit(,1)",
        "table=1,priority=9,dl_dst=00:00:00:00:00:00,actions=output:3",
        "table=1,priority=8,ip,actions=output:3",
        "table=1,priority=7,packet_type=(0,0),actions=output:3",
        "table=1,priority=5,packet_type=(1,0x800),nw_proto=6,actions=encap(ethernet),output:2",
        "table=1,priority=4,packet_type=(1,0x86dd),actions=encap(ethernet),output:4",
    ];
    let switch = switch(&lines);
    assert!(steps(&switch, TCP).ends_with(", output 2"), "{}", steps(&switch, TCP));
    assert_eq!(mask(&switch, TCP), "tcp,vlan_tci=0x0000/0x1000");
    add(&switch, &["table=0,priority=0x9000,tcp,actions=resubmit(,1)"]);
    assert_eq!(steps(&switch, TCP), "output 3");
    let lines = ["ip,actions=decap(),resubmit(,1)", "table=1,actions=encap(ethernet),output:3"];
    assert!(steps(&self::switch(&lines), TCP).ends_with(", output 3"), "nothing of headers");
}

#[test]
fn controllers_get_packets_from_the_first_header_on() {
    let switch = switch(&["actions=decap(),controller"]);
    let decision = decided(&switch, TCP);
    let Some(Step::Controller(punt)) = decision.steps.last() else { panic!("{decision:?}") };
    let packet = crate::key::compose(&key(TCP));
    assert_eq!(punt.shown(&packet), &packet[14..]);
    assert_eq!(punt.known(&key(TCP)).get(Field::PacketType), 0x1_0800);
    let switch = self::switch(&["actions=controller"]);
    let decision = decided(&switch, TCP);
    let Some(Step::Controller(punt)) = decision.steps.last() else { panic!("{decision:?}") };
    assert_eq!(punt.shown(&packet), packet);
}
