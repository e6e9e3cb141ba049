"""Edges of graphs: two steps wait for each other if they conflict in a byte, and no edge says what others say."""

from __future__ import annotations

import array
import random
from collections.abc import Sequence

import pytest

from stablehlo_py.backends.gpu.driver.dependencies import Order, Range, dependencies
from stablehlo_py.backends.gpu.driver.recording import COPY
from stablehlo_py.runtime.accesses import Accesses

Step = tuple[Sequence[Range], Sequence[Range]] | None  # reads, writes; None: unknown


def edges(*steps: Step) -> list[list[int]]:
    order = Order()
    for step in steps:
        if step is None:
            order.add_unknown()
        else:
            order.add(*step)
    return order.before


A, B, C, D = ((place, place + 16) for place in range(64, 192, 32))


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([([A], [B]), ([C], [D])], [[], []]),
        ([([A], [B]), ([A], [C])], [[], []]),  # both read
        ([([A], [B]), ([B], [C])], [[], [0]]),  # a write, then a read
        ([([A], [B]), ([C], [A])], [[], [0]]),  # a read, then a write
        ([([], [B]), ([], [B])], [[], [0]]),
        ([([], [A]), ([A], [B]), ([A], [C]), ([B, C], [D])], [[], [0], [0], [2, 1]]),
        ([([], [A]), ([A], [B]), ([A, B], [C])], [[], [0], [1]]),  # 0 has ended before 1 begins
        ([([], [A]), ([A], [A]), ([], [A])], [[], [0], [1]]),  # in place
        ([([], [(0, 8)]), ([], [(8, 16)]), ([(7, 9)], [])], [[], [], [1, 0]]),
        ([([], [(0, 16)]), ([], [(4, 8)]), ([(0, 4)], []), ([(4, 8)], [])], [[], [0], [0], [1]]),
        ([([(0, 16)], []), ([], [(4, 8)]), ([], [(0, 16)])], [[], [0], [1]]),
        ([([(5, 5)], []), ([], [(0, 16)])], [[], []]),  # no byte
    ],
)  # fmt: skip
def test_conflicts(steps: list[Step], expected: list[list[int]]) -> None:
    assert edges(*steps) == expected


def test_a_step_of_which_nothing_is_known() -> None:
    """All before it have ended, all others wait for it."""
    found = edges(([], [A]), ([A], [B]), ([], [C]), None, ([], [D]), ([D], []), ([C], []), None, None)
    assert found == [[], [0], [], [2, 1], [3], [4], [3], [6, 5], [7]]


def test_steps_as_native_code_writes_them() -> None:
    numbers = array.array("q")

    def step(kernel: int, size: int, *operands: int) -> None:
        numbers.extend([0, 0, kernel, 1, 1, size, len(operands), *operands])

    accesses = [Accesses((8, 0, 0), (0, 8, 64)), Accesses((8, 0), (0, 4)), None]
    step(0, 0, 1000, 1008, 2000)
    step(0, 0, 1016, 1024, 2000)  # the same scratch memory
    step(1, 0, 1008, 1032)
    step(COPY, 8, 1040, 1032)  # reads 4 bytes of what the last one wrote
    step(COPY, 8, 1000, 1048)  # writes what the first one read
    step(2, 0, 5)
    assert dependencies(numbers, accesses).before == [[], [0], [0], [2], [0], [4, 3, 1]]


def drawn(rng: random.Random) -> Step:
    if rng.random() < 0.05:
        return None

    def ranges(most: int) -> list[Range]:
        begins = [rng.randrange(40) for _ in range(rng.randrange(most + 1))]
        return [(begin, begin + rng.randrange(10)) for begin in begins]

    return ranges(3), ranges(2)


def conflict(one: Step, other: Step) -> bool:
    if one is None or other is None:
        return True
    both = [(one[1], other[1]), (one[1], other[0]), (one[0], other[1])]
    sets = [(set().union(*(range(*each) for each in left)), set().union(*(range(*each) for each in right)))
            for left, right in both]  # fmt: skip
    return any(left & right for left, right in sets)


@pytest.mark.parametrize("seed", range(200))
def test_against_all_pairs(seed: int) -> None:
    """What waits directly or by way of others is what conflicts, closed under that; each edge is needed."""
    rng = random.Random(seed)
    steps = [drawn(rng) for _ in range(rng.randrange(2, 30))]
    needed: list[set[int]] = []
    for number, step in enumerate(steps):
        direct = [before for before in range(number) if conflict(steps[before], step)]
        needed.append(set(direct).union(*(needed[before] for before in direct)))
    found: list[set[int]] = []
    for before in edges(*steps):
        found.append(set(before).union(*(found[each] for each in before)))
        assert all(one not in found[other] for one in before for other in before)
    assert found == needed
