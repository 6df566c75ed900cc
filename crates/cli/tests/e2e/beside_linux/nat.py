"""What flows through a NAT, what does not, and errors about it."""

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
