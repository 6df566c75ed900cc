"""Flows that go on and such that have ended, for whom a NAT has a time of so many seconds."""

import sys
import time

TIME = float(sys.argv[1])


def udp(name, sport):
    """A datagram out, and one back; returns the port that the NAT has chosen."""
    port = out(name, UDP(sport=sport, dport=53) / DATA)[UDP].sport
    back(f"{name}-answer", UDP(sport=53, dport=port) / DATA)
    return port


def connect(name, sport, ending):
    port = out(f"{name}-syn", TCP(sport=sport, dport=80, flags="S", seq=1))[TCP].sport
    back(f"{name}-syn-ack", TCP(sport=80, dport=port, flags="SA", seq=1, ack=2))
    out(f"{name}-ack", TCP(sport=sport, dport=80, flags="A", seq=2, ack=2))
    out(f"{name}-data", TCP(sport=sport, dport=80, flags="PA", seq=2, ack=2) / DATA)
    back(f"{name}-data-back", TCP(sport=80, dport=port, flags="PA", seq=2, ack=42) / DATA)
    if ending == "fin":
        out(f"{name}-fin", TCP(sport=sport, dport=80, flags="FA", seq=42, ack=42))
        back(f"{name}-fin-back", TCP(sport=80, dport=port, flags="FA", seq=42, ack=43))
        out(f"{name}-last-ack", TCP(sport=sport, dport=80, flags="A", seq=43, ack=43))
    elif ending == "reset":
        out(f"{name}-reset", TCP(sport=sport, dport=80, flags="R", seq=42, ack=42))
    return port


asked = out("silent", UDP(sport=4000, dport=53) / DATA)
silent = asked[UDP].sport
kept, answered = udp("kept", 4001), udp("answered", 4002)
closed, reset = connect("closed", 5000, "fin"), connect("reset", 5001, "reset")
still_open = connect("open", 5002, None)
back("silent-answer", UDP(sport=53, dport=silent) / DATA)

# One is kept alive from inside, one from outside; the others are silent for longer than the time.
for number in range(int((TIME + 3) * 2)):
    time.sleep(0.5)
    out(f"kept-{number}", UDP(sport=4001, dport=53) / DATA)
    back(f"answered-{number}", UDP(sport=53, dport=answered) / DATA)

back("kept-after", UDP(sport=53, dport=kept) / DATA)
out("answered-after", UDP(sport=4002, dport=53) / DATA)
back("open-after", TCP(sport=80, dport=still_open, flags="PA", seq=42, ack=42) / DATA)
back("error-about-silent", error(3, 3, asked), src=GATEWAY)
back("silent-after", UDP(sport=53, dport=silent) / DATA)
back("closed-after", TCP(sport=80, dport=closed, flags="A", seq=43, ack=43))
back("reset-after", TCP(sport=80, dport=reset, flags="A", seq=42, ack=42))

# And from the same ports anew.
udp("silent-again", 4000)
connect("closed-again", 5000, "fin")
connect("reset-again", 5001, "reset")
exchange.show()
