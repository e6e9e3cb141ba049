"""Blocks and conditions of what native code writes down."""

from __future__ import annotations

import array

import pytest

from stablehlo_py.backends.gpu.driver.dependencies import dependencies
from stablehlo_py.backends.gpu.driver.recording import BODY, END, READ, Step
from stablehlo_py.backends.gpu.driver.structure import Block, Condition, Setting, block_of
from stablehlo_py.errors import InternalError
from stablehlo_py.runtime.accesses import Accesses

KERNEL = (0, 0, 0, 0, 100)  # the first kernel, which reads 4 bytes there
WRITER = (1, 0, 0, 0, 100)  # writes them
LOST = (2, 0, 0, 0)  # nothing is known of it
END_ = (END, 0, 0, 0)
ACCESSES = [Accesses((4,), (0,)), Accesses((0,), (4,)), None]


def written(*steps: tuple[int, ...]) -> array.array[int]:
    numbers = array.array("q")
    for kernel, blocks, threads, size, *operands in steps:
        numbers.extend([0, 0, kernel, blocks, threads, size, len(operands), *operands])
    return numbers


def read(scalar: int, place: int = 200) -> tuple[int, ...]:
    return (READ, scalar, 0, 1, place)


def body(scalar: int, way: int = 0, ways: int = 1) -> tuple[int, ...]:
    return (BODY, scalar, way, ways)


def shape(block: Block) -> list[object]:
    """Steps by their kernel, settings by their conditions, blocks by theirs and what is in them."""
    found: list[object] = []
    for node in block.nodes:
        if isinstance(node, Step):
            found.append(node.kernel)
        elif isinstance(node, Setting):
            found.append(node.conditions)
        else:
            found.append((node.condition.number, node.is_loop, shape(node.body)))
    return found


def test_branches() -> None:
    steps = [KERNEL, read(0), read(1), body(0, 1, 2), WRITER, END_, body(0, 0, 2), KERNEL, END_]
    found = block_of(written(*steps, KERNEL))
    both = [Condition(0, 1, 1), Condition(1, 0, 1)]
    assert shape(found) == [0, both, (0, False, [1]), (1, False, [0]), 0]  # nobody asks for scalar 1


def test_ways_without_kernels_have_no_block() -> None:
    steps = [read(0), body(0, 0, 3), END_, body(0, 1, 3), read(7), END_, body(0, 2, 3), KERNEL, END_]
    assert shape(block_of(written(*steps))) == [[Condition(2, 2, 2)], (2, False, [0])]
    assert shape(block_of(written(*steps[:6]))) == []


def test_loops_set_their_condition_twice() -> None:
    inner = [read(1), body(1), KERNEL, read(1), END_]
    steps = [read(0), body(0), *inner, read(0), END_, read(0), body(0), KERNEL, read(0), END_]
    outer, second, third = Condition(0, 1, 1), Condition(1, 1, 1), Condition(2, 1, 1)
    one = (0, True, [[second], (1, True, [0, [second]]), [outer]])
    assert shape(block_of(written(*steps))) == [[outer], one, [third], (2, True, [0, [third]])]


def test_edges() -> None:
    """A block is in order with what its kernels conflict with, and behind what sets its condition."""
    steps = [WRITER, read(0), KERNEL, body(0, 1, 2), KERNEL, WRITER, END_, KERNEL]
    found = dependencies(written(*steps), ACCESSES)
    assert found.before == [[], [], [0], [2, 1], [3]]
    (inner,) = found.conditionals
    assert inner.body.before == [[], [0]]


def test_the_scalar_is_read_before_it_is_written_again() -> None:
    found = dependencies(written(read(0, 100), body(0, 1, 2), KERNEL, END_, WRITER), ACCESSES)
    assert found.before == [[], [0], [1]]


def test_a_block_of_which_nothing_is_known() -> None:
    steps = [KERNEL, read(0, 300), body(0), LOST, read(0, 300), END_, read(1, 400), body(1), KERNEL, read(1, 400), END_]
    found = dependencies(written(*steps), ACCESSES)
    assert found.before == [[], [], [1, 0], [2], [3]]


@pytest.mark.parametrize(
    "steps", [[body(0, 1, 2)], [read(0), body(1)], [read(0), body(0), KERNEL, END_], [read(0), body(0)]]
)
def test_what_is_not_whole(steps) -> None:
    with pytest.raises(InternalError, match="a branch of a graph"):
        block_of(written(*steps))
