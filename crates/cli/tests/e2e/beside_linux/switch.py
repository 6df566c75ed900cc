"""Frames that hosts at three ports of a switch send, each known by its data."""

from scapy.all import LLC, Dot1Q, Raw

BROADCAST, GROUP4, GROUP6 = "ff:ff:ff:ff:ff:ff", "01:00:5e:01:02:03", "33:33:00:00:00:05"
KIND, FENCE = 0x88B5, 0x88B6
number = 0


def host(digit):
    return f"02:00:00:00:0a:{digit:02x}"


def fence(end):
    """A broadcast from a host of each port's own, which everybody else hears."""
    frame = bytes(Ether(dst=BROADCAST, src=f"02:00:00:00:fe:{end:02x}", type=FENCE)).ljust(60, b"\0")
    return [(frame, {0, 1, 2} - {end}, lambda seen: seen[12:14] == FENCE.to_bytes(2))]


exchange = Exchange(Ends(["e0", "e1", "e2"]), fence)


def step(name, end, to, source, payload=None, kind=KIND, length=60):
    global number
    number += 1
    data = Raw(number.to_bytes(2) * 3) if payload is None else payload
    frame = bytes(Ether(dst=to, src=source, type=kind) / data)
    return exchange.step(name, end, frame.ljust(length, bytes([number])))


# Finding out where hosts are.
step("unknown", 0, host(2), host(1))
step("answer", 1, host(1), host(2))
step("known", 0, host(2), host(1))
step("from-third", 2, host(1), host(3))
step("to-third", 1, host(3), host(2))
step("at-same-port", 0, host(1), host(4))
step("at-same-port-back", 0, host(4), host(1))
step("to-itself", 1, host(2), host(2))

# To many.
for name, to in [("broadcast", BROADCAST), ("group4", GROUP4), ("group6", GROUP6)]:
    for end in range(3):
        step(f"{name}-{end}", end, to, host(end + 1))
step("broadcast-from-unknown", 0, BROADCAST, host(9))
step("to-whom-broadcast-told", 2, host(9), host(3))

# Frames of all sizes, and of all kinds a cable carries.
for length in [60, 61, 64, 65, 127, 128, 129, 1023, 1513, 1514]:
    step(f"length-{length}", 0, host(2), host(1), length=length)
step("no-data", 0, host(2), host(1), payload=Raw(b""), length=14)
step("tag", 0, host(2), host(1), payload=Dot1Q(vlan=5, prio=3, type=KIND) / Raw(b"5"), kind=0x8100)
step("tag-broadcast", 1, BROADCAST, host(2), payload=Dot1Q(vlan=5, type=KIND) / Raw(b"6"), kind=0x8100)
step("tag-priority-only", 0, host(2), host(1), payload=Dot1Q(vlan=0, prio=5, type=KIND), kind=0x8100)
step("service-tag", 0, host(2), host(1), payload=Dot1Q(vlan=7, type=KIND) / Raw(b"7"), kind=0x88A8)
step("two-tags", 0, host(2), host(1), kind=0x88A8,
     payload=Dot1Q(vlan=7, type=0x8100) / Dot1Q(vlan=8, type=KIND) / Raw(b"8"))
step("long-with-tag", 0, host(2), host(1), payload=Dot1Q(vlan=5, type=KIND), kind=0x8100, length=1518)
step("same-host-other-vlan", 2, host(1), host(5), payload=Dot1Q(vlan=9, type=KIND), kind=0x8100)
step("to-it-without-tag", 0, host(5), host(1))
step("llc", 0, host(2), host(1), payload=LLC(dsap=0x42, ssap=0x42, ctrl=3) / Raw(bytes(35)), kind=38)
step("ipv4", 0, host(2), host(1), payload=Raw(bytes.fromhex("45000014")), kind=0x0800)
step("arp", 0, BROADCAST, host(1), payload=Raw(bytes(28)), kind=0x0806)

# Hosts that move.
step("moved-silently", 0, host(3), host(1))
step("moves", 0, BROADCAST, host(3))
step("to-its-new-port", 1, host(3), host(2))
step("moves-back", 2, host(2), host(3))
step("to-its-old-port", 1, host(3), host(2))

# What is between bridges, and the addresses beside.
for last in [0x00, 0x01, 0x02, 0x03, 0x0E, 0x0F, 0x10, 0x20, 0x21]:
    step(f"bridges-{last:02x}", 0, f"01:80:c2:00:00:{last:02x}", host(1))
step("bridges-from-unknown", 1, "01:80:c2:00:00:00", host(6))
step("to-whom-that-told", 0, host(6), host(1))

# Sources that nobody has.
step("from-group", 0, host(2), GROUP4)
step("from-broadcast", 0, host(2), BROADCAST)
step("from-nobody", 0, host(2), "00:00:00:00:00:00")
step("to-group-that-sent", 1, GROUP4, host(2))
step("to-nobody", 1, "00:00:00:00:00:00", host(2))

# The switch's own addresses.
step("to-near-interface", 0, "02:00:00:00:01:00", host(1))
step("to-far-interface", 0, "02:00:00:00:01:01", host(1))
step("from-far-interface", 0, host(2), "02:00:00:00:01:01")
exchange.show()
