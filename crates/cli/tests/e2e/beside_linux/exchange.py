"""Sends frames at the ends of a network, one after the other, and notes what comes out at each.

Everything that comes of a frame has come out when a fence has: frames that are sent after it by the
same way. So nothing depends on how long anything takes.
"""

import json
import select
import socket
import struct
import sys

from scapy.all import Ether

SOL_PACKET, PACKET_AUXDATA, PACKET_OUTGOING, ETH_P_ALL = 263, 8, 4, 3
TAGGED = 0x10
PATIENCE = 60


class Ends:
    """The ends, by the names of their interfaces."""

    def __init__(self, names):
        self.wires = []
        for name in names:
            wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
            wire.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
            wire.bind((name, ETH_P_ALL))
            self.wires.append(wire)

    def send(self, end, frame):
        self.wires[end].send(bytes(frame))

    def receive(self):
        """The next frame to come out, and where."""
        while True:
            ready, _, _ = select.select(self.wires, [], [], PATIENCE)
            if not ready:
                raise TimeoutError("nothing comes out")
            frame, ancillary, _, address = ready[0].recvmsg(65536, 256)
            if address[2] == PACKET_OUTGOING:
                continue
            for level, kind, data in ancillary:
                if (level, kind) != (SOL_PACKET, PACKET_AUXDATA):
                    continue
                status, *_, tag, protocol = struct.unpack("IIIHHHH", data[:20])
                if status & TAGGED:
                    # The kernel has put it aside.
                    frame = frame[:12] + struct.pack("!HH", protocol, tag) + frame[12:]
            return self.wires.index(ready[0]), frame


class Exchange:
    """Steps, and what came out in each. A fence is a list of frames to be sent one after the other,
    each with the ends where it must come out and a function that knows it there."""

    def __init__(self, ends, fence, canonical=lambda frame, end: frame):
        """`canonical` makes a frame that came out at an end what is to be compared."""
        self.ends, self.fence, self.canonical, self.steps = ends, fence, canonical, []

    def step(self, name, end, frame):
        """Sends a frame; returns what came out, by ends."""
        out = [[] for _ in self.ends.wires]
        self.ends.send(end, frame)
        for frame, where, known in self.fence(end):
            self.ends.send(end, frame)
            missing = set(where)
            while missing:
                at, seen = self.ends.receive()
                if not known(seen):
                    out[at].append(seen)
                else:
                    missing.discard(at)
        shown = [[self.canonical(seen, at).hex() for seen in out[at]] for at in range(len(out))]
        self.steps.append({"name": name, "out": shown})
        return out

    def show(self):
        print(json.dumps(self.steps))


def without_padding(frame):
    """An Ethernet frame of IPv4 without what follows the packet in it."""
    if frame[12:14] != b"\x08\x00":
        return frame
    return frame[:14 + max(int.from_bytes(frame[16:18], "big"), 20)]
