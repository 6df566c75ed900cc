"""Answers for six packets, and for what comes then."""

import sys

import numpy

import linerate
from linerate import DROP, DROP_FLOW, PASS, PASS_FLOW

with linerate.Consumer(sys.argv[1], sys.argv[2]) as consumer:
    assert consumer.asked
    assert consumer.wait(20)
    batch = consumer.receive()
    for wrong in (bytes(5), bytes([4] * 6)):
        try:
            batch.answer(wrong)
            raise AssertionError("that is no answer")
        except ValueError:
            pass
    verdicts = numpy.array([PASS, DROP, PASS_FLOW, DROP_FLOW, DROP, PASS], numpy.uint8)
    assert batch.answer(verdicts) == 3
    assert consumer.wait(20)
    assert consumer.receive().answer() == 1
    try:
        consumer.wait()
    except linerate.Ended:
        print("done")
