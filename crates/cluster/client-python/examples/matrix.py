"""Draws who sends how much to whom, by network, and lists the busiest pairs:

    matrix.py SOCKET NAME [--networks 16] [--interval 1] [--image matrix.pgm]

A row is the network of a source, a column that of a destination (of IPv4, by the first octets), a shade
the bytes between them, on a logarithmic scale. The image is the whole matrix of 256 networks squared.
"""

import argparse
import time

import numpy

import linerate

SHADES = numpy.array(list(" .:-=+*#%@"))
ETHERTYPE, SOURCE = 12, 14 + 12
IPV4 = 0x0800


def add(matrix, batch):
    """Adds a batch's bytes to their pairs of networks."""
    arena, offsets = numpy.asarray(batch.arena), numpy.asarray(batch.offsets).astype(numpy.intp)
    lengths = numpy.asarray(batch.lengths)
    high, low = arena[offsets + ETHERTYPE], arena[offsets + ETHERTYPE + 1]
    wanted = (lengths >= SOURCE + 8) & (high == IPV4 >> 8) & (low == IPV4 & 255)
    start = offsets[wanted] + SOURCE
    pair = arena[start].astype(numpy.intp) << 8 | arena[start + 4]
    matrix += numpy.bincount(pair, lengths[wanted], minlength=1 << 16).astype(numpy.int64)


def shades(matrix):
    """Numbers from 0, for nothing, to 9, for the most."""
    levels = numpy.log1p(matrix)
    return numpy.ceil(levels * (9 / max(levels.max(), 1e-9))).astype(int)


def draw(matrix, networks):
    square = matrix.reshape(256, 256)
    busy = square.sum(axis=0) + square.sum(axis=1)
    busiest = numpy.argsort(-busy, kind="stable")[:networks]
    shown = numpy.sort(busiest[busy[busiest] > 0])
    part = square[numpy.ix_(shown, shown)]
    print("       to " + " ".join(f"{network:<3}" for network in shown))
    for network, row in zip(shown, SHADES[shades(part)]):
        print(f"from {network:>3}  " + " ".join(shade * 3 for shade in row))
    for pair in numpy.argsort(-matrix, kind="stable")[:5]:
        if matrix[pair]:
            print(f"{pair >> 8}.0.0.0/8 to {pair & 255}.0.0.0/8: {matrix[pair]} bytes")


def main():
    parser = argparse.ArgumentParser(description="Who sends how much to whom.")
    parser.add_argument("socket")
    parser.add_argument("name")
    parser.add_argument("--networks", type=int, default=16, help="most rows and columns")
    parser.add_argument("--interval", type=float, default=1, help="seconds between two drawings")
    parser.add_argument("--image", help="a file for the whole matrix, as PGM, at the end")
    options = parser.parse_args()
    matrix = numpy.zeros(1 << 16, numpy.int64)
    with linerate.Consumer(options.socket, options.name) as consumer:
        following = time.monotonic() + options.interval
        try:
            while True:
                batch = consumer.receive()
                if batch:
                    add(matrix, batch)
                else:
                    consumer.wait(max(0, following - time.monotonic()))
                if time.monotonic() >= following:
                    draw(matrix, options.networks)
                    following += options.interval
        except linerate.Ended as ended:
            print(ended)
        except KeyboardInterrupt:
            pass
        draw(matrix, options.networks)
        print(f"{consumer.statistics().lost_full} packets lost")
    if options.image:
        levels = (shades(matrix) * 28).astype(numpy.uint8)
        with open(options.image, "wb") as image:
            image.write(b"P5 256 256 255\n" + levels.tobytes())


if __name__ == "__main__":
    main()
