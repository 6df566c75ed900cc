//! Network service headers: steps, matches and masks.

use super::*;

const NSH: &str = "in_port=1,dl_type=0x894f,dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02,\
                   nsh_ttl=2,nsh_mdtype=1,nsh_np=3,nsh_spi=0x1234,nsh_si=255,nsh_c1=5";
const GONE: &str = "set dl_dst=00:00:00:00:00:00, set dl_src=00:00:00:00:00:00";

fn steps_text(text: &str) -> String {
    actions(text, TCP)
}

/// Bytes of the first header that is added.
fn header(text: &str) -> Vec<u8> {
    let switch = switch(&[]);
    let apply = vec![Instruction::ApplyActions(loose(text))];
    switch.flow_mod(&FlowMod::add(0, 100, Match::new(), apply), Version::V10, 0).expect("a flow");
    let added = decided(&switch, TCP).steps.into_iter().find_map(|step| match step {
        Step::EncapNsh { header, .. } => Some(header.into_vec()),
        _ => None,
    });
    added.expect("a header")
}

#[test]
fn a_service_header_names_the_next_protocol() {
    let plain = "encap_nsh md_type=1 np=3, 24 bytes, output 2";
    assert_eq!(steps_text("encap(nsh),encap(ethernet),output:2"), plain);
    assert_eq!(steps_text("encap(nsh(md_type=1)),encap(ethernet),output:2"), plain);
    assert_eq!(
        steps_text("decap(),encap(nsh),encap(nsh),encap(ethernet),output:2"),
        format!(
            "{GONE}, encap_nsh md_type=1 np=1, 24 bytes, encap_nsh md_type=1 np=4, 24 bytes, \
             output 2"
        )
    );
    assert_eq!(
        steps_text(
            "encap(nsh(md_type=2)),set_field:7->nsh_spi,dec_nsh_ttl,encap(ethernet),output:2"
        ),
        "encap_nsh md_type=2 np=3, 8 bytes, set nsh_spi=0x7, set nsh_ttl=62, output 2"
    );
    assert_eq!(steps_text("encap(nsh),output:2"), "drop", "it has no header of Ethernet");
    let label = "encap(mpls),encap(nsh),encap(ethernet),output:2";
    assert_eq!(steps_text(label), "drop", "no number says that a label is behind");
    let bytes = [&[0x0f, 0xc6, 1, 3, 0, 0, 0, 255][..], &[0; 16]].concat();
    assert_eq!(header("encap(nsh),encap(ethernet),output:2"), bytes);
    let pieces = "tlv(0x1000,10,0x12345678),tlv(0x2000,20,0xfe)";
    assert_eq!(
        header(&format!("encap(nsh(md_type=2,{pieces})),encap(ethernet),output:2")),
        [
            [0x0f, 0xc6, 2, 3, 0, 0, 0, 255, 0x10, 0, 10, 4],
            [0x12, 0x34, 0x56, 0x78, 0x20, 0, 20, 1, 0xfe, 0, 0, 0]
        ]
        .concat()
    );
}

#[test]
fn headers_behind_an_added_one_are_known() {
    let lines = [
        "table=0,ip,actions=encap(nsh),encap(ethernet),resubmit(,1)",
        "table=1,dl_type=0x894f,nsh_np=3,actions=decap(),decap(),resubmit(,2)",
        "table=2,dl_dst=02:00:00:00:00:02,tcp,tp_dst=80,actions=output:3",
    ];
    let taken = steps(&switch(&lines), TCP);
    assert!(taken.ends_with("decap_nsh, output 3"), "{taken}");
    let lines = [
        "table=0,ip,actions=decap(),encap(nsh),resubmit(,1)",
        "table=1,packet_type=(1,0x894f),actions=decap(),resubmit(,2)",
        "table=2,packet_type=(1,0x800),nw_proto=6,actions=dec_ttl,encap(ethernet),output:3",
    ];
    let taken = steps(&switch(&lines), TCP);
    assert!(taken.ends_with("decap_nsh, set nw_ttl=63, output 3"), "{taken}");
    assert_eq!(mask(&switch(&lines), TCP), "tcp,vlan_tci=0x0000/0x1000,nw_ttl=64");
}

#[test]
fn a_header_that_came_is_taken_away() {
    let steps_text = |action: &str, next: &str| actions(action, &NSH.replace("nsh_np=3", next));
    let all = "decap(),decap(),output:2";
    assert_eq!(steps_text(all, "nsh_np=3"), format!("{GONE}, decap_nsh, output 2"));
    assert_eq!(steps_text(all, "nsh_np=1"), "drop", "a port sends Ethernet only");
    assert_eq!(
        steps_text("output:3,decap(),decap()", "nsh_np=5"),
        "drop",
        "of labels nothing is known"
    );
    let shown = "decap(),decap(),encap(ethernet),output:2";
    assert_eq!(steps_text(shown, "nsh_np=2"), format!("{GONE}, decap_nsh, output 2"));
    // The headers behind are parsed first.
    let again = format!("{GONE}, decap_nsh, look up again as 1");
    assert_eq!(steps_text("decap(),decap(),decap(),encap(ethernet),output:2", "nsh_np=4"), again);
    assert_eq!(
        steps_text("decap(),decap(),mod_dl_src:02:00:00:00:00:09,output:2", "nsh_np=3"),
        again
    );
    let switch = switch(&["dl_type=0x894f,actions=decap(),decap(),output:2"]);
    assert_eq!(mask(&switch, NSH), "vlan_tci=0x0000/0x1000,dl_type=0x894f,nsh_np=3");
}

#[test]
fn times_to_live_end() {
    let steps_text = |action: &str| actions(action, NSH);
    assert_eq!(steps_text("dec_nsh_ttl,output:2"), "set nsh_ttl=1, output 2");
    assert_eq!(
        steps_text("dec_nsh_ttl,output:2,dec_nsh_ttl,output:3"),
        "set nsh_ttl=1, output 2, to controllers (InvalidTtl)"
    );
    assert_eq!(actions("dec_nsh_ttl,output:2", TCP), "output 2", "no such header");
}

#[test]
fn fields_are_matched_and_set() {
    let lines = [
        "priority=2,dl_type=0x894f,nsh_spi=0x1234,nsh_c1=5,actions=set_field:6->nsh_c1,\
         load:3->nsh_c2[0..7],move:NXOXM_NSH_SI[]->NXM_NX_REG0[0..7],output:NXM_NX_REG0[0..1]",
        "priority=1,dl_type=0x894f,actions=output:4",
    ];
    let switch = switch(&lines);
    assert_eq!(steps(&switch, NSH), "set nsh_c1=0x6, set nsh_c2=0x3/0xff, output 3");
    let looked = "dl_type=0x894f,nsh_spi=0x1234,nsh_si=255,nsh_c1=0x5";
    assert_eq!(mask(&switch, NSH), looked);
    assert_eq!(steps(&switch, &NSH.replace("nsh_c1=5", "nsh_c1=6")), "output 4");
}
