"""A router whose neighbours answer, fall silent, move and are not there, and fragments for it.

The program is a host at end 0, which always answers, and the neighbours at end 1, which answer as long
as they are said to. What it shows are facts: texts that do not depend on how long anything took.
"""

import sys
import time

from scapy.all import ARP, ICMP, IP, UDP, ICMPerror, ICMPv6ND_NA, ICMPv6ND_NS
from scapy.all import ICMPv6DestUnreach, ICMPv6NDOptDstLLAddr, IPv6, Raw, fragment

ROUTER_MAC = ["02:00:00:00:01:00", "02:00:00:00:01:01"]
HOST_MAC, OLD_MAC, NEW_MAC = "02:00:00:00:0a:00", "02:00:00:00:0b:01", "02:00:00:00:0b:02"
MARK = b"packet "
FAMILY = sys.argv[1]
HOST, OWN, FAR, GONE = {
    "4": ("198.18.0.2", "198.18.0.1", "198.19.0.2", "198.19.0.9"),
    "6": ("2001:db8:0:1::2", "2001:db8:0:1::1", "2001:db8:0:2::2", "2001:db8:0:2::9"),
}[FAMILY]
ends = Ends(["e0", "e1"])
answers = {HOST: HOST_MAC}
facts = []
sent = 0


def fact(name, what):
    facts.append([name, str(what)])


def query_of(packet):
    """Who is asked for, if the packet asks."""
    if ARP in packet and packet[ARP].op == 1:
        return packet[ARP].pdst
    if ICMPv6ND_NS in packet:
        return packet[ICMPv6ND_NS].tgt
    return None


def answer(end, packet, target):
    mac = answers[target]
    reply = Ether(src=mac, dst=packet.src)
    if FAMILY == "4":
        asking = packet[ARP]
        reply /= ARP(op=2, hwsrc=mac, psrc=target, hwdst=asking.hwsrc, pdst=asking.psrc)
    else:
        reply /= IPv6(src=target, dst=packet[IPv6].src, hlim=255)
        reply /= ICMPv6ND_NA(tgt=target, R=0, S=1, O=1) / ICMPv6NDOptDstLLAddr(lladdr=mac)
    ends.send(end, reply)


def number_in(octets):
    """The number of the packet that is in these."""
    at = octets.find(MARK)
    return int(octets[at + len(MARK):at + len(MARK) + 4]) if at >= 0 else None


def next_event():
    """What came out next that counts: ("all" or "it", target), (number, mac), or
    ("error", what, number)."""
    while True:
        end, frame = ends.receive()
        packet = Ether(frame)
        if (target := query_of(packet)) is not None:
            if target in answers:
                answer(end, packet, target)
            if end == 0:
                continue
            return "it" if packet.dst in (OLD_MAC, NEW_MAC) else "all", target
        if end == 1 and (number := number_in(frame)) is not None:
            return number, packet.dst
        if end == 0 and ICMP in packet and packet[ICMP].type in (3, 11):
            icmp = packet[ICMP]
            return "error", (packet[IP].src, icmp.type, icmp.code), packet
        if end == 0 and ICMPv6DestUnreach in packet:
            return "error", (packet[IPv6].src, 1, packet[ICMPv6DestUnreach].code), packet
        if end == 0 and ICMP in packet and packet[ICMP].type == 0:
            return "echo", packet[IP].src, packet[ICMP].id


def send(to):
    global sent
    sent += 1
    layer = IP(src=HOST, dst=to) if FAMILY == "4" else IPv6(src=HOST, dst=to)
    data = Raw(MARK + b"%04d" % sent)
    ends.send(0, Ether(src=HOST_MAC, dst=ROUTER_MAC[0]) / layer / UDP(sport=9, dport=9) / data)
    return sent


def events_until(done):
    events = []
    while not done(events):
        events.append(next_event())
    return events


def came(events, numbers, mac):
    return [event[0] for event in events if event[0] in numbers and event[1] == mac]


def asked(events):
    """How it was asked, in the order in which that began."""
    return list(dict.fromkeys(event[0] for event in events if event[0] in ("all", "it")))


def neighbours():
    # Nobody is known yet: packets wait for the answer, and keep their order.
    numbers = [send(FAR) for _ in range(3)]
    before = events_until(lambda events: ("all", FAR) in events)
    fact("unknown: asked", asked(before))
    fact("unknown: came before the answer", came(before, numbers, OLD_MAC))
    answers[FAR] = OLD_MAC
    # The question was not answered. It is asked again, or the next packet has it asked again.
    after = []
    while len(came(after, numbers, OLD_MAC)) < 3:
        after.append(next_event())
    fact("unknown: came then", [number - numbers[0] for number in came(after, numbers, OLD_MAC)])

    # Who answers stays known for longer than the time.
    numbers, events = [], []
    for _ in range(36):
        numbers.append(send(FAR))
        events += events_until(lambda seen: (numbers[-1], OLD_MAC) in seen)
        time.sleep(0.25)
    fact("answers: came", came(events, numbers, OLD_MAC) == numbers)
    fact("answers: asked", asked(events))

    # Who falls silent is asked directly, and then all are, and get nothing any more. Answers come
    # from elsewhere now.
    del answers[FAR]
    numbers, events = [], []
    give_up = time.monotonic() + PATIENCE / 2
    while ("all", FAR) not in events:
        assert time.monotonic() < give_up, "it is never given up"
        numbers.append(send(FAR))
        events += events_until(lambda seen: seen and (
            (numbers[-1], OLD_MAC) in seen or ("all", FAR) in seen))
        time.sleep(0.25)
    numbers.append(send(FAR))
    fact("silent: asked", asked(events))
    answers[FAR] = NEW_MAC
    last = numbers[-1]
    events += events_until(lambda seen: (last, NEW_MAC) in seen)
    old, new = came(events, numbers, OLD_MAC), came(events, numbers, NEW_MAC)
    fact("silent: some came to where it was", len(old) > 0)
    fact("silent: all came, the last ones to where it is now", old + new == numbers)
    fact("silent: the last", len(new) >= 2)

    # Nobody is there: who sends is told, of each packet.
    numbers = [send(GONE) for _ in range(3)]
    events = events_until(lambda seen: sum(event[0] == "error" for event in seen) >= 3)
    fact("gone: asked", [asked(events), events.count(("all", GONE))])
    errors = [event for event in events if event[0] == "error"]
    fact("gone: told", [what for _, what, _ in errors])
    fact("gone: of", [number_in(bytes(packet)) - numbers[0] for *_, packet in errors])

    # Until it is there.
    answers[GONE] = OLD_MAC
    number = send(GONE)
    events = events_until(lambda seen: (number, OLD_MAC) in seen)
    fact("comes: asked", asked(events))


def parts(ident):
    packet = IP(src=HOST, dst=OWN, id=ident) / ICMP(id=ident) / Raw(bytes(range(200)))
    return [Ether(src=HOST_MAC, dst=ROUTER_MAC[0]) / part for part in fragment(packet, 80)]


def fragments():
    """Packets for the router itself of which not all fragments come."""
    whole, first_only, without_first = parts(100), parts(101), parts(102)
    assert len(whole) == 3
    for part in whole[::-1]:
        ends.send(0, part)
    fact("whole", next_event())
    for part in without_first[1:]:
        ends.send(0, part)
    for part in first_only[:2]:
        ends.send(0, part)
    _, what, packet = next_event()
    quoted = packet[ICMP].payload
    fact("first only", what)
    fact("first only: of", (quoted.src, quoted.dst, quoted.id, bytes(quoted.payload)[:8].hex()))
    # What is missing comes too late for both.
    ends.send(0, first_only[2])
    ends.send(0, without_first[0])
    for part in parts(103):
        ends.send(0, part)
    fact("then", next_event())


{"neighbours": neighbours, "fragments": fragments}[sys.argv[2]]()
print(json.dumps(facts))
