"""Packets a host sends to or through a router, made by scapy.

usage: packets.py SOURCE_MAC ROUTER_MAC

Prints a line for each: its name and the Ethernet frame in hexadecimal digits. The number of the
line, from 1 on, is the packet's IP identification, and its ICMP identifier or source port less
1000, by which what becomes of it is recognised.
"""

import sys

from scapy.all import (
    ICMP, IP, TCP, UDP, Ether, IPOption_LSRR, IPOption_NOP, IPOption_RR, Raw,
)

SOURCE_MAC, ROUTER_MAC = sys.argv[1:]
HOST, ROUTER, FAR_SIDE = "198.18.0.2", "198.18.0.1", "198.19.0.1"
OTHER, NOWHERE = "198.19.0.2", "203.0.113.1"
number = 0


def data(length):
    return Raw(bytes(at * 7 % 256 for at in range(length)))


def show(name, packet, ether=ROUTER_MAC):
    frame = bytes(Ether(src=SOURCE_MAC, dst=ether, type=0x0800) / packet)
    print(name, frame.ljust(60, b"\0").hex())


def make(name, payload, to=OTHER, edit=None, ether=ROUTER_MAC, **fields):
    """One packet; `edit` changes its bytes after the checksums were made."""
    global number
    number += 1
    if payload is ICMP:
        payload = ICMP(id=number, seq=1) / data(56)
    elif payload is UDP:
        payload = UDP(sport=1000 + number, dport=9) / data(20)
    elif payload is TCP:
        payload = TCP(sport=1000 + number, dport=9, flags="S", seq=7)
    packet = IP(**{"src": HOST, "dst": to, "id": number, "ttl": 64, **fields}) / payload
    if edit:
        octets = bytearray(bytes(packet))
        edit(octets)
        packet = Raw(bytes(octets))
    show(name, packet, ether)


def set_bytes(at, *values):
    def edit(octets):
        octets[at : at + len(values)] = bytes(values)

    return edit


def header(at, *values):
    """Changes the header and makes its checksum good again."""

    def edit(octets):
        octets[at : at + len(values)] = bytes(values)
        length = (octets[0] & 15) * 4
        octets[10:12] = bytes(2)
        whole = bytes(octets).ljust(length, b"\0")
        total = sum(whole[i] << 8 | whole[i + 1] for i in range(0, length, 2))
        while total > 0xFFFF:
            total = (total & 0xFFFF) + (total >> 16)
        octets[10:12] = (total ^ 0xFFFF).to_bytes(2, "big")

    return edit


# What is forwarded.
for name, kind in [("echo", ICMP), ("udp", UDP), ("tcp", TCP)]:
    make(f"{name}", kind)
    make(f"{name}-df", kind, flags="DF")
    make(f"{name}-ttl-2", kind, ttl=2)
    make(f"{name}-tos", kind, tos=0xB9)
make("protocol-253", data(30), proto=253)
make("no-payload", Raw(b""), proto=253)
make("udp-odd", UDP(sport=1000 + number + 1, dport=9) / data(1))
make("udp-no-checksum", UDP(sport=1000 + number + 1, dport=9, chksum=0) / data(20))
make("udp-wrong-checksum", UDP(sport=1000 + number + 1, dport=9, chksum=1) / data(20))
make("first-fragment", data(64), proto=17, flags="MF")
make("later-fragment", data(64), proto=17, frag=8)

# What is too long for the next link, 1280 bytes.
make("exactly-mtu", data(1260), proto=253)
make("exactly-mtu-df", data(1260), proto=253, flags="DF")
make("over-mtu", data(1261), proto=253)
make("over-mtu-udp", UDP(sport=1000 + number + 1, dport=9) / data(1400))
make("over-mtu-tos", data(1480), proto=253, tos=0x20)
make("over-mtu-fragment", data(1480), proto=253, flags="MF", frag=185)
make("over-mtu-last-fragment", data(1477), proto=253, frag=370)
make("over-mtu-options", data(1400), proto=253, options=[IPOption_NOP()] * 4)
make("over-mtu-df", data(1261), proto=253, flags="DF")
make("over-mtu-df-udp", UDP(sport=1000 + number + 1, dport=9) / data(1400), flags="DF")

# What has come to its end.
for name, kind in [("echo", ICMP), ("udp", UDP), ("tcp", TCP)]:
    make(f"{name}-ttl-1", kind, ttl=1)
make("echo-ttl-0", ICMP, ttl=0)
make("long-ttl-1", UDP(sport=1000 + number + 1, dport=9) / data(1400), ttl=1)
make("first-fragment-ttl-1", data(64), proto=17, flags="MF", ttl=1)
make("later-fragment-ttl-1", data(64), proto=17, frag=8, ttl=1)
make("echo-reply-ttl-1", ICMP(type=0, id=number + 1) / data(8), ttl=1)
make(
    "error-ttl-1",
    ICMP(type=3, code=3) / IP(src=OTHER, dst=HOST, id=9) / UDP(sport=5, dport=6) / data(4),
    ttl=1,
)
make("tos-ttl-1", UDP, tos=0x28, ttl=1)

# Where no way leads.
make("nowhere-echo", ICMP, to=NOWHERE)
make("nowhere-udp", UDP, to=NOWHERE)
make("nowhere-df", UDP, to=NOWHERE, flags="DF")
make("nowhere-long", data(1400), to=NOWHERE, proto=253)

# The router itself.
make("own-echo", ICMP, to=ROUTER)
make("own-echo-far", ICMP, to=FAR_SIDE)
make("own-echo-ttl-1", ICMP, to=ROUTER, ttl=1)
make("own-echo-empty", ICMP(id=number + 1, seq=1), to=ROUTER)
make("own-echo-odd", ICMP(id=number + 1, seq=1) / data(7), to=ROUTER)
make("own-echo-long", ICMP(id=number + 1, seq=1) / data(1400), to=ROUTER)
make("own-echo-tos", ICMP, to=ROUTER, tos=0x20)
make("own-echo-wrong-checksum", ICMP(id=number + 1, chksum=1) / data(8), to=ROUTER)
make("own-echo-reply", ICMP(type=0, id=number + 1) / data(8), to=ROUTER)
make("own-udp", UDP, to=ROUTER)
make("own-udp-far", UDP, to=FAR_SIDE)
make("own-protocol-253", data(30), to=ROUTER, proto=253)
make("own-tcp", TCP, to=ROUTER)

# Fields that are wrong.
make("wrong-header-checksum", UDP, chksum=0x1234)
make("version-5", UDP, edit=header(0, 0x55))
make("header-too-short", UDP, edit=set_bytes(0, 0x44))
make("header-too-long", UDP, edit=header(0, 0x4F))
make("length-too-long", UDP, edit=header(2, 0x01, 0x00))
make("length-too-short", UDP, edit=header(2, 0x00, 0x13))
make("length-short", UDP, edit=header(2, 0x00, 0x1C))

# Addresses that no packet to forward has.
for name, address in [
    ("zero", "0.0.0.0"), ("loopback", "127.0.0.1"), ("multicast", "224.0.0.5"),
    ("broadcast", "255.255.255.255"), ("class-e", "240.0.0.1"), ("near-broadcast", "198.18.0.255"),
    ("far-broadcast", "198.19.0.255"), ("router", ROUTER),
]:
    make(f"from-{name}", UDP, src=address)
for name, address in [
    ("zero", "0.0.0.0"), ("loopback", "127.0.0.1"), ("multicast", "224.0.0.77"),
    ("broadcast", "255.255.255.255"), ("class-e", "240.0.0.1"), ("near-broadcast", "198.18.0.255"),
    ("far-broadcast", "198.19.0.255"),
]:
    make(f"to-{name}", UDP, to=address)
make("ether-broadcast", UDP, ether="ff:ff:ff:ff:ff:ff")
make("ether-broadcast-ttl-1", UDP, ether="ff:ff:ff:ff:ff:ff", ttl=1)
make("ether-multicast", UDP, ether="01:00:5e:00:00:05")
make("ether-other", UDP, ether="02:00:00:00:00:99")

# Options.
make("option-nop", UDP, options=[IPOption_NOP()] * 4)
make("option-record-route", UDP, options=[IPOption_RR(routers=["0.0.0.0"] * 3)])
make("option-record-route-full", UDP, options=[IPOption_RR(pointer=16, routers=["1.2.3.4"] * 3)])
make("option-record-route-broken", UDP, options=[IPOption_RR(pointer=5, routers=["0.0.0.0"] * 3)])
make("option-source-route", UDP, to=ROUTER, options=[IPOption_LSRR(routers=[OTHER])])
make("option-too-long", UDP, edit=None, options=[Raw(b"\x07\x0b\x04\x00")])
make("option-unknown", UDP, options=[Raw(b"\x9e\x04\x00\x00")])
make("option-record-route-ttl-1", UDP, ttl=1, options=[IPOption_RR(routers=["0.0.0.0"] * 3)])

# After these everything else has come out.
make("end-far", ICMP)
make("end-near", ICMP, to=ROUTER)
