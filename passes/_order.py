"""Orders of things that depend on each other."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence


def topological_order(after: Sequence[Collection[int]], kinds: Sequence[bool] = ()) -> list[int]:
    """The numbers 0, 1 ... in an order in which number i comes before those in `after[i]`, once each; the lowest first
    of all that could follow. With `kinds` those go first that are of the kind of the one before, so that a kind comes
    in few runs. Numbers on a circle, and what depends on them, are left out.
    """
    waiting = [0] * len(after)
    for following in after:
        for number in following:
            waiting[number] += 1
    ready: tuple[list[int], list[int]] = ([], [])
    for number, count in enumerate(waiting):
        if not count:
            ready[bool(kinds) and kinds[number]].append(number)
    order: list[int] = []
    kind = False
    while ready[0] or ready[1]:
        kind = kind if ready[kind] else not kind
        order.append(heapq.heappop(ready[kind]))
        for number in after[order[-1]]:
            waiting[number] -= 1
            if not waiting[number]:
                heapq.heappush(ready[bool(kinds) and kinds[number]], number)
    return order
