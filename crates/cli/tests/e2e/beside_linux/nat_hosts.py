"""Packets of hosts inside (end 0) and outside (end 1) of a NAT, where one answers the other.

Ports and identifiers that the NAT has chosen are shown as numbers from 50001 on, in the order in
which they were first seen.
"""

import struct

from scapy.all import (
    GRE, ICMP, IP, SCTP, TCP, UDP, ICMPerror, IPerror, IPOption_NOP, Raw, TCPerror, UDPerror,
)

INSIDE, OUTSIDE = 0, 1
NAT_MAC = ["02:00:00:00:01:00", "02:00:00:00:01:01"]
MAC = ["02:00:00:00:0a:00", "02:00:00:00:0a:01"]
OWN, PUBLIC = "198.18.0.1", "203.0.113.1"
HOST, SECOND, WORLD, GATEWAY = "198.18.0.2", "198.18.0.3", "192.0.2.2", "203.0.113.2"
MARK, MARK_PORT = b"a fence to be known by", 60000
PING = 0xFFFE
ports = {}


def word(octets, at):
    return int.from_bytes(octets[at:at + 2], "big")


def put(octets, at, value, *sums):
    """Changes a word, and the Internet checksums over it by what that changes."""
    old = word(octets, at)
    octets[at:at + 2] = value.to_bytes(2, "big")
    for sum_at in sums:
        if sum_at + 2 <= len(octets) and (total := word(octets, sum_at)):
            total = (~total & 0xFFFF) + (~old & 0xFFFF) + value
            while total >> 16:
                total = (total & 0xFFFF) + (total >> 16)
            octets[sum_at:sum_at + 2] = (~total & 0xFFFF).to_bytes(2, "big")


def place(octets, at, source):
    """Where the port or identifier is that the NAT has chosen in the packet at `at`, and where its
    checksum is."""
    header = at + (octets[at] & 15) * 4
    if word(octets, at + 6) & 0x1FFF:
        return None
    kind = octets[at + 9]
    if kind in (6, 17):
        return kind, header + (0 if source else 2), header + (16 if kind == 6 else 6)
    if kind == 1 and octets[header] in (0, 8):
        return kind, header + 4, header + 2
    return None


def show_port(octets, found, *sums):
    kind, at, own_sum = found
    number = ports.setdefault((kind, word(octets, at)), 50001 + len(ports))
    put(octets, at, number, own_sum, *sums)


def sound(octets):
    """Whether all checksums of an IPv4 packet are as scapy makes them."""
    packet = IP(octets)
    if packet.frag or packet.flags.MF:
        return True
    again = IP(octets)
    layer = packet
    while layer and not isinstance(layer, (IPerror, Raw)):
        if hasattr(layer, "chksum") and not (isinstance(layer, UDP) and layer.chksum == 0):
            del again[type(layer)].chksum
        layer = layer.payload
    return bytes(again) == octets


def canonical(frame, end):
    frame = bytearray(without_padding(frame))
    assert frame[12:14] == b"\x08\x00", frame.hex()
    octets = frame[14:]
    header = (octets[0] & 15) * 4
    source = socket.inet_ntoa(octets[12:16])
    mine = source in (OWN, PUBLIC) and octets[9] == 1 and octets[header] in (0, 3, 5, 11, 12)
    if not unsound:
        assert sound(bytes(octets)), octets.hex()
    if end == OUTSIDE and octets[9] == 1 and octets[header] in (3, 11):
        quoted = header + 8
        if found := place(octets, quoted, socket.inet_ntoa(octets[quoted + 12:quoted + 16]) == PUBLIC):
            show_port(octets, found, header + 2)
    elif end == OUTSIDE and (found := place(octets, 0, True)) and word(octets, found[1]) != 8080 \
            and not (octets[9] == 1 and octets[header] == 0):
        show_port(octets, found)
    if mine and octets[header] != 0:
        # What it says itself: TTL, type of service and identification are as it likes.
        octets[1] = octets[8] = 0
        octets[4:6] = octets[10:12] = b"\0\0"
    elif mine:
        octets[8] = 0
        octets[4:6] = octets[10:12] = b"\0\0"
    return bytes(frame[:14] + octets)


def frame_of(end, packet):
    return bytes(Ether(dst=NAT_MAC[end], src=MAC[end], type=0x0800) / packet).ljust(60, b"\0")


def fence(end):
    """A datagram of a flow that stays open, and after it a ping to the NAT itself: so all that goes
    on has come out, and all that comes back."""
    if end == INSIDE:
        through = IP(src="198.18.0.9", dst=WORLD) / UDP(sport=MARK_PORT, dport=MARK_PORT) / MARK
        own, source = OWN, "198.18.0.9"
    else:
        through = IP(src=WORLD, dst=PUBLIC) / UDP(sport=MARK_PORT, dport=fence_port) / MARK
        own, source = PUBLIC, WORLD
    ping = IP(src=source, dst=own) / ICMP(id=PING) / b"fence"

    def marked(seen):
        global fence_port
        if MARK not in seen:
            return False
        if end == INSIDE:
            fence_port = word(seen, 34)
        return True

    def answered(seen):
        return seen[23] == 1 and seen[34] == 0 and word(seen, 38) == PING

    return [(frame_of(end, through), {1 - end}, marked), (frame_of(end, ping), {end}, answered)]


exchange = Exchange(Ends(["e0", "e1"]), fence, canonical)
DATA = Raw(bytes(at * 7 % 256 for at in range(40)))
unsound = False


def step(name, end, packet):
    """One packet; returns the IP packets that came out at the other end."""
    out = exchange.step(name, end, frame_of(end, packet))
    return [IP(without_padding(frame)[14:]) for frame in out[1 - end]]


def out(name, payload, **fields):
    """From inside; returns what the world sees, if it sees one packet."""
    seen = step(name, INSIDE, IP(**{"src": HOST, "dst": WORLD, **fields}) / payload)
    return seen[0] if len(seen) == 1 else None


def back(name, payload, **fields):
    seen = step(name, OUTSIDE, IP(**{"src": WORLD, "dst": PUBLIC, **fields}) / payload)
    return seen[0] if len(seen) == 1 else None


def error(kind, code, seen, **fields):
    """About a packet, with its header and eight bytes more as old routers do, or with all of it."""
    return ICMP(type=kind, code=code, **fields) / Raw(bytes(seen)[:28])
