"""Packets of a Linerate cluster, without a copy."""

from collections.abc import AsyncIterator, Buffer, Iterator
from types import TracebackType
from typing import Final, Literal, Self, final

__all__ = [
    *("Batch", "Consumer", "Ended", "Error", "Refused", "Statistics", "batches"),
    *("DROP", "PASS", "DROP_FLOW", "PASS_FLOW"),
]

# Verdicts of Batch.answer. Those of flows hold from now on for all of a packet's flow, in both directions.
DROP: Final = 0
PASS: Final = 1
DROP_FLOW: Final = 2
PASS_FLOW: Final = 3

class Error(Exception):
    """Something is wrong with a cluster: nobody listens, or what is said makes no sense."""

class Refused(Error):
    """The server does not do it: the name is not known or taken, or the access is not granted."""

class Ended(Error):
    """The server is gone, or has ended this consumer: who goes on makes a new one."""

@final
class Consumer:
    """A place in a cluster: a context manager, and an iterator over batches that waits for each.

    It may be used by several threads. A waiting thread lets others run and heeds Ctrl-C.
    """

    def __new__(
        cls,
        socket: str,
        name: str,
        *,
        access: Literal["read", "write", "isolated"] | None = None,
        burst: int = 256,
    ) -> Self:
        """Attaches to the cluster at a socket, a file's name or @NAME, as the consumer of that name.

        access is what the configuration grants, if not said; burst is the most packets of a batch.
        Raises Refused, or Error.
        """

    @property
    def name(self) -> str:
        """The name it has attached as."""
    @property
    def access(self) -> Literal["read", "write", "isolated"]:
        """Whether packets that are this program's alone may be written."""
    @property
    def asked(self) -> bool:
        """Whether an InlineConsumer of the configuration asks what is to become of packets."""
    @property
    def closed(self) -> bool:
        """Whether it was closed."""
    def receive(self) -> Batch:
        """The next batch, which has no packets (and is false) if there are none. Never waits.

        Raises Ended, when there are none because the server is gone.
        """
    def wait(self, timeout: float | None = None) -> bool:
        """Waits for packets, for so many seconds at most: False when there are none by then.

        Raises Ended.
        """
    def prepare_wait(self) -> bool:
        """For who waits by select, poll or asyncio: to be called each time before.

        True when there is something to wait for, False when there are packets. Raises Ended.
        """
    def fileno(self) -> int:
        """The descriptor that is readable then."""
    def transmit(self, packet: Buffer) -> bool:
        """Sends a packet of this program's own, which is copied: False when there is no buffer for it now.

        The server's configuration says how many there are (SPARE of a FromConsumer). Raises Ended.
        """
    def statistics(self) -> Statistics:
        """What the server counts of this consumer; also when the server is gone."""
    def close(self) -> None:
        """Gives all back and detaches: at once, or as soon as the last view of a packet is gone.

        Until then the place is taken, and packets for it are lost.
        """
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> Batch: ...

@final
class Batch:
    """Packets that have come together, oldest first: a sequence of memoryviews.

    They are this program's until the batch is sent, released or deleted, and as long as there is a view
    of one (or an array that was made of it without a copy). So a view never shows another packet. The
    server lends a consumer so many buffers and no more: who keeps batches for long loses packets.
    """

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> memoryview:
        """The bytes of a packet, for reading."""
    def __iter__(self) -> Iterator[memoryview]: ...
    def writable(self, index: int) -> memoryview:
        """The same for writing. PermissionError where others have it too, or this consumer only reads."""
    @property
    def lengths(self) -> memoryview:
        """Bytes of each packet, a column of 32 bits. Like all columns it is there when the batch is not."""
    @property
    def timestamps(self) -> memoryview:
        """When each was received, in nanoseconds since the epoch, 64 bits; 0 where nobody asked for it."""
    @property
    def offsets(self) -> memoryview:
        """Where each begins in the arena, 64 bits."""
    @property
    def arena(self) -> memoryview:
        """The memory that all packets of the cluster lie in, for reading.

        Bytes that are not of this batch's packets are others', and may change while they are looked at.
        """
    def fields(self, offset: int, size: int) -> memoryview:
        """A copy of so many bytes of each packet, from an offset: a row each, zeros where it is shorter."""
    def send(self, chosen: Buffer | None = None) -> int:
        """Sends packets whose byte or bool is not zero, or all, and releases the others; says how many.

        They go on, without a copy, where a FromConsumer of the server's configuration has them.
        BufferError while there are views, ValueError when the batch was released, or Ended.
        """
    def answer(self, verdicts: Buffer | None = None) -> int:
        """Says what is to become of each packet, by a byte, or that all pass; says how many do.

        For a consumer that is asked. To send() packets says that they pass, to release or delete them that
        they are dropped. Raises as send().
        """
    def release(self) -> None:
        """Gives the packets back. BufferError while there are views."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

@final
class Statistics:
    """What the server counts of a consumer, over all programs that were attached by its name."""

    @property
    def packets(self) -> int:
        """Packets lent to it."""
    @property
    def bytes(self) -> int:
        """Their bytes."""
    @property
    def lost_full(self) -> int:
        """Packets it did not get because it did not keep up."""
    @property
    def lost_absent(self) -> int:
        """Packets it did not get because nobody was attached."""
    @property
    def sent(self) -> int:
        """Packets it has sent."""
    @property
    def sent_bytes(self) -> int:
        """Their bytes."""
    @property
    def unheard(self) -> int:
        """Packets it has sent and nobody received: no FromConsumer is there."""
    @property
    def held(self) -> int:
        """Buffers it holds now."""
    @property
    def waiting(self) -> int:
        """Packets that wait for it now."""

def batches(consumer: Consumer) -> AsyncIterator[Batch]:
    """Batches as they come, for asyncio: others run while there is none, and between two."""
