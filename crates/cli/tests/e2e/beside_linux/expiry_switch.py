"""Frames of a host that falls silent, one that goes on, and one that sends to both."""

import sys
import time

from scapy.all import Raw

BROADCAST, KIND, FENCE = "ff:ff:ff:ff:ff:ff", 0x88B5, 0x88B6
SILENT, TALKER, ASKER = range(3)


def host(end):
    return f"02:00:00:00:0a:{end:02x}"


def fence(end):
    frame = bytes(Ether(dst=BROADCAST, src=f"02:00:00:00:fe:{end:02x}", type=FENCE)).ljust(60, b"\0")
    return [(frame, {0, 1, 2} - {end}, lambda seen: seen[12:14] == FENCE.to_bytes(2))]


exchange = Exchange(Ends(["e0", "e1", "e2"]), fence)


def step(name, end, to):
    frame = Ether(dst=host(to), src=host(end), type=KIND) / Raw(name.encode())
    exchange.step(name, end, bytes(frame).ljust(60, b"\0"))


def both(name):
    step(f"{name}-talks", TALKER, ASKER)
    step(f"{name}-to-talker", ASKER, TALKER)


if sys.argv[1] == "learn":
    step("silent-speaks", SILENT, TALKER)
    both("first")
    step("to-silent", ASKER, SILENT)
else:
    # For longer than the time hosts are remembered.
    for number in range(int((float(sys.argv[1]) + 3) * 2)):
        both(f"{number}")
        time.sleep(0.5)
    both("last")
    step("to-silent-later", ASKER, SILENT)
    step("silent-speaks-again", SILENT, ASKER)
    step("to-silent-again", ASKER, SILENT)
exchange.show()
