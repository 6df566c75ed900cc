"""What a consumer in Python can do. Asks its server for packets by printing how many.

Packet number n has n in its first eight bytes, is of 60 + n bytes, and of n elsewhere.
"""

import asyncio
import gc
import select
import sys
import threading
import time

import numpy

import linerate


def ask(count):
    print(count, flush=True)


def numbers(batch):
    return [int.from_bytes(packet[:8], sys.byteorder) for packet in batch]


def raises(kind, function, *arguments):
    try:
        function(*arguments)
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__}")


def take(consumer, count):
    """Asks for a batch of so many packets."""
    ask(count)
    deadline = time.monotonic() + 20
    while consumer.statistics().waiting < count:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    assert consumer.wait()
    batch = consumer.receive()
    assert len(batch) == count, len(batch)
    return batch


def looks(consumer):
    batch = take(consumer, 5)
    assert numbers(batch) == [0, 1, 2, 3, 4]
    assert [len(packet) for packet in batch] == [60, 61, 62, 63, 64] == list(batch.lengths)
    assert bytes(batch[3][8:]) == bytes([3] * 55) == bytes(batch[-2][8:])
    assert all(packet.readonly and packet.format == "B" for packet in batch)
    raises(IndexError, batch.__getitem__, 5)
    raises(IndexError, batch.__getitem__, -6)
    # Columns, and the bytes they lead to, are the same memory.
    arena, offsets = numpy.asarray(batch.arena), numpy.asarray(batch.offsets)
    assert arena.dtype == numpy.uint8 and offsets.dtype == numpy.uint64
    assert numpy.asarray(batch.lengths).dtype == numpy.uint32
    assert not arena.flags.writeable and not arena.flags.owndata and not offsets.flags.owndata
    assert (arena[offsets + numpy.uint64(8)] == numpy.arange(5)).all()
    assert arena.ctypes.data + int(offsets[2]) == numpy.asarray(batch[2]).ctypes.data
    assert list(batch.timestamps) == [1_000_000_000 + number for number in range(5)]
    rows = numpy.asarray(batch.fields(59, 4))
    assert rows.tolist() == [[0] * 4, [1, 1, 0, 0], [2, 2, 2, 0], [3] * 4, [4] * 4]
    assert numpy.asarray(batch.fields(1000, 2)).tolist() == [[0, 0]] * 5
    assert batch.fields(0, 8).shape == (5, 8)
    raises(ValueError, batch.fields, 0, 0)
    return batch


def keeps(consumer, batch):
    """Views keep packets as they are, whatever comes behind them."""
    held = batch[1]
    array = numpy.asarray(batch[2])[8:]
    assert "2 views" in raises(BufferError, batch.release)
    raises(BufferError, batch.send)
    del batch
    gc.collect()
    # More than the server has buffers: all others are used again and again.
    for _ in range(40):
        assert all(number > 4 for number in numbers(take(consumer, 32)))
    assert bytes(held[8:]) == bytes([1] * 53) and (array == 2).all()
    assert consumer.statistics().held >= 5
    held.release()
    raises(ValueError, held.tobytes)
    del array
    batch = take(consumer, 3)
    view = batch[0]
    raises(BufferError, batch.release)
    del view
    batch.release()
    batch.release()
    for use in (lambda: batch[0], lambda: batch.arena, lambda: batch.lengths, batch.send):
        assert "released" in raises(ValueError, use)
    lengths = take(consumer, 2).lengths
    assert len(lengths) == 2 and min(lengths) > 60  # a column is there when the batch is not


def changes_and_sends(consumer):
    batch = take(consumer, 4)
    assert consumer.access == "write"
    with batch.writable(0) as first:
        first[8:12] = b"here"
    numpy.asarray(batch.writable(1))[8:12] = numpy.frombuffer(b"also", numpy.uint8)
    assert bytes(batch[0][8:12]) == b"here"
    raises(ValueError, batch.send, b"\1")
    assert batch.send(numpy.array([True, True, False, True])) == 3
    assert "sent" in raises(ValueError, batch.send)
    assert take(consumer, 2).send() == 2
    assert consumer.transmit(b"from Python") and consumer.transmit(bytearray(70))
    assert not consumer.transmit(bytes(70_000))
    raises(TypeError, consumer.transmit, "text")


def waits(consumer):
    assert len(consumer.receive()) == 0 and not consumer.receive()
    assert consumer.wait(0) is False and consumer.wait(0.01) is False
    raises(ValueError, consumer.wait, float("nan"))
    assert consumer.prepare_wait()
    ask(1)
    assert select.select([consumer], [], [], 20)[0] == [consumer]
    while consumer.prepare_wait():
        pass
    assert len(next(consumer)) == 1

    async def follow():
        ticks, seen = 0, 0

        async def tick():
            nonlocal ticks
            while True:
                await asyncio.sleep(0.002)
                ticks += 1
                if ticks == 5:
                    ask(2)

        ticking = asyncio.create_task(tick())
        async for batch in linerate.batches(consumer):
            seen += len(batch)
            if seen == 2:
                break
        ticking.cancel()
        return ticks

    assert asyncio.run(follow()) >= 5, "others do not run while it waits"


def refuses(socket):
    raises(linerate.Refused, linerate.Consumer, socket, "nobody")
    raises(linerate.Refused, linerate.Consumer, socket, "one")
    assert "cannot connect" in raises(linerate.Error, linerate.Consumer, socket + "-not", "one")
    raises(ValueError, lambda: linerate.Consumer(socket, "one", access="all"))
    raises(ValueError, lambda: linerate.Consumer(socket, "one", burst=0))
    assert issubclass(linerate.Refused, linerate.Error) and issubclass(linerate.Ended, linerate.Error)


def attach(socket):
    """As soon as the place is free."""
    deadline = time.monotonic() + 20
    while True:
        try:
            return linerate.Consumer(socket, "one", access="read", burst=2)
        except linerate.Refused:
            assert time.monotonic() < deadline, "the place stays taken"


def closes(socket):
    """Who waits in another thread or task is told."""
    consumer, seen = attach(socket), []
    thread = threading.Thread(target=lambda: seen.extend(consumer), daemon=True)
    thread.start()
    time.sleep(0.05)
    consumer.close()
    thread.join(20)
    assert not thread.is_alive() and seen == []
    consumer = attach(socket)

    async def follow():
        asyncio.get_running_loop().call_later(0.05, consumer.close)
        async for _ in linerate.batches(consumer):
            pass

    asyncio.run(asyncio.wait_for(follow(), 20))


def main(socket):
    with linerate.Consumer(socket, "one") as consumer:
        assert consumer.name == "one" and not consumer.closed
        keeps(consumer, looks(consumer))
        changes_and_sends(consumer)
        waits(consumer)
        refuses(socket)
        last = take(consumer, 1)[0]
        statistics = consumer.statistics()
        assert (statistics.lost_full, statistics.sent, statistics.unheard) == (0, 7, 0), statistics
    # The place is free when the last view is gone.
    assert consumer.closed
    for call in (consumer.receive, consumer.wait, consumer.prepare_wait, consumer.statistics):
        assert "closed" in raises(ValueError, call)
    assert list(consumer) == []
    raises(linerate.Refused, linerate.Consumer, socket, "one")
    assert len(bytes(last)) > 60
    del last
    closes(socket)
    again = attach(socket)
    assert again.access == "read"
    ask(3)
    batch = next(again)
    raises(PermissionError, batch.writable, 0)
    del batch
    ask("end")
    try:
        for batch in again:
            assert len(batch) <= 2
        raise AssertionError("it goes on")
    except linerate.Ended:
        print("done")


main(sys.argv[1])
