"""Packets a host sends to or through an IPv6 router, made by scapy.

usage: packets6.py SOURCE_MAC ROUTER_MAC

Prints a line for each: its name and the Ethernet frame in hexadecimal digits. The number of the
line, from 1 on, is the packet's flow label, and its ICMPv6 identifier or TCP source port less 1000,
by which what becomes of it is recognised.
"""

import sys

from scapy.all import (
    TCP, UDP, Ether, ICMPv6EchoReply, ICMPv6EchoRequest, ICMPv6TimeExceeded, IPv6,
    IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop, IPv6ExtHdrRouting, PadN, Raw,
)

SOURCE_MAC, ROUTER_MAC = sys.argv[1:]
HOST, ROUTER, FAR_SIDE = "2001:db8:0:1::2", "2001:db8:0:1::1", "2001:db8:0:2::1"
OTHER, NOWHERE = "2001:db8:0:2::2", "2001:db8:ff::1"
number = 0


def data(length):
    return Raw(bytes(at * 7 % 256 for at in range(length)))


def echo():
    return ICMPv6EchoRequest(id=number + 1, seq=1, data=bytes(range(56)))


def udp(length=20):
    return UDP(sport=1000, dport=9) / data(length)


def tcp():
    return TCP(sport=1001 + number, dport=9, flags="S", seq=7)


def make(name, payload, to=OTHER, edit=None, ether=ROUTER_MAC, **fields):
    """One packet; `edit` changes its bytes after the checksums were made."""
    global number
    number += 1
    packet = IPv6(**{"src": HOST, "dst": to, "fl": number, "hlim": 64, **fields}) / payload
    octets = bytearray(bytes(packet))
    if edit:
        octets[edit[0] : edit[0] + len(edit) - 1] = bytes(edit[1:])
    frame = bytes(Ether(src=SOURCE_MAC, dst=ether, type=0x86DD)) + bytes(octets)
    print(name, frame.ljust(60, b"\0").hex())


# What is forwarded.
for name, kind in [("echo", echo), ("udp", udp), ("tcp", tcp)]:
    make(f"{name}", kind())
    make(f"{name}-limit-2", kind(), hlim=2)
    make(f"{name}-class", kind(), tc=0xB9)
make("protocol-253", data(30), nh=253)
make("no-next-header", Raw(b""), nh=59)
make("udp-wrong-checksum", UDP(sport=1000, dport=9, chksum=1) / data(20))
make("destination-options", IPv6ExtHdrDestOpt(options=[PadN(optdata=b"\0\0")]) / udp())
make("hop-by-hop", IPv6ExtHdrHopByHop(options=[PadN(optdata=b"\0\0")]) / udp())
make("fragment", IPv6ExtHdrFragment(nh=17, m=1, id=7) / data(64))
make("later-fragment", IPv6ExtHdrFragment(nh=17, offset=8, id=7) / data(64))

# What is too long for the next link, 1280 bytes.
make("exactly-mtu", data(1240), nh=253)
make("over-mtu", data(1241), nh=253)
make("over-mtu-udp", udp(1400))
make("over-mtu-limit-1", udp(1400), hlim=1)

# What has come to its end.
for name, kind in [("echo", echo), ("udp", udp), ("tcp", tcp)]:
    make(f"{name}-limit-1", kind(), hlim=1)
make("echo-limit-0", echo(), hlim=0)
make("class-limit-1", udp(), tc=0x28, hlim=1)
make("echo-reply-limit-1", ICMPv6EchoReply(id=1, data=b"abc"), hlim=1)
make("error-limit-1", ICMPv6TimeExceeded() / IPv6(src=OTHER, dst=HOST) / udp(), hlim=1)
make("hop-by-hop-limit-1", IPv6ExtHdrHopByHop(options=[PadN(optdata=b"\0\0")]) / udp(), hlim=1)

# Where no way leads.
make("nowhere-echo", echo(), to=NOWHERE)
make("nowhere-udp", udp(), to=NOWHERE)
make("nowhere-long", data(1400), to=NOWHERE, nh=253)

# The router itself.
make("own-echo", echo(), to=ROUTER)
make("own-udp", udp(), to=ROUTER)
make("own-udp-far", udp(), to=FAR_SIDE)
make("own-udp-limit-1", udp(), to=ROUTER, hlim=1)
make("own-tcp", tcp(), to=ROUTER)
make("own-protocol-253", data(30), to=ROUTER, nh=253)

# Fields that are wrong.
make("version-5", udp(), edit=(0, 0x50))
make("length-too-long", udp(), edit=(4, 0x01, 0x00))
make("length-short", udp(), edit=(4, 0x00, 0x14))

# Addresses that no packet to forward has.
for name, address in [
    ("unspecified", "::"), ("loopback", "::1"), ("group", "ff0e::1"), ("link", "fe80::9"),
    ("router", ROUTER),
]:
    make(f"from-{name}", udp(), src=address)
for name, address in [
    ("unspecified", "::"), ("loopback", "::1"), ("group", "ff0e::77"), ("link-group", "ff02::77"),
    ("link", "fe80::99"),
]:
    make(f"to-{name}", udp(), to=address)
make("ether-broadcast", udp(), ether="ff:ff:ff:ff:ff:ff")
make("ether-group", udp(), ether="33:33:00:00:00:05")
make("ether-other", udp(), ether="02:00:00:00:00:99")
make("source-route-done", IPv6ExtHdrRouting(segleft=0, addresses=[NOWHERE]) / udp())

# After these everything else has come out.
make("end-far", echo())
make("end-near", udp(), to=ROUTER)
