"""FutureDispatcher: from the number of an ask to its promise.

A chained hash table whose nodes are the promises themselves. The numbers an actor gives to its asks
count up, so `number & mask` spreads them perfectly and no hash function is needed. It grows before
the load factor of 2 is reached, and shrinks when it has grown to four times its first capacity or
more and is less than half full.

Only the runner of the actor touches it.

A promise holds its stack, the stack its house, and the house this table, so all of them could be
garbage of the cyclic kind: an actor that waits for an answer from one whose address nobody else
has. The collector must not find them: a handler that waits keeps its actor. So a table with
promises in it enters itself into the register's `waiting`. (The native lane's is no object of the
collector's at all, which costs nothing and has the same effect.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from otavia_ft.lane import twin_class
from otavia_ft.stack.promise import MessagePromise

__all__ = ["FutureDispatcher"]

INITIAL_CAPACITY = 8
LOAD_FACTOR = 2
SHRINK_AT = 4 * INITIAL_CAPACITY


@twin_class("FutureDispatcher")
class FutureDispatcher:
    """The promises an actor waits for, by their `aid`."""

    __slots__ = ("_mask", "_table", "_waiting", "count")

    def __init__(self, waiting: dict[int, Any] | None = None) -> None:
        self._waiting = waiting
        self._table: list[MessagePromise[Any] | None] = [None] * INITIAL_CAPACITY
        self._mask = INITIAL_CAPACITY - 1
        self.count = 0

    @property
    def capacity(self) -> int:
        return self._mask + 1

    def push(self, promise: MessagePromise[Any]) -> None:
        """Add a promise. Its `aid` must not be in the table."""
        if self.count + 1 >= LOAD_FACTOR * (self._mask + 1):
            self._resize(2 * (self._mask + 1))
        index = promise.aid & self._mask
        promise.hash_next = self._table[index]
        self._table[index] = promise
        self.count += 1
        if self.count == 1 and self._waiting is not None:
            self._waiting[id(self)] = self

    def pop(self, aid: int) -> MessagePromise[Any] | None:
        """Take the promise with this number out; None if nobody waits under it."""
        table = self._table
        index = aid & self._mask
        found = table[index]
        before: MessagePromise[Any] | None = None
        while found is not None and found.aid != aid:
            before, found = found, found.hash_next
        if found is None:
            return None
        if before is None:
            table[index] = found.hash_next
        else:
            before.hash_next = found.hash_next
        found.hash_next = None
        self.count -= 1
        if self.count == 0 and self._waiting is not None:
            self._waiting.pop(id(self), None)
        capacity = self._mask + 1
        if capacity >= SHRINK_AT and 2 * self.count < capacity:
            self._resize(capacity // 2)
        return found

    def __contains__(self, aid: int) -> bool:
        return any(promise.aid == aid for promise in self._chain(aid & self._mask))

    def __iter__(self) -> Iterator[MessagePromise[Any]]:
        for index in range(self._mask + 1):
            yield from self._chain(index)

    def _chain(self, index: int) -> Iterator[MessagePromise[Any]]:
        node = self._table[index]
        while node is not None:
            following = node.hash_next  # read first: the caller may take the node out
            yield node
            node = following

    def _resize(self, capacity: int) -> None:
        promises = list(self)
        self._mask = mask = capacity - 1
        table: list[MessagePromise[Any] | None] = [None] * capacity
        self._table = table
        for promise in promises:
            index = promise.aid & mask
            promise.hash_next = table[index]
            table[index] = promise
