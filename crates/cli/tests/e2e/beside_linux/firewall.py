"""Packets that come to a firewall from outside (end 0) and from inside (end 1)."""

from scapy.all import (
    ARP, GRE, ICMP, IP, TCP, UDP, Dot1Q, ICMPerror, IPerror, IPOption_NOP, IPv6, Raw, UDPerror,
)

MAC = ["02:00:00:00:0a:00", "02:00:00:00:0a:01"]
HOST = ["192.0.2.129", "192.0.2.10"]
SERVER, FENCE = "192.0.2.80", "192.0.2.200"


def fence(end):
    """A query that passes in either direction."""
    query = ARP(hwsrc=MAC[end], psrc=FENCE, pdst=FENCE)
    frame = bytes(Ether(dst="ff:ff:ff:ff:ff:ff", src=MAC[end]) / query).ljust(60, b"\0")
    address = socket.inet_aton(FENCE)
    return [(frame, {1 - end}, lambda seen: seen[12:14] == b"\x08\x06" and seen[28:32] == address)]


# Ours has cut packets to their length, and leaves it to the interface to fill frames up.
exchange = Exchange(Ends(["e0", "e1"]), fence, lambda frame, _: without_padding(frame))


def step(name, end, payload, edit=None, **fields):
    """One packet; `edit` changes its bytes after the checksums were made."""
    packet = bytes(IP(**{"src": HOST[end], "dst": HOST[1 - end], **fields}) / payload)
    if edit:
        packet = packet[:edit[0]] + bytes(edit[1:]) + packet[edit[0] + len(edit) - 1:]
    frame = bytes(Ether(dst=MAC[1 - end], src=MAC[end], type=0x0800)) + packet
    exchange.step(name, end, frame.ljust(60, b"\0"))


def other(name, end, frame):
    exchange.step(name, end, bytes(frame).ljust(60, b"\0"))


OUTSIDE, INSIDE = 0, 1
DATA = Raw(bytes(range(24)))

# What anybody may ask the server for.
for port in [25, 53, 79, 80, 81, 443, 8080]:
    step(f"server-{port}", OUTSIDE, TCP(sport=4000, dport=port, flags="S"), dst=SERVER)
    step(f"host-{port}", OUTSIDE, TCP(sport=4000, dport=port, flags="S"))
step("server-80-udp", OUTSIDE, UDP(sport=4000, dport=80) / DATA, dst=SERVER)
step("server-80-data", OUTSIDE, TCP(sport=4000, dport=80, flags="PA") / DATA, dst=SERVER)
step("server-80-options", OUTSIDE, TCP(sport=4000, dport=80, options=[("MSS", 1460)]), dst=SERVER)
step("server-80-ip-options", OUTSIDE, TCP(sport=4000, dport=80), dst=SERVER, options=[IPOption_NOP()])

# All flags of TCP.
for bits in range(64):
    step(f"flags-{bits:02x}", OUTSIDE, TCP(sport=80, dport=4000, flags=bits))
step("flags-ece-cwr", OUTSIDE, TCP(sport=80, dport=4000, flags=0xC0))
step("flags-ack-ece", OUTSIDE, TCP(sport=80, dport=4000, flags=0x50))

# Answers of other kinds.
for port in [52, 53, 54, 122, 123, 124]:
    step(f"answer-from-{port}", OUTSIDE, UDP(sport=port, dport=4000) / DATA)
    step(f"question-to-{port}", OUTSIDE, UDP(sport=4000, dport=port) / DATA)
quoted = IPerror(src=HOST[1], dst=HOST[0]) / UDPerror(sport=4000, dport=53)
for kind in range(19):
    step(f"icmp-{kind}", OUTSIDE, ICMP(type=kind) / (quoted if kind in (3, 11) else DATA))
for protocol in [2, 41, 47, 50, 89, 132, 253]:
    step(f"protocol-{protocol}", OUTSIDE, DATA, proto=protocol)

# Packets in parts.
step("first-part-80", OUTSIDE, TCP(sport=4000, dport=80) / DATA, dst=SERVER, flags="MF", id=1)
step("later-part-80", OUTSIDE, DATA, dst=SERVER, frag=3, proto=6, id=1)
step("first-part-22", OUTSIDE, TCP(sport=4000, dport=22) / DATA, dst=SERVER, flags="MF", id=2)
step("last-part", OUTSIDE, DATA, frag=100, proto=17, id=2)
step("middle-part", OUTSIDE, DATA, frag=50, flags="MF", proto=253, id=2)
step("part-that-looks-like-a-header", OUTSIDE, TCP(sport=4000, dport=80), frag=1, id=3)
step("part-from-inside-address", OUTSIDE, DATA, src="192.0.2.11", frag=9, proto=17)
step("do-not-divide", OUTSIDE, TCP(sport=4000, dport=80), dst=SERVER, flags="DF")
step("evil-bit", OUTSIDE, TCP(sport=4000, dport=80), dst=SERVER, flags="evil")

# Whose address it is.
for last in [0, 1, 80, 127, 128, 255]:
    for end, name in [(OUTSIDE, "outside"), (INSIDE, "inside")]:
        step(f"from-{last}-{name}", end, TCP(sport=80, dport=4000, flags="A"), src=f"192.0.2.{last}")
for source in ["0.0.0.1", "127.0.0.1", "198.51.100.7", "10.0.0.1"]:
    step(f"from-{source}", OUTSIDE, UDP(sport=53, dport=4000) / DATA, src=source)

# From inside.
for port in [22, 24, 25, 26, 80]:
    step(f"out-{port}", INSIDE, TCP(sport=4000, dport=port, flags="S"))
    step(f"out-from-server-{port}", INSIDE, TCP(sport=4000, dport=port, flags="S"), src=SERVER)
step("out-mail-udp", INSIDE, UDP(sport=4000, dport=25) / DATA)
step("out-mail-later-part", INSIDE, DATA, frag=5, proto=6)
step("out-mail-first-part", INSIDE, TCP(sport=4000, dport=25) / DATA, flags="MF")
step("out-echo", INSIDE, ICMP() / DATA)
step("out-gre", INSIDE, GRE() / DATA)
step("out-group", INSIDE, UDP(sport=4000, dport=5353) / DATA, dst="224.0.0.251")
step("out-ttl-1", INSIDE, UDP(sport=4000, dport=9) / DATA, ttl=1)
step("out-long", INSIDE, UDP(sport=4000, dport=9) / Raw(bytes(1472)))

# What is neither IPv4 nor ARP.
for end, name in [(OUTSIDE, "outside"), (INSIDE, "inside")]:
    ether = Ether(dst=MAC[1 - end], src=MAC[end])
    other(f"ipv6-{name}", end, ether / IPv6() / UDP())
    other(f"tag-{name}", end, ether / Dot1Q(vlan=5) / IP(src=HOST[end], dst=SERVER) / TCP(dport=80))
    other(f"experiment-{name}", end, Ether(dst=MAC[1 - end], src=MAC[end], type=0x88B5) / DATA)
    other(f"llc-{name}", end, Ether(dst=MAC[1 - end], src=MAC[end], type=40) / Raw(bytes(40)))
    other(f"arp-{name}", end, ether / ARP(op=2, hwsrc=MAC[end], psrc=HOST[end], pdst=HOST[1 - end]))

# Headers that are wrong.
for name, edit in [
    ("sum", (10, 0x12, 0x34)), ("version", (0, 0x55)), ("header-short", (0, 0x44)),
    ("header-long", (0, 0x4F)), ("length-long", (2, 0x01, 0x00)), ("length-short", (2, 0x00, 0x13)),
]:
    step(f"wrong-{name}", OUTSIDE, TCP(sport=4000, dport=80) / DATA, dst=SERVER, edit=edit)
step("tcp-cut", OUTSIDE, Raw(bytes.fromhex("0fa0")), dst=SERVER, proto=6)
step("tcp-without-flags", OUTSIDE, Raw(bytes(12)), proto=6)
step("udp-cut", OUTSIDE, Raw(bytes.fromhex("0035")), proto=17)
step("icmp-empty", OUTSIDE, Raw(b""), proto=1)
exchange.show()
