//! Errors in texts are named, with their place and, where there is one, a suggestion.

use linerate_openflow::text::Syntax;
use linerate_openflow::wire::{FlowModCommand, GroupCommand, MeterCommand, Version};

/// A text, its faulty part, and a part of the message.
const FLOWS: &[(&str, &str, &str)] = &[
    ("tcp,tpc_dst=80,actions=drop", "tpc_dst", "did you mean \"tcp_dst\"?"),
    ("tcp,tp_dst=80000,actions=drop", "80000", "tcp_dst has 16 bits"),
    ("nw_dst=10.0.0.1,actions=drop", "nw_dst=10.0.0.1", "first comes ip"),
    ("ipv6,nw_dst=10.0.0.1,actions=drop", "nw_dst=10.0.0.1", "ipv6_dst"),
    ("ip,tcp_dst=80,actions=drop", "tcp_dst=80", "first comes tcp"),
    ("tcp,udp,actions=drop", "udp", "contradicts"),
    ("ip,nw_src=10.0.0.0/33,actions=drop", "33", "at most 32"),
    ("ip,nw_src=10.0.0,actions=drop", "10.0.0", "not an address of IPv4"),
    ("dl_src=00:11:22:33:44,actions=drop", "00:11:22:33:44", "Ethernet"),
    ("dl_vlan=4096,actions=drop", "4096", "at most 4095"),
    ("dl_vlan_pcp=8,actions=drop", "8", "at most 7"),
    ("dl_type=0x800/0xff,actions=drop", "0x800/0xff", "as a whole"),
    ("reg0=1,xreg0=2,actions=drop", "xreg0=2", "is a part of"),
    ("ip", "ip", "no actions"),
    ("ip,actions=", "", "no actions"),
    ("ip,actions=outptu:1", "outptu", "did you mean \"output\"?"),
    ("ip,actions=output:eth0", "eth0", "unknown port"),
    ("ip,actions=output:0xfffffff1", "0xfffffff1", "cannot be sent"),
    ("ip,actions=drop,output:1", "drop", "stands alone"),
    ("ip,actions=load:0x100->reg0[0..7]", "0x100", "does not fit into 8 bits"),
    ("ip,actions=move:reg0->reg1[0..7]", "reg0->reg1[0..7]", "32 bits are moved to 8"),
    ("ip,actions=set_field:5->nw_frag", "nw_frag", "cannot be set"),
    ("ip,actions=set_field:5->vlan_vid", "5", "set_field:4101->vlan_vid"),
    ("ip,actions=set_field:5", "set_field:5", "no destination"),
    ("ip,actions=mod_tp_dst:5", "mod_tp_dst:5", "whose port"),
    ("ip,actions=set_vlan_vid:5", "set_vlan_vid:5", "needs a tag"),
    ("ip,actions=ct(commit", "(", "not closed"),
    ("ip,actions=ct(force)", "ct(force)", "commit"),
    ("ip,actions=ct(exec(load:1->ct_mark))", "ct(exec(load:1->ct_mark))", "remembered"),
    ("ip,actions=ct(commit,exec(output:1))", "output:1", "nothing but"),
    ("ip,actions=load:1->ct_mark", "load:1->ct_mark", "ct(commit,exec("),
    ("ip,actions=nat", "nat", "argument of ct"),
    ("ip,actions=ct(commit,nat(src=10.0.0.9-10.0.0.1))", "10.0.0.9-10.0.0.1", "before the first"),
    ("ip,actions=conjunction(1,3/2)", "1,3/2", "from 1 to 2"),
    ("ip,actions=conjunction(1,1/2),output:1", "conjunction(1,1/2),output:1", "beside"),
    ("ip,actions=resubmit(,)", "resubmit(,)", "needs a port or a table"),
    ("ip,actions=learn(nw_src=tcp_dst)", "tcp_dst", "16 bits are taken for 32"),
    ("ip,actions=learn(tabel=1)", "tabel", "did you mean \"table\"?"),
    ("ip,actions=note:1", "1", "not a byte"),
    ("ip,actions=write_actions(ct_clear,exit)", "ct_clear,exit", "at the end"),
    ("ip,actions=clone(goto_table:1)", "goto_table:1", "not allowed here"),
    ("table=2,ip,actions=goto_table:1", "goto_table:1", "later one"),
    ("ip,actions=goto_table:1,goto_table:2", "goto_table:2", "twice"),
    ("ip,actions=set_field:80->tcp_dst", "set_field:80->tcp_dst", "needs a header"),
    ("ip,actions=encap(nsh(md_type=3))", "3", "type 1 or 2"),
    ("ip,actions=encap(nsh(md_typ=1))", "md_typ", "did you mean \"md_type\"?"),
    ("ip,actions=encap(nsh(tlv(0x1000,10)))", "tlv(0x1000,10)", "a class, a type and a value"),
    ("ip,actions=encap(nsh(tlv(0x1000,10,12)))", "12", "begins with 0x"),
    ("ip,actions=encap(nsh(tlv(0x1000,10,0x123)))", "3", "not a byte"),
    ("ip,actions=dec_nsh_ttl", "dec_nsh_ttl", "needs a header"),
    ("dl_type=0x894f,nsh_ttl=64,actions=drop", "64", "nsh_ttl cannot be 64"),
    ("dl_type=0x894f,nsh_mdtype=3,actions=drop", "3", "nsh_mdtype cannot be 3"),
    ("dl_type=0x894f,actions=load:1->nsh_ttl[6]", "1", "cannot be set to 1"),
    ("nsh_spi=1,actions=drop", "nsh_spi=1", "packets that are not said"),
    ("ip,actions=encap(,)", "encap(,)", "needs a header"),
    ("ip,actions=encap(x(y))", "x", "unknown header"),
    ("ip,actions=encap(mpl)", "mpl", "did you mean \"mpls\"?"),
    ("ip,actions=encap(mpls(md_type=1))", "mpls(md_type=1)", "no properties"),
    ("ip,actions=encap(mpls,ethernet)", "ethernet", "one header"),
    ("ip,actions=decap(packet_type(x))", "x", "unknown part of a packet type"),
    ("ip,actions=decap(packet_type(ns=99))", "ns=99", "from 0 to 4"),
    ("ip,actions=decap(packet_type(ns=0))", "packet_type(ns=0)", "a name space and a type"),
    ("ip,actions=decap(foo=bar)", "foo", "unknown argument of decap"),
    (
        "ip,actions=decap(),set_field:02:00:00:00:00:01->dl_src",
        "decap(),set_field:02:00:00:00:00:01->dl_src",
        "needs a header",
    ),
    ("ip,actions=bundle(eth_src,0,hrw,ofport)", "bundle(eth_src,0,hrw,ofport)", "more arguments"),
    (
        "ip,actions=multipath(eth_src,0,hrw,300,0,reg0[0..7])",
        "eth_src,0,hrw,300,0,reg0[0..7]",
        "do not count",
    ),
    ("ip,actions=multipath(eth_sre,0,hrw,3,0,reg0)", "eth_sre", "did you mean \"eth_src\"?"),
    ("priority=65536,ip,actions=drop", "65536", "at most 65535"),
    ("cookie=1/2,ip,actions=drop", "cookie=1/2", "without a mask"),
    ("ip,out_port=1,actions=drop", "out_port=1", "only deletions"),
    ("ct_state=+trk+nwe,actions=drop", "nwe", "did you mean \"new\"?"),
];

#[test]
fn mistakes_in_flows_are_named() {
    let syntax = Syntax::new(Version::V13);
    for &(text, part, said) in FLOWS {
        let error = match syntax.flow(text, FlowModCommand::Add) {
            Ok(flow) => panic!("{text}: {flow:?}"),
            Err(error) => error,
        };
        assert_eq!(&text[error.at()], part, "{text}: {error}");
        assert!(error.to_string().contains(said), "{text}: {error}");
        assert!(error.shown(text).contains(text), "{text}");
    }
}

#[test]
fn words_of_other_changes_are_refused() {
    let syntax = Syntax::new(Version::V13);
    for (text, command) in [
        ("ip,actions=drop", FlowModCommand::Delete),
        ("ip,priority=5", FlowModCommand::Delete),
        ("ip,idle_timeout=5", FlowModCommand::DeleteStrict),
        ("cookie=5", FlowModCommand::Delete),
        ("cookie=5,ip,actions=drop", FlowModCommand::Modify),
    ] {
        assert!(syntax.flow(text, command).is_err(), "{text} {command:?}");
    }
    assert!(syntax.request("ip,actions=drop").is_err());
    assert!(syntax.request("priority=5").is_err());
    let old = Syntax::new(Version::V10);
    for text in ["actions=goto_table:1", "actions=meter:1", "actions=push_vlan:0x8100"] {
        assert!(old.flow(text, FlowModCommand::Add).is_err(), "{text}");
    }
}

#[test]
fn mistakes_in_groups_and_meters_are_named() {
    let syntax = Syntax::new(Version::V13);
    for (text, said) in [
        ("group_id=1,type=selct,bucket=output:1", "did you mean \"select\"?"),
        ("type=all,bucket=output:1", "number of the group"),
        ("group_id=1,bucket=output:1", "type of the group"),
        ("group_id=1,type=all,bucket=weight:2,output:1", "have weights"),
        ("group_id=1,type=ff,bucket=output:1", "watches"),
        ("group_id=1,type=all,bucket=watch_port:1,output:1", "watch something"),
        ("group_id=1,type=indirect,bucket=output:1,bucket=output:2", "one bucket"),
        ("group_id=1,type=all,bucket=weight:", "needs a value"),
        ("group_id=1,type=select,selection_method=hash,bucket=output:1", "OpenFlow 1.5"),
        ("group_id=1,type=all,buckt=output:1", "did you mean \"bucket\"?"),
    ] {
        let error = syntax.group(text, GroupCommand::Add).unwrap_err();
        assert!(error.to_string().contains(said), "{text}: {error}");
    }
    for (text, said) in [
        ("kbps,band=type=drop,rate=1", "number of the meter"),
        ("meter=1,band=type=drop,rate=1", "kbit/s or packets"),
        ("meter=1,kbps", "has bands"),
        ("meter=1,kbps,band=type=drop", "has a rate"),
        ("meter=1,kbps,band=rate=1", "begins with its type"),
        ("meter=1,kbps,burst,band=type=drop,rate=1", "burst_size"),
        ("meter=1,kbps,band=type=drop,rate=1,prec_level=2", "dscp_remark"),
        ("meter=1,kbpss,band=type=drop,rate=1", "did you mean \"kbps\"?"),
        ("meter=0,kbps,band=type=drop,rate=1", "from 1 on"),
    ] {
        let error = syntax.meter(text, MeterCommand::Add).unwrap_err();
        assert!(error.to_string().contains(said), "{text}: {error}");
    }
}
