"""What c65of (1.0.5, on PyPI) reads in our messages of OpenFlow 1.3, and writes again.

    pip install c65of==1.0.5
    LINERATE_C65OF=MESSAGES cargo test -p linerate-ofswitch c65of
    python beside_c65of.py MESSAGES > c65of.txt

MESSAGES has a line `NAME> HEXADECIMAL` for each. Where c65of reads a message, what it read follows its
name as JSON; where it writes that again, the bytes must be the same, and are shown. It does not read
requests for statistics: it writes them, from what the request is meant to ask.
"""

import json
import sys

from c65of.ofproto import consts, parser


class Datapath:
    """As much of a connection as the codec asks for."""

    ofproto = consts
    ofproto_parser = parser


PATH = Datapath()
XID = 0x12345678


def flow_request(kind):
    match = parser.OFPMatch(
        in_port=3, eth_src="00:01:02:03:04:05", eth_dst="06:07:08:09:0a:0b", vlan_vid=0x1007, vlan_pcp=5,
        eth_type=0x0800, ip_dscp=10, ip_proto=6, ipv4_src=("10.1.2.0", "255.255.255.0"),
        ipv4_dst="10.3.4.5", tcp_src=1001, tcp_dst=1002)
    return kind(PATH, 0, 5, 6, 0xffffffff, 0x50, 0xf0, match)


REQUESTS = {
    "request desc": lambda: parser.OFPDescStatsRequest(PATH, 0),
    "request flow": lambda: flow_request(parser.OFPFlowStatsRequest),
    "request aggregate": lambda: flow_request(parser.OFPAggregateStatsRequest),
    "request table": lambda: parser.OFPTableStatsRequest(PATH, 0),
    "request port": lambda: parser.OFPPortStatsRequest(PATH, 0, 91),
    "request queue": lambda: parser.OFPQueueStatsRequest(PATH, 0, 91, 92),
    "request group": lambda: parser.OFPGroupStatsRequest(PATH, 0, 93),
    "request group desc": lambda: parser.OFPGroupDescStatsRequest(PATH, 0),
    "request group features": lambda: parser.OFPGroupFeaturesStatsRequest(PATH, 0),
    "request port desc": lambda: parser.OFPPortDescStatsRequest(PATH, 0),
    "request meter": lambda: parser.OFPMeterStatsRequest(PATH, 0, 94),
    "request meter config": lambda: parser.OFPMeterConfigStatsRequest(PATH, 0, 95),
    "request meter features": lambda: parser.OFPMeterFeaturesStatsRequest(PATH, 0),
    "request table features": lambda: parser.OFPTableFeaturesStatsRequest(PATH, 0, []),
}


def written(message):
    message.set_xid(XID)
    message.serialize()
    return bytes(message.buf)


for line in open(sys.argv[1], encoding="ascii"):
    name, text = line.rstrip("\n").split("> ")
    ours = bytes.fromhex(text)
    if name in REQUESTS:
        print(f"# {name}: written by c65of")
        assert written(REQUESTS[name]()) == ours, (name, written(REQUESTS[name]()).hex(), text)
    else:
        message = parser.msg(PATH, *parser.header(ours), ours)
        assert message is not None, name
        values = message.to_jsondict()
        try:
            again = written(parser.ofp_msg_from_jsondict(PATH, values))
        except Exception:  # What a controller only reads.
            again = None
        # A message without a writer of its own is written as a header alone.
        same = again == ours
        print(f"# {name}: {'read and written' if same else 'read'} by c65of")
        print(f"= {json.dumps(values, sort_keys=True)}")
    print(f"{name}> {text}")
