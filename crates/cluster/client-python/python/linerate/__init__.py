"""Packets of a Linerate cluster, without a copy.

>>> with linerate.Consumer("/run/cluster.sock", "counter") as consumer:
...     for batch in consumer:
...         for packet in batch:
...             print(len(packet), bytes(packet[:14]).hex())

NumPy is not needed, but everything here can be made an array of without a copy: numpy.asarray(batch.lengths).
"""

import asyncio as _asyncio

from ._client import Batch, Consumer, Ended, Error, Refused, Statistics

__all__ = [
    *("Batch", "Consumer", "Ended", "Error", "Refused", "Statistics", "batches"),
    *("DROP", "PASS", "DROP_FLOW", "PASS_FLOW"),
]

DROP, PASS, DROP_FLOW, PASS_FLOW = range(4)


async def batches(consumer):
    """Batches as they come, for asyncio: others run while there is none, and between two."""
    loop = _asyncio.get_running_loop()
    while not consumer.closed:
        batch = consumer.receive()
        if batch:
            yield batch
            await _asyncio.sleep(0)
            continue
        del batch
        if consumer.prepare_wait():
            ready = _asyncio.Event()
            loop.add_reader(consumer.fileno(), ready.set)
            try:
                await ready.wait()
            finally:
                loop.remove_reader(consumer.fileno())
