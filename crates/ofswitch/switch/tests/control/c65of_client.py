"""A controller with c65of's codec: asks the switch at a UNIX socket for everything, and prints what it reads
in the answers, a line each."""

import json
import socket
import sys

from c65of.ofproto import consts, parser


class Datapath:
    """As much of a connection as the codec asks for."""

    ofproto = consts
    ofproto_parser = parser


PATH = Datapath()
LINK = socket.socket(socket.AF_UNIX)
LINK.settimeout(20)
LINK.connect(sys.argv[1])


def send(message, xid):
    message.set_xid(xid)
    message.serialize()
    LINK.sendall(bytes(message.buf))


def exactly(count):
    data = b""
    while len(data) < count:
        more = LINK.recv(count - len(data))
        assert more, "the switch is gone"
        data += more
    return data


def read():
    head = exactly(8)
    length = int.from_bytes(head[2:4], "big")
    message = parser.msg(PATH, *parser.header(head), head + exactly(length - 8))
    assert message is not None, head
    return message


def show(message):
    print(json.dumps(message.to_jsondict(), sort_keys=True), flush=True)


send(parser.OFPHello(PATH), 1)
show(read())
match = parser.OFPMatch(in_port=1, eth_type=0x0800, ipv4_dst=("10.0.0.0", "255.0.0.0"))
actions = [parser.OFPActionSetField(eth_dst="02:00:00:00:00:09"), parser.OFPActionOutput(2, 0)]
write = [parser.OFPInstructionActions(consts.OFPIT_APPLY_ACTIONS, actions)]
send(parser.OFPFlowMod(PATH, cookie=7, priority=9, match=match, instructions=write), 2)
send(parser.OFPGroupMod(PATH, group_id=5, type_=consts.OFPGT_ALL, buckets=[]), 3)
send(parser.OFPFlowMod(PATH, table_id=99, match=match, instructions=[]), 4)
show(read())
send(parser.OFPBarrierRequest(PATH), 5)
show(read())
everything = parser.OFPMatch()
requests = [
    parser.OFPFeaturesRequest(PATH),
    parser.OFPGetConfigRequest(PATH),
    parser.OFPGetAsyncRequest(PATH),
    parser.OFPRoleRequest(PATH, consts.OFPCR_ROLE_MASTER, 3),
    parser.OFPDescStatsRequest(PATH, 0),
    parser.OFPFlowStatsRequest(PATH, 0, 0xff, 0xffffffff, 0xffffffff, 0, 0, everything),
    parser.OFPAggregateStatsRequest(PATH, 0, 0xff, 0xffffffff, 0xffffffff, 0, 0, everything),
    parser.OFPTableStatsRequest(PATH, 0),
    parser.OFPPortStatsRequest(PATH, 0, consts.OFPP_ANY),
    parser.OFPGroupStatsRequest(PATH, 0, consts.OFPG_ALL),
    parser.OFPGroupDescStatsRequest(PATH, 0),
    parser.OFPGroupFeaturesStatsRequest(PATH, 0),
    parser.OFPMeterFeaturesStatsRequest(PATH, 0),
    parser.OFPPortDescStatsRequest(PATH, 0),
    parser.OFPTableFeaturesStatsRequest(PATH, 0, []),
]
for xid, request in enumerate(requests, 10):
    send(request, xid)
    show(read())
send(parser.OFPSetConfig(PATH, 0, 0xffff), 50)
send(parser.OFPBarrierRequest(PATH), 51)
show(read())
# The switch has a packet now.
show(read())
