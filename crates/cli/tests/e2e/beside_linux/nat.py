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


# Flows from inside, and what is answered.
seen = out("udp", UDP(sport=4000, dport=53) / DATA)
port = seen[UDP].sport
back("udp-answer", UDP(sport=53, dport=port) / DATA)
out("udp-again", UDP(sport=4000, dport=53) / DATA)
out("udp-without-checksum", UDP(sport=4000, dport=53, chksum=0) / DATA)
back("udp-answer-without-checksum", UDP(sport=53, dport=port, chksum=0) / DATA)
out("udp-empty", UDP(sport=4000, dport=53))
out("udp-class", UDP(sport=4000, dport=53) / DATA, tos=0xB8, id=77, flags="DF")
out("udp-ttl-2", UDP(sport=4000, dport=53) / DATA, ttl=2)
back("udp-answer-ttl-2", UDP(sport=53, dport=port) / DATA, ttl=2)
out("udp-options", UDP(sport=4000, dport=53) / DATA, options=[IPOption_NOP()] * 4)
second = out("udp-of-second", UDP(sport=4000, dport=53) / DATA, src=SECOND)
assert second[UDP].sport != port
back("udp-answer-to-second", UDP(sport=53, dport=second[UDP].sport) / DATA)
back("udp-answer-to-first", UDP(sport=53, dport=port) / DATA)
out("udp-of-another-port", UDP(sport=4001, dport=53) / DATA)

seen = out("tcp-syn", TCP(sport=5000, dport=80, flags="S", seq=1, options=[("MSS", 1460)]))
tcp_port = seen[TCP].sport
back("tcp-syn-ack", TCP(sport=80, dport=tcp_port, flags="SA", seq=9, ack=2))
out("tcp-ack", TCP(sport=5000, dport=80, flags="A", seq=2, ack=10))
tcp = out("tcp-data", TCP(sport=5000, dport=80, flags="PA", seq=2, ack=10) / DATA)
back("tcp-answer", TCP(sport=80, dport=tcp_port, flags="PA", seq=10, ack=42) / DATA)
back("tcp-icmp-need-frag", error(3, 4, tcp, nexthopmtu=1400), src=GATEWAY)
out("tcp-fin", TCP(sport=5000, dport=80, flags="FA", seq=42, ack=50))
back("tcp-fin-answer", TCP(sport=80, dport=tcp_port, flags="FA", seq=50, ack=43))
out("tcp-last-ack", TCP(sport=5000, dport=80, flags="A", seq=43, ack=51))

seen = out("ping", ICMP(id=7, seq=1) / DATA)
back("ping-answer", ICMP(type=0, id=seen[ICMP].id, seq=1) / DATA)
same = out("ping-of-second", ICMP(id=7, seq=1) / DATA, src=SECOND)
assert same[ICMP].id != seen[ICMP].id
back("ping-answer-to-second", ICMP(type=0, id=same[ICMP].id, seq=1) / DATA)
back("ping-error", error(11, 0, seen), src=GATEWAY)

# Errors about flows, from outside and from inside.
seen = out("asked", UDP(sport=4100, dport=9) / DATA)
for name, kind, code in [("net", 3, 0), ("host", 3, 1), ("port", 3, 3), ("ttl", 11, 0)]:
    back(f"error-{name}", error(kind, code, seen), src=GATEWAY)
back("error-from-world", error(3, 3, seen))
back("error-with-all", ICMP(type=3, code=3) / Raw(bytes(seen)))
answer = back("to-be-refused", UDP(sport=9, dport=seen[UDP].sport) / DATA)
out("refusal", error(3, 3, answer))

# What nobody inside has asked for.
back("unasked-udp", UDP(sport=53, dport=1999) / DATA)
back("unasked-tcp", TCP(sport=80, dport=1999, flags="S"))
back("unasked-ping-answer", ICMP(type=0, id=999) / DATA)
back("answer-from-another", UDP(sport=53, dport=port) / DATA, src="192.0.2.3")
back("answer-from-another-port", UDP(sport=54, dport=port) / DATA)
stranger = IP(src=PUBLIC, dst=WORLD) / UDP(sport=1999, dport=9)
back("error-about-nothing", error(3, 3, stranger), src=GATEWAY)
back("to-inside", UDP(sport=53, dport=4000) / DATA, dst=HOST)
out("error-about-nothing-out", error(3, 3, IP(src=WORLD, dst=HOST) / UDP(sport=9, dport=1999)))

# The port that leads to a server.
seen = back("server-syn", TCP(sport=6000, dport=8080, flags="S", seq=1))
assert (seen.dst, seen.dport) == (HOST, 80)
out("server-syn-ack", TCP(sport=80, dport=6000, flags="SA", seq=5, ack=2))
back("server-data", TCP(sport=6000, dport=8080, flags="PA", seq=2, ack=6) / DATA)
out("server-answer", TCP(sport=80, dport=6000, flags="PA", seq=6, ack=42) / DATA)
back("server-ttl-1", TCP(sport=6000, dport=8080, flags="A", seq=42, ack=46), ttl=1)
back("server-udp", UDP(sport=6000, dport=8080) / DATA)
refused = back("server-more", TCP(sport=6000, dport=8080, flags="PA", seq=42, ack=46) / DATA)
out("server-error", error(3, 13, refused))

# What has come to its end, and what is too long.
out("ttl-1", UDP(sport=4000, dport=53) / DATA, ttl=1)
out("ttl-1-ping", ICMP(id=7, seq=2) / DATA, ttl=1)
back("answer-ttl-1", UDP(sport=53, dport=port) / DATA, ttl=1)
out("exactly-mtu", UDP(sport=4000, dport=53) / Raw(bytes(1252)))
out("over-mtu", UDP(sport=4000, dport=53) / Raw(bytes(1253)), id=99)
out("over-mtu-df", UDP(sport=4000, dport=53) / Raw(bytes(1400)), flags="DF")

# Packets in parts.
whole = IP(src=HOST, dst=WORLD, id=5) / UDP(sport=4000, dport=53) / Raw(bytes(1000))
parts = whole.fragment(400)
for number, part in enumerate(parts):
    step(f"part-{number}", INSIDE, part)
for number, part in enumerate(reversed((IP(bytes(whole[IP])) / b"").fragment(600))):
    part.id = 6
    step(f"part-late-first-{number}", INSIDE, part)
reply = IP(src=WORLD, dst=PUBLIC, id=8) / UDP(sport=53, dport=port) / Raw(bytes(1000))
for number, part in enumerate(reply.fragment(400)):
    step(f"part-back-{number}", OUTSIDE, part)

# The NAT itself.
out("own-ping", ICMP(id=3) / DATA, dst=OWN)
out("own-public-ping", ICMP(id=3) / DATA, dst=PUBLIC)
back("public-ping", ICMP(id=3) / DATA)
out("own-udp", UDP(sport=4000, dport=9) / DATA, dst=OWN)
out("own-broadcast", UDP(sport=4000, dport=9) / DATA, dst="198.18.0.255")

# Other protocols.
out("gre", GRE() / DATA)
out("mid-stream", TCP(sport=5100, dport=80, flags="A", seq=2, ack=10) / DATA)
unsound = True
out("udp-wrong-checksum", UDP(sport=4000, dport=53, chksum=0x1234) / DATA)
out("header-wrong-checksum", UDP(sport=4000, dport=53) / DATA, chksum=0x1234)
exchange.show()
