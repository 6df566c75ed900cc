"""Counts packets by IP protocol until its server ends, without copying them:

    count.py SOCKET NAME
"""

import sys

import numpy

import linerate

PROTOCOL = 14 + 9  # where an IPv4 header has it, behind Ethernet's


def main(socket, name):
    packets = numpy.zeros(256, numpy.int64)
    size = 0
    with linerate.Consumer(socket, name) as consumer:
        try:
            for batch in consumer:
                lengths = numpy.asarray(batch.lengths)
                arena = numpy.asarray(batch.arena)
                places = numpy.asarray(batch.offsets)[lengths > PROTOCOL] + PROTOCOL
                packets += numpy.bincount(arena[places], minlength=256)
                size += int(lengths.sum())
        except linerate.Ended as ended:
            print(ended)
        except KeyboardInterrupt:
            print("interrupted")
        statistics = consumer.statistics()
    for protocol in packets.nonzero()[0]:
        print(f"protocol {protocol}: {packets[protocol]} packets")
    print(f"{size} bytes, {statistics.lost_full} packets lost")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
