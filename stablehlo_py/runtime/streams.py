"""What a running program exchanges with the host: infeed, outfeed, and channels of send and recv.

A stream holds one bounded queue for every process. The host puts items (a tuple of arrays each, what one op moves) and
the program takes them, or the other way round. Nobody waits for ever: the host by its time-out and Ctrl-C, the program
until its call is given up, and both until the stream is closed.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from stablehlo_py import boundary, forks
from stablehlo_py.boundary import public
from stablehlo_py.errors import ArgumentError, CommunicationError, Problem
from stablehlo_py.runtime.arguments import convert
from stablehlo_py.runtime.program import Spec

CAPACITY = 64  # items that may wait in a queue
LOOK_SECONDS = 0.05  # how often one who waits looks whether it should go on waiting

Item = tuple[np.ndarray, ...]


class _Queue:
    """Items in order, at most CAPACITY of them; thread-safe."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._items: deque[Item] = deque()
        self._changed = threading.Condition(forks.Lock())  # type: ignore[arg-type]
        self._closed = False

    def put(self, item: Item, go_on: Callable[[], bool]) -> bool:
        """Append; waits while the queue is full and `go_on()` holds. False: it was given up.

        Raises:
            CommunicationError: the queue is closed.
        """
        with self._changed:
            while len(self._items) >= CAPACITY and not self._closed:
                if not go_on():
                    return False
                self._changed.wait(LOOK_SECONDS)
            if self._closed:
                raise CommunicationError(f"{self._name} is closed")
            self._items.append(item)
            self._changed.notify_all()
            return True

    def get(self, go_on: Callable[[], bool]) -> Item | None:
        """Take the first item; waits while there is none and `go_on()` holds. None: it was given up.

        Raises:
            CommunicationError: the queue is closed and empty.
        """
        with self._changed:
            while not self._items:
                if self._closed:
                    raise CommunicationError(f"{self._name} is closed, and empty")
                if not go_on():
                    return None
                self._changed.wait(LOOK_SECONDS)
            item = self._items.popleft()
            self._changed.notify_all()
            return item

    def close(self) -> None:
        """End it: what is in it can still be taken."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


class Stream:
    """The host's end of the streams of one kind, a queue for each process. Thread-safe.

    Attributes:
        name: "the infeed", "the outfeed", "channel 3".
        accepts: what the program takes: specs of the items, one tuple for each op that takes any.
    """

    def __init__(self, name: str, replicas: int, partitions: int, accepts: Sequence[tuple[Spec, ...]] = ()) -> None:
        self.name = name
        self.accepts = tuple(accepts)
        self._partitions = partitions
        self._in = [_Queue(self._of(number)) for number in range(replicas * partitions)]
        self._out = [_Queue(self._of(number)) for number in range(replicas * partitions)]

    def _of(self, number: int) -> str:
        return f"{self.name} of process {divmod(number, self._partitions)}"

    @public
    def put(self, *arrays: object, replica: int = 0, partition: int = 0, timeout: float | None = None) -> None:
        """Append an item for a process: the arrays that one op of the program takes, which are copied. Waits while 64
        items wait already, `timeout` seconds at most.

        Raises:
            ArgumentError: no op of the program takes such arrays, or there is no such process.
            CommunicationError: the stream is closed, or the time is over.
        """
        item = tuple(array.copy() for array in self._checked(arrays))
        queue = self._queue(self._in, replica, partition)
        limit = boundary.seconds(timeout, "timeout")
        if not queue.put(item, _until(limit)):
            raise CommunicationError(
                f"{self.name} of process {(replica, partition)} has been full for {limit:g} seconds",
                remedy="run the program that takes from it, in another thread",
            )

    @public
    def get(self, *, replica: int = 0, partition: int = 0, timeout: float | None = None) -> Item:
        """Take the next item that a process gave: the arrays of one op. Waits `timeout` seconds at most.

        Raises:
            ArgumentError: there is no such process.
            CommunicationError: the stream is closed and empty, or the time is over.
        """
        limit = boundary.seconds(timeout, "timeout")
        item = self._queue(self._out, replica, partition).get(_until(limit))
        if item is None:
            raise CommunicationError(
                f"{self.name} of process {(replica, partition)} has been empty for {limit:g} seconds",
                remedy="run the program that puts into it, in another thread",
            )
        return item

    @public
    def close(self) -> None:
        """No more items: whoever waits for one, program or host, gets a CommunicationError."""
        for queue in (*self._in, *self._out):
            queue.close()

    @public
    def take(self, process: int, go_on: Callable[[], bool]) -> Item | None:
        """For the program: the next item of the host; None where `go_on()` failed before there was one."""
        return self._in[process].get(go_on)

    @public
    def give(self, process: int, item: Item, go_on: Callable[[], bool]) -> None:
        """For the program: an item for the host."""
        self._out[process].put(item, go_on)

    def _queue(self, queues: list[_Queue], replica: int, partition: int) -> _Queue:
        replica, partition = boundary.number(replica, "replica"), boundary.number(partition, "partition")
        replicas = len(queues) // self._partitions
        if not (0 <= replica < replicas and 0 <= partition < self._partitions):
            raise ArgumentError(
                f"there is no process {(replica, partition)} in a grid of {replicas} x {self._partitions}"
            )
        return queues[replica * self._partitions + partition]

    def _checked(self, arrays: Sequence[object]) -> list[np.ndarray]:
        if not self.accepts:
            raise ArgumentError(f"the program takes nothing from {self.name}")
        problems: list[Problem] = []
        for specs in self.accepts:
            try:
                return convert(arrays, specs)
            except ArgumentError as error:
                problems += error.problems
        raise ArgumentError(f"no op of the program takes this from {self.name}", problems=problems)


def _until(timeout: float | None) -> Callable[[], bool]:
    """Holds until the time is over."""
    if timeout is None:
        return lambda: True
    limit = time.monotonic() + timeout
    return lambda: time.monotonic() < limit
